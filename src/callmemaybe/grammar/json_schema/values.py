"""JSON values of a schema (enum, const): their equality, their texts, and the spacing of a style."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from json.encoder import encode_basestring
from typing import Any

from callmemaybe.grammar.json_schema.intervals import decimal_digits
from callmemaybe.grammar.json_schema.shapes import (
    ARRAY,
    FALSE,
    FRACTION,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    TRUE,
)
from callmemaybe.grammar.nodes import EMPTY, Node, byte_set, lexeme, lit, opt, repeat, seq

#: Texts of one constant array or object.
_MANY = 16
#: Integers up to here are floats without loss, and written without an exponent.
_EXACT = 2**53
#: Digits of a number of a schema, written without exponent (as many as Python's int() reads): 1e999999999
#: is ten characters long, and its digits would fill the memory.
DIGITS = 4_300
#: The bits of an integer with that many digits.
_LONG = DIGITS * 3322 // 1000
_TRUE, _FALSE = ("true",), ("false",)


def kind_of(value: Any) -> int:
    """Return the kind of a JSON value; TypeError if it is none."""
    if isinstance(value, str):
        return STRING
    if value is None:
        return NULL
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, int):
        if value.bit_length() > _LONG:
            raise _too_long()
        return INTEGER
    if isinstance(value, float | Decimal):
        return INTEGER if exact(value).denominator == 1 else FRACTION
    if isinstance(value, list | tuple):
        return ARRAY
    if isinstance(value, dict):
        return OBJECT
    raise TypeError(f"{type(value).__name__} is no JSON value")


def exact(number: float | Decimal) -> Fraction:
    """Return the exact value of a number as written: 0.1 is a tenth.

    Raises ValueError if it is not finite, or longer than DIGITS.
    """
    if isinstance(number, Decimal) and number.is_finite():
        if not number:
            return Fraction(0)
        _, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int)
        if max(len(digits) + exponent, -exponent, len(digits)) > DIGITS:
            raise _too_long()
    if isinstance(number, int) and number.bit_length() > _LONG:
        raise _too_long()
    try:
        return Fraction(repr(number) if isinstance(number, float) else number)
    except (ValueError, OverflowError):
        raise ValueError(f"{number} is no JSON number") from None


def _too_long() -> ValueError:
    return ValueError(f"a number of more than {DIGITS:,} digits is not supported")


def identity(value: Any) -> Any:
    """Return a hashable key that is equal for equal JSON values only (1 equals 1.0, not true)."""
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, int):
        if value.bit_length() > _LONG:
            raise _too_long()
        return value
    if isinstance(value, float | Decimal):
        number = exact(value)
        return number.numerator if number.denominator == 1 else number
    if isinstance(value, list | tuple):
        return ("[", *map(identity, value))
    if isinstance(value, dict):
        return ("{", frozenset((key, identity(inner)) for key, inner in value.items()))
    raise TypeError(f"{type(value).__name__} is no JSON value")


def quoted(text: str) -> str:
    """Write a string as json.dumps(ensure_ascii=False) does."""
    return encode_basestring(text)


def can_be_written(text: str) -> bool:
    """Whether UTF-8 can encode a text: halves of surrogate pairs it cannot."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def spellings(value: Any, kinds: int, separators: tuple[str, str] | None) -> list[str] | None:
    """Return every text of a value; None for an array or object with very many, or with free spacing.

    An integer is written as integer, and as float, where the kinds allow it.
    """
    if isinstance(value, str):
        return [quoted(value)] if can_be_written(value) else []
    if value is None or isinstance(value, bool):
        return ["null" if value is None else str(value).lower()]
    if isinstance(value, int | float | Decimal):
        return number_texts(value, kinds)
    if separators is None:
        return None
    comma, colon = separators
    is_object = isinstance(value, dict)
    found = [""]
    items: list[tuple[str, Any]] = (
        list(value.items()) if is_object else [("", inner) for inner in value]
    )
    for key, inner in items:
        ends = spellings(inner, NUMBER, separators)
        if is_object and not can_be_written(key):
            return []
        if ends is None or len(found) * len(ends) > _MANY:
            return None
        start = f"{quoted(key)}{colon}" if is_object else ""
        found = [f"{text}{comma if text else ''}{start}{end}" for text in found for end in ends]
    return [f"{{{text}}}" if is_object else f"[{text}]" for text in found]


def number_texts(value: float | Decimal, kinds: int) -> list[str]:
    """Return the texts of a number: as integer, and as float, where the kinds allow it."""
    if isinstance(value, int) and abs(value) <= _EXACT:
        return [str(value), f"{value}.0"] if kinds & FRACTION else [str(value)]
    number = Fraction(value) if isinstance(value, int) else exact(value)
    if number.denominator != 1:
        return [json.dumps(value) if isinstance(value, float) else _plain(number)]
    whole = _plain(number)
    if not kinds & FRACTION:
        return [whole]
    try:
        as_float = float(number)
    except OverflowError:
        return [whole]
    return [whole, json.dumps(as_float)] if exact(as_float) == number else [whole]


def grounded_number_texts(value: int | Decimal, kinds: int) -> list[str]:
    """Return :func:`number_texts` and the number in its original digits: 12.50 and 1e9, not only 12.5."""
    found = number_texts(value, kinds)
    if isinstance(value, Decimal) and kinds & FRACTION:
        is_long = str(value).partition("E")[2].startswith("+")
        own = str(value).replace("E+", "e") if is_long else f"{value:f}"
        found += [own] if own not in found else []
    return found


def _plain(number: Fraction) -> str:
    """Write a finite decimal without exponent, whatever its length."""
    places = 0
    while (number * 10**places).denominator != 1:
        places += 1
    digits = decimal_digits(abs(number.numerator) * 10**places // number.denominator)
    if places:
        digits = digits.rjust(places + 1, "0")
        digits = f"{digits[:-places]}.{digits[-places:]}"
    return f"-{digits}" if number < 0 else digits


# A newline and an indent; bounded, so that no model can loop in it.
_LONGEST_INDENT = 40
_SPACE = lexeme(seq(opt(lit("\n")), repeat(byte_set(b" \t"), 0, _LONGEST_INDENT)))


@dataclass(frozen=True, slots=True)
class JsonStyle:
    """What separates and surrounds the tokens of a JSON text."""

    name: str
    comma: Node
    colon: Node
    #: Behind an opening and before a closing bracket or brace.
    padding: Node = EMPTY
    #: The texts of comma and colon, if there is exactly one of each.
    separators: tuple[str, str] | None = None


STYLES: dict[str, JsonStyle] = {
    "spaced": JsonStyle("spaced", lit(", "), lit(": "), separators=(", ", ": ")),
    "compact": JsonStyle("compact", lit(","), lit(":"), separators=(",", ":")),
    "flexible": JsonStyle(
        "flexible", seq(_SPACE, lit(","), _SPACE), seq(_SPACE, lit(":"), _SPACE), _SPACE
    ),
}
