"""Counted repetitions inside a lexeme: a literal, a bounded repetition of one body, one last byte.

Such a lexeme (`maxLength: 50` makes one) differs from the unlimited one only in how often the body may still
come. Bodies delimit themselves (none is a prefix of another, none begins with the last byte), so masks of the
unlimited lexeme with counts serve every limited one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from callmemaybe.grammar.automata.items import Continuation, Item
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.nodes import (
    Concat,
    Lexeme,
    Literal,
    Node,
    Repeat,
    lexeme,
    many,
    renewed,
    seq,
)

#: States searched of the automaton of the body.
MAX_STATES = 300


class CountedState(NamedTuple):
    """A state of a limited lexeme, expressed by the unlimited one.

    ``machine`` in ``state`` continues in the same way, but at least ``at_least`` and at most ``at_most``
    (None: any number) more bodies begin. In state ``boundary`` one has ended and the next may begin.
    ``shortest`` is the length of the shortest body in bytes.
    """

    machine: Automaton
    state: int
    boundary: int
    at_least: int
    at_most: int | None
    shortest: int


class CountedLexeme:
    """The parts of a limited lexeme."""

    __slots__ = ("body", "first", "last", "shortest", "unlimited")

    def __init__(self, first: Literal, body: Node, last: Literal, shortest: int) -> None:
        self.first = first
        self.body = body
        self.last = last
        self.unlimited = renewed(lexeme(seq(first, many(body), last)))
        self.shortest = shortest

    @classmethod
    def of(cls, root: Node | None, machine_of: Callable[[Node], Automaton]) -> CountedLexeme | None:
        """Return the parts of a lexeme's node, or None if it has another form."""
        if not isinstance(root, Concat) or len(root.parts) != 3:
            return None
        first, middle, last = root.parts
        if not (isinstance(first, Literal) and isinstance(middle, Repeat)
                and isinstance(last, Literal) and len(last.data) == 1):  # fmt: skip
            return None
        if middle.at_least == 0 and middle.at_most is None:
            return None
        body = machine_of(Lexeme(middle.body))
        if not _is_self_delimiting(body, last.data[0]):
            return None
        return cls(first, middle.body, last, int(body.min_length))

    def locate(
        self, items: tuple[Item, ...], machine_of: Callable[[Node], Any]
    ) -> CountedState | None:
        """Return the state with these items as one of the unlimited lexeme, if it exists there."""
        inner = [item for item in items if not self._is_last(item)]
        limits = {self._limits(rest) for _, _, rest in inner}
        if len(limits) != 1 or (found := limits.pop()) is None:
            return None
        at_least, at_most = found
        machine = machine_of(self.unlimited)
        moved = [(leaf, position, self._unlimited(rest)) for leaf, position, rest in inner]
        last = (self.last, 0, ())
        boundary = machine.walk(machine.start, self.first.data)
        if machine.state_of([*moved, last]) == boundary:
            at_most = None if at_most is None else at_most + 1
            at_least = at_least + 1 if len(inner) == len(items) else 0
            return CountedState(machine, boundary, boundary, at_least, at_most, self.shortest)
        if len(inner) < len(items):
            return None
        return CountedState(
            machine, machine.state_of(moved), boundary, at_least, at_most, self.shortest
        )

    def _limits(self, rest: Continuation | None) -> tuple[int, int | None] | None:
        """Return how many bodies must and may begin after the current one."""
        while rest is not None:
            node, rest = rest.node, rest.rest
            if isinstance(node, Repeat) and node.body is self.body:
                return node.at_least, node.at_most
            if node is self.last and rest is None:
                return 0, 0
        return None

    def _is_last(self, item: Item) -> bool:
        return item[0] is self.last and item[2] is None

    def _unlimited(self, rest: Continuation | None) -> list[Node]:
        """Return the nodes that follow an item in the unlimited lexeme, in order."""
        found: list[Node] = []
        while rest is not None and not self._is_limit(rest):
            found.append(rest.node)
            rest = rest.rest
        return [*found, many(self.body), self.last]

    def _is_limit(self, rest: Continuation) -> bool:
        node = rest.node
        if isinstance(node, Repeat) and node.body is self.body:
            return True
        return node is self.last and rest.rest is None


def is_unbounded(root: Node | None) -> bool:
    """Whether a lexeme's node is a literal, an unlimited repetition of one body, and a literal."""
    if not isinstance(root, Concat) or len(root.parts) != 3:
        return False
    first, middle, last = root.parts
    return (
        isinstance(first, Literal)
        and isinstance(last, Literal)
        and isinstance(middle, Repeat)
        and middle.at_least == 0
        and middle.at_most is None
    )


def _is_self_delimiting(body: Automaton, last: int) -> bool:
    """Whether no body is empty, a prefix of another one, or begins with the byte ``last``."""
    if body.is_accepting(body.start) or body.first_bytes(body.start) >> last & 1:
        return False
    locate, stack = {body.start}, [body.start]
    while stack:
        state = stack.pop()
        if body.is_accepting(state):
            if not body.is_final(state):
                return False
            continue
        for _, target in body.edges(state):
            if target not in locate:
                locate.add(target)
                stack.append(target)
        if len(locate) > MAX_STATES:
            return False
    return True
