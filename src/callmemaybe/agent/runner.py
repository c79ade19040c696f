"""Drives the loop of an agent: a local model speaks, tools run, until the model has answered.

The loop itself is :func:`callmemaybe.conversation.loop.conversation_loop`; here it meets a model and whoever
runs the calls. One driver serves both faces: it hands out what has to be waited for, and the faces
differ in how they wait.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

from callmemaybe.agent.executors import PythonExecutor
from callmemaybe.conversation import Conversation, FinishReason, ModelTurn, UserMessage
from callmemaybe.conversation.loop import (
    ExecuteCalls,
    GenerateTurn,
    LoopConfig,
    LoopEnd,
    LoopReply,
    LoopRequest,
    ModelReply,
    conversation_loop,
    correction,
)
from callmemaybe.errors import DuplicateKeyError, InputError, SchemaViolationError
from callmemaybe.generation.config import check_callable, check_settings
from callmemaybe.generation.local import DecodingConfig, LocalGenerator
from callmemaybe.generation.turn import TurnResult, in_thread
from callmemaybe.generation.validation import pointer_of, validator_of
from callmemaybe.jsonio.reader import with_numbers
from callmemaybe.tools import StreamEvent, ToolCall, ToolResult, ToolSpec, pointed
from callmemaybe.wire.format_nodes import IdNode
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.tool_choice import output_spec

if TYPE_CHECKING:
    from callmemaybe.gateway import Gateway, Run
    from callmemaybe.generation.remote_turns import RemoteGenerator

#: Tools offered where a call is required and none fits what was said.
MOST_UNASKED = 8
#: Runs the calls of a turn and returns one result for each.
Execute_ = Callable[[Sequence[ToolCall]], Sequence[ToolResult]]
AsyncExecute = Callable[[Sequence[ToolCall]], Awaitable[Sequence[ToolResult]]]


class ToolProvider(Protocol):
    """Where tools for a turn come from."""

    def choose(self, conversation: Conversation) -> Sequence[ToolSpec]:
        """Return the tools to offer now."""


@dataclass(frozen=True)
class RunResult:
    """What a run came to: the conversation, the last text, why it ended, and each turn.

    ``reason`` is "answered", "asked" (a question back), "steps" (the limit), "repeated" (only calls
    that were made before were left), "length" (the token budget ended a turn) or "stopped".
    """

    conversation: Conversation
    text: str
    reason: LoopEnd
    turns: tuple[TurnResult, ...] = ()


class RunKeywords(TypedDict, total=False):
    """The settings of a run, as keywords; see ``RunConfig``."""

    steps: int
    repeats: int
    clarify: Literal["off", "ask", "model"]
    tool_choice: str | Mapping[str, Any] | None
    parallel: bool
    most_calls: int | None
    plan: bool
    thinking: int
    text: int
    answer: Any
    options: DecodingConfig | None
    on_event: Callable[[StreamEvent], None] | None


@dataclass(frozen=True)
class RunConfig:
    """How a run goes: see ``Caller.run``."""

    steps: int = 8
    repeats: int = 1
    clarify: Literal["off", "ask", "model"] = "off"
    tool_choice: str | Mapping[str, Any] | None = None
    parallel: bool = False
    most_calls: int | None = None
    plan: bool = False
    thinking: int = 0
    text: int = 0
    answer: Any = None
    options: DecodingConfig | None = None
    on_event: Callable[[StreamEvent], None] | None = None

    def __post_init__(self) -> None:
        check_settings(vars(self), frozenset(("most_calls",)))
        if not isinstance(self.options, DecodingConfig | None):
            raise InputError(f"it must be Options(...), not {self.options!r}", where="options")
        for name in ("steps", "repeats"):
            if getattr(self, name) < 1:
                raise InputError("it must be at least 1", where=name)
        if self.clarify not in ("off", "ask", "model"):
            raise InputError(f"there is no policy {self.clarify!r}", where="clarify",
                             hint="use off, ask or model")  # fmt: skip
        if self.plan and (self.thinking or self.text):
            raise InputError("a plan has no place for thinking or text in front", where="plan")


@dataclass
class GatewayExecutor:
    """Runs the calls of a conversation through a gateway: at most once, in the order they need.

    ``run`` names the gateway's run; with the same name, a conversation that was saved before its calls
    were answered goes on without running one of them twice. The gateway gets the calls of a turn at
    once, with their references to each other, and hears what the person said. For ``Caller.arun``.
    Without a name it is of one conversation: raises InputError where it meets another.
    """

    gateway: Gateway
    run: Run | str | None = None
    tenant: str = ""
    _begun: Run | None = None
    _heard: int = 0
    _of: Conversation | None = None

    async def turn(
        self, conversation: Conversation, calls: Sequence[ToolCall]
    ) -> Sequence[ToolResult]:
        """Return the gateway's answers; its keys count the turns that called something."""
        self._check_whose(conversation)
        if self._begun is None:
            self._begun = await self._begin()
        begun = self._begun
        said = [entry.text for entry in conversation.entries if isinstance(entry, UserMessage)]
        for text in said[self._heard :]:
            begun.say(text)
        self._heard = len(said)
        number = (
            sum(isinstance(one, ModelTurn) and bool(one.calls) for one in conversation.entries) - 1
        )
        return await self.gateway.run([*map(pointed, calls)], run=begun, turn=number)

    async def _begin(self) -> Run:
        name, gateway = self.run, self.gateway
        if name is not None and not isinstance(name, str):
            return name
        # The store may be away for a moment, and nothing has happened yet.
        return await gateway.ledger.read(lambda: gateway.begin(name, tenant=self.tenant))

    def _check_whose(self, conversation: Conversation) -> None:
        """Refuse another conversation: its turns have the numbers of the first one's.

        The gateway would take its calls for the first one's, come again, and would not run them.
        """
        if self.run is None and self._of not in (None, conversation):
            raise InputError(
                "a run without a name is of one conversation, and this is another", where="through",
                hint="make a `through` for each conversation, or name the run of one that goes on",
            )  # fmt: skip
        self._of = conversation


@dataclass
class AgentRunner:
    """One run of one conversation."""

    speaker: LocalGenerator | RemoteGenerator
    shelf: ToolProvider | Sequence[ToolSpec]
    conversation: Conversation
    settings: RunConfig
    turns: list[TurnResult] = field(default_factory=list)
    _offered: Sequence[ToolSpec] = ()

    def run(self, execute: Execute_) -> RunResult:
        """Run to the end."""
        if isinstance(execute, GatewayExecutor):
            raise InputError("a gateway has to be awaited; use arun", where="execute")
        check_callable(execute, "execute")
        driver = self._driver()
        reply: Any = None
        while True:
            try:
                need = driver.send(reply)
            except StopIteration as stopped:
                ran: RunResult = stopped.value
                return ran
            reply = execute(need.calls) if need is not None else None

    async def arun(self, execute: AsyncExecute | GatewayExecutor | PythonExecutor) -> RunResult:
        """Run to the end; the model takes each step in a thread, tools are awaited."""
        check_callable(getattr(execute, "turn", execute), "execute")
        driver = self._driver(is_whole=isinstance(execute, GatewayExecutor))
        reply: Any = None
        over = object()

        def step() -> Any:
            try:
                return driver.send(reply)
            except StopIteration as stopped:
                return over, stopped.value

        try:
            while True:
                need = await in_thread(step)
                if isinstance(need, tuple) and need[0] is over:
                    ran: RunResult = need[1]
                    return ran
                if need is None:
                    reply = None
                elif isinstance(execute, GatewayExecutor):
                    reply = await execute.turn(self.conversation, need.calls)
                elif isinstance(execute, PythonExecutor):
                    reply = await execute.awaited(need.calls)
                else:
                    found: Any = execute(need.calls)
                    reply = await found if inspect.isawaitable(found) else found
        finally:
            driver.close()

    def _driver(self, *, is_whole: bool = False) -> Generator[ExecuteCalls | None, Any, RunResult]:
        """Yield the calls to run, and None after each step of the model; return what came of it."""
        loop = self._loop(is_whole)
        reply: LoopReply | None = None
        while True:
            try:
                need = loop.send(reply)
            except StopIteration as stopped:
                return self._ran(stopped.value)
            reply = (
                (yield need) if isinstance(need, ExecuteCalls) else (yield from self._heard(need))
            )

    def _loop(self, is_whole: bool) -> Generator[LoopRequest, LoopReply | None, LoopEnd]:
        own = self.speaker.format.has_ids or self.settings.plan
        rules = LoopConfig(
            self.settings.steps, self.settings.repeats, self.settings.clarify, self._missing,
            check=self._check, format_id=self._spell_id, keep_references=is_whole,
        )  # fmt: skip
        return conversation_loop(self.conversation, rules, model_ids=own)

    def _ran(self, reason: LoopEnd) -> RunResult:
        last = self.conversation.entries[-1]
        return RunResult(self.conversation, getattr(last, "text", ""), reason, tuple(self.turns))

    # -- the model's turns ------------------------------------------------------------------------

    def _heard(self, ask: GenerateTurn) -> Generator[None, None, ModelReply]:
        messages = self.conversation.messages()
        if ask.hint:
            messages.append({"role": "user", "content": ask.hint})
        self._offered = self._on_offer()
        wish = self._wish(ask)
        options = self.settings.options
        if self.settings.plan and wish.calls:
            turn = self.speaker.planning(
                messages, self._offered, most=self.settings.most_calls or 4, wanted=wish,
                options=options, taken=self.conversation.ids,
            )  # fmt: skip
        else:
            turn = self.speaker.speaking(messages, self._offered, wish, options)
        try:
            while True:
                for event in next(turn):
                    if self.settings.on_event is not None:
                        self.settings.on_event(event)
                yield
        except StopIteration as stopped:
            spoken: TurnResult = stopped.value
        except (DuplicateKeyError, SchemaViolationError) as error:
            if error.function is None or self.settings.plan:
                raise
            return _void(ToolCall(error.function, error.text), error)
        finally:
            turn.close()
        self.turns.append(spoken)
        ended = FinishReason.LENGTH if spoken.ended == "length" else FinishReason.STOP
        return ModelReply(spoken.text, spoken.calls, ended)

    def _on_offer(self) -> Sequence[ToolSpec]:
        """Return the tools for this turn; those that the choice names are always among them."""
        if isinstance(self.shelf, Sequence):
            return self.shelf
        offered = list(self.shelf.choose(self.conversation))
        every = self._every()
        choice = self.settings.tool_choice
        names = {*(output_spec(choice).only or ())} - {tool.name for tool in offered}
        if names:
            offered += [tool for tool in every if tool.name in names]
        if not offered and choice == "required":
            offered += every[:MOST_UNASKED]
        return offered

    def _every(self) -> Sequence[ToolSpec]:
        """Return all tools that there are, as far as the shelf says so."""
        tools: Sequence[ToolSpec] = getattr(self.shelf, "tools", ())
        return self.shelf if isinstance(self.shelf, Sequence) else tools

    def _wish(self, ask: GenerateTurn) -> OutputSpec:
        settings = self.settings
        wish = output_spec(
            settings.tool_choice,
            has_tools=bool(self._offered),
            parallel=settings.parallel or settings.plan,
            most=settings.most_calls,
            answer=settings.answer,
            thinking=settings.thinking,
            text=settings.text,
        )
        if not ask.may_call:
            return replace(wish, calls=False, no_call=True, only=None, text=0)
        # A call that was required has been made once there is any: then an answer may come.
        return replace(wish, no_call=wish.no_call or bool(self.conversation.ids))

    def _spell_id(self, call_id: str) -> str:
        length = self.speaker.format.id_length
        return call_id if length is None else IdNode(length).encode(call_id)

    def _check(self, call: ToolCall) -> None:
        """Check the arguments of a call against the tool's schema, by an independent validator."""
        # A run that goes on with calls which were waiting has offered nothing yet.
        tools = self._offered or self._every()
        tool = next((one for one in tools if one.name == call.name), None)
        validator = None if tool is None else validator_of(tool)
        wrong = None if validator is None else next(validator.iter_errors(call.parsed), None)
        if wrong is not None:
            raise InputError(wrong.message, where=f"/arguments{pointer_of(wrong.instance_path)}")

    def _missing(self, call: ToolCall, conversation: Conversation) -> Sequence[str]:
        """Return the required arguments whose values are nowhere in what was said or returned."""
        from callmemaybe.gateway.provenance import Origin, label

        tool = next(one for one in self._offered if one.name == call.name)
        said = [entry.text for entry in conversation.entries if isinstance(entry, UserMessage)]
        results = [one.content for one in conversation.entries if isinstance(one, ToolResult)]
        given = {name: value for name, value in call.parsed.items() if _can_be_said(value)}
        arguments = with_numbers(given, _as_said)
        labels = label(arguments, tool.parameters, user=said, untrusted=results)
        invented = {one.pointer for one in labels if one.origin is Origin.UNGROUNDED}
        required = tool.parameters.get("required") or ()
        return [
            name
            for name in arguments
            if name in required
            and any(place == f"/{name}" or place.startswith(f"/{name}/") for place in invented)
        ]


def _void(call: ToolCall, error: DuplicateKeyError | SchemaViolationError) -> ModelReply:
    """Return a call that is not made, and what is wrong with it in words that a model can correct it by."""
    if isinstance(error, DuplicateKeyError):
        wrong = InputError(f"the key {error.key!r} is there twice", where="/arguments")
    else:
        wrong = InputError(error.problem, where=f"/arguments{error.pointer}")
    return ModelReply("", (call,), problem=correction(wrong, call.parsed))


def _can_be_said(value: Any) -> bool:
    """Whether a value would be found in words; true and false are not, nor references."""
    return not isinstance(value, bool) and not (isinstance(value, dict) and "$ref" in value)


def _as_said(value: Decimal) -> Any:
    """Spell 3.0 as people do: 3."""
    return int(value) if value == value.to_integral_value() else value


def through(gateway: Gateway, run: Run | str | None = None, *, tenant: str = "") -> GatewayExecutor:
    """Return what runs calls through a gateway, for ``Caller.arun``; see :class:`GatewayExecutor`."""
    return GatewayExecutor(gateway, run, tenant)
