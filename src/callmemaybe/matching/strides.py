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
from callmemaybe.matching.lexemes import Part
from callmemaybe.vocabulary.trie import Trie

if TYPE_CHECKING:
    from callmemaybe.matching.cache import VocabularyTables

#: More alternatives than this in one state, or strides for one set, and it is walked.
MOST_BRANCHES = 24
MOST_STRIDES = 200
#: What an entry is made of, see ``cache.Entry``.
Found = tuple[Allowed, frozenset[int], tuple[tuple[Part, Automaton, int], ...], tuple[int, ...]]


def stride(tables: VocabularyTables, automaton: Automaton, state: int) -> Found | None:
    """Return what is allowed in a state (see ``Entry``), or None where only a walk can tell."""
    ids: list[int] = []
    states = {state}
    sets: list[Allowed] = []
    places: list[tuple[Part, Automaton, int]] = []
    forks: list[int] = []
    whole = tables.trie
    stack: list[tuple[Trie, int, int]] = [(whole, 0, state)]
    left = MOST_STRIDES
    while stack:
        trie, node, here = stack.pop()
        branches = automaton.branches(here, MOST_BRANCHES)
        left -= 1 if branches is None else len(branches)
        if branches is None or left < 0:
            return None
        if len(branches) > 1 or automaton.is_accepting(here) or automaton.controls(here):
            forks.append(here)
        for text, onward in branches:
            if text:
                end = _follow(trie, node, text, ids)
                if end >= 0:
                    target = automaton.after(onward)
                    states.add(target)
                    stack.append((trie, end, target))
                continue
            place = automaton.inside(automaton.after(onward))
            if place is None or trie is not whole:
                return None
            machine, inner, after = place
            machine, inner = machine.near(inner, tables.deepest)
            part = tables.parts.of(machine, inner, node)
            places.append((part, machine, after))
            if part.stays:
                sets.append(part.stays)
            if len(part.exits):
                tails = part.tails()
                if tails is None:
                    return None
                stack.append((tails, 0, after))
            if machine.is_accepting(inner):
                stack.append((trie, node, after))
            states.add(after)
    controls = automaton.controls(state)
    for name, target in controls.items():
        ids.append(tables.control(name))
        states.add(target)
    if automaton.is_accepting(state):
        ids += tables.ends_at(automaton, state)
    allowed = tables.sets.of(ids, sets)
    return (allowed, frozenset(states), tuple(places), tuple(forks)) if allowed else None


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
