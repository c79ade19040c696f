"""Takes a tool to its end: a call that returned an awaitable or a generator is not done yet.

What stands in an `async def` or after the first `yield` has not run when the function returns. It is
run here, as a part of the attempt, so that what it raises is the tool's failure and not a success
whose result cannot be shown.
"""

from __future__ import annotations

import inspect
from typing import Any


def is_pending(value: Any) -> bool:
    """Whether an event loop has to run before ``value`` is there."""
    return inspect.isawaitable(value) or inspect.isasyncgen(value)


async def settled(value: Any) -> Any:
    """Return what a tool's result comes to: awaited, and out of a generator as a list."""
    while True:
        if inspect.isawaitable(value):
            value = await value
        elif inspect.isasyncgen(value):
            value = [part async for part in value]
        elif inspect.isgenerator(value):
            value = list(value)
        else:
            return value


def consumed(value: Any) -> Any:
    """Return what a plain generator yields as a list, and any other value as it is."""
    is_plain = inspect.isgenerator(value) and not inspect.isawaitable(value)
    return list(value) if is_plain else value


def finished(value: Any) -> Any:
    """As :func:`settled`, in a thread that has no event loop; raises RuntimeError where one runs."""
    value = consumed(value)
    if not is_pending(value):
        return value
    import asyncio

    return asyncio.run(settled(value))
