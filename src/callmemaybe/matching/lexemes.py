"""Token sets inside a lexeme (a JSON string, a number), computed once and shared by all grammars.

Inside a JSON string nearly every token stays inside, whatever the grammar around it: that set is one
shared bitmask. The tokens that leave the string differ only in their remainder, the bytes after the
closing quote, and there are few remainders (577 among Qwen's 151,665 tokens). They form a small trie of
their own, which is then walked with the automaton state after the lexeme.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple, TypeVar

import numpy as np

from callmemaybe.grammar.automata.counting import CountedState
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.matching.mask_bulk import BulkWalker, Indices
from callmemaybe.matching.token_set import MAX_LISTED, TokenSet, TokenSets, frozen
from callmemaybe.vocabulary import bitmask
from callmemaybe.vocabulary.trie import Int32, Trie

#: Cached per vocabulary: (lexeme, state, trie node) triples; token sets under limits or exclusions.
LEXEME_CACHE_SIZE = 1024
LIMITED_CACHE_SIZE = 512
#: Cached per vocabulary: states of unlimited lexemes with item counts, 0.5 MB each; tokens grouped by
#: their end state, 1 MB each, which are needed near the end of a budget only.
ITEM_COUNTS_CACHE_SIZE = 32
GROUPS_CACHE_SIZE = 8
#: Cached per vocabulary: tries of remainders, besides those of the cached lexemes.
REMAINDERS_CACHE_SIZE = 64
#: With more tokens than this to go on from the exits, no trie of remainders is built.
MAX_REMAINDERS = 20_000
#: With more excluded texts than this, a lexeme is not treated as another one with exclusions.
MAX_EXCLUDED = 1000
#: An item count that no token reaches.
NEVER = 32_000

V = TypeVar("V")


class LruCache(OrderedDict[Hashable, V]):
    """A dict that drops the least recently used entry when it holds more than ``size``."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def find(self, key: Hashable) -> V | None:
        """Return the entry and mark it as used; None if there is none."""
        found = self.get(key)
        if found is not None:
            self.move_to_end(key)
        return found

    def add(self, key: Hashable, value: V) -> V:
        """Store an entry and return it."""
        self[key] = value
        if len(self) > self.size:
            self.popitem(last=False)
        return value


class RemainderTries:
    """Tries of what tokens have after some trie nodes; the most recently used ones are kept.

    Most lexemes end at the same nodes, whatever was read of them: after one quote.
    """

    def __init__(self, trie: Trie) -> None:
        """Prepare for nodes of ``trie``."""
        self._trie = trie
        self._cache = LruCache[Trie](REMAINDERS_CACHE_SIZE)

    def of(self, nodes: Indices) -> Trie | None:
        """Return the trie of what tokens have after the nodes; None if they are too many."""
        key = tuple(nodes.tolist())
        found = self._cache.find(key)
        if found is None:
            trie = self._trie
            begins = trie.low[nodes] + trie.own[nodes]
            if int((trie.high[nodes] - begins).sum()) > MAX_REMAINDERS:
                return None
            texts, ids = [], []
            for node, low, high in zip(
                key, begins.tolist(), trie.high[nodes].tolist(), strict=True
            ):
                depth = trie.depth(node)
                texts += [text[depth:] for text in trie.texts(low, high)]
                ids += trie.order[low:high].tolist()
            found = self._cache.add(key, Trie(texts, ids))
        return found


class LexemeTokens:
    """The tokens below one trie node, entered inside a lexeme: which stay inside, which may leave.

    ``staying``     the tokens that end inside the lexeme (or exactly at its end)
    ``end_states``  the lexeme's states in which they end
    ``exits``       the nodes (int32) at which the lexeme may be over while tokens go on
    """

    __slots__ = ("_known_remainders", "_remainders", "end_states", "exits", "staying")

    def __init__(self, cache: LexemeCache, machine: Automaton, state: int, node: int) -> None:
        """Walk the tokens below ``node`` through the lexeme's automaton."""
        trie = cache.trie
        walk = cache.walker.walk(trie, machine, [node], [state])
        ids, rows = walk.tokens(trie)
        self.staying: TokenSet = cache.sets.from_ids(ids)
        self.end_states = walk.states_of(rows)
        exits = walk.nodes[walk.where(machine.is_accepting)]
        self.exits: Indices = exits[trie.first[exits] < trie.first[exits + 1]]
        self._remainders = cache.remainders
        self._known_remainders: Trie | None = None

    def max_remaining(self, machine: Automaton) -> int:
        """Return a bound on the bytes to the lexeme's end after any token that stays."""
        return max(map(machine.min_remaining, self.end_states), default=0)

    def remainders(self) -> Trie | None:
        """Return the trie of what tokens have after the lexeme's end; None if they are too many."""
        if self._known_remainders is None:
            self._known_remainders = self._remainders.of(self.exits)
        return self._known_remainders


class ItemCounts:
    """How many items (characters of a string, say) begin in each token, in one state of a lexeme.

    ``entered`` int16[size]: items that begin in the tokens that stay (NEVER for others).
    ``leaving`` by id: items that had begun (and ended) where a token leaves the lexeme.
    """

    __slots__ = ("_closing", "_size", "entered", "leaving", "lexeme", "max_remaining", "most")

    def __init__(self, cache: LexemeCache, counted: CountedState, node: int) -> None:
        """Walk the tokens below ``node``, counting."""
        trie, machine = cache.trie, counted.machine
        self.lexeme = cache.lexeme(machine, counted.state, node)
        self.max_remaining = self.lexeme.max_remaining(machine)
        walk = cache.walker.walk(trie, machine, [node], [counted.state])
        nodes = walk.nodes
        between = (np.array(walk.states) == counted.boundary)[walk.rows]
        final = walk.where(machine.is_accepting)
        ended = np.zeros(len(trie.byte), np.int16)
        edges = np.searchsorted(nodes, trie.starts)
        for low, high in zip(edges, [*edges[1:], len(nodes)], strict=True):
            here = nodes[low:high]
            ended[here] = ended[trie.parent[here]] + between[low:high]
        begun = ended[nodes] - (counted.state != counted.boundary)
        entered = np.where(between | final, begun, begun + 1).astype(np.int16)
        ending = np.flatnonzero(trie.own[nodes])
        ids = trie.ids_of(nodes[ending])
        times = trie.own[nodes[ending]]
        self.entered = np.full(cache.sets.size, NEVER, np.int16)
        self.entered[ids] = np.repeat(entered[ending], times)
        #: The tokens that end exactly where the lexeme does.
        self._closing: Indices = ids[np.repeat(final[ending], times)].astype(np.intp)
        self.leaving: dict[int, int] = {}
        for at in np.flatnonzero(final).tolist():
            end = int(nodes[at])
            begins = trie.low_[end] + trie.own_[end]
            for index in trie.order_[begins : trie.high_[end]]:
                self.leaving[index] = int(begun[at])
        self.most = max(int(entered.max(initial=0)), 1)
        self._size = cache.sets.size

    def staying(self, at_least: int, at_most: int | None) -> TokenSet:
        """Return the tokens that stay where so many items must and may begin."""
        fits = self.entered < NEVER if at_most is None else self.entered <= min(at_most, self.most)
        if at_least:
            fits[self._closing[self.entered[self._closing] < at_least]] = False
        if np.count_nonzero(fits) <= MAX_LISTED:
            return TokenSet(frozen(np.flatnonzero(fits)), None)
        padded = np.zeros(bitmask.words(self._size) * 32, np.bool_)
        padded[: self._size] = fits
        return TokenSet(None, frozen(np.packbits(padded, bitorder="little").view("<u4")))


class CountedLexemeTokens:
    """`LexemeTokens` of a lexeme with a limited number of items."""

    __slots__ = ("_at_least", "_at_most", "_counts", "_max_remaining", "staying")

    def __init__(
        self, counts: ItemCounts, at_least: int, at_most: int | None, counted: CountedState
    ) -> None:
        """Take how many items must and may begin, as far as tokens reach."""
        self._counts = counts
        self._at_least, self._at_most = at_least, at_most
        self._max_remaining = counts.max_remaining + counted.at_least * counted.shortest
        self.staying = counts.staying(at_least, at_most)

    def max_remaining(self, machine: Automaton) -> int:  # noqa: ARG002 - as of LexemeTokens
        """Return a bound on the bytes to the lexeme's end after any token that stays."""
        return self._max_remaining

    def remainders(self) -> Trie | None:
        """Return the trie of what tokens have after the end of the unlimited lexeme."""
        return self._counts.lexeme.remainders()

    def may_leave(self, ids: list[int]) -> list[int]:
        """Return those of ``ids`` that leave after an allowed number of items."""
        leaving, low, high = self._counts.leaving, self._at_least, self._at_most
        return [i for i in ids if low <= leaving[i] and (high is None or leaving[i] <= high)]


class ExcludingLexemeTokens:
    """`LexemeTokens` of a lexeme from which some texts are excluded."""

    __slots__ = ("_excluded", "_lexeme", "_max_remaining", "staying")

    def __init__(
        self, trie: Trie, lexeme: LexemeTokens, machine: Automaton, texts: list[bytes], node: int
    ) -> None:
        """Take the tokens of the whole lexeme below ``node``, and the texts."""
        self._excluded: set[int] = set()
        for text in texts:
            end = trie.find(text, node)
            if end >= 0:
                self._excluded.update(trie.order_[trie.low_[end] : trie.high_[end]])
        self._lexeme = lexeme
        # A text longer than all of the excluded ones is not one of them.
        self._max_remaining = lexeme.max_remaining(machine) + max(map(len, texts), default=0) + 1
        self.staying = lexeme.staying.without(self._excluded)

    def max_remaining(self, machine: Automaton) -> int:  # noqa: ARG002 - as of LexemeTokens
        """Return a bound on the bytes to the lexeme's end after any token that stays."""
        return self._max_remaining

    def remainders(self) -> Trie | None:
        """Return the trie of what tokens have after the end of the whole lexeme."""
        return self._lexeme.remainders()

    def may_leave(self, ids: list[int]) -> list[int]:
        """Return those of ``ids`` that do not leave with an excluded text."""
        return [index for index in ids if index not in self._excluded]


#: What a lexeme does to the tokens below a node, in whichever of three ways it is known.
RestrictedTokens = CountedLexemeTokens | ExcludingLexemeTokens
AnyLexemeTokens = LexemeTokens | RestrictedTokens
#: Tokens that may stay in a lexeme, the automaton that reads it, and the state after it.
LexemeUse = tuple[AnyLexemeTokens, Automaton, int]


class LexemeStart(NamedTuple):
    """What tokens do from a trie node on that stands in front of, or inside, a lexeme.

    First a ``text`` that must come, with the tokens ``ids`` on the way, which ends at ``node``. There
    ``tokens`` stay in the lexeme, with ``restriction`` if it is counted or excludes texts, or leave it
    with the ``remainders`` (None: too many); no ``tokens`` where the text is longer than any token, or
    all there is. ``staying`` is their set, None if empty; ``may_end``: the lexeme may be over at ``node``.
    """

    text: bytes
    ids: list[int]
    node: int
    machine: Automaton
    tokens: AnyLexemeTokens | None
    restriction: RestrictedTokens | None
    remainders: Trie | None
    staying: TokenSet | None
    may_end: bool


#: The first bytes of a text; in a tuple of its own where nothing may follow the text.
Prefix = bytes | tuple[bytes]


class LeadIn(NamedTuple):
    """A short text in front of a lexeme: the tokens inside the text, and the lexeme after it.

    ``start`` is None where no token reaches the lexeme, or too many leave it. ``by_prefix`` caches the
    allowed set by the first bytes of the texts that may follow the lexeme, of which as many count as
    ``prefix_lengths`` lists.
    """

    ids: list[int]
    start: LexemeStart | None
    by_prefix: dict[tuple[Prefix, ...], TokenSet]
    prefix_lengths: list[int]


class LexemeCache:
    """The lexeme tokens of one vocabulary; the most recently used ones are kept."""

    def __init__(self, trie: Trie, sets: TokenSets) -> None:
        """Prepare for lexemes over ``trie``."""
        self.trie = trie
        self.sets = sets
        self.walker = BulkWalker()
        self._lexemes = LruCache[LexemeTokens](LEXEME_CACHE_SIZE)
        self._counts = LruCache[ItemCounts](ITEM_COUNTS_CACHE_SIZE)
        self._counted = LruCache[CountedLexemeTokens](LIMITED_CACHE_SIZE)
        self._excluding = LruCache[ExcludingLexemeTokens](LIMITED_CACHE_SIZE)
        self._groups = LruCache[list[tuple[bytes, Int32]]](GROUPS_CACHE_SIZE)
        self.remainders = RemainderTries(trie)

    def lexeme(self, machine: Automaton, state: int, node: int) -> LexemeTokens:
        """Return what ``machine``, in ``state``, does to the tokens below ``node``."""
        key = (machine.serial, state, node)
        return self._lexemes.find(key) or self._lexemes.add(
            key, LexemeTokens(self, machine, state, node)
        )

    def counted(self, counted: CountedState, node: int) -> CountedLexemeTokens:
        """Return what a lexeme with a limited number of items does to the tokens below ``node``."""
        key = (counted.machine.serial, counted.state, node)
        counts = self._counts.find(key) or self._counts.add(key, ItemCounts(self, counted, node))
        # A limit above what any token has is as good as any other.
        at_least = min(counted.at_least, counts.most + 1)
        at_most = (
            None if counted.at_most is None or counted.at_most >= counts.most else counted.at_most
        )
        limits = (*key, counted.at_least, -1 if at_most is None else at_most)
        return self._counted.find(limits) or self._counted.add(
            limits, CountedLexemeTokens(counts, at_least, at_most, counted)
        )

    def excluding(self, machine: Automaton, state: int, node: int) -> ExcludingLexemeTokens | None:
        """Return what a lexeme without some texts does to the tokens; None if it excludes none."""
        key = (machine.serial, state, node)
        found = self._excluding.find(key)
        if found is None:
            excluding = machine.as_exclusion(state, MAX_EXCLUDED)
            if excluding is None:
                return None
            whole, inner, texts = excluding
            whole, inner = whole.alias(inner)
            lexeme = self.lexeme(whole, inner, node)
            found = self._excluding.add(
                key, ExcludingLexemeTokens(self.trie, lexeme, whole, texts, node)
            )
        return found

    def groups(self, machine: Automaton, state: int, node: int) -> list[tuple[bytes, Int32]]:
        """Return the tokens that stay, by the state they end in: (one text that leads there, ids)."""
        key = (machine.serial, state, node)
        return self._groups.find(key) or self._groups.add(key, self._group(machine, state, node))

    def _group(self, machine: Automaton, state: int, node: int) -> list[tuple[bytes, Int32]]:
        trie = self.trie
        walk = self.walker.walk(trie, machine, [node], [state])
        ending = np.flatnonzero(trie.own[walk.nodes])
        nodes, rows = walk.nodes[ending], walk.rows[ending]
        start = trie.depth(node)
        found = []
        for row in np.flatnonzero(np.bincount(rows)).tolist():
            here = nodes[rows == row]
            low = trie.low_[here[0]]
            (text,) = trie.texts(low, low + 1)
            found.append((text[start : trie.depth(int(here[0]))], trie.ids_of(here)))
        return found
