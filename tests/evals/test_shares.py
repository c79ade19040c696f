"""Shares, their intervals, and calibration."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.evals.statistics import Proportion, calibration, percentile

COUNTS = st.integers(1, 2000).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of)))


@settings(max_examples=80)
@given(COUNTS)
def test_the_interval_is_wilsons(counts: tuple[int, int]) -> None:
    """The ends are where the score test just does not reject (its defining equation)."""
    share = Proportion(*counts)
    assert share.value is not None
    low, high = share.interval
    assert 0 <= low <= share.value <= high <= 1
    for end in (low, high):
        if 1e-9 < end < 1 - 1e-9:
            distance = 1.959963984540054 * math.sqrt(end * (1 - end) / share.of)
            assert abs(share.value - end) == pytest.approx(distance, abs=1e-6)


def test_nothing_counted_says_nothing() -> None:
    """Without cases there is no share, and the interval is everything."""
    assert Proportion(0, 0).value is None
    assert Proportion(0, 0).interval == (0.0, 1.0)
    assert calibration([])["ece"] is None
    assert percentile([], 0.5) is None


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_calibration_counts_every_case_once(pairs: list[tuple[float, bool]]) -> None:
    """The bins hold all cases; the error is a mean of gaps, so between 0 and 1."""
    found = calibration(pairs)
    assert sum(one["of"] for one in found["bins"]) == found["cases"] == len(pairs)
    assert sum(one["right"] for one in found["bins"]) == sum(true for _, true in pairs)
    assert 0 <= found["ece"] <= 1
    assert 0 <= found["brier"] <= 1


def test_calibration_by_hand() -> None:
    """Probabilities that come true as often as they say have no error; overconfidence has."""
    assert calibration([(0.75, True)] * 3 + [(0.75, False)])["ece"] == 0
    assert calibration([(1.0, True), (1.0, False)])["ece"] == 0.5


def test_percentiles_are_values_of_the_list() -> None:
    """Nearest rank: the median of four is the second, the 99th percentile of few the largest."""
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0
    assert percentile([4.0, 1.0, 3.0], 0.99) == 4.0
