"""What is allowed in a state, found in strides: whole texts and whole lexemes at a time.

Most states stand in front of a text that must come, inside a lexeme, or before a few of these. A text
is followed through the tree of tokens in one go; of a lexeme it is known who stays and what those who
leave have behind it (`lexemes.py`), which is followed on. No state in between is built. Whatever is
not of this kind is left to the walk (`VocabularyTables.walked`), with which the tests compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from callmemaybe.grammar.automaton import Automaton
from callmemaybe.matching.allowed import Allowed
from callmemaybe.matching.lexemes import Part, Slice, Without
from callmemaybe.vocabulary.trie import Trie

if TYPE_CHECKING:
    from callmemaybe.matching.cache import VocabularyTables

#: More alternatives than this in one state, or strides for one set, and it is walked.
MOST_BRANCHES = 256
MOST_STRIDES = 2000
#: What an entry is made of, see ``cache.Entry``.
Found = tuple[
    Allowed,
    frozenset[int],
    tuple[tuple[Part | Slice | Without, Automaton, int], ...],
    tuple[int, ...],
]


def stride(tables: VocabularyTables, automaton: Automaton, state: int) -> Found | None:
    """Return what is allowed in a state (see ``Entry``), or None where only a walk can tell."""
    walk = _Strides(tables, automaton, state)
    if not walk.is_done:
        return None
    ids, states = walk.ids, walk.states
    controls = automaton.controls(state)
    for name, target in controls.items():
        ids.append(tables.control(name))
        states.add(target)
    if automaton.is_accepting(state):
        ids += tables.ends_at(automaton, state)
    allowed = tables.sets.of(ids, walk.sets)
    if not allowed:
        return None
    return allowed, frozenset(states), tuple(walk.places), tuple(walk.forks)


class _Strides:
    """One search: the tokens found, and where they may lead."""

    def __init__(self, tables: VocabularyTables, automaton: Automaton, state: int) -> None:
        self.ids: list[int] = []
        self.states = {state}
        self.sets: list[Allowed] = []
        self.places: list[tuple[Part | Slice | Without, Automaton, int]] = []
        self.forks: list[int] = []
        self._tables, self._automaton = tables, automaton
        self._stack: list[tuple[Trie, int, int, Slice | Without | None]] = [
            (tables.trie, 0, state, None)
        ]
        self.is_done = self._search()

    def _search(self) -> bool:
        automaton, ids, stack = self._automaton, self.ids, self._stack
        left = MOST_STRIDES
        while stack:
            trie, node, here, limits = stack.pop()
            branches = automaton.branches(here, MOST_BRANCHES)
            left -= 1 if branches is None else len(branches)
            if branches is None or left < 0:
                return False
            if len(branches) > 1 or automaton.is_accepting(here) or automaton.controls(here):
                self.forks.append(here)
            for text, onward in branches:
                if text:
                    found = ids if limits is None else []
                    end = _follow(trie, node, text, found)
                    if limits is not None:
                        ids += limits.may_leave(found)
                    if end >= 0:
                        target = automaton.after(onward)
                        self.states.add(target)
                        stack.append((trie, end, target, limits))
                elif trie is not self._tables.trie or not self._enter(
                    node, automaton.after(onward)
                ):
                    return False
        return True

    def _enter(self, node: int, state: int) -> bool:
        """Take the tokens that stay in a lexeme as one set; those that leave it are to be followed."""
        tables, stack = self._tables, self._stack
        place = self._automaton.inside(state)
        if place is None:
            return False
        machine, inner, after = place
        self.states.add(after)
        may_end = machine.is_accepting(inner)
        if not may_end:
            text, inner = machine.forced(inner)
            if text:
                self.states.add(state)
                node = _follow(tables.trie, node, text, self.ids)
                if node < 0:
                    return True
                if machine.is_final(inner):
                    stack.append((tables.trie, node, after, None))
                    return True
                may_end = machine.is_accepting(inner)
        counted = machine.counted(inner)
        part: Part | Slice | Without
        limits: Slice | Without | None = None
        if counted is not None:
            part = limits = tables.parts.counted(counted, node)
        elif (without := tables.parts.without(machine, inner, node)) is not None:
            part = limits = without
        else:
            machine, inner = machine.near(inner, tables.deepest)
            part = tables.parts.of(machine, inner, node)
        self.places.append((part, machine, after))
        if part.stays:
            self.sets.append(part.stays)
        tails = part.tails()
        if tails is None:
            return False
        if len(tails.order):
            stack.append((tails, 0, after, limits))
        if may_end:
            stack.append((tables.trie, node, after, None))
        return True


def _follow(trie: Trie, node: int, text: bytes, ids: list[int]) -> int:
    """Follow a text from a node, collecting the tokens passed.

    Returns the node at its end; -1 if no token goes on from where it leaves the tree, or its end.
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
