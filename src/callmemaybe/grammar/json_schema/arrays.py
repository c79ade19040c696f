"""The texts of arrays: first items, further items, and items that must exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from callmemaybe.grammar.json_schema.values import JsonStyle
from callmemaybe.grammar.nodes import (
    EMPTY,
    NOTHING,
    Concat,
    Node,
    alt,
    lit,
    many,
    opt,
    repeat,
    seq,
    words_then,
)


def array_body(
    style: JsonStyle, prefix: Sequence[Node], rest: Node, at_least: int, at_most: int | None
) -> Node:
    """Return arrays with these first items, then ``rest``; ``at_least`` to ``at_most`` items in all."""
    if at_most is not None and (at_most < at_least or at_most < len(prefix)):
        prefix = prefix[:at_most]
        if at_most < at_least:
            return NOTHING
    empty = seq(lit("["), style.padding, lit("]"))
    if at_most == 0:
        return empty
    count = len(prefix)
    left = None if at_most is None else at_most - max(count, 1)
    again = seq(style.comma, rest)
    node = repeat(again, max(at_least - max(count, 1), 0), left)
    if count == 0:
        node = seq(rest, node)
    for index in range(count - 1, -1, -1):
        if index < count - 1:
            follow = seq(style.comma, prefix[index + 1], node)
            node = follow if index + 2 <= at_least else opt(follow)
        elif at_least <= count and node is NOTHING:
            node = EMPTY
    if count:
        node = seq(prefix[0], node)
    full = seq(lit("["), style.padding, node, style.padding, lit("]"))
    return full if at_least else alt(full, empty)


def unique_body(
    style: JsonStyle, values: Sequence[Sequence[str]], at_least: int, at_most: int | None
) -> Node:
    """Return arrays of ``at_least`` to ``at_most`` different values, each given by all its texts."""
    count = len(values)
    rows: dict[int, Node] = {}
    for used in range((1 << count) - 1, -1, -1):
        length = used.bit_count()
        onward = {
            text: rows[used | 1 << index]
            for index, texts in enumerate(values)
            if not used >> index & 1 and (at_most is None or length < at_most)
            for text in texts
        }
        following = words_then({text: node for text, node in onward.items() if node is not NOTHING})
        if used:
            following = seq(style.comma, following)
        rows[used] = alt(EMPTY if length >= at_least else NOTHING, following)
    pad = style.padding
    return seq(lit("["), pad, rows[0], pad, lit("]"))


#: What an item counts for (one entry for each kind that is counted) -> its node.
Options = Mapping[tuple[int, ...], Node]


@dataclass(frozen=True, slots=True)
class CountLimits:
    """How many items of one kind there must and may be."""

    at_least: int
    at_most: int | None

    @property
    def cap(self) -> int:
        """The count from which on nothing changes."""
        return self.at_least if self.at_most is None else self.at_most


def counted_body(
    style: JsonStyle,
    items: Sequence[Options],
    limits: Sequence[CountLimits],
    at_least: int,
    at_most: int | None,
) -> Node:
    """Return arrays of ``at_least`` to ``at_most`` items, with limits on the items of some kinds.

    ``items`` are the options for the item at each index; the last ones are for all further items. Where a
    kind has no upper limit, an item that does not count for it may still be of it.
    """
    writer = _CountedRows(style, limits)
    end = max(len(items) - 1, at_least, 1) if at_most is None else at_most
    row = writer.without_end(items[-1]) if at_most is None else writer.ended()
    for index in range(end - 1, -1, -1):
        options = items[min(index, len(items) - 1)]
        row = writer.row(options, row, may_end=index >= at_least, first=index == 0)
    pad = style.padding
    start = row[(0,) * len(limits)]
    return seq(lit("["), pad, start, pad, lit("]")) if start is not NOTHING else NOTHING


class _CountedRows:
    """Rows of nodes: the continuation for each state of the counts."""

    def __init__(self, style: JsonStyle, limits: Sequence[CountLimits]) -> None:
        self._comma = style.comma
        self._limits = limits
        self._counts = list(product(*(range(one.cap + 1) for one in limits)))
        self._afters: dict[tuple[int, ...], list[tuple[int, ...] | None]] = {}

    def ended(self) -> dict[tuple[int, ...], Node]:
        """Return the row behind the last possible item."""
        return {counts: EMPTY if self._enough(counts) else NOTHING for counts in self._counts}

    def row(
        self,
        options: Options,
        onward: Mapping[tuple[int, ...], Node],
        *,
        may_end: bool,
        first: bool,
    ) -> dict[tuple[int, ...], Node]:
        """Return the row before one item with these options."""
        found = {}
        # Equal in every row, like the options' steps.
        afters = self._afters
        for counts in self._counts:
            targets = afters.get(counts)
            if targets is None:
                targets = afters[counts] = [self._after(counts, step) for step in options]
            nodes = [EMPTY] if may_end and self._enough(counts) else []
            for target, item in zip(targets, options.values(), strict=True):
                if target is not None:
                    nodes.append(self._item(item, onward[target], first=first))
            found[counts] = alt(*nodes)
        return found

    def without_end(self, options: Options) -> dict[tuple[int, ...], Node]:
        """Return the row from which on all items have the same options."""
        found: dict[tuple[int, ...], Node] = {}
        for counts in reversed(self._counts):  # counts only grow
            stay, defer = [], [EMPTY] if self._enough(counts) else []
            for step, item in options.items():
                target = self._after(counts, step)
                if target == counts:
                    stay.append(seq(self._comma, item))
                elif target is not None:
                    defer.append(self._item(item, found[target], first=False))
            found[counts] = seq(many(alt(*stay)), alt(*defer))
        return found

    def _enough(self, counts: tuple[int, ...]) -> bool:
        return all(n >= one.at_least for n, one in zip(counts, self._limits, strict=True))

    def _after(self, counts: tuple[int, ...], step: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the counts after an item, capped; None if a limit is exceeded."""
        found = []
        for n, more, one in zip(counts, step, self._limits, strict=True):
            if n + more > one.cap and one.at_most is not None:
                return None
            found.append(min(n + more, one.cap))
        return tuple(found)

    def _item(self, item: Node, onward: Node, *, first: bool) -> Node:
        if item is NOTHING or onward is NOTHING:
            return NOTHING
        start = () if first else (self._comma,)
        return Concat((*start, item, onward))
