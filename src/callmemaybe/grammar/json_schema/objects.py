"""The texts of objects: declared members in order or in any order, undeclared ones, and unions.

A union of objects that differ only in their declared members is written as one node. Case by case it would be
as long as there are cases (`dependencies` between ten members make hundreds); read member by member, most
cases continue alike, and what distinguishes them is the set of cases that are still open (the subset
construction on an acyclic graph, as in Daciuk et al., 2000, and in Bryant's decision diagrams, 1986).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from callmemaybe.errors import GrammarError
from callmemaybe.grammar.automata.tree import min_length_of
from callmemaybe.grammar.json_schema.shapes import (
    ANYTHING,
    NEVER,
    OBJECT,
    Conjunction,
    ExistingMember,
    KeyPattern,
    ObjectFacet,
    ValueShape,
    both,
)
from callmemaybe.grammar.json_schema.strings import (
    ANY_STRING,
    PLAIN_STRING,
    key_matches,
    without_words,
)
from callmemaybe.grammar.json_schema.values import JsonStyle, quoted
from callmemaybe.grammar.nodes import (
    EMPTY,
    INFINITE,
    NOTHING,
    Concat,
    Difference,
    Intersection,
    Literal,
    Node,
    alt,
    lit,
    many,
    opt,
    repeat,
    seq,
)
from callmemaybe.grammar.unordered import Members, Unordered

#: Up to this many key patterns, every combination is a class of keys. With more, only combinations that
#: share a key are, up to a limit on the classes.
MAX_FREE_PATTERNS = 6
MAX_KEY_CLASSES = 1 << MAX_FREE_PATTERNS
#: From this many possible first members, what follows is shared instead of copied.
_MIN_SHARED = 6
_LEFT, _RIGHT = lit("{"), lit("}")


class DeclaredMember(NamedTuple):
    """A declared member: its key (a JSON string), its value, whether it is required."""

    key: str
    value: Node
    required: bool


@dataclass(frozen=True, slots=True)
class KeyClass:
    """Undeclared members: their keys (JSON strings) and values."""

    keys: Node
    value: Node


#: Patterns that the keys of a class match, and some that they do not.
_PatternSplit = tuple[tuple[KeyPattern, ...], tuple[KeyPattern, ...]]


def key_classes(
    facet: ObjectFacet,
    declared: list[str],
    member: ExistingMember | None = None,
    *,
    defer: Callable[[str, str, str | None], None],
) -> list[tuple[Node, Conjunction]]:
    """Return the classes of undeclared keys, with the conjunction of their members.

    With ``member``: only the keys that a member which must exist may have, with its conjunction too. If there
    are too many classes the check is deferred, and any key may have any value.
    """
    patterns = {pattern.source: pattern for pattern, _ in facet.patterns}
    if member is not None:
        declared = [*declared, *member.enum.names]
        if member.pattern is not None:
            patterns[member.pattern.source] = member.pattern
    for others in (*facet.others, *((member.enum,) if member is not None else ())):
        patterns.update((pattern.source, pattern) for pattern in others.patterns)
    try:
        classes = _split(list(patterns.values()))
    except GrammarError as error:
        defer(facet.pointer, error.message, error.hint)
        return [(other_keys(declared), ANYTHING)]
    found: list[tuple[Node, Conjunction]] = []
    for within, without in classes:
        matched = {pattern.source for pattern in within}
        conjunction = _need_of_class(facet, matched)
        if member is not None:
            if any(pattern.source in matched for pattern in member.enum.patterns):
                continue
            if member.pattern is not None and member.pattern.source not in matched:
                continue
            conjunction = both(conjunction, member.conjunction)
        if NEVER[0] not in conjunction:
            found.append((_keys(within, without, declared), conjunction))
    return found


def _split(patterns: list[KeyPattern]) -> list[_PatternSplit]:
    """Return the classes of keys that patterns make; GrammarError if there are too many."""
    classes: list[_PatternSplit] = [((), ())]
    is_few = len(patterns) <= MAX_FREE_PATTERNS
    for index, pattern in enumerate(patterns):
        apart = set() if is_few else {p for p in patterns[:index] if not _may_share(p, pattern)}
        inside: list[_PatternSplit] = []
        outside: list[_PatternSplit] = []
        for within, without in classes:
            if apart.isdisjoint(within):
                inside.append(((*within, pattern), without))
                outside.append((within, (*without, pattern)))
            else:
                outside.append(
                    (within, without)
                )  # none of its keys match, so nothing need be excluded
        classes = outside + inside
        if len(classes) > MAX_KEY_CLASSES:
            raise GrammarError(
                f"the patterns for the keys of one object overlap in more than {MAX_KEY_CLASSES} ways",
                hint="use fewer patterns, or such that no key matches two of them",
            )
    return classes


def _may_share(one: KeyPattern, other: KeyPattern) -> bool:
    """Whether a key matches both patterns."""
    return min_length_of(Intersection(one.node, other.node), {}) < INFINITE


def _need_of_class(facet: ObjectFacet, matched: set[str]) -> Conjunction:
    conjunction = ANYTHING
    for pattern, inner in facet.patterns:
        if pattern.source in matched:
            conjunction = both(conjunction, inner)
    for others in facet.others:
        if not any(pattern.source in matched for pattern in others.patterns):
            conjunction = both(conjunction, others.conjunction)
    return conjunction


def _keys(within: Iterable[KeyPattern], without: Iterable[KeyPattern], declared: list[str]) -> Node:
    node = PLAIN_STRING
    for index, pattern in enumerate(within):
        node = Intersection(node, pattern.node) if index else pattern.node
    for pattern in without:
        node = Difference(node, pattern.node)
    names = [name for name in declared if all(key_matches(pattern, name) for pattern in within)]
    if not within and not without and not names:
        return ANY_STRING
    return without_words(node, names)


def other_keys(declared: list[str]) -> Node:
    """Return the undeclared keys, where there are no patterns."""
    return _keys([], [], declared)


def object_body(
    style: JsonStyle,
    parts: list[DeclaredMember],
    extras: list[KeyClass],
    at_least: int,
    at_most: int | None,
    *,
    last: list[KeyClass] | None = None,
) -> Node:
    """Return objects with the parts in order (optional ones may be missing), then undeclared members.

    ``at_least`` and ``at_most`` count members. With ``last`` one more such member must come at the end,
    behind which no other member could repeat and so replace its key.
    """
    parts = [part for part in parts if part.required or part.value is not NOTHING]
    extra = any_member(style, extras)
    if last is not None:
        return _with_last_member(style, parts, extra, any_member(style, last))
    needed = [part.required for part in parts]
    fewest = sum(needed)
    if fewest and needed[0] and at_most is None and at_least <= fewest and style.padding is EMPTY:
        return _with_first_required(style, parts, extra)
    if (at_most is None or (extra is NOTHING and at_most >= len(parts))) and at_least <= fewest:
        inside, may_be_empty = _uncounted(style, parts, needed, extra), fewest == 0
    else:
        members = [write_member(style, part) for part in parts]
        inside, may_be_empty = (
            _counted(style, members, needed, extra, at_least, at_most),
            at_least == 0,
        )
        may_be_empty = may_be_empty and fewest == 0
    full = NOTHING
    if inside is not NOTHING:
        full = seq(_LEFT, style.padding, inside, style.padding, _RIGHT)
    return alt(full, seq(_LEFT, style.padding, _RIGHT)) if may_be_empty else full


def closed_body(
    style: JsonStyle, names: Iterable[str], values: list[Node], required: Collection[str]
) -> Node | None:
    """Return what :func:`object_body` does for these members alone, in one pass.

    None if the first one is optional, if separators are not plain texts, or if a member has no value.
    """
    if style.separators is None or NOTHING in values:
        return None
    comma, colon = style.separators
    pieces: list[Node] = []
    before = "{"
    for name, value in zip(names, values, strict=True):
        key = Literal(f"{before}{quoted(name)}{colon}".encode())
        before = comma
        if name in required:
            pieces += (key, value)
        elif pieces:
            pieces.append(opt(seq(key, value)))
        else:
            return None
    if not pieces:
        return None
    pieces.append(_RIGHT)
    return seq(*pieces)


def unordered_body(
    style: JsonStyle,
    parts: list[DeclaredMember],
    extras: list[KeyClass],
    at_least: int,
    at_most: int | None,
    *,
    last: list[KeyClass] | None = None,
) -> Node:
    """Return objects with the parts in any order, and undeclared members anywhere among them.

    Everything else is as in :func:`object_body`; ``last`` comes behind every undeclared member.
    """
    written = {part.key.encode(): part for part in parts if part.value is not NOTHING}
    if any(part.required and part.value is NOTHING for part in parts):
        return NOTHING
    keys = tuple(sorted(written))
    members = Members(
        keys,
        tuple(seq(style.colon, written[key].value) for key in keys),
        sum(1 << index for index, key in enumerate(keys) if written[key].required),
        style.comma,
        any_member(style, extras),
        NOTHING if last is None else any_member(style, last),
    )
    inside = Unordered(
        members, (1 << len(keys)) - 1, max(at_least, 1), at_most, False, last is not None
    )
    may_be_empty = at_least == 0 and not inside.required_count
    full = seq(lit("{"), style.padding, inside, style.padding, lit("}"))
    if at_most == 0 or not (keys or members.extra is not NOTHING or inside.last_is_due):
        full = NOTHING
    return alt(full, seq(lit("{"), style.padding, lit("}"))) if may_be_empty else full


def write_member(style: JsonStyle, part: DeclaredMember, before: str = "") -> Node:
    """Write a member; ``before`` is the text in front of it, where separators are texts."""
    if style.separators is not None:
        return seq(lit(f"{before}{part.key}{style.separators[1]}"), part.value)
    return seq(lit(part.key), style.colon, part.value)


def write_next_member(style: JsonStyle, part: DeclaredMember) -> Node:
    """Write a member behind another one."""
    if style.separators is not None:
        return write_member(style, part, style.separators[0])
    return seq(style.comma, lit(part.key), style.colon, part.value)


def any_member(style: JsonStyle, classes: list[KeyClass]) -> Node:
    """Return any one member of these classes."""
    return alt(
        *(seq(one.keys, style.colon, one.value) for one in classes if one.value is not NOTHING)
    )


def _with_last_member(
    style: JsonStyle, parts: list[DeclaredMember], extra: Node, last: Node
) -> Node:
    members = [write_member(style, part) for part in parts]
    node = seq(many(seq(extra, style.comma)), last)
    for part, member in zip(reversed(parts), reversed(members), strict=True):
        follow = seq(member, style.comma)
        node = concat_shared(follow if part.required else opt(follow), node)
    return seq(lit("{"), style.padding, node, style.padding, lit("}"))


def _with_first_required(style: JsonStyle, parts: list[DeclaredMember], extra: Node) -> Node:
    """Return objects whose first member is required: the result of `_uncounted`, in one pass."""
    pieces: list[Node] = []
    for part in parts:
        if not part.required:
            pieces.append(opt(write_next_member(style, part)))
        elif style.separators is not None:
            comma, colon = style.separators
            before = comma if pieces else "{"
            pieces += (Literal(f"{before}{part.key}{colon}".encode()), part.value)
        elif pieces:
            pieces.append(write_next_member(style, part))
        else:
            pieces += (_LEFT, write_member(style, part))
    if extra is not NOTHING:
        pieces.append(many(seq(style.comma, extra)))
    pieces.append(_RIGHT)
    return seq(*pieces)


def _uncounted(
    style: JsonStyle, parts: list[DeclaredMember], needed: list[bool], extra: Node
) -> Node:
    """Return the members without limits on their number; at least one is present."""
    follows = [
        write_next_member(style, part) if must else opt(write_next_member(style, part))
        for part, must in zip(parts, needed, strict=True)
    ]
    # Every member up to the first required one can be the first that is written.
    starts = needed.index(True) + 1 if True in needed else len(parts)
    tail = seq(*follows[starts:], many(seq(style.comma, extra)))
    heads = [] if True in needed else [seq(extra, tail)]
    join = concat_shared if starts > _MIN_SHARED else seq
    for index in range(starts - 1, -1, -1):
        heads.append(join(write_member(style, parts[index]), tail))
        tail = join(follows[index], tail)
    return alt(*reversed(heads))


def concat_shared(first: Node, then: Node) -> Node:
    """Concatenate without copying the parts of what follows."""
    if first is NOTHING or then is NOTHING:
        return NOTHING
    if then is EMPTY or first is EMPTY:
        return first if then is EMPTY else then
    return Concat((first, then))


def _counted(
    style: JsonStyle,
    members: list[Node],
    needed: list[bool],
    extra: Node,
    at_least: int,
    at_most: int | None,
) -> Node:
    """Return the members with limits on their number; at least one is present.

    ``row[n]`` is the continuation when n members are written (counts beyond the cap are equal).
    """
    cap = at_least if at_most is None else at_most
    again = seq(style.comma, extra)
    row = [
        repeat(again, max(at_least - n, 0), None if at_most is None else at_most - n)
        for n in range(cap + 1)
    ]
    first = repeat_first(extra, again, at_least, at_most)
    for index in range(len(members) - 1, -1, -1):
        follow = seq(style.comma, members[index])
        onward = [row[min(n + 1, cap)] if at_most is None or n < cap else NOTHING
                  for n in range(cap + 1)]  # fmt: skip
        skip = NOTHING if needed[index] else first
        first = alt(concat_shared(members[index], onward[0]), skip)
        row = [
            alt(concat_shared(follow, onward[n]), NOTHING if needed[index] else row[n])
            for n in range(cap + 1)
        ]
    return first


def repeat_first(extra: Node, again: Node, at_least: int, at_most: int | None) -> Node:
    """Return undeclared members from the very first member on, at least one."""
    if extra is NOTHING or at_most == 0:
        return NOTHING
    return seq(extra, repeat(again, max(at_least - 1, 0), None if at_most is None else at_most - 1))


#: What a case states of a member: it is forbidden (None), or its value and whether it is required.
MemberStatus = tuple[Node, bool] | None
#: Fewer cases than this are written one by one.
MIN_UNION_CASES = 4
#: Sets of open cases for each case, beyond which all are written one by one.
MAX_SETS_PER_CASE = 4


def union_groups(shapes: Iterable[ValueShape]) -> list[list[ValueShape]]:
    """Return the shapes in groups that can be one union, in the order of their first shapes."""
    groups: dict[Hashable, list[ValueShape]] = {}
    for shape in shapes:
        common = _union_key(shape)
        groups.setdefault(id(shape) if common is None else common, []).append(shape)
    parts = (
        ([group] if len(group) >= MIN_UNION_CASES else [[one] for one in group])
        for group in groups.values()
    )
    return [group for part in parts for group in part]


def _union_key(shape: ValueShape) -> Hashable:
    """Return what objects must share to form a union; None for other shapes."""
    facet = shape.facets.get(OBJECT)
    if shape.kinds != OBJECT or shape.enum is not None or facet is None:
        return None
    if facet.members or facet.trailing_members or facet.at_least or facet.at_most is not None:
        return None
    declared = tuple(dict.fromkeys((*facet.properties, *facet.required)))
    return declared, facet.patterns, facet.others, facet.names, facet.lists_properties


# The cases that are open before a member, numbered by what they state of it and all later ones; and
# whether nothing was written so far.
_OpenCases = tuple[frozenset[int], bool]


class _UnionStep:
    """The continuations of a set of open cases: without this member, or with one of its values."""

    __slots__ = ("absent", "present")

    def __init__(self, absent: frozenset[int], present: dict[Node, frozenset[int]]) -> None:
        self.absent = absent
        self.present = present


def union_body(
    style: JsonStyle, keys: Sequence[str], cases: Sequence[Sequence[MemberStatus]], extra: Node
) -> Node | None:
    """Return the objects of any of the cases, each a status for every key; None if that is too large.

    Members come in the order of the keys (JSON strings), then any number of ``extra`` ones.
    """
    meanings: list[dict[int, tuple[MemberStatus, int]]] = []
    ends = [0] * len(cases)
    for index in range(len(keys) - 1, -1, -1):
        numbers: dict[Hashable, int] = {}
        ends = [
            numbers.setdefault((case[index], end), len(numbers))
            for case, end in zip(cases, ends, strict=True)
        ]
        meanings.append({number: what for what, number in numbers.items()})  # type: ignore[misc]
    meanings.reverse()
    levels = _levels(meanings, frozenset(ends), MAX_SETS_PER_CASE * len(cases) + 64)
    if levels is None:
        return None
    again = many(seq(style.comma, extra))
    bodies: dict[_OpenCases, Node] = {
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
    meanings: Sequence[dict[int, tuple[MemberStatus, int]]], start: frozenset[int], at_most: int
) -> list[dict[_OpenCases, _UnionStep]] | None:
    """Return the sets of open cases before every member, with their continuations."""
    levels: list[dict[_OpenCases, _UnionStep]] = []
    count = 0
    here: list[_OpenCases] = [(start, True)]
    for meaning in meanings:
        level: dict[_OpenCases, _UnionStep] = {}
        onward: dict[_OpenCases, None] = {}
        for state in here:
            step = level[state] = _step(state[0], meaning)
            if step.absent:
                onward[step.absent, state[1]] = None
            onward.update(((cases, False), None) for cases in step.present.values())
        levels.append(level)
        here = list(onward)
        count += len(level)
        if count > at_most:
            return None
    return levels


def _step(cases: frozenset[int], meaning: dict[int, tuple[MemberStatus, int]]) -> _UnionStep:
    absent: set[int] = set()
    present: dict[Node, set[int]] = {}
    for case in sorted(cases):
        status, onward = meaning[case]
        if status is None or not status[1]:
            absent.add(onward)
        if status is not None:
            present.setdefault(status[0], set()).add(onward)
    return _UnionStep(
        frozenset(absent), {node: frozenset(found) for node, found in present.items()}
    )


def _body(
    style: JsonStyle, key: str, step: _UnionStep, is_first: bool, behind: dict[_OpenCases, Node]
) -> Node:
    write = write_member if is_first else write_next_member
    if not is_first and len(step.present) == 1:
        ((value, cases),) = step.present.items()
        if cases == step.absent:
            return concat_shared(
                opt(write(style, DeclaredMember(key, value, True))), behind[cases, False]
            )
    options = [
        concat_shared(write(style, DeclaredMember(key, value, True)), behind[cases, False])
        for value, cases in step.present.items()
    ]
    if step.absent:
        options.append(behind[step.absent, is_first])
    return alt(*options)
