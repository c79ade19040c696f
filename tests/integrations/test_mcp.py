"""MCP both ways, with real processes on the other side."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
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


@contextlib.contextmanager
def over_http(command: list[str]) -> Iterator[str]:
    """Run a server in a process of its own, on a free port; yield its address; end it by kill -9."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([*command, str(port)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.kill()
        server.wait()


def test_a_servers_tools_over_http(tmp_path: Path) -> None:
    """The same over streamable HTTP."""
    log = tmp_path / "log"
    with over_http(command(log)) as address:
        asyncio.run(use(address, log))


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_definitions_are_pinned(tmp_path: Path, transport: str) -> None:
    """A definition that differs from its pin is refused at connect, and later before the call."""
    log = tmp_path / "log"

    async def go(server: Any) -> None:
        async with McpTools(server) as notes:
            pins = dict(notes.pins)
            async with Gateway(tools_from(notes)) as gateway:
                assert (await gateway.run([ToolCall("betray", "{}")]))[0].ok
                answer = (await gateway.run([ToolCall("add_note", '{"text": "x"}')]))[0]
                assert (answer.code, answer.effect) == ("refused", "none")
                assert "changed" in answer.detail
        with pytest.raises(InputError, match="not the one that was pinned"):
            async with McpTools(server, pins={**pins, "fail": "0" * 64}):
                pass

    if transport == "http":
        with over_http(command(log)) as address:
            asyncio.run(go(address))
    else:
        asyncio.run(go(command(log)))
    assert not log.exists()


def test_the_gateway_as_a_server_over_http(tmp_path: Path) -> None:
    """Its process killed between two deliveries: the next one answers from the ledger."""
    ledger, log = tmp_path / "x.db", tmp_path / "log"
    server = [sys.executable, str(HERE / "gateway_server.py"), str(ledger), str(log)]

    async def deliver(address: str) -> Any:
        meta: Any = {META_RUN: "r", META_TURN: 0}
        async with Client(address) as client:
            result = await client.call_tool("act", {"n": 7}, meta=meta)
            return result.content[0].text

    answers = []
    for _ in range(2):
        with over_http(server) as address:
            answers.append(asyncio.run(deliver(address)))
    assert answers == ['{"ok": true, "result": 7}'] * 2
    assert log.read_text() == "7\n"


def test_one_gateway_calls_another_over_http(tmp_path: Path) -> None:
    """Both ways at once: a gateway uses the tools that another gateway's process serves."""
    ledger, log = tmp_path / "x.db", tmp_path / "log"
    server = [sys.executable, str(HERE / "gateway_server.py"), str(ledger), str(log)]

    async def go(address: str) -> None:
        async with McpTools(address, prefix="far_") as far:
            call, near = ToolCall("far_act", '{"n": 9}', "1"), str(tmp_path / "near.db")
            async with Gateway(tools_from(far), store=near) as gateway:
                answers = [(await gateway.run([call], run="r", turn=0))[0] for _ in range(2)]
            assert [answer.ok for answer in answers] == [True, True]
            assert [answer.replayed for answer in answers] == [False, True]

    with over_http(server) as address:
        asyncio.run(go(address))
    assert log.read_text() == "9\n"


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
