"""What a lexeme (a JSON string, a number) makes of all tokens, worked out once for all grammars.

Inside a JSON string nearly every token stays inside, whatever the grammar around it: that set is one
shared bitmask. The tokens that leave the string differ only in what follows the closing quote, and
of those remainders there are few (577 among Qwen's 151,665 tokens): they form a small tree of their
own, which is then walked with the state behind the lexeme.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from callmemaybe.grammar.automaton import Automaton
from callmemaybe.matching.allowed import Allowed, Sets
from callmemaybe.matching.sweep import Indices, sweep
from callmemaybe.vocabulary.trie import Int32, Trie

#: How many (lexeme, state, prefix) are kept per vocabulary.
KEPT_PARTS = 1024
#: How many of them keep their tokens by state, 1 MB each, for the end of a budget.
KEPT_GROUPS = 8
#: More tokens than this behind the exits are not sorted into a tree of their own.
MOST_TAILS = 20_000


class Part:
    """The tokens below one node of the tree, entered inside a lexeme: who stays, who may leave.

    ``stays``  the tokens that end inside the lexeme (or exactly at its end)
    ``reached`` the lexeme's states in which they end
    ``exits``  the nodes (int32) at which the lexeme may be over while tokens go on
    """

    __slots__ = ("_tails", "_trie", "exits", "reached", "stays")

    def __init__(self, trie: Trie, machine: Automaton, state: int, node: int, sets: Sets) -> None:
        """Sweep the tokens below ``node`` through the lexeme's machine."""
        swept = sweep(trie, machine, [node], [state])
        ids, rows = swept.tokens(trie)
        self.stays: Allowed = sets.of_array(ids)
        self.reached = swept.reached(rows)
        accepting = np.array([s >= 0 and machine.is_accepting(s) for s in swept.states], np.bool_)
        exits = swept.nodes[accepting[swept.rows]]
        self.exits: Indices = exits[trie.first[exits] < trie.first[exits + 1]]
        self._trie = trie
        self._tails: Trie | None = None

    def tails(self) -> Trie | None:
        """Return the tree of what tokens have behind the lexeme's end; None if they are too many."""
        if self._tails is None:
            trie, exits = self._trie, self.exits
            begins = trie.low[exits] + trie.own[exits]
            if int((trie.high[exits] - begins).sum()) > MOST_TAILS:
                return None
            rest, ids = [], []
            for node, low, high in zip(
                exits.tolist(), begins.tolist(), trie.high[exits].tolist(), strict=True
            ):
                depth = trie.depth(node)
                rest += [text[depth:] for text in trie.texts[low:high]]
                ids += trie.order[low:high].tolist()
            self._tails = Trie(rest, ids)
        return self._tails


class Parts:
    """The parts of one vocabulary, the last used ones kept."""

    def __init__(self, trie: Trie, sets: Sets) -> None:
        """Prepare for parts of ``trie``."""
        self._trie = trie
        self._sets = sets
        self._kept: OrderedDict[tuple[int, int, int], Part] = OrderedDict()
        self._groups: OrderedDict[tuple[int, int, int], list[tuple[bytes, Int32]]] = OrderedDict()

    def of(self, machine: Automaton, state: int, node: int) -> Part:
        """Return what ``machine``, in ``state``, makes of the tokens below ``node``."""
        key = (machine.serial, state, node)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = Part(self._trie, machine, state, node, self._sets)
            if len(self._kept) > KEPT_PARTS:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return found

    def groups(self, machine: Automaton, state: int, node: int) -> list[tuple[bytes, Int32]]:
        """Return the tokens that stay, by the state they end in: (one way there, their ids)."""
        key = (machine.serial, state, node)
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = self._group(machine, state, node)
            if len(self._groups) > KEPT_GROUPS:
                self._groups.popitem(last=False)
        return found

    def _group(self, machine: Automaton, state: int, node: int) -> list[tuple[bytes, Int32]]:
        trie = self._trie
        swept = sweep(trie, machine, [node], [state])
        ending = np.flatnonzero(trie.own[swept.nodes])
        nodes, rows = swept.nodes[ending], swept.rows[ending]
        start = trie.depth(node)
        found = []
        for row in np.flatnonzero(np.bincount(rows)).tolist():
            here = nodes[rows == row]
            text = trie.texts[trie.low_[here[0]]]
            found.append((text[start : trie.depth(int(here[0]))], trie.ids_of(here)))
        return found
