"""Grammar -> Automaton, with the last few kept: the same grammar is compiled once.

Compiling is cheap because nothing is expanded before it is needed; what is worth keeping is what an
automaton has learnt (its states, and the token masks others hang on them). That grows with use, so
what is kept is bounded by all that was learnt, and what is worn is not kept at all.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

from callmemaybe.grammar.automata.tree import TreeAutomaton
from callmemaybe.grammar.automaton import WORK_BUDGET, Automaton
from callmemaybe.grammar.grammar import Grammar

#: Tool sets whose automata stay warm. Each holds only the states that were visited.
CACHE_SIZE = 64
#: Steps (see ``WORK_BUDGET``) that those automata may have taken together: some hundred megabytes.
CACHE_STEPS = WORK_BUDGET
#: What is kept is looked through once in so many requests: that takes as long as a token.
TRIM_INTERVAL = 32

_Value = TypeVar("_Value")
#: The one that was asked for last stands last. Threads may get in each other's way, and then make one anew.
_cache: dict[Grammar, TreeAutomaton] = {}
_requests = count(1)


def compile(grammar: Grammar) -> TreeAutomaton:  # noqa: A001 - the name of the contract, as re.compile
    """Return the deterministic automaton of ``grammar``; equal grammars share one object.

    One that has spent half of its work (``automaton.WORK``) is shared no longer: recursion has no end
    of states, and whoever begins now should have room.
    """
    cached = _cache.get(grammar)
    is_new = cached is None or cached.needs_renewal
    if cached is None or is_new:
        cached = automaton_of(grammar)
    _cache.pop(grammar, None)
    _cache[grammar] = cached
    if is_new or next(_requests) % TRIM_INTERVAL == 0:
        trim_cache()
    return cached


def trim_cache() -> None:
    """Let go of the automata that are worn, and of those beyond what may be kept."""
    trim(_cache, lambda automaton: automaton, CACHE_SIZE)


def trim(
    cache: dict[Any, _Value], automaton_in: Callable[[_Value], Automaton], max_size: int
) -> None:
    """Drop the things whose automata are worn, and those used longest ago, down to ``max_size``.

    Fewer stay where their automata have taken more than ``CACHE_STEPS`` together, with all that they
    stand on, each counted once. The thing at the end was used last, and stays unless it is worn.
    """
    seen: set[Automaton] = set()
    steps = retained = 0
    for key, value in reversed(list(cache.items())):
        automaton = automaton_in(value)
        if not automaton.needs_renewal:
            steps += _steps(automaton, seen)
            if not retained or (retained < max_size and steps <= CACHE_STEPS):
                retained += 1
                continue
        cache.pop(key, None)


def _steps(automaton: Automaton, seen: set[Automaton]) -> int:
    """Return the steps that were taken by an automaton and by what it stands on, but for those seen."""
    steps, stack = 0, [automaton]
    while stack:
        one = stack.pop()
        if one not in seen:
            seen.add(one)
            steps += one.steps
            stack += one.dependencies()
    return steps


def automaton_of(grammar: Grammar) -> TreeAutomaton:
    """Return a new automaton of a grammar."""
    return TreeAutomaton(grammar.root, grammar.rules, grammar.min_lengths)
