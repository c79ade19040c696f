"""JSON pointers (RFC 6901): the path to a part of a JSON value, written as one string."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def escape_token(key: str) -> str:
    """Escape one key for use between the slashes of a pointer (section 3)."""
    return key.replace("~", "~0").replace("/", "~1")


def unescape_token(token: str) -> str:
    """Return the key that one token of a pointer stands for; ``~1`` first, as section 4 demands."""
    return token.replace("~1", "/").replace("~0", "~")


def join_pointer(path: Iterable[str | int]) -> str:
    """Return the pointer of a path of keys and indices; the empty path gives ``""``."""
    return "".join(f"/{escape_token(str(step))}" for step in path)


def split_pointer(pointer: str) -> list[str]:
    """Return the keys (and indices, as text) of a pointer."""
    return [unescape_token(token) for token in pointer.split("/")[1:]]


def resolve_pointer(value: Any, pointer: str) -> Any:
    """Return the part of ``value`` at ``pointer``. Raises LookupError where there is none."""
    for key in split_pointer(pointer):
        if isinstance(value, Mapping):
            value = value[key]
        elif isinstance(value, list) and key.isascii() and key.isdecimal():
            # A number of thousands of digits is no index, and int() would refuse it.
            value = value[int(key[:20])]
        else:
            raise LookupError(pointer)
    return value
