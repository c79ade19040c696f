"""One automaton over a whole subtree of tokens at once, level by level with numpy."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from callmemaybe.grammar.automaton import Automaton
from callmemaybe.vocabulary.trie import Int32, Trie


class Swept(NamedTuple):
    """Where the automaton is behind every prefix it allows: parallel arrays and the states named.

    ``nodes`` int32[n] of the tree, level by level; ``rows`` int32[n] index into ``states``.
    """

    nodes: Int32
    rows: Int32
    states: list[int]

    def targets(self) -> npt.NDArray[np.int64]:
        """Return the automaton's state per node."""
        return np.array(self.states, np.int64)[self.rows]


def sweep(trie: Trie, automaton: Automaton, nodes: list[int], states: list[int]) -> Swept:
    """Follow every token below ``nodes``, entered in ``states``, as far as the automaton allows."""
    table = _Rows(automaton)
    here = np.array(nodes, np.int32)
    rows = np.array([table.row_of(state) for state in states], np.int32)
    all_nodes, all_rows = [here[:0]], [rows[:0]]
    first, byte = trie.first, trie.byte
    while len(here):
        begins = first[here]
        counts = first[here + 1] - begins
        ends = np.cumsum(counts)
        if not ends[-1]:
            break
        children = np.repeat(begins - (ends - counts), counts) + np.arange(ends[-1], dtype=np.int32)
        onward = table.fill(rows)[np.repeat(rows, counts), byte[children]]
        live = np.flatnonzero(onward >= 0)
        here, rows = children[live], onward[live]
        all_nodes.append(here)
        all_rows.append(rows)
    return Swept(np.concatenate(all_nodes), np.concatenate(all_rows), table.states)


class _Rows:
    """A dense transition table of the states met so far; -1 is dead."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._index: dict[int, int] = {}
        self._filled: list[bool] = []
        self._table = np.full((16, 256), -1, np.int32)
        self.states: list[int] = []

    def row_of(self, state: int) -> int:
        row = self._index.get(state)
        if row is None:
            row = self._index[state] = len(self.states)
            self.states.append(state)
            self._filled.append(False)
        return row

    def fill(self, rows: Int32) -> Int32:
        """Return the table, with the transitions of all ``rows`` filled in."""
        for row in np.flatnonzero(np.bincount(rows)).tolist():
            if self._filled[row]:
                continue
            self._filled[row] = True
            edges = [
                (_bools(mask), self.row_of(target))
                for mask, target in self._automaton.edges(self.states[row])
            ]
            if len(self.states) > len(self._table):
                more = np.full((len(self.states), 256), -1, np.int32)
                self._table = np.concatenate([self._table, more])
            for chosen, target in edges:
                self._table[row, chosen] = target
        return self._table


@lru_cache(maxsize=2048)
def _bools(mask: int) -> npt.NDArray[np.bool_]:
    raw = np.frombuffer(mask.to_bytes(32, "little"), np.uint8)
    return np.unpackbits(raw, bitorder="little").view(np.bool_)
