"""What is computed once per vocabulary, and once per (vocabulary, automaton state), and cached.

No cache keeps an automaton or a vocabulary alive: tables hang weakly on them. Every cache is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from weakref import WeakKeyDictionary

from callmemaybe.errors import VocabularyError
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.matching.lexemes import LeadIn, LexemeCache, LexemeStart, LexemeUse
from callmemaybe.matching.token_set import EMPTY, TokenSet, TokenSets
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.vocabulary.trie import Trie

#: The state after an end token: nothing may follow.
ENDED = -1
UNKNOWN = -1
#: State entries and token moves per automaton; reached only by very long or very many outputs.
ENTRY_CACHE_SIZE = 20_000
MOVE_CACHE_SIZE = 50_000
#: Entries that keep their sets by budget, which are needed near the end of a budget only.
BUDGET_SETS_CACHE_SIZE = 64


class StateEntry:
    """What is known about one state of one automaton under one vocabulary.

    ``targets`` are the states that tokens lead to, or states before those on the way; from ``forks``
    tokens may lead into any branch; in ``lexemes`` they may stay.
    ``max_needed`` bounds the fewest tokens to an end after any allowed token (UNKNOWN: not computed yet).
    ``by_budget`` are (tokens needed afterwards, all tokens that need at most so many), ascending, exact for
    budgets up to ``budgets_to``; see ``budget.py``.
    """

    __slots__ = (
        "allowed", "budgets_to", "by_budget", "forks", "lexemes", "max_needed", "targets",
    )  # fmt: skip

    def __init__(
        self,
        allowed: TokenSet,
        targets: tuple[int, ...] = (),
        lexemes: tuple[LexemeUse, ...] = (),
        forks: tuple[int, ...] = (),
    ) -> None:
        self.allowed = allowed
        self.targets = targets
        self.lexemes = lexemes
        self.forks = forks
        self.max_needed = UNKNOWN
        self.by_budget: list[tuple[int, TokenSet]] | None = None
        self.budgets_to = 0


class AutomatonTables:
    """Everything cached for one automaton under one vocabulary."""

    __slots__ = ("entries", "forced", "moves", "remaining", "runs", "unforced")

    def __init__(self) -> None:
        self.entries: dict[int, StateEntry] = {ENDED: StateEntry(EMPTY)}
        #: The state after a token, by ``state * vocabulary size + id``.
        self.moves: dict[int, int] = {}
        #: Forced ids, by the state and the last emitted ids.
        self.forced: dict[Hashable, tuple[int, ...]] = {}
        #: States in which nothing is forced, whatever was emitted.
        self.unforced: set[int] = set()
        #: The bytes that must come next in a state, and the state after them.
        self.runs: dict[int, tuple[bytes, int]] = {}
        #: Fewest tokens to an end, from a state and after each byte of its run.
        self.remaining: dict[int, list[float]] = {}

    def add(self, state: int, entry: StateEntry) -> StateEntry:
        """Store what is known about a state, and return it."""
        if len(self.entries) >= ENTRY_CACHE_SIZE:
            self.entries.clear()
            self.entries[ENDED] = StateEntry(EMPTY)
        self.entries[state] = entry
        return entry


class VocabularyTables:
    """Everything cached for one vocabulary; shared by all automata and matchers over it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Prepare; the vocabulary's trie is built here if it was not before."""
        self.trie: Trie = vocabulary.trie
        self.max_depth = len(self.trie.starts)
        self.sets = TokenSets(vocabulary.size)
        self.lexemes = LexemeCache(self.trie, self.sets)
        self.controls = vocabulary.controls
        self.ends = vocabulary.ends
        self.has_free_ends = vocabulary.has_free_ends
        self.encoded: dict[bytes, tuple[int, ...]] = {}
        #: By the last bytes of a text: numbers of last bytes with which longer tokens begin.
        self.overlaps: dict[bytes, tuple[int, ...]] = {}
        #: The same, but only tokens that go on with one of some bytes.
        self.overlaps_into: dict[tuple[bytes, int], tuple[int, ...]] = {}
        #: By the automaton of a lexeme, its state and a trie node.
        self.lexeme_starts: dict[tuple[int, int, int], LexemeStart] = {}
        #: By the text in front of a lexeme, the lexeme's automaton and its state.
        self.lead_ins: dict[tuple[bytes, int, int], LeadIn] = {}
        self.representatives: dict[int, int] = {}
        self._with_budgets: deque[StateEntry] = deque()
        self._automata: WeakKeyDictionary[Automaton, AutomatonTables] = WeakKeyDictionary()

    def of(self, automaton: Automaton) -> AutomatonTables:
        """Return what is cached for an automaton."""
        found = self._automata.get(automaton)
        if found is None:
            found = self._automata.setdefault(automaton, AutomatonTables())
        return found

    def run(self, automaton: Automaton, state: int) -> tuple[bytes, int]:
        """Return the bytes that must come next and the state after them; cached."""
        runs = self.of(automaton).runs
        found = runs.get(state)
        if found is None:
            found = runs[state] = automaton.forced(state)
        return found

    def set_budgets(
        self, entry: StateEntry, by_budget: list[tuple[int, TokenSet]], most: int
    ) -> None:
        """Store the sets by budget of an entry, exact up to ``most``; only the last few entries keep theirs."""
        entry.by_budget, entry.budgets_to = by_budget, most
        self._with_budgets.append(entry)
        if len(self._with_budgets) > BUDGET_SETS_CACHE_SIZE:
            self._with_budgets.popleft().by_budget = None

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


_TABLES: WeakKeyDictionary[Vocabulary, VocabularyTables] = WeakKeyDictionary()


def tables_of(vocabulary: Vocabulary) -> VocabularyTables:
    """Return the one set of tables of a vocabulary; it lives as long as the vocabulary."""
    found = _TABLES.get(vocabulary)
    if found is None:
        found = _TABLES.setdefault(vocabulary, VocabularyTables(vocabulary))
    return found
