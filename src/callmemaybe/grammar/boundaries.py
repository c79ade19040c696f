r"""``\b`` and ``\B``, written without them: what must stand before and behind becomes a character.

ECMA-262, section 22.2.2.4: a word boundary is where exactly one of the two neighbours is a word
character (beyond the ends of the text there is none). Whether the neighbours are is mostly known
from the pattern: ``\bfoo`` begins with a word character, so it stands at the start of the text or
behind another character, ``(?:^|\W)foo``. Where it is not known the pattern is refused.

Such a character is read in place of a boundary only where the pattern reads nothing beside it: not behind a
look-ahead or an anchor, which would see it, nor in a look-ahead whose first character it would become.
There, what stands around the pattern is told apart first: ``(?!\b-)-`` is ``(?:^|\W)(?!\b-)-`` or
``\w(?!\b-)-``, and in both it is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from callmemaybe.errors import GrammarError
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
    if not search:
        return _resolved(item, _OTHER, _OTHER)
    options = item.options if isinstance(item, Or) else (item,)
    return Or(tuple(found for option in options for found in _searched(option)))


def _searched(option: Item) -> Items:
    """Resolve one option of a pattern that is searched; whatever stands around it, if need be."""
    try:
        return (_resolved(option, _OPEN, _OPEN),)
    except GrammarError:
        return tuple(
            Cat((_edge(before, start=True), _resolved(option, before, behind), _edge(behind, start=False)))
            for before, behind in product(_SETS, repeat=2)
        )  # fmt: skip


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
            # What stands before it is no part of what it reads.
            known = before if before in _SETS else _EMPTY
            return Look(_resolved(item.body, known, _OPEN), item.negative)
        case Loop() if _has_boundary(item):
            fail(_REFUSED)
    return item


def _sequence(items: Items, before: str, behind: str) -> Item:
    found: list[Item] = []
    items = _merged(items)
    for index, item in enumerate(items):
        left, right = tuple(found), items[index + 1 :]
        if not isinstance(item, Boundary):
            if _has_boundary(item):
                item = _resolved(item, _beside(left, before, -1), _beside(right, behind, 0))
            found.append(item)
            continue
        found = _placed(item, left, right, before, behind)
    return Cat(tuple(found))


def _merged(items: Items) -> Items:
    """Return a sequence without sequences in it, and with one boundary for several at one place."""
    found: list[Item] = []
    for item in items:
        for one in _merged(item.items) if isinstance(item, Cat) else (item,):
            if not (isinstance(one, Boundary) and found and isinstance(found[-1], Boundary)):
                found.append(one)
            elif one != found[-1]:
                found[-1] = Or(())  # no place is one and is none
    return tuple(found)


def _placed(item: Boundary, left: Items, right: Items, before: str, behind: str) -> list[Item]:
    """Return what stands up to a boundary, and in its place, given what follows."""
    prior, next_ = _beside(left, before, -1), _beside(right, behind, 0)
    if {prior, next_} <= {_WORD, _OTHER}:
        holds = (prior != next_) is not item.negative
        return [*left] if holds else [*left, Or(())]
    if next_ in _SETS:
        wanted = _neighbour(next_, negative=item.negative)
        if prior == _OPEN:
            return [*left, _edge(wanted, start=True)]
        if left and (ends := _ending(left[-1], wanted)) is not None:
            outer = _beside(left[:-1], before, -1)
            if not _may_be_empty(left[-1]) or (outer in _SETS and outer != wanted):
                return [*left[:-1], ends]
            if outer == wanted:
                return [*left[:-1], Or((Cat(()), ends))]
            if outer == _OPEN and len(left) == 1:
                return [Or((_edge(wanted, start=True), ends))]
    if prior in _SETS and next_ == _OPEN:
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
    """Return what the neighbour at one end of the items is; "empty" if it varies.

    "open" if nothing is known of it and nothing at all stands between.
    """
    kinds: set[str] = set()
    for item in items[::-1] if end else items:
        found = _kinds(item, end)
        kinds |= found - {_EMPTY}
        if _EMPTY not in found:
            return _one(kinds)
        if outside == _OPEN and _looks(item):
            outside = _EMPTY
    return _one({*kinds, outside})


def _looks(item: Item) -> bool:
    """Whether an item sees what stands around it."""
    match item:
        case Edge() | Look() | Boundary():
            return True
        case Cat():
            return any(map(_looks, item.items))
        case Or():
            return any(map(_looks, item.options))
        case Loop():
            return _looks(item.body)
    return False


def _one(kinds: Iterable[str]) -> str:
    known = set(kinds)
    return known.pop() if len(known) == 1 else _EMPTY


def _kinds(item: Item, end: int) -> set[str]:
    """Return what the first (0) or last (-1) character of an item may be."""
    match item:
        case Edge():
            # Beyond the start (or the end) of the text there is no word character.
            return {_OTHER} if item.start is bool(end) else {_EMPTY}
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
