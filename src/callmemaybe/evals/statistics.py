"""Shares with their uncertainty, and how far stated probabilities can be believed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

#: 97.5% quantile of the normal distribution: intervals hold with 95%.
_Z = 1.959963984540054
BINS = 10


@dataclass(frozen=True)
class Proportion:
    """How many of how many, with Wilson's 95% interval (Wilson 1927, eq. without correction)."""

    right: int
    of: int

    @classmethod
    def count(cls, verdicts: Iterable[bool]) -> Proportion:
        """Count the true ones."""
        listed = list(verdicts)
        return cls(sum(listed), len(listed))

    @property
    def value(self) -> float | None:
        """The share; None of nothing."""
        return self.right / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end; all of [0, 1] if nothing was counted."""
        if not self.of:
            return 0.0, 1.0
        share, z2 = self.right / self.of, _Z * _Z
        middle = share + z2 / (2 * self.of)
        half = _Z * math.sqrt(share * (1 - share) / self.of + z2 / (4 * self.of * self.of))
        scale = 1 + z2 / self.of
        # Rounding must not push the ends beyond the share itself.
        low, high = (middle - half) / scale, (middle + half) / scale
        return max(0.0, min(low, share)), min(1.0, max(high, share))

    def as_json(self) -> dict[str, Any]:
        """Return counts, share and interval as a JSON value."""
        low, high = self.interval
        value = None if self.value is None else round(self.value, 4)
        return {
            "share": value, "low": round(low, 4), "high": round(high, 4),
            "right": self.right, "of": self.of,
        }  # fmt: skip


def calibration(pairs: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Compare stated probabilities with what came true.

    Returns "bins" (ten of equal width: mean probability and share that came true), "ece" (the
    expected calibration error: the mean gap, weighted by cases; Naeini et al. 2015) and "brier"
    (mean squared error); both None without pairs.
    """
    binned: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for probability, is_true in pairs:
        place = min(BINS - 1, max(0, int(probability * BINS)))
        binned[place].append((probability, is_true))
    bins: list[dict[str, Any]] = []
    gap = 0.0
    for place, inside in enumerate(binned):
        if not inside:
            continue
        mean = sum(probability for probability, _ in inside) / len(inside)
        share = Proportion.count(is_true for _, is_true in inside)
        gap += abs(mean - share.right / share.of) * len(inside)
        bins.append(
            {"from": place / BINS, "to": (place + 1) / BINS, "mean": round(mean, 4)}
            | share.as_json()
        )
    count = len(pairs)
    squares = sum((probability - is_true) ** 2 for probability, is_true in pairs)
    return {
        "cases": count,
        "ece": round(gap / count, 4) if count else None,
        "brier": round(squares / count, 4) if count else None,
        "bins": bins,
    }


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value that ``share`` of the values do not exceed (nearest rank)."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]
