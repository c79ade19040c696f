"""An event loop in a thread of its own, for what has to be awaited wherever tools are loaded and called.

Connections to MCP servers belong to one loop, while tools are loaded by plain code and called from the loop
of whoever runs them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")
#: Seconds that closing waits for the thread.
_CLOSE_SECONDS = 10.0


class BackgroundLoop:
    """A running event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="callmemaybe tools", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what ``work`` comes to in the loop; if the wait is interrupted, it is cancelled."""
        done = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return done.result()
        except BaseException:
            done.cancel()
            raise

    async def awaited(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what ``work`` comes to in the loop, from another loop.

        If the wait is cancelled, so is the work, and what it makes of that is what is raised or returned:
        that nothing was sent, say.
        """
        done: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            task = self._loop.create_task(work)
            task.add_done_callback(finish)
            tasks.append(task)

        def finish(task: asyncio.Task[T]) -> None:
            if task.cancelled():
                done.cancel()
                done.set_running_or_notify_cancel()
            elif (error := task.exception()) is not None:
                done.set_exception(error)
            else:
                done.set_result(task.result())

        def cancel(*reason: Any) -> None:
            for task in tasks:
                task.cancel(*reason)

        self._loop.call_soon_threadsafe(start)
        waiter = asyncio.wrap_future(done)
        try:
            return await asyncio.shield(waiter)
        except asyncio.CancelledError as error:
            if not waiter.cancelled():
                self._loop.call_soon_threadsafe(cancel, *error.args)
                return await waiter
            raise

    def close(self) -> None:
        """End the loop and its thread."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()
