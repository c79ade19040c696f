"""Runs a tool's function once: in the event loop, a thread, a warm or a fresh process.

It never retries and never decides; it says what one attempt came to (``Outcome``).
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from callmemaybe.gateway.outcome import GIVEN_UP, Outcome, describe, represented
from callmemaybe.gateway.settle import consumed, finished, is_pending, settled
from callmemaybe.gateway.worker import frame
from callmemaybe.tools.declare import Context, Mode, ProcessLimits, Tool

_WORKER = Path(__file__).with_name("worker.py")
_GRACE = 1.0


class Executor:
    """Runs attempts; owns the worker processes. ``processes`` is how many run at once."""

    def __init__(self, *, most: int, depth: int, processes: int | None = None) -> None:
        self._most = most
        self._depth = depth
        self._slots = asyncio.Semaphore(processes or min(8, (os.cpu_count() or 2) * 2))
        self._idle: dict[ProcessLimits, list[_Worker]] = {}
        self._closed = False

    async def run(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: Context,
        secrets: Mapping[str, str],
        timeout: float | None,
        patience: float | None = None,
        values: dict[str, Any] | None = None,
    ) -> Outcome:
        """Run ``tool`` once with JSON ``arguments``; give up on it after ``timeout`` seconds.

        And ``patience`` seconds from now, if it has to wait for a process until it may begin.
        ``values`` are the arguments as the function's own values, where they are at hand.
        """
        if tool.mode in {Mode.PROCESS, Mode.FRESH}:
            request = self._request(tool, arguments, context, secrets)
            if request is None:  # its module was loaded again, or dropped it
                why = "another process cannot find it in its module any more"
                return Outcome("not_executed", why)
            return await self._in_process(tool, request, timeout, patience)
        try:
            if values is None:
                values = tool.bind(arguments)
            values = passed(tool, values, context, secrets)
        except Exception as error:
            return Outcome("not_executed", describe(error).text)
        if tool.mode is Mode.ASYNC:
            return await self._in_loop(_called(tool, values), timeout)
        return await self._in_thread(tool, values, timeout)

    async def close(self) -> None:
        """End the worker processes."""
        self._closed = True
        for workers in self._idle.values():
            for worker in workers:
                await worker.kill()
        self._idle.clear()

    def _done(self, task: asyncio.Future[Any]) -> Outcome:
        if task.cancelled():
            return Outcome("died", "the tool was cancelled")
        error = task.exception()
        if error is not None:
            return describe(error)
        return represented(task.result(), most=self._most, depth=self._depth)

    async def _in_loop(self, coroutine: Awaitable[Any], timeout: float | None) -> Outcome:
        task = asyncio.ensure_future(coroutine)
        if await _over(task, timeout):
            return self._done(task)
        task.cancel(GIVEN_UP)
        # A coroutine may refuse to be cancelled; it is not waited for beyond a grace.
        if await _over(task, _GRACE) and not task.cancelled():
            outcome = self._done(task)
            if outcome.kind in {"returned", "not_executed"}:
                return outcome
        return Outcome("timed_out", "it did not return in time")

    async def _in_thread(
        self, tool: Tool, values: Mapping[str, Any], timeout: float | None
    ) -> Outcome:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        future: asyncio.Future[Any] = loop.create_future()
        copied = contextvars.copy_context()

        def report(setter: Callable[[Any], None], value: Any) -> None:
            if not future.done():
                setter(value)

        def work() -> None:
            try:
                value = copied.run(call_with, tool, values)
                setter = future.set_result
            except StopIteration as error:
                value, setter = RuntimeError(f"StopIteration: {error}"), future.set_exception
            except BaseException as error:
                value, setter = error, future.set_exception
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(report, setter, value)

        threading.Thread(target=work, name=f"tool {tool.name}", daemon=True).start()
        if not await _over(future, timeout):
            future.cancel()
            return Outcome("timed_out", "it did not return in time")
        if future.exception() is None and is_pending(future.result()):
            # A plain function around an `async def`: its clients belong to this loop, not to a new one.
            left = None if timeout is None else timeout - (loop.time() - begun)
            return await self._in_loop(settled(future.result()), left)
        return self._done(future)

    def _request(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: Context,
        secrets: Mapping[str, str],
    ) -> dict[str, Any] | None:
        if tool.location is None:
            return None
        module, file, name = tool.location
        return {
            "module": module,
            "file": file,
            "name": name,
            "arguments": arguments,
            "context": asdict(context),
            "secrets": dict(secrets),
            "most": self._most,
            "depth": self._depth,
        }

    async def _in_process(
        self,
        tool: Tool,
        request: Mapping[str, Any],
        timeout: float | None,
        patience: float | None,
    ) -> Outcome:
        loop = asyncio.get_running_loop()
        until = None if patience is None else loop.time() + patience
        try:
            async with asyncio.timeout(patience):
                await self._slots.acquire()
        except TimeoutError:
            return Outcome("not_executed", "no process was free in time")
        try:
            try:
                worker = await self._worker(tool)
            except OSError as error:  # too many open files or processes, say
                return Outcome("not_executed", f"no process could be started: {error}")
            if timeout is not None and until is not None:
                timeout = min(timeout, until - loop.time())
            return await self._asked(worker, tool, request, timeout)
        finally:
            self._slots.release()

    async def _asked(
        self, worker: _Worker, tool: Tool, request: Mapping[str, Any], timeout: float | None
    ) -> Outcome:
        reply = asyncio.ensure_future(worker.ask(request))
        if not await _over(reply, timeout):
            reply.cancel()
            await worker.kill()
            return Outcome("timed_out", "it did not return in time; its process was killed")
        if reply.exception() is not None:
            await worker.kill()
            return Outcome("died", "its process died before it answered")
        answer = reply.result()
        if tool.mode is Mode.FRESH or self._closed:
            await worker.kill()
        else:
            self._idle.setdefault(tool.limits, []).append(worker)
        return Outcome(answer["kind"], answer["text"])

    async def _worker(self, tool: Tool) -> _Worker:
        idle = self._idle.get(tool.limits)
        while tool.mode is not Mode.FRESH and idle:
            worker = idle.pop()
            if worker.is_alive:
                return worker
            worker.abandon()
        limits = asdict(tool.limits)
        if tool.mode is not Mode.FRESH:
            limits["cpu"] = None  # it would add up over calls; the timeout kills a busy one
        return await _Worker.start(limits)


class _Worker:
    """One worker process, leader of its own process group."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def start(cls, limits: Mapping[str, Any]) -> _Worker:
        """Start one with an empty environment."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-X",
            "utf8",
            str(_WORKER),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={},
            start_new_session=True,
            limit=1 << 20,
        )
        worker = cls(process)
        assert process.stdin is not None
        with contextlib.suppress(ConnectionError):
            process.stdin.write(frame({"path": sys.path, "limits": dict(limits)}))
        return worker

    @property
    def is_alive(self) -> bool:
        """Whether it can be spoken to: its pipes belong to the loop that it was started in."""
        return self._process.returncode is None and self._loop is asyncio.get_running_loop()

    async def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a call, wait for its reply; raises if the process dies."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(frame(request))
        await self._process.stdin.drain()
        head = await self._process.stdout.readexactly(4)
        body = await self._process.stdout.readexactly(int.from_bytes(head, "big"))
        reply: dict[str, Any] = json.loads(body)
        return reply

    def abandon(self) -> None:
        """Kill the process group of a worker whose loop is gone; of a dead one there is nothing left."""
        if self._process.returncode is None:
            self._kill_group()

    async def kill(self) -> None:
        """Kill the whole process group, and reap."""
        self._kill_group()
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


async def _over(task: asyncio.Future[Any], timeout: float | None) -> bool:
    """Wait until ``task`` is done or ``timeout`` seconds passed; never cancels it."""
    if timeout is None:
        await asyncio.wait((task,))
        return True
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake(_: Any = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    timer = loop.call_later(max(0.0, timeout), wake)
    task.add_done_callback(wake)
    try:
        await waiter
    finally:
        timer.cancel()
        task.remove_done_callback(wake)
    return task.done()


def passed(
    tool: Tool, values: dict[str, Any], context: Any, secrets: Mapping[str, str]
) -> dict[str, Any]:
    """Add to the function's values the secrets, and what the gateway passes."""
    values.update(secrets)
    for name in tool.injected:
        values[name] = context
    return values


def call_with(tool: Tool, values: Mapping[str, Any]) -> Any:
    """Call the tool's function; what it leaves to be done in this thread is done."""
    value = tool.call(values)
    # What a transaction's tool returned must be over before the commit.
    return finished(value) if tool.mode is Mode.TRANSACTION else consumed(value)


async def _called(tool: Tool, values: Mapping[str, Any]) -> Any:
    try:
        return await settled(tool.call(values))
    except SystemExit as error:  # of a task it would end the loop, and all that runs in it
        raise RuntimeError(f"SystemExit: {error}") from error
