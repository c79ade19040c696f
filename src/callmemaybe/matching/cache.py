"""What may come next in a state, worked out once per (vocabulary, automaton state) and kept.

Nothing here keeps an automaton or a vocabulary alive: tables hang weakly on them, and every cache
has a bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from callmemaybe.errors import VocabularyError
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.grammar import bytes_of
from callmemaybe.matching.lexemes import Part, Parts, Slice, Without
from callmemaybe.matching.mask_bulk import BulkMasks, Indices, mask_bulk
from callmemaybe.matching.mask_fastpath import Inner, Led, stride
from callmemaybe.matching.token_set import EMPTY, TokenSet, TokenSets
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.vocabulary.trie import Trie

#: The state after an end token: nothing may follow.
ENDED = -1
UNKNOWN = -1
#: Entries and token moves kept per automaton; reached only by very long or very many outputs.
KEPT_ENTRIES = 20_000
KEPT_MOVES = 50_000
#: Entries that keep their sets by budget; needed only near the end of a budget.
KEPT_LEVELS = 64
#: A lexeme below a node with fewer tokens is simply walked.
FEW_BELOW = 24
#: After so many steps of a walk in plain Python, the rest is swept with numpy.
PATIENCE = 3000


class Entry:
    """What is known about one state of one automaton under one vocabulary.

    ``targets`` are the states that tokens lead to, or states before those on the way; from ``forks``
    they may lead into any branch, ``parts`` are lexemes in which they may stay.
    ``worst`` bounds the fewest tokens to an end after any allowed token (UNKNOWN: not computed yet).
    ``levels`` are the allowed sets by budget, see ``budget.py``.
    """

    __slots__ = ("allowed", "forks", "levels", "parts", "targets", "worst")

    def __init__(
        self,
        allowed: TokenSet,
        targets: tuple[int, ...],
        parts: tuple[tuple[Part | Slice | Without, Automaton, int], ...],
        forks: tuple[int, ...] = (),
    ) -> None:
        self.forks = forks
        self.allowed = allowed
        self.targets = targets
        self.parts = parts
        self.worst = UNKNOWN
        self.levels: list[tuple[int, TokenSet]] | None = None


class Place(NamedTuple):
    """Tokens that stay inside a lexeme: entered at ``node`` when the automaton was in ``state``."""

    part: Part
    machine: Automaton
    inner: int
    after: int
    node: int
    state: int


class Found:
    """The tokens allowed in a state, as a walk finds them.

    ``targets`` are the states they lead to, or states before those on the way; ``swept`` has
    parallel arrays of ids and rows of a sweep; ``places`` are whole sets.
    """

    __slots__ = ("ids", "places", "swept", "targets")

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.targets: list[int] = []
        self.swept: list[tuple[BulkMasks, Indices, Indices]] = []
        self.places: list[Place] = []


class AutomatonTable:
    """Everything kept for one automaton under one vocabulary."""

    __slots__ = ("entries", "forced", "free", "moves", "remaining", "runs")

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {ENDED: Entry(EMPTY, (), ())}
        self.moves: dict[int, int] = {}
        self.forced: dict[Hashable, tuple[int, ...]] = {}
        #: States in which nothing is forced, whatever was emitted.
        self.free: set[int] = set()
        #: The bytes that must come next in a state, and the state after them.
        self.runs: dict[int, tuple[bytes, int]] = {}
        #: Fewest tokens to an end, from a state and after each byte of its run.
        self.remaining: dict[int, list[float]] = {}


class VocabularyTables:
    """Everything kept for one vocabulary; shared by all automata and matchers over it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Prepare; the vocabulary's prefix tree is built here if it was not before."""
        self.trie: Trie = vocabulary.trie
        self.deepest = len(self.trie.starts)
        self.sets = TokenSets(vocabulary.size)
        self.parts = Parts(self.trie, self.sets)
        self.controls = vocabulary.controls
        self.ends = vocabulary.ends
        self.encoded: dict[bytes, tuple[int, ...]] = {}
        #: By the last bytes of a text: how many last bytes tokens may begin with that go on.
        self.endings: dict[bytes, tuple[int, ...]] = {}
        #: The same, but only those that do go on with one of some bytes.
        self.reaching: dict[tuple[bytes, int], tuple[int, ...]] = {}
        #: What is met on entering a lexeme, by its machine, its state and the node of the tree.
        self.inner: dict[tuple[int, int, int], Inner] = {}
        #: The same where a text leads into it, by that text, its machine and its state.
        self.led: dict[tuple[bytes, int, int], Led] = {}
        self.stand_ins: dict[int, int] = {}
        self._levelled: deque[Entry] = deque()
        self._automata: WeakKeyDictionary[Automaton, AutomatonTable] = WeakKeyDictionary()

    def table(self, automaton: Automaton) -> AutomatonTable:
        """Return what is kept for an automaton."""
        found = self._automata.get(automaton)
        if found is None:
            found = self._automata.setdefault(automaton, AutomatonTable())
        return found

    def entry(self, automaton: Automaton, state: int, table: AutomatonTable | None = None) -> Entry:
        """Return what is known about a state, working it out if need be.

        ``table`` is what is kept for the automaton, where that is at hand.

        Raises VocabularyError if the vocabulary has no token for anything the state allows.
        """
        entries = (table or self.table(automaton)).entries
        entry = entries.get(state)
        if entry is not None:
            return entry
        found = stride(self, automaton, state)
        entry = Entry(*found) if found else self.walked(automaton, state)
        if len(entries) >= KEPT_ENTRIES:
            entries.clear()
            entries[ENDED] = Entry(EMPTY, (), ())
        entries[state] = entry
        return entry

    def walked(self, automaton: Automaton, state: int) -> Entry:
        """Return what is known about a state by walking the tree of tokens; for any state."""
        found = self.explore(automaton, state)
        ids = list(found.ids)
        targets = set(found.targets)
        for text, target in automaton.controls(state).items():
            ids.append(self.control(text))
            targets.add(target)
        ids += self.ends_at(automaton, state)
        parts = [place.part.stays for place in found.places if place.part.stays]
        for swept, swept_ids, rows in found.swept:
            parts.append(self.sets.of_array(swept_ids))
            targets.update(swept.reached(rows))
        allowed = self.sets.of(ids, parts)
        if not allowed and not automaton.is_accepting(state):
            raise VocabularyError(_unable(automaton, state))
        return Entry(
            allowed,
            tuple(targets),
            tuple((place.part, place.machine, place.after) for place in found.places),
        )

    def remember_levels(self, entry: Entry) -> None:
        """Keep the sets by budget of the last few entries only."""
        self._levelled.append(entry)
        if len(self._levelled) > KEPT_LEVELS:
            self._levelled.popleft().levels = None

    def ends_at(self, automaton: Automaton, state: int) -> list[int]:
        """Return the end tokens that may end the output here: all but those the grammar names."""
        if not automaton.is_accepting(state):
            return []
        named = {self.controls.get(text) for text in automaton.controls(state)}
        return sorted(self.ends - named)

    def control(self, text: str) -> int:
        """Return the id of a control token that a grammar names; VocabularyError if there is none."""
        index = self.controls.get(text)
        if index is None:
            raise VocabularyError(
                f"the grammar needs the control token {text!r}, which this vocabulary does not have"
            )
        return index

    def run(self, automaton: Automaton, state: int) -> tuple[bytes, int]:
        """Return the bytes that must come next and the state after them; remembers the answer."""
        runs = self.table(automaton).runs
        found = runs.get(state)
        if found is None:
            found = runs[state] = automaton.forced(state)
        return found

    def explore(self, automaton: Automaton, state: int) -> Found:
        """Find every token with bytes that keeps the automaton alive."""
        found = Found()
        runs = self.table(automaton).runs
        entered: set[tuple[int, int]] = set()
        work: list[tuple[Trie, list[int], list[int]]] = [(self.trie, [0], [state])]
        while work:
            trie, nodes, states = work.pop()
            stack = list(zip(nodes, states, strict=True))
            self._walk(automaton, runs, trie, stack, found, work, entered)
            if stack:
                nodes, states = map(list, zip(*stack, strict=True))
                swept = mask_bulk(trie, automaton, nodes, states)
                found.swept.append((swept, *swept.tokens(trie)))
        return found

    def _walk(
        self,
        automaton: Automaton,
        runs: dict[int, tuple[bytes, int]],
        trie: Trie,
        stack: list[tuple[int, int]],
        found: Found,
        work: list[tuple[Trie, list[int], list[int]]],
        entered: set[tuple[int, int]],
    ) -> None:
        """Walk tree and automaton side by side; leaves on the stack what takes too long."""
        first, label, own, low_of, high_of = (
            trie.first_, trie.bytes_, trie.own_, trie.low_, trie.high_,
        )  # fmt: skip
        order = trie.order_
        ids, targets = found.ids, found.targets
        patience = PATIENCE
        while stack and patience > 0:
            node, state = stack.pop()
            low, high = first[node], first[node + 1]
            if high_of[node] - low_of[node] > FEW_BELOW and trie is self.trie:
                place = automaton.inside(state)
                if place is not None:
                    if (node, state) not in entered:
                        entered.add((node, state))
                        self._enter(node, state, place, found, work, stack)
                    continue
                alternatives = automaton.alternatives(state)
                if len(alternatives) > 1:
                    stack += [(node, alternative) for alternative in alternatives]
                    continue
            patience -= 1
            run = runs.get(state)
            if run is None:
                run = runs[state] = automaton.forced(state)
            text, after = run
            if text:
                targets.append(state)
                node = _along(trie, node, text, ids)
                if node >= 0 and first[node] < first[node + 1]:
                    stack.append((node, after))
                continue
            for mask, target in automaton.edges(state):
                if mask & (mask - 1):
                    children = [c for c in range(low, high) if mask >> label[c] & 1]
                    patience -= len(children)
                else:
                    child = label.find(mask.bit_length() - 1, low, high)
                    children = [child] if child >= 0 else []
                for child in children:
                    if count := own[child]:
                        start = low_of[child]
                        ids += order[start : start + count]
                        targets.append(target)
                    if first[child] < first[child + 1]:
                        stack.append((child, target))

    def _enter(
        self,
        node: int,
        state: int,
        place: tuple[Automaton, int, int],
        found: Found,
        work: list[tuple[Trie, list[int], list[int]]],
        stack: list[tuple[int, int]],
    ) -> None:
        """Take the tokens that stay inside a lexeme as one set, and follow those that leave it."""
        machine, inner, after = place
        machine, inner = machine.near(inner, self.deepest)
        part = self.parts.of(machine, inner, node)
        found.places.append(Place(part, machine, inner, after, node, state))
        if len(part.exits):
            tails = part.tails()
            if tails is not None:
                work.append((tails, [0], [after]))
            else:
                exits = part.exits.tolist()
                work.append((self.trie, exits, [after] * len(exits)))
        if machine.is_accepting(inner):
            stack.append((node, after))


def _along(trie: Trie, node: int, text: bytes, ids: list[int]) -> int:
    """Follow a text from a node, collecting the tokens passed; return the end, -1 if there is none."""
    first, label, own = trie.first_, trie.bytes_, trie.own_
    for byte in text:
        node = label.find(byte, first[node], first[node + 1])
        if node < 0:
            return -1
        if count := own[node]:
            start = trie.low_[node]
            ids += trie.order_[start : start + count]
    return node


def _unable(automaton: Automaton, state: int) -> str:
    union = 0
    for mask, _ in automaton.edges(state):
        union |= mask
    return f"the vocabulary has no token that begins with {byte_class(union)}, which must come next"


def byte_class(mask: int) -> str:
    """Return a set of bytes for people: ``b'a'``, ``b'a' b'x'-b'z'``."""
    runs: list[list[int]] = []
    for byte in bytes_of(mask):
        if runs and runs[-1][-1] == byte - 1:
            runs[-1][1:] = [byte]
        else:
            runs.append([byte])
    return " ".join("-".join(repr(bytes([byte])) for byte in run) for run in runs)


_TABLES: WeakKeyDictionary[Vocabulary, VocabularyTables] = WeakKeyDictionary()


def tables_of(vocabulary: Vocabulary) -> VocabularyTables:
    """Return the one set of tables of a vocabulary; it goes when the vocabulary goes."""
    found = _TABLES.get(vocabulary)
    if found is None:
        found = _TABLES.setdefault(vocabulary, VocabularyTables(vocabulary))
    return found
