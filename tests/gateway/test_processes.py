"""Tools in processes of their own: isolation, limits, and a kill that reaches grandchildren."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.calls import ToolCall
from callmemaybe.cli.toolfiles import load_tools
from callmemaybe.gateway import Gateway
from callmemaybe.gateway.lifecycle import State

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs process groups")
TOOLS = Path(__file__).with_name("my_tools.py")


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, json.dumps(arguments), name)


def test_a_warm_worker_runs_and_is_used_again(tmp_path: Path) -> None:
    """A synchronous write runs in a process with an empty environment; its prints harm nobody."""

    async def go() -> None:
        async with Gateway(load_tools(TOOLS), secrets={"T": "x"}) as gateway:
            for n in range(3):
                answer = (await gateway.run([call("act", path=str(tmp_path / "f"), text=str(n))]))[
                    0
                ]
                assert answer.ok, answer
                # The interpreter itself may set LC_CTYPE.
                assert answer.value.split()[1:] in (["None", "0"], ["None", "1"])
            assert sum(len(idle) for idle in gateway.executor._idle.values()) == 1

    asyncio.run(go())
    assert (tmp_path / "f").read_text() == "0\n1\n2\n"


def test_a_timeout_kills_the_whole_group(tmp_path: Path) -> None:
    """At the timeout the worker and what it started die; a `once` call is of unknown outcome."""
    left = tmp_path / "left"

    async def go() -> Any:
        async with Gateway(load_tools(TOOLS), secrets={"T": "x"}) as gateway:
            first = (await gateway.run([call("act", path=str(tmp_path / "f"), text="warm")]))[0]
            assert first.ok
            return (await gateway.run([call("hang", path=str(left))]))[0]

    answer = asyncio.run(go())
    assert (answer.state, answer.code) == (State.UNKNOWN, "unknown_outcome")
    time.sleep(3.2)
    assert not left.exists()


def test_limits_crashes_and_secrets() -> None:
    """A fresh process has its limits; its death is a failure; secrets go in and do not come out."""

    async def go() -> None:
        async with Gateway(load_tools(TOOLS), secrets={"T": "canary"}) as gateway:
            run = gateway.begin()
            greedy = (await gateway.run([call("greedy")], run=run))[0]
            assert (greedy.code, "MemoryError" in greedy.detail) == ("tool_error", True)
            died = (await gateway.run([call("crash")], run=run))[0]
            assert (died.code, died.effect) == ("tool_error", "possible")
            shown = (await gateway.run([call("fresh")], run=run))[0]
            assert shown.value[0] == "CANARY"
            assert set(shown.value[1:]) <= {"LC_CTYPE"}
            assert "canary" not in shown.content

    asyncio.run(go())
    assert "T" not in os.environ or os.environ["T"] != "canary"
