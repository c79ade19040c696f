"""Choose one id among the allowed ones: the likeliest, or at random.

Everything works on the logits of the allowed ids alone, so probabilities are the model's, given that
all other ids are impossible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from callmemaybe.errors import InputError, ModelError

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sampler:
    """How to choose; temperature 0 takes the likeliest (of equals, the lowest id).

    ``top_k`` (0: all) keeps the k likeliest, ``top_p`` the fewest that together have that
    probability, ``min_p`` those at least that fraction as likely as the likeliest. ``generator``
    is needed for a temperature above 0; two samplers with equal seeds choose alike.
    Raises InputError for values out of range.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    generator: np.random.Generator | None = None

    def __post_init__(self) -> None:
        _within("temperature", self.temperature, 0.0, float("inf"))
        _within("top_p", self.top_p, 0.0, 1.0)
        _within("min_p", self.min_p, 0.0, 1.0)
        if self.top_k < 0:
            raise InputError("it must be at least 0", where="top_k", hint="0 keeps all")
        if self.temperature > 0 and self.generator is None:
            raise InputError("sampling at random needs a generator", where="temperature")

    @property
    def is_greedy(self) -> bool:
        """Whether nothing is random."""
        return self.temperature == 0.0

    def choose(self, logits: Floats) -> int:
        """Return the index of the chosen among these (at least one); they must be finite or -inf.

        Raises ModelError if one of them is not, or none has any probability.
        """
        best = int(np.argmax(logits))
        check_logits(float(logits[best]), logits)
        if self.is_greedy or len(logits) == 1:
            return best
        assert self.generator is not None
        weights = self._weights(logits)
        ends = np.cumsum(weights)
        return int(np.searchsorted(ends, self.generator.random() * ends[-1], side="right"))

    def _weights(self, logits: Floats) -> NDArray[np.float64]:
        """Return unnormalised probabilities; 0 for what the limits exclude."""
        scaled = logits.astype(np.float64)
        with np.errstate(over="ignore"):  # at 1e-308 all but the likeliest get probability 0
            scaled = (scaled - scaled.max()) / self.temperature
        weights: NDArray[np.float64] = np.exp(scaled)
        if self.min_p:
            weights[weights < self.min_p] = 0.0
        if self.top_k and self.top_k < len(weights):
            weights[np.argsort(-weights, kind="stable")[self.top_k :]] = 0.0
        if self.top_p < 1.0:
            order = np.argsort(-weights, kind="stable")
            before = np.cumsum(weights[order]) - weights[order]
            excluded = order[before > self.top_p * weights.sum()]
            weights[excluded] = 0.0
        return weights


def check_logits(best: float, logits: Floats) -> None:
    """Raise ModelError unless the largest of some logits is finite, so that all are usable.

    NaN is the maximum of anything that contains it, so checking the largest checks them all.
    """
    if np.isfinite(best):
        return
    if np.isnan(best) or best > 0:
        count = int(np.count_nonzero(~np.isfinite(logits) & ~np.isneginf(logits)))
        raise ModelError(
            f"{count} of the {len(logits)} allowed logits are NaN or infinite; the model's files "
            "are damaged, or its precision is too low for this machine"
        )
    raise ModelError(f"the model gives no probability to any of the {len(logits)} allowed tokens")


def logsumexp(logits: Floats) -> float:
    """Return log(sum(exp(logits))): subtract it from a logit for its log-probability."""
    top = float(logits.max())
    if not np.isfinite(top):
        check_logits(top, logits)
    return top + float(np.log(np.exp(logits - np.float32(top)).sum(dtype=np.float64)))


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InputError(f"{value} is out of range", where=name, hint=f"from {low:g} to {high:g}")
