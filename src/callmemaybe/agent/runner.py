"""Drives an agent: a model generates turns, tools run, until the model has answered.

The loop itself is :func:`callmemaybe.conversation.loop.conversation_loop`, which waits for nothing; here it
meets a model and an executor. One driver serves both faces: it yields what has to be waited for, and the
faces differ in how they wait.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal, Protocol, TypedDict, cast

from callmemaybe.agent.seen import SeenTexts
from callmemaybe.conversation import Conversation, FinishReason, UserMessage
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
from callmemaybe.generation.config import DecodingConfig, check_callable, check_settings, check_text
from callmemaybe.generation.result import TurnResult
from callmemaybe.generation.turn import TurnGenerator, in_thread
from callmemaybe.generation.validation import validator_of
from callmemaybe.jsonio import join_pointer, map_decimals
from callmemaybe.tools import StreamEvent, ToolCall, ToolLike, ToolResult, ToolSpec, tool_specs
from callmemaybe.wire.format_nodes import IdNode
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.tool_choice import output_spec

#: Tools offered where a call is required and the provider chose none.
MAX_FALLBACK_TOOLS = 8
#: Runs the calls of a turn and returns one result for each, in any order.
Execute = Callable[[Sequence[ToolCall]], Sequence[ToolResult]]
AsyncExecute = Callable[[Sequence[ToolCall]], Awaitable[Sequence[ToolResult]]]


class Executor(Protocol):
    """Runs calls for :meth:`AgentRunner.arun`; a plain function of the calls will do as well."""

    #: Whether calls come with references to results of earlier calls of the turn still in place.
    resolves_references: bool

    async def execute(
        self, conversation: Conversation, calls: Sequence[ToolCall]
    ) -> Sequence[ToolResult]:
        """Return one result for each call, in any order."""


class ToolProvider(Protocol):
    """Chooses the tools of each turn, as a ``ToolIndex`` does."""

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
    """The fields of :class:`RunConfig`, as keywords of ``Caller.run``."""

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
    decoding: DecodingConfig | None
    on_event: Callable[[StreamEvent], None] | None


@dataclass(frozen=True)
class RunConfig:
    """How an agent runs.

    ``steps`` (8) bounds the model's turns, ``repeats`` (1) how often one call may be made with the
    same arguments. ``clarify`` says what happens where a required argument is nowhere in the messages
    or results: "off" nothing, "ask" a question in place of the call, "model" the model words
    that question. ``tool_choice`` (as OpenAI writes it), ``parallel`` and ``most_calls`` are what
    the grammar allows; ``plan`` lets calls of a turn refer to results of earlier ones. ``thinking``
    and ``text`` are most tokens of thought, and of text in front of required calls. ``answer`` is the
    JSON Schema, or the grammar, of an answer. ``decoding`` is that of each turn; ``on_event`` gets what is
    written as it becomes certain.

    Raises InputError, naming the field, for values that cannot be met.
    """

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
    decoding: DecodingConfig | None = None
    on_event: Callable[[StreamEvent], None] | None = None

    def __post_init__(self) -> None:
        check_settings(vars(self), frozenset(("most_calls",)))
        if not isinstance(self.decoding, DecodingConfig | None):
            raise InputError(
                f"it must be DecodingConfig(...), not {self.decoding!r}", where="decoding"
            )
        for name in ("steps", "repeats"):
            if getattr(self, name) < 1:
                raise InputError("it must be at least 1", where=name)
        if self.clarify not in ("off", "ask", "model"):
            raise InputError(f"there is no policy {self.clarify!r}", where="clarify",
                             hint="use off, ask or model")  # fmt: skip
        if self.plan and (self.thinking or self.text):
            raise InputError("a plan has no place for thinking or text in front", where="plan")


class AgentRunner:
    """Lets a model call tools until it has answered.

    ``generator`` is the model (``Caller.generator``), ``tools`` what it may call: Python functions,
    definitions, or what chooses some for each turn, such as a ``ToolIndex``. A runner keeps nothing of a
    run; one conversation is driven by one run at a time. Raises InputError for tools that are none.
    """

    def __init__(
        self,
        generator: TurnGenerator,
        tools: Iterable[ToolLike] | ToolProvider,
        config: RunConfig | None = None,
    ) -> None:
        self._generator = generator
        self._tools = _provided(tools)
        self._config = config or RunConfig()

    def run(self, conversation: str | Conversation, execute: Execute) -> RunResult:
        """Run until the model has answered; return the conversation and why it ended.

        ``conversation`` is a request, or a conversation that has something to answer. ``execute`` gets the
        calls of a turn and returns a ``ToolResult`` for each, in any order (``PythonExecutor`` makes one of
        functions).

        Raises ConversationError for results that do not belong to the calls, and what ``execute`` raises:
        the conversation then waits for the results and can be run on.
        """
        if getattr(execute, "resolves_references", False):
            raise InputError("a gateway has to be awaited; use arun", where="execute")
        check_callable(execute, "execute")
        driver = self._run(conversation).drive()
        reply: Any = None
        while True:
            try:
                need = driver.send(reply)
            except StopIteration as stopped:
                result: RunResult = stopped.value
                return result
            reply = execute(need.calls) if isinstance(need, ExecuteCalls) else None

    async def arun(
        self, conversation: str | Conversation, execute: AsyncExecute | Executor
    ) -> RunResult:
        """Run as :meth:`run` does; the model takes each step in a thread, ``execute`` is awaited.

        Cancelling it ends the model's turn with the step it is in, and discards that turn.
        """
        check_callable(getattr(execute, "execute", execute), "execute")
        run = self._run(conversation)
        driver = run.drive(is_whole=getattr(execute, "resolves_references", False))
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
                    result: RunResult = need[1]
                    return result
                if need is None:
                    reply = None
                elif isinstance(need, GenerateTurn):
                    recorded = getattr(execute, "recorded", None)
                    reply = await recorded(run.conversation) if recorded else None
                elif hasattr(execute, "execute"):
                    reply = await execute.execute(run.conversation, need.calls)
                else:
                    found: Any = execute(need.calls)
                    reply = await found if inspect.isawaitable(found) else found
        finally:
            driver.close()

    def _run(self, conversation: str | Conversation) -> _AgentRun:
        if not isinstance(conversation, Conversation):
            check_text(conversation, "conversation")
            text, conversation = conversation, Conversation()
            conversation.take(UserMessage("user", text))
        return _AgentRun(self._generator, self._tools, conversation, self._config)


def _provided(tools: Iterable[ToolLike] | ToolProvider) -> ToolProvider | Sequence[ToolSpec]:
    return cast("ToolProvider", tools) if hasattr(tools, "choose") else tool_specs(tools)


@dataclass
class _AgentRun:
    """One run of one conversation."""

    generator: TurnGenerator
    tools: ToolProvider | Sequence[ToolSpec]
    conversation: Conversation
    config: RunConfig
    turns: list[TurnResult] = field(default_factory=list)
    _offered: Sequence[ToolSpec] = ()

    def drive(self, *, is_whole: bool = False) -> Generator[LoopRequest | None, Any, RunResult]:
        """Yield the calls to run, and None after each step of the model; return the result.

        With ``is_whole`` each turn is yielded, too, before the model is asked: the calls that are sent back,
        if there are any, are the turn.
        """
        loop = self._loop(is_whole)
        reply: LoopReply | None = None
        while True:
            try:
                need = loop.send(reply)
            except StopIteration as stopped:
                return self._result(stopped.value)
            if isinstance(need, ExecuteCalls):
                reply = yield need
            elif is_whole and need.may_call and (recorded := (yield need)):
                self._offered = self._choose_tools()
                reply = ModelReply("", tuple(recorded))
            else:
                reply = yield from self._reply(need)

    def _loop(self, is_whole: bool) -> Generator[LoopRequest, LoopReply | None, LoopEnd]:
        own = self.generator.format.has_ids or self.config.plan
        rules = LoopConfig(
            self.config.steps, self.config.repeats, self.config.clarify, self._missing,
            check=self._check, format_id=self._spell_id, keep_references=is_whole,
        )  # fmt: skip
        return conversation_loop(self.conversation, rules, model_ids=own)

    def _result(self, reason: LoopEnd) -> RunResult:
        last = self.conversation.entries[-1]
        return RunResult(self.conversation, getattr(last, "text", ""), reason, tuple(self.turns))

    # -- the model's turns ------------------------------------------------------------------------

    def _reply(self, ask: GenerateTurn) -> Generator[None, None, ModelReply]:
        messages = self.conversation.messages()
        if ask.hint:
            messages.append({"role": "user", "content": ask.hint})
        self._offered = self._choose_tools()
        spec = self._spec(ask)
        decoding = self.config.decoding
        if self.config.plan and spec.calls:
            turn = self.generator.stream_plan(
                messages, self._offered, most=self.config.most_calls or 4, spec=spec,
                decoding=decoding, taken=self.conversation.ids,
            )  # fmt: skip
        else:
            turn = self.generator.stream(messages, self._offered, spec, decoding)
        try:
            for events in turn:
                for event in events:
                    if self.config.on_event is not None:
                        self.config.on_event(event)
                yield
        except (DuplicateKeyError, SchemaViolationError) as error:
            if error.function is None or self.config.plan:
                raise
            return _invalid(ToolCall(error.function, error.text), error)
        finally:
            turn.close()
        result = turn.result
        self.turns.append(result)
        ended = FinishReason.LENGTH if result.ended == "length" else FinishReason.STOP
        return ModelReply(result.text, result.calls, ended)

    def _choose_tools(self) -> Sequence[ToolSpec]:
        """Return the tools for this turn; those that the choice names are always among them."""
        if isinstance(self.tools, Sequence):
            return self.tools
        offered = list(self.tools.choose(self.conversation))
        every = self._all_tools()
        choice = self.config.tool_choice
        names = {*(output_spec(choice).only or ())} - {tool.name for tool in offered}
        if names:
            offered += [tool for tool in every if tool.name in names]
        if not offered and choice == "required":
            offered += every[:MAX_FALLBACK_TOOLS]
        return offered

    def _all_tools(self) -> Sequence[ToolSpec]:
        """Return all tools that there are, as far as the provider names them."""
        tools: Sequence[ToolSpec] = getattr(self.tools, "tools", ())
        return self.tools if isinstance(self.tools, Sequence) else tools

    def _spec(self, ask: GenerateTurn) -> OutputSpec:
        config = self.config
        spec = output_spec(
            config.tool_choice,
            has_tools=bool(self._offered),
            parallel=config.parallel or config.plan,
            most=config.most_calls,
            answer=config.answer,
            thinking=config.thinking,
            text=config.text,
        )
        if not ask.may_call:
            return replace(spec, calls=False, no_call=True, only=None, text=0)
        # A call that was required has been made once there is any: then an answer may come.
        return replace(spec, no_call=spec.no_call or bool(self.conversation.ids))

    def _spell_id(self, call_id: str) -> str:
        length = self.generator.format.id_length
        return call_id if length is None else IdNode(length).encode(call_id)

    def _check(self, call: ToolCall) -> None:
        """Check the arguments of a call against the tool's schema, by an independent validator."""
        # A run that goes on with calls which were waiting has offered nothing yet.
        tools = self._offered or self._all_tools()
        tool = next((one for one in tools if one.name == call.name), None)
        validator = None if tool is None else validator_of(tool)
        wrong = None if validator is None else validator.first_error(call.parsed)
        if wrong is not None:
            raise InputError(wrong.message, where=f"/arguments{join_pointer(wrong.instance_path)}")

    def _missing(self, call: ToolCall, conversation: Conversation) -> Sequence[str]:
        """Return the required arguments whose values occur in no message and no result."""
        tool = next(one for one in self._offered if one.name == call.name)
        seen = SeenTexts(
            one.text if isinstance(one, UserMessage) else one.content
            for one in conversation.entries
            if isinstance(one, UserMessage | ToolResult)
        )
        given = {name: value for name, value in call.parsed.items() if _is_groundable(value)}
        required = tool.parameters.get("required") or ()
        properties = tool.parameters.get("properties") or {}
        return [
            name
            for name, value in map_decimals(given, _plain_number).items()
            if name in required and not seen.hold(value, properties.get(name))
        ]


def _invalid(call: ToolCall, error: DuplicateKeyError | SchemaViolationError) -> ModelReply:
    """Return a call that is not run, and what is wrong with it, for the model to correct."""
    if isinstance(error, DuplicateKeyError):
        wrong = InputError(f"the key {error.key!r} is there twice", where="/arguments")
    else:
        wrong = InputError(error.problem, where=f"/arguments{error.pointer}")
    return ModelReply("", (call,), problem=correction(wrong, call.parsed))


def _is_groundable(value: Any) -> bool:
    """Whether a value can occur in a text; booleans and references cannot."""
    return not isinstance(value, bool) and not (isinstance(value, dict) and "$ref" in value)


def _plain_number(value: Decimal) -> Any:
    """Write 3.0 as people do: 3."""
    return int(value) if value == value.to_integral_value() else value
