"""Passes over several sessions: as few as can be, in place, and not a bit different where promised."""

from __future__ import annotations

import gc
import weakref
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe import models
from callmemaybe.errors import ModelError
from callmemaybe.models.base import _PASS_COST, Feed, padded_runs
from callmemaybe.models.onnx import OnnxModel, by_position
from callmemaybe.models.onnx.engine import OnnxEngine
from callmemaybe.models.onnx.kv_buffer import BufferPool, BufferReader, KVBuffer
from tests.models.conftest import Maker


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return a list that every pass adds its (sequences, ids each) to."""
    shapes: list[tuple[int, int]] = []
    append = OnnxEngine.append

    def noted(self: OnnxEngine, ids: np.ndarray, *others: object, **more: object) -> np.ndarray:
        shapes.append(ids.shape)
        return append(self, ids, *others, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(OnnxEngine, "append", noted)
    return shapes


def load(tiny: Maker, layout: str) -> OnnxModel:
    model = models.load(tiny(layout))
    assert isinstance(model, OnnxModel)
    assert model.batches
    return model


@pytest.mark.parametrize("layout", ["genai", "placed"])
def test_one_pass_for_all(tiny: Maker, monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    """Eight sequences of unlike lengths that want an id each take one pass, and copy nothing."""
    model = load(tiny, layout)
    sessions = [model.open() for _ in range(8)]
    for at, session in enumerate(sessions):
        session.feed([1] * (3 + at))
    sessions[0].feed_batch([Feed(session, [2]) for session in sessions])
    shapes = counted(monkeypatch)
    monkeypatch.setattr(KVBuffer, "move", None)
    for _ in range(5):
        sessions[0].feed_batch([Feed(session, [2]) for session in sessions])
    assert shapes == [{"genai": (1, 8), "placed": (8, 1)}[layout]] * 5


def test_placed_graphs_pad(tiny: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences that want a few ids each are padded; who wants many goes alone, as does the widest."""
    model = load(tiny, "placed")
    sessions = [model.open() for _ in range(4)]
    shapes = counted(monkeypatch)
    found = sessions[0].feed_batch(
        [Feed(session, [5] * count) for session, count in zip(sessions, (2, 30, 1, 3), strict=True)]
    )
    assert sorted(shapes) == [(1, 30), (3, 3)]
    for count, logits in zip((2, 30, 1, 3), found, strict=True):
        np.testing.assert_allclose(logits, model.open().feed([5] * count), atol=1e-5)


def test_short_requests_share_a_pass(tiny: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: what a whole short request adds to its prefix goes through with others, with the logits it has alone."""
    model = load(tiny, "placed")
    sessions = [model.open() for _ in range(4)]
    for at, session in enumerate(sessions):
        session.feed([3 + at] * 9)
    shapes = counted(monkeypatch)
    counts = (39, 40, 40, 40)
    found = sessions[0].feed_batch(
        [
            Feed(session, [5] * count, keep=3)
            for session, count in zip(sessions, counts, strict=True)
        ]
    )
    assert shapes == [(4, 40)]
    for at, (count, logits) in enumerate(zip(counts, found, strict=True)):
        alone = model.open().feed([3 + at] * 9 + [5] * count, keep=3)
        np.testing.assert_allclose(logits, alone, atol=1e-5)


@pytest.mark.parametrize("layout", ["genai", "placed"])
def test_logits_are_freed_with_their_owner(tiny: Maker, layout: str) -> None:
    """Law: nothing but the caller holds what a pass returned, however many slots have passes of their own."""
    engine = load(tiny, layout)._engine
    cache = engine.buffer(8)
    found = engine.append(np.array([[1, 2, 3]]), [0], 3, cache)
    held = weakref.ref(found)
    assert held() is not None
    del found
    gc.collect()
    assert held() is None


def test_long_caches_stay_where_they_are(tiny: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would take longer to copy than a shared pass saves goes through alone."""
    model = load(tiny, "placed")
    monkeypatch.setattr(by_position, "_MAX_POOLED_BYTES", 20 * model._engine.graph.cache_bytes())
    sessions = [model.open() for _ in range(4)]
    for session, length in zip(sessions, (20, 21, 3, 30), strict=True):
        session.feed([1] * length)
    shapes = counted(monkeypatch)
    sessions[0].feed_batch([Feed(session, [2]) for session in sessions])
    assert sorted(shapes) == [(1, 1), (1, 1), (2, 1)]


def test_prompts_that_are_kept_hold_no_pool(tiny: Maker) -> None:
    """A prompt without logits is fed for a cache, where a slot would keep a pool alive that others have left."""
    model = load(tiny, "placed")
    kept = [model.open() for _ in range(3)]
    kept[0].feed_batch([Feed(session, [at, 7], keep=0) for at, session in enumerate(kept)])
    turns = [session.fork() for session in kept]
    logits = turns[0].feed_batch([Feed(session, [2]) for session in turns])
    pool = model._engine.pool
    assert pool is not None
    assert all(pool.slot(session.cache) is not None for session in turns)
    assert all(pool.slot(session.cache) is None for session in kept)
    for at, found in enumerate(logits):
        np.testing.assert_allclose(found, model.open().feed([at, 7, 2]), atol=1e-5)


@pytest.mark.parametrize("layout", ["genai", "placed"])
def test_a_full_context_beside_others(tiny: Maker, layout: str) -> None:
    """A sequence at the end of its context goes on beside short ones, and fails alone."""
    model = models.load(tiny(layout, max_position_embeddings=40))
    sessions = [model.open() for _ in range(3)]
    for session, length in zip(sessions, (39, 5, 38), strict=True):
        session.feed([1] * length)
    feeds = [Feed(session, [2] * count) for session, count in zip(sessions, (1, 3, 2), strict=True)]
    for feed, logits in zip(feeds, sessions[0].feed_batch(feeds), strict=True):
        ids = [1] * (feed.session.length - len(feed.ids)) + [2] * len(feed.ids)
        np.testing.assert_allclose(logits, model.open().feed(ids), atol=1e-5)
    first, second, third = sessions[0].feed_batch([Feed(session, [3]) for session in sessions])
    assert isinstance(first, ModelError)
    assert isinstance(third, ModelError)
    np.testing.assert_allclose(second, model.open().feed([1] * 5 + [2] * 3 + [3]), atol=1e-5)


@settings(max_examples=60)
@given(counts=st.lists(st.integers(1, 30), min_size=1, max_size=7).map(sorted),
       most=st.integers(1, 60))  # fmt: skip
def test_padding_is_the_cheapest(counts: list[int], most: int) -> None:
    """No division into runs costs less than the one that is found; none is over the limit."""

    def cost(sizes: list[int]) -> float:
        total, at = 0.0, 0
        for size in sizes:
            rows = size * counts[at + size - 1]
            total += _PASS_COST + rows if size == 1 or rows <= most else np.inf
            at += size
        return total

    all_logits = []
    for cuts in product((False, True), repeat=len(counts) - 1):
        sizes = [1]
        for cut in cuts:
            if cut:
                sizes.append(1)
            else:
                sizes[-1] += 1
        all_logits.append(cost(sizes))
    found = padded_runs(counts, most)
    assert sum(found) == len(counts)
    assert cost(found) == min(all_logits)


def test_slots_are_free_again_when_nobody_holds_them() -> None:
    """The first free slot is given out; a buffer that is dropped frees its own."""
    pool = BufferPool([np.zeros((3, 2, 5))], [2], lambda array: array)
    held = [pool.take() for _ in range(3)]
    assert pool.take() is None
    first, second, _ = held
    assert first is not None
    assert second is not None
    assert [pool.slot(first), pool.slot(second)] == [0, 1]
    reader = BufferReader()
    second.join(reader)
    assert second.may_write(reader, 0, 4)
    assert [pool.reach(slot) for slot in range(3)] == [0, 4, 0]
    held[1] = None
    del second, reader
    gc.collect()
    assert pool.reach(1) == 0
    again = pool.take()
    assert again is not None
    assert pool.slot(again) == 1
    assert pool.take() is None
