"""Grammar -> Automaton, with the last few kept: the same grammar is compiled once.

Compiling is cheap because nothing is expanded before it is needed; what is worth keeping is what an
automaton has learnt (its states, and the token masks others hang on them). That grows with use, so
what is kept is bounded by all that was learnt, and what is worn is not kept at all.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

from callmemaybe.grammar.automaton import WORK, Automaton
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.grammar.tree import TreeAutomaton

#: Tool sets whose automata stay warm. Each holds only the states that were visited.
KEPT = 64
#: Steps (see ``WORK``) that those automata may have taken together: some hundred megabytes.
KEPT_STEPS = WORK
#: What is kept is looked through once in so many requests: that takes as long as a token.
OFTEN = 32

_Thing = TypeVar("_Thing")
#: The one that was asked for last stands last. Threads may get in each other's way, and then make one anew.
_kept: dict[Grammar, TreeAutomaton] = {}
_asked = count(1)


def compile(grammar: Grammar) -> TreeAutomaton:  # noqa: A001 - the name of the contract, as re.compile
    """Return the deterministic automaton of ``grammar``; equal grammars share one object.

    One that has spent half of its work (``automaton.WORK``) is shared no longer: recursion has no end
    of states, and whoever begins now should have room.
    """
    found = _kept.get(grammar)
    is_new = found is None or found.is_worn
    if found is None or is_new:
        found = automaton_of(grammar)
    _kept.pop(grammar, None)
    _kept[grammar] = found
    if is_new or next(_asked) % OFTEN == 0:
        let_go()
    return found


def let_go() -> None:
    """Let go of the automata that are worn, and of those beyond what may be kept."""
    tidy(_kept, lambda automaton: automaton, KEPT)


def tidy(kept: dict[Any, _Thing], automaton_in: Callable[[_Thing], Automaton], most: int) -> None:
    """Drop the things whose automata are worn, and those used longest ago, down to ``most``.

    Fewer stay where their automata have taken more than ``KEPT_STEPS`` together, with all that they
    stand on, each counted once. The thing at the end was used last, and stays unless it is worn.
    """
    seen: set[Automaton] = set()
    steps = stay = 0
    for key, thing in reversed(list(kept.items())):
        automaton = automaton_in(thing)
        if not automaton.is_worn:
            steps += _steps(automaton, seen)
            if not stay or (stay < most and steps <= KEPT_STEPS):
                stay += 1
                continue
        kept.pop(key, None)


def _steps(automaton: Automaton, seen: set[Automaton]) -> int:
    """Return the steps that were taken by an automaton and by what it stands on, but for those seen."""
    steps, stack = 0, [automaton]
    while stack:
        one = stack.pop()
        if one not in seen:
            seen.add(one)
            steps += one.spent
            stack += one.stands_on()
    return steps


def automaton_of(grammar: Grammar) -> TreeAutomaton:
    """Return a new automaton of a grammar."""
    return TreeAutomaton(grammar.root, grammar.rules, grammar.lengths)
