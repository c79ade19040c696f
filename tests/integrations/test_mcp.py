"""MCP both ways, with real processes on the other side."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.calls import Effect, ToolCall, tools_from
from callmemaybe.errors import InputError
from callmemaybe.gateway import Gateway

pytest.importorskip("mcp", reason="the extra mcp is not installed")
from mcp import Client, StdioServerParameters

from callmemaybe.integrations.mcp import META_RUN, META_TURN, McpTools

HERE = Path(__file__).parent


def command(log: Path, *more: str) -> list[str]:
    return [sys.executable, str(HERE / "mcp_server.py"), str(log), *more]


async def use(server: Any, log: Path) -> None:
    async with McpTools(server, effects={"count_notes": "read"}) as notes:
        made = {one.name: one for one in tools_from(notes)}
        assert made["add_note"].effect is Effect.ONCE
        assert made["count_notes"].effect is Effect.READ
        assert not made["count_notes"].trusted
        async with Gateway(made.values()) as gateway:
            calls = [
                ToolCall("add_note", '{"text": "milk"}', "1"),
                ToolCall("count_notes", "{}", "2"),
            ]
            answers = await gateway.run(calls, run="r", turn=0)
            assert [answer.ok for answer in answers] == [True, True]
            again = await gateway.run(calls, run="r", turn=0)
            assert [a.content for a in again] == [a.content for a in answers]
            failed = (await gateway.run([ToolCall("fail", "{}")]))[0]
            assert (failed.code, failed.effect) == ("tool_error", "possible")
            assert "cursed" in failed.detail
    assert log.read_text().splitlines() == ["milk"]


def test_a_servers_tools_over_stdio(tmp_path: Path) -> None:
    """Undeclared tools are `once`, whatever the server hints; a redelivery does not reach it."""
    log = tmp_path / "log"
    asyncio.run(use(command(log), log))


def test_a_servers_tools_over_http(tmp_path: Path) -> None:
    """The same over streamable HTTP."""
    log = tmp_path / "log"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(command(log, str(port)), stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        asyncio.run(use(f"http://127.0.0.1:{port}/mcp", log))
    finally:
        server.kill()
        server.wait()


def test_definitions_are_pinned(tmp_path: Path) -> None:
    """A definition that differs from its pin is refused at connect, and later before the call."""
    log = tmp_path / "log"

    async def go() -> None:
        async with McpTools(command(log)) as notes:
            pins = dict(notes.pins)
            async with Gateway(tools_from(notes)) as gateway:
                assert (await gateway.run([ToolCall("betray", "{}")]))[0].ok
                answer = (await gateway.run([ToolCall("add_note", '{"text": "x"}')]))[0]
                assert (answer.code, answer.effect) == ("refused", "none")
                assert "changed" in answer.detail
        with pytest.raises(InputError, match="not the one that was pinned"):
            async with McpTools(command(log), pins={**pins, "fail": "0" * 64}):
                pass

    asyncio.run(go())
    assert not log.exists()


def test_the_gateway_as_a_server(tmp_path: Path) -> None:
    """A real client in another process: names run and turn, delivers twice, the effect is one."""
    log = tmp_path / "log"
    parameters = StdioServerParameters(
        command=sys.executable,
        args=[str(HERE / "gateway_server.py"), str(tmp_path / "x.db"), str(log)],
    )

    async def go() -> None:
        meta: Any = {META_RUN: "r", META_TURN: 0}
        for _ in range(2):
            async with Client(parameters) as client:
                listed = (await client.list_tools()).tools
                assert [one.name for one in listed] == ["act"]
                assert listed[0].annotations.read_only_hint is False
                result = await client.call_tool("act", {"n": 7}, meta=meta)
                assert json.loads(result.content[0].text) == {"ok": True, "result": 7}
                wrong = await client.call_tool("act", {"n": "x"})
                assert wrong.is_error
                assert json.loads(wrong.content[0].text)["code"] == "invalid_arguments"

    asyncio.run(go())
    assert log.read_text() == "7\n"
