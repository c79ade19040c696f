"""One node for many objects that differ in which of the same members they have, and in their values.

Case by case such a union is as long as there are cases (`dependencies` between ten members make some
hundreds). Read member by member, most cases go on alike: what tells them apart is a set of cases that
are still open, and there are few such sets (the subset construction, on a graph without loops, as in
Daciuk et al., 2000, and Bryant's diagrams, 1986).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from callmemaybe.grammar.nodes import NOTHING, Node, alt, lit, many, opt, seq
from callmemaybe.grammar.schema.objects import Part, shared, write_further, write_member
from callmemaybe.grammar.schema.shapes import OBJECT, Shape
from callmemaybe.grammar.schema.style import Style

#: A case says of a member: it must not be there (None), or its value, and whether it must be there.
Status = tuple[Node, bool] | None
#: Fewer cases than this are written one by one.
FEWEST = 4
#: So many sets of open cases for each case, and it is written case by case instead.
SETS = 4


def alike(shapes: Iterable[Shape]) -> list[list[Shape]]:
    """Return the shapes in groups that can be one union, in the order of their first shapes."""
    groups: dict[Hashable, list[Shape]] = {}
    for shape in shapes:
        common = _common(shape)
        groups.setdefault(id(shape) if common is None else common, []).append(shape)
    parts = (
        ([group] if len(group) >= FEWEST else [[one] for one in group]) for group in groups.values()
    )
    return [group for part in parts for group in part]


def _common(shape: Shape) -> Hashable:
    """Return what objects must share to differ in their members' statuses alone; None for others."""
    facet = shape.facets.get(OBJECT)
    if shape.kinds != OBJECT or shape.among is not None or facet is None:
        return None
    if facet.members or facet.extra or facet.least or facet.most is not None:
        return None
    declared = tuple(dict.fromkeys((*facet.properties, *facet.required)))
    return declared, facet.patterns, facet.others, facet.names, facet.listed


# The cases that are open before a member, by what they say of it and all later ones; whether nothing
# was written so far.
_Open = tuple[frozenset[int], bool]


class _Step:
    """What may come next where some cases are open: nothing for this member, or one of some values."""

    __slots__ = ("absent", "present")

    def __init__(self, absent: frozenset[int], present: dict[Node, frozenset[int]]) -> None:
        self.absent = absent
        self.present = present


def union_body(
    style: Style, keys: Sequence[str], cases: Sequence[Sequence[Status]], extra: Node
) -> Node | None:
    """Return the objects of any of the cases, each a status for every key; None if that is too much.

    Members come in the order of the keys (JSON strings), then any number of ``extra`` ones.
    """
    meanings: list[dict[int, tuple[Status, int]]] = []
    ends = [0] * len(cases)
    for index in range(len(keys) - 1, -1, -1):
        numbers: dict[Hashable, int] = {}
        ends = [
            numbers.setdefault((case[index], end), len(numbers))
            for case, end in zip(cases, ends, strict=True)
        ]
        meanings.append({number: what for what, number in numbers.items()})  # type: ignore[misc]
    meanings.reverse()
    levels = _levels(meanings, frozenset(ends), SETS * len(cases) + 64)
    if levels is None:
        return None
    again = many(seq(style.comma, extra))
    bodies: dict[_Open, Node] = {
        (frozenset([0]), True): seq(extra, again),
        (frozenset([0]), False): again,
    }
    for key, level in zip(reversed(keys), reversed(levels), strict=True):
        bodies = {state: _body(style, key, step, state[1], bodies) for state, step in level.items()}
    inside = bodies[frozenset(ends), True]
    left, right = lit("{"), lit("}")
    full = NOTHING
    if inside is not NOTHING:
        full = seq(left, style.padding, inside, style.padding, right)
    if any(all(status is None or not status[1] for status in case) for case in cases):
        return alt(full, seq(left, style.padding, right))
    return full


def _levels(
    meanings: Sequence[dict[int, tuple[Status, int]]], start: frozenset[int], most: int
) -> list[dict[_Open, _Step]] | None:
    """Return the sets of open cases before every member, and where each leads."""
    levels: list[dict[_Open, _Step]] = []
    count = 0
    here: list[_Open] = [(start, True)]
    for meaning in meanings:
        level: dict[_Open, _Step] = {}
        onward: dict[_Open, None] = {}
        for state in here:
            step = level[state] = _step(state[0], meaning)
            if step.absent:
                onward[step.absent, state[1]] = None
            onward.update(((cases, False), None) for cases in step.present.values())
        levels.append(level)
        here = list(onward)
        count += len(level)
        if count > most:
            return None
    return levels


def _step(cases: frozenset[int], meaning: dict[int, tuple[Status, int]]) -> _Step:
    absent: set[int] = set()
    present: dict[Node, set[int]] = {}
    for case in sorted(cases):
        status, onward = meaning[case]
        if status is None or not status[1]:
            absent.add(onward)
        if status is not None:
            present.setdefault(status[0], set()).add(onward)
    return _Step(frozenset(absent), {node: frozenset(found) for node, found in present.items()})


def _body(style: Style, key: str, step: _Step, is_first: bool, behind: dict[_Open, Node]) -> Node:
    write = write_member if is_first else write_further
    if not is_first and len(step.present) == 1:
        ((value, cases),) = step.present.items()
        if cases == step.absent:
            return shared(opt(write(style, Part(key, value, True))), behind[cases, False])
    options = [
        shared(write(style, Part(key, value, True)), behind[cases, False])
        for value, cases in step.present.items()
    ]
    if step.absent:
        options.append(behind[step.absent, is_first])
    return alt(*options)
