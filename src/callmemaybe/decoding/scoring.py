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

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from callmemaybe.decoding.name_choice import Candidate, NameChoice
from callmemaybe.decoding.sampler import Floats, Ids, logsumexp
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

    candidates: tuple[Candidate, ...]
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
        return Posterior(
            self.candidates, _normalised(logprobs), logprobs, self.passes, self.unscored
        )


def score_candidates(
    session: Session, logits: Floats, fork: NameChoice, matcher: Matcher, left: int
) -> Posterior:
    """Return the distribution over the branches of ``fork``, where ``matcher`` stands.

    ``logits`` are those after what ``session`` holds. Of a branch of more than ``left`` tokens, for which
    the model may have no room, only so many count: it comes out too likely, never too unlikely.
    """
    if fork.openings:
        return score_call_by_openings(logits, fork.openings, matcher.allowed())
    branches = fork.candidates
    if any(len(branch.ids) > left for branch in branches):
        branches = tuple(branch._replace(ids=branch.ids[:left]) for branch in branches)
    if fork.decides_call:
        return replace(score_call(session, logits, branches[0]), candidates=fork.candidates)
    return replace(score_names(session, logits, branches), candidates=fork.candidates)


def score_call(session: Session, logits: Floats, branch: Candidate) -> Posterior:
    """Weigh one branch against everything else; ``logits`` are those after what ``session`` holds.

    The second probability is that of all tokens that do not begin or continue the branch.
    """
    scored = score_names(session, logits, (branch,))
    call = float(np.exp(scored.logprobs[0]))
    probabilities = np.array([call, max(0.0, 1.0 - call)])
    with np.errstate(divide="ignore"):
        logprobs = np.log(probabilities)
    logprobs[0] = scored.logprobs[0]
    return Posterior((branch, Candidate(None, ())), probabilities, logprobs, scored.passes)


def score_call_by_openings(logits: Floats, openings: Sequence[int], allowed: Ids) -> Posterior:
    """Weigh all tokens of ``openings`` together against all others of ``allowed`` (int64 ids).

    The likeliest head stands for them. Tokens that are neither call nor text count for neither.
    """
    some = logits[np.asarray(openings)]
    total = logsumexp(logits[allowed])
    call = min(1.0, float(np.exp(some.astype(np.float64) - total).sum()))
    best = Candidate(b"", (int(openings[int(np.argmax(some))]),))
    probabilities = np.array([call, 1.0 - call])
    with np.errstate(divide="ignore"):
        logprobs = np.log(probabilities)
    return Posterior((best, Candidate(None, ())), probabilities, logprobs)


def score_names(
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
    bounds: Doubles = logits[first].astype(np.float64) - logsumexp(logits)
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
                totals[leaf[:depth]] = (row, logsumexp(row))
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


def logprobs(session: Session, before: int, ids: Sequence[int]) -> NDArray[np.float64]:
    """Return ``float64[len(ids)]``: log P(id | all before it), in nats.

    ``session`` holds the prompt, whose last id is ``before``, and nothing else; it is left in the
    same state. One pass, more only where the logits would take too much memory.
    """
    found = np.zeros(len(ids), np.float64)
    fed = [before, *ids[:-1]]
    session.rewind(1)
    step = max(1, PASS_BYTES // (4 * session.size))
    for start in range(0, len(ids), step):
        part = fed[start : start + step]
        rows = session.feed(part, keep=len(part))
        for at, row in enumerate(rows, start):
            found[at] = float(row[ids[at]]) - logsumexp(row)
    session.rewind(max(0, len(ids) - 1))
    if not ids:
        session.feed([before], keep=0)
    return found


def logprob_by_member(
    scores: NDArray[np.float64], lengths: Sequence[int], places: Sequence[int], text: str
) -> dict[str, float]:
    """Return the log-probability of each member of a JSON object that an answer says.

    ``lengths`` are how many symbols each scored token has. ``places`` are the symbols behind which each
    byte of the object, ``text``, was certain: the answer may say it in another notation. A token that
    spells a value in part counts for it, as does what closes a text (a quote, a tag); commas and keys
    count for none.
    """
    ends = np.cumsum(lengths)
    begins = ends - lengths
    found = {}
    for key, low, high in _members(text):
        # Whatever stands behind the key is the value: a notation may have no byte for an opening quote.
        inside = (begins <= places[high - 1]) & (ends > places[low - 1] + 1)
        found[key] = float(scores[inside].sum())
    return found


def _members(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each member of a JSON object: its key, and where its value stands, in bytes."""
    decoder = json.JSONDecoder(parse_float=str, parse_int=str)
    at = _next(text, 1)
    while text[at] != "}":
        key, at = decoder.raw_decode(text, at)
        low = _next(text, _next(text, at) + 1)
        _, high = decoder.raw_decode(text, low)
        yield key, len(text[:low].encode()), len(text[:high].encode())
        at = _next(text, high)
        if text[at] == ",":
            at = _next(text, at + 1)


def _next(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at
