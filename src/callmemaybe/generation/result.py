"""What came of a turn, and of a single request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from callmemaybe.decoding.decoder import Likeliest, Step
from callmemaybe.decoding.name_choice import Symbol
from callmemaybe.decoding.scoring import Posterior
from callmemaybe.grammar.nodes import Control
from callmemaybe.tools import ArgumentsDelta, ToolCall
from callmemaybe.wire.reader import OutputReader

#: Why a turn ended. "repeated": it began to repeat a call of its own.
TurnEnd = Literal["stop", "length", "repeated"]


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token of a text: its bytes, log P (nats) under the model, and the likeliest in its place.

    The probability is the model's own, under no mask; the likeliest are given as probabilities.
    """

    data: bytes
    logprob: float
    top: Likeliest = ()

    @property
    def token(self) -> str:
        """The bytes as text; a part of a character as the replacement character."""
        return self.data.decode(errors="replace")


@dataclass(frozen=True)
class TurnResult:
    """What a model wrote in one turn.

    ``ended`` is "stop", "length" (the token budget ended or changed what the model would have written;
    then ``calls`` is empty) or "repeated" (the model began a call that it had made in this turn, which
    ends the turn). ``stop`` is the text that ended it, if one of those asked for did.
    """

    text: str = ""
    thought: str = ""
    calls: tuple[ToolCall, ...] = ()
    ended: TurnEnd = "stop"
    stop: str | None = None
    #: Probability of each function, and of none (None), at the first choice, likeliest first.
    distribution: Mapping[str | None, float] = field(default_factory=dict)
    #: Probability that all calls are right, or that none is (see :mod:`callmemaybe.generation.confidence`); None for a model whose
    #: files do not tell.
    confidence: float | None = None
    #: Tokens read, tokens of these that an earlier turn had left in the cache, and tokens left out of
    #: the middle of a request that did not fit into the model's context.
    prompt_tokens: int = 0
    cached_tokens: int = 0
    omitted: int = 0
    #: Tokens written; of these those of a thought (with the mark that ends it), and those that the
    #: grammar forced.
    tokens: int = 0
    thought_tokens: int = 0
    forced: int = 0
    #: Forward passes.
    passes: int = 0
    #: Seconds by phase: "prompt" (text to ids), "model" (forward passes), "engine" (all else of
    #: decoding), "check" (reading and validating), and their "total".
    seconds: Mapping[str, float] = field(default_factory=dict)
    #: What was written, control tokens by their text.
    raw: bytes = b""
    #: The tokens of ``text``, if they were asked for; those that a stop text cut are left out.
    logprobs: tuple[TokenLogprob, ...] = ()
    #: Likewise those of the calls, with the marks around them; a name that was chosen as a whole is one token.
    call_tokens: tuple[TokenLogprob, ...] = ()
    #: Log-probability (nats) of the whole call and of each argument's value, if they were asked for.
    logprob: float | None = None
    argument_logprobs: Mapping[str, float] = field(default_factory=dict)
    #: Every step, if they were asked for.
    steps: tuple[Step, ...] = ()
    #: What a server did not hold to though the call is valid; what was checked and not masked.
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class CallResult:
    """What came of one request: the call, how probable it is, and what it took.

    ``call`` is None when the model decided that no function fits, or when none can be called with what
    the request says (``remarks`` then says so).
    """

    call: ToolCall | None
    #: Probability of what was chosen (the name, or no call) among all names and no call; None where
    #: names were chosen token by token. It is the model's own, and of the name alone.
    name_probability: float | None = None
    #: By how much that is likelier than the next likeliest; in [-1, 1], negative only by chance.
    margin: float | None = None
    #: Probability of each name, likeliest first; None stands for no call.
    distribution: Mapping[str | None, float] = field(default_factory=dict)
    #: Tokens that needed no decision, tokens that the model chose, and its forward passes.
    forced: int = 0
    chosen: int = 0
    passes: int = 0
    #: Log-probability (nats) under the model of what was written, and of each argument's value, where
    #: they were asked for: exact, forced tokens included, under no mask. Where a text would have stood
    #: in place of a call, that of calling nothing.
    logprob: float | None = None
    argument_logprobs: Mapping[str, float] = field(default_factory=dict)
    #: What a server that was asked did not hold to, though the call is valid; what of its schema was
    #: checked in the finished call, and not masked; why nothing was asked.
    remarks: tuple[str, ...] = ()
    #: Tokens left out of the middle of a request that did not fit into the model's context.
    omitted: int = 0
    #: Seconds by phase: "prompt" (text to ids), "model" (forward passes), "engine" (all else of
    #: the decoding), "check" (reading and validating the call), and their "total".
    seconds: Mapping[str, float] = field(default_factory=dict)
    #: What the model wrote, control tokens by their text.
    text: bytes = b""
    #: Every step, if they were asked for.
    steps: tuple[Step, ...] = ()
    #: Probability that the whole call is right, or that rightly none was made: fitted on requests with known answers, for
    #: the embedded model. None for models whose files hold no such fit, and where names were chosen token by token.
    confidence: float | None = None

    @classmethod
    def of(cls, turn: TurnResult) -> CallResult:
        """Return the result of a turn that was one request for one call."""
        call = turn.calls[0] if turn.calls else None
        name = None if call is None else call.name
        probability = turn.distribution.get(name)
        others = (value for other, value in turn.distribution.items() if other != name)
        return cls(
            call=call,
            confidence=turn.confidence,
            name_probability=probability,
            margin=None
            if probability is None
            else probability - max(others, default=1.0 - probability),
            distribution=turn.distribution,
            forced=turn.forced,
            chosen=turn.tokens - turn.forced,
            passes=turn.passes,
            logprob=turn.logprob,
            argument_logprobs=turn.argument_logprobs,
            remarks=turn.remarks,
            omitted=turn.omitted,
            seconds=turn.seconds,
            text=turn.raw,
            steps=turn.steps,
        )


#: How the sentence ends that says that a call was not made because it is too unlikely to be right.
TOO_UNSURE = "so it is not made"


def too_unsure(calls: Sequence[ToolCall], confidence: float, least: float) -> str:
    """Say that calls are less likely right than they must be."""
    names = " and ".join(dict.fromkeys(call.name for call in calls))
    return f"the call of {names} is right with a probability of {confidence:.2f}, below {least:.2f}, {TOO_UNSURE}"


def distribution(
    decisions: Sequence[tuple[Posterior, int]],
    spellings: Mapping[bytes, str],
    names: Sequence[str],
) -> dict[str | None, float]:
    """Return the probability of every name that was scored for the first call, likeliest first.

    ``names`` are those possible; where there is one, only whether to call it was open.
    """
    chances: dict[str | None, float] = {}
    share = 1.0
    for found, _ in decisions:
        is_named = any(branch.name for branch in found.candidates)
        for branch, chance in zip(found.candidates, found.probabilities.tolist(), strict=True):
            if branch.name is None:
                chances[None] = share * chance
            elif branch.name:
                chances[spellings[branch.name]] = share * chance
        if is_named:
            break
        share *= float(found.probabilities[0])
    else:
        if decisions and len(names) == 1:
            chances[names[0]] = share
    return dict(sorted(chances.items(), key=lambda item: -item[1]))


def argument_symbols(reader: OutputReader, symbols: Sequence[Symbol]) -> list[int]:
    """Return, for each byte of a call's arguments in JSON, the index of the symbol that made it certain."""
    places: list[int] = []
    for at, symbol in enumerate(symbols):
        events = reader.feed(Control(symbol) if isinstance(symbol, str) else bytes([symbol]))
        for event in events:
            if isinstance(event, ArgumentsDelta):
                places += [at] * len(event.data)
    return places
