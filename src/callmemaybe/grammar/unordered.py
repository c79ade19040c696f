"""The members of an object in any order, as one node that is unfolded while it is read.

There are 2^n sets of members still to be written, and n! orders. Only the sets that are visited are built, so
the number of members has no limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from callmemaybe.grammar.nodes import EMPTY, FIELD, INFINITE, NOTHING, Concat, Node, WordTrie

MinLength = Callable[[Node], float]


class Members(Node):
    """The possible members: keys (sorted, none a prefix of another), each with its value."""

    __slots__ = ()

    keys: tuple[bytes, ...] = FIELD[0]
    #: What follows each key.
    values: tuple[Node, ...] = FIELD[1]
    #: The members that must be present, as bits.
    required: int = FIELD[2]
    #: What separates two members.
    comma: Node = FIELD[3]
    #: Any undeclared member; NOTHING for none.
    extra: Node = FIELD[4]
    #: A further member that must be present, behind every ``extra``; NOTHING for none.
    last: Node = FIELD[5]

    @property
    def children(self) -> tuple[Node, ...]:
        """The values, the comma, and the undeclared members."""
        return (*self.values, self.comma, self.extra, self.last)


class Unordered(Node):
    """Members in any order, each at most once, undeclared ones among them; at least one in all."""

    __slots__ = ()

    members: Members = FIELD[0]
    #: The members not yet written, as bits.
    unwritten: int = FIELD[1]
    #: How many more members there must be, of all kinds.
    at_least: int = FIELD[2]
    #: How many more there may be; None: any number.
    at_most: int | None = FIELD[3]
    #: Whether a member was written already, so that a comma comes next.
    has_members: bool = FIELD[4]
    #: Whether the member ``last`` is still to come.
    last_is_due: bool = FIELD[5]

    @property
    def children(self) -> tuple[Node, ...]:
        """The values, the comma, and the undeclared members."""
        return self.members.children

    @property
    def required_count(self) -> int:
        """The members that must still be written by name, and ``last``."""
        return (self.unwritten & self.members.required).bit_count() + self.last_is_due

    def after_member(self, written: int = 0, *, last_is_due: bool | None = None) -> Unordered:
        """Return what may follow once the members ``written`` (bits), or an undeclared one, are written."""
        return Unordered(
            self.members,
            self.unwritten & ~written,
            max(self.at_least - 1, 0),
            None if self.at_most is None else self.at_most - 1,
            True,
            self.last_is_due if last_is_due is None else last_is_due,
        )


class MemberKeys(WordTrie):
    """The keys that may come next; the tail of a key is built when it is read.

    Fields: the node that is unfolded, and the indices of the members to choose from, ascending.
    """

    __slots__ = ()

    #: The node this is a part of.
    unordered: Unordered = FIELD[0]
    #: The indices of the members.
    indices: tuple[int, ...] = FIELD[1]
    words: tuple[bytes, ...] = FIELD[2]

    @property
    def tails(self) -> _MemberTails:  # type: ignore[override]
        """What follows each key."""
        return _MemberTails(self)

    @property
    def children(self) -> tuple[Node, ...]:
        """The values, the comma, and the undeclared members."""
        return self.unordered.children


class _MemberTails(Sequence[Node]):
    """The tails of MemberKeys, built on access."""

    __slots__ = ("_pick",)

    def __init__(self, pick: MemberKeys) -> None:
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
        unordered, index = self._pick.unordered, self._pick.indices[place]
        return Concat((unordered.members.values[index], unordered.after_member(1 << index)))


def unfold(node: Unordered, min_length: MinLength) -> list[Node]:
    """Return the possible continuations: the end, a declared member, an undeclared one."""
    members, required_count = node.members, node.required_count
    if node.at_most is not None and node.at_most < max(required_count, node.at_least):
        return []
    found: list[Node] = [EMPTY] if node.at_least <= 0 and not required_count else []
    if node.at_most == 0:
        return found
    before = (members.comma,) if node.has_members else ()
    # Whether the limit leaves room for a member that is not required.
    has_room = node.at_most is None or node.at_most > required_count
    writable = node.unwritten if has_room else node.unwritten & members.required
    indices = tuple(
        index
        for index, value in enumerate(members.values)
        if writable >> index & 1 and min_length(value) < INFINITE
    )
    if indices:
        found.append(
            Concat((*before, MemberKeys(node, indices, tuple(members.keys[i] for i in indices))))
        )
    has_last = members.last is not NOTHING
    if members.extra is not NOTHING and has_room and (node.last_is_due or not has_last):
        found.append(Concat((*before, members.extra, node.after_member())))
    if node.last_is_due and has_last:
        found.append(Concat((*before, members.last, node.after_member(last_is_due=False))))
    return found


class RemainingCost:
    """The symbols of the shortest completion of an Unordered, and of each choice within it."""

    def __init__(self, node: Unordered, min_length: MinLength) -> None:
        """Sum the required parts; ``min_length`` gives the shortest length of each part."""
        members = node.members
        comma = min_length(members.comma)
        self._costs = [
            comma + len(key) + min_length(value)
            for key, value in zip(members.keys, members.values, strict=True)
        ]
        self._needed = members.required
        must = [
            cost
            for i, cost in enumerate(self._costs)
            if (node.unwritten & members.required) >> i & 1
        ]
        if node.last_is_due:
            must.append(comma + min_length(members.last))
        #: Members that are only needed to reach the minimum count.
        self._fillers = max(node.at_least - len(must), 0)
        free = [
            cost
            for i, cost in enumerate(self._costs)
            if (node.unwritten & ~members.required) >> i & 1
        ]
        if members.extra is not NOTHING:
            free += [comma + min_length(members.extra)] * self._fillers
        self._optional = sorted(free)
        fits = node.at_most is None or node.at_most >= len(must) + self._fillers
        enough = len(free) >= self._fillers and fits
        unwritten = 0 if node.has_members or not (must or self._fillers) else comma
        self.total = (
            sum(must) + sum(self._optional[: self._fillers]) - unwritten if enough else INFINITE
        )
        self._with_comma = self.total + unwritten

    def after(self, index: int) -> float:
        """Return the symbols of the shortest completion behind the member that is written now."""
        if self._needed >> index & 1:
            return self._with_comma - self._costs[index]
        if not self._fillers:
            return self._with_comma
        return self._with_comma - min(self._costs[index], self._optional[self._fillers - 1])
