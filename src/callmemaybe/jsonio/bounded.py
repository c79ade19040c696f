"""JSON as the gateway accepts it: bounded, and with exactly one meaning.

Refused before anything validates it: more bytes or depth than allowed (a validator written in Rust
dies on a 100,000-deep instance), duplicate keys, numbers that are not finite, halves of surrogate
pairs. Pure.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from callmemaybe.errors import InputError

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read(text: str, *, most_bytes: int, most_depth: int) -> Any:
    """Return the value of a JSON text; raise InputError saying which rule it breaks.

    Integers are exact; other numbers are floats and finite.
    """
    if len(text) > most_bytes or (len(text) * 4 > most_bytes and _size(text) > most_bytes):
        raise InputError(f"more than {most_bytes} bytes of JSON")
    check_depth(text, most_depth)
    try:
        value = _DECODE(text)
    except ValueError as error:
        raise InputError(f"not valid JSON: {error}") from None
    if not text.isascii() or "\\u" in text:
        _check_surrogates(text, value)
    return value


def check_depth(text: str, most: int) -> None:
    """Raise InputError if brackets outside strings nest deeper than ``most``; linear time."""
    if text.count("[") + text.count("{") <= most:
        return
    depth = 0
    for char in re.findall(r"[\[\]{}]", _STRING.sub("", text)):
        depth += 1 if char in "[{" else -1
        if depth > most:
            raise InputError(f"JSON nested deeper than {most}")


def dumps(value: Any) -> str:
    """Write a JSON value of ours on one line, letters as they are."""
    return "".join(_ENCODE(value, 0))


def represent(value: Any, *, most_depth: int) -> str:
    """Write a tool's result as JSON text; raise InputError if JSON cannot carry it exactly."""
    try:
        text = "".join(_REPRESENT(value, 0))
        text.encode()
    except UnicodeEncodeError:
        raise InputError("a string holds half of a surrogate pair") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"JSON cannot carry it: {error}") from None
    check_depth(text, most_depth)
    return text


def plain(value: Any) -> Any:
    """Turn the values that pydantic, dataclasses and the like return into JSON values."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(value, inf_nan_mode="constants")
    except PydanticSerializationError as error:
        raise TypeError(str(error).splitlines()[0]) from None


def _writer(encoder: json.JSONEncoder) -> Any:
    """Return json's own writer, made once: ``encode`` makes one per text.

    A value that holds itself is no reason to keep track of every object: it ends in RecursionError.
    """
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # pragma: no cover - an interpreter without the C accelerator
        return lambda value, _: encoder.encode(value)
    return make(
        None, encoder.default, json.encoder.encode_basestring, None, ": ", ", ", False, False,
        encoder.allow_nan,
    )  # fmt: skip


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} is there twice")
            seen.add(key)
    return value


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON value")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:40]} is too large")
    return number


def _check_surrogates(text: str, value: Any) -> None:
    try:
        text.encode()
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError("a string holds half of a surrogate pair") from None


_DECODE = json.JSONDecoder(
    object_pairs_hook=_distinct, parse_constant=_refuse, parse_float=_finite
).decode
_ENCODE = _writer(json.JSONEncoder())
_REPRESENT = _writer(json.JSONEncoder(allow_nan=False, default=plain))
