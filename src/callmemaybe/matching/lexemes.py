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
from callmemaybe.grammar.counting import Counted
from callmemaybe.matching.mask_bulk import Indices, Tables
from callmemaybe.matching.token_set import FEW, TokenSet, TokenSets, frozen
from callmemaybe.vocabulary import mask as masks
from callmemaybe.vocabulary.trie import Int32, Trie

#: How many (lexeme, state, prefix) are kept per vocabulary.
KEPT_PARTS = 1024
#: How many states of unlimited lexemes keep counts, 0.5 MB each, and how many limits are kept.
KEPT_COUNTS = 32
KEPT_SLICES = 512
#: More things than begin in any token.
NEVER = 32_000
#: More texts than this are not taken from a lexeme one by one.
MOST_TEXTS = 1000
#: How many of them keep their tokens by state, 1 MB each, for the end of a budget.
KEPT_GROUPS = 8
#: More tokens than this behind the exits are not sorted into a tree of their own.
MOST_TAILS = 20_000
#: How many trees of them are kept, besides those of the parts that are.
KEPT_TAILS = 64


class Behind:
    """What tokens have behind some nodes of the tree, as trees of their own; the last used ones kept.

    Most lexemes are over at the same nodes, whatever was read of them: behind one quote.
    """

    def __init__(self, trie: Trie) -> None:
        """Prepare for nodes of ``trie``."""
        self._trie = trie
        self._kept: OrderedDict[tuple[int, ...], Trie] = OrderedDict()

    def of(self, nodes: Indices) -> Trie | None:
        """Return the tree of what tokens have behind the nodes; None if they are too many."""
        key = tuple(nodes.tolist())
        found = self._kept.get(key)
        if found is None:
            trie = self._trie
            begins = trie.low[nodes] + trie.own[nodes]
            if int((trie.high[nodes] - begins).sum()) > MOST_TAILS:
                return None
            rest, ids = [], []
            for node, low, high in zip(
                key, begins.tolist(), trie.high[nodes].tolist(), strict=True
            ):
                depth = trie.depth(node)
                rest += [text[depth:] for text in trie.texts(low, high)]
                ids += trie.order[low:high].tolist()
            found = self._kept[key] = Trie(rest, ids)
            if len(self._kept) > KEPT_TAILS:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return found


class Part:
    """The tokens below one node of the tree, entered inside a lexeme: who stays, who may leave.

    ``stays``  the tokens that end inside the lexeme (or exactly at its end)
    ``reached`` the lexeme's states in which they end
    ``exits``  the nodes (int32) at which the lexeme may be over while tokens go on
    """

    __slots__ = ("_behind", "_tails", "exits", "reached", "stays")

    def __init__(
        self, trie: Trie, machine: Automaton, state: int, node: int, sets: TokenSets, tables: Tables,
        behind: Behind,
    ) -> None:  # fmt: skip
        """Sweep the tokens below ``node`` through the lexeme's machine."""
        swept = tables.mask_bulk(trie, machine, [node], [state])
        ids, rows = swept.tokens(trie)
        self.stays: TokenSet = sets.of_array(ids)
        self.reached = swept.reached(rows)
        exits = swept.nodes[swept.where(machine.is_accepting)]
        self.exits: Indices = exits[trie.first[exits] < trie.first[exits + 1]]
        self._behind = behind
        self._tails: Trie | None = None

    def farthest(self, machine: Automaton) -> int:
        """Return a bound on the way to the lexeme's end after any token that stays."""
        return max(map(machine.distance, self.reached), default=0)

    def tails(self) -> Trie | None:
        """Return the tree of what tokens have behind the lexeme's end; None if they are too many."""
        if self._tails is None:
            self._tails = self._behind.of(self.exits)
        return self._tails


class Counts:
    """Of the tokens in one state of an unlimited lexeme: how many things begin in each.

    ``entered`` int16[size] things that begin in the tokens that stay (NEVER for others);
    ``leaving`` by id: those that had begun (and ended) where a token leaves the lexeme.
    """

    __slots__ = ("_closed", "_size", "entered", "farthest", "leaving", "most", "part")

    def __init__(
        self, trie: Trie, part: Part, counted: Counted, node: int, size: int, tables: Tables
    ) -> None:
        """Sweep the tokens below ``node``, counting."""
        machine = counted.machine
        swept = tables.mask_bulk(trie, machine, [node], [counted.state])
        nodes = swept.nodes
        states = np.array(swept.states)
        between = (states == counted.between)[swept.rows]
        final = swept.where(machine.is_accepting)
        ended = np.zeros(len(trie.byte), np.int16)
        edges = np.searchsorted(nodes, trie.starts)
        for low, high in zip(edges, [*edges[1:], len(nodes)], strict=True):
            here = nodes[low:high]
            ended[here] = ended[trie.parent[here]] + between[low:high]
        begun = ended[nodes] - (counted.state != counted.between)
        entered = np.where(between | final, begun, begun + 1).astype(np.int16)
        ending = np.flatnonzero(trie.own[nodes])
        ids = trie.ids_of(nodes[ending])
        times = trie.own[nodes[ending]]
        self.entered = np.full(size, NEVER, np.int16)
        self.entered[ids] = np.repeat(entered[ending], times)
        #: The tokens that end exactly where the lexeme does.
        self._closed: Indices = ids[np.repeat(final[ending], times)].astype(np.intp)
        self.leaving: dict[int, int] = {}
        for where in np.flatnonzero(final).tolist():
            exit_ = int(nodes[where])
            begins = trie.low_[exit_] + trie.own_[exit_]
            for index in trie.order_[begins : trie.high_[exit_]]:
                self.leaving[index] = int(begun[where])
        self.most = max(int(entered.max(initial=0)), 1)
        self.farthest = max(map(machine.distance, part.reached), default=0)
        self.part = part
        self._size = size

    def stays(self, least: int, most: int | None) -> TokenSet:
        """Return the tokens that stay where so many things must and may begin."""
        fits = self.entered < NEVER if most is None else self.entered <= min(most, self.most)
        if least:
            short = self._closed[self.entered[self._closed] < least]
            fits[short] = False
        if np.count_nonzero(fits) <= FEW:
            return TokenSet(frozen(np.flatnonzero(fits)), None)
        padded = np.zeros(masks.words(self._size) * 32, np.bool_)
        padded[: self._size] = fits
        return TokenSet(None, frozen(np.packbits(padded, bitorder="little").view("<u4")))


class Slice:
    """What a limited lexeme makes of the tokens: a `Part`, seen through limits."""

    __slots__ = ("_counts", "_farthest", "_least", "_most", "stays")

    def __init__(self, counts: Counts, least: int, most: int | None, counted: Counted) -> None:
        """Take how many things must and may begin, as far as tokens reach."""
        self._counts = counts
        self._least, self._most = least, most
        self._farthest = counts.farthest + counted.least * counted.shortest
        self.stays = counts.stays(least, most)

    def farthest(self, machine: Automaton) -> int:  # noqa: ARG002 - as of a Part
        """Return a bound on the way to the lexeme's end after any token that stays."""
        return self._farthest

    def tails(self) -> Trie | None:
        """Return the tree of what tokens have behind the end of the unlimited lexeme."""
        return self._counts.part.tails()

    def may_leave(self, ids: list[int]) -> list[int]:
        """Return those that leave after a number of things that is allowed."""
        leaving, least, most = self._counts.leaving, self._least, self._most
        return [
            index
            for index in ids
            if least <= leaving[index] and (most is None or leaving[index] <= most)
        ]


class Without:
    """What a lexeme makes of the tokens if some texts are taken from it: a `Part` without a few."""

    __slots__ = ("_excluded", "_farthest", "_part", "stays")

    def __init__(
        self, trie: Trie, part: Part, machine: Automaton, texts: list[bytes], node: int
    ) -> None:
        """Take the part of the whole lexeme below ``node``, and the texts."""
        self._excluded: set[int] = set()
        for text in texts:
            end = trie.find(text, node)
            if end >= 0:
                self._excluded.update(trie.order_[trie.low_[end] : trie.high_[end]])
        self._part = part
        # Longer than all of the texts is none of them.
        self._farthest = part.farthest(machine) + max(map(len, texts), default=0) + 1
        self.stays = part.stays.without(self._excluded)

    def farthest(self, machine: Automaton) -> int:  # noqa: ARG002 - as of a Part
        """Return a bound on the way to the lexeme's end after any token that stays."""
        return self._farthest

    def tails(self) -> Trie | None:
        """Return the tree of what tokens have behind the end of the whole lexeme."""
        return self._part.tails()

    def may_leave(self, ids: list[int]) -> list[int]:
        """Return those that do not leave with one of the texts."""
        return [index for index in ids if index not in self._excluded]


class Parts:
    """The parts of one vocabulary, the last used ones kept."""

    def __init__(self, trie: Trie, sets: TokenSets) -> None:
        """Prepare for parts of ``trie``."""
        self._trie = trie
        self._sets = sets
        self._tables = Tables()
        self._behind = Behind(trie)
        self._kept: OrderedDict[tuple[int, int, int], Part] = OrderedDict()
        self._counts: OrderedDict[tuple[int, int, int], Counts] = OrderedDict()
        self._slices: OrderedDict[tuple[int, ...], Slice] = OrderedDict()
        self._withouts: OrderedDict[tuple[int, int, int], Without] = OrderedDict()
        self._groups: OrderedDict[tuple[int, int, int], list[tuple[bytes, Int32]]] = OrderedDict()

    def of(self, machine: Automaton, state: int, node: int) -> Part:
        """Return what ``machine``, in ``state``, makes of the tokens below ``node``."""
        key = (machine.serial, state, node)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = Part(
                self._trie, machine, state, node, self._sets, self._tables, self._behind
            )
            if len(self._kept) > KEPT_PARTS:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return found

    def counted(self, counted: Counted, node: int) -> Slice:
        """Return what a limited lexeme makes of the tokens below ``node``."""
        key = (counted.machine.serial, counted.state, node)
        counts = self._counts.get(key)
        if counts is None:
            part = self.of(counted.machine, counted.state, node)
            counts = self._counts[key] = Counts(
                self._trie, part, counted, node, self._sets.size, self._tables
            )
            if len(self._counts) > KEPT_COUNTS:
                self._counts.popitem(last=False)
        # More than any token has is as good as any number.
        least = min(counted.least, counts.most + 1)
        most = None if counted.most is None or counted.most >= counts.most else counted.most
        limits = (*key, counted.least, -1 if most is None else most)
        found = self._slices.get(limits)
        if found is None:
            found = self._slices[limits] = Slice(counts, least, most, counted)
            if len(self._slices) > KEPT_SLICES:
                self._slices.popitem(last=False)
        else:
            self._slices.move_to_end(limits)
        return found

    def without(self, machine: Automaton, state: int, node: int) -> Without | None:
        """Return what a lexeme without some texts makes of the tokens; None if it is no such thing."""
        key = (machine.serial, state, node)
        found = self._withouts.get(key)
        if found is None:
            excluding = machine.excluding(state, MOST_TEXTS)
            if excluding is None:
                return None
            whole, inner, texts = excluding
            whole, inner = whole.alias(inner)
            part = self.of(whole, inner, node)
            found = Without(self._trie, part, whole, texts, node)
            self._withouts[key] = found
            if len(self._withouts) > KEPT_SLICES:
                self._withouts.popitem(last=False)
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
        swept = self._tables.mask_bulk(trie, machine, [node], [state])
        ending = np.flatnonzero(trie.own[swept.nodes])
        nodes, rows = swept.nodes[ending], swept.rows[ending]
        start = trie.depth(node)
        found = []
        for row in np.flatnonzero(np.bincount(rows)).tolist():
            here = nodes[rows == row]
            low = trie.low_[here[0]]
            (text,) = trie.texts(low, low + 1)
            found.append((text[start : trie.depth(int(here[0]))], trie.ids_of(here)))
        return found
