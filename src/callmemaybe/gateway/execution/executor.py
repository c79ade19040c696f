"""Runs a tool's function once: in the event loop, a thread, a warm or a fresh worker process.

It never retries and decides nothing; it returns the outcome of one attempt (``AttemptOutcome``).
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
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from callmemaybe.errors import NotExecuted
from callmemaybe.gateway.execution import leftovers
from callmemaybe.gateway.execution.completion import (
    await_result,
    complete_result,
    drain_generator,
    needs_event_loop,
)
from callmemaybe.gateway.execution.loop_watch import LOOP_WATCH
from callmemaybe.gateway.execution.outcome import (
    TIMED_OUT,
    AttemptOutcome,
    outcome_of_error,
    outcome_of_value,
    unsafe_sends,
)
from callmemaybe.gateway.execution.worker import frame
from callmemaybe.tools.declare import Context, Mode, ProcessLimits, Tool

_WORKER = Path(__file__).with_name("worker.py")
#: Seconds that a cancelled coroutine has to end.
_GRACE = 1.0


class ToolExecutor:
    """Runs attempts and owns the worker processes.

    ``most`` bounds a result in characters, ``depth`` its nesting, ``processes`` the processes at once.
    ``alive`` is the descriptor of a lock by which others see that this process lives, or None: it stays
    held until the last process of a tool is dead.
    """

    def __init__(
        self, *, most: int, depth: int, processes: int | None = None, alive: int | None = None
    ) -> None:
        self._alive = alive
        self._most = most
        self._depth = depth
        self._slots = asyncio.Semaphore(processes or min(8, (os.cpu_count() or 2) * 2))
        self._idle: dict[_WorkerKind, list[_WorkerProcess]] = {}
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
        may_begin: Callable[[], None] = lambda: None,
    ) -> AttemptOutcome:
        """Run ``tool`` once with JSON ``arguments``; time out after ``timeout`` seconds.

        A call that has to wait for a worker process times out ``patience`` seconds from now at the latest.
        ``values`` are the arguments as the function's own types, if they are known. ``may_begin`` is called
        right before the function, and raises NotExecuted if it must not be.
        """
        if tool.mode in {Mode.PROCESS, Mode.FRESH}:
            request = self._request(tool, arguments, context, secrets)
            if request is None:  # its module was reloaded, or deleted the function
                why = "another process cannot find it in its module any more"
                return AttemptOutcome("not_executed", why)
            return await self._in_process(tool, request, timeout, patience, may_begin)
        try:
            if values is None:
                values = tool.bind(arguments)
            values = inject(tool, values, context, secrets)
        except Exception as error:
            return AttemptOutcome("not_executed", outcome_of_error(error).text)
        if tool.mode is Mode.ASYNC:
            return await self._in_loop(_call_in_loop(tool, values, may_begin), timeout, tool.name)
        return await self._in_thread(tool, values, timeout, may_begin)

    async def close(self) -> None:
        """End the worker processes."""
        self._closed = True
        idle = [worker for workers in self._idle.values() for worker in workers]
        self._idle.clear()
        await asyncio.gather(*(worker.kill() for worker in idle))

    def _done(self, task: asyncio.Future[Any]) -> AttemptOutcome:
        if task.cancelled():
            return AttemptOutcome("died", "the tool was cancelled")
        error = task.exception()
        if error is not None:
            return outcome_of_error(error)
        return outcome_of_value(task.result(), most=self._most, depth=self._depth)

    async def _in_loop(
        self, coroutine: Coroutine[Any, Any, Any], timeout: float | None, name: str
    ) -> AttemptOutcome:
        context, threads = leftovers.new_context()
        loop = asyncio.get_running_loop()
        task = loop.create_task(coroutine, name=f"tool {name}", context=context)
        if timeout is None:
            await _wait(task, None)
            return self._ended(task, threads)
        watched = LOOP_WATCH.begin(timeout)
        try:
            in_time = await _wait(task, timeout)
        finally:
            LOOP_WATCH.end(watched)
        if in_time:
            return self._ended(task, threads)
        task.cancel(TIMED_OUT)
        # A coroutine may ignore the cancellation; it is not waited for beyond the grace period.
        if await _wait(task, _GRACE) and not task.cancelled():
            outcome = self._done(task)
            if outcome.kind == "returned" or (outcome.kind == "not_executed" and not threads):
                return outcome
        late = AttemptOutcome("timed_out", "it did not return in time")
        return self._with_leftovers(late, task, threads)

    def _ended(self, task: asyncio.Future[Any], threads: leftovers.Threads) -> AttemptOutcome:
        """Return the outcome of a task; one that failed may have given up waiting for its threads."""
        outcome = self._done(task)
        if outcome.kind in {"returned", "unrepresentable"}:
            return outcome
        return self._with_leftovers(outcome, task, threads)

    def _with_leftovers(
        self, outcome: AttemptOutcome, task: asyncio.Future[Any], threads: leftovers.Threads
    ) -> AttemptOutcome:
        if not leftovers.still_running(task, threads):
            return outcome
        ending = leftovers.wait_until_ended(task, threads, self._done, outcome)
        return replace(outcome, ending=asyncio.ensure_future(ending))

    async def _in_thread(
        self,
        tool: Tool,
        values: Mapping[str, Any],
        timeout: float | None,
        may_begin: Callable[[], None],
    ) -> AttemptOutcome:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        future: asyncio.Future[Any] = loop.create_future()
        copied = contextvars.copy_context()
        copied.run(unsafe_sends.set, [])

        def report(setter: Callable[[Any], None], value: Any) -> None:
            if not future.done():
                setter(value)

        def work() -> None:
            try:
                may_begin()
                value = copied.run(call_function, tool, values)
                setter = future.set_result
            except StopIteration as error:
                value, setter = RuntimeError(f"StopIteration: {error}"), future.set_exception
            except BaseException as error:
                value, setter = error, future.set_exception
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(report, setter, value)

        threading.Thread(target=work, name=f"tool {tool.name}", daemon=True).start()
        if not await _wait(future, timeout):
            future.cancel()
            return AttemptOutcome("timed_out", "it did not return in time")
        if future.exception() is None and needs_event_loop(future.result()):
            # A plain function that called an `async def`: its clients belong to this loop, not to a new one.
            left = None if timeout is None else timeout - (loop.time() - begun)
            return await self._in_loop(await_result(future.result()), left, tool.name)
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
        may_begin: Callable[[], None],
    ) -> AttemptOutcome:
        loop = asyncio.get_running_loop()
        until = None if patience is None else loop.time() + patience
        try:
            async with asyncio.timeout(patience):
                await self._slots.acquire()
        except TimeoutError:
            return AttemptOutcome("not_executed", "no process was free in time")
        try:
            try:
                worker = await self._worker(tool)
            except OSError as error:  # too many open files or processes, say
                return AttemptOutcome("not_executed", f"no process could be started: {error}")
            if timeout is not None and until is not None:
                timeout = min(timeout, until - loop.time())
            try:
                may_begin()
            except NotExecuted as error:
                await self._keep(worker, tool)
                return AttemptOutcome("not_executed", str(error))
            return await self._ask_worker(worker, tool, request, timeout)
        finally:
            self._slots.release()

    async def _ask_worker(
        self, worker: _WorkerProcess, tool: Tool, request: Mapping[str, Any], timeout: float | None
    ) -> AttemptOutcome:
        reply = asyncio.ensure_future(worker.ask(request))
        if not await _wait(reply, timeout):
            reply.cancel()
            text = "it did not return in time; its process was killed"
            return await _killed(worker, AttemptOutcome("timed_out", text))
        if reply.exception() is not None:
            return await _killed(
                worker, AttemptOutcome("died", "its process died before it answered")
            )
        answer = reply.result()
        await self._keep(worker, tool)
        return AttemptOutcome(answer["kind"], answer["text"])

    async def _keep(self, worker: _WorkerProcess, tool: Tool) -> None:
        """Keep a worker for the next call, if it may have one."""
        if tool.mode is Mode.FRESH or self._closed:
            await worker.kill()
        else:
            self._idle.setdefault(worker.kind, []).append(worker)

    async def _worker(self, tool: Tool) -> _WorkerProcess:
        environment = {
            name: os.environ[name] for name in tool.environment or () if name in os.environ
        }
        kind = _WorkerKind(tool.limits, frozenset(environment.items()))
        idle = self._idle.get(kind)
        while tool.mode is not Mode.FRESH and idle:
            worker = idle.pop()
            if worker.is_alive:
                return worker
            worker.abandon()
        limits = asdict(tool.limits)
        if tool.mode is not Mode.FRESH:
            limits["cpu"] = None  # CPU time adds up over calls; the timeout kills a busy worker
        return await _WorkerProcess.start(kind, limits, self._alive)


class _WorkerKind(NamedTuple):
    """What a worker was started with: calls that need the same may use it one after the other."""

    limits: ProcessLimits
    environment: frozenset[tuple[str, str]]


class _WorkerProcess:
    """One worker process below its supervisor."""

    def __init__(self, kind: _WorkerKind, process: asyncio.subprocess.Process) -> None:
        self.kind = kind
        self._process = process
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def start(
        cls, kind: _WorkerKind, limits: Mapping[str, Any], alive: int | None
    ) -> _WorkerProcess:
        """Start a worker with its environment alone; its supervisor keeps the descriptor ``alive`` open."""
        kept = () if alive is None else (alive,)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-X",
            "utf8",
            str(_WORKER),
            *map(str, kept),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=dict(kind.environment),
            start_new_session=True,
            pass_fds=kept,
            limit=1 << 20,
        )
        worker = cls(kind, process)
        assert process.stdin is not None
        with contextlib.suppress(ConnectionError):
            process.stdin.write(frame({"path": sys.path, "limits": dict(limits)}))
        return worker

    @property
    def is_alive(self) -> bool:
        """Whether it runs and was started in this event loop, to which its pipes belong."""
        return self._process.returncode is None and self._loop is asyncio.get_running_loop()

    async def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return the reply; raises if the process dies."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(frame(request))
        await self._process.stdin.drain()
        head = await self._process.stdout.readexactly(4)
        body = await self._process.stdout.readexactly(int.from_bytes(head, "big"))
        reply: dict[str, Any] = json.loads(body)
        return reply

    def abandon(self) -> None:
        """Kill a worker whose event loop is gone, and all below it; does nothing for a dead one."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._process.pid, signal.SIGTERM)

    async def kill(self) -> None:
        """Kill the worker and all below it; return when they are dead."""
        if self._process.stdin is not None:
            self._process.stdin.transport.abort()
        # A process that was forked from this one may hold the pipe open.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            self._process.terminate()
        await self._process.wait()


async def _killed(worker: _WorkerProcess, outcome: AttemptOutcome) -> AttemptOutcome:
    """Kill a worker; the outcome says whether something of it is not dead within the grace period."""

    async def end() -> AttemptOutcome:
        await worker.kill()
        return outcome

    ending = asyncio.ensure_future(end())
    if await _wait(ending, _GRACE * 5):
        return outcome
    return replace(outcome, ending=ending)


async def _wait(task: asyncio.Future[Any], timeout: float | None) -> bool:
    """Wait until ``task`` is done or ``timeout`` seconds passed; never cancels it. Returns whether it is done."""
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


def inject(
    tool: Tool, values: dict[str, Any], context: Any, secrets: Mapping[str, str]
) -> dict[str, Any]:
    """Add the secrets and the gateway's context to the function's arguments."""
    values.update(secrets)
    for name in tool.injected:
        values[name] = context
    return values


def call_function(tool: Tool, values: Mapping[str, Any]) -> Any:
    """Call the tool's function and run the part of its result that belongs to this thread."""
    value = tool.call(values)
    # A transactional tool must be complete before the commit.
    return complete_result(value) if tool.mode is Mode.TRANSACTION else drain_generator(value)


async def _call_in_loop(
    tool: Tool, values: Mapping[str, Any], may_begin: Callable[[], None]
) -> Any:
    may_begin()
    try:
        return await await_result(tool.call(values))
    except SystemExit as error:  # in a task it would end the event loop and everything in it
        raise RuntimeError(f"SystemExit: {error}") from error
