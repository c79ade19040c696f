"""Read JSON without losing a digit and without a limit on nesting.

The standard reader rounds to floats, refuses integers of more than 4,300 digits and overflows its
stack on deep nesting; a generated call may have any of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn, TypeVar

from callmemaybe.errors import InputError
from callmemaybe.jsonio.reader import read

#: A string that is never closed is one token, too: so each character is looked at once.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[][{}:,]|[^][{}:,"\s]+', re.DOTALL)
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_Number = TypeVar("_Number")
#: Digits that Python makes an integer of at once; the time that more of them take grows with their square.
PLAIN_DIGITS = 4000


class LongNumber(InputError):
    """A JSON text holds a number that is larger than whoever reads it wants to count with."""


def loads(text: str, *, where: str | None = None, most_digits: int | None = None) -> Any:
    """Return the value of a JSON text: int of any size, Decimal for other numbers.

    Raises InputError naming ``where`` if the text is not JSON (``NaN`` is not); LongNumber, before the
    number is made, for one of more than ``most_digits`` digits, or of an exponent beyond all counting.
    """
    try:
        try:
            return json.loads(
                text,
                parse_float=_short(_fraction, most_digits),
                parse_int=_short(_integer, most_digits),
                parse_constant=_refuse,
            )
        except RecursionError:
            source, number = where or "JSON", _short(_exact, most_digits)
            return read(text, source=source, number=number, max_depth=None, lenient=True).value
    except _Long as error:
        raise LongNumber(str(error), where=where) from None
    except ValueError as error:
        raise InputError(f"not valid JSON: {error}", where=where) from None


def check(text: str, *, where: str | None = None) -> None:
    """Look whether a text is JSON, in linear time: nothing is made of the digits of its numbers.

    Control characters in strings are let pass, for :func:`rewrite` escapes them. Raises InputError
    naming ``where``.
    """
    try:
        json.loads(text, parse_float=str, parse_int=str, parse_constant=_refuse, strict=False)
    except RecursionError:
        read(text, source=where or "JSON", number=str, max_depth=None, lenient=True)
    except ValueError as error:
        raise InputError(f"not valid JSON: {error}", where=where) from None


def dumps(
    value: Any,
    *,
    compact: bool = False,
    default: Callable[[Any], Any] | None = None,
    canonical: bool = False,
) -> str:
    """Write a value as JSON with its own letters; Decimal digit by digit, nesting without limit.

    The separators are those of :func:`json.dumps`, or none around them when ``compact``. ``default``
    turns what JSON has no form for into what it has one for, as that of :func:`json.dumps` does, and
    objects with keys that are no strings, too. ``canonical``: equal values become equal texts, 1 and
    1.0 too, and objects whatever the order of their keys; true is no 1. Raises InputError for a value
    that holds itself, and for a number that is not finite.
    """
    comma, colon = (",", ":") if compact else (", ", ": ")
    out: list[str] = []
    within: set[int] = set()
    stack: list[Any] = [_Value(value)]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            out.append(item)
            continue
        if isinstance(item, _End):
            within.discard(id(item.value))
            out.append(item.mark)
            continue
        value = item.value
        if default is not None and not _is_plain(value):
            value = default(value)
        if isinstance(value, dict):
            parts: list[Any] = ["{"]
            keys = sorted(value) if canonical else value
            for index, key in enumerate(keys):
                parts += [f"{comma if index else ''}{_plain_string(key)}{colon}"]
                parts += [_Value(value[key])]
            stack += reversed([*parts, _entered(value, "}", within)])
        elif isinstance(value, list | tuple):
            parts = ["["]
            for index, inner in enumerate(value):
                parts += [comma, _Value(inner)] if index else [_Value(inner)]
            stack += reversed([*parts, _entered(value, "]", within)])
        elif canonical and isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            out.append(_canonical_number(value))
        else:
            out.append(_scalar(value))
    return "".join(out)


def rewrite(text: str, *, compact: bool = False) -> str:
    """Write a valid JSON text in one style: our separators, plain strings, every digit as it was.

    Strings escape only what must be escaped (and halves of surrogate pairs, which UTF-8 cannot
    carry). Of the text only the strings are checked: raises InputError for one that is broken or never
    closed.
    """
    comma, colon = (",", ":") if compact else (", ", ": ")
    marks = {",": comma, ":": colon}
    try:
        return "".join(
            _plain_string(json.loads(token, strict=False))
            if token[0] == '"'
            else marks.get(token, token)
            for token in _TOKEN.findall(text)
        )
    except ValueError as error:
        raise InputError(f"not valid JSON: {error}") from None


def repeated_key(text: str) -> str | None:
    """Return a key that some object of a valid JSON text has twice; None where there is none."""
    if text.count(":") < 2:
        return None
    objects: list[set[str]] = []
    last = ""
    for mark in _TOKEN.findall(text):
        if mark in "{[":
            objects.append(set())
        elif mark in "}]":
            objects.pop()
        elif mark == ":":
            key = json.loads(last, strict=False)
            if key in objects[-1]:
                return str(key)
            objects[-1].add(key)
        else:
            last = mark
    return None


def _plain_string(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return _HALF_PAIR.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _is_plain(value: Any) -> bool:
    """Whether :func:`dumps` has a form for the value itself, whatever is in it."""
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value)
    return value is None or isinstance(value, str | int | float | Decimal | list | tuple)


class _Value:
    """A value still to be written, as opposed to text."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class _End:
    """The end of an array or object; that is kept until then, so that no other one gets its id."""

    __slots__ = ("mark", "value")

    def __init__(self, value: Any, mark: str) -> None:
        self.value = value
        self.mark = mark


def _entered(value: Any, mark: str, within: set[int]) -> _End:
    """Return the end of an array or object that is entered; raise InputError inside of itself."""
    if id(value) in within:
        raise InputError("the value holds itself, and a JSON text of it would have no end")
    within.add(id(value))
    return _End(value, mark)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _plain_string(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 10_000:
        return _decimal(Decimal(value))
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _canonical_number(value: float | Decimal) -> str:
    """Spell a number in one way, with the exponent of its first digit, which is never written out."""
    exact = Decimal(repr(value) if isinstance(value, float) else value)
    if not exact.is_finite():
        raise InputError("JSON has no infinity and no NaN")
    first, _, exponent = f"{exact:e}".partition("e")
    digits = first.rstrip("0").rstrip(".") if "." in first else first
    return f"{digits}e{exponent}" if exact else "0"


def _decimal(value: Decimal) -> str:
    """Spell a finite Decimal as a JSON number (Decimal writes 1E+2, which JSON accepts)."""
    if not value.is_finite():
        raise InputError("JSON has no infinity and no NaN")
    return str(value)


class _Long(ValueError):
    """A number is too long; :func:`loads` says where."""


def _short(make: Callable[[str], _Number], most: int | None) -> Callable[[str], _Number]:
    """Let ``make`` have a number only if its digits, with those of an exponent, are not too many."""
    if most is None:
        return make
    limit = most

    def short(digits: str) -> _Number:
        if len(digits) > limit and sum(map(str.isdigit, digits.lstrip("-0."))) > limit:
            raise _Long(f"a number has more than {limit:,} digits")
        return make(digits)

    return short


def _exact(digits: str) -> int | Decimal:
    return _integer(digits) if digits.lstrip("-").isdigit() else _fraction(digits)


def _fraction(digits: str) -> Decimal:
    try:
        return Decimal(digits)
    except InvalidOperation:
        raise _Long("a number has an exponent beyond all counting") from None


def _integer(digits: str) -> int:
    # int(str) refuses long texts (CVE-2020-10735); by way of Decimal it is exact and has no limit.
    return int(digits) if len(digits) <= PLAIN_DIGITS else int(Decimal(digits))


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON value")
