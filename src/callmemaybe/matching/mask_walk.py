"""Which tokens are allowed in a state: the fast path where it applies, else a walk.

The walk moves through the vocabulary's trie and the automaton side by side, and works for any state. A
lexeme on the way is not walked: its tokens come from the lexeme cache. A walk that takes long in plain
Python is finished with numpy (`mask_bulk.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from callmemaybe.errors import VocabularyError
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.grammar import bytes_of
from callmemaybe.matching.cache import AutomatonTables, StateEntry, VocabularyTables
from callmemaybe.matching.lexemes import LexemeTokens
from callmemaybe.matching.mask_bulk import BulkWalk, Indices, bulk_walk
from callmemaybe.matching.mask_fastpath import fast_entry, follow
from callmemaybe.vocabulary.trie import Trie

#: A lexeme below a node with fewer tokens is walked byte by byte.
MIN_LEXEME_TOKENS = 24
#: After so many steps in plain Python, the rest of a walk is done with numpy.
MAX_PYTHON_STEPS = 3000


class EnteredLexeme(NamedTuple):
    """Tokens that stay in a lexeme, entered at ``node`` when the automaton was in ``state``."""

    tokens: LexemeTokens
    machine: Automaton
    inner: int
    after: int
    node: int
    state: int


class WalkResult:
    """The tokens allowed in a state.

    ``targets`` are the states that ``ids`` lead to, or states before those on the way; ``bulk`` has
    parallel arrays of ids and rows of a bulk walk; ``lexemes`` are whole sets.
    """

    __slots__ = ("bulk", "ids", "lexemes", "targets")

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.targets: list[int] = []
        self.bulk: list[tuple[BulkWalk, Indices, Indices]] = []
        self.lexemes: list[EnteredLexeme] = []


def state_entry(
    tables: VocabularyTables,
    automaton: Automaton,
    state: int,
    cached: AutomatonTables | None = None,
) -> StateEntry:
    """Return what is known about a state, computing it if need be.

    ``cached`` are the tables of the automaton, where the caller has them.

    Raises VocabularyError if the vocabulary has no token for anything the state allows.
    """
    cached = cached or tables.of(automaton)
    entry = cached.entries.get(state)
    if entry is None:
        entry = fast_entry(tables, automaton, state) or walk_entry(tables, automaton, state)
        cached.add(state, entry)
    return entry


def walk_entry(tables: VocabularyTables, automaton: Automaton, state: int) -> StateEntry:
    """Return what is known about a state by a walk; for any state."""
    walk = walk_tokens(tables, automaton, state)
    ids = list(walk.ids)
    targets = set(walk.targets)
    for text, target in automaton.controls(state).items():
        ids.append(tables.control(text))
        targets.add(target)
    ids += tables.ends_at(automaton, state)
    sets = [one.tokens.staying for one in walk.lexemes if one.tokens.staying]
    for bulk, bulk_ids, rows in walk.bulk:
        sets.append(tables.sets.from_ids(bulk_ids))
        targets.update(bulk.states_of(rows))
    allowed = tables.sets.union(ids, sets)
    if not allowed and not automaton.is_accepting(state):
        union = 0
        for mask, _ in automaton.edges(state):
            union |= mask
        raise VocabularyError(
            f"the vocabulary has no token that begins with {describe_bytes(union)}, which must come next"
        )
    lexemes = tuple((one.tokens, one.machine, one.after) for one in walk.lexemes)
    return StateEntry(allowed, tuple(targets), lexemes)


def walk_tokens(tables: VocabularyTables, automaton: Automaton, state: int) -> WalkResult:
    """Find every token with bytes that keeps the automaton alive."""
    return _Walk(tables, automaton).run(state)


class _Walk:
    """One walk: what it found, and what is still to be walked."""

    def __init__(self, tables: VocabularyTables, automaton: Automaton) -> None:
        self._tables, self._automaton = tables, automaton
        self._runs = tables.of(automaton).runs
        self._found = WalkResult()
        self._entered: set[tuple[int, int]] = set()
        #: Tries (of all tokens, or of remainders), with the nodes and states to begin in.
        self._work: list[tuple[Trie, list[int], list[int]]] = []

    def run(self, state: int) -> WalkResult:
        """Walk everything from a state on."""
        self._work.append((self._tables.trie, [0], [state]))
        while self._work:
            trie, nodes, states = self._work.pop()
            stack = list(zip(nodes, states, strict=True))
            self._walk(trie, stack)
            if stack:
                nodes, states = map(list, zip(*stack, strict=True))
                bulk = bulk_walk(trie, self._automaton, nodes, states)
                self._found.bulk.append((bulk, *bulk.tokens(trie)))
        return self._found

    def _walk(self, trie: Trie, stack: list[tuple[int, int]]) -> None:
        """Walk trie and automaton side by side; leave on the stack what would take too long."""
        automaton, runs, is_whole = self._automaton, self._runs, trie is self._tables.trie
        first, label, own, low_of, high_of = (
            trie.first_, trie.bytes_, trie.own_, trie.low_, trie.high_,
        )  # fmt: skip
        order = trie.order_
        ids, targets = self._found.ids, self._found.targets
        steps = MAX_PYTHON_STEPS
        while stack and steps > 0:
            node, state = stack.pop()
            low, high = first[node], first[node + 1]
            if is_whole and high_of[node] - low_of[node] > MIN_LEXEME_TOKENS:
                inside = automaton.inside_lexeme(state)
                if inside is not None:
                    if (node, state) not in self._entered:
                        self._entered.add((node, state))
                        self._enter(node, state, inside, stack)
                    continue
                alternatives = automaton.alternatives(state)
                if len(alternatives) > 1:
                    stack += [(node, alternative) for alternative in alternatives]
                    continue
            steps -= 1
            run = runs.get(state)
            if run is None:
                run = runs[state] = automaton.forced(state)
            text, after = run
            if text:
                targets.append(state)
                node = follow(trie, node, text, ids)
                if node >= 0:
                    stack.append((node, after))
                continue
            for mask, target in automaton.edges(state):
                if mask & (mask - 1):
                    children = [c for c in range(low, high) if mask >> label[c] & 1]
                    steps -= len(children)
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
        inside: tuple[Automaton, int, int],
        stack: list[tuple[int, int]],
    ) -> None:
        """Take the tokens that stay inside a lexeme as one set; those that leave it are walked on."""
        tables = self._tables
        machine, inner, after = inside
        machine, inner = machine.relaxed(inner, tables.max_depth)
        tokens = tables.lexemes.lexeme(machine, inner, node)
        self._found.lexemes.append(EnteredLexeme(tokens, machine, inner, after, node, state))
        if len(tokens.exits):
            remainders = tokens.remainders()
            if remainders is not None:
                self._work.append((remainders, [0], [after]))
            else:
                exits = tokens.exits.tolist()
                self._work.append((tables.trie, exits, [after] * len(exits)))
        if machine.is_accepting(inner):
            stack.append((node, after))


def describe_bytes(mask: int) -> str:
    """Return a set of bytes for people: ``b'a'``, ``b'a' b'x'-b'z'``."""
    runs: list[list[int]] = []
    for byte in bytes_of(mask):
        if runs and runs[-1][-1] == byte - 1:
            runs[-1][1:] = [byte]
        else:
            runs.append([byte])
    return " ".join("-".join(repr(bytes([byte])) for byte in run) for run in runs)
