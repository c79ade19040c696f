"""Grammar -> Automaton, with the last few kept: the same grammar is compiled once.

Compiling is cheap because nothing is expanded before it is needed; what is worth keeping is what an
automaton has learnt (its states, and the token masks others hang on them).
"""

from __future__ import annotations

from functools import lru_cache

from callmemaybe.grammar.grammar import Grammar
from callmemaybe.grammar.tree import TreeAutomaton

#: Tool sets whose automata stay warm. Each holds only the states that were visited.
KEPT = 64


def compile(grammar: Grammar) -> TreeAutomaton:  # noqa: A001 - the name of the contract, as re.compile
    """Return the deterministic automaton of ``grammar``; equal grammars share one object.

    One that has spent half of its work (``automaton.WORK``) is shared no longer: recursion has no end
    of states, and whoever begins now should have room.
    """
    holder = _kept(grammar)
    if holder[0].is_worn:
        holder[0] = automaton_of(grammar)
    return holder[0]


@lru_cache(maxsize=KEPT)
def _kept(grammar: Grammar) -> list[TreeAutomaton]:
    return [automaton_of(grammar)]


def automaton_of(grammar: Grammar) -> TreeAutomaton:
    """Return a new automaton of a grammar."""
    return TreeAutomaton(grammar.root, grammar.rules, grammar.lengths)
