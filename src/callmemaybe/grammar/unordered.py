"""The members of an object in any order: one node, unfolded as they are written.

There are 2^n sets of members that may be left to write, and n! orders. Only those that are visited
are ever built, as with everything else in an automaton; so the number of members has no limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from callmemaybe.grammar.nodes import EMPTY, INFINITE, NOTHING, Node, Words
from callmemaybe.grammar.nodes import Sequence as Seq

Least = Callable[[Node], float]


class Members(Node):
    """What may be written: keys (sorted, none the beginning of another), each with its value."""

    __slots__ = ()

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The keys, sorted."""
        return self._fields[0]  # type: ignore[no-any-return]

    @property
    def values(self) -> tuple[Node, ...]:
        """What follows each key."""
        return self._fields[1]  # type: ignore[no-any-return]

    @property
    def needed(self) -> int:
        """The members that must be there, as bits."""
        return self._fields[2]  # type: ignore[no-any-return]

    @property
    def comma(self) -> Node:
        """What stands between two members."""
        return self._fields[3]  # type: ignore[no-any-return]

    @property
    def extra(self) -> Node:
        """Any other member; NOTHING for none."""
        return self._fields[4]  # type: ignore[no-any-return]

    @property
    def last(self) -> Node:
        """A further member that must be there, behind every ``extra``; NOTHING for none."""
        return self._fields[5]  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Node, ...]:
        """The values, the comma, and the other members."""
        return (*self.values, self.comma, self.extra, self.last)


class Unordered(Node):
    """Members in any order, each at most once, others among them; at least one in all."""

    __slots__ = ()

    @property
    def members(self) -> Members:
        """What may be written."""
        return self._fields[0]  # type: ignore[no-any-return]

    @property
    def left(self) -> int:
        """The members that are not written yet, as bits."""
        return self._fields[1]  # type: ignore[no-any-return]

    @property
    def fewest(self) -> int:
        """How many more members there must be, of all kinds."""
        return self._fields[2]  # type: ignore[no-any-return]

    @property
    def most(self) -> int | None:
        """How many more there may be; None: any number."""
        return self._fields[3]  # type: ignore[no-any-return]

    @property
    def begun(self) -> bool:
        """Whether a member was written already, so that a comma comes next."""
        return self._fields[4]  # type: ignore[no-any-return]

    @property
    def owed(self) -> bool:
        """Whether the member ``last`` is still to come."""
        return self._fields[5]  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Node, ...]:
        """The values, the comma, and the other members."""
        return self.members.children

    @property
    def due(self) -> int:
        """How many members must still come, each for its own sake."""
        return (self.left & self.members.needed).bit_count() + self.owed

    def then(self, written: int = 0, *, owed: bool | None = None) -> Unordered:
        """Return what may follow once the members ``written`` (bits), or another one, are there."""
        return Unordered(
            self.members,
            self.left & ~written,
            max(self.fewest - 1, 0),
            None if self.most is None else self.most - 1,
            True,
            self.owed if owed is None else owed,
        )


class Pick(Words):
    """The keys that may come next; what follows one is built when it is asked for.

    Fields: the node that is unfolded, and the members to choose from (indices, ascending).
    """

    __slots__ = ()

    @property
    def unfolded(self) -> Unordered:
        """The node that this is a part of."""
        return self._fields[0]  # type: ignore[no-any-return]

    @property
    def indices(self) -> tuple[int, ...]:
        """The members to choose from."""
        return self._fields[1]  # type: ignore[no-any-return]

    @property
    def words(self) -> tuple[bytes, ...]:
        """The keys."""
        return self._fields[2]  # type: ignore[no-any-return]

    @property
    def then(self) -> _Onward:  # type: ignore[override]
        """What follows each key."""
        return _Onward(self)

    @property
    def children(self) -> tuple[Node, ...]:
        """The values, the comma, and the other members."""
        return self.unfolded.children


class _Onward(Sequence[Node]):
    """What follows each key of a Pick, built when it is asked for."""

    __slots__ = ("_pick",)

    def __init__(self, pick: Pick) -> None:
        self._pick = pick

    def __len__(self) -> int:
        return len(self._pick.indices)

    @overload
    def __getitem__(self, place: int) -> Node: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Node]: ...
    def __getitem__(self, place: int | slice) -> Node | Sequence[Node]:
        if isinstance(place, slice):
            return [self[index] for index in range(*place.indices(len(self)))]
        unfolded, index = self._pick.unfolded, self._pick.indices[place]
        return Seq((unfolded.members.values[index], unfolded.then(1 << index)))


def unfold(node: Unordered, least: Least) -> list[Node]:
    """Return the ways to go on: to end, with a member that is left, with another one."""
    members, due = node.members, node.due
    if node.most is not None and node.most < max(due, node.fewest):
        return []
    found: list[Node] = [EMPTY] if node.fewest <= 0 and not due else []
    if node.most == 0:
        return found
    before = (members.comma,) if node.begun else ()
    # Whether there is room for a member that need not be there.
    spare = node.most is None or node.most > due
    open_ = node.left if spare else node.left & members.needed
    indices = tuple(
        index
        for index, value in enumerate(members.values)
        if open_ >> index & 1 and least(value) < INFINITE
    )
    if indices:
        found.append(Seq((*before, Pick(node, indices, tuple(members.keys[i] for i in indices)))))
    has_last = members.last is not NOTHING
    if members.extra is not NOTHING and spare and (node.owed or not has_last):
        found.append(Seq((*before, members.extra, node.then())))
    if node.owed and has_last:
        found.append(Seq((*before, members.last, node.then(owed=False))))
    return found


class Cost:
    """The fewest symbols of what an Unordered may still write, and of each choice within it."""

    def __init__(self, node: Unordered, least: Least) -> None:
        """Add up what must come; ``least`` gives the fewest symbols of the parts."""
        members = node.members
        comma = least(members.comma)
        self._of = [
            comma + len(key) + least(value)
            for key, value in zip(members.keys, members.values, strict=True)
        ]
        self._needed = members.needed
        must = [cost for i, cost in enumerate(self._of) if (node.left & members.needed) >> i & 1]
        if node.owed:
            must.append(comma + least(members.last))
        #: How many members are only there to reach the least number.
        self._fill = max(node.fewest - len(must), 0)
        free = [cost for i, cost in enumerate(self._of) if (node.left & ~members.needed) >> i & 1]
        if members.extra is not NOTHING:
            free += [comma + least(members.extra)] * self._fill
        self._free = sorted(free)
        fits = node.most is None or node.most >= len(must) + self._fill
        enough = len(free) >= self._fill and fits
        unwritten = 0 if node.begun or not (must or self._fill) else comma
        self.total = sum(must) + sum(self._free[: self._fill]) - unwritten if enough else INFINITE
        self._with_comma = self.total + unwritten

    def after(self, index: int) -> float:
        """Return the fewest symbols of what follows a member that is written now."""
        if self._needed >> index & 1:
            return self._with_comma - self._of[index]
        if not self._fill:
            return self._with_comma
        return self._with_comma - min(self._of[index], self._free[self._fill - 1])
