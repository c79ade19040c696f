"""JSON text to values: :func:`loads` for programs, :func:`read` for files that people write.

:func:`loads` is the C decoder of :mod:`json` with hooks. :func:`read` is a pushdown parser in Python
that accepts the same language, never recurses and knows the position of every value: it explains
mistakes, reads what nests too deep for :mod:`json`, and is the oracle of the tests for :func:`loads`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, NoReturn

from callmemaybe.errors import InputError, LongNumber
from callmemaybe.jsonio.pointer import join_pointer, split_pointer

#: Deeper than any tool definition; shallow enough for every recursive function that gets the value.
MAX_DEPTH = 500
#: Python refuses int(text) of more than 4,300 digits, and its time grows with their square.
MAX_INT_DIGITS = 4000

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
#: A string up to its closing quote, or up to the first character that may not stand in it.
_STRING_PREFIX = re.compile(r'"(?:[^"\\\x00-\x1f]+|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NUMBERISH = re.compile(r"[-+]?[0-9.][0-9a-zA-Z.+-]*|[-+]")
_WORD = re.compile(r"[-+]?[A-Za-z_$][A-Za-z0-9_$]*")
_CONSTANTS = {"true": True, "false": False, "null": None}

_Marks = dict[str, int] | list[int]


class _DuplicateKey(InputError):
    """An object has the key ``key`` twice."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {_quoted(key)} occurs twice", hint="keep one of the two")
        self.key = key


# --- values without places -------------------------------------------------------------------------


def loads(
    text: str,
    *,
    where: str | None = None,
    exact: bool = True,
    strict: bool = False,
    max_bytes: int | None = None,
    max_depth: int | None = None,
    max_digits: int | None = None,
) -> Any:
    """Return the value of a JSON text, without recursion and without rounding.

    Numbers: int of any size and Decimal; with ``exact=False`` int of at most 4,300 digits and finite
    float, as :mod:`json` reads them. ``strict`` refuses duplicate keys (else the last one counts) and
    halves of surrogate pairs. The limits are checked before a value is made: bytes of UTF-8, nested
    brackets, and digits of one number together with those of its exponent.

    Raises InputError naming ``where`` for text that is not JSON (``NaN`` is not) or breaks a limit, and
    LongNumber, which is one, for ``max_digits`` and for an exponent that Decimal cannot hold.
    """
    if max_bytes is not None and _is_longer(text, max_bytes):
        raise InputError(f"more than {max_bytes} bytes of JSON", where=where)
    if max_depth is not None and is_deeper(text, max_depth):
        raise InputError(f"JSON nested deeper than {max_depth}", where=where)
    try:
        try:
            value = _decoder(exact, strict, max_digits)(text)
        except RecursionError:
            number = _exact_number(max_digits) if exact else _json_number
            deep = read(text, source=where or "JSON", number=number, max_depth=None, strict=strict)
            return deep.value
    except InputError as error:
        error.where = error.where or where
        raise
    except ValueError as error:
        raise InputError(f"not valid JSON: {error}", where=where) from None
    if strict and (not text.isascii() or "\\u" in text) and _has_half_pair(text):
        raise InputError("a string holds half of a surrogate pair", where=where)
    return value


def check_syntax(text: str, *, where: str | None = None) -> None:
    """Raise InputError naming ``where`` if a text is not JSON, in linear time: numbers stay digits.

    Control characters in strings are accepted, since :func:`rewrite` escapes them.
    """
    try:
        json.loads(
            text, parse_float=str, parse_int=str, parse_constant=_refuse_constant, strict=False
        )
    except RecursionError:
        read(text, source=where or "JSON", number=str, max_depth=None, strict=False)
    except ValueError as error:
        raise InputError(f"not valid JSON: {error}", where=where) from None


def find_duplicate_key(text: str) -> str | None:
    """Return a key that some object of a valid JSON text has twice; None where there is none."""
    if text.count(":") < 2:
        return None
    try:
        _KEY_CHECKER(text)
    except _DuplicateKey as error:
        return error.key
    except RecursionError:
        parser = _JsonParser(text, "JSON", str, max_depth=None, strict=False)
        parser.document()
        return parser.duplicate_key
    return None


def is_deeper(text: str, limit: int) -> bool:
    """Return whether the brackets of a JSON text nest deeper than ``limit``; linear time."""
    if text.count("[") + text.count("{") <= limit:
        return False
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", _STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > limit:
            return True
    return False


def has_lone_surrogate(text: str) -> bool:
    """Return whether a string holds half of a surrogate pair, which has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


# --- numbers ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RawNumber:
    """A JSON number as the digits it was written with; ``dumps`` writes them again."""

    digits: str

    def __str__(self) -> str:
        return self.digits


def parse_number(digits: str) -> int | float | Decimal:
    """Return the value of a JSON number without rounding it.

    An integer literal gives int; anything else float where the float prints the same number again,
    else Decimal. Raises InvalidOperation for an exponent beyond Decimal's range (10**18).
    """
    if digits.lstrip("-").isdigit() and len(digits) <= MAX_INT_DIGITS:
        return int(digits)
    return float_if_exact(Decimal(digits))


def float_if_exact(exact: Decimal) -> float | Decimal:
    """Return the float that prints the same number again; the Decimal itself where there is none."""
    value = float(exact)
    return value if Decimal(repr(value)) == exact else exact


def map_decimals(value: Any, change: Callable[[Decimal], Any]) -> Any:
    """Return a value with ``change`` applied to each Decimal in it, at any depth."""
    if isinstance(value, Decimal):
        return change(value)
    if isinstance(value, list):
        return [map_decimals(one, change) for one in value]
    if isinstance(value, dict):
        return {name: map_decimals(one, change) for name, one in value.items()}
    return value


@lru_cache(maxsize=32)
def _decoder(exact: bool, strict: bool, max_digits: int | None) -> Callable[[str], Any]:
    """Return a C decoder; making one takes longer than reading a short text with it."""
    return json.JSONDecoder(
        object_pairs_hook=_distinct_keys if strict else None,
        parse_constant=_refuse_constant,
        parse_float=_exact_number(max_digits) if exact else _finite_float,
        # int itself is in C, and refuses what is longer than 4,300 digits.
        parse_int=_exact_number(max_digits) if exact else int,
    ).decode


def _exact_number(max_digits: int | None) -> Callable[[str], int | Decimal]:
    def convert(digits: str) -> int | Decimal:
        is_long = max_digits is not None and len(digits) > max_digits
        if is_long and sum(map(str.isdigit, digits.lstrip("-0."))) > (max_digits or 0):
            raise LongNumber(f"a number has more than {max_digits:,} digits")
        is_integer = digits.isdigit() or digits[1:].isdigit()
        if is_integer and len(digits) <= MAX_INT_DIGITS:
            return int(digits)
        try:
            # int(str) refuses long texts (CVE-2020-10735); by way of Decimal it is exact, without limit.
            return int(Decimal(digits)) if is_integer else Decimal(digits)
        except InvalidOperation:
            raise LongNumber("a number has an exponent beyond all counting") from None

    return convert


def _json_number(digits: str) -> int | float:
    return int(digits) if digits.lstrip("-").isdigit() else _finite_float(digits)


def _finite_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:40]} is too large")
    return number


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON value")


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKey(key)
            seen.add(key)
    return value


_KEY_CHECKER = json.JSONDecoder(
    object_pairs_hook=_distinct_keys, parse_float=str, parse_int=str, strict=False
).decode


def _is_longer(text: str, max_bytes: int) -> bool:
    # A character has one to four bytes.
    if len(text) * 4 <= max_bytes:
        return False
    return len(text) > max_bytes or len(text.encode(errors="surrogatepass")) > max_bytes


def _has_half_pair(text: str) -> bool:
    """Return whether JSON text holds half of a surrogate pair, as a character or as an escape."""
    if has_lone_surrogate(text):
        return True
    return _SURROGATE.search(text) is not None and any(
        one["lone"] for one in _ESCAPE.finditer(text)
    )


# --- values with places ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """A JSON value and the position of each of its parts in the text it was read from."""

    value: object
    text: str
    source: str
    first_line: int = 1
    _offsets: dict[int, _Marks] = field(default_factory=dict, repr=False)

    def place(self, pointer: str = "") -> str:
        """Return ``file:line:column (pointer)`` of the value at ``pointer``, or of the nearest one."""
        where = _position(self.source, self.text, self._offset(pointer), self.first_line)
        return f"{where} ({pointer})" if pointer else where

    def _offset(self, pointer: str) -> int:
        value, offset = self.value, _skip_space(self.text)
        for key in split_pointer(pointer):
            marks = self._offsets.get(id(value))
            if isinstance(value, dict) and isinstance(marks, dict) and key in value:
                value, offset = value[key], marks[key]
            elif isinstance(value, list) and isinstance(marks, list) and _is_index(key, value):
                value, offset = value[int(key)], marks[int(key)]
            else:
                break
        return offset


def read(
    text: str,
    *,
    source: str,
    number: Callable[[str], object] = parse_number,
    first_line: int = 1,
    max_depth: int | None = MAX_DEPTH,
    strict: bool = True,
) -> JsonDocument:
    """Parse one JSON text; ``number`` turns the digits of a number into its value.

    ``source`` is the name of the text in error messages, and ``first_line`` the number of its first
    line. ``strict`` is that of :func:`loads`. Raises InputError with file, line, column, JSON pointer
    and what to change.
    """
    parser = _JsonParser(
        text, source, number, first_line=first_line, max_depth=max_depth, strict=strict
    )
    value = parser.document()
    return JsonDocument(value, text, source, first_line, parser.offsets)


def _position(source: str, text: str, offset: int, first_line: int) -> str:
    """Return ``source:line:column`` of an offset; both count from 1, columns in characters."""
    line = text.count("\n", 0, offset) + first_line
    return f"{source}:{line}:{offset - text.rfind(chr(10), 0, offset)}"


def _is_index(key: str, items: list[object]) -> bool:
    return key.isascii() and key.isdecimal() and len(key) < 10 and int(key) < len(items)


def _skip_space(text: str, start: int = 0) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


@dataclass(slots=True)
class _OpenContainer:
    """An array or object whose end is not read yet."""

    container: dict[str, object] | list[object]
    marks: _Marks
    start: int
    key: str = ""


class _JsonParser:
    """One pass over a text; the stack holds the open arrays and objects."""

    def __init__(
        self,
        text: str,
        source: str,
        number: Callable[[str], object],
        *,
        max_depth: int | None,
        strict: bool,
        first_line: int = 1,
    ) -> None:
        self.offsets: dict[int, _Marks] = {}
        self.duplicate_key: str | None = None
        self._text = text
        self._source = source
        self._number = number
        self._first_line = first_line
        self._max_depth = max_depth
        self._strict = strict
        self._at = 0
        self._stack: list[_OpenContainer] = []

    def document(self) -> object:
        self._at = _skip_space(self._text)
        value = self._value()
        while self._stack:
            self._item(self._stack[-1])
        self._at = _skip_space(self._text, self._at)
        if self._at < len(self._text):
            raise self._error("there is more text after the end of the value", "remove it")
        return value

    def _item(self, frame: _OpenContainer) -> None:
        """Read one more item of the innermost container, or its end."""
        container = frame.container
        closing = "}" if isinstance(container, dict) else "]"
        character = self._peek()
        if character == closing:
            self._at += 1
            self._stack.pop()
            return
        if container:
            if character != ",":
                self._fail_between(frame, closing)
            comma = self._at
            self._at += 1
            if self._peek() == closing:
                self._at = comma
                raise self._error("a comma before the closing bracket", "remove the comma")
        if isinstance(container, dict):
            assert isinstance(frame.marks, dict)
            frame.key = self._key(container)
            frame.marks[frame.key] = self._at
            # Filled in now or, for a container, while it is on the stack.
            container[frame.key] = None
            container[frame.key] = self._value()
        else:
            assert isinstance(frame.marks, list)
            self._peek()
            frame.marks.append(self._at)
            container.append(self._value())

    def _key(self, container: dict[str, object]) -> str:
        if self._peek() != '"':
            self._fail_key()
        start = self._at
        key = self._string()
        if key in container:
            self.duplicate_key = key
            if self._strict:
                self._at = start
                raise self._error(f"the key {_quoted(key)} occurs twice", "keep one of the two")
        if self._peek() != ":":
            raise self._error(
                f"a colon is missing after the key {_quoted(key)}", 'write "key": value'
            )
        self._at += 1
        self._peek()
        return key

    def _value(self) -> object:
        character = self._text[self._at : self._at + 1]
        if character == '"':
            return self._string()
        if character and character in "{[":
            return self._open({} if character == "{" else [])
        match = _NUMBER.match(self._text, self._at)
        if match and not _NUMBERISH.match(self._text, match.end()):
            try:
                value = self._number(match.group())
            except InvalidOperation:
                raise self._error(
                    "the number has an exponent beyond all counting", "write a smaller one"
                ) from None
            self._at = match.end()
            return value
        match = _WORD.match(self._text, self._at)
        if match and match.group() in _CONSTANTS:
            self._at = match.end()
            return _CONSTANTS[match.group()]
        return self._fail_value(character)

    def _open(self, container: dict[str, object] | list[object]) -> object:
        if self._max_depth is not None and len(self._stack) >= self._max_depth:
            raise self._error(
                f"nested more than {self._max_depth} levels deep",
                "flatten the value",
                pointer=False,
            )
        marks: _Marks = {} if isinstance(container, dict) else []
        self.offsets[id(container)] = marks
        self._stack.append(_OpenContainer(container, marks, self._at))
        self._at += 1
        return container

    def _string(self) -> str:
        text, start = self._text, self._at
        match = _STRING_PREFIX.match(text, start)
        assert match is not None
        end = match.end()
        character = text[end : end + 1]
        if not character:
            raise self._error("a string is never closed", 'add the missing "')
        self._at = end
        if character == "\\":
            letter = text[end + 1 : end + 2]
            raise self._error(f"\\{letter} is not an escape of JSON", "write \\\\ for a backslash")
        if character != '"':
            raise self._error(
                f"a string holds the control character U+{ord(character):04X}",
                "write it as an escape such as \\n",
            )
        if self._strict and _SURROGATE.search(text, start, end):
            for escape in _ESCAPE.finditer(text, start, end):
                if escape["lone"]:
                    self._at = escape.start()
                    raise self._error(
                        f"{escape.group().lower()} is half of a surrogate pair",
                        "write both halves or the character",
                    )
        self._at = end + 1
        return str(json.loads(text[start : self._at]))

    def _peek(self) -> str:
        """Skip white space and return the next character, "" at the end."""
        self._at = _skip_space(self._text, self._at)
        return self._text[self._at : self._at + 1]

    def _fail_between(self, frame: _OpenContainer, closing: str) -> None:
        if self._at >= len(self._text):
            self._at = frame.start
            what = "object" if closing == "}" else "array"
            raise self._error(
                f"the {what} is never closed", f"add the missing {closing}", pointer=False
            )
        raise self._error(
            f"expected a comma or {closing}, found {self._found()}", "check the line before, too"
        )

    def _fail_key(self) -> None:
        if self._at >= len(self._text):
            self._at = self._stack[-1].start
            raise self._error("the object is never closed", "add the missing }", pointer=False)
        raise self._error(
            f"expected a key in double quotes, found {self._found()}", 'write "key": value'
        )

    def _fail_value(self, character: str) -> object:
        if not character:
            raise self._error("the text ends where a value should be", "the file may be cut off")
        word = _WORD.match(self._text, self._at)
        if word and word.group().lstrip("+-").lower() in {"nan", "infinity", "inf"}:
            raise self._error(f"JSON has no {word.group()}", "use a number or null")
        if word:
            raise self._error(
                f"expected a value, found {word.group()[:40]}",
                "texts need double quotes; the words of JSON are true, false and null",
            )
        number = _NUMBERISH.match(self._text, self._at)
        if number:
            raise self._error(
                f"{number.group()[:40]} is not a number of JSON",
                "no leading + or zeros, digits on both sides of the point",
            )
        hint = {"'": "use double quotes", "/": "JSON has no comments"}.get(character)
        raise self._error(f"expected a value, found {self._found()}", hint)

    def _found(self) -> str:
        character = self._text[self._at]
        return character if character.isprintable() else f"U+{ord(character):04X}"

    def _error(self, message: str, hint: str | None = None, *, pointer: bool = True) -> InputError:
        where = _position(self._source, self._text, self._at, self._first_line)
        is_shown = pointer and len(self._stack) <= MAX_DEPTH
        path = join_pointer(self._path()) if is_shown else ""
        return InputError(message, where=f"{where} ({path})" if path else where, hint=hint)

    def _path(self) -> Iterator[str | int]:
        for frame in self._stack:
            if isinstance(frame.container, list):
                is_innermost = frame is self._stack[-1]
                yield len(frame.container) - (not is_innermost)
            elif frame.key:
                yield frame.key


def _quoted(text: str) -> str:
    return '"' + (text if len(text) <= 60 else text[:57] + "...") + '"'
