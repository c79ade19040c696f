"""Run the calls of a turn: by plain Python functions, or through a gateway."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from callmemaybe.conversation import Conversation, ModelTurn, UserMessage
from callmemaybe.conversation.loop import correction
from callmemaybe.errors import InputError
from callmemaybe.generation.config import check_callable
from callmemaybe.generation.turn import in_thread
from callmemaybe.jsonio import dumps, float_if_exact, map_decimals
from callmemaybe.tools import (
    Tool,
    ToolCall,
    ToolResult,
    references_as_pointers,
    tool_without_gateway,
)

if TYPE_CHECKING:
    from callmemaybe.gateway import Gateway, Run


class PythonExecutor:
    """Runs calls by plain Python functions, one after the other: no ledger, no policy, no second process.

    ``functions`` get what their type hints ask for, as with ``@tool``; functions in ``named`` are known by
    their keyword, whatever their hints, and get numbers as :func:`json.loads` reads them, but a Decimal for
    one that no float is. A result that is no text is written as JSON, as a gateway writes it; what an
    ``async def`` returns is awaited. What a function raises becomes an error that the model can correct
    itself by. For effects that must not happen twice, use :class:`GatewayExecutor`.

    Raises InputError for what is no function, for a name that comes twice, and for a tool that needs what
    only a gateway passes.
    """

    #: Whether calls come with references to results of earlier calls of the turn still in place.
    resolves_references = False

    def __init__(self, *functions: Tool | Callable[..., Any], **named: Callable[..., Any]) -> None:
        for one in (*functions, *named.values()):
            check_callable(one, "functions")
        tools = [tool_without_gateway(one) for one in functions]
        self._functions: dict[str, Callable[..., Any]] = {}
        given: list[tuple[str, Callable[..., Any]]] = [(tool.name, tool) for tool in tools]
        for name, function in (*given, *named.items()):
            if self._functions.setdefault(name, function) is not function:
                raise InputError(f"two functions are called {name!r}", where="functions")

    def __call__(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Run the calls here. Raises InputError where one has to be awaited and an event loop runs."""
        from callmemaybe.gateway.execution.completion import complete_result

        found = [self._function(call) for call in calls]
        if any(map(_is_async, found)) and _is_in_loop():
            raise InputError(
                "an event loop runs here already, so nothing can be awaited in another one",
                where="execute",
                hint="await Caller.arun in place of Caller.run",
            )
        return [
            _result(call, _attempt(partial(_run_function, function, call, complete_result)))
            for function, call in zip(found, calls, strict=True)
        ]

    async def execute(
        self,
        conversation: Conversation,  # noqa: ARG002 - functions know no conversation
        calls: Sequence[ToolCall],
    ) -> Sequence[ToolResult]:
        """Run the calls from an event loop: an `async def` in it, any other function in a thread."""
        found = [self._function(call) for call in calls]
        return [
            _result(call, await _await_function(function, call))
            for function, call in zip(found, calls, strict=True)
        ]

    def _function(self, call: ToolCall) -> Callable[..., Any]:
        function = self._functions.get(call.name)
        if function is None:
            raise InputError(f"there is no function to run {call.name!r}")
        return function


@dataclass
class GatewayExecutor:
    """Runs the calls of a conversation through a gateway: at most once, in the order they need.

    ``run`` names the gateway's run; with the same name, a conversation that was saved before its calls
    were answered goes on without running one of them twice. One that was lost and begins again with the same
    messages gets the turns that the ledger recorded, in place of new ones from the model; one that begins
    with other messages continues the run after its last turn. With ``wait_for_approvals`` a turn that needs a
    person's decision waits for it, by whomever and in whatever process it is made, as long as the approval is
    valid; without it the model is told that the approval is pending. The gateway gets the calls of a turn at
    once, with their references to each other, and the messages of the user. It has to be awaited: use
    ``Caller.arun``. Without a name it serves one conversation: raises InputError for another.
    """

    gateway: Gateway
    run: Run | str | None = None
    tenant: str = ""
    wait_for_approvals: bool = False
    _begun: Run | None = None
    _messages: int = 0
    _first: int = 0
    _conversation: Conversation | None = None

    #: Whether calls come with references to results of earlier calls of the turn still in place.
    resolves_references = True

    async def execute(
        self, conversation: Conversation, calls: Sequence[ToolCall]
    ) -> Sequence[ToolResult]:
        """Return the gateway's answers; its keys count the turns that called something."""
        begun = await self._enter(conversation)
        number = self._first + _count_turns(conversation) - 1
        whole = [*map(references_as_pointers, calls)]
        while True:
            answers = await self.gateway.run(whole, run=begun, turn=number)
            pending = [answer.approval for answer in answers if answer.approval]
            if not (pending and self.wait_for_approvals):
                return answers
            for approval in pending:
                await self.gateway.decision(approval)

    async def recorded(self, conversation: Conversation) -> Sequence[ToolCall]:
        """Return the calls that the ledger recorded as the next turn of this conversation.

        There are none if it has not come so far, or if arguments are not kept (sensitive ones, say). Then
        the model is asked, and other calls than the recorded ones are a key_conflict.
        """
        from callmemaybe.gateway.recorded import read_calls

        if self.run is None:
            return ()
        begun = await self._enter(conversation)
        number, ledger = self._first + _count_turns(conversation), self.gateway.ledger
        request = self.gateway.mac.of(begun.user)
        row = await ledger.read(
            lambda: ledger.backend.following_turn(begun.tenant, begun.id, number, request)
        )
        if row is None:
            return ()
        # Turns of which nothing was recorded are left out: all their calls were rejected.
        self._first += row.turn - number
        calls = [
            ToolCall(call.tool, call.arguments, call.call_id)
            for call in read_calls(row)
            if call.arguments is not None
        ]
        return calls if len(calls) == len(read_calls(row)) else ()

    async def _enter(self, conversation: Conversation) -> Run:
        """Return the run with the messages of the conversation; find its first turn in the ledger."""
        self._check_conversation(conversation)
        if self._begun is None:
            self._begun = await self._begin()
            self._first = await self._find_first_turn(self._begun, conversation)
        begun = self._begun
        texts = [entry.text for entry in conversation.entries if isinstance(entry, UserMessage)]
        for text in texts[self._messages :]:
            begun.add_user_message(text)
        self._messages = len(texts)
        return begun

    async def _find_first_turn(self, run: Run, conversation: Conversation) -> int:
        opening = [
            entry.text
            for entry in itertools.takewhile(lambda one: not _calls(one), conversation.entries)
            if isinstance(entry, UserMessage)
        ]
        request, ledger = self.gateway.mac.of([*run.user, *opening]), self.gateway.ledger

        def find() -> int:
            row = ledger.backend.following_turn(run.tenant, run.id, 0, request)
            return row.turn if row else ledger.backend.next_turn(run.tenant, run.id)

        return await ledger.read(find)

    async def _begin(self) -> Run:
        name, gateway = self.run, self.gateway
        if name is not None and not isinstance(name, str):
            return name
        # The store may be away for a moment, and nothing has happened yet.
        return await gateway.ledger.read(lambda: gateway.begin(name, tenant=self.tenant))

    def _check_conversation(self, conversation: Conversation) -> None:
        """Refuse another conversation: its turns have the numbers of the first one's.

        The gateway would take its calls for the first one's, come again, and would not run them.
        """
        if self.run is None and self._conversation not in (None, conversation):
            raise InputError(
                "a run without a name is of one conversation, and this is another", where="execute",
                hint="make a GatewayExecutor for each conversation, or name the run of one that goes on",
            )  # fmt: skip
        self._conversation = conversation


def _calls(entry: object) -> bool:
    return isinstance(entry, ModelTurn) and bool(entry.calls)


def _count_turns(conversation: Conversation) -> int:
    return sum(map(_calls, conversation.entries))


@dataclass(frozen=True)
class _Raised:
    """What a function raised in place of a result."""

    error: Exception


def _attempt(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        return _Raised(error)


def _run_function(function: Callable[..., Any], call: ToolCall, ended: Callable[[Any], Any]) -> Any:
    """Call the function, and return what ``ended`` makes of what it returns."""
    if isinstance(function, Tool) and function.signature is not None:
        return ended(function.call(function.bind(call.parsed)))  # which knows its kinds of numbers
    return ended(function(**map_decimals(call.parsed, float_if_exact)))


async def _await_function(function: Callable[..., Any], call: ToolCall) -> Any:
    """Return what the function comes to, or what it raised."""
    from callmemaybe.gateway.execution.completion import await_result, drain_generator

    # No exception may come out of a thread: asyncio cannot carry a StopIteration.
    work = partial(_attempt, partial(_run_function, function, call, drain_generator))
    found = work() if _is_async(function) else await in_thread(work)
    try:
        return await await_result(found)
    except Exception as error:
        return _Raised(error)


def _is_async(function: Callable[..., Any]) -> bool:
    inner = function.function if isinstance(function, Tool) else function
    return inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)


def _is_in_loop() -> bool:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _result(call: ToolCall, found: Any) -> ToolResult:
    if isinstance(found, _Raised):
        return ToolResult(call.id, correction(found.error, call.parsed), is_error=True)
    return ToolResult(call.id, _to_text(found))


def _to_text(value: Any) -> str:
    """Write a result for the model; one that JSON cannot carry is no error, for the function ran."""
    from callmemaybe.jsonio import to_json_value

    if isinstance(value, str) and not isinstance(value, Enum):
        return value
    try:
        return dumps(value, default=to_json_value)
    except Exception as error:
        return f"done, but its result cannot be written as JSON: {error}"
