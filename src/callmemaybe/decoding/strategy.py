"""One output for one request by any strategy: decoded once, drawn several times, or by beam search."""

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
#: Whether an output is acceptable, where there are several to choose from.
CandidateCheck = Callable[["DecodeResult"], bool] | None
#: The most hypotheses of a beam; each has a key-value cache of its own.
MAX_BEAM = 1_000


@dataclass(frozen=True)
class DecodingStrategy:
    """How outputs are found; see ``Caller`` for what each setting means.

    Raises InputError for settings that contradict each other.
    """

    choose: Literal["exact", "greedy"] = "exact"
    forcing: bool = True
    speculate: bool = True
    logprobs: bool = False
    best_of: int = 1
    beam: int = 1
    trace: bool = False
    #: Whether forced tokens get probability 1, for a model whose training had no loss on them.
    forced_are_certain: bool = False
    #: Whether the log-probability of each token that the model chose is kept.
    keeps_choices: bool = False
    clock: Callable[[], float] = lambda: 0.0

    def __post_init__(self) -> None:
        if min(self.best_of, self.beam) < 1:
            raise InputError("it must be at least 1", where="best_of, beam")
        if self.beam > MAX_BEAM:
            raise InputError(f"it is at most {MAX_BEAM:,}", where="beam")
        if self.best_of > 1 and self.beam > 1:
            raise InputError("either draw several answers or search", where="best_of, beam")

    @property
    def scores_answers(self) -> bool:
        """Whether the probability of whole outputs is computed."""
        return self.logprobs or self.best_of > 1

    @property
    def scores_names(self) -> bool:
        """Whether the probabilities of all names are computed."""
        return self.choose == "exact" and self.beam == 1


@dataclass(eq=False)
class DecodeResult:
    """An output: its matcher and symbols, what decoding took, how probable it is."""

    matcher: Matcher
    symbols: Sequence[Symbol]
    is_complete: bool
    stats: DecodeStats
    decisions: Sequence[tuple[Posterior, int]] = ()
    #: Every step, if traced.
    steps: Sequence[Step] = ()
    #: Log-probability of each id of the matcher, in nats; empty unless the strategy scores outputs.
    logprobs: Sequence[float] = field(default=())
    #: Indices among the matcher's ids that the language forced.
    forced: Sequence[int] = ()
    #: As :attr:`Decoder.choice_logprobs`, if they were kept.
    choice_logprobs: Sequence[float] | None = None
    #: Log-probability of all free texts together, where the output stops in front of one.
    no_call_logprob: float = 0.0

    @property
    def logprob(self) -> float:
        """Log-probability of the whole output, in nats, if the strategy scores outputs."""
        return sum(self.logprobs) + self.no_call_logprob

    @property
    def rank(self) -> tuple[bool, float]:
        """Sort key: of several outputs the one with the lowest rank is the most probable.

        Whether to call at all comes first, decided as a single output decides it: the probability of a
        whole call cannot be compared with that of calling nothing, be that any text or one token.
        """
        return any(_is_unlikely(*one) for one in self.decisions), -self.logprob


def _is_unlikely(found: Posterior, index: int) -> bool:
    """Whether a choice took a call where calling nothing is likelier, or the other way round."""
    return (found.candidates[index].name is None) is not (found.candidates[found.best].name is None)


@dataclass(frozen=True)
class DecodeRequest:
    """A request: the ids that follow the shared prefix, their text, and the most tokens of an output."""

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
    """Return the output for ``request``; ``session`` holds the shared prefix and is left unchanged.

    ``on_step`` is called with the steps of every output that is drawn, and with none of a beam search.
    Of several outputs, those for which ``is_valid`` is false come last.
    """
    tries = []
    for _ in range(strategy.best_of):
        fork = session.fork()
        if strategy.beam > 1:
            found, used = _search_beam(fork, matcher.fork(), choices, strategy, request, is_valid)
        else:
            found, used = _draw(fork, matcher.fork(), choices, strategy, sampler, request, on_step)
        if strategy.scores_answers:
            start = strategy.clock()
            _rewind_to_prompt(used, session.length, request.ids)
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


def _rewind_to_prompt(session: Session, shared: int, ids: Sequence[int]) -> None:
    """Let a session hold the ``shared`` ids it began with and ``ids``, and nothing after them.

    For an output that is forced from its first token on, the prompt was never fed.
    """
    behind = session.length - shared - len(ids)
    if behind < 0:
        session.feed(ids[behind:], keep=0)
    else:
        session.rewind(behind)


def _draw(
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
        writes_text=False,
        trace=strategy.trace,
        clock=strategy.clock,
        choice_logprobs=[] if strategy.keeps_choices else None,
    )
    steps: list[Step] = []
    forced: list[int] = []
    written = 0
    for step in decoder.steps():
        if strategy.trace:  # each holds a copy of the output so far
            steps.append(step)
        if step.kind == "forced":
            forced += range(written, written + len(step.ids))
        written += len(step.ids)
        if on_step is not None:
            on_step(step)
    no_call_logprob = 0.0
    if not decoder.is_complete:
        decision, index = decoder.decisions[-1]
        no_call_logprob = float(decision.logprobs[index])
    found = DecodeResult(
        matcher, decoder.symbols, decoder.is_complete, decoder.stats, decoder.decisions, steps,
        forced=forced, choice_logprobs=decoder.choice_logprobs, no_call_logprob=no_call_logprob,
    )  # fmt: skip
    return found, session


def _search_beam(
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
    """Return the first valid candidate; where none is, the first."""
    if is_valid is None or len(candidates) == 1:
        return candidates[0]
    return next(filter(is_valid, candidates), candidates[0])
