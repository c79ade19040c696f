"""Reads the metadata of a GGUF file.

The layout is that of ggml's ``docs/gguf.md`` (versions 2 and 3, little-endian). Weights are not
touched; engines map them themselves.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MAGIC = b"GGUF"
_STRING, _ARRAY = 8, 9
_SCALARS: Mapping[int, str] = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
#: Larger counts than these are damage, not data.
_MOST_ENTRIES, _MOST_ITEMS = 1 << 16, 1 << 24
_DEEPEST = 8  # lists in lists


def is_gguf(path: Path) -> bool:
    """Whether ``path`` is a file that begins as GGUF files do."""
    try:
        with path.open("rb") as file:
            return file.read(4) == MAGIC
    except OSError:
        return False


def metadata(path: Path) -> dict[str, Any]:
    """Return the metadata of a GGUF file: numbers, truth values, strings (str), and lists of them.

    Raises OSError if the file cannot be read, and ValueError if it is not a whole GGUF file.
    """
    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            raise ValueError("it does not begin with the letters GGUF")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            try:
                return _Cursor(content).entries()
            except (struct.error, IndexError, UnicodeDecodeError) as error:
                raise ValueError("it is cut off or damaged") from error


class _Cursor:
    """Reads values from the file, one after the other."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self._at = 4
        version = self._number("I")
        if version not in (2, 3):
            raise ValueError(f"its version {version} is not one that this package reads (2 and 3)")

    def entries(self) -> dict[str, Any]:
        self._number("Q")  # how many tensors
        count = self._count(_MOST_ENTRIES)
        found: dict[str, Any] = {}
        for _ in range(count):
            key = self._string()
            found[key] = self._value(self._number("I"))
        return found

    def _number(self, code: str) -> Any:
        (value,) = struct.unpack_from(f"<{code}", self._content, self._at)
        self._at += struct.calcsize(f"<{code}")
        return value

    def _count(self, most: int) -> int:
        count = int(self._number("Q"))
        if count > most:
            raise ValueError("it is cut off or damaged")
        return count

    def _string(self) -> str:
        size = self._count(len(self._content))
        end = self._at + size
        if end > len(self._content):
            raise IndexError
        text = self._content[self._at : end]
        self._at = end
        # Tokens of some files are not valid UTF-8 on their own.
        return text.decode(errors="surrogateescape")

    def _value(self, kind: int, depth: int = 0) -> Any:
        if kind in _SCALARS:
            return self._number(_SCALARS[kind])
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            raise ValueError(f"it holds a value of unknown type {kind}")
        if depth >= _DEEPEST:
            raise ValueError(f"it holds lists in lists, more than {_DEEPEST} deep")
        inner = self._number("I")
        count = self._count(_MOST_ITEMS)
        if inner in _SCALARS:
            layout = f"<{count}{_SCALARS[inner]}"
            values = struct.unpack_from(layout, self._content, self._at)
            self._at += struct.calcsize(layout)
            return list(values)
        if inner == _STRING:
            return [self._string() for _ in range(count)]
        return [self._value(inner, depth + 1) for _ in range(count)]
