"""Choosing one of some logits: greedy, at random with a seed, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from callmemaybe.decoding.sampler import Sampler, logsumexp
from callmemaybe.errors import InputError, ModelError

LOGITS = arrays(np.float32, st.integers(1, 30), elements=st.floats(-30, 30, width=32))


def sampled(logits: np.ndarray, count: int = 400, **options: float) -> np.ndarray:
    sampler = Sampler(generator=np.random.default_rng(0), **{"temperature": 1.0} | options)  # type: ignore[arg-type]
    return np.bincount([sampler.choose(logits) for _ in range(count)], minlength=len(logits))


@given(logits=LOGITS)
def test_greedy_takes_the_first_best(logits: np.ndarray) -> None:
    """Temperature 0 takes the largest logit, the lowest index where several are."""
    assert Sampler().choose(logits) == int(np.flatnonzero(logits == logits.max())[0])


def test_frequencies_are_the_probabilities() -> None:
    """At temperature T an index comes with probability softmax(logits / T)."""
    logits = np.log(np.array([0.1, 0.2, 0.3, 0.4], np.float32))
    np.testing.assert_allclose(sampled(logits, 4000) / 4000, [0.1, 0.2, 0.3, 0.4], atol=0.03)
    hot = np.array([0.1, 0.2, 0.3, 0.4]) ** 0.5
    np.testing.assert_allclose(
        sampled(logits, 4000, temperature=2.0) / 4000, hot / hot.sum(), atol=0.03
    )


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"top_k": 2}, [2, 3]),
        ({"top_p": 0.65}, [2, 3]),
        ({"top_p": 0.4}, [3]),
        ({"top_p": 0.0}, [3]),
        ({"min_p": 0.45}, [1, 2, 3]),
        ({"min_p": 1.0}, [3]),
    ],
)
def test_limits_keep_the_likeliest(options: dict[str, float], kept: list[int]) -> None:
    """Each limit keeps what its definition says, and nothing else is ever drawn."""
    logits = np.log(np.array([0.1, 0.2, 0.3, 0.4], np.float32))
    assert np.flatnonzero(sampled(logits, **options)).tolist() == kept


def test_impossible_ones_are_never_drawn() -> None:
    """A logit of minus infinity is no error as long as another one is finite."""
    logits = np.array([-np.inf, 0.0, -np.inf], np.float32)
    assert sampled(logits).tolist() == [0, 400, 0]
    with pytest.raises(ModelError, match="no probability"):
        Sampler().choose(np.full(3, -np.inf, np.float32))


@pytest.mark.filterwarnings("error")
def test_a_tiny_temperature_takes_the_likeliest() -> None:
    """Next to nothing is no overflow that anybody hears of."""
    logits = np.array([0.0, 3.0, 2.0], np.float32)
    assert sampled(logits, temperature=1e-308).tolist() == [0, 400, 0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_broken_logits_are_refused(bad: float) -> None:
    """NaN and plus infinity are told from large numbers."""
    with pytest.raises(ModelError, match="1 of the 3 allowed logits"):
        Sampler().choose(np.array([0.0, bad, 1.0], np.float32))


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -1.0},
        {"temperature": np.nan},
        {"top_p": 1.5},
        {"min_p": -0.1},
        {"top_k": -1},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    """Each error names the option."""
    with pytest.raises(InputError, match=next(iter(options))):
        Sampler(generator=np.random.default_rng(0), **options)  # type: ignore[arg-type]


def test_chance_needs_a_generator() -> None:
    """There is no hidden source of randomness."""
    with pytest.raises(InputError, match="generator"):
        Sampler(temperature=1.0)


@settings(max_examples=50)
@given(logits=LOGITS)
def test_the_total_normalises(logits: np.ndarray) -> None:
    """exp(logits - total) sums to one."""
    assert np.exp(logits.astype(np.float64) - logsumexp(logits)).sum() == pytest.approx(
        1.0, abs=1e-5
    )
