"""Counted repetitions within a lexeme: a text, so many to so many of one thing, one last byte.

Such a lexeme (`maxLength: 50` makes one) differs from the one without limits only in how often the
thing may still come. Where each thing ends is seen as it is read (no thing is the beginning of
another, and none begins with the last byte), so who counts along the way of the unlimited lexeme knows
all about every limited one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.nodes import Lexeme, Literal, Node, Repeat, Sequence, lexeme, many, seq
from callmemaybe.grammar.places import Place, Rest
from callmemaybe.grammar.wear import fresh

#: The automaton of one thing is looked at up to so many states.
MOST_STATES = 300


class Counted(NamedTuple):
    """A state of a limited lexeme, told by the unlimited one.

    ``machine`` in ``state`` reads on as it does, but at least ``least`` and at most ``most`` (None:
    any number) more things begin. In ``between`` one has ended and the next may begin.
    ``shortest`` is the length of the shortest thing.
    """

    machine: Automaton
    state: int
    between: int
    least: int
    most: int | None
    shortest: int


class Counting:
    """The shape of a limited lexeme."""

    __slots__ = ("body", "first", "last", "shortest", "unlimited")

    def __init__(self, first: Literal, body: Node, last: Literal, shortest: int) -> None:
        self.first = first
        self.body = body
        self.last = last
        self.unlimited = fresh(lexeme(seq(first, many(body), last)))
        self.shortest = shortest

    @classmethod
    def of(cls, root: Node | None, machine_of: Callable[[Node], Automaton]) -> Counting | None:
        """Return the shape of a lexeme's node, or None if it is not of this kind."""
        if not isinstance(root, Sequence) or len(root.parts) != 3:
            return None
        first, middle, last = root.parts
        if not (isinstance(first, Literal) and isinstance(middle, Repeat)
                and isinstance(last, Literal) and len(last.data) == 1):  # fmt: skip
            return None
        if middle.at_least == 0 and middle.at_most is None:
            return None
        thing = machine_of(Lexeme(middle.body))
        if not _ends_where_it_ends(thing, last.data[0]):
            return None
        return cls(first, middle.body, last, int(thing.least))

    def seen(self, places: tuple[Place, ...], machine_of: Callable[[Node], Any]) -> Counted | None:
        """Return what a state with these places is in the unlimited lexeme, if it is there at all."""
        inner = [place for place in places if not self._is_last(place)]
        limits = {self._limits(rest) for _, _, rest in inner}
        if len(limits) != 1 or (found := limits.pop()) is None:
            return None
        least, most = found
        machine = machine_of(self.unlimited)
        moved = [(leaf, position, self._unlimited(rest)) for leaf, position, rest in inner]
        last = (self.last, 0, ())
        between = machine.walk(machine.start, self.first.data)
        if machine.state_of([*moved, last]) == between:
            most = None if most is None else most + 1
            least = least + 1 if len(inner) == len(places) else 0
            return Counted(machine, between, between, least, most, self.shortest)
        if len(inner) < len(places):
            return None
        return Counted(machine, machine.state_of(moved), between, least, most, self.shortest)

    def _limits(self, rest: Rest | None) -> tuple[int, int | None] | None:
        """Return how many things must and may begin after the one that this stands behind."""
        while rest is not None:
            node, rest = rest.node, rest.rest
            if isinstance(node, Repeat) and node.body is self.body:
                return node.at_least, node.at_most
            if node is self.last and rest is None:
                return 0, 0
        return None

    def _is_last(self, place: Place) -> bool:
        return place[0] is self.last and place[2] is None

    def _unlimited(self, rest: Rest | None) -> list[Node]:
        """Return what follows a place of the unlimited lexeme, nearest first."""
        found: list[Node] = []
        while rest is not None and not self._is_limit(rest):
            found.append(rest.node)
            rest = rest.rest
        return [*found, many(self.body), self.last]

    def _is_limit(self, rest: Rest) -> bool:
        node = rest.node
        if isinstance(node, Repeat) and node.body is self.body:
            return True
        return node is self.last and rest.rest is None


def is_endless(root: Node | None) -> bool:
    """Whether a lexeme's node is a text, any number of one thing that is not empty, and a text."""
    if not isinstance(root, Sequence) or len(root.parts) != 3:
        return False
    first, middle, last = root.parts
    return (
        isinstance(first, Literal)
        and isinstance(last, Literal)
        and isinstance(middle, Repeat)
        and middle.at_least == 0
        and middle.at_most is None
    )


def _ends_where_it_ends(thing: Automaton, last: int) -> bool:
    """Whether no string of a machine begins another one, none is empty, none starts with a byte."""
    if thing.is_accepting(thing.start) or thing.first_bytes(thing.start) >> last & 1:
        return False
    seen, stack = {thing.start}, [thing.start]
    while stack:
        state = stack.pop()
        if thing.is_accepting(state):
            if not thing.is_final(state):
                return False
            continue
        for _, target in thing.edges(state):
            if target not in seen:
                seen.add(target)
                stack.append(target)
        if len(seen) > MOST_STATES:
            return False
    return True
