"""Beam search over a language: the likeliest whole answers, not the likeliest next token.

Each hypothesis is a session and a matcher. What the language forces is not searched but scored, so
hypotheses compete with the probability of everything they have written (of what they have chosen, for a
model whose training graded nothing else). A finished answer is the best as soon as no unfinished one is
likelier: more tokens can only make it less so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from callmemaybe.decoding.decoder import Effort, check_budget
from callmemaybe.decoding.sampler import Floats, log_total
from callmemaybe.matching.matcher import Matcher
from callmemaybe.models.base import Session


@dataclass
class Hypothesis:
    """An answer so far, with its log-probability but for what is still to be fed (``pending``).

    ``row`` are the logits behind everything fed.
    """

    session: Session
    matcher: Matcher
    row: Floats
    logprob: float = 0.0
    pending: list[int] = field(default_factory=list)
    #: Places among the matcher's ids that the language forced.
    forced: tuple[int, ...] = ()


def search(
    session: Session,
    matcher: Matcher,
    prompt: Sequence[int],
    *,
    width: int,
    max_tokens: int,
    certain: bool = False,
    effort: Effort | None = None,
) -> list[Hypothesis]:
    """Return the finished answers, likeliest first; at least one.

    ``session`` has not seen ``prompt`` (at least one id) yet. With a ``width`` of at least the number
    of sentences this is exhaustive. ``certain``: forced tokens count as certain. Raises BudgetError if no
    answer fits into ``max_tokens``.
    """
    check_budget(matcher.remaining, max_tokens)
    effort = effort or Effort()
    row = session.feed(prompt, keep=1)[0]
    effort.passes, effort.fed = effort.passes + 1, effort.fed + len(prompt)
    live, finished = [Hypothesis(session, matcher, row)], list[Hypothesis]()
    while live:
        going: list[Hypothesis] = []
        for one in live:
            _advance(one, max_tokens, certain, effort)
            (finished if one.matcher.is_terminated else going).append(one)
        live = _expand(going, width, max_tokens)
        finished.sort(key=lambda one: -one.logprob)
        if finished and len(finished) >= width:
            live = [one for one in live if one.logprob > finished[width - 1].logprob]
    return finished


def _advance(one: Hypothesis, max_tokens: int, certain: bool, effort: Effort) -> None:
    """Take what is forced, and feed and score everything that is pending."""
    while ids := one.matcher.forced():
        left = max_tokens - len(one.matcher.ids)
        taken = one.matcher.try_accept(ids)
        if taken < len(ids) or not one.matcher.fits(left - len(ids)):
            one.matcher.rollback(taken)
            break
        one.pending += ids
        held = len(one.matcher.ids)
        one.forced += tuple(range(held - len(ids), held))
    if not one.pending:
        return
    # The last token of a finished answer is scored by the row before it.
    fed = one.pending[:-1] if one.matcher.is_terminated else one.pending
    rows = [one.row]
    if fed:
        rows += list(one.session.feed(fed, keep=len(fed)))
        effort.passes, effort.fed = effort.passes + 1, effort.fed + len(fed)
    first = len(one.matcher.ids) - len(one.pending)
    for place, (index, row) in enumerate(zip(one.pending, rows, strict=False), first):
        if not (certain and place in one.forced):
            one.logprob += float(row[index]) - log_total(row)
    one.row, one.pending = rows[-1], []


def _expand(live: Sequence[Hypothesis], width: int, max_tokens: int) -> list[Hypothesis]:
    """Return the best ways to go on by one token, over all hypotheses."""
    found: list[tuple[float, int, int]] = []
    for place, one in enumerate(live):
        allowed = one.matcher.choices(max_tokens - len(one.matcher.ids)).to_ids()
        scores = one.row[allowed].astype(np.float64) - log_total(one.row) + one.logprob
        best = np.argsort(-scores, kind="stable")[:width]
        found += [(-float(scores[at]), place, int(allowed[at])) for at in best]
    chosen = sorted(found)[:width]
    last = {place: at for at, (_, place, _) in enumerate(chosen)}
    grown = []
    for at, (_, place, index) in enumerate(chosen):
        parent = live[place]
        # The last of a hypothesis' ways on takes over its session; the others copy.
        session = parent.session if last[place] == at else parent.session.fork()
        matcher = parent.matcher.fork()
        matcher.accept(index)
        grown.append(
            Hypothesis(session, matcher, parent.row, parent.logprob, [index], parent.forced)
        )
    return grown
