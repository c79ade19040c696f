"""What a tool leaves behind when it is stopped: nothing of it may act beside its retry or its successor."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from callmemaybe import load_tools
from callmemaybe.gateway import Gateway, GatewayLimits
from callmemaybe.gateway.execution.supervisor import descendants
from callmemaybe.tools import ToolCall, tool

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

#: Tools whose processes act on: each line of the log is the number of an attempt and a process.
TOOLS = '''
import os, signal, subprocess, sys, time
from callmemaybe.tools import Context, tool

BEATS = """
import os, sys, time
if sys.argv[3] == "daemon" and os.fork():
    os._exit(0)
os.setsid()
for _ in range(400):
    with open(sys.argv[1], "a") as log:
        log.write(sys.argv[2] + "\\\\n")
    time.sleep(0.02)
"""

def beats(path, attempt, how):
    made = subprocess.Popen([sys.executable, "-c", BEATS, path, str(attempt), how])
    if how == "daemon":
        made.wait()
    until = time.monotonic() + 20
    while time.monotonic() < until and f"{attempt}\\n" not in open(path).read():
        time.sleep(0.01)

@tool(effect="idempotent", writes="x", timeout=8, attempts=2)
def hang(path: str, how: str, context: Context) -> str:
    """Start a program in a session of its own, and hang on the first attempt."""
    if context.attempt > 1:
        return open(path).read()
    beats(path, context.attempt, how)
    time.sleep(60)

@tool(effect="idempotent", writes="x", attempts=2)
def crash(path: str, how: str, context: Context) -> str:
    """Start a program in a session of its own, and die on the first attempt."""
    if context.attempt > 1:
        return open(path).read()
    beats(path, context.attempt, how)
    os.kill(os.getpid(), signal.SIGKILL)

@tool(effect="idempotent", writes="x", timeout=60)
def work(path: str, how: str, context: Context) -> str:
    """Start a program in a session of its own, and wait for it where this is the first owner."""
    if context.fence > 1:
        before = open(path).read()
        time.sleep(0.5)
        return f"{len(open(path).read()) - len(before)} more"
    beats(path, context.fence, how)
    time.sleep(60)
'''


def call(name: str, path: Path, how: str) -> ToolCall:
    return ToolCall(name, json.dumps({"path": str(path), "how": how}), name)


@linux
@pytest.mark.parametrize("how", ["child", "daemon"])
@pytest.mark.parametrize("name", ["hang", "crash"])
def test_nothing_that_a_tool_started_outlives_its_attempt(
    tmp_path: Path, name: str, how: str
) -> None:
    """A child with a session of its own, or a daemon, is dead before the next attempt begins."""
    (tmp_path / "beating.py").write_text(TOOLS)
    log = tmp_path / "log"
    log.touch()

    async def go() -> Any:
        tools = load_tools(tmp_path / "beating.py")
        async with Gateway(tools, rng=lambda: 0.0) as gateway:
            return (await gateway.run([call(name, log, how)]))[0]

    answer = asyncio.run(go())
    assert answer.ok, answer.content
    time.sleep(0.2)
    assert log.read_text() == answer.value


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def started(folder: Path, store: Path, first: ToolCall) -> subprocess.Popen[bytes]:
    """Start a process that makes the call through a gateway of its own."""
    script = f"""
import asyncio
from pathlib import Path
from callmemaybe import load_tools
from callmemaybe.gateway import Gateway, GatewayLimits
from callmemaybe.tools import ToolCall

async def main():
    tools = load_tools(Path({str(folder / "beating.py")!r}))
    limits = GatewayLimits(turn=90, attempt=60)
    async with Gateway(tools, store={str(store)!r}, limits=limits) as gateway:
        call = ToolCall({first.name!r}, {first.arguments!r}, "1")
        await gateway.run([call], run="r", turn=0)

asyncio.run(main())
"""
    return subprocess.Popen([sys.executable, "-c", script])


@linux
@pytest.mark.parametrize(
    ("how", "stopped"), [("child", False), ("daemon", False), ("daemon", True)]
)
def test_nothing_that_a_tool_started_outlives_a_killed_gateway(
    tmp_path: Path, how: str, stopped: bool
) -> None:
    """kill -9 of the process: its call is not taken over before its worker and its programs are dead."""
    (tmp_path / "beating.py").write_text(TOOLS)
    log, store = tmp_path / "log", tmp_path / "store.db"
    log.touch()
    first = started(tmp_path, store, call("work", log, how))
    until = time.monotonic() + 60
    while not log.read_text() and time.monotonic() < until:
        time.sleep(0.02)
    assert log.read_text(), first.poll()
    (supervisor,) = (pid for pid in descendants(first.pid) if parent_of(pid) == first.pid)
    if stopped:  # it cannot kill anything now, and the worker and its program go on
        os.kill(supervisor, signal.SIGSTOP)
    first.send_signal(signal.SIGKILL)
    first.wait()

    async def go() -> Any:
        tools = load_tools(tmp_path / "beating.py")
        async with Gateway(tools, store=store, limits=GatewayLimits(queue=20)) as gateway:
            if stopped:
                for _ in range(10):
                    assert await gateway.recover() == 0
                    await asyncio.sleep(0.02)
                os.kill(supervisor, signal.SIGCONT)
            until = time.monotonic() + 20
            while not await gateway.recover() and time.monotonic() < until:
                await asyncio.sleep(0.02)
            return (await gateway.run([call("work", log, how)], run="r", turn=0))[0]

    answer = asyncio.run(go())
    assert (answer.ok, answer.value) == (True, "0 more"), answer.content


class Overlap:
    """Work that takes a while in a thread, and notices other such work at the same time."""

    def __init__(self) -> None:
        self.begun = self.ended = 0
        self.most = 0

    def work(self, seconds: float) -> str:
        self.begun += 1
        self.most = max(self.most, self.begun - self.ended)
        time.sleep(seconds)
        self.ended += 1
        return "done"


LIMITS = GatewayLimits(turn=20, reserve=0.1)


@pytest.mark.parametrize("effect", ["once", "idempotent"])
@pytest.mark.parametrize("how", ["to_thread", "run_in_executor"])
def test_a_thread_that_still_runs_is_neither_repeated_nor_joined(
    ledger, effect: str, how: str
) -> None:
    """A thread cannot be stopped: its call is in flight and keeps its lock until the thread has ended."""
    seen = Overlap()

    @tool(effect=effect, writes="x", timeout=0.2)
    async def slow() -> str:
        if how == "to_thread":
            return await asyncio.to_thread(seen.work, 1.0)
        return await asyncio.get_running_loop().run_in_executor(None, seen.work, 1.0)

    @tool(effect="idempotent", writes="x")
    async def quick() -> str:
        return seen.work(0.0)

    async def go() -> None:
        await asyncio.to_thread(time.sleep, 0)  # the loop has its threads already
        async with Gateway([slow, quick], store=ledger, limits=LIMITS, rng=lambda: 0.0) as gateway:
            first = ToolCall("slow", "{}", "1")
            (answer,) = await gateway.run([first], run="a", turn=0)
            assert (answer.code, answer.effect, answer.retry) == ("in_flight", "possible", "never")
            assert (seen.begun, seen.ended) == (1, 0)
            (again,) = await gateway.run([first], run="a", turn=0)
            assert again.code == "in_flight"
            (other,) = await gateway.run([ToolCall("quick")], run="b")
            assert other.ok
            assert seen.ended == 2
            (ended,) = await gateway.run([first], run="a", turn=0)
            expected = "unknown_outcome" if effect == "once" else "timed_out"
            assert (ended.code, ended.effect) == (expected, "possible")
        assert (seen.most, seen.begun) == (1, 2)

    asyncio.run(go())


def test_a_tool_that_gives_up_on_its_thread_is_in_flight(ledger) -> None:
    """Its own time limit ends the waiting and not the thread; a result is the tool's word that it is done."""
    seen = Overlap()

    @tool(effect="idempotent", writes="x")
    async def hasty(fails: bool) -> str:
        done = asyncio.to_thread(seen.work, 0.5)
        try:
            return await asyncio.wait_for(done, 0.1)
        except TimeoutError:
            if fails:
                raise
            return "left alone"

    async def go() -> None:
        async with Gateway([hasty], store=ledger, limits=LIMITS, rng=lambda: 0.0) as gateway:
            call = ToolCall("hasty", '{"fails": true}', "1")
            (answer,) = await gateway.run([call], run="a", turn=0)
            assert (answer.code, seen.begun, seen.ended) == ("in_flight", 1, 0)
            (other,) = await gateway.run([ToolCall("hasty", '{"fails": false}')], run="b")
            assert (other.value, seen.begun, seen.ended) == ("left alone", 2, 1)
            (answer,) = await gateway.run([call], run="a", turn=0)
            assert (answer.code, answer.effect) == ("tool_error", "possible")
        assert seen.most == 1

    asyncio.run(go())


def test_what_ends_late_is_recorded_as_it_ended(ledger) -> None:
    """A coroutine that ignores its end keeps its lock, and its result counts when it comes."""
    ran = []

    @tool(effect="once", writes="x", timeout=0.1)
    async def stubborn() -> str:
        until = time.monotonic() + 2
        while time.monotonic() < until:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(until - time.monotonic())
        ran.append(1)
        return "after all"

    async def go() -> None:
        async with Gateway([stubborn], store=ledger, limits=LIMITS) as gateway:
            call = ToolCall("stubborn", "{}", "1")
            (answer,) = await gateway.run([call], run="a", turn=0)
            assert (answer.code, ran) == ("in_flight", [])
        async with Gateway([stubborn], store=ledger, limits=LIMITS) as gateway:
            (answer,) = await gateway.run([call], run="a", turn=0)
            assert (answer.ok, answer.value, answer.replayed) == (True, "after all", True)
        assert ran == [1]

    asyncio.run(go())


@pytest.mark.parametrize("leave", ["close", "end of the loop"])
def test_a_gateway_that_closes_waits_for_a_turn_and_no_longer(ledger, leave: str) -> None:
    """What never ends does not hold the end up; its outcome is recorded, so that nobody repeats it."""
    over = threading.Event()

    @tool(effect="idempotent", writes="x", timeout=0.1)
    async def endless() -> None:
        await asyncio.to_thread(over.wait, 30)

    async def go() -> None:
        limits = GatewayLimits(turn=2, reserve=0.1)
        gateway = Gateway([endless], store=ledger, limits=limits)
        (answer,) = await gateway.run([ToolCall("endless", "{}", "1")], run="a", turn=0)
        assert answer.code == "in_flight"
        if leave == "close":
            began = time.monotonic()
            await gateway.close()
            assert time.monotonic() - began < 10
        asyncio.get_running_loop().call_later(1, over.set)  # the loop waits for its threads

    asyncio.run(go())
    (row,) = ledger.backend.read_calls(run="a", tenant="", limit=10)
    assert row.state == "timed_out"


BLOCKING = '''
import time
from callmemaybe.tools import tool

@tool(effect="idempotent", writes="x", timeout=0.5, attempts=1, mode="process")
async def block(path: str) -> None:
    """Sleep without giving way."""
    time.sleep(2)
    open(path, "w").write("it went on")
'''


def test_a_blocking_async_def_has_a_timeout_in_a_process(tmp_path: Path) -> None:
    """In the event loop it would hold everything; in a process it is killed in time."""
    (tmp_path / "blocking.py").write_text(BLOCKING)

    async def go() -> Any:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.05)
                ticks += 1

        async with Gateway(load_tools(tmp_path / "blocking.py")) as gateway:
            ticking = asyncio.create_task(tick())
            call = ToolCall("block", json.dumps({"path": str(tmp_path / "log")}))
            (answer,) = await gateway.run([call])
            ticking.cancel()
            assert ticks > 2
            return answer

    answer = asyncio.run(go())
    assert (answer.code, answer.effect) == ("timed_out", "possible")
    time.sleep(2)
    assert not (tmp_path / "log").exists()


def test_who_holds_the_event_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """An `async def` that does not give way is not stopped, and is reported while it blocks."""

    @tool(effect="idempotent", writes="x", timeout=0.1)
    async def selfish() -> str:
        time.sleep(3)
        return "done"

    async def go() -> Any:
        async with Gateway([selfish]) as gateway:
            return (await gateway.run([ToolCall("selfish")]))[0]

    assert asyncio.run(go()).ok
    (record,) = [one for one in caplog.records if one.name == "callmemaybe.gateway"]
    assert "selfish" in record.getMessage()
    assert "event loop" in record.getMessage()
    assert "test_leftovers.py" in record.getMessage()
