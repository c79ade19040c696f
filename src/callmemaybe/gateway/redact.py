"""Removes sensitive arguments and the values of secrets from what is stored or shown. Pure.

A value is found as it is, and as JSON, Python, URLs, HTML, hexadecimal and base64 write it, in base64 also inside a longer
text. One of fewer than four characters is found as a word of its own: `123` in "code 123", not in 51234. What a
tool computes from a secret, or writes in an encoding of its own, cannot be found.
"""

from __future__ import annotations

import base64
import functools
import html
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

REDACTED = "[redacted]"
#: Shorter values are found as words of their own: replacing each "5" would leave nothing to read.
_MIN_LENGTH = 4
#: Characters of base64 that are the same wherever a value stands; fewer of them could be anything.
_MIN_BASE64 = 6


def arguments(values: Mapping[str, Any], sensitive: Collection[str]) -> dict[str, Any]:
    """Return the arguments with the declared sensitive ones replaced."""
    return {name: REDACTED if name in sensitive else value for name, value in values.items()}


def replacements(
    secrets: Mapping[str, str], values: Mapping[str, Any] = {}, sensitive: Collection[str] = ()
) -> dict[str, str]:
    """Return each value to search for with its replacement: secrets, and values of sensitive arguments.

    Of a sensitive argument every text and number inside it counts. Longer values come first, so that a value
    is not replaced in part by a shorter one.
    """
    found = {value: f"[secret {name}]" for name, value in secrets.items() if value}
    for name in sensitive:
        for leaf in _leaves(values.get(name)):
            if leaf:
                found.setdefault(leaf, REDACTED)
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def text(written: str, found: Mapping[str, str]) -> str:
    """Return ``written`` with every occurrence of a value in ``found`` replaced.

    Its other written forms are replaced as well.
    """
    return _replace(written, _all_forms(found))


def _all_forms(found: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return every written form of every value with its replacement."""
    return [(form, replacement) for value, replacement in found.items() for form in _forms(value)]


def _replace(written: str, pairs: Sequence[tuple[str, str]]) -> str:
    for form, replacement in pairs:
        if form in written:
            if len(form) < _MIN_LENGTH:
                written = _word(form).sub(lambda _, text=replacement: text, written)  # type: ignore[misc]
            else:
                written = written.replace(form, replacement)
    return written


@functools.lru_cache(maxsize=256)
def _word(form: str) -> re.Pattern[str]:
    """Return a pattern of a short value where no letter or digit stands beside it."""
    return re.compile(rf"(?<![^\W_]){re.escape(form)}(?![^\W_])")


def partial_ending(written: str, found: Mapping[str, str]) -> str:
    """Return a text that was cut, with a prefix of a value in ``found`` at its end replaced."""
    for value, replacement in found.items():
        for form in _forms(value):
            for length in range(min(len(form) - 1, len(written)), _MIN_LENGTH - 1, -1):
                if written.endswith(form[:length]):
                    return written[:-length] + replacement
    return written


@functools.lru_cache(maxsize=256)
def _forms(value: str) -> tuple[str, ...]:
    """Return the forms in which a value is written inside strings, the longest first."""
    doubled = value.replace("\\", "\\\\")
    forms = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    for raw in (doubled, doubled.replace("'", "\\'"), repr(value)[1:-1], *forms):
        # As str(KeyError(value)) writes it, and that, and JSON, inside JSON.
        forms |= {raw, json.dumps(raw)[1:-1], json.dumps(raw, ensure_ascii=False)[1:-1]}
    data = value.encode(errors="surrogatepass")
    forms |= {data.hex(), data.hex().upper(), html.escape(value), html.escape(value, quote=False)}
    urls = {
        quote(data, safe=""),
        quote(data),
        quote_plus(data),
        "".join(f"%{byte:02X}" for byte in data),
    }
    forms |= urls | {re.sub("%..", lambda code: code[0].lower(), one) for one in urls}
    forms |= set(_base64_forms(data))
    return tuple(sorted(forms, key=len, reverse=True))


def _base64_forms(data: bytes) -> Iterable[str]:
    """Yield the value in base64, whole, and what of it is the same behind one or two other bytes."""
    for write in (base64.b64encode, base64.urlsafe_b64encode):
        whole = write(data).decode()
        yield from {whole, whole.rstrip("=")}
        for before in range(3):
            # Six bits a character: those that hold bits of other bytes are left out at both ends.
            first, end = -(-before * 8 // 6), (before + len(data)) * 8 // 6
            inner = write(b"\0" * before + data).decode()[first:end]
            if len(inner) >= _MIN_BASE64:
                yield inner


def result(written: str, found: Mapping[str, str]) -> str:
    """As :func:`text` for a JSON text, whose result is JSON again; other text is treated as text."""
    # The forms are made once, not for each string in the result: there may be thousands of both.
    pairs = _all_forms(found)
    cleaned = _replace(written, pairs)
    if cleaned == written:
        return written
    try:
        return json.dumps(_value(json.loads(written), pairs), ensure_ascii=False)
    except ValueError:  # the text was cut at the limit
        return cleaned


def _value(value: Any, pairs: Sequence[tuple[str, str]]) -> Any:
    if isinstance(value, str):
        return _replace(value, pairs)
    if isinstance(value, dict):
        return {_replace(key, pairs): _value(inner, pairs) for key, inner in value.items()}
    if isinstance(value, list):
        return [_value(inner, pairs) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        text_form = json.dumps(value)
        cleaned = _replace(text_form, pairs)
        return value if cleaned == text_form else cleaned
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
