"""Common prefixes are fed once, shared where they can be, and bounded in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from weakref import WeakSet

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe import models
from callmemaybe.caller import Caller
from callmemaybe.decoding.batch import DecodeBatch
from callmemaybe.decoding.prefix_cache import MAX_SESSIONS, PrefixCache
from callmemaybe.errors import ModelError
from callmemaybe.models.base import Model
from callmemaybe.models.scripted import ScriptedModel, ScriptedSession
from tests.decoding.helpers import CHATML, vocabulary
from tests.models.conftest import Maker, tiny  # noqa: F401 - a fixture
from tests.settings import prefix_ids

IDS = st.lists(st.integers(0, 3), max_size=6)


@settings(max_examples=50, deadline=None)
@given(asked=st.lists(IDS, max_size=12))
def test_whatever_was_asked_before_a_session_holds_its_ids(asked: list[list[int]]) -> None:
    """A session holds exactly the ids asked for, is the caller's own, and nothing is fed twice.

    What is said to have been held is what was not fed.
    """
    model = ScriptedModel(10)
    prefixes = PrefixCache(model)
    seen: set[tuple[int, ...]] = set()
    for ids in asked:
        before = model.counter.tokens
        session, cached = prefixes.take(ids)
        assert model.counter.tokens - before == len(ids) - cached
        assert session.ids == tuple(ids)  # type: ignore[attr-defined]
        session.feed([9])
        seen |= {tuple(ids[:end]) for end in range(1, len(ids) + 1)}
    assert model.counter.tokens == len(seen) + len(asked)


def test_memory_is_bounded(tiny: Maker) -> None:  # noqa: F811
    """The least recently used session goes first; the latest stays however large it is."""
    model = models.load(tiny("genai", "fp32"))
    one = model.open()
    one.feed([1] * 10)
    # What the room of two took, of which one has given it back for the other, goes on counting.
    limit = 2 * one.memory
    one.trim()
    limit += 7 * one.memory // 2
    prefixes = PrefixCache(model, max_bytes=limit)
    for first in (1, 2, 3):
        prefixes.fork([first] * 10)
    assert len(prefixes) == 3
    prefixes.fork([1] * 10)
    prefixes.fork([4] * 10)
    assert len(prefixes) == 3
    assert prefixes.memory <= limit
    assert prefixes.take([1] * 10).cached == 10
    assert prefixes.take([2] * 10).cached == 0
    prefixes.fork([5] * 60)
    assert len(prefixes) == 1


@settings(max_examples=3, deadline=None)
@given(lengths=st.lists(st.integers(1, 90), min_size=40, max_size=60), mib=st.integers(3, 12))
def test_what_is_counted_is_what_is_held(lengths: list[int], mib: int) -> None:
    """Every byte of the buffers counts, and hardly any is kept unused; sessions say the same as ever."""
    model = _nano()
    prefixes = PrefixCache(model, max_bytes=mib << 20)
    prompts = [[5 + at, *range(100, 100 + length)] for at, length in enumerate(lengths)]
    for ids in prompts:
        prefixes.fork(ids).feed([9])
    kept = list(prefixes._sessions.values())
    buffers = {id(session.cache): session.cache for session in kept}  # type: ignore[attr-defined]
    held = sum(array.nbytes for buffer in buffers.values() for array in buffer.arrays)
    spacious = [session for key, session in prefixes._sessions.items() if key in prefixes._spacious]
    assert sum(session.memory for session in spacious) <= max(mib << 17, kept[-1].memory)
    held += prefixes._peak_spacious - sum(session.memory for session in spacious)
    assert held == prefixes.memory
    assert held <= mib << 20 or len(prefixes) == 1
    row = held // sum(buffer.capacity for buffer in buffers.values())
    full = len(prefixes) < len(prompts)
    assert not full or held + row * (90 + 256) > mib << 20, "there was room for more"
    oldest = list(next(iter(prefixes._sessions)))
    fresh = model.open()
    fresh.feed(oldest)
    again, cached = prefixes.take(oldest)
    assert cached == len(oldest)
    np.testing.assert_allclose(again.feed([7]), fresh.feed([7]), atol=1e-4)


@cache
def _nano() -> models.Model:
    return models.load("nano")


def test_sessions_that_tell_no_size_are_bounded_in_number() -> None:
    """Where an engine does not tell what a session takes, so many are kept and the latest is one."""
    prefixes = PrefixCache(ScriptedModel(60))
    for number in range(MAX_SESSIONS + 20):
        prefixes.fork([number % 50, number // 50, 1])
    assert prefixes.memory == 0
    assert len(prefixes) == MAX_SESSIONS


@dataclass(frozen=True)
class Few(ScriptedModel):
    """Holds so many sessions at a time, as llama.cpp does."""

    most_sessions: int = 8
    live: WeakSet[ScriptedSession] = field(default_factory=WeakSet, compare=False)

    def open(self) -> ScriptedSession:
        return OneOfFew(self)


class OneOfFew(ScriptedSession):
    def __init__(self, model: Few, ids: tuple[int, ...] = ()) -> None:
        if len(model.live) >= model.most_sessions:
            raise ModelError(f"more than {model.most_sessions} sessions are open")
        super().__init__(model, ids)
        model.live.add(self)
        self._few = model

    def fork(self) -> ScriptedSession:
        return OneOfFew(self._few, self._ids)


@pytest.mark.parametrize("through", [lambda model: model, DecodeBatch], ids=["alone", "in a batch"])
def test_an_engine_with_few_sessions_serves_any_number_of_prompts(
    through: Callable[[Model], Model],
) -> None:
    """Half of what an engine holds at a time is kept; the rest is left to those who decode."""
    model = through(Few(60))
    prefixes = PrefixCache(model)
    for number in range(100):
        session = prefixes.fork([number % 50, number // 50, 1])
        assert len(session.branches([[1], [2]])) == 2
        session.fork().feed([3])
    assert len(prefixes) == 4
    assert prefixes.take([49, 1, 1]).cached == 3


def test_a_prefix_that_could_not_be_begun_keeps_nobody_waiting() -> None:
    """The error is that of whoever asked; who asks again is served, or gets one of their own."""
    model = Few(20, most_sessions=2)
    prefixes = PrefixCache(model)
    taken = [model.open(), model.open()]
    for _ in range(2):
        with pytest.raises(ModelError, match="more than 2"):
            prefixes.fork([1, 2, 3])
    taken.clear()
    found: list[int] = []
    asking = threading.Thread(target=lambda: found.append(prefixes.fork([1, 2, 3]).length))
    asking.daemon = True
    asking.start()
    asking.join(10)
    assert found == [3]


def test_lists_of_tools_share_what_they_begin_with() -> None:
    """A second list of tools that begins like the first one costs only what differs."""
    vocab = vocabulary(CHATML, ("<|im_end|>",))
    model = ScriptedModel(vocab.size)
    prefixes = PrefixCache(model)
    tools = [
        {"name": name, "description": 200 * name, "parameters": {"x": {"type": "integer"}}}
        for name in "abcde"
    ]
    fed = []
    for count in (4, 5):
        caller = Caller(
            model, tools[:count], format="hermes", vocabulary=vocab, prefix_cache=prefixes
        )
        before = model.counter.tokens
        prefixes.fork(prefix_ids(caller))
        fed.append(model.counter.tokens - before)
    assert fed[1] < fed[0] / 2
