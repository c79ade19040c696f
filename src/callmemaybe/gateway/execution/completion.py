"""Completes what a tool's function returned: an awaitable or a generator has not done its work yet.

The body of an ``async def``, and what follows the first ``yield``, have not run when the function returns.
They run here, as part of the attempt, so that an exception in them is the tool's failure and not a
success whose result cannot be written.
"""

from __future__ import annotations

import inspect
from typing import Any


def needs_event_loop(value: Any) -> bool:
    """Whether ``value`` can only be completed in an event loop."""
    return inspect.isawaitable(value) or inspect.isasyncgen(value)


async def await_result(value: Any) -> Any:
    """Complete a tool's return value: await awaitables, collect generators into a list."""
    while True:
        if inspect.isawaitable(value):
            value = await value
        elif inspect.isasyncgen(value):
            value = [part async for part in value]
        elif inspect.isgenerator(value):
            value = list(value)
        else:
            return value


def drain_generator(value: Any) -> Any:
    """Return the items of a plain generator as a list, and any other value as it is."""
    is_plain = inspect.isgenerator(value) and not inspect.isawaitable(value)
    return list(value) if is_plain else value


def complete_result(value: Any) -> Any:
    """As :func:`await_result`, in a thread without an event loop; raises RuntimeError if one runs."""
    value = drain_generator(value)
    if not needs_event_loop(value):
        return value
    import asyncio

    return asyncio.run(await_result(value))
