r"""``\b`` and ``\B``, written without them: what must stand before and behind becomes a character.

ECMA-262, section 22.2.2.4: a word boundary is where exactly one of the two neighbours is a word
character (beyond the ends of the text there is none). Whether the neighbours are is mostly known
from the pattern: ``\bfoo`` begins with a word character, so it stands at the start of the text or
behind another character, ``(?:^|\W)foo``. Where it is not known the pattern is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from callmemaybe.grammar.characters import WORD, Ranges, complement, intersection
from callmemaybe.grammar.patterns import Boundary, Cat, Chars, Edge, Item, Look, Loop, Or, fail

#: What a neighbour can be: a word character, another one or none, nothing of this item, or unknown.
_WORD, _OTHER, _EMPTY, _OPEN = "word", "other", "empty", "open"
_SETS: dict[str, Ranges] = {_WORD: WORD, _OTHER: complement(WORD)}
_REFUSED = r"\b is only supported where the pattern says which characters stand beside it"
Items = tuple[Item, ...]


def without_boundaries(item: Item, *, search: bool) -> Item:
    """Return an item that matches in the same texts and has no boundaries; GrammarError if unknown.

    With ``search`` more text may stand around it.
    """
    if not _has_boundary(item):
        return item
    outside = _OPEN if search else _OTHER
    return _resolved(item, outside, outside)


def _has_boundary(item: Item) -> bool:
    match item:
        case Boundary():
            return True
        case Cat():
            return any(map(_has_boundary, item.items))
        case Or():
            return any(map(_has_boundary, item.options))
        case Loop() | Look():
            return _has_boundary(item.body)
    return False


def _resolved(item: Item, before: str, behind: str) -> Item:
    """Resolve the boundaries of an item with these neighbours."""
    match item:
        case Or():
            return Or(tuple(_resolved(option, before, behind) for option in item.options))
        case Cat():
            return _sequence(item.items, before, behind)
        case Boundary():
            return _sequence((item,), before, behind)
        case Look() if _has_boundary(item):
            return Look(_resolved(item.body, before, _OPEN), item.negative)
        case Loop() if _has_boundary(item):
            fail(_REFUSED)
    return item


def _sequence(items: Items, before: str, behind: str) -> Item:
    found: list[Item] = []
    for index, item in enumerate(items):
        left, right = tuple(found), items[index + 1 :]
        if not isinstance(item, Boundary):
            if _has_boundary(item):
                item = _resolved(item, _beside(left, before, -1), _beside(right, behind, 0))
            found.append(item)
            continue
        found = _placed(item, left, right, before, behind)
    return Cat(tuple(found))


def _placed(item: Boundary, left: Items, right: Items, before: str, behind: str) -> list[Item]:
    """Return what stands up to a boundary, and in its place, given what follows."""
    prior, next_ = _beside(left, before, -1), _beside(right, behind, 0)
    if {prior, next_} <= {_WORD, _OTHER}:
        holds = (prior != next_) is not item.negative
        return [*left] if holds else [*left, Or(())]
    if next_ in _SETS:
        wanted = _neighbour(next_, negative=item.negative)
        if prior == _OPEN and not any(isinstance(one, Look) for one in left):
            return [*left, _edge(wanted, start=True)]
        if left and (ends := _ending(left[-1], wanted)) is not None:
            outer = _beside(left[:-1], before, -1)
            if not _may_be_empty(left[-1]) or (outer in _SETS and outer != wanted):
                return [*left[:-1], ends]
            if outer == wanted:
                return [*left[:-1], Or((Cat(()), ends))]
            if outer == _OPEN and len(left) == 1:
                return [Or((_edge(wanted, start=True), ends))]
    if prior in _SETS and next_ == _OPEN and not any(isinstance(one, Look) for one in right):
        return [*left, _edge(_neighbour(prior, negative=item.negative), start=False)]
    return fail(_REFUSED)


def _neighbour(other: str, *, negative: bool) -> str:
    """Return what a neighbour has to be, given the other one."""
    return other if negative else _OTHER if other == _WORD else _WORD


def _edge(wanted: str, *, start: bool) -> Item:
    """Return a character of the wanted kind, or the end of the text, where that counts as one."""
    char = Chars(_SETS[wanted])
    return Or((Edge(start), char)) if wanted == _OTHER else char


def _ending(item: Item, wanted: str) -> Item | None:
    """Return a repeated character, at least once, with its last one as wanted."""
    if not isinstance(item, Loop) or not isinstance(item.body, Chars) or item.most is not None:
        return None
    last = Chars(intersection(item.body.ranges, _SETS[wanted]))
    return Cat((Loop(item.body, max(item.least - 1, 0), None), last))


def _may_be_empty(item: Item) -> bool:
    return _EMPTY in _kinds(item, -1)


def _beside(items: Items, outside: str, end: int) -> str:
    """Return what the neighbour at one end of the items is; "open" if any, "empty" if it varies."""
    kinds: set[str] = set()
    for item in items[::-1] if end else items:
        if isinstance(item, Edge):
            # Beyond the start (or the end) of the text there is no word character.
            return _one({*kinds, _OTHER}) if item.start is bool(end) else _EMPTY
        found = _kinds(item, end)
        kinds |= found - {_EMPTY}
        if _EMPTY not in found:
            return _one(kinds)
    return _one({*kinds, outside})


def _one(kinds: Iterable[str]) -> str:
    known = set(kinds)
    return known.pop() if len(known) == 1 else _EMPTY


def _kinds(item: Item, end: int) -> set[str]:
    """Return what the first (0) or last (-1) character of an item may be."""
    match item:
        case Chars():
            return {kind for kind, one in _SETS.items() if intersection(item.ranges, one)}
        case Or():
            return set().union(*(_kinds(option, end) for option in item.options))
        case Loop():
            if item.most == 0:
                return {_EMPTY}
            return _kinds(item.body, end) | ({_EMPTY} if item.least == 0 else set())
        case Cat():
            found: set[str] = {_EMPTY}
            for inner in item.items[::-1] if end else item.items:
                found = (found - {_EMPTY}) | _kinds(inner, end)
                if _EMPTY not in found:
                    break
            return found
    return {_EMPTY}
