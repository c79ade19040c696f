"""Common prefixes are fed once, shared where they can be, and bounded in memory."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe import models
from callmemaybe.caller import Caller
from callmemaybe.decoding.prefixes import MOST_KEPT, Prefixes
from callmemaybe.models.scripted import ScriptedModel
from tests.decoding.helpers import CHATML, vocabulary
from tests.models.conftest import Maker, tiny  # noqa: F401 - a fixture

IDS = st.lists(st.integers(0, 3), max_size=6)


@settings(max_examples=50, deadline=None)
@given(asked=st.lists(IDS, max_size=12))
def test_whatever_was_asked_before_a_session_holds_its_ids(asked: list[list[int]]) -> None:
    """A session holds exactly the ids asked for, is the caller's own, and nothing is fed twice.

    What is said to have been held is what was not fed.
    """
    model = ScriptedModel(10)
    prefixes = Prefixes(model)
    seen: set[tuple[int, ...]] = set()
    for ids in asked:
        before = model.counter.tokens
        session, held = prefixes.take(ids)
        assert model.counter.tokens - before == len(ids) - held
        assert session.ids == tuple(ids)  # type: ignore[attr-defined]
        session.feed([9])
        seen |= {tuple(ids[:end]) for end in range(1, len(ids) + 1)}
    assert model.counter.tokens == len(seen) + len(asked)


def test_memory_is_bounded(tiny: Maker) -> None:  # noqa: F811
    """The least recently used session goes first; the latest stays however large it is."""
    model = models.load(tiny("genai", "fp32"))
    row = model.open()
    row.feed([1])
    prefixes = Prefixes(model, most_bytes=35 * row.memory)
    for first in (1, 2, 3):
        prefixes.fork([first] * 10)
    assert len(prefixes) == 3
    prefixes.fork([1] * 10)
    prefixes.fork([4] * 10)
    assert len(prefixes) == 3
    assert prefixes.memory <= 35 * row.memory
    prefixes.fork([5] * 60)
    assert len(prefixes) == 1


def test_sessions_that_tell_no_size_are_bounded_in_number() -> None:
    """Where an engine does not tell what a session takes, so many are kept and the latest is one."""
    prefixes = Prefixes(ScriptedModel(60))
    for number in range(MOST_KEPT + 20):
        prefixes.fork([number % 50, number // 50, 1])
    assert prefixes.memory == 0
    assert len(prefixes) == MOST_KEPT


def test_lists_of_tools_share_what_they_begin_with() -> None:
    """A second list of tools that begins like the first one costs only what differs."""
    vocab = vocabulary(CHATML, ("<|im_end|>",))
    model = ScriptedModel(vocab.size)
    prefixes = Prefixes(model)
    tools = [
        {"name": name, "description": 200 * name, "parameters": {"x": {"type": "integer"}}}
        for name in "abcde"
    ]
    fed = []
    for count in (4, 5):
        caller = Caller(model, tools[:count], format="hermes", vocabulary=vocab, prefixes=prefixes)
        before = model.counter.tokens
        prefixes.fork(caller._shared)
        fed.append(model.counter.tokens - before)
    assert fed[1] < fed[0] / 2
