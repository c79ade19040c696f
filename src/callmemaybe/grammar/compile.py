"""Grammar -> Automaton, with a cache: the same grammar is compiled once.

Compiling itself is cheap, since nothing is expanded before it is needed. The cache keeps what an automaton
has learnt in use: its states, and the token masks that `matching` stores for them. That grows, so the cache
is bounded by the steps its automata have taken, and drops those beyond half of their budget.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

from callmemaybe.grammar.automata.tree import TreeAutomaton
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.grammar import Grammar

#: Automata in the cache. Each holds only the states that were visited.
CACHE_SIZE = 64
#: Steps (see ``WORK_BUDGET``) that all cached automata may have taken together: some hundred megabytes.
CACHE_STEPS = 1_000_000
#: Requests between two trims of the cache: one takes about as long as a token.
TRIM_INTERVAL = 32

_Value = TypeVar("_Value")
#: In order of last use. Threads may race; the loser compiles anew.
_cache: dict[Grammar, TreeAutomaton] = {}
_requests = count(1)


def compile(grammar: Grammar) -> TreeAutomaton:  # noqa: A001 - the name of the contract, as re.compile
    """Return the deterministic automaton of ``grammar``; equal grammars share one object.

    An automaton that has used half of its budget is not shared any longer, since recursion has no end of
    states and a new user needs room.
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
    """Drop the automata that need renewal, and those beyond the bounds of the cache."""
    trim(_cache, lambda automaton: automaton, CACHE_SIZE)


def trim(
    cache: dict[Any, _Value], automaton_in: Callable[[_Value], Automaton], max_size: int
) -> None:
    """Drop the values whose automata need renewal, and the least recently used beyond ``max_size``.

    Fewer are kept if their automata, each counted once with its dependencies, have taken more than
    ``CACHE_STEPS`` together. The most recently used value stays unless it needs renewal.
    """
    seen: set[Automaton] = set()
    steps = retained = 0
    # A copy is made in one piece; a list of pairs is not, and another thread may add to the cache meanwhile.
    for key, value in reversed(cache.copy().items()):
        automaton = automaton_in(value)
        if not automaton.needs_renewal:
            steps += _steps(automaton, seen)
            if not retained or (retained < max_size and steps <= CACHE_STEPS):
                retained += 1
                continue
        cache.pop(key, None)


def _steps(automaton: Automaton, seen: set[Automaton]) -> int:
    """Return the steps of an automaton and its dependencies, without those in ``seen``."""
    steps, stack = 0, [automaton]
    while stack:
        one = stack.pop()
        if one not in seen:
            seen.add(one)
            steps += one.steps
            stack += one.dependencies()
    return steps


def automaton_of(grammar: Grammar) -> TreeAutomaton:
    """Return a new automaton of a grammar, bypassing the cache."""
    return TreeAutomaton(grammar.root, grammar.rules, grammar.min_lengths)
