"""Sets of tokens: choosing from raw logits, and taking a few away."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.matching.token_set import ARGMAX_TRIES, EMPTY, MAX_LISTED, TokenSet, TokenSets

SIZE = 5000
sets = st.tuples(
    st.integers(0, 2**32),
    st.sampled_from([1, 40, MAX_LISTED, MAX_LISTED + 1, 3000, SIZE - 3, SIZE]),
)


def _set(seed: int, count: int) -> tuple[TokenSet, list[int]]:
    ids = np.random.default_rng(seed).permutation(SIZE)[:count]
    return TokenSets(SIZE).union(ids.tolist()), sorted(ids.tolist())


@given(
    sets, st.integers(0, 2 * ARGMAX_TRIES), st.sampled_from([np.float32, np.float64, np.float16])
)
@settings(max_examples=60, deadline=None)
def test_the_best_allowed_token(chosen: tuple[int, int], above: int, dtype: type) -> None:
    """Whatever is on top, the allowed token with the largest logit is chosen, of equals the lowest."""
    allowed, ids = _set(*chosen)
    logits = np.random.default_rng(1).integers(-9, 9, SIZE).astype(dtype)
    others = np.setdiff1d(np.arange(SIZE), ids)
    logits[others[:above]] = 99
    before = logits.copy()
    best = allowed.argmax(logits)
    assert best == ids[int(logits[ids].argmax())]
    assert (logits == before).all()


special = st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, 7.0, 99.0])


@given(
    width=st.sampled_from([SIZE, 4096, 4099, 2048 + 32, MAX_LISTED + 1]),
    share=st.sampled_from([0.3, 0.6, 0.97, 1.0]),
    seed=st.integers(0, 2**32),
    values=st.lists(st.tuples(st.integers(0, 4098), special), max_size=12),
    refused=st.integers(0, 90),
    dtype=st.sampled_from([np.float32, np.float64, np.float16]),
)
@settings(max_examples=150, deadline=None)
def test_the_best_of_any_logits(
    width: int,
    share: float,
    seed: int,
    values: list[tuple[int, float]],
    refused: int,
    dtype: type,
) -> None:
    """Ties, NaN, infinities, whole rows of refused bests, at any width: always the plain answer.

    A set is asked twice, because it looks elsewhere first after it had to refuse the best.
    """
    random = np.random.default_rng(seed)
    ids = np.flatnonzero(random.random(width) < share)
    logits = random.integers(-3, 4, width).astype(dtype)
    for index, value in values:
        logits[index % width] = value
    others = np.setdiff1d(np.arange(width), ids)
    logits[random.permutation(others)[:refused]] = 50
    allowed = TokenSets(width).union(ids.tolist())
    before = logits.copy()
    expected = int(ids[logits[ids].argmax()])
    assert [allowed.argmax(logits) for _ in range(3)] == [expected] * 3
    assert np.array_equal(logits, before, equal_nan=True)
    logits.flags.writeable = False
    assert allowed.argmax(logits) == expected
    assert allowed.argmax(np.repeat(logits, 2)[::2]) == expected


def test_nothing_is_allowed() -> None:
    """Of the empty set no token is chosen."""
    assert EMPTY.argmax(np.zeros(SIZE, np.float32)) == -1


@pytest.mark.parametrize("count", [40, 3000])
def test_no_logit_is_finite(count: int) -> None:
    """Where every logit is minus infinity, an allowed token is chosen nevertheless."""
    allowed, ids = _set(3, count)
    assert allowed.argmax(np.full(SIZE, -np.inf, np.float32)) in ids


@given(sets, st.lists(st.integers(0, SIZE - 1), max_size=90))
@settings(max_examples=60, deadline=None)
def test_without_some(chosen: tuple[int, int], taken: list[int]) -> None:
    """A set without some ids has all others, and the set itself stays as it is."""
    allowed, ids = _set(*chosen)
    assert allowed.without(set(taken)).to_ids().tolist() == sorted({*ids} - {*taken})
    assert allowed.to_ids().tolist() == ids
