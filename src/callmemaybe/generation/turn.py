"""One turn of a model in a conversation: told as it is written, counted only once it is over.

A turn is taken one decoding step at a time, so whoever drives it may take turns with others, wait in
any way it likes, or leave off. What is told on the way is provisional. Calls count when the turn has
ended by itself: never from a fragment, nor where the budget changed what the model wanted to write.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from callmemaybe.decoding.decoder import Decoder, Likeliest, Step
from callmemaybe.decoding.scoring import Posterior
from callmemaybe.errors import DuplicateKeyError, SchemaViolationError
from callmemaybe.generation.config import parts_of
from callmemaybe.generation.validation import CallValidator
from callmemaybe.grammar import Grammar
from callmemaybe.tools import (
    CallEnded,
    CallStarted,
    StreamEvent,
    TextDelta,
    ThoughtDelta,
    ToolCall,
    ToolSpec,
)
from callmemaybe.wire import Format
from callmemaybe.wire.output_grammar import OutputSpec

NOBODY: Mapping[str | None, float] = {}
Place = Literal["thought", "text"] | None
How = Literal["stop", "length", "repeated"]


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
    """What a model said in one turn.

    ``ended`` is "stop", "length" (the budget changed or ended what it wanted to say; then no call
    counts) or "repeated" (it began to repeat a call, with which the turn ends). ``stop`` is the text
    that ended it, if one of those asked for did. ``distribution`` is the probability of each function,
    and of none (None), at the first choice. ``prompt_tokens`` and ``tokens`` count what was asked and
    what was written; ``cached_tokens`` are those of the prompt that were kept from earlier ones, and
    ``thought_tokens`` those written in a thought, with the mark that ends it.
    """

    text: str = ""
    thought: str = ""
    calls: tuple[ToolCall, ...] = ()
    ended: How = "stop"
    stop: str | None = None
    distribution: Mapping[str | None, float] = field(default_factory=lambda: NOBODY)
    prompt_tokens: int = 0
    cached_tokens: int = 0
    tokens: int = 0
    thought_tokens: int = 0
    passes: int = 0
    seconds: float = 0.0
    #: What was written, control tokens by their text.
    raw: str = ""
    #: The tokens of ``text``, if they were asked for; those a stop text cut into are left out.
    logprobs: tuple[TokenLogprob, ...] = ()
    #: Every step, if they were asked for.
    steps: tuple[Step, ...] = ()


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


class TurnStream:
    """A turn on its way: iterate over it once; each ``next`` is one step of the decoder.

    Each step gives the events that became certain with it, often none. After the last one
    :attr:`spoken` is the whole. :meth:`close` ends the turn at once; nothing of it counts then. To be
    used by one thread at a time.
    """

    def __init__(
        self,
        decoder: Decoder,
        turn: TurnReader,
        *,
        prompt_tokens: int,
        started: float,
        clock: Callable[[], float],
        logprobs: bool = False,
        watch: bool = False,
    ) -> None:
        self._decoder = decoder
        self._turn = turn
        self._prompt_tokens = prompt_tokens
        self._started = started
        self._clock = clock
        self._keeps = watch
        self._steps: list[Step] = []
        self._thought_tokens = 0
        self._tokens: TextTokens | None = TextTokens() if logprobs else None
        self._spoken: TurnResult | None = None
        self._run = self._running()

    def __iter__(self) -> Iterator[tuple[StreamEvent, ...]]:
        return self

    def __next__(self) -> tuple[StreamEvent, ...]:
        """Take one step.

        Raises DecodingError for a bug of ours, ModelError where the model fails; for a call, or an answer
        by a schema, DuplicateKeyError if a key came twice, and SchemaViolationError if it is not what the schema wants
        and no grammar could see to that.
        """
        return next(self._run)

    async def aiter(self) -> AsyncIterator[tuple[StreamEvent, ...]]:
        """Yield what iterating yields; each step is taken in a thread."""
        over = object()
        while (events := await in_thread(lambda: next(self, over))) is not over:
            assert isinstance(events, tuple)
            yield events

    def close(self) -> None:
        """End the turn, if it is not over: nothing of it counts."""
        self._run.close()

    @property
    def spoken(self) -> TurnResult:
        """What was said. Raises RuntimeError before the end."""
        if self._spoken is None:
            raise RuntimeError("the turn is not over, or was closed before its end")
        return self._spoken

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...]:
        """The tokens of the text told so far, if they were asked for."""
        return () if self._tokens is None else tuple(self._tokens.found)

    @property
    def steps(self) -> Sequence[Step]:
        """The steps so far, if they were asked for."""
        return self._steps

    def _running(self) -> Generator[tuple[StreamEvent, ...], None, None]:
        decoder, turn = self._decoder, self._turn
        self._pace(None)
        before = turn.place
        for step in decoder.steps():
            if before == "thought" and turn.wish.thinking:
                self._thought_tokens += len(step.ids)
            if self._keeps:
                self._steps.append(step)
            try:
                events = tuple(turn.read(decoder.symbols))
            except (DuplicateKeyError, SchemaViolationError):
                if not decoder.is_truncated:
                    raise
                turn.is_void = True  # nothing of it counts, so the budget is what ended it
                break
            if self._tokens is not None:
                self._tokens.take(step, turn)
            yield events
            if turn.is_over:
                break
            self._pace(before)
            before = turn.place
        rest = () if turn.is_over else tuple(turn.end(decoder.symbols))
        if self._tokens is not None:
            self._tokens.take(None, turn)
        self._spoken = self._whole()
        if rest:
            yield rest

    def _pace(self, before: Place) -> None:
        """Limit a thought, and a text in front of a call, where one begins; and no more behind it."""
        wish, place = self._turn.wish, self._turn.place
        if place == before:
            return
        if place == "thought" and wish.thinking:
            self._decoder.section_budget = wish.thinking
        elif place == "text" and wish.text and wish.calls and not wish.no_call:
            self._decoder.section_budget = wish.text
        else:
            self._decoder.section_budget = None

    def _whole(self) -> TurnResult:
        decoder, turn = self._decoder, self._turn
        ended: How = "stop"
        if decoder.is_truncated or not (turn.is_over or decoder.matcher.is_terminated):
            ended = "length"
        elif turn.is_repeated:
            ended = "repeated"
        else:
            turn.check()
        parts = parts_of(decoder.symbols)
        return TurnResult(
            text=turn.text.decode(errors="replace"),
            thought=turn.thought.decode(errors="replace"),
            calls=() if ended == "length" else tuple(turn.calls),
            ended=ended,
            stop=turn.stopped,
            distribution=distribution(decoder.decisions, turn.spellings, turn.names),
            prompt_tokens=self._prompt_tokens,
            cached_tokens=decoder.stats.cached,
            tokens=len(decoder.matcher.ids),
            thought_tokens=self._thought_tokens,
            passes=decoder.stats.passes,
            seconds=self._clock() - self._started,
            raw="".join(
                part.decode(errors="replace")
                if isinstance(part, bytes)
                else (part if isinstance(part, str) else part.text)
                for part in parts
            ),
            logprobs=self.logprobs,
            steps=tuple(self._steps),
        )


class TurnReader:
    """Reads one turn as it is written, and keeps what counts.

    ``wish`` is what it may be. ``stops`` are texts that end it, within its text.
    """

    def __init__(
        self,
        form: Format,
        tools: Sequence[ToolSpec],
        validators: CallValidator,
        controls: frozenset[str],
        *,
        wish: OutputSpec,
        stops: Sequence[str] = (),
    ) -> None:
        self._reader = form.reader(tools, controls=controls, calls=wish.calls)
        self.wish = wish
        self._validators = validators
        self._given = len(wish.given)
        self._stops = [stop.encode() for stop in stops]
        self._seen = 0
        self.held = b""
        self.spellings = form.encoded_names(tools)
        self.names = [tool.name for tool in tools if tool.name in (wish.only or [tool.name])]
        self.text = bytearray()
        self.thought = bytearray()
        self.calls: list[ToolCall] = []
        self.is_repeated = False
        self.is_void = False
        self.stopped: str | None = None

    @property
    def place(self) -> Place:
        """Whether the turn stands in a thought, in a text, or in neither."""
        return self._reader.section

    @property
    def is_over(self) -> bool:
        """Whether nothing more counts, though the model may go on."""
        return self.is_repeated or self.is_void or self.stopped is not None

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
        yield from self._told(self.held)

    def check(self) -> None:
        """Look through an answer by a JSON Schema, once it is whole. Raises DuplicateKeyError, SchemaViolationError.

        A text in front of calls is none, nor is what a stop text cut off.
        """
        answer = self.wish.answer
        if answer is None or isinstance(answer, Grammar) or self.calls or self.stopped is not None:
            return
        self._validators.check_answer(self.text.decode(errors="replace"))

    def _events(self, events: Sequence[StreamEvent]) -> Iterator[StreamEvent]:
        for event in events:
            if self.is_over:
                return
            # Calls that stood there before are not told again.
            is_new = getattr(event, "index", self._given) >= self._given
            match event:
                case TextDelta():
                    yield from self._answered(event.data)
                    continue
                case CallStarted():
                    yield from self._told(self.held)
                case CallEnded():
                    self._ended(event.call)
                case ThoughtDelta():
                    self.thought += event.data
            if is_new and not self.is_repeated:
                yield event

    def _answered(self, data: bytes) -> Iterator[StreamEvent]:
        """Tell text, up to the first stop; keep back what may become one."""
        held = self.held + data
        found = [(at + len(stop), at, stop) for stop in self._stops if (at := held.find(stop)) >= 0]
        if found:
            # The one that is whole first: then it does not matter how the text was cut.
            _, at, stop = min(found)
            self.stopped = stop.decode()
            yield from self._told(held[:at])
            return
        keep = max(
            (
                size
                for stop in self._stops
                for size in range(min(len(stop) - 1, len(held)) + 1)
                if held.endswith(stop[:size])
            ),
            default=0,
        )
        yield from self._told(held[: len(held) - keep])
        self.held = held[len(held) - keep :]

    def _told(self, data: bytes) -> Iterator[StreamEvent]:
        self.held = b""
        self.text += data
        if data:
            yield TextDelta(data)

    def _ended(self, call: ToolCall) -> None:
        if len(self.calls) >= self._given:
            if any(call.meaning == one.meaning for one in self.calls):
                self.is_repeated = True
                return
            self._validators.check(call)
        self.calls.append(call)


class TextTokens:
    """Finds the tokens of a turn's text among all its tokens."""

    def __init__(self) -> None:
        self._written = bytearray()
        self._waiting: list[tuple[int, TokenLogprob]] = []
        self._start = -1
        self.found: list[TokenLogprob] = []

    def take(self, step: Step | None, turn: TurnReader) -> None:
        """Take one more step, after the turn has read it."""
        if step is not None and step.data:
            if step.logprob is not None and len(step.ids) == 1:
                token = TokenLogprob(step.data, step.logprob, step.before)
                self._waiting.append((len(self._written), token))
            self._written += step.data
        if turn.text and self._start < 0:
            # Nothing but what is held back has been written behind it.
            self._start = self._written.rfind(turn.text + turn.held)
        end = self._start + len(turn.text)
        while self._waiting and self._waiting[0][0] < end:
            at, token = self._waiting[0]
            if at >= self._start and at + len(token.data) > end:
                break  # told in part only, so far
            del self._waiting[0]
            if at >= self._start:
                self.found.append(token)


def run_to_end(turn: Generator[Any, None, TurnResult]) -> TurnResult:
    """Take a turn without looking at its events, and return the whole."""
    while True:
        try:
            next(turn)
        except StopIteration as stopped:
            spoken: TurnResult = stopped.value
            return spoken


def distribution(
    decisions: Sequence[tuple[Posterior, int]],
    spellings: Mapping[bytes, str],
    names: Sequence[str],
) -> dict[str | None, float]:
    """Return the probability of every name weighed for the first call, likeliest first.

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
