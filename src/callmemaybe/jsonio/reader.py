"""JSON text in, values out, with the place of everything that can be wrong.

A strict RFC 8259 reader for files that people write by hand: each error names file, line, column
and JSON pointer and says what to change. Unlike :mod:`json` it refuses duplicate keys, NaN,
Infinity and half surrogate pairs (the first and the last unless told to be lenient), never recurses
(so no depth of nesting can crash it), and leaves the digits of a number to the caller.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from callmemaybe.errors import InputError

#: Deeper than any tool definition; shallow enough for every recursive consumer behind us.
MAX_DEPTH = 500

_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NUMBERISH = re.compile(r"[-+]?[0-9.][0-9a-zA-Z.+-]*|[-+]")
_WORD = re.compile(r"[-+]?[A-Za-z_$][A-Za-z0-9_$]*")
_CONSTANTS = {"true": True, "false": False, "null": None}
_ESCAPES = {
    '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
_MOST_DIGITS_OF_INT = 4000
"""Python refuses to convert integers of more than 4,300 digits."""


class Number(str):
    """A JSON number kept as the digits it was written with."""

    __slots__ = ()


def plain_number(text: str) -> int | float | Decimal:
    """Return the value of a JSON number without ever rounding it.

    An integer literal gives int; anything else float where the float prints the same number
    again, else Decimal. Raises InvalidOperation for an exponent beyond all counting (10**18).
    """
    if text.lstrip("-").isdigit() and len(text) <= _MOST_DIGITS_OF_INT:
        return int(text)
    return as_float(Decimal(text))


def as_float(exact: Decimal) -> float | Decimal:
    """Return the float that prints the same number again; the number itself where there is none."""
    value = float(exact)
    return value if Decimal(repr(value)) == exact else exact


def with_numbers(value: Any, change: Callable[[Decimal], Any]) -> Any:
    """Return a value with its numbers that are no integers changed, at any depth."""
    if isinstance(value, Decimal):
        return change(value)
    if isinstance(value, list):
        return [with_numbers(one, change) for one in value]
    if isinstance(value, dict):
        return {name: with_numbers(one, change) for name, one in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON value together with where each part of it stands in its file."""

    value: object
    text: str
    source: str
    first_line: int = 1
    _offsets: dict[int, dict[str, int] | list[int]] = field(default_factory=dict, repr=False)

    def place(self, pointer: str = "") -> str:
        """Return ``file:line:column (pointer)`` of the value at ``pointer``, or of the nearest."""
        where = place(self.source, self.text, self._offset(pointer), self.first_line)
        return f"{where} ({pointer})" if pointer else where

    def _offset(self, pointer: str) -> int:
        value, offset = self.value, _skip_space(self.text)
        for token in pointer.split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
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
    number: Callable[[str], object] = plain_number,
    first_line: int = 1,
    max_depth: int | None = MAX_DEPTH,
    lenient: bool = False,
) -> Document:
    """Parse one JSON text; ``number`` turns the digits of a number into its value.

    ``source`` and ``first_line`` are what errors call the text. ``lenient`` takes the last of equal
    keys, and halves of surrogate pairs, as :mod:`json` does. Raises InputError.
    """
    reader = _Reader(text, source, number, first_line, max_depth, lenient)
    value = reader.document()
    return Document(value, text, source, first_line, reader.offsets)


def place(source: str, text: str, offset: int, first_line: int = 1) -> str:
    """Return ``source:line:column`` of an offset; both count from 1, columns in characters."""
    line = text.count("\n", 0, offset) + first_line
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return f"{source}:{line}:{column}"


def pointer_token(key: str | int) -> str:
    """Return one step of a JSON pointer (RFC 6901), with its leading slash."""
    return "/" + str(key).replace("~", "~0").replace("/", "~1")


def _is_index(key: str, value: list[object]) -> bool:
    return key.isascii() and key.isdigit() and int(key) < len(value)


def _skip_space(text: str, start: int = 0) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


@dataclass(slots=True)
class _Frame:
    """An array or object that is still open."""

    container: dict[str, object] | list[object]
    marks: dict[str, int] | list[int]
    opened: int
    key: str = ""


class _Reader:
    """One pass over a text; the open arrays and objects are the stack."""

    def __init__(
        self,
        text: str,
        source: str,
        number: Callable[[str], object],
        first_line: int,
        max_depth: int | None,
        lenient: bool,
    ) -> None:
        self.offsets: dict[int, dict[str, int] | list[int]] = {}
        self._text = text
        self._source = source
        self._number = number
        self._first_line = first_line
        self._max_depth = max_depth
        self._lenient = lenient
        self._at = 0
        self._stack: list[_Frame] = []

    def document(self) -> object:
        self._at = _skip_space(self._text)
        value = self._value()
        while self._stack:
            self._item(self._stack[-1])
        self._at = _skip_space(self._text, self._at)
        if self._at < len(self._text):
            raise self._error("there is more text after the end of the value", "remove it")
        return value

    def _item(self, frame: _Frame) -> None:
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
        if key in container and not self._lenient:
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
        marks: dict[str, int] | list[int] = {} if isinstance(container, dict) else []
        self.offsets[id(container)] = marks
        self._stack.append(_Frame(container, marks, self._at))
        self._at += 1
        return container

    def _string(self) -> str:
        text, opened = self._text, self._at
        self._at += 1
        parts: list[str] = []
        while True:
            match = _PLAIN.match(text, self._at)
            assert match is not None
            parts.append(match.group())
            self._at = match.end()
            character = text[self._at : self._at + 1]
            if character == '"':
                self._at += 1
                return "".join(parts)
            if character == "\\":
                parts.append(self._escape())
            elif character:
                raise self._error(
                    f"a string holds the control character U+{ord(character):04X}",
                    "write it as an escape such as \\n",
                )
            else:
                self._at = opened
                raise self._error("a string is never closed", 'add the missing "')

    def _escape(self) -> str:
        text, start = self._text, self._at
        letter = text[start + 1 : start + 2]
        if letter in _ESCAPES:
            self._at += 2
            return _ESCAPES[letter]
        if letter != "u" or not _HEX.match(text, start + 2):
            raise self._error(f"\\{letter} is not an escape of JSON", "write \\\\ for a backslash")
        unit = int(text[start + 2 : start + 6], 16)
        self._at += 6
        if 0xD800 <= unit < 0xDC00 and text.startswith("\\u", self._at):
            match = _HEX.match(text, self._at + 2)
            low = int(match.group(), 16) if match else 0
            if 0xDC00 <= low < 0xE000:
                self._at += 6
                return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
        if 0xD800 <= unit < 0xE000 and not self._lenient:
            self._at = start
            raise self._error(
                f"\\u{unit:04x} is half of a surrogate pair", "write both halves or the character"
            )
        return chr(unit)

    def _peek(self) -> str:
        """Skip white space and return the next character, "" at the end."""
        self._at = _skip_space(self._text, self._at)
        return self._text[self._at : self._at + 1]

    def _fail_between(self, frame: _Frame, closing: str) -> None:
        if self._at >= len(self._text):
            self._at = frame.opened
            what = "object" if closing == "}" else "array"
            raise self._error(
                f"the {what} is never closed", f"add the missing {closing}", pointer=False
            )
        raise self._error(
            f"expected a comma or {closing}, found {self._found()}", "check the line before, too"
        )

    def _fail_key(self) -> None:
        if self._at >= len(self._text):
            self._at = self._stack[-1].opened
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
        hint = (
            "use double quotes"
            if character == "'"
            else "JSON has no comments"
            if character == "/"
            else None
        )
        raise self._error(f"expected a value, found {self._found()}", hint)

    def _found(self) -> str:
        character = self._text[self._at]
        return character if character.isprintable() else f"U+{ord(character):04X}"

    def _error(self, message: str, hint: str | None = None, *, pointer: bool = True) -> InputError:
        where = place(self._source, self._text, self._at, self._first_line)
        is_shown = pointer and len(self._stack) <= MAX_DEPTH
        path = "".join(self._token(frame) for frame in self._stack) if is_shown else ""
        return InputError(message, where=f"{where} ({path})" if path else where, hint=hint)

    def _token(self, frame: _Frame) -> str:
        if isinstance(frame.container, dict):
            return pointer_token(frame.key) if frame.key else ""
        is_innermost = frame is self._stack[-1]
        return pointer_token(len(frame.container) - (not is_innermost))


def _quoted(text: str) -> str:
    return '"' + (text if len(text) <= 60 else text[:57] + "...") + '"'
