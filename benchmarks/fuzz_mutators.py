"""Damaged copies of texts, JSON values and bytes, drawn from a generator of random numbers."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

#: The longest text and the longest file that a mutator makes.
MOST_TEXT, MOST_BYTES = 60_000, 4_000_000
CHARACTERS = [
    "\0", "\x7f", "\ufeff", "\ud800", "\udfff", "\u2028", "\U0010ffff", "é", "🎉", "İ", "ß", "\u0301", "\r\n", "\t", " ", '"', "'", "\\",
    "{", "}", "[", "]", "(", ")", "<", ">", "|", "/", "*", "+", "?", "^", "$", ".", ":", ",", ";", "%", "&", "#", "-", "0", "9", "_",
]  # fmt: skip
NUMBERS = [
    "0", "-0", "1", "-1", "0.1", "1e400", "-1e400", "1e-400", "1E+99999999999", "9" * 400, "0.30000000000000004", "2147483648", "4294967296",
    "9223372036854775808", "18446744073709551616", "100000", "1000000000", "3.0", "NaN", "Infinity",
]  # fmt: skip
BRACKETS = [
    ("[", "]"),
    ("(", ")"),
    ("{", "}"),
    ('{"a":', "}"),
    ('{"anyOf":[', "]}"),
    ('{"not":', "}"),
    ("(?:", ")*"),
    ("(a|", ")+"),
]
VALUES: list[Any] = [
    None, True, False, 0, -1, 1.5, 10**30, -(10**9), 2**31, "", "a", "\ud800", "é🎉", "x" * 3000, [], {}, [[]], [None], {"": {}}, "#", "#/", "$ref",
]  # fmt: skip
_NEST = re.compile(r'"<nest (\d) (\d+)>"')


def changed_text(
    text: str, draw: random.Random, words: Sequence[str], others: Sequence[str]
) -> str:
    """Return a text with some changes: spans cut, doubled, moved, words and parts of others put in."""
    for _ in range(draw.choice((1, 1, 2, 3, 6))):
        text = draw.choice(_TEXT_CHANGES)(text, draw, words, others)[:MOST_TEXT]
    return text


def _span(size: int, draw: random.Random) -> tuple[int, int]:
    start = draw.randint(0, size)
    return start, min(size, start + draw.choice((0, 1, 2, 5, 20, 200)))


def _cut(text: str, draw: random.Random, *_: object) -> str:
    start, end = _span(len(text), draw)
    return text[:start] + text[end:]


def _cut_off(text: str, draw: random.Random, *_: object) -> str:
    return text[: draw.randint(0, len(text))]


def _repeat(text: str, draw: random.Random, *_: object) -> str:
    start, end = _span(len(text), draw)
    return text[:start] + text[start:end] * draw.choice((2, 3, 10, 100, 2000)) + text[end:]


def _move(text: str, draw: random.Random, *_: object) -> str:
    start, end = _span(len(text), draw)
    rest = text[:start] + text[end:]
    at = draw.randint(0, len(rest))
    return rest[:at] + text[start:end] + rest[at:]


def _put_in(text: str, draw: random.Random, words: Sequence[str], _: Sequence[str]) -> str:
    at = draw.randint(0, len(text))
    kind = draw.random()
    word = draw.choice(words) if words and kind < 0.6 else draw.choice(CHARACTERS + NUMBERS)
    return text[:at] + word + text[at + draw.choice((0, 0, 1)) :]


def _renumber(text: str, draw: random.Random, *_: object) -> str:
    found = list(re.finditer(r"-?\d+", text))
    if not found:
        return _put_in(text, draw, (), ())
    one = draw.choice(found)
    return text[: one.start()] + draw.choice(NUMBERS) + text[one.end() :]


def _splice(text: str, draw: random.Random, _: Sequence[str], others: Sequence[str]) -> str:
    other = draw.choice(others)
    start, end = draw.randint(0, len(other)), draw.randint(0, len(other))
    at = draw.randint(0, len(text))
    return text[:at] + other[min(start, end) : max(start, end)] + text[at:]


def _nest(text: str, draw: random.Random, *_: object) -> str:
    before, behind = draw.choice(BRACKETS)
    count = draw.choice((2, 10, 50, 500, 5000))
    start, end = _span(len(text), draw)
    return text[:start] + before * count + text[start:end] + behind * count + text[end:]


_TEXT_CHANGES: tuple[Callable[..., str], ...] = (
    _cut, _cut, _cut_off, _repeat, _move, _put_in, _put_in, _put_in, _renumber, _splice, _nest,
)  # fmt: skip


def changed_value(
    value: Any, draw: random.Random, words: Sequence[str], others: Sequence[Any]
) -> str:
    """Return the JSON text of a value with some changes: parts replaced, dropped, renamed, exchanged, nested."""
    value = json.loads(json.dumps(value))
    for _ in range(draw.choice((1, 1, 2, 3, 5))):
        places = list(_places(value))
        if not places:
            break
        holder, key = draw.choice(places)
        _change(holder, key, draw, words, others, places)
    text = json.dumps(value, ensure_ascii=draw.random() < 0.5)
    return _NEST.sub(_nested, text)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key or index) of every part."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        inside = list(one.items()) if isinstance(one, dict) else list(enumerate(one))
        for key, part in inside:
            yield one, key
            if isinstance(part, dict | list):
                waiting.append(part)


def _change(
    holder: Any, key: Any, draw: random.Random, words: Sequence[str], others: Sequence[Any], places: list[Any]
) -> None:  # fmt: skip
    part = holder[key]
    kind = draw.randrange(8)
    if kind == 0:
        holder[key] = draw.choice(VALUES)
    elif kind == 1:
        del holder[key]
    elif kind == 2 and isinstance(holder, dict) and words:
        holder[draw.choice(words)] = holder.pop(key)
    elif kind == 3 and isinstance(holder, dict) and words:
        holder[draw.choice(words)] = json.loads(json.dumps(draw.choice([part, *VALUES])))
    elif kind == 4:
        other, place = draw.choice(places)
        copy = json.dumps(other[place]) if isinstance(place, str) and place in other else "{}"
        holder[key] = json.loads(copy[:20_000]) if len(copy) <= 20_000 else {}
    elif kind == 5:
        wrap = draw.choice(words) if words else "a"
        holder[key] = draw.choice(([part], {wrap: part}, {wrap: [part, part]}, [part] * 300))
    elif kind == 6:
        holder[key] = f"<nest {draw.randrange(6)} {draw.choice((3, 30, 300, 3000))}>"
    else:
        other = json.loads(json.dumps(draw.choice(others)))
        inside = list(_places(other))
        where, at = draw.choice(inside) if inside else ({"": other}, "")
        holder[key] = where[at]


def _nested(found: re.Match[str]) -> str:
    (before, behind), count = BRACKETS[int(found[1])], int(found[2])
    return before * count + ("0" if before[-1] != "(" else "") + behind * count


def changed_bytes(data: bytes, draw: random.Random) -> bytes:
    """Return a file with some changes: bits turned, numbers made extreme, spans cut, doubled or put in."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        # What a file says of itself stands in front.
        at = draw.randint(0, min(len(changed), draw.choice((64, 1024, len(data)))))
        kind = draw.randrange(7)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            size = draw.choice((1, 2, 4, 8))
            number = draw.choice(
                (0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, len(data), draw.getrandbits(64))
            )
            changed[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, "little")
        elif kind == 2:
            del changed[at:]
        elif kind == 3:
            del changed[at : at + draw.choice((1, 4, 8, 100))]
        elif kind == 4:
            changed[at:at] = draw.randbytes(draw.choice((1, 4, 8, 100)))
        elif kind == 5:
            span = bytes(changed[at : at + draw.choice((1, 8, 64))])
            changed[at:at] = span * draw.choice((1, 5, 1000))
        else:
            changed[at : at + 1] = bytes([draw.randrange(256)])
        del changed[MOST_BYTES:]
    return bytes(changed)
