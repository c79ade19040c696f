"""One turn of the model, as either interface needs it: the request, and one update for each step.

The updates are the same whether they are streamed or folded into one answer, so the two cannot
disagree. Their events are the stream's own (:mod:`callmemaybe.tools.events`), held back until a client
may read them: text until its characters are whole, calls until the turn has ended well. Only the end
tells whether the budget sufficed, and many clients complete the JSON of a stream that was cut off
themselves (LangChain's ``parse_partial_json`` makes ``{"city": "Pari"}`` of ``{"city": "Pari``, and ``{}``
of a name alone). So a client that gets nothing of a call can make nothing of it. Where a client asks for
early calls, it gets the first one as it is written, all but its last byte.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from callmemaybe.agent.single_request import first_prompt, run_turn
from callmemaybe.decoding.batch import run_blocking
from callmemaybe.decoding.decoder import Step
from callmemaybe.errors import BudgetError, GrammarError, InputError, UnsupportedSchema
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.result import TokenLogprob, TurnResult
from callmemaybe.generation.turn import TurnGenerator, TurnStream
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
    has_early_calls: bool = False
    """Whether a stream sends the first call while it is written."""
    is_single: bool = False
    """Whether the model reads one request and nothing else (see :mod:`callmemaybe.agent.single_request`)."""
    counts_only: bool = False
    """Whether the tokens of the prompt are counted, and nothing is written."""
    work: Callable[[], Any] | None = None
    """What is computed in place of a turn, without the model, while the turns of others go on."""
    generator: TurnGenerator | None = None
    """What generates the turn, where it is not the generator of conversations."""
    answer_param: str = ""
    """The parameter that ``spec.answer`` came in, for errors."""


@dataclass(frozen=True)
class TurnUpdate:
    """What one step of a turn brings: events, and what no event of the stream can carry.

    The first update of a turn ``begins`` it: it is sent although it may have nothing else, so that a stream
    opens before its first event. It has the tokens of the prompt, and those of them that were kept from earlier ones,
    where they are known before the result. Events are about what was written and know no token. ``tokens`` are those of the first TextDelta
    among ``events`` and ``steps`` those of the decoder, where they were asked for; the last update has
    the turn's ``result``.
    """

    events: tuple[StreamEvent, ...] = ()
    tokens: tuple[TokenLogprob, ...] = ()
    steps: tuple[Step, ...] = ()
    result: TurnResult | None = None
    begins: bool = False
    prompt_tokens: int = 0
    cached_tokens: int = 0
    #: What the request's ``work`` returned.
    value: Any = None

    def __bool__(self) -> bool:
        """Whether there is anything to send."""
        return bool(self.events or self.steps or self.begins or self.result is not None)


def finish_reason(result: TurnResult) -> Finish:
    """Return why a turn ended, in OpenAI's words."""
    if result.ended == "length":
        return "length"
    return "tool_calls" if result.calls else "stop"


def turn_updates(
    generator: TurnGenerator, request: TurnRequest, new_id: Callable[[], str]
) -> Generator[TurnUpdate, None, None]:
    """Yield an update for each step of a turn, empty ones too; the last one has its result.

    Where not even the shortest answer fits into the tokens that were asked for, the turn is over before
    it begins; its prompt counts all the same. Raises what :meth:`TurnGenerator.stream` does, and
    GrammarError for a grammar that cannot be read.
    """
    spec, options = request.spec, request.options
    if callable(spec.answer):
        spec = replace(spec, answer=spec.answer())
    if request.counts_only or request.work is not None:
        yield _computed(generator, request, spec)
        return
    held = _HeldBack(new_id, has_early_calls=request.has_early_calls)
    opened: list[TurnStream] = []
    turn = _turn(generator, request, spec, opened)
    step_count = token_count = 0
    current: TurnStream | None = None
    has_begun = False
    try:
        while True:
            try:
                events = next(turn)
            except StopIteration as ended:
                result: TurnResult = ended.value
                break
            except BudgetError:
                if opened:
                    raise
                length = generator.count_prompt_tokens(request.messages, request.tools, spec)
                yield TurnUpdate(result=TurnResult(ended="length", prompt_tokens=length))
                return
            stream = opened[-1] if opened else None
            begins = not has_begun and (stream is None or stream.has_begun)
            has_begun = has_begun or begins
            if stream is not current:
                current, step_count, token_count = stream, 0, 0
            steps = tuple(stream.steps[step_count:]) if stream and options.trace else ()
            tokens = tuple(stream.logprobs[token_count:]) if stream and options.logprobs else ()
            step_count, token_count = step_count + len(steps), token_count + len(tokens)
            ready = tuple(held.take(events, has_tokens=bool(tokens)))
            read = (stream.prompt_tokens, stream.cached_tokens) if stream and begins else (0, 0)
            yield TurnUpdate(
                ready,
                tokens,
                steps,
                begins=begins,
                prompt_tokens=read[0],
                cached_tokens=read[1],
            )
        last = tuple(held.end(result))
        if request.is_single and result.text:
            last = (TextDelta(result.text.encode()), *last)
        yield TurnUpdate(last, result=result, begins=not has_begun)
    finally:
        for stream in opened:
            stream.close()


def _computed(generator: TurnGenerator, request: TurnRequest, spec: OutputSpec) -> TurnUpdate:
    """Return the one update of a request that takes no model."""
    if request.work is not None:
        return TurnUpdate(result=TurnResult(), value=run_blocking(request.work))
    return TurnUpdate(result=TurnResult(prompt_tokens=_count_prompt(generator, request, spec)))


def _count_prompt(generator: TurnGenerator, request: TurnRequest, spec: OutputSpec) -> int:
    """Return how many tokens the model reads first; 0 where a turn is made without it."""
    if not request.is_single:
        return generator.count_prompt_tokens(request.messages, request.tools, spec)
    prompt = first_prompt(generator, request.messages, request.tools, spec, request.options)
    return 0 if prompt is None else generator.count_prompt_tokens(*prompt)


def _in_param(error: GrammarError | UnsupportedSchema, param: str) -> InputError:
    """Return the error of a constraint with the parameter in front of its place in there."""
    where = error.where or ""
    if not param or (where and not where.startswith("/")):
        return error
    return InputError(error.message, where=param + where, hint=error.hint)


def _turn(
    generator: TurnGenerator, request: TurnRequest, spec: OutputSpec, opened: list[TurnStream]
) -> Generator[Sequence[StreamEvent], None, TurnResult]:
    """Yield the events of each step; return the result. ``opened`` gets each stream of the model."""
    turn = run_turn(
        generator, request.messages, request.tools, spec, request.options, opened.append,
        is_single=request.is_single,
    )  # fmt: skip
    try:
        return (yield from turn)
    except (GrammarError, UnsupportedSchema) as error:
        if request.is_single:
            raise
        raise _in_param(error, request.answer_param) from None


class _HeldBack:
    """Holds back the parts of a stream that a client may not read yet.

    Clients take a call for complete when the next begins (openai's ``chat.completions.stream`` reads
    its arguments then), so all others wait behind an early call's last byte.
    """

    def __init__(self, new_id: Callable[[], str], *, has_early_calls: bool) -> None:
        self._new_id = new_id
        self._has_early_calls = has_early_calls
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        #: The names of the calls that began, and their arguments as far as they were not sent.
        self._calls: list[tuple[str, bytearray]] = []
        self._sent = 0

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
                case CallStarted():
                    self._calls.append((event.name, bytearray()))
                    if self._has_early_calls and not self._sent:
                        yield self._start(0)
                case ArgumentsDelta():
                    held = self._calls[-1][1]
                    held.extend(event.data)
                    if self._sent == len(self._calls):
                        yield from _arguments(event.index, held, _whole_characters(held[:-1]))
        if has_tokens:
            yield TextDelta(b"")

    def end(self, result: TurnResult) -> Iterator[StreamEvent]:
        """Yield what was held back of the text and of the calls that count."""
        if text := self._text.decode(b"", True):
            yield TextDelta(text.encode())
        # A repeat was written last, and is not among the calls that count.
        for index, (_, held) in enumerate(self._calls[: len(result.calls)]):
            if index == self._sent:
                yield self._start(index)
            yield from _arguments(index, held, len(held))

    def _start(self, index: int) -> CallStarted:
        self._sent += 1
        return CallStarted(index, self._calls[index][0], self._new_id())


def _arguments(index: int, held: bytearray, size: int) -> Iterator[ArgumentsDelta]:
    """Yield the first ``size`` bytes of ``held``, if there are any, and take them out of it."""
    if size:
        yield ArgumentsDelta(index, bytes(held[:size]).decode(errors="replace").encode())
        del held[:size]


def _whole_characters(data: bytearray) -> int:
    """Return how many bytes of ``data`` lie in front of a character that is cut off at its end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(bytes(data))
    return len(data) - len(decoder.getstate()[0])
