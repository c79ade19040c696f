"""Runs the calls of a conversation by plain Python functions: no ledger, no policy, no second process."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from callmemaybe.conversation.loop import correction
from callmemaybe.errors import InputError
from callmemaybe.generation.config import check_callable
from callmemaybe.generation.turn import in_thread
from callmemaybe.jsonio.reader import as_float, with_numbers
from callmemaybe.jsonio.writer import dumps
from callmemaybe.tools import Tool, ToolCall, ToolResult, plain_tool


class PythonExecutor:
    """Runs calls by plain Python functions, one after the other; see :func:`functions`."""

    def __init__(self, known: Mapping[str, Callable[..., Any]]) -> None:
        self._known = known

    def __call__(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Run the calls here. Raises InputError where one has to be awaited and an event loop runs."""
        from callmemaybe.gateway.settle import finished

        found = [self._function(call) for call in calls]
        if any(map(_is_async, found)) and _is_in_loop():
            raise InputError(
                "an event loop runs here already, so nothing can be awaited in another one",
                where="execute",
                hint="await Caller.arun in place of Caller.run",
            )
        return [
            _result(call, _tried(partial(_called, function, call, finished)))
            for function, call in zip(found, calls, strict=True)
        ]

    async def awaited(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Run the calls from an event loop: an `async def` in it, any other function in a thread."""
        found = [self._function(call) for call in calls]
        return [
            _result(call, await _awaited(function, call))
            for function, call in zip(found, calls, strict=True)
        ]

    def _function(self, call: ToolCall) -> Callable[..., Any]:
        function = self._known.get(call.name)
        if function is None:
            raise InputError(f"there is no function to run {call.name!r}")
        return function


def functions(*tools: Tool | Callable[..., Any], **named: Callable[..., Any]) -> PythonExecutor:
    """Return what runs calls by plain Python functions, one after the other.

    ``tools`` get what their type hints ask for, as with ``@tool``; functions without hints are given
    by name, and get numbers as :func:`json.loads` reads them, but a Decimal for one that no float is. A
    result that is no text is written as JSON, as a gateway writes it; what an `async def` returns is
    awaited. What a function raises becomes an error that the model can correct from. For effects that
    must not happen twice, use a ``Gateway`` instead (see ``through``). Raises InputError for what is no
    function, for a name that comes twice, and for a tool that needs what only a gateway passes.
    """
    for one in (*tools, *named.values()):
        check_callable(one, "functions")
    made = [plain_tool(one) for one in tools]
    given: list[tuple[str, Callable[..., Any]]] = [(one.name, one) for one in made]
    known: dict[str, Callable[..., Any]] = {}
    for name, function in (*given, *named.items()):
        if known.setdefault(name, function) is not function:
            raise InputError(f"two functions are called {name!r}", where="functions")
    return PythonExecutor(known)


@dataclass(frozen=True)
class _Raised:
    """What a function raised in place of a result."""

    error: Exception


def _tried(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        return _Raised(error)


def _called(function: Callable[..., Any], call: ToolCall, ended: Callable[[Any], Any]) -> Any:
    """Call the function, and return what ``ended`` makes of what it returns."""
    if isinstance(function, Tool) and function.signature is not None:
        return ended(function.call(function.bind(call.parsed)))  # which knows its kinds of numbers
    return ended(function(**with_numbers(call.parsed, as_float)))


async def _awaited(function: Callable[..., Any], call: ToolCall) -> Any:
    """Return what the function comes to, or what it raised."""
    from callmemaybe.gateway.settle import consumed, settled

    # No exception may come out of a thread: asyncio cannot carry a StopIteration.
    work = partial(_tried, partial(_called, function, call, consumed))
    found = work() if _is_async(function) else await in_thread(work)
    try:
        return await settled(found)
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
    return ToolResult(call.id, _written(found))


def _written(value: Any) -> str:
    """Write a result for the model; one that JSON cannot carry is no error, for the function ran."""
    from callmemaybe.jsonio.bounded import plain

    if isinstance(value, str) and not isinstance(value, Enum):
        return value
    try:
        return dumps(value, default=plain)
    except Exception as error:
        return f"done, but its result cannot be written as JSON: {error}"
