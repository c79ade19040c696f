"""What a tool leaves behind when it is stopped: nothing of it may act beside its retry or its successor."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.cli.inputs import load_tools
from callmemaybe.gateway import Gateway, GatewayLimits
from callmemaybe.gateway.execution.supervisor import descendants
from callmemaybe.tools import ToolCall

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

@tool(effect="idempotent", writes="x", timeout=3, attempts=2)
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
from callmemaybe.cli.inputs import load_tools
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
