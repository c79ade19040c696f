"""One turn of a model, whoever runs it: what it may be, how it is streamed, and how it is read.

A turn is taken one decoding step at a time, so whoever drives it may take turns with others, wait in
any way it likes, or stop. Events on the way are provisional. Calls are committed when the turn has ended
by itself: never from a fragment, nor where the budget changed what the model would have written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from typing import Any, Literal

from callmemaybe.conversation.events import encode_text
from callmemaybe.conversation.history import content_text
from callmemaybe.decoding.decoder import Step
from callmemaybe.errors import InputError
from callmemaybe.generation.config import DecodingConfig, parts_of
from callmemaybe.generation.parameter_order import in_order_of
from callmemaybe.generation.result import TokenLogprob, TurnResult
from callmemaybe.generation.validation import CallValidator
from callmemaybe.grammar import Grammar
from callmemaybe.models.base import Session
from callmemaybe.tools import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    StreamEvent,
    TextDelta,
    ThoughtDelta,
    ToolCall,
    ToolSpec,
    add_reference_options,
)
from callmemaybe.values import SEEMS
from callmemaybe.wire import Format
from callmemaybe.wire.format import Message
from callmemaybe.wire.output_grammar import OutputSpec

#: Where a turn stands: in a thought, in a text, or in neither.
Section = Literal["thought", "text"] | None
#: The events of one step; the result of the turn comes last, as what the generator returns.
OnStep = Callable[[Step], None] | None
TurnSteps = Generator[tuple[StreamEvent, ...], None, TurnResult]


class TurnStream:
    """A turn being generated: iterate over it once; each ``next`` takes one step of the decoder.

    Each step yields the events that became certain with it, often none; after the last one
    :attr:`result` is the whole turn. :meth:`close` ends the turn at once and discards it. To be used by
    one thread at a time. ``steps`` and ``logprobs`` grow with the turn, where they were asked for.
    ``prompt_tokens`` are those that the model reads, ``cached_tokens`` those of them that were kept; 0 where only the
    result tells.
    """

    def __init__(
        self,
        run: TurnSteps,
        steps: Sequence[Step] = (),
        logprobs: Sequence[TokenLogprob] = (),
        has_begun: Callable[[], bool] | None = None,
        *,
        prompt_tokens: int = 0,
        cached_tokens: int = 0,
    ) -> None:
        self._run = run
        self._has_begun = has_begun
        self._result: TurnResult | None = None
        self.steps = steps
        self.logprobs = logprobs
        self.prompt_tokens = prompt_tokens
        self.cached_tokens = cached_tokens

    def __iter__(self) -> Iterator[tuple[StreamEvent, ...]]:
        return self

    def __next__(self) -> tuple[StreamEvent, ...]:
        """Take one step.

        Raises ModelError where the model fails; for a finished call, or an answer by a schema,
        DuplicateKeyError if a key came twice, and SchemaViolationError if it is not what the schema
        wants where no grammar can prevent that; DecodingError for a bug of ours.
        """
        try:
            return next(self._run)
        except StopIteration as stopped:
            if stopped.value is not None:
                self._result = stopped.value
            raise

    async def aiter(self) -> AsyncIterator[tuple[StreamEvent, ...]]:
        """Yield what iterating yields; each step is taken in a thread."""
        over = object()
        while (events := await in_thread(lambda: next(self, over))) is not over:
            assert isinstance(events, tuple)
            yield events

    def close(self) -> None:
        """End the turn, if it is not over, and discard it."""
        self._run.close()

    def run_to_end(self) -> TurnResult:
        """Take all steps that are left and return the whole turn."""
        for _ in self:
            pass
        return self.result

    @property
    def has_begun(self) -> bool:
        """Whether the model has taken the request: no step before that brings anything."""
        return self._has_begun is None or self._has_begun()

    @property
    def result(self) -> TurnResult:
        """The whole turn. Raises RuntimeError before its end."""
        if self._result is None:
            raise RuntimeError("the turn is not over, or was closed before its end")
        return self._result


class TurnGenerator(ABC):
    """Generates turns with one model: the protocol of local models and of models behind a server.

    ``format`` is the wire format in which it reads and writes conversations, ``decoding`` its own configuration.
    """

    format: Format
    decoding: DecodingConfig
    #: Whether messages may hold pictures (parts of the type "image_url").
    reads_images: bool = False

    def count_prompt_tokens(
        self,
        messages: Sequence[Message],  # noqa: ARG002 - of a local model
        tools: Sequence[ToolSpec] = (),  # noqa: ARG002
        spec: OutputSpec | None = None,  # noqa: ARG002
    ) -> int:
        """Return how many tokens the model reads in front of a turn; 0 where nobody can tell."""
        return 0

    @abstractmethod
    def prepare(self, tools: Sequence[ToolSpec], spec: OutputSpec) -> None:
        """Compile what single requests with these tools share, and raise what is wrong with it."""

    @abstractmethod
    def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        spec: OutputSpec | None = None,
        decoding: DecodingConfig | None = None,
    ) -> TurnStream:
        """Return the model's next turn of a conversation, to be taken step by step.

        ``messages`` are in OpenAI's shape. ``spec`` is what the turn may be; None: an answer in text, or
        one call of the tools. ``decoding`` goes before the generator's own configuration.

        Raises InputError for a spec that cannot be met with these tools or this format (and
        UnsupportedSchema, GrammarError, VocabularyError), BudgetError for a budget below the shortest
        answer, ModelError where the conversation does not fit into the model's context.
        """

    @abstractmethod
    def stream_call(
        self,
        prompt: str,
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
        decoding: DecodingConfig | None = None,
        *,
        on_step: OnStep = None,
        seat: Callable[[Session], Session] | None = None,
    ) -> TurnStream:
        """Return the turn that answers one request with one call, to be taken step by step.

        Of a model in this process, ``on_step`` is called with each step as it is taken, and ``seat`` is
        applied to the session, so that a batch can share its forward passes. Where a text may stand in place of a call, it is not written. A call that the budget closed is
        valid and counts. Errors are those of :meth:`stream`; ModelError for a request that does not fit
        into the context and may not be cut.
        """

    def generate(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        spec: OutputSpec | None = None,
        decoding: DecodingConfig | None = None,
    ) -> TurnResult:
        """Return the model's next turn; see :meth:`stream`."""
        return self.stream(messages, tools, spec, decoding).run_to_end()

    def stream_plan(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        most: int = 4,
        spec: OutputSpec | None = None,
        decoding: DecodingConfig | None = None,
        taken: Collection[str] = (),
    ) -> TurnStream:
        """Return a turn of at most ``most`` calls, of which later ones may refer to results of earlier ones.

        A reference stands in place of an argument: ``{"$ref": "call_1.temperature"}``; the grammar
        allows those to earlier calls only and, where the earlier tool declares what it returns, to
        fields of a fitting type only. Each call is decoded on its own, behind those before it, since
        what it may refer to depends on them. Ids that are ``taken`` are not given again.
        """
        if not self.format.is_parallel:
            raise InputError("this format calls one function a turn, so it can write no plans")
        return TurnStream(self._plan(messages, tools, most, spec, decoding, taken))

    def _plan(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        most: int,
        spec: OutputSpec | None,
        decoding: DecodingConfig | None,
        taken: Collection[str],
    ) -> TurnSteps:
        spec = spec or OutputSpec(no_call=True)
        given: list[ToolCall] = []
        returns: dict[str, Any] = {}
        plan = TurnResult()
        while len(given) < most:
            offered = [
                replace(one, parameters=add_reference_options(one, returns)) for one in tools
            ]
            step = replace(
                spec, no_call=spec.no_call and not given, most=len(given) + 1, given=tuple(given)
            )
            turn = self.stream(messages, offered, step, decoding)
            yield from turn
            plan = _joined(plan, turn.result)
            new = turn.result.calls[len(given) :]
            if not new or any(new[0].canonical == one.canonical for one in given):
                break
            known = {*taken, *(one.id for one in given)}
            call = replace(new[0], id=_fresh_id(known, len(known) + 1))
            given.append(call)
            returns[call.id] = next(one for one in tools if one.name == call.name).returns
        return replace(plan, calls=tuple(given) if plan.ended != "length" else ())


def _joined(before: TurnResult, turn: TurnResult) -> TurnResult:
    """Return the last turn of a plan with what all of its turns took."""
    phases = {*before.seconds, *turn.seconds}
    return replace(
        turn,
        distribution=before.distribution or turn.distribution,
        passes=before.passes + turn.passes,
        seconds={one: before.seconds.get(one, 0.0) + turn.seconds.get(one, 0.0) for one in phases},
    )


def _fresh_id(taken: Collection[str], number: int) -> str:
    while f"call_{number}" in taken:
        number += 1
    return f"call_{number}"


def plain_messages(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with their contents as texts; parts of a content are joined.

    Raises InputError, with the JSON pointer, for a part that is no text.
    """
    return [
        message
        if isinstance(message.get("content"), str | None)
        else {**message, "content": content_text(message["content"], f"/messages/{number}")}
        for number, message in enumerate(messages)
    ]


async def in_thread(work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns, run in a thread; cancelled, wait until it is out of it."""
    import asyncio

    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # nobody waits for it any more
        raise


class TurnReader:
    """Reads one turn as it is written, and collects its text, thought and calls.

    ``spec`` is what it may be. ``stops`` are texts that end it, within its text. The call of a function that is
    ``barred`` ends it, too: the call is no part of it, and :attr:`refusal` says why. The arguments of functions ``given`` are put into
    the order of these schemas (that of ``tools`` is another), and reported once, when they are complete.
    """

    def __init__(
        self,
        form: Format,
        tools: Sequence[ToolSpec],
        validator: CallValidator,
        controls: frozenset[str],
        *,
        spec: OutputSpec,
        stops: Sequence[str] = (),
        barred: Mapping[str, str] | None = None,
        given: Sequence[ToolSpec] = (),
    ) -> None:
        self._barred = barred or {}
        self._given_tools = {tool.name: tool for tool in given}
        self._reordered: ToolSpec | None = None
        #: The arguments of each call as the model wrote them.
        self.written: list[str] = []
        self.refusal: str | None = None
        self._reader = form.reader(tools, controls=controls, calls=spec.calls)
        self.spec = spec
        self._validator = validator
        self._given = len(spec.given)
        self._stops = [stop.encode() for stop in stops]
        self._seen = 0
        self.withheld = b""
        self.spellings = form.encoded_names(tools)
        self.names = [tool.name for tool in tools if tool.name in (spec.only or [tool.name])]
        self.text = bytearray()
        self.thought = bytearray()
        self.calls: list[ToolCall] = []
        self.is_repeated = False
        self.is_discarded = False
        self.stopped: str | None = None

    @property
    def section(self) -> Section:
        """Whether the turn stands in a thought, in a text, or in neither."""
        return self._reader.section

    @property
    def is_over(self) -> bool:
        """Whether the turn has ended, though the model could write more."""
        return self.is_repeated or self.is_discarded or (self.stopped or self.refusal) is not None

    def read(self, symbols: Sequence[int | str]) -> Iterator[StreamEvent]:
        """Read what is new in ``symbols``."""
        for part in parts_of(symbols[self._seen :]):
            if part:
                yield from self._events(self._reader.feed(part))
        self._seen = len(symbols)

    def end(self, symbols: Sequence[int | str]) -> Iterator[StreamEvent]:
        """Read the rest; the turn is over."""
        yield from self.read(symbols)
        yield from self._events(self._reader.end())
        yield from self._text_events(self.withheld)

    def check(self) -> None:
        """Check a finished answer by a JSON Schema. Raises DuplicateKeyError, SchemaViolationError.

        A text in front of calls is no answer, nor is one that a stop text cut off.
        """
        answer = self.spec.answer
        if answer is None or isinstance(answer, Grammar) or self.calls or self.stopped is not None:
            return
        self._validator.check_answer(self.text.decode(errors="replace"))

    def remarks(self, calls: Sequence[ToolCall]) -> tuple[str, ...]:
        """Say why a call was not made, and what was checked in the finished calls, and not masked."""
        refusals = [] if self.refusal is None else [self.refusal]
        if not (
            refusals or calls
        ):  # the model may call nothing in a language that it does not read, too
            refusals = [why for why in self._barred.values() if why.startswith(SEEMS)]
        checked = (remark for call in calls for remark in self._validator.remarks(call))
        return tuple(dict.fromkeys([*refusals, *checked]))

    def _events(self, events: Sequence[StreamEvent]) -> Iterator[StreamEvent]:
        for event in events:
            if self.is_over:
                return
            # Calls that the turn began with are not reported again.
            is_new = getattr(event, "index", self._given) >= self._given
            match event:
                case TextDelta():
                    yield from self._take_text(event.data)
                    continue
                case CallStarted() if event.name in self._barred:
                    self.refusal = self._barred[event.name]
                    return
                case CallStarted():
                    self._reordered = self._given_tools.get(event.name)
                    yield from self._text_events(self.withheld)
                case ArgumentsDelta() if self._reordered is not None:
                    continue
                case CallEnded():
                    written = event.call.arguments
                    if self._reordered is not None:
                        event = replace(event, call=in_order_of(event.call, self._reordered))
                        if is_new:
                            yield ArgumentsDelta(event.index, encode_text(event.call.arguments))
                    self._take_call(event.call, written)
                case ThoughtDelta():
                    self.thought += event.data
            if is_new and not self.is_repeated:
                yield event

    def _take_text(self, data: bytes) -> Iterator[StreamEvent]:
        """Yield text up to the first stop text; withhold what may become one."""
        withheld = self.withheld + data
        found = [
            (at + len(stop), at, stop) for stop in self._stops if (at := withheld.find(stop)) >= 0
        ]
        if found:
            # The one that is complete first, so that the result does not depend on how the text was cut.
            _, at, stop = min(found)
            self.stopped = stop.decode()
            yield from self._text_events(withheld[:at])
            return
        keep = max(
            (
                size
                for stop in self._stops
                for size in range(min(len(stop) - 1, len(withheld)) + 1)
                if withheld.endswith(stop[:size])
            ),
            default=0,
        )
        yield from self._text_events(withheld[: len(withheld) - keep])
        self.withheld = withheld[len(withheld) - keep :]

    def _text_events(self, data: bytes) -> Iterator[StreamEvent]:
        self.withheld = b""
        self.text += data
        if data:
            yield TextDelta(data)

    def _take_call(self, call: ToolCall, written: str) -> None:
        if len(self.calls) >= self._given:
            if any(call.canonical == one.canonical for one in self.calls):
                self.is_repeated = True
                return
            self._validator.check(call)
        self.calls.append(call)
        self.written.append(written)


class TextTokens:
    """Finds the tokens of a turn's text, and of its calls, among all its tokens."""

    def __init__(self) -> None:
        self._written = bytearray()
        self._waiting: list[tuple[int, TokenLogprob]] = []
        self._start = -1
        self.found: list[TokenLogprob] = []
        self.of_calls: list[TokenLogprob] = []

    def take(self, step: Step | None, turn: TurnReader, before: Section = None) -> None:
        """Take one more step, after the turn has read it; ``before`` is the section in which it began."""
        if step is not None and step.data:
            if step.logprob is not None and before is None and turn.section is None:
                self.of_calls.append(TokenLogprob(step.data, step.logprob, step.before))
            if step.logprob is not None and len(step.ids) == 1:
                token = TokenLogprob(step.data, step.logprob, step.before)
                self._waiting.append((len(self._written), token))
            self._written += step.data
        if turn.text and self._start < 0:
            # Nothing but withheld text has been written behind it.
            self._start = self._written.rfind(turn.text + turn.withheld)
        end = self._start + len(turn.text)
        while self._waiting and self._waiting[0][0] < end:
            at, token = self._waiting[0]
            if at >= self._start and at + len(token.data) > end:
                break  # reported only in part so far
            del self._waiting[0]
            if at >= self._start:
                self.found.append(token)

    def told(self, turn: TurnReader) -> dict[str, Any]:
        """Return the tokens of the text, and of the calls if there are any, as fields of a result."""
        of_calls = tuple(self.of_calls) if turn.calls else ()
        return {"logprobs": tuple(self.found), "call_tokens": of_calls}
