"""Fewest tokens to an end, and the tokens that leave a budget enough.

``remaining`` counts tokens along completions that are shortest in bytes: every byte of such a path
lowers ``automaton.min_remaining`` by one. Where several bytes lead to the same state, or to keys of which
any may come first, one of them (a function of the state alone) represents all. So from every state
some allowed token lowers ``remaining`` by exactly one, and a budget that is enough once stays enough
to the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from callmemaybe.errors import VocabularyError
from callmemaybe.grammar.automaton import Automaton, report_progress
from callmemaybe.grammar.grammar import bytes_of
from callmemaybe.matching.cache import ENDED, StateEntry, VocabularyTables
from callmemaybe.matching.mask_fastpath import MAX_BRANCHES
from callmemaybe.matching.mask_walk import state_entry, walk_tokens
from callmemaybe.matching.token_set import EMPTY, TokenSet
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.vocabulary.trie import Int32

#: Every byte of ordinary text: if all are tokens, a completion of n bytes needs at most n tokens.
TEXT_BYTES = frozenset(
    [0x09, 0x0A, 0x0D, *range(0x20, 0x7F), *range(0x80, 0xC0), *range(0xC2, 0xF1)]
)

REPRESENTATIVE_CACHE_SIZE = 4096
#: Bytes of a text that must come between two reports of progress, and those that take as long as a step.
_REPORTED, _BYTES_PER_STEP = 1024, 4
_NOWHERE: frozenset[tuple[int, int]] = frozenset()
#: Tokens that are counted one by one, whatever the budget.
_COUNTED = 4096
#: More tokens than any budget.
NEVER = 1 << 62


def remaining(
    tables: VocabularyTables, vocabulary: Vocabulary, automaton: Automaton, state: int
) -> float:
    """Return the fewest tokens to an end along the completions shortest in bytes.

    An accepting state needs none if it is final (nothing may follow), or end tokens are free, or none
    is at hand; else one: the end token. Infinite if the vocabulary lacks a byte that is needed.
    """
    if state == ENDED:
        return 0
    known = tables.of(automaton).remaining
    plans: dict[int, _Plan] = {}
    stack = [state]
    while stack:
        here = stack[-1]
        if here in known:
            stack.pop()
        elif automaton.min_remaining(here) == 0:
            may_go_on = not automaton.is_final(here) and not tables.has_free_ends
            known[here] = [1 if may_go_on and tables.ends_at(automaton, here) else 0]
        else:
            if here not in plans:
                plans[here] = _plan(tables, vocabulary, automaton, here)
            missing = [target for target in plans[here].needs if target not in known]
            stack += missing
            if not missing:
                known[here] = plans[here].solve(known)
    return known[state][0]


# A point on a path: a state, and how many bytes of its run (the bytes that must come) are read.
_RunOffset = tuple[int, int]


class _Plan(NamedTuple):
    """Where one token leads from each offset in a state's run: within the run, and beyond it."""

    after: int
    within: list[Sequence[int]]
    beyond: list[AbstractSet[_RunOffset]]
    needs: set[int]

    def solve(self, known: Mapping[int, list[float]]) -> list[float]:
        """Return the fewest tokens from each offset of the run, given those of all it ``needs``."""
        size = len(self.within)
        found = [math.inf] * size
        found.append(known[self.after][0] if self.after in known else math.inf)
        for offset in range(size - 1, -1, -1):
            fewest = min([found[end] for end in self.within[offset]], default=math.inf)
            for target, at in self.beyond[offset]:
                fewest = min(fewest, known[target][at])
            found[offset] = 1 + fewest
        found.pop()
        return found


def _plan(
    tables: VocabularyTables, vocabulary: Vocabulary, automaton: Automaton, state: int
) -> _Plan:
    trie = tables.trie
    run, after = tables.run(automaton, state)
    if not run:
        points = {
            (target, 0)
            for target in automaton.controls(state).values()
            if _is_closer(automaton, state, target)
        }
        _reach(tables, vocabulary, automaton, 0, state, points)
        return _Plan(state, [[]], [points], {target for target, _ in points})
    within: list[Sequence[int]] = []
    beyond: list[AbstractSet[_RunOffset]] = []
    needs = {after}
    for start in range(len(run)):
        if not start % _REPORTED:
            report_progress(_REPORTED // _BYTES_PER_STEP)
        ends: tuple[int, ...] = ()
        node = 0
        for at in range(start, len(run)):
            node = trie.child(node, run[at])
            if node < 0:
                beyond.append(_NOWHERE)
                break
            if trie.own_[node]:
                ends += (at + 1,)
        else:
            points = set()
            _reach(tables, vocabulary, automaton, node, after, points)
            beyond.append(points)
            needs.update(target for target, _ in points)
        within.append(ends)
    return _Plan(after, within, beyond, needs)


def _is_closer(automaton: Automaton, state: int, target: int) -> bool:
    return automaton.min_remaining(target) < automaton.min_remaining(state)


def _reach(
    tables: VocabularyTables,
    vocabulary: Vocabulary,
    automaton: Automaton,
    node: int,
    state: int,
    points: set[_RunOffset],
) -> None:
    """Add where tokens below ``node`` lead from ``state`` on paths shortest in bytes."""
    trie = tables.trie
    stack = [(node, state, automaton.min_remaining(state))]
    while stack:
        node, state, left = stack.pop()
        if not left or trie.first_[node] == trie.first_[node + 1]:
            continue
        run, after = tables.run(automaton, state)
        for length, byte in enumerate(run, 1):
            node = trie.child(node, byte)
            if node < 0:
                break
            if trie.own_[node]:
                points.add((state, length) if length < len(run) else (after, 0))
        else:
            if run:
                stack.append((node, after, left - len(run)))
                continue
            for mask, target in automaton.shortest_edges(state):
                child = trie.child(node, _representative(tables, vocabulary, mask))
                if child >= 0:
                    if trie.own_[child]:
                        points.add((target, 0))
                    stack.append((child, target, left - 1))


def _representative(tables: VocabularyTables, vocabulary: Vocabulary, mask: int) -> int:
    """Return the byte that represents a set: preferably a token by itself, printable, the lowest."""
    found = tables.representatives.get(mask)
    if found is None:
        if len(tables.representatives) >= REPRESENTATIVE_CACHE_SIZE:
            tables.representatives.clear()
        found = tables.representatives[mask] = min(
            bytes_of(mask),
            key=lambda byte: (byte not in vocabulary.single_bytes, not 0x20 <= byte < 0x7F, byte),
        )
    return found


def within_budget(
    tables: VocabularyTables,
    vocabulary: Vocabulary,
    automaton: Automaton,
    state: int,
    budget: int,
) -> TokenSet:
    """Return the allowed tokens after which at most ``budget - 1`` more reach an end."""
    entry = state_entry(tables, automaton, state)
    if entry.max_needed < 0:
        entry.max_needed = max_needed(vocabulary, automaton, entry)
    if entry.max_needed < budget or state == ENDED:
        return entry.allowed
    by_budget = entry.by_budget
    if by_budget is None or budget > entry.budgets_to:
        counted = max(budget, _COUNTED)
        by_budget = _by_budget(tables, vocabulary, automaton, state, counted)
        tables.set_budgets(entry, by_budget, counted)
        most, every = by_budget[-1] if by_budget else (NEVER, EMPTY)
        # After a token that is in none of the sets, the vocabulary cannot spell any end.
        is_known = every.count == entry.allowed.count and most <= counted
        entry.max_needed = most if is_known else NEVER
    best = EMPTY
    for needed, allowed in by_budget:
        if needed >= budget:
            break
        best = allowed
    return best


def max_needed(vocabulary: Vocabulary, automaton: Automaton, entry: StateEntry) -> int:
    """Return a bound on ``remaining`` after any allowed token, by bytes, where every byte is a token."""
    if not _spells_text(vocabulary):
        return NEVER
    longest = max(map(automaton.min_remaining, entry.targets), default=0)
    for fork in entry.forks:
        for text, onward in automaton.branches(fork, MAX_BRANCHES) or ():
            longest = max(
                longest, len(text) + automaton.min_remaining(automaton.after_branch(onward))
            )
    for tokens, machine, after in entry.lexemes:
        longest = max(longest, tokens.max_remaining(machine) + automaton.min_remaining(after))
    return longest + 1


def _by_budget(
    tables: VocabularyTables, vocabulary: Vocabulary, automaton: Automaton, state: int, most: int
) -> list[tuple[int, TokenSet]]:
    """Return (tokens needed afterwards, all tokens that need at most so many), ascending.

    Where more than ``most`` are needed for certain, as few as there may be stand for those needed: counting would
    take long.
    """
    walk = walk_tokens(tables, automaton, state)
    # Tokens, and a state they all lead to.
    groups: list[tuple[npt.NDArray[np.integer], int]] = []
    for one in walk.lexemes:
        for text, staying in tables.lexemes.groups(one.machine, one.inner, one.node):
            groups.append((staying, automaton.walk(one.state, text)))
    for bulk, ids, rows in walk.bulk:
        present = np.flatnonzero(np.bincount(rows)).tolist()
        groups += [(ids[rows == row], bulk.states[row]) for row in present]
    # A token found twice (it may stay in a lexeme or leave it) is in a state that is neither.
    every = np.concatenate([np.array(walk.ids, np.int32), *(ids for ids, _ in groups)])
    times = np.bincount(every, minlength=vocabulary.size)
    single = {*walk.ids, *np.flatnonzero(times > 1).tolist()}
    groups += [(_one(i), automaton.walk(state, vocabulary.tokens[i])) for i in sorted(single)]
    groups += [(_one(i), ENDED) for i in tables.ends_at(automaton, state)]
    groups += [(_one(tables.control(t)), to) for t, to in automaton.controls(state).items()]
    needs = np.full(vocabulary.size, NEVER, np.int64)
    steps: set[int] = set()
    for members, target in groups:
        need: float = NEVER if target == ENDED else automaton.min_remaining(target)
        need = -(-need // vocabulary.longest) if need < NEVER else need
        if need <= most or need >= NEVER:
            need = remaining(tables, vocabulary, automaton, target)
        needs[members] = NEVER if need == math.inf else int(need)
        steps.update([int(need)] if need < math.inf else [])
    return [(step, tables.sets.from_ids(np.flatnonzero(needs <= step))) for step in sorted(steps)]


def _one(index: int) -> Int32:
    return np.array([index], np.int32)


def needed(
    tables: VocabularyTables, vocabulary: Vocabulary, automaton: Automaton, state: int
) -> int:
    """Return :func:`remaining` as an int; VocabularyError where it is infinite."""
    found = remaining(tables, vocabulary, automaton, state)
    if found == math.inf:
        raise VocabularyError(
            "the vocabulary lacks bytes that the shortest completion of this grammar needs"
        )
    return int(found)


def fits(
    tables: VocabularyTables,
    vocabulary: Vocabulary,
    automaton: Automaton,
    state: int,
    budget: int,
) -> bool:
    """Whether ``remaining <= budget``."""
    if state != ENDED and automaton.min_remaining(state) < budget and _spells_text(vocabulary):
        return True
    return remaining(tables, vocabulary, automaton, state) <= budget


def _spells_text(vocabulary: Vocabulary) -> bool:
    return vocabulary.single_bytes.keys() >= TEXT_BYTES
