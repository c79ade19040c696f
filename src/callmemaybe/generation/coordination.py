"""Requests with lists in them: "Rain in Paris and Oslo for 2 and 3 days?" means two calls of one function.

A model that answers a request with one call takes one thing of each list, or all of them as one text. Where a value of its
call stands beside others of the same kind (numbers, names, quotations, as many words), each of these is asked about by
itself: the request is written once for each, everything else the same. Lists that are equally long belong together,
the first thing of one with the first of the other.

Likewise a part of a request that only says what is different ("the area of a circle with radius 5, and with radius 7") is
asked about behind the beginning of the part in front of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

#: The most things of a list, and the most texts that are tried behind a cut.
MOST_ITEMS, MOST_CARRIED = 8, 2
_AND = r"(?:and|&|as well as|plus|und|et|y)"
_PREPOSITION = r"(?:for|in|at|to|of|on|from|with|by|about)"
#: What stands between two things of a list.
_BETWEEN = re.compile(
    rf"(?:\s*,\s*(?:{_AND}\s+)?|\s+{_AND}\s+)(?:(?:also|then)\s+)?(?:{_PREPOSITION}\s+)?(?:(?:the|my|our)\s+)?", re.IGNORECASE
)  # fmt: skip
_HAS_AND = re.compile(rf"(?<!\w){_AND}(?!\w)", re.IGNORECASE)
_NUMBER = r"[-+]?[$€£]?\d[\d.,:/-]*\d%?|[-+]?[$€£]?\d%?"
_QUOTED = r"\"[^\"]*\"|“[^”]*”|'[^']*'|`[^`]*`"
_NAME = r"(?:[A-Z][^\s,;.!?]*|\d+)(?: (?:[A-Z][^\s,;.!?]*|\d+))*(?:, [A-Z]{2}\b)?"
#: A comma between names, but not that of a state ("Boston, MA").
_COMMA = re.compile(r", (?![A-Z]{2}\b)")
_WORD = r"[^\s,;.!?:]+"
#: Words that say that things are meant one by one; they are left out of what is asked about one.
_EACH = re.compile(
    r",?\s*\b(?:respectively|in that order|separately|individually|each|both)\b", re.IGNORECASE
)
_OTHER = re.compile(
    r"^\s*(?:(?:also|then)\s+)?(?:an?other|(?:the|a) (?:second|third|fourth|other|next)|one|again)\b(?:\s+one)?\s*", re.IGNORECASE
)  # fmt: skip


@dataclass(frozen=True)
class Coordination:
    """Things side by side in a text, one of which is the value of a parameter.

    ``is_joint``: the value was all of them as one text.
    """

    parameter: str
    items: tuple[tuple[int, int], ...]
    is_joint: bool

    @property
    def span(self) -> tuple[int, int]:
        """From the first thing to the end of the last."""
        return self.items[0][0], self.items[-1][1]


def coordinations(text: str, arguments: Mapping[str, Any]) -> list[Coordination]:
    """Return the lists in a text that the values of a call stand in, those that belong together.

    These are all of one length, the length of most of them, and no two of them overlap.
    """
    plain = {
        name: str(value)
        for name, value in arguments.items()
        if not isinstance(value, bool | list | dict) and value is not None
    }
    listed = {
        str(one).casefold()
        for value in arguments.values()
        if isinstance(value, list)
        for one in value
    }
    found = []
    for name, value in sorted(plain.items()):  # whatever order the arguments have
        one = _coordination(text, name, value)
        if one is None:
            continue
        items = [text[low:high].casefold() for low, high in one.items]
        others = {v.casefold() for n, v in plain.items() if n != name} | listed
        if not any(_core(item) in others and _core(item) != value.casefold() for item in items):
            found.append(one)
    if not found:
        return []
    size = Counter(len(one.items) for one in found).most_common(1)[0][0]
    kept: list[Coordination] = []
    for one in found:
        low, high = one.span
        if len(one.items) == size and all(high <= k.span[0] or low >= k.span[1] for k in kept):
            kept.append(one)
    return kept


def one_by_one(text: str, lists: Sequence[Coordination]) -> list[str]:
    """Return the text once for each thing of the lists, with that thing alone."""
    found = []
    ordered = sorted(lists, key=lambda one: one.span)
    for index in range(len(ordered[0].items)):
        at, parts = 0, []
        for one in ordered:
            low, high = one.items[index]
            parts += [text[at : one.span[0]], text[low:high]]
            at = one.span[1]
        found.append(_EACH.sub("", "".join([*parts, text[at:]])))
    return found


def says_each(text: str) -> bool:
    """Whether a text says that things are meant one by one."""
    return _EACH.search(text) is not None


def is_marked(text: str, one: Coordination) -> bool:
    """Whether each thing of a list is a number, a quotation or a name, which small words are not."""
    return all(_kind(text[low:high]) in (_NUMBER, _QUOTED, _NAME) for low, high in one.items)


def carried(left: str, right: str, values: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield beginnings of a part, and what a part behind it that only says what is different says instead of the rest.

    ``values`` are those that the call of the part before has from its text.
    """
    shorter = _OTHER.sub("", right)
    words = re.findall(r"[\w$€£'\"“]+", shorter)
    if not words:
        return
    tried: set[int] = set()
    starts = [
        m.start() for m in re.finditer(rf"(?<!\w){re.escape(words[0])}(?!\w)", left, re.IGNORECASE)
    ]
    kind = _kind(shorter)
    places = [left.casefold().find(value.casefold()) for value in values]
    same = sorted(at for at in places if at >= 0 and kind and _kind(left[at:]) == kind)
    for at in [*reversed(starts), *same[:1]]:
        if at > 0 and at not in tried and len(tried) < MOST_CARRIED:
            tried.add(at)
            yield left[:at], shorter


def _coordination(text: str, name: str, value: str) -> Coordination | None:
    at = _place(text, value)
    if at is None:
        return None
    low, high = at
    parts = _split(text, low, high)
    parts = _in_pairs(text, parts)
    if len(parts) > 1:
        return Coordination(name, tuple(parts), is_joint=True)
    kind = _kind(text[low:high])
    if kind is None:
        return None
    items = _in_pairs(text, _flat(text, low, high, kind))
    gaps = [text[one[1] : other[0]] for one, other in pairwise(items)]
    if not 1 < len(items) <= MOST_ITEMS or not any(_HAS_AND.search(gap) for gap in gaps):
        return None
    return Coordination(name, tuple(items), is_joint=False)


def _flat(text: str, low: int, high: int, kind: str) -> list[tuple[int, int]]:
    """Return the things around a value, and those inside it that commas part ("Paris, New York" and Rome)."""
    after = _after(text, high, kind)
    inside = [(low, high)]
    if after and kind == _NAME:
        inside, at = [], low
        for match in _COMMA.finditer(text[low:high]):
            inside.append((at, low + match.start()))
            at = low + match.end()
        inside.append((at, high))
    return [*_before(text, *inside[0], kind), *inside, *after]


def _in_pairs(text: str, items: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join what belongs together in "Paris, France and Rome, Italy"."""
    has_and = [bool(_HAS_AND.search(text[one[1] : other[0]])) for one, other in pairwise(items)]
    if len(items) % 2 or not any(has_and[1::2]) or any(has_and[::2]):
        return items
    return [(items[at][0], items[at + 1][1]) for at in range(0, len(items), 2)]


def _place(text: str, value: str) -> tuple[int, int] | None:
    """Return where a value stands in a text as words of their own, first; the quotes around it count."""
    if not value.strip():
        return None
    match = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE)
    if match is None:
        return None
    low, high = match.span()
    if low and text[low - 1] in "\"'“`" and text[high : high + 1] in ('"', "'", "”", "`"):
        return low - 1, high + 1
    return low, high


def _split(text: str, low: int, high: int) -> list[tuple[int, int]]:
    """Return the parts of a value that is "X and Y", or "X, Y and Z"."""
    inside = text[low:high]
    if not _HAS_AND.search(inside):
        return [(low, high)]
    parts, at = [], 0
    for match in _BETWEEN.finditer(inside):
        if match.start() > at:
            parts.append((low + at, low + match.start()))
        at = match.end()
    return [*parts, (low + at, high)] if at < len(inside) else parts


def _kind(text: str) -> str | None:
    """Return the pattern of things like the one that a text begins with."""
    if re.match(_NUMBER, text):
        return _NUMBER
    if re.match(_QUOTED, text):
        return _QUOTED
    if re.match(r"[A-Z]", text):
        return _NAME
    words = text.split()
    return rf"{_WORD}(?: {_WORD}){{{len(words) - 1}}}" if 0 < len(words) <= 3 else None


#: What may stand behind a number of a list and belongs to it: "20 minutes and 15 minutes".
_UNIT = re.compile(r"( [a-z%°]+)( [a-z%°]+)?")


def _after(text: str, end: int, kind: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while len(found) < MOST_ITEMS:
        unit = _UNIT.match(text, end) if kind == _NUMBER else None
        next_ = None
        for tail in dict.fromkeys(("", unit[1], unit[0]) if unit else ("",)):
            gap = _BETWEEN.match(text, end + len(tail))
            match = re.match(kind, text[gap.end() :]) if gap else None
            if gap and match and (not tail or text.startswith(tail, gap.end() + match.end())):
                next_ = gap.end(), gap.end() + match.end()
                break
        if next_ is None:
            return found
        found.append(next_)
        end = next_[1]
    return found


def _before(text: str, low: int, high: int, kind: str) -> list[tuple[int, int]]:
    """Return the things before one, by reading forward from each place where one may begin."""
    for match in re.finditer(rf"(?<![^\s(]){kind}" if kind != _WORD else kind, text[:low]):
        found = [match.span(), *_after(text, match.end(), kind)]
        if (low, high) in found:
            return found[: found.index((low, high))]
    return []


def _core(item: str) -> str:
    return item.strip("\"'“”`")
