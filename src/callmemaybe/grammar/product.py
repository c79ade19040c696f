"""Intersection and difference of two automata, for lexemes such as "this pattern, at most 20 long"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from callmemaybe.grammar.automaton import (
    DEAD,
    NO_CONTROLS,
    NO_EDGES,
    Automaton,
    Edges,
)
from callmemaybe.grammar.nodes import INFINITE

#: What a completion may need where limits are taken for far away, and how many states are looked at.
SLACK, CALM = 40, 4000


class ProductAutomaton(Automaton):
    """Intersection or difference of two automata, stepped side by side (no controls).

    States from which nothing can be accepted are dropped, found by breadth-first search.
    """

    def __init__(self, left: Automaton, right: Automaton, *, subtract: bool) -> None:
        """Combine: strings of ``left`` that are (or, with ``subtract``, are not) in ``right``."""
        self._left = left
        self._right = right
        self._subtract = subtract
        self.source = " and ".join(filter(None, (left.source, right.source)))
        self._ids: dict[tuple[int, int], int] = {}
        self._next_id = count()
        self._pairs: dict[int, tuple[int, int]] = {}
        self._moves: dict[int, Edges] = {}
        self._edges: dict[int, Edges] = {}
        self._distances: dict[int, float] = {}
        self._twins: dict[tuple[Automaton, Automaton], ProductAutomaton] = {}
        self._nearby: dict[tuple[int, int], tuple[Automaton, int]] = {}
        #: States from which every state is at most SLACK from an end, while all were that are known.
        self._calm: set[int] = set()
        self._may_be_calm = True
        self.start = self._id((left.start, right.start))
        self.least = self._search(self.start) if left.least < INFINITE else INFINITE

    def is_accepting(self, state: int) -> bool:
        """Whether what was read so far is in the combined language."""
        left, right = self._pairs[state]
        return self._left.is_accepting(left) and (
            (right >= 0 and self._right.is_accepting(right)) is not self._subtract
        )

    def controls(self, state: int) -> Mapping[str, int]:  # noqa: ARG002 - the contract's argument
        """Return nothing: lexemes have no control tokens."""
        return NO_CONTROLS

    def edges(self, state: int) -> Edges:
        """Return disjoint (byte set, target) pairs; every target can still accept."""
        found = self._edges.get(state)
        if found is None:
            live = tuple(e for e in self._all_moves(state) if self._search(e[1]) < INFINITE)
            found = self._edges.setdefault(state, live)
        return found

    def alias(self, state: int) -> tuple[Automaton, int]:
        """Return the left automaton's state where nothing can be subtracted any more."""
        left, right = self._pairs[state]
        if self._subtract and right == DEAD:
            return self._left.alias(left)
        return self, state

    def excluding(self, state: int, most: int) -> tuple[Automaton, int, list[bytes]] | None:
        """Return the left state, and the texts that are taken from it, where these are few.

        What is on the left may have texts taken from it already.
        """
        left, right = self._pairs[state]
        if not self._subtract:
            return None
        if not self._left.is_endless:
            found = self._left.excluding(left, most)
        else:
            found = None if self._left.is_accepting(left) else (self._left, left, [])
        if found is None or right == DEAD:
            return found
        branches = self._right.branches(right, most)
        if branches is None or len(found[2]) + len(branches) > most:
            return None
        for text, onward in branches:
            if not text or not self._right.is_final(self._right.after(onward)):
                return None
        return *found[:2], [*found[2], *(text for text, _ in branches)]

    def stands_on(self) -> Iterable[Automaton]:
        """Return the two sides, and the products beside this one."""
        return self._left, self._right, *tuple(self._twins.values())

    def distance(self, state: int) -> int:
        """Fewest further bytes to an accepting end."""
        return int(self._search(state))

    def near(self, state: int, depth: int) -> tuple[Automaton, int]:
        """Return a state of the product of both sides without the limits that are far away.

        A text is alive if it has a completion in both. Where no completion is longer than SLACK,
        limits that ``depth`` and SLACK together do not reach decide nothing (nor may they be dropped
        from what is taken away: that would take more).
        """
        key = state, depth
        known = self._nearby.get(key)
        if known is None:
            known = self._nearby[key] = self._near(state, depth + SLACK)
        return known

    def _near(self, state: int, far: int) -> tuple[Automaton, int]:
        left, right = self._pairs[state]
        one, left = self._left.near(left, far)
        other = self._right
        if not self._subtract:
            other, right = other.near(right, far)
        if (one, other) == (self._left, self._right):
            return self, state
        twin = self._twins.get((one, other))
        if twin is None:
            twin = self._twins[one, other] = ProductAutomaton(one, other, subtract=self._subtract)
            twin.source = self.source
        inner = twin._id((left, right))
        return (twin, inner) if twin._is_calm(inner) else (self, state)

    def _is_calm(self, origin: int) -> bool:
        """Whether no state that can be reached is further than SLACK from an end, and these are few."""
        if origin in self._calm or not self._may_be_calm:
            return origin in self._calm
        seen, stack = {origin}, [origin]
        while stack and self._may_be_calm:
            state = stack.pop()
            self._may_be_calm = self._search(state) <= SLACK and len(seen) <= CALM
            for _, target in self.edges(state):
                if target not in seen and target not in self._calm:
                    seen.add(target)
                    stack.append(target)
        if self._may_be_calm:
            self._calm |= seen
        return self._may_be_calm

    def _id(self, pair: tuple[int, int]) -> int:
        found = self._ids.get(pair)
        if found is None:
            fresh = next(self._next_id)
            self._pairs[fresh] = pair
            found = self._ids.setdefault(pair, fresh)
        return found

    def _all_moves(self, state: int) -> Edges:
        found = self._moves.get(state)
        if found is None:
            moves: dict[int, int] = {}
            for mask, pair in self._combine(*self._pairs[state]):
                target = self._id(pair)
                moves[target] = moves.get(target, 0) | mask
                self.spent += 1
            if self.spent > self.due:
                self.pause()
            found = self._moves.setdefault(state, tuple((m, t) for t, m in moves.items()))
        return found

    def _combine(self, left: int, right: int) -> Iterator[tuple[int, tuple[int, int]]]:
        others = self._right.edges(right) if right >= 0 else NO_EDGES
        for mask, target in self._left.edges(left):
            remaining = mask
            for other, onward in others:
                if common := mask & other:
                    yield common, (target, onward)
                    remaining &= ~common
            if remaining and self._subtract:
                yield remaining, (target, DEAD)

    def _search(self, origin: int) -> float:
        """Distance to the nearest accepting state, by breadth-first search with memory."""
        if (known := self._told(origin)) is not None:
            return known
        parents: dict[int, int] = {origin: DEAD}
        level, depth = [origin], 0
        best, at = INFINITE, DEAD
        while level and depth < best:
            following: list[int] = []
            for state in level:
                here = 0 if self.is_accepting(state) else self._told(state)
                if here is not None:
                    if depth + here < best:
                        best, at = depth + here, state
                    continue
                for _, target in self._all_moves(state):
                    if target not in parents:
                        parents[target] = state
                        following.append(target)
            level, depth = following, depth + 1
        self._remember(origin, parents, at)
        return self._distances[origin]

    def _told(self, state: int) -> float | None:
        """Return the distance of a state where it is known, or plain to see."""
        known = self._distances.get(state)
        if known is None and self._subtract:
            left, right = self._pairs[state]
            # What is shorter than all that is taken away is not taken away.
            if right == DEAD or (
                self._right.least < INFINITE
                and self._right.distance(right) > self._left.distance(left)
            ):
                known = self._distances[state] = self._left.distance(left)
        return known

    def _remember(self, origin: int, parents: Mapping[int, int], at: int) -> None:
        if at == DEAD:
            self._distances.update(dict.fromkeys(parents, INFINITE))
            return
        left = self._distances.setdefault(at, 0)
        while at != origin:
            at = parents[at]
            left += 1
            self._distances[at] = left
