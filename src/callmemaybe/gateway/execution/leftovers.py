"""What goes on of an attempt in this process after its time is over: its coroutine, and its threads.

A thread cannot be stopped. ``asyncio.to_thread`` and ``loop.run_in_executor`` give up waiting for it when the
attempt is cancelled, so the threads of an attempt are counted here, where the loop's own executor gets their
work. Threads that a tool starts by other means, and tasks that it starts and does not await, are not known.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from callmemaybe.gateway.execution.outcome import AttemptOutcome, unsafe_sends

Threads = list[concurrent.futures.Future[Any]]
#: The work in threads of the attempt that runs here. Each attempt is a task with a context of its own.
_threads: contextvars.ContextVar[Threads | None] = contextvars.ContextVar(
    "threads of the attempt", default=None
)
#: The loops whose executor counts.
_counting: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
#: Pieces of work from which on those that have ended are dropped from the list.
_MANY = 64


def new_context() -> tuple[contextvars.Context, Threads]:
    """Return the context for an attempt, and the list that its work in threads is added to."""
    loop = asyncio.get_running_loop()
    if loop not in _counting:
        _counting.add(loop)
        loop.set_default_executor(_CountingExecutor(getattr(loop, "_default_executor", None)))
    threads: Threads = []
    context = contextvars.copy_context()
    context.run(_threads.set, threads)
    context.run(unsafe_sends.set, [])
    return context, threads


class _CountingExecutor(ThreadPoolExecutor):
    """The event loop's executor, which adds what an attempt submits to the attempt's list.

    ``inner`` is the executor that the loop had before; its threads do the work.
    """

    def __init__(self, inner: ThreadPoolExecutor | None) -> None:
        super().__init__(thread_name_prefix="asyncio")
        self._inner = inner

    def submit(
        self, function: Callable[..., Any], /, *args: Any, **named: Any
    ) -> concurrent.futures.Future[Any]:
        """Submit as the executor below does."""
        submit = super().submit if self._inner is None else self._inner.submit
        future = submit(function, *args, **named)
        threads = _threads.get()
        if threads is not None:
            threads.append(future)
            if len(threads) > _MANY:
                threads[:] = [one for one in threads if not one.done()]
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shut both executors down."""
        if self._inner is not None:
            self._inner.shutdown(wait, cancel_futures=cancel_futures)
        super().shutdown(wait, cancel_futures=cancel_futures)


def still_running(task: asyncio.Future[Any], threads: Threads) -> bool:
    """Whether anything of an attempt still runs."""
    return not task.done() or not all(future.done() for future in threads)


async def wait_until_ended(
    task: asyncio.Future[Any],
    threads: Threads,
    outcome_of: Callable[[asyncio.Future[Any]], AttemptOutcome],
    otherwise: AttemptOutcome,
) -> AttemptOutcome:
    """Wait until nothing of the attempt runs; return its late outcome, if it is one, else ``otherwise``."""
    if not task.done():
        await asyncio.wait((task,))
    while pending := [future for future in threads if not future.done()]:
        await asyncio.wait([asyncio.wrap_future(future) for future in pending])
    if not task.cancelled():
        late = outcome_of(task)
        if late.kind in {"returned", "unrepresentable"}:
            return late
        if late.kind == "not_executed" and not threads:
            return late
    return otherwise
