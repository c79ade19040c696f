"""Probabilities under the model, without the mask: of names, and of whole outputs.

**Names.** A choice token by token takes the name whose *beginning* is likeliest. Here each candidate is
scored by the product of the probabilities, under the whole vocabulary, of all its tokens up to the
first that no other candidate has there, and the scores are normalised over the candidates: how the
model divides its belief among the names. (The rest of a name is forced; it decides nothing, and counting
it would only favour short names.) Prefixes that candidates share are scored once, and all that must be
known goes through the model together; where every candidate is one token, the logits at hand suffice.
Among very many candidates, those that together cannot change the result are left out: the probability
of a candidate can only fall with each further token, so its score so far is an upper bound.

**Outputs.** The probability of an output is the product of that of its tokens among everything the
model could have written, forced tokens included: it compares outputs however they were found.
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
#: Probability, of all candidates together, that may be left unscored.
NEGLIGIBLE = 1e-9
#: Logits computed in one pass, in bytes: limits memory, not precision.
PASS_BYTES = 64 << 20


@dataclass(frozen=True)
class Posterior:
    """The probability distribution over the candidates of one choice.

    ``probabilities`` is ``float64[n]`` and sums to 1. ``passes`` is how many extra forward passes
    it took. ``unscored`` bounds the probability of the candidates that were left out (they count as
    0); 0.0 when everything was scored.
    """

    candidates: tuple[Candidate, ...]
    probabilities: Doubles
    logprobs: Doubles
    passes: int = 0
    unscored: float = 0.0

    @property
    def best(self) -> int:
        """Index of the likeliest candidate (the first where several are)."""
        return int(np.argmax(self.probabilities))

    def margin(self, index: int) -> float:
        """Return by how much candidate ``index`` is likelier than the likeliest other one."""
        others = np.delete(self.probabilities, index)
        return float(self.probabilities[index] - (others.max() if len(others) else 0.0))

    def without(self, index: int) -> Posterior:
        """Return the distribution given that it is not candidate ``index``."""
        logprobs = self.logprobs.copy()
        logprobs[index] = -np.inf
        return Posterior(
            self.candidates, _normalised(logprobs), logprobs, self.passes, self.unscored
        )


def score_candidates(
    session: Session, logits: Floats, choice: NameChoice, matcher: Matcher, left: int
) -> Posterior:
    """Return the distribution over the candidates of ``choice``, at the state of ``matcher``.

    ``logits`` are those after what ``session`` holds. Of a candidate of more than ``left`` tokens, for
    which the model may have no room, only so many count: its probability may come out too large.
    """
    if choice.openings:
        return score_call_by_openings(logits, choice.openings, matcher.allowed())
    candidates = choice.candidates
    if any(len(candidate.ids) > left for candidate in candidates):
        candidates = tuple(candidate._replace(ids=candidate.ids[:left]) for candidate in candidates)
    if choice.decides_call:
        return replace(score_call(session, logits, candidates[0]), candidates=choice.candidates)
    return replace(score_names(session, logits, candidates), candidates=choice.candidates)


def score_call(session: Session, logits: Floats, candidate: Candidate) -> Posterior:
    """Score one candidate against everything else; ``logits`` are those after what ``session`` holds.

    The second probability is that of all tokens that do not begin or continue the candidate.
    """
    scored = score_names(session, logits, (candidate,))
    call = float(np.exp(scored.logprobs[0]))
    probabilities = np.array([call, max(0.0, 1.0 - call)])
    with np.errstate(divide="ignore"):
        logprobs = np.log(probabilities)
    logprobs[0] = scored.logprobs[0]
    return Posterior((candidate, Candidate(None, ())), probabilities, logprobs, scored.passes)


def score_call_by_openings(logits: Floats, openings: Sequence[int], allowed: Ids) -> Posterior:
    """Score all tokens of ``openings`` together against all others of ``allowed`` (int64 ids).

    The likeliest opening represents them. Tokens that are not allowed count for neither.
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
    candidates: Sequence[Candidate],
    *,
    negligible: float = NEGLIGIBLE,
    pass_bytes: int = PASS_BYTES,
) -> Posterior:
    """Return the distribution over ``candidates`` (of at least one token each).

    ``logits`` is ``float32[size]`` after what ``session`` holds; the session is left unchanged.
    """
    paths = [candidate.ids for candidate in candidates]
    first = np.fromiter((path[0] for path in paths), np.int64, len(paths))
    bounds: Doubles = logits[first].astype(np.float64) - logsumexp(logits)
    waiting = [index for index, path in enumerate(paths) if len(path) > 1]
    waiting.sort(key=lambda index: -bounds[index])
    is_open = np.zeros(len(paths), bool)
    is_open[waiting] = True
    most = max(1, pass_bytes // (4 * len(logits)))
    passes = 0
    while waiting:
        # In probabilities: what is scored so far, and what the rest could at most add.
        rest = np.exp(bounds[waiting])
        scored = float(np.exp(bounds[~is_open]).sum())
        if rest.sum() <= negligible * scored:
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
        tuple(candidates), probabilities, bounds, passes, unscored / total if unscored else 0.0
    )


def _fitting(paths: Sequence[Sequence[int]], most: int) -> int:
    """Return how many of the paths (at least one) fit into one pass."""
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
    """Return the paths that no other path begins with."""
    ordered = sorted(paths)
    return [
        path
        for path, following in zip(ordered, [*ordered[1:], ()], strict=True)
        if following[: len(path)] != path
    ]


def _normalised(logprobs: Doubles) -> Doubles:
    top = logprobs.max()
    if not np.isfinite(top):
        # Nothing has any probability: no candidate is better than another.
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
    """Return the log-probability of each member of a JSON object that an output contains.

    ``lengths`` are the numbers of symbols of the scored tokens. ``places`` has, for each byte of the
    object ``text``, the symbol of the output that made it certain: the output may use another syntax.
    A token counts for a value if it holds any part of it, or what closes it (a quote, a tag); commas and
    keys count for none.
    """
    ends = np.cumsum(lengths)
    begins = ends - lengths
    found = {}
    for key, low, high in _members(text):
        # All that follows the key is the value: a syntax may have no byte for an opening quote.
        inside = (begins <= places[high - 1]) & (ends > places[low - 1] + 1)
        found[key] = float(scores[inside].sum())
    return found


def _members(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each member of a JSON object: its key, and the start and end of its value, in bytes."""
    decoder = json.JSONDecoder(parse_float=str, parse_int=str)
    at = _skip_space(text, 1)
    while text[at] != "}":
        key, at = decoder.raw_decode(text, at)
        low = _skip_space(text, _skip_space(text, at) + 1)
        _, high = decoder.raw_decode(text, low)
        yield key, len(text[:low].encode()), len(text[:high].encode())
        at = _skip_space(text, high)
        if text[at] == ",":
            at = _skip_space(text, at + 1)


def _skip_space(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at
