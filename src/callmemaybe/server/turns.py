"""One turn of the model, as either interface needs it: what is asked, and the pieces that come.

The pieces are the same whether they are streamed or folded into one answer, so the two cannot
disagree. Of the first call's arguments the last byte, and everything of later calls, is held back
until the turn has ended well: neither what was cut off nor a repeat can ever be taken for a call.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from callmemaybe.decoding.decoder import Step
from callmemaybe.errors import BudgetError
from callmemaybe.generation.local import DecodingConfig, LocalGenerator, TokenLogprob, TurnResult
from callmemaybe.tools import ToolSpec
from callmemaybe.wire import AnswerDelta, ArgumentsDelta, CallStarted, Event
from callmemaybe.wire.output_grammar import OutputSpec

Finish = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True)
class Ask:
    """What one turn is asked for; the answer that is wanted may be a function that reads its grammar."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[ToolSpec]
    wanted: OutputSpec
    options: DecodingConfig


@dataclass(frozen=True)
class Said:
    """More of the text, and the tokens that became certain with it, where they were asked for."""

    text: str
    tokens: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True)
class Begun:
    """Call number ``index`` begins."""

    index: int
    id: str
    name: str


@dataclass(frozen=True)
class More:
    """More of the arguments of call number ``index``."""

    index: int
    text: str


@dataclass(frozen=True)
class Walked:
    """Steps of the decoder, for those who asked."""

    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Done:
    """The end of a turn. ``distribution`` is the probability of each function, and of none."""

    finish: Finish
    prompt_tokens: int = 0
    cached_tokens: int = 0
    tokens: int = 0
    thought_tokens: int = 0
    passes: int = 0
    seconds: float = 0.0
    distribution: Mapping[str | None, float] = field(default_factory=dict)


Piece = Said | Begun | More | Walked | Done
#: A step that told nothing; whoever drives the turn may stop here.
Pieces = Generator[Piece | None, None, None]


def pieces(speaker: LocalGenerator, ask: Ask, new_id: Callable[[], str]) -> Pieces:
    """Yield the pieces of a turn, None after a step that told nothing; the last one is Done.

    Each ``next`` takes a step of the decoder at most. Where not even the shortest answer fits into
    the tokens that were asked for, the turn is over before it begins; its prompt counts all the
    same. Raises what :meth:`LocalGenerator.open` does, and GrammarError for a grammar that cannot be read.
    """
    wanted = ask.wanted
    if callable(wanted.answer):
        wanted = replace(wanted, answer=wanted.answer())
    try:
        speech = speaker.open(ask.messages, ask.tools, wanted, ask.options)
    except BudgetError:
        yield Done("length", speaker.measure(ask.messages, ask.tools, wanted))
        return
    teller = _Teller(new_id)
    walked = told = 0
    try:
        for events in speech:
            if ask.options.watch and len(speech.steps) > walked:
                yield Walked(tuple(speech.steps[walked:]))
                walked = len(speech.steps)
            tokens = tuple(speech.logprobs[told:]) if ask.options.logprobs else ()
            told += len(tokens)
            yield from teller.tell(events, tokens)
            yield None
        yield from teller.end(speech.spoken)
    finally:
        speech.close()


class _Teller:
    """Turns events into pieces.

    Clients take a call for done when the next begins (openai's ``chat.completions.stream`` reads its
    arguments then), so all others wait behind the byte of the first that is held back.
    """

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._arguments = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = b""
        #: The calls behind the first: their names, and their arguments so far.
        self._later: list[tuple[str, bytearray]] = []

    def tell(
        self, events: Sequence[Event], tokens: tuple[TokenLogprob, ...] = ()
    ) -> Generator[Piece, None, None]:
        """Yield what the events tell."""
        for event in events:
            match event:
                case AnswerDelta():
                    text = self._text.decode(event.data)
                    if text or tokens:
                        yield Said(text, tokens)
                    tokens = ()
                case CallStarted(index=0):
                    yield Begun(0, self._new_id(), event.name)
                case CallStarted():
                    self._later.append((event.name, bytearray()))
                case ArgumentsDelta(index=0):
                    data = self._held + event.data
                    self._held = data[-1:]
                    if more := self._arguments.decode(data[:-1]):
                        yield More(0, more)
                case ArgumentsDelta():
                    self._later[-1][1].extend(event.data)
        if tokens:
            yield Said("", tokens)

    def end(self, spoken: TurnResult) -> Generator[Piece, None, None]:
        """Yield what was held back of the calls that count, and the end of the turn."""
        if text := self._text.decode(b"", True):
            yield Said(text)
        if spoken.calls:
            yield More(0, self._arguments.decode(self._held, True))
        # A repeat was written last, and is not among the calls that count.
        for index, (name, data) in enumerate(self._later[: max(0, len(spoken.calls) - 1)], 1):
            yield Begun(index, self._new_id(), name)
            yield More(index, data.decode(errors="replace"))
        finish: Finish = "tool_calls" if spoken.calls else "stop"
        yield Done(
            "length" if spoken.ended == "length" else finish,
            spoken.prompt_tokens,
            spoken.cached_tokens,
            spoken.tokens,
            spoken.thought_tokens,
            spoken.passes,
            spoken.seconds,
            spoken.distribution,
        )
