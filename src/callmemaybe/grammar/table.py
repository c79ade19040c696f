"""An automaton that was given in full (see the node ``Table``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from callmemaybe.grammar.automaton import NO_CONTROLS, Automaton, Edges
from callmemaybe.grammar.nodes import INFINITE


class TableAutomaton(Automaton):
    """Rows of (byte set, target), one for each state; 0 is the start."""

    def __init__(self, rows: Sequence[Edges], accepting: AbstractSet[int]) -> None:
        """Find the distances to an accepting state, by breadth-first search backwards."""
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
        self.least = self._distances.get(0, INFINITE)

    def is_accepting(self, state: int) -> bool:
        """Whether what was read so far is in the language."""
        return state in self._accepting

    def edges(self, state: int) -> Edges:
        """Return the row of a state."""
        return self._rows[state]

    def controls(self, state: int) -> Mapping[str, int]:  # noqa: ARG002 - the contract's argument
        """Return nothing: lexemes have no control tokens."""
        return NO_CONTROLS

    def distance(self, state: int) -> int:
        """Fewest further bytes to an accepting end."""
        return self._distances[state]
