"""What a tool holds that declares no resource: its own name, per tenant; and its place in the turn."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from callmemaybe.gateway import Gateway
from callmemaybe.tools import Tool, ToolCall, make_tool, tool


def call(name: str, **arguments: Any) -> ToolCall:
    """A call with arguments."""
    return ToolCall(name, json.dumps(arguments))


def test_independent_calls_wait_for_none(ledger) -> None:
    """Two hundred calls of ten tools for twenty tenants are all inside at once."""
    inside: set[tuple[str, str]] = set()
    full = asyncio.Event()

    def make(name: str) -> Tool:
        async def act(tenant: str) -> str:
            """Wait until all are inside."""
            inside.add((name, tenant))
            if len(inside) == 200:
                full.set()
            await full.wait()
            return tenant

        return make_tool(act, name=name, effect="once")

    async def go() -> list[bool]:
        async with Gateway([make(f"act{n}") for n in range(10)], store=ledger) as gateway:
            turns = [
                gateway.run([call(f"act{n}", tenant=f"t{who}")], tenant=f"t{who}")
                for n in range(10)
                for who in range(20)
            ]
            return [answers[0].ok for answers in await asyncio.gather(*turns)]

    assert all(asyncio.run(go()))


def test_calls_of_one_tool_for_one_tenant_take_turns(ledger) -> None:
    """A tool that reads, waits and writes loses no update, in however many runs it is called."""
    counter = 0

    @tool(effect="once")
    async def add() -> int:
        """Add one, as badly as one can."""
        nonlocal counter
        seen = counter
        await asyncio.sleep(0.002)
        counter = seen + 1
        return counter

    async def go() -> None:
        async with Gateway([add], store=ledger) as gateway:
            answers = await asyncio.gather(*(gateway.run([call("add")]) for _ in range(20)))
            assert all(one[0].ok for one in answers)

    asyncio.run(go())
    assert counter == 20


def test_a_turn_keeps_its_order(ledger) -> None:
    """What declares nothing runs after each earlier write of its turn and before each later one."""
    done: list[str] = []

    async def record(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        done.append(name)

    @tool(effect="once", writes="account")
    async def pay() -> None:
        """Pay."""
        await record("pay", 0.05)

    @tool(effect="once")
    async def tell() -> None:
        """Tell."""
        await record("tell", 0.02)

    @tool(effect="read")
    async def look() -> None:
        """Look."""
        await record("look", 0.01)

    @tool(effect="once", writes="door")
    async def close() -> None:
        """Close."""
        await record("close", 0)

    async def go() -> None:
        async with Gateway([pay, tell, look, close], store=ledger) as gateway:
            names = ["pay", "tell", "look", "close"]
            answers = await gateway.run([call(name) for name in names])
            assert [answer.code for answer in answers] == ["ok"] * 4
            assert done == names

    asyncio.run(go())


def test_an_unknown_call_blocks_the_undeclared_writes_of_its_run(ledger) -> None:
    """They may use what it used; reads tell what became of it; other runs and tenants know nothing of it."""

    @tool(effect="once", timeout=0.05)
    async def send() -> None:
        """Send, and hear nothing."""
        await asyncio.sleep(30)

    @tool(effect="once")
    async def tell() -> None:
        """Tell."""

    @tool(effect="read")
    async def look() -> None:
        """Look."""

    async def go() -> None:
        async with Gateway([send, tell, look], store=ledger, guard_values=False) as gateway:
            run = gateway.begin()
            answers = await gateway.run([call("send"), call("tell"), call("look")], run=run)
            assert [answer.code for answer in answers] == ["unknown_outcome", "refused", "ok"]
            answers = await gateway.run([call("tell"), call("look")], run=run)
            assert [answer.code for answer in answers] == ["refused", "ok"]
            assert (await gateway.run([call("tell")]))[0].ok

    asyncio.run(go())
