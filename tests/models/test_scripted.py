"""The shipped fake, and the trie walk that every session inherits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmemaybe.models.scripted import ScriptedModel, seeded

PATHS = st.lists(st.lists(st.integers(0, 3), max_size=5), max_size=12)


def test_forced_runs_cost_one_pass() -> None:
    """One feed is one forward pass, however many ids it carries."""
    model = ScriptedModel(size=8)
    session = model.open()
    session.feed([1, 2, 3, 4])
    session.feed([5])
    assert (model.counter.feeds, model.counter.tokens) == (2, 5)


@given(PATHS)
def test_walk_is_feeding_every_path(paths: list[list[int]]) -> None:
    """``branches`` equals a fork fed with each path, and feeds once per leaf of their trie."""
    model = ScriptedModel(size=4, script=1)
    session = model.open()
    session.feed([3, 1])
    before = model.counter.feeds
    found = session.branches(paths)
    leaves = {
        tuple(path)
        for path in paths
        if path and not any(other[: len(path)] == path and other != path for other in paths)
    }
    assert model.counter.feeds - before == len(leaves)
    for path, logits in zip(paths, found, strict=True):
        expected = np.zeros((0, 4), np.float32)
        if path:
            expected = session.fork().feed(path, keep=len(path))
        np.testing.assert_array_equal(logits, expected)


def test_callable_scripts_see_all_ids() -> None:
    """A script gets the ids so far, those of earlier feeds included."""
    seen = []

    def script(ids: tuple[int, ...]) -> list[float]:
        seen.append(ids)
        return [float(len(ids)), 0.0]

    session = ScriptedModel(size=2, script=script).open()
    session.feed([0, 1], keep=2)
    assert session.feed([1])[0, 0] == 3
    assert seen == [(0,), (0, 1), (0, 1, 1)]


def test_wrong_scripts_are_named() -> None:
    """A script that gives another width is an error of its author."""
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        ScriptedModel(size=2, script=lambda _: [0, 0, 0]).open().feed([1])


def test_seeded_logits_are_the_same_everywhere() -> None:
    """Seeds give numbers that do not depend on process, platform or numpy's global state."""
    pinned = [-2.4070711, 5.3718100, 1.9149148]
    np.testing.assert_allclose(seeded(3, seed=7)((1, 2)), pinned, rtol=1e-6)
