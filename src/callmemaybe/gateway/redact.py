"""What must not be written down: declared arguments, and the values of secrets. Pure."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

REDACTED = "[redacted]"
#: Shorter values are everywhere: blanking each "5" would leave nothing to read.
_SHORTEST = 4


def arguments(values: Mapping[str, Any], sensitive: Collection[str]) -> dict[str, Any]:
    """Return the arguments with the declared sensitive ones blanked."""
    return {name: REDACTED if name in sensitive else value for name, value in values.items()}


def hidden(
    secrets: Mapping[str, str], values: Mapping[str, Any] = {}, sensitive: Collection[str] = ()
) -> dict[str, str]:
    """Return what to look for, with what stands for it: secrets, and the values of arguments.

    Of sensitive arguments all texts and numbers inside count, unless they are shorter than four
    characters. Longer values come first, so that none is found only in part.
    """
    found = {value: f"[secret {name}]" for name, value in secrets.items() if value}
    for name in sensitive:
        for spelt in _leaves(values.get(name)):
            if len(spelt) >= _SHORTEST:
                found.setdefault(spelt, REDACTED)
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def text(written: str, found: Mapping[str, str]) -> str:
    """Return ``written`` with every occurrence of a hidden value replaced.

    A value also counts in the spellings that JSON and Python give it inside a string.
    """
    return _blanked(written, _pairs(found))


def _pairs(found: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return every spelling of every hidden value, with what stands for it."""
    return [(spelling, stands) for value, stands in found.items() for spelling in _spellings(value)]


def _blanked(written: str, pairs: Sequence[tuple[str, str]]) -> str:
    for spelling, stands in pairs:
        if spelling in written:
            written = written.replace(spelling, stands)
    return written


def ending(written: str, found: Mapping[str, str]) -> str:
    """Return a text that was cut, without the beginning of a hidden value that it ends with."""
    for value, stands in found.items():
        for spelling in _spellings(value):
            for length in range(min(len(spelling) - 1, len(written)), _SHORTEST - 1, -1):
                if written.endswith(spelling[:length]):
                    return written[:-length] + stands
    return written


@functools.lru_cache(maxsize=256)
def _spellings(value: str) -> tuple[str, ...]:
    """Return how a value is written inside strings, the longest first."""
    doubled = value.replace("\\", "\\\\")
    forms = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    for raw in (doubled, doubled.replace("'", "\\'"), repr(value)[1:-1]):
        # As an exception's text has it (KeyError), and that inside JSON.
        forms |= {raw, json.dumps(raw)[1:-1], json.dumps(raw, ensure_ascii=False)[1:-1]}
    return tuple(sorted(forms, key=len, reverse=True))


def result(written: str, found: Mapping[str, str]) -> str:
    """As :func:`text` for a JSON text, which stays one; what is no JSON is treated as text."""
    # Spelt once, and not for each text in the result: there may be thousands of both.
    pairs = _pairs(found)
    cleaned = _blanked(written, pairs)
    if cleaned == written:
        return written
    try:
        return json.dumps(_value(json.loads(written), pairs), ensure_ascii=False)
    except ValueError:  # it was cut at the limit
        return cleaned


def _value(value: Any, pairs: Sequence[tuple[str, str]]) -> Any:
    if isinstance(value, str):
        return _blanked(value, pairs)
    if isinstance(value, dict):
        return {_blanked(key, pairs): _value(inner, pairs) for key, inner in value.items()}
    if isinstance(value, list):
        return [_value(inner, pairs) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        spelt = json.dumps(value)
        cleaned = _blanked(spelt, pairs)
        return value if cleaned == spelt else cleaned
    return value


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield json.dumps(value)
