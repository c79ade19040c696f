"""The exact choice among names: the probability of each, not the likeliest next token.

A choice token by token takes the name whose *beginning* is likeliest. Here every branch is scored
by the product of the probabilities, under the whole vocabulary, of all its tokens up to where it
has parted from the others, and the scores are normalised over the branches: how the model divides
its belief among the names. (What follows in a name that has parted is forced; it decides nothing,
and counting it would only favour short names.)

The prefixes that branches share are scored once, and all that must be known goes through the model
together; where every branch is one token, the logits at hand already say everything. Among very
many branches, those that together cannot change the result are left out: the probability of a
branch can only fall with each further token, so what was scored so far is a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from callmemaybe.decoding.name_choice import Candidate, NameChoice
from callmemaybe.decoding.sampler import Floats, Ids, log_total
from callmemaybe.matching.matcher import Matcher
from callmemaybe.models.base import Session

Doubles = NDArray[np.float64]
#: Probability, of all branches together, that may be left unscored.
NEGLIGIBLE = 1e-9
#: Logits computed in one pass, in bytes: bounds memory, not precision.
PASS_BYTES = 64 << 20


@dataclass(frozen=True)
class Posterior:
    """The distribution over the branches of one choice.

    ``probabilities`` is ``float64[n]`` and sums to 1. ``passes`` is how many extra forward passes
    it took. ``unscored`` bounds the probability of the branches that were left out (they count as
    0); 0.0 when everything was scored.
    """

    branches: tuple[Candidate, ...]
    probabilities: Doubles
    logprobs: Doubles
    passes: int = 0
    unscored: float = 0.0

    @property
    def best(self) -> int:
        """Index of the likeliest branch (the first where several are)."""
        return int(np.argmax(self.probabilities))

    def margin(self, index: int) -> float:
        """Return by how much branch ``index`` is likelier than the likeliest other one."""
        others = np.delete(self.probabilities, index)
        return float(self.probabilities[index] - (others.max() if len(others) else 0.0))

    def without(self, index: int) -> Posterior:
        """Return the distribution given that it is not branch ``index``."""
        logprobs = self.logprobs.copy()
        logprobs[index] = -np.inf
        return Posterior(self.branches, _normalised(logprobs), logprobs, self.passes, self.unscored)


def score_candidates(
    session: Session, logits: Floats, fork: NameChoice, matcher: Matcher, left: int
) -> Posterior:
    """Return the distribution over the branches of ``fork``, where ``matcher`` stands.

    ``logits`` are those after what ``session`` holds. Of a branch of more than ``left`` tokens, for which
    the model may have no room, only so many count: it comes out too likely, never too unlikely.
    """
    if fork.heads:
        return gate_of_heads(logits, fork.heads, matcher.allowed())
    branches = fork.branches
    if any(len(branch.ids) > left for branch in branches):
        branches = tuple(branch._replace(ids=branch.ids[:left]) for branch in branches)
    if fork.is_gate:
        return replace(gate(session, logits, branches[0]), branches=fork.branches)
    return replace(score(session, logits, branches), branches=fork.branches)


def gate(session: Session, logits: Floats, branch: Candidate) -> Posterior:
    """Weigh one branch against everything else; ``logits`` are those after what ``session`` holds.

    The second probability is that of all tokens that do not begin or continue the branch.
    """
    scored = score(session, logits, (branch,))
    call = float(np.exp(scored.logprobs[0]))
    probabilities = np.array([call, max(0.0, 1.0 - call)])
    with np.errstate(divide="ignore"):
        logprobs = np.log(probabilities)
    logprobs[0] = scored.logprobs[0]
    return Posterior((branch, Candidate(None, ())), probabilities, logprobs, scored.passes)


def gate_of_heads(logits: Floats, heads: Sequence[int], allowed: Ids) -> Posterior:
    """Weigh all tokens of ``heads`` together against all others of ``allowed`` (int64 ids).

    The likeliest head stands for them. Tokens that are neither call nor text count for neither.
    """
    some = logits[np.asarray(heads)]
    total = log_total(logits[allowed])
    call = min(1.0, float(np.exp(some.astype(np.float64) - total).sum()))
    best = Candidate(b"", (int(heads[int(np.argmax(some))]),))
    probabilities = np.array([call, 1.0 - call])
    with np.errstate(divide="ignore"):
        logprobs = np.log(probabilities)
    return Posterior((best, Candidate(None, ())), probabilities, logprobs)


def score(
    session: Session,
    logits: Floats,
    branches: Sequence[Candidate],
    *,
    negligible: float = NEGLIGIBLE,
    pass_bytes: int = PASS_BYTES,
) -> Posterior:
    """Return the distribution over ``branches`` (of at least one token each).

    ``logits`` is ``float32[size]`` after what ``session`` holds; the session stays as it is.
    """
    paths = [branch.ids for branch in branches]
    first = np.fromiter((path[0] for path in paths), np.int64, len(paths))
    bounds: Doubles = logits[first].astype(np.float64) - log_total(logits)
    waiting = [index for index, path in enumerate(paths) if len(path) > 1]
    waiting.sort(key=lambda index: -bounds[index])
    is_open = np.zeros(len(paths), bool)
    is_open[waiting] = True
    most = max(1, pass_bytes // (4 * len(logits)))
    passes = 0
    while waiting:
        # In probabilities: what is sure so far, and what the rest could at most add.
        rest = np.exp(bounds[waiting])
        sure = float(np.exp(bounds[~is_open]).sum())
        if rest.sum() <= negligible * sure:
            break
        taken = _fitting([paths[index] for index in waiting], most)
        _refine(session, paths, waiting[:taken], bounds)
        is_open[waiting[:taken]] = False
        del waiting[:taken]
        passes += 1
    unscored = float(np.exp(bounds[waiting]).sum())
    bounds[waiting] = -np.inf
    probabilities = _normalised(bounds)
    total = float(np.exp(bounds).sum()) + unscored
    return Posterior(
        tuple(branches), probabilities, bounds, passes, unscored / total if unscored else 0.0
    )


def _fitting(paths: Sequence[Sequence[int]], most: int) -> int:
    """Return how many of the paths (at least one) go through the model in one pass."""
    tokens = 0
    for count, path in enumerate(paths):
        tokens += len(path) - 1
        if tokens > most and count:
            return count
    return len(paths)


def _refine(
    session: Session,
    paths: Sequence[tuple[int, ...]],
    chosen: Sequence[int],
    scores: Doubles,
) -> None:
    """Add the log-probabilities of all further tokens of the chosen paths to their scores."""
    leaves = _maximal({paths[index][:-1] for index in chosen})
    rows = session.branches(leaves)
    totals: dict[tuple[int, ...], tuple[Floats, float]] = {}
    for leaf, logits in zip(leaves, rows, strict=True):
        for depth in range(1, len(leaf) + 1):
            if leaf[:depth] not in totals:
                row = logits[depth - 1]
                totals[leaf[:depth]] = (row, log_total(row))
    for index in chosen:
        path = paths[index]
        for depth in range(1, len(path)):
            row, total = totals[path[:depth]]
            scores[index] += float(row[path[depth]]) - total


def _maximal(paths: set[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Drop every path that another one begins with."""
    ordered = sorted(paths)
    return [
        path
        for path, following in zip(ordered, [*ordered[1:], ()], strict=True)
        if following[: len(path)] != path
    ]


def _normalised(logprobs: Doubles) -> Doubles:
    top = logprobs.max()
    if not np.isfinite(top):
        # Nothing has any probability: no branch is better than another.
        return np.full(len(logprobs), 1.0 / len(logprobs))
    weights = np.exp(logprobs - top)
    return np.asarray(weights / weights.sum())
