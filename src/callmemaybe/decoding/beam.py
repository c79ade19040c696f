"""Beam search over a language: the likeliest whole outputs, not the likeliest next token.

Each hypothesis is a session and a matcher. Forced tokens are not searched but scored, so hypotheses
compete with the probability of everything they contain (or of the chosen tokens only, for a model whose
training had no loss on forced ones). A finished output is the best as soon as no unfinished one is
likelier: more tokens can only make it less likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from callmemaybe.decoding.decoder import DecodeStats, check_budget
from callmemaybe.decoding.name_choice import NameChoices
from callmemaybe.decoding.sampler import Floats, logsumexp
from callmemaybe.decoding.scoring import score_candidates
from callmemaybe.matching.matcher import Matcher
from callmemaybe.models.base import Session


@dataclass
class Hypothesis:
    """An unfinished output, its log-probability without the ids still to be fed (``pending``).

    ``row`` are the logits after everything fed.
    """

    session: Session
    matcher: Matcher
    row: Floats
    logprob: float = 0.0
    pending: list[int] = field(default_factory=list)
    #: Indices among the matcher's ids that the language forced.
    forced: tuple[int, ...] = ()
    #: The next id is one of these; empty: any that is allowed.
    openings: tuple[int, ...] = ()
    #: Log-probability of all free texts together, where the output stops in front of one.
    no_call_logprob: float | None = None


def search(
    session: Session,
    matcher: Matcher,
    prompt: Sequence[int],
    *,
    width: int,
    max_tokens: int,
    choices: NameChoices | None = None,
    forced_are_certain: bool = False,
    stats: DecodeStats | None = None,
) -> list[Hypothesis]:
    """Return the finished outputs, likeliest first; at least one.

    ``session`` has not seen ``prompt`` (at least one id) yet. With a ``width`` of at least the number
    of sentences this is exhaustive. With ``choices``, it is decided first whether to call or to write
    free text, as the decoder does; such a text is not written. With ``forced_are_certain``, forced tokens
    get probability 1. Raises BudgetError if no output fits into ``max_tokens``.
    """
    check_budget(matcher.remaining, max_tokens)
    stats = stats or DecodeStats()
    row = session.feed(prompt, keep=1)[0]
    stats.passes, stats.fed = stats.passes + 1, stats.fed + len(prompt)
    live, finished = [Hypothesis(session, matcher, row)], list[Hypothesis]()
    if choices is not None:
        _advance(live[0], max_tokens, forced_are_certain, stats)
        _decide(live[0], choices, max_tokens, stats)
        if live[0].no_call_logprob is not None:
            return live
    while live:
        going: list[Hypothesis] = []
        for one in live:
            _advance(one, max_tokens, forced_are_certain, stats)
            (finished if one.matcher.is_terminated else going).append(one)
        live = _expand(going, width, max_tokens)
        finished.sort(key=lambda one: -one.logprob)
        if finished and len(finished) >= width:
            live = [one for one in live if one.logprob > finished[width - 1].logprob]
    return finished


def _decide(one: Hypothesis, choices: NameChoices, max_tokens: int, stats: DecodeStats) -> None:
    """Where free text may stand in place of a call, take the likelier: all texts together, or a call."""
    matcher = one.matcher
    choice = None if matcher.is_terminated else choices.at(matcher.state, matcher.symbols)
    if choice is None or not (choice.decides_call or choice.addresses_text):
        return
    left = max_tokens - len(matcher.ids)
    found = score_candidates(one.session, one.row, choice, matcher, left)
    stats.passes += found.passes
    text = next(at for at, each in enumerate(choice.candidates) if each.name is None)
    calls = np.isin(matcher.allowed(left), choice.first_ids)
    wants_text = found.best == text and not calls.all()
    has_openings = bool(choice.openings) or choice.addresses_text
    if wants_text or not (
        calls.any() if has_openings else _take(one, choice.candidates[0].ids, max_tokens)
    ):
        one.no_call_logprob = float(found.logprobs[text])
    elif has_openings:
        one.openings = choice.first_ids


def _take(one: Hypothesis, ids: Sequence[int], max_tokens: int) -> bool:
    """Accept ids to be fed; False, and none is accepted, where language or budget forbid them."""
    taken = one.matcher.try_accept(ids)
    if taken < len(ids) or not one.matcher.fits(max_tokens - len(one.matcher.ids)):
        one.matcher.rollback(taken)
        return False
    one.pending += ids
    return True


def _advance(
    one: Hypothesis, max_tokens: int, forced_are_certain: bool, stats: DecodeStats
) -> None:
    """Accept what is forced, and feed and score everything that is pending."""
    while (ids := one.matcher.forced()) and _take(one, ids, max_tokens):
        count = len(one.matcher.ids)
        one.forced += tuple(range(count - len(ids), count))
    if not one.pending:
        return
    # The last token of a finished answer is scored by the row before it.
    fed = one.pending[:-1] if one.matcher.is_terminated else one.pending
    rows = [one.row]
    if fed:
        rows += list(one.session.feed(fed, keep=len(fed)))
        stats.passes, stats.fed = stats.passes + 1, stats.fed + len(fed)
    first = len(one.matcher.ids) - len(one.pending)
    for place, (index, row) in enumerate(zip(one.pending, rows, strict=False), first):
        if not (forced_are_certain and place in one.forced):
            one.logprob += float(row[index]) - logsumexp(row)
    one.row, one.pending = rows[-1], []


def _expand(live: Sequence[Hypothesis], width: int, max_tokens: int) -> list[Hypothesis]:
    """Return the best hypotheses that are longer by one token."""
    found: list[tuple[float, int, int]] = []
    for place, one in enumerate(live):
        allowed = one.matcher.allowed(max_tokens - len(one.matcher.ids))
        if one.openings:
            allowed = allowed[np.isin(allowed, one.openings)]
        scores = one.row[allowed].astype(np.float64) - logsumexp(one.row) + one.logprob
        best = np.argsort(-scores, kind="stable")[:width]
        found += [(-float(scores[at]), place, int(allowed[at])) for at in best]
    chosen = sorted(found)[:width]
    last = {place: at for at, (_, place, _) in enumerate(chosen)}
    grown = []
    for at, (_, place, index) in enumerate(chosen):
        parent = live[place]
        # The last continuation of a hypothesis takes over its session; the others choice it.
        session = parent.session if last[place] == at else parent.session.fork()
        matcher = parent.matcher.fork()
        matcher.accept(index)
        grown.append(
            Hypothesis(session, matcher, parent.row, parent.logprob, [index], parent.forced)
        )
    return grown
