"""One answer to one request, by whatever strategy: decoded, drawn several times, or searched for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from callmemaybe.decoding.beam import search
from callmemaybe.decoding.decoder import Decoder, DecodeStats, Step
from callmemaybe.decoding.name_choice import NameChoices, Symbol
from callmemaybe.decoding.prompt_lookup import PromptLookupDrafter
from callmemaybe.decoding.sampler import Sampler
from callmemaybe.decoding.scoring import Posterior, logprobs
from callmemaybe.errors import InputError
from callmemaybe.matching.matcher import Matcher
from callmemaybe.models.base import Session

OnStep = Callable[[Step], None] | None
#: Whether a candidate counts, where there are several.
CandidateCheck = Callable[["DecodeResult"], bool] | None
#: Hypotheses of a beam: each has a cache of its own, and a thousand are enough to search anything.
_WIDEST = 1_000


@dataclass(frozen=True)
class DecodingStrategy:
    """How answers are found; see ``Caller`` for what each setting means.

    Raises InputError for settings that contradict each other.
    """

    choose: Literal["exact", "greedy"] = "exact"
    forcing: bool = True
    speculate: bool = True
    logprobs: bool = False
    best_of: int = 1
    beam: int = 1
    trace: bool = False
    #: Whether forced tokens count as certain: the model's training graded none, so it cannot tell.
    forced_are_certain: bool = False
    clock: Callable[[], float] = lambda: 0.0

    def __post_init__(self) -> None:
        if min(self.best_of, self.beam) < 1:
            raise InputError("it must be at least 1", where="best_of, beam")
        if self.beam > _WIDEST:
            raise InputError(f"it is at most {_WIDEST:,}", where="beam")
        if self.best_of > 1 and self.beam > 1:
            raise InputError("either draw several answers or search", where="best_of, beam")

    @property
    def scores_answers(self) -> bool:
        """Whether the probability of whole answers is worked out."""
        return self.logprobs or self.best_of > 1

    @property
    def scores_names(self) -> bool:
        """Whether the probabilities of all names become known."""
        return self.choose == "exact" and self.beam == 1


@dataclass(eq=False)
class DecodeResult:
    """An answer: where the matcher stands, what it says, what it took, how probable it is."""

    matcher: Matcher
    symbols: Sequence[Symbol]
    is_complete: bool
    stats: DecodeStats
    decisions: Sequence[tuple[Posterior, int]] = ()
    #: Every step, if they were to be watched.
    steps: Sequence[Step] = ()
    #: log P of each id of the matcher, in nats; empty where that was not asked for.
    logprobs: Sequence[float] = field(default=())
    #: Places among the matcher's ids that the language forced.
    forced: Sequence[int] = ()
    #: log P of all texts together where the answer was left off in front of a text that calls nothing.
    no_call_logprob: float = 0.0

    @property
    def logprob(self) -> float:
        """Log P of the whole answer, in nats, where that was asked for."""
        return sum(self.logprobs) + self.no_call_logprob

    @property
    def rank(self) -> tuple[bool, float]:
        """Of several answers the one with the lowest rank is the most probable.

        Whether to call at all comes first, and is decided where a single answer decides it: a whole call
        cannot be compared with what calls nothing, be that any text or one mark.
        """
        return any(_is_unlikely(*one) for one in self.decisions), -self.logprob


def _is_unlikely(found: Posterior, index: int) -> bool:
    """Whether a choice of names calls where calling nothing is likelier, or the other way round."""
    return (found.candidates[index].name is None) is not (found.candidates[found.best].name is None)


@dataclass(frozen=True)
class DecodeRequest:
    """What is asked: the ids behind the shared prefix, the text they say, the budget of an answer."""

    ids: Sequence[int]
    text: str
    max_tokens: int


def decode(
    session: Session,
    matcher: Matcher,
    choices: NameChoices,
    strategy: DecodingStrategy,
    sampler: Sampler,
    request: DecodeRequest,
    on_step: OnStep = None,
    is_valid: CandidateCheck = None,
) -> DecodeResult:
    """Return the answer to ``request``; ``session`` holds the shared prefix and stays as it is.

    ``on_step`` sees the steps of every answer that is drawn, but none of a search. Of several candidates
    those that ``is_valid`` is not true of come last.
    """
    tries = []
    for _ in range(strategy.best_of):
        fork = session.fork()
        if strategy.beam > 1:
            found, used = _searched(fork, matcher.fork(), choices, strategy, request, is_valid)
        else:
            found, used = _decoded(
                fork, matcher.fork(), choices, strategy, sampler, request, on_step
            )
        if strategy.scores_answers:
            start = strategy.clock()
            _back_to_prompt(used, session.length, request.ids)
            scores = logprobs(used, request.ids[-1], found.matcher.ids)
            if strategy.forced_are_certain:
                scores[list(found.forced)] = 0.0
            found.logprobs = scores.tolist()
            found.stats.seconds += strategy.clock() - start
            found.stats.passes += 1
        tries.append(found)
    tries.sort(key=lambda one: one.rank)
    best = _first(tries, is_valid)
    best.stats = DecodeStats(
        passes=sum(one.stats.passes for one in tries),
        fed=sum(one.stats.fed for one in tries),
        seconds=sum(one.stats.seconds for one in tries),
        drafted=sum(one.stats.drafted for one in tries),
    )
    return best


def _back_to_prompt(session: Session, shared: int, ids: Sequence[int]) -> None:
    """Let a session hold the ``shared`` ids it began with and ``ids``, whatever was written behind them.

    An answer that is forced from its first token on asks the model nothing, so its prompt was never fed.
    """
    behind = session.length - shared - len(ids)
    if behind < 0:
        session.feed(ids[behind:], keep=0)
    else:
        session.rewind(behind)


def _decoded(
    session: Session,
    matcher: Matcher,
    choices: NameChoices,
    strategy: DecodingStrategy,
    sampler: Sampler,
    request: DecodeRequest,
    on_step: OnStep,
) -> tuple[DecodeResult, Session]:
    decoder = Decoder(
        session=session,
        matcher=matcher,
        sampler=sampler,
        prompt=request.ids,
        max_tokens=request.max_tokens,
        choose=strategy.choose,
        choices=choices,
        forcing=strategy.forcing,
        drafter=PromptLookupDrafter(request.text) if strategy.speculate else None,
        answers=False,
        trace=strategy.trace,
        clock=strategy.clock,
    )
    steps: list[Step] = []
    forced: list[int] = []
    written = 0
    for step in decoder.steps():
        if strategy.trace:  # each holds a copy of all that is written
            steps.append(step)
        if step.kind == "forced":
            forced += range(written, written + len(step.ids))
        written += len(step.ids)
        if on_step is not None:
            on_step(step)
    no_call_logprob = 0.0
    if not decoder.is_complete:
        gate, index = decoder.decisions[-1]
        no_call_logprob = float(gate.logprobs[index])
    found = DecodeResult(
        matcher, decoder.symbols, decoder.is_complete, decoder.stats, decoder.decisions, steps,
        forced=forced, no_call_logprob=no_call_logprob,
    )  # fmt: skip
    return found, session


def _searched(
    session: Session,
    matcher: Matcher,
    choices: NameChoices,
    strategy: DecodingStrategy,
    request: DecodeRequest,
    is_valid: CandidateCheck,
) -> tuple[DecodeResult, Session]:
    stats = DecodeStats()
    start = strategy.clock()
    finished = search(
        session,
        matcher,
        request.ids,
        width=strategy.beam,
        max_tokens=request.max_tokens,
        choices=choices,
        forced_are_certain=strategy.forced_are_certain,
        stats=stats,
    )
    stats.seconds = strategy.clock() - start
    candidates = {
        DecodeResult(
            one.matcher, one.matcher.symbols, one.no_call_logprob is None, stats, forced=one.forced,
            no_call_logprob=one.no_call_logprob or 0.0,
        ): one.session
        for one in finished
    }  # fmt: skip
    best = _first([*candidates], is_valid)
    return best, candidates[best]


def _first(candidates: Sequence[DecodeResult], is_valid: CandidateCheck) -> DecodeResult:
    """Return the first candidate that counts; where none does, the first."""
    if is_valid is None or len(candidates) == 1:
        return candidates[0]
    return next(filter(is_valid, candidates), candidates[0])
