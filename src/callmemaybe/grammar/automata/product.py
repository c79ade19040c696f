"""Intersection and difference of two automata, for lexemes such as "this pattern, at most 20 long"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from callmemaybe.grammar.automaton import (
    DEAD,
    NO_EDGES,
    Automaton,
    Edges,
)
from callmemaybe.grammar.nodes import INFINITE

#: Longest completion with which far-away limits are dropped, and states searched to make sure.
MAX_COMPLETION, MAX_SEARCHED = 40, 4000


class ProductAutomaton(Automaton):
    """Intersection or difference of two automata without control tokens, stepped side by side.

    States that cannot reach an accepting one are dropped; a breadth-first search finds them.
    """

    def __init__(self, left: Automaton, right: Automaton, *, subtract: bool) -> None:
        """Accept the strings of ``left`` that are in ``right`` (with ``subtract``: are not)."""
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
        self._relaxed_products: dict[tuple[Automaton, Automaton], ProductAutomaton] = {}
        self._relaxed_states: dict[tuple[int, int], tuple[Automaton, int]] = {}
        #: States whose successors are all at most MAX_COMPLETION from an end, while no other was found.
        self._bounded: set[int] = set()
        self._may_be_bounded = True
        self.start = self._intern((left.start, right.start))
        self.min_length = self._distance_of(self.start) if left.min_length < INFINITE else INFINITE

    def is_accepting(self, state: int) -> bool:
        """Whether the input so far is in the combined language."""
        left, right = self._pairs[state]
        return self._left.is_accepting(left) and (
            (right >= 0 and self._right.is_accepting(right)) is not self._subtract
        )

    def edges(self, state: int) -> Edges:
        """Return disjoint (byte set, target) pairs; every target can still accept."""
        found = self._edges.get(state)
        if found is None:
            live = tuple(e for e in self._all_moves(state) if self._distance_of(e[1]) < INFINITE)
            found = self._edges.setdefault(state, live)
        return found

    def alias(self, state: int) -> tuple[Automaton, int]:
        """Return the left automaton's state where nothing is left to subtract."""
        left, right = self._pairs[state]
        if self._subtract and right == DEAD:
            return self._left.alias(left)
        return self, state

    def as_exclusion(self, state: int, most: int) -> tuple[Automaton, int, list[bytes]] | None:
        """Return the left state and the texts that are subtracted from it, if these are few.

        The left side may be such a difference itself.
        """
        left, right = self._pairs[state]
        if not self._subtract:
            return None
        if not self._left.is_unbounded:
            found = self._left.as_exclusion(left, most)
        else:
            found = None if self._left.is_accepting(left) else (self._left, left, [])
        if found is None or right == DEAD:
            return found
        branches = self._right.branches(right, most)
        if branches is None or len(found[2]) + len(branches) > most:
            return None
        for text, onward in branches:
            if not text or not self._right.is_final(self._right.after_branch(onward)):
                return None
        return *found[:2], [*found[2], *(text for text, _ in branches)]

    def dependencies(self) -> Iterable[Automaton]:
        """Return the two sides, and the relaxed variants of this product."""
        return self._left, self._right, *tuple(self._relaxed_products.values())

    def min_remaining(self, state: int) -> int:
        """Return the fewest further bytes to an accepting state."""
        return int(self._distance_of(state))

    def relaxed(self, state: int, depth: int) -> tuple[Automaton, int]:
        """Return a state of the product of both sides without their far-away limits.

        A text is alive if it has a completion in both sides. If no completion is longer than MAX_COMPLETION,
        limits beyond ``depth`` plus MAX_COMPLETION decide nothing. Limits of a subtracted side are kept.
        """
        key = state, depth
        known = self._relaxed_states.get(key)
        if known is None:
            known = self._relaxed_states[key] = self._find_relaxed(state, depth + MAX_COMPLETION)
        return known

    def _find_relaxed(self, state: int, far: int) -> tuple[Automaton, int]:
        left, right = self._pairs[state]
        one, left = self._left.relaxed(left, far)
        other = self._right
        if not self._subtract:
            other, right = other.relaxed(right, far)
        if (one, other) == (self._left, self._right):
            return self, state
        product = self._relaxed_products.get((one, other))
        if product is None:
            product = self._relaxed_products[one, other] = ProductAutomaton(
                one, other, subtract=self._subtract
            )
            product.source = self.source
        inner = product._intern((left, right))
        return (product, inner) if product._is_bounded(inner) else (self, state)

    def _is_bounded(self, origin: int) -> bool:
        """Whether every reachable state is at most MAX_COMPLETION from an end, and these are few."""
        if origin in self._bounded or not self._may_be_bounded:
            return origin in self._bounded
        seen, stack = {origin}, [origin]
        while stack and self._may_be_bounded:
            state = stack.pop()
            self._may_be_bounded = (
                self._distance_of(state) <= MAX_COMPLETION and len(seen) <= MAX_SEARCHED
            )
            for _, target in self.edges(state):
                if target not in seen and target not in self._bounded:
                    seen.add(target)
                    stack.append(target)
        if self._may_be_bounded:
            self._bounded |= seen
        return self._may_be_bounded

    def _intern(self, pair: tuple[int, int]) -> int:
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
                target = self._intern(pair)
                moves[target] = moves.get(target, 0) | mask
                self.steps += 1
            if self.steps > self.next_check:
                self.check_budget()
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

    def _distance_of(self, origin: int) -> float:
        """Return the distance to the nearest accepting state, by breadth-first search with memory."""
        if (known := self._known_distance(origin)) is not None:
            return known
        parents: dict[int, int] = {origin: DEAD}
        level, depth = [origin], 0
        best, at = INFINITE, DEAD
        while level and depth < best:
            following: list[int] = []
            for state in level:
                here = 0 if self.is_accepting(state) else self._known_distance(state)
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

    def _known_distance(self, state: int) -> float | None:
        """Return the distance of a state if it is known or follows from the two sides."""
        known = self._distances.get(state)
        if known is None and self._subtract:
            left, right = self._pairs[state]
            # A completion shorter than all subtracted ones is not subtracted.
            if right == DEAD or (
                self._right.min_length < INFINITE
                and self._right.min_remaining(right) > self._left.min_remaining(left)
            ):
                known = self._distances[state] = self._left.min_remaining(left)
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
