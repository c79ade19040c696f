"""Walk all tokens below some trie nodes through an automaton at once, level by level with numpy.

Each node of a level has one automaton state. A table of 256 columns gives the next state for each state
and byte, so a whole level advances with one ``take``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from callmemaybe.grammar.automaton import DEAD, Automaton
from callmemaybe.vocabulary.trie import Trie

Indices = npt.NDArray[np.intp]

#: A state that allows so many bytes is walked over whole levels of the trie, dead nodes included.
WIDE_BYTES = 64
#: Rows of transition tables that are cached, 2 KB each.
TABLE_ROWS_CACHE_SIZE = 8192
#: Up to so many nodes, plain Python is faster than numpy.
MAX_PYTHON_NODES = 400


class BulkWalk:
    """The prefixes of tokens that the automaton allows, and the state after each.

    ``nodes`` of the trie and ``rows`` (indices into ``states``) in parallel, level by level.
    """

    __slots__ = ("_of_id", "nodes", "rows", "states")

    def __init__(
        self, nodes: Indices, rows: Indices, states: list[int], of_id: Indices | None = None
    ) -> None:
        """Take the arrays; ``of_id`` is the row of every token by id, where that is known."""
        self.nodes = nodes
        self.rows = rows
        self.states = states
        self._of_id = of_id

    def tokens(self, trie: Trie) -> tuple[Indices, Indices]:
        """Return the ids of the tokens that end at the nodes, and their rows, in parallel."""
        if self._of_id is not None:
            ids = np.flatnonzero(self._of_id)
            return ids, self._of_id[ids]
        ending = np.flatnonzero(trie.own[self.nodes])
        nodes, rows = self.nodes[ending], self.rows[ending]
        return trie.ids_of(nodes).astype(np.intp), np.repeat(rows, trie.own[nodes])

    def where(self, holds: Callable[[int], bool]) -> npt.NDArray[np.bool_]:
        """Return for each node whether a predicate holds of its state; evaluated once per state."""
        answers = np.zeros(len(self.states), np.bool_)
        for row in np.flatnonzero(np.bincount(self.rows)).tolist():
            answers[row] = holds(self.states[row])
        return answers[self.rows]

    def states_of(self, rows: Indices) -> list[int]:
        """Return the distinct states of some rows."""
        return [self.states[row] for row in np.flatnonzero(np.bincount(rows)).tolist()]


class BulkWalker:
    """Walks with cached transition tables: the next walk of an automaton finds its table filled.

    A table is taken out of the cache while it is in use, so that no two threads write to one.
    """

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._tables: OrderedDict[int, _TransitionTable] = OrderedDict()

    def walk(
        self, trie: Trie, automaton: Automaton, nodes: list[int], states: list[int]
    ) -> BulkWalk:
        """Return what :func:`bulk_walk` does."""
        table = self._tables.pop(automaton.serial, None) or _TransitionTable()
        found = bulk_walk(trie, automaton, nodes, states, table)
        self._tables[automaton.serial] = table
        rows = sum(len(one.states) for one in list(self._tables.values()))
        while rows > TABLE_ROWS_CACHE_SIZE and self._tables:
            rows -= len(self._tables.popitem(last=False)[1].states)
        return found


def bulk_walk(
    trie: Trie,
    automaton: Automaton,
    nodes: list[int],
    states: list[int],
    table: _TransitionTable | None = None,
) -> BulkWalk:
    """Follow every token below ``nodes``, entered in ``states``, as far as the automaton allows."""
    table = table or _TransitionTable()
    if nodes == [0] and _is_wide(automaton, states[0]):
        return _walk_all(trie, automaton, table, states[0])
    few = _walk_few(trie, automaton, table, nodes, states)
    if few is not None:
        return few
    here = np.array(nodes, np.intp)
    rows = np.array([table.row_of(state) << 8 for state in states], np.intp)
    all_nodes, all_rows = [here[:0]], [rows[:0]]
    while len(here):
        children, counts = trie.children_of(here)
        if not len(children):
            break
        onward = table.filled(automaton, rows).take(np.repeat(rows, counts) + trie.byte[children])
        live = np.flatnonzero(onward)
        here, rows = children[live], onward[live]
        all_nodes.append(here)
        all_rows.append(rows)
    return BulkWalk(np.concatenate(all_nodes), np.concatenate(all_rows) >> 8, table.states)


def _walk_few(
    trie: Trie, automaton: Automaton, table: _TransitionTable, nodes: list[int], states: list[int]
) -> BulkWalk | None:
    """Do the same one node after the other; None if they are so many that numpy is faster."""
    first, label = trie.first_, trie.bytes_
    left = MAX_PYTHON_NODES
    level = list(zip(nodes, states, strict=True))
    found: list[tuple[int, int]] = []
    while level:
        below: list[tuple[int, int]] = []
        for node, state in level:
            low, high = first[node], first[node + 1]
            if low == high:
                continue
            for mask, target in automaton.edges(state):
                if not mask & (mask - 1):
                    left -= 1
                    child = label.find(mask.bit_length() - 1, low, high)
                    if child >= 0:
                        below.append((child, target))
                elif (left := left - (high - low)) >= 0:
                    below += [(c, target) for c in range(low, high) if mask >> label[c] & 1]
            if left < 0:
                return None
        below.sort()
        found += below
        level = below
    rows = np.array([table.row_of(state) for _, state in found], np.intp)
    return BulkWalk(np.array([node for node, _ in found], np.intp), rows, table.states)


def _is_wide(automaton: Automaton, state: int) -> bool:
    """Whether so many bytes are allowed that walking dead nodes costs less than sorting them out."""
    return sum(mask.bit_count() for mask, _ in automaton.edges(state)) >= WIDE_BYTES


def _walk_all(trie: Trie, automaton: Automaton, table: _TransitionTable, state: int) -> BulkWalk:
    """Walk every token from the root: whole levels at once, dead nodes too."""
    parent, byte = trie.parent, trie.wide_byte
    found = np.zeros(len(parent), np.intp)
    found[0] = table.row_of(state) << 8
    for start, middle, end in zip(trie.starts, trie.starts[1:], trie.starts[2:], strict=False):
        flat = table.filled(automaton, found[start:middle])
        places = found.take(parent[middle:end], mode="clip")
        places += byte[middle:end]
        flat.take(places, out=found[middle:end], mode="clip")
        if not found[middle:end].any():
            break
    found[0] = 0
    found >>= 8
    nodes = np.flatnonzero(found)
    return BulkWalk(nodes, found[nodes], table.states, found.take(trie.node_of_id, mode="clip"))


class _TransitionTable:
    """A transition table of the states met so far, in rows of 256; row 0 is the dead state.

    Entries are rows times 256, so that an entry plus a byte is the place of the next entry.
    """

    def __init__(self) -> None:
        self._index: dict[int, int] = {}
        self._flat = np.zeros(16 << 8, np.intp)
        self._is_filled = np.zeros(16, np.bool_)
        self._is_filled[0] = True
        self.states = [DEAD]

    def row_of(self, state: int) -> int:
        row = self._index.get(state)
        if row is None:
            row = self._index[state] = len(self.states)
            self.states.append(state)
        return row

    def filled(self, automaton: Automaton, entries: Indices) -> Indices:
        """Return the flat table with the rows of all ``entries`` filled in."""
        self._grow()
        rows = entries >> 8
        known = self._is_filled.take(rows)
        if known.all():
            return self._flat
        for row in np.flatnonzero(np.bincount(rows[~known])).tolist():
            edges = automaton.edges(self.states[row])
            targets = [0, *(self.row_of(target) << 8 for _, target in edges)]
            line = np.array(targets, np.intp)[_set_numbers(tuple(mask for mask, _ in edges))]
            self._flat[row << 8 : (row + 1) << 8] = line
            self._is_filled[row] = True
        self._grow()
        return self._flat

    def _grow(self) -> None:
        """Grow the table to hold all states met."""
        have, need = len(self._is_filled), len(self.states)
        if need > have:
            more = 2 * need - have
            self._is_filled = np.concatenate([self._is_filled, np.zeros(more, np.bool_)])
            self._flat = np.concatenate([self._flat, np.zeros(more << 8, np.intp)])


@lru_cache(maxsize=1024)
def _set_numbers(masks: tuple[int, ...]) -> Indices:
    """Return, for each byte, the number (from 1) of the set it is in; 0 for none."""
    found = np.zeros(256, np.intp)
    for number, mask in enumerate(masks, 1):
        raw = np.frombuffer(mask.to_bytes(32, "little"), np.uint8)
        found[np.unpackbits(raw, bitorder="little").view(np.bool_)] = number
    return found
