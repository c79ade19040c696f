"""One automaton over a whole subtree of tokens at once, level by level with numpy."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from callmemaybe.grammar.automaton import DEAD, Automaton
from callmemaybe.vocabulary.trie import Trie

Indices = npt.NDArray[np.intp]

#: How many bytes a state allows where whole levels of the tree are swept.
WIDE = 64
#: Rows of tables that are kept for the next sweep, 2 KB each.
KEPT_ROWS = 8192
#: Up to so many nodes, plain Python is done before numpy has begun.
FEW_NODES = 400


class BulkMasks:
    """Where the automaton is behind every prefix that it allows.

    ``nodes`` of the tree and ``rows`` (indices into ``states``) in parallel, level by level.
    """

    __slots__ = ("_of_id", "nodes", "rows", "states")

    def __init__(
        self, nodes: Indices, rows: Indices, states: list[int], of_id: Indices | None = None
    ) -> None:
        """Take the arrays; ``of_id`` is the row of every token by id, where it is at hand."""
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
        """Return for each node whether something holds of the state there; asks once per state."""
        answers = np.zeros(len(self.states), np.bool_)
        for row in np.flatnonzero(np.bincount(self.rows)).tolist():
            answers[row] = holds(self.states[row])
        return answers[self.rows]

    def reached(self, rows: Indices) -> list[int]:
        """Return the distinct states of some rows."""
        return [self.states[row] for row in np.flatnonzero(np.bincount(rows)).tolist()]


class Tables:
    """The transition tables of the automata that were swept last: the next sweep finds them filled.

    A table is taken out while it is in use, so that no two threads write to the same one.
    """

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._kept: OrderedDict[int, _Table] = OrderedDict()

    def mask_bulk(
        self, trie: Trie, automaton: Automaton, nodes: list[int], states: list[int]
    ) -> BulkMasks:
        """Do as the function of this name does."""
        table = self._kept.pop(automaton.serial, None) or _Table()
        swept = mask_bulk(trie, automaton, nodes, states, table)
        self._kept[automaton.serial] = table
        rows = sum(len(kept.states) for kept in list(self._kept.values()))
        while rows > KEPT_ROWS and self._kept:
            rows -= len(self._kept.popitem(last=False)[1].states)
        return swept


def mask_bulk(
    trie: Trie,
    automaton: Automaton,
    nodes: list[int],
    states: list[int],
    table: _Table | None = None,
) -> BulkMasks:
    """Follow every token below ``nodes``, entered in ``states``, as far as the automaton allows."""
    table = table or _Table()
    if nodes == [0] and _is_wide(automaton, states[0]):
        return _sweep_all(trie, automaton, table, states[0])
    few = _sweep_few(trie, automaton, table, nodes, states)
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
    return BulkMasks(np.concatenate(all_nodes), np.concatenate(all_rows) >> 8, table.states)


def _sweep_few(
    trie: Trie, automaton: Automaton, table: _Table, nodes: list[int], states: list[int]
) -> BulkMasks | None:
    """Do as `mask_bulk` does one node after the other; None if they are more than that pays for."""
    first, label = trie.first_, trie.bytes_
    left = FEW_NODES
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
    return BulkMasks(np.array([node for node, _ in found], np.intp), rows, table.states)


def _is_wide(automaton: Automaton, state: int) -> bool:
    """Whether so many bytes are allowed that most tokens are worth a look."""
    return sum(mask.bit_count() for mask, _ in automaton.edges(state)) >= WIDE


def _sweep_all(trie: Trie, automaton: Automaton, table: _Table, state: int) -> BulkMasks:
    """Follow every token from the root: whole levels at once, the dead ones too."""
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
    return BulkMasks(nodes, found[nodes], table.states, found.take(trie.node_of_id, mode="clip"))


class _Table:
    """A transition table of the states met so far, in rows of 256; row 0 is dead.

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
        """Return the table as one line, with the rows of all ``entries`` filled in."""
        self._room()
        rows = entries >> 8
        known = self._is_filled.take(rows)
        if known.all():
            return self._flat
        for row in np.flatnonzero(np.bincount(rows[~known])).tolist():
            edges = automaton.edges(self.states[row])
            targets = [0, *(self.row_of(target) << 8 for _, target in edges)]
            line = np.array(targets, np.intp)[_which(tuple(mask for mask, _ in edges))]
            self._flat[row << 8 : (row + 1) << 8] = line
            self._is_filled[row] = True
        self._room()
        return self._flat

    def _room(self) -> None:
        """Make room for all states met."""
        have, need = len(self._is_filled), len(self.states)
        if need > have:
            more = 2 * need - have
            self._is_filled = np.concatenate([self._is_filled, np.zeros(more, np.bool_)])
            self._flat = np.concatenate([self._flat, np.zeros(more << 8, np.intp)])


@lru_cache(maxsize=1024)
def _which(masks: tuple[int, ...]) -> Indices:
    """Return, for each byte, the number (from 1) of the set it is in; 0 for none."""
    found = np.zeros(256, np.intp)
    for number, mask in enumerate(masks, 1):
        raw = np.frombuffer(mask.to_bytes(32, "little"), np.uint8)
        found[np.unpackbits(raw, bitorder="little").view(np.bool_)] = number
    return found
