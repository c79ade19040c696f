r"""Automata over explicit tables and over the substrings of a text.

The text is given as units (characters, each as its bytes in the output, such as a backslash and a quote
inside a JSON string); a substring begins and ends between units. States are sets of offsets, built on demand:
the factor automaton of Blumer et al. (1985), lazy and not minimised.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate, count

from callmemaybe.grammar.automaton import Automaton, Edges
from callmemaybe.grammar.nodes import INFINITE


class TableAutomaton(Automaton):
    """Rows of (byte set, target), one for each state; 0 is the start."""

    def __init__(self, rows: Sequence[Edges], accepting: AbstractSet[int]) -> None:
        """Compute the distances to an accepting state by backward breadth-first search."""
        self._rows = rows
        self._accepting = accepting
        sources: list[list[int]] = [[] for _ in rows]
        for state, row in enumerate(rows):
            for _, target in row:
                sources[target].append(state)
        self._distances = dict.fromkeys(accepting, 0)
        level = list(accepting)
        while level:
            following = []
            for target in level:
                for source in sources[target]:
                    if source not in self._distances:
                        self._distances[source] = self._distances[target] + 1
                        following.append(source)
            level = following
        self.start = 0
        self.min_length = self._distances.get(0, INFINITE)

    def is_accepting(self, state: int) -> bool:
        """Whether the input so far is in the language."""
        return state in self._accepting

    def edges(self, state: int) -> Edges:
        """Return the row of a state."""
        return self._rows[state]

    def min_remaining(self, state: int) -> int:
        """Return the fewest further bytes to an accepting state."""
        return self._distances[state]


class SubstringAutomaton(Automaton):
    """Every non-empty run of neighbouring units."""

    def __init__(
        self, units: tuple[bytes, ...], starts: tuple[bool, ...], ends: tuple[bool, ...]
    ) -> None:
        """Take the units, and before and after which of them a substring may start and end."""
        self._text = b"".join(units)
        bounds = [0, *accumulate(len(unit) for unit in units)]
        may_end = [False, *ends]
        # For each offset: bytes to the nearest place where a substring may end.
        self._to_end = _distances(
            len(self._text), {b for b, ok in zip(bounds, may_end, strict=True) if ok}
        )
        offsets = tuple(
            b
            for b, ok, unit in zip(bounds, starts, units, strict=False)
            if ok and unit and self._ends_after(b)
        )
        self._ids: dict[tuple[tuple[int, ...], bool], int] = {}
        self._next_id = count()
        self._offsets: dict[int, tuple[int, ...]] = {}
        self._accepting: dict[int, bool] = {}
        self._edges: dict[int, Edges] = {}
        self.start = self._id(offsets, accepting=False)
        self.min_length = min((1 + self._to_end[o + 1] for o in offsets), default=float("inf"))

    def is_accepting(self, state: int) -> bool:
        """Whether the input so far is a whole substring."""
        return self._accepting[state]

    def edges(self, state: int) -> Edges:
        """Return one edge for each byte that may come next."""
        found = self._edges.get(state)
        if found is None:
            following: dict[int, list[int]] = {}
            for offset in self._offsets[state]:
                if self._ends_after(offset):
                    following.setdefault(self._text[offset], []).append(offset + 1)
            found = tuple((1 << byte, self._after(offsets)) for byte, offsets in following.items())
            self._edges[state] = found
        return found

    def min_remaining(self, state: int) -> int:
        """Return the fewest further bytes to the end of a substring."""
        if self._accepting[state]:
            return 0
        if state == self.start:
            return int(self.min_length)
        return int(min(self._to_end[offset] for offset in self._offsets[state]))

    def _ends_after(self, offset: int) -> bool:
        return offset < len(self._text) and self._to_end[offset + 1] < float("inf")

    def _after(self, offsets: list[int]) -> int:
        accepting = any(self._to_end[offset] == 0 for offset in offsets)
        return self._id(tuple(offsets), accepting=accepting)

    def _id(self, offsets: tuple[int, ...], *, accepting: bool) -> int:
        key = (offsets, accepting)
        found = self._ids.get(key)
        if found is None:
            fresh = next(self._next_id)
            self._offsets[fresh], self._accepting[fresh] = key
            found = self._ids.setdefault(key, fresh)
        return found


def _distances(length: int, targets: set[int]) -> list[float]:
    """Return for each offset up to ``length`` the distance to the next target (0 at a target)."""
    distances = [float("inf")] * (length + 1)
    nearest = float("inf")
    for offset in range(length, -1, -1):
        nearest = 0 if offset in targets else nearest + 1
        distances[offset] = nearest
    return distances
