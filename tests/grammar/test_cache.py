"""The cache of automata is used by many threads."""

from __future__ import annotations

import gc
from typing import Any

from callmemaybe.grammar import json_schema
from callmemaybe.grammar.compile import automaton_of, trim


def test_trimming_stands_a_cache_that_changes_meanwhile() -> None:
    """Whatever runs between two steps of the interpreter (here the collector, as elsewhere a thread) may add to the cache."""
    automaton = automaton_of(json_schema({"type": "boolean"}))
    cache: dict[Any, Any] = dict.fromkeys(range(5000), automaton)
    left = [300]

    class Cycle:
        """Garbage that adds to the cache when it is collected, and leaves more of it."""

        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            if left[0]:
                left[0] -= 1
                cache[object()] = automaton
                Cycle()

    before = gc.get_threshold()
    Cycle()
    gc.set_threshold(1)
    try:
        trim(cache, lambda one: one, 64)
    finally:
        gc.set_threshold(*before)
        left[0] = 0
    assert len(cache) < 5000
