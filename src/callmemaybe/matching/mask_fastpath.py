"""Which tokens are allowed in a state, found by whole texts and whole lexemes instead of bytes.

Most states stand in front of a text that must come, inside a lexeme, or in front of a few of these. A
text is followed through the trie in one go. For a lexeme the cache knows which tokens stay inside and
which remainders the others have (`lexemes.py`); the remainders are followed on from the state after
it. No automaton state in between is built. Any other state is left to the walk (`mask_walk.py`), which
tests compare this with.
"""

from __future__ import annotations

from typing import Any

from callmemaybe.grammar.automaton import Automaton
from callmemaybe.matching.cache import StateEntry, VocabularyTables
from callmemaybe.matching.lexemes import (
    AnyLexemeTokens,
    LeadIn,
    LexemeStart,
    LexemeUse,
    Prefix,
    RestrictedTokens,
)
from callmemaybe.matching.token_set import TokenSet
from callmemaybe.vocabulary.trie import Trie

#: A state with more alternatives than this, or a set that takes more of them, is walked.
MAX_BRANCHES = 1024
MAX_BRANCHES_IN_ALL = 4000
#: Lexeme starts, and texts in front of lexemes, that are cached per vocabulary.
LEXEME_START_CACHE_SIZE = 1024
#: Prefixes of following texts that are cached for each of these, and the longest text in front.
PREFIX_CACHE_SIZE = 256
MAX_LEAD_IN = 8
#: With more texts than this after a lexeme, what is allowed is not cached by their prefixes.
MAX_FOLLOWING = 8
#: A text, and whether no bytes may follow it.
Text = tuple[bytes, bool]


def fast_entry(tables: VocabularyTables, automaton: Automaton, state: int) -> StateEntry | None:
    """Return what is known about a state, or None where only a walk can tell."""
    found = _entry_by_prefix(tables, automaton, state)
    if found is not None:
        return found
    search = _BranchSearch(tables, automaton)
    # Where only control tokens may come, there are no bytes to search.
    if automaton.first_bytes(state) and not search.run(state):
        return None
    ids, targets = search.ids, search.targets
    for text, target in automaton.controls(state).items():
        ids.append(tables.control(text))
        targets.add(target)
    ids += tables.ends_at(automaton, state)
    allowed = tables.sets.union(ids, search.sets)
    if not allowed:
        return None
    return StateEntry(allowed, tuple(targets), tuple(search.lexemes), tuple(search.forks))


# -- a lexeme between texts ---------------------------------------------------------------------------


def _entry_by_prefix(
    tables: VocabularyTables, automaton: Automaton, state: int
) -> StateEntry | None:
    """Return the entry where a short text leads into a lexeme (or this is one), and texts follow it.

    What is allowed there depends on nothing but the lexeme, the text in front of it, and the first few
    bytes of the texts that may follow, and is cached by these.
    """
    text, start = automaton.forced(state)
    inside = automaton.inside_lexeme(start)
    if inside is None or len(text) > MAX_LEAD_IN or automaton.is_accepting(start):
        return None
    machine, inner, after = inside
    key = text, machine.serial, inner
    lead_in = tables.lead_ins.get(key)
    if lead_in is None:
        if len(tables.lead_ins) >= LEXEME_START_CACHE_SIZE:
            tables.lead_ins.clear()
        lead_in = tables.lead_ins[key] = _lead_in(tables, machine, inner, text)
    lexeme = lead_in.start
    if lexeme is None:
        return None
    following = _following_texts(automaton, after, may_be_next=lexeme.may_end)
    if following is None:
        return None
    texts, forks = following
    for length in lead_in.prefix_lengths:
        allowed = lead_in.by_prefix.get(_prefixes(texts, length))
        if allowed is not None:
            break
    else:
        allowed = _allowed_before(tables, lead_in, lexeme, texts)
        if allowed is None:
            return None
    uses = () if lexeme.tokens is None else ((lexeme.tokens, lexeme.machine, after),)
    return StateEntry(allowed, (state, start, after), uses, forks)


def _following_texts(
    automaton: Automaton, state: int, *, may_be_next: bool
) -> tuple[tuple[Text, ...], tuple[int, ...]] | None:
    """Return the few texts that may come in a state, and the state if they are more than one.

    None where anything else may come. ``may_be_next``: the next byte may be read in this state, so
    that no text may be empty.
    """
    text, target = automaton.forced(state)
    if text:
        return ((text, not automaton.first_bytes(target)),), ()
    branches = automaton.branches(state, MAX_FOLLOWING)
    if not branches or automaton.controls(state):
        return None if may_be_next or automaton.first_bytes(state) else (((b"", True),), ())
    found: list[Text] = []
    for text, onward in branches:
        if not text:
            return None
        is_all = False
        if len(text) < MAX_LEAD_IN:
            more, target = automaton.forced(automaton.after_branch(onward))
            text, is_all = text + more, not automaton.first_bytes(target)
        found.append((text, is_all))
    return tuple(found), (state,)


def _prefixes(texts: tuple[Text, ...], length: int) -> tuple[Prefix, ...]:
    """Return the first bytes of each text; a text that ends before, and is all, in a tuple."""
    if len(texts) == 1:
        text, is_all = texts[0]
        return ((text,) if is_all and len(text) < length else text[:length],)
    return tuple(
        [(text,) if is_all and len(text) < length else text[:length] for text, is_all in texts]
    )


def _lead_in(tables: VocabularyTables, machine: Automaton, state: int, text: bytes) -> LeadIn:
    ids: list[int] = []
    node = follow(tables.trie, 0, text, ids) if text else 0
    start = None
    if node >= 0:
        start = _lexeme_start(tables, machine, state, node)
        if start.tokens is not None and start.remainders is None:
            start = None
    return LeadIn(ids, start, {}, [])


def _allowed_before(
    tables: VocabularyTables, lead_in: LeadIn, lexeme: LexemeStart, texts: tuple[Text, ...]
) -> TokenSet | None:
    """Return what is allowed in front of texts, and cache it; None where more must be seen."""
    ids = lead_in.ids + lexeme.ids
    length = 0
    for text, is_all in texts:
        ways: list[tuple[Trie, int, list[int]]] = []
        leaving: list[int] = []
        if lexeme.remainders is not None:
            ways.append((lexeme.remainders, 0, leaving))
        if lexeme.may_end:
            ways.append((tables.trie, lexeme.node, ids))
        for trie, node, found in ways:
            seen = _follow_to_mismatch(trie, node, text, found)
            if seen < 0 and not is_all:
                return None
            length = max(length, seen if seen >= 0 else len(text) + 1)
        ids += leaving if lexeme.restriction is None else lexeme.restriction.may_leave(leaving)
    allowed = tables.sets.union(ids, [] if lexeme.staying is None else [lexeme.staying])
    if not allowed:
        return None
    if len(lead_in.by_prefix) >= PREFIX_CACHE_SIZE:
        lead_in.by_prefix.clear()
        lead_in.prefix_lengths.clear()
    lead_in.by_prefix[_prefixes(texts, length)] = allowed
    if length not in lead_in.prefix_lengths:
        lead_in.prefix_lengths.append(length)
    return allowed


# -- any few branches ---------------------------------------------------------------------------------


class _BranchSearch:
    """One search through branches: the tokens found, and where they may lead."""

    __slots__ = ("_automaton", "_stack", "_tables", "forks", "ids", "lexemes", "sets", "targets")

    def __init__(self, tables: VocabularyTables, automaton: Automaton) -> None:
        self.ids: list[int] = []
        self.targets: set[int] = set()
        self.sets: list[TokenSet] = []
        self.lexemes: list[LexemeUse] = []
        self.forks: list[int] = []
        self._tables, self._automaton = tables, automaton
        self._stack: list[tuple[Trie, int, int, RestrictedTokens | None]] = []

    def run(self, state: int) -> bool:
        """Search everything from a state on; False where only a walk can tell."""
        automaton, ids, stack, targets = self._automaton, self.ids, self._stack, self.targets
        root = self._tables.trie
        targets.add(state)
        stack.append((root, 0, state, None))
        left = MAX_BRANCHES_IN_ALL
        while stack:
            trie, node, here, restriction = stack.pop()
            branches = automaton.branches(here, MAX_BRANCHES)
            if branches is None or (left := left - len(branches)) < 0:
                return False
            if len(branches) > 1 or automaton.is_branching(here):
                self.forks.append(here)
            for text, onward in branches:
                if text:
                    found = ids if restriction is None else []
                    end = follow(trie, node, text, found)
                    if restriction is not None:
                        ids += restriction.may_leave(found)
                    if end >= 0:
                        target = automaton.after_branch(onward)
                        targets.add(target)
                        stack.append((trie, end, target, restriction))
                elif trie is not root or not self._enter(node, onward):
                    return False
        return True

    def _enter(self, node: int, onward: Any) -> bool:
        """Take the tokens that stay in a lexeme as one set; those that leave it are searched on."""
        tables = self._tables
        machine, state, after = self._automaton.enter_branch(onward)
        start = _lexeme_start(tables, machine, state, node)
        self.targets.add(after)
        if start.text:
            self.targets.add(self._automaton.after_branch(onward))
            self.ids += start.ids
        if start.tokens is not None:
            self.lexemes.append((start.tokens, start.machine, after))
            if start.staying is not None:
                self.sets.append(start.staying)
            if start.remainders is None:
                return False
            if start.remainders.order_:
                self._stack.append((start.remainders, 0, after, start.restriction))
        if start.may_end:
            self._stack.append((tables.trie, start.node, after, None))
        return True


def _lexeme_start(
    tables: VocabularyTables, machine: Automaton, state: int, node: int
) -> LexemeStart:
    """Return what tokens below a node do from a state of a lexeme's automaton on; cached."""
    key = machine.serial, state, node
    start = tables.lexeme_starts.get(key)
    if start is None:
        start = _compute_lexeme_start(tables, machine, state, node)
        if len(tables.lexeme_starts) >= LEXEME_START_CACHE_SIZE:
            tables.lexeme_starts.clear()
        tables.lexeme_starts[key] = start
    return start


def _compute_lexeme_start(
    tables: VocabularyTables, machine: Automaton, state: int, node: int
) -> LexemeStart:
    ids: list[int] = []
    text = b""
    if not machine.is_accepting(state):
        text, state = machine.forced(state)
        if text:
            node = follow(tables.trie, node, text, ids)
            if node < 0 or machine.is_final(state):
                return LexemeStart(text, ids, node, machine, None, None, None, None, node >= 0)
    tokens: AnyLexemeTokens
    restriction: RestrictedTokens | None = None
    may_end = machine.is_accepting(state)
    counted = machine.as_counted(state)
    if counted is not None:
        tokens = restriction = tables.lexemes.counted(counted, node)
    elif (excluding := tables.lexemes.excluding(machine, state, node)) is not None:
        tokens = restriction = excluding
    else:
        machine, state = machine.relaxed(state, tables.max_depth)
        tokens = tables.lexemes.lexeme(machine, state, node)
    return LexemeStart(
        text, ids, node, machine, tokens, restriction, tokens.remainders(), tokens.staying or None,
        may_end,
    )  # fmt: skip


# -- texts through a trie -----------------------------------------------------------------------------


def follow(trie: Trie, node: int, text: bytes, ids: list[int]) -> int:
    """Follow a text from a node, collecting the tokens passed.

    Returns the node at its end; -1 if no token goes on from there, or the text leaves the trie before.
    """
    first, label, own = trie.first_, trie.bytes_, trie.own_
    for byte in text:
        node = label.find(byte, first[node], first[node + 1])
        if node < 0:
            return -1
        if count := own[node]:
            start = trie.low_[node]
            if count == 1:
                ids.append(trie.order_[start])
            else:
                ids += trie.order_[start : start + count]
    return node if first[node] < first[node + 1] else -1


def _follow_to_mismatch(trie: Trie, node: int, text: bytes, ids: list[int]) -> int:
    """Follow a text from a node to the first byte with which no token goes on, collecting tokens.

    Returns how many bytes of the text that takes; -1 if the text is over before.
    """
    first, label, own = trie.first_, trie.bytes_, trie.own_
    for length, byte in enumerate(text, 1):
        node = label.find(byte, first[node], first[node + 1])
        if node < 0:
            return length
        if own[node]:
            start = trie.low_[node]
            ids += trie.order_[start : start + own[node]]
    return -1
