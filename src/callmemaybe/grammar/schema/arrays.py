"""The texts of arrays: a few first items, any number of others, perhaps some that must be there."""

from __future__ import annotations

from collections.abc import Sequence as Items

from callmemaybe.grammar.nodes import (
    EMPTY,
    NOTHING,
    Node,
    Sequence,
    alt,
    lit,
    many,
    opt,
    repeat,
    seq,
)
from callmemaybe.grammar.schema.style import Style


def array_body(style: Style, prefix: Items[Node], rest: Node, least: int, most: int | None) -> Node:
    """Return arrays with these first items, then ``rest``; ``least`` to ``most`` items in all."""
    if most is not None and (most < least or most < len(prefix)):
        prefix = prefix[:most]
        if most < least:
            return NOTHING
    empty = seq(lit("["), style.padding, lit("]"))
    if most == 0:
        return empty
    count = len(prefix)
    left = None if most is None else most - max(count, 1)
    again = seq(style.comma, rest)
    node = repeat(again, max(least - max(count, 1), 0), left)
    if count == 0:
        node = seq(rest, node)
    for index in range(count - 1, -1, -1):
        if index < count - 1:
            follow = seq(style.comma, prefix[index + 1], node)
            node = follow if index + 2 <= least else opt(follow)
        elif least <= count and node is NOTHING:
            node = EMPTY
    if count:
        node = seq(prefix[0], node)
    full = seq(lit("["), style.padding, node, style.padding, lit("]"))
    return full if least else alt(full, empty)


class Counted:
    """Arrays in which a number of items, of those from index ``start``, meet a further need.

    ``plain`` and ``wanted`` return the node of the item at an index (capped at ``period``, from where
    all are alike) that need not / does meet it. Where there is no upper limit, an item that need not
    meet it may do so all the same.
    """

    def __init__(self, style: Style, plain: Items[Node], wanted: Items[Node]) -> None:
        self._style = style
        self._plain = plain
        self._wanted = wanted

    def body(self, least: int, most: int | None, fewest: int, highest: int | None) -> Node:
        """Return arrays of ``least`` to ``most`` items, ``fewest`` to ``highest`` of them wanted."""
        period = len(self._plain) - 1
        end = max(period, least, 1) if most is None else most
        cap = fewest if highest is None else highest
        row = self._after_the_end(fewest, cap, highest) if most is None else self._last(fewest, cap)
        for index in range(end - 1, -1, -1):
            at = min(index, period)
            row = [
                alt(
                    EMPTY if index >= least and done >= fewest else NOTHING,
                    self._item(self._plain[at], row[done], first=index == 0),
                    self._item(self._wanted[at], row[min(done + 1, cap)], first=index == 0)
                    if done < cap or highest is None
                    else NOTHING,
                )
                for done in range(cap + 1)
            ]
        pad = self._style.padding
        return seq(lit("["), pad, row[0], pad, lit("]"))

    def _item(self, item: Node, onward: Node, *, first: bool) -> Node:
        if item is NOTHING or onward is NOTHING:
            return NOTHING
        start = () if first else (self._style.comma,)
        return Sequence((*start, item, onward))

    @staticmethod
    def _last(fewest: int, cap: int) -> list[Node]:
        return [EMPTY if done >= fewest else NOTHING for done in range(cap + 1)]

    def _after_the_end(self, fewest: int, cap: int, highest: int | None) -> list[Node]:
        comma = self._style.comma
        plain = many(seq(comma, self._plain[-1]))
        wanted = seq(comma, self._wanted[-1])
        row = [seq(plain, EMPTY)]
        for done in range(cap - 1, -1, -1):
            onward = seq(plain, wanted, row[0])
            row.insert(0, alt(plain, onward) if done >= fewest else onward)
        del highest
        return row
