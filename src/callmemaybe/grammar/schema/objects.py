"""The texts of objects: declared members in their order, then any others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from callmemaybe.errors import GrammarError
from callmemaybe.grammar.nodes import (
    EMPTY,
    INFINITE,
    NOTHING,
    Both,
    Except,
    Literal,
    Node,
    Sequence,
    alt,
    lit,
    many,
    opt,
    repeat,
    seq,
)
from callmemaybe.grammar.schema.shapes import ANYTHING, NEVER, Member, Need, Object, Pattern, both
from callmemaybe.grammar.schema.strings import ANY_STRING, PLAIN_STRING, matches, without_words
from callmemaybe.grammar.schema.style import Style
from callmemaybe.grammar.schema.values import quoted
from callmemaybe.grammar.tree import least_of
from callmemaybe.grammar.unordered import Members, Unordered

#: Patterns for the keys of one object of which every combination is a class of keys. Of more it is only those
#: of which any two share a key, up to so many classes: patterns that share none make one each, and one more.
PATTERNS = 6
CLASSES = 1 << PATTERNS
#: From this many places where an object may start, what follows is shared instead of copied.
_SHARED = 6
_LEFT, _RIGHT = lit("{"), lit("}")


class Part(NamedTuple):
    """A declared member: its key (a JSON string), its value, whether it must be there."""

    key: str
    value: Node
    required: bool


@dataclass(frozen=True, slots=True)
class KeyClass:
    """Members that are not declared: their keys (JSON strings) and values."""

    keys: Node
    value: Node


#: Patterns that the keys of a class match, and some that they do not.
_Split = tuple[tuple[Pattern, ...], tuple[Pattern, ...]]


def key_classes(
    facet: Object,
    declared: list[str],
    member: Member | None = None,
    *,
    leave: Callable[[str, str, str | None], None],
) -> list[tuple[Node, Need]]:
    """Return the keys that are not declared, by what their members need.

    With ``member``: only those keys that a member which must exist may have, and its need too. Where
    that is too much it is left to be checked, and any key may have any value.
    """
    patterns = {pattern.source: pattern for pattern, _ in facet.patterns}
    if member is not None:
        declared = [*declared, *member.among.names]
        if member.pattern is not None:
            patterns[member.pattern.source] = member.pattern
    for others in (*facet.others, *((member.among,) if member is not None else ())):
        patterns.update((pattern.source, pattern) for pattern in others.patterns)
    try:
        classes = _split(list(patterns.values()))
    except GrammarError as error:
        leave(facet.pointer, error.message, error.hint)
        return [(other_keys(declared), ANYTHING)]
    found: list[tuple[Node, Need]] = []
    for within, without in classes:
        matched = {pattern.source for pattern in within}
        need = _need_of_class(facet, matched)
        if member is not None:
            if any(pattern.source in matched for pattern in member.among.patterns):
                continue
            if member.pattern is not None and member.pattern.source not in matched:
                continue
            need = both(need, member.need)
        if NEVER[0] not in need:
            found.append((_keys(within, without, declared), need))
    return found


def _split(patterns: list[Pattern]) -> list[_Split]:
    """Return the classes of keys that patterns make; GrammarError if there are too many."""
    classes: list[_Split] = [((), ())]
    is_few = len(patterns) <= PATTERNS
    for index, pattern in enumerate(patterns):
        apart = set() if is_few else {p for p in patterns[:index] if not _may_share(p, pattern)}
        inside: list[_Split] = []
        outside: list[_Split] = []
        for within, without in classes:
            if apart.isdisjoint(within):
                inside.append(((*within, pattern), without))
                outside.append((within, (*without, pattern)))
            else:
                outside.append((within, without))  # none of its keys match: not worth saying
        classes = outside + inside
        if len(classes) > CLASSES:
            raise GrammarError(
                f"the patterns for the keys of one object overlap in more than {CLASSES} ways",
                hint="use fewer patterns, or such that no key matches two of them",
            )
    return classes


def _may_share(one: Pattern, other: Pattern) -> bool:
    """Whether a key matches both patterns."""
    return least_of(Both(one.node, other.node), {}) < INFINITE


def _need_of_class(facet: Object, matched: set[str]) -> Need:
    need = ANYTHING
    for pattern, inner in facet.patterns:
        if pattern.source in matched:
            need = both(need, inner)
    for others in facet.others:
        if not any(pattern.source in matched for pattern in others.patterns):
            need = both(need, others.need)
    return need


def _keys(within: Iterable[Pattern], without: Iterable[Pattern], declared: list[str]) -> Node:
    node = PLAIN_STRING
    for index, pattern in enumerate(within):
        node = Both(node, pattern.node) if index else pattern.node
    for pattern in without:
        node = Except(node, pattern.node)
    names = [name for name in declared if all(matches(pattern, name) for pattern in within)]
    if not within and not without and not names:
        return ANY_STRING
    return without_words(node, names)


def other_keys(declared: list[str]) -> Node:
    """Return the keys that are not declared, where no pattern says more."""
    return _keys([], [], declared)


def object_body(
    style: Style,
    parts: list[Part],
    extras: list[KeyClass],
    least: int,
    most: int | None,
    *,
    last: list[KeyClass] | None = None,
) -> Node:
    """Return objects with the parts in order (optional ones may be left out), then extras.

    ``least`` and ``most`` count members. With ``last`` there must be one more such member, as the
    last one: behind it no other could have its key and so replace it.
    """
    parts = [part for part in parts if part.required or part.value is not NOTHING]
    extra = any_member(style, extras)
    if last is not None:
        return _ending(style, parts, extra, any_member(style, last))
    needed = [part.required for part in parts]
    fewest = sum(needed)
    if fewest and needed[0] and most is None and least <= fewest and style.padding is EMPTY:
        return _plain(style, parts, extra)
    if (most is None or (extra is NOTHING and most >= len(parts))) and least <= fewest:
        inside, may_be_empty = _free(style, parts, needed, extra), fewest == 0
    else:
        members = [write_member(style, part) for part in parts]
        inside, may_be_empty = _counted(style, members, needed, extra, least, most), least == 0
        may_be_empty = may_be_empty and fewest == 0
    full = NOTHING
    if inside is not NOTHING:
        full = seq(_LEFT, style.padding, inside, style.padding, _RIGHT)
    return alt(full, seq(_LEFT, style.padding, _RIGHT)) if may_be_empty else full


def closed_body(
    style: Style, names: Iterable[str], values: list[Node], required: Collection[str]
) -> Node | None:
    """Return what :func:`object_body` does for these members alone, in one go.

    None where the first one may be left out, where members are not just texts between texts, and where
    one has no value.
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
    style: Style,
    parts: list[Part],
    extras: list[KeyClass],
    least: int,
    most: int | None,
    *,
    last: list[KeyClass] | None = None,
) -> Node:
    """Return objects with the parts in any order, and extras anywhere among them.

    Everything else is as in :func:`object_body`; the one more member comes behind every extra.
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
    inside = Unordered(members, (1 << len(keys)) - 1, max(least, 1), most, False, last is not None)
    may_be_empty = least == 0 and not inside.due
    full = seq(lit("{"), style.padding, inside, style.padding, lit("}"))
    if most == 0 or not (keys or members.extra is not NOTHING or inside.owed):
        full = NOTHING
    return alt(full, seq(lit("{"), style.padding, lit("}"))) if may_be_empty else full


def write_member(style: Style, part: Part, before: str = "") -> Node:
    """Write a member; ``before`` is what stands in front of it, where separators are texts."""
    if style.separators is not None:
        return seq(lit(f"{before}{part.key}{style.separators[1]}"), part.value)
    return seq(lit(part.key), style.colon, part.value)


def write_further(style: Style, part: Part) -> Node:
    """Write a member that another one stands in front of."""
    if style.separators is not None:
        return write_member(style, part, style.separators[0])
    return seq(style.comma, lit(part.key), style.colon, part.value)


def any_member(style: Style, classes: list[KeyClass]) -> Node:
    """Return any one member of these classes."""
    return alt(
        *(seq(one.keys, style.colon, one.value) for one in classes if one.value is not NOTHING)
    )


def _ending(style: Style, parts: list[Part], extra: Node, last: Node) -> Node:
    members = [write_member(style, part) for part in parts]
    node = seq(many(seq(extra, style.comma)), last)
    for part, member in zip(reversed(parts), reversed(members), strict=True):
        follow = seq(member, style.comma)
        node = shared(follow if part.required else opt(follow), node)
    return seq(lit("{"), style.padding, node, style.padding, lit("}"))


def _plain(style: Style, parts: list[Part], extra: Node) -> Node:
    """Return objects whose first member is always there: what `_free` leads to, in one go."""
    pieces: list[Node] = []
    for part in parts:
        if not part.required:
            pieces.append(opt(write_further(style, part)))
        elif style.separators is not None:
            comma, colon = style.separators
            before = comma if pieces else "{"
            pieces += (Literal(f"{before}{part.key}{colon}".encode()), part.value)
        elif pieces:
            pieces.append(write_further(style, part))
        else:
            pieces += (_LEFT, write_member(style, part))
    if extra is not NOTHING:
        pieces.append(many(seq(style.comma, extra)))
    pieces.append(_RIGHT)
    return seq(*pieces)


def _free(style: Style, parts: list[Part], needed: list[bool], extra: Node) -> Node:
    """Return the members without limits on their number; at least one is there."""
    follows = [
        write_further(style, part) if must else opt(write_further(style, part))
        for part, must in zip(parts, needed, strict=True)
    ]
    # Any member up to the first that must be there can be the first one written.
    starts = needed.index(True) + 1 if True in needed else len(parts)
    tail = seq(*follows[starts:], many(seq(style.comma, extra)))
    heads = [] if True in needed else [seq(extra, tail)]
    join = shared if starts > _SHARED else seq
    for index in range(starts - 1, -1, -1):
        heads.append(join(write_member(style, parts[index]), tail))
        tail = join(follows[index], tail)
    return alt(*reversed(heads))


def shared(first: Node, then: Node) -> Node:
    """Concatenate without copying the parts of what follows."""
    if first is NOTHING or then is NOTHING:
        return NOTHING
    if then is EMPTY or first is EMPTY:
        return first if then is EMPTY else then
    return Sequence((first, then))


def _counted(
    style: Style, members: list[Node], needed: list[bool], extra: Node, least: int, most: int | None
) -> Node:
    """Return the members with limits on their number; at least one is there.

    ``row[n]`` is what may follow when n members are written (more than the cap need no counting).
    """
    cap = least if most is None else most
    again = seq(style.comma, extra)
    row = [
        repeat(again, max(least - n, 0), None if most is None else most - n) for n in range(cap + 1)
    ]
    first = repeat_first(extra, again, least, most)
    for index in range(len(members) - 1, -1, -1):
        follow = seq(style.comma, members[index])
        onward = [row[min(n + 1, cap)] if most is None or n < cap else NOTHING
                  for n in range(cap + 1)]  # fmt: skip
        skip = NOTHING if needed[index] else first
        first = alt(shared(members[index], onward[0]), skip)
        row = [
            alt(shared(follow, onward[n]), NOTHING if needed[index] else row[n])
            for n in range(cap + 1)
        ]
    return first


def repeat_first(extra: Node, again: Node, least: int, most: int | None) -> Node:
    """Return extras from the very first member on, at least one."""
    if extra is NOTHING or most == 0:
        return NOTHING
    return seq(extra, repeat(again, max(least - 1, 0), None if most is None else most - 1))
