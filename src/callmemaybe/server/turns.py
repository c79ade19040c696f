"""One turn of the model, as either interface needs it: the request, and one update for each step.

The updates are the same whether they are streamed or folded into one answer, so the two cannot
disagree. Their events are the stream's own (:mod:`callmemaybe.tools.events`), held back until a client
may read them: text and arguments until their characters are whole, the last byte of the first call's
arguments and everything of later calls until the turn has ended well. So neither what was cut off nor
a repeat can ever be taken for a call.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from callmemaybe.decoding.decoder import Step
from callmemaybe.errors import BudgetError
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.generation.result import TokenLogprob, TurnResult
from callmemaybe.tools import ArgumentsDelta, CallStarted, StreamEvent, TextDelta, ToolSpec
from callmemaybe.wire.output_grammar import OutputSpec

Finish = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True)
class TurnRequest:
    """What one turn is asked for; ``spec.answer`` may be a function that reads its grammar."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[ToolSpec]
    spec: OutputSpec
    options: DecodingConfig


@dataclass(frozen=True)
class TurnUpdate:
    """What one step of a turn brings: events, and what no event of the stream can carry.

    Events are about what was written and know no token. ``tokens`` are those of the first TextDelta
    among ``events`` and ``steps`` those of the decoder, where they were asked for; the last update has
    the turn's ``result``.
    """

    events: tuple[StreamEvent, ...] = ()
    tokens: tuple[TokenLogprob, ...] = ()
    steps: tuple[Step, ...] = ()
    result: TurnResult | None = None

    def __bool__(self) -> bool:
        """Whether there is anything to send."""
        return bool(self.events or self.steps or self.result is not None)


def finish_reason(result: TurnResult) -> Finish:
    """Return why a turn ended, in OpenAI's words."""
    if result.ended == "length":
        return "length"
    return "tool_calls" if result.calls else "stop"


def turn_updates(
    generator: LocalGenerator, request: TurnRequest, new_id: Callable[[], str]
) -> Generator[TurnUpdate, None, None]:
    """Yield an update for each step of a turn, empty ones too; the last one has its result.

    Where not even the shortest answer fits into the tokens that were asked for, the turn is over before
    it begins; its prompt counts all the same. Raises what :meth:`LocalGenerator.stream` does, and
    GrammarError for a grammar that cannot be read.
    """
    spec, options = request.spec, request.options
    if callable(spec.answer):
        spec = replace(spec, answer=spec.answer())
    try:
        stream = generator.stream(request.messages, request.tools, spec, options)
    except BudgetError:
        length = generator.count_prompt_tokens(request.messages, request.tools, spec)
        yield TurnUpdate(result=TurnResult(ended="length", prompt_tokens=length))
        return
    held = _HeldBack(new_id)
    step_count = token_count = 0
    try:
        for events in stream:
            steps = tuple(stream.steps[step_count:]) if options.trace else ()
            tokens = tuple(stream.logprobs[token_count:]) if options.logprobs else ()
            step_count, token_count = step_count + len(steps), token_count + len(tokens)
            ready = tuple(held.take(events, has_tokens=bool(tokens)))
            yield TurnUpdate(ready, tokens, steps)
        yield TurnUpdate(tuple(held.end(stream.result)), result=stream.result)
    finally:
        stream.close()


class _HeldBack:
    """Holds back the parts of a stream that a client may not read yet.

    Clients take a call for complete when the next begins (openai's ``chat.completions.stream`` reads
    its arguments then), so all others wait behind the byte of the first that is held back.
    """

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._arguments = codecs.getincrementaldecoder("utf-8")("replace")
        self._last_byte = b""
        #: The calls behind the first: their names, and their arguments so far.
        self._later: list[tuple[str, bytearray]] = []

    def take(
        self, events: Sequence[StreamEvent], *, has_tokens: bool = False
    ) -> Iterator[StreamEvent]:
        """Yield what may be read of the events; with tokens, a TextDelta for them, if only an empty one."""
        for event in events:
            match event:
                case TextDelta():
                    text = self._text.decode(event.data)
                    if text or has_tokens:
                        yield TextDelta(text.encode())
                    has_tokens = False
                case CallStarted(index=0):
                    yield CallStarted(0, event.name, self._new_id())
                case CallStarted():
                    self._later.append((event.name, bytearray()))
                case ArgumentsDelta(index=0):
                    data = self._last_byte + event.data
                    self._last_byte = data[-1:]
                    if ready := self._arguments.decode(data[:-1]):
                        yield ArgumentsDelta(0, ready.encode())
                case ArgumentsDelta():
                    self._later[-1][1].extend(event.data)
        if has_tokens:
            yield TextDelta(b"")

    def end(self, result: TurnResult) -> Iterator[StreamEvent]:
        """Yield what was held back of the text and of the calls that count."""
        if text := self._text.decode(b"", True):
            yield TextDelta(text.encode())
        if result.calls:
            yield ArgumentsDelta(0, self._arguments.decode(self._last_byte, True).encode())
        # A repeat was written last, and is not among the calls that count.
        for index, (name, data) in enumerate(self._later[: max(0, len(result.calls) - 1)], 1):
            yield CallStarted(index, name, self._new_id())
            yield ArgumentsDelta(index, data.decode(errors="replace").encode())
