"""A ledger does not survive a fork: the child is told so, and cannot harm its parent."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable
from typing import Any

import pytest

from callmemaybe.errors import StoreError
from callmemaybe.gateway import Gateway
from callmemaybe.gateway.audit.verify import verify_ledger
from callmemaybe.gateway.ledger import open_ledger
from callmemaybe.tools import ToolCall, tool

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@tool(effect="idempotent", writes="x", trusted=True)
async def act(n: int) -> int:
    """Act."""
    return n


def made(n: int) -> ToolCall:
    return ToolCall("act", f'{{"n": {n}}}', str(n))


def in_child(work: Callable[[], Any]) -> int:
    """Run ``work`` in a child that may take 20 s; return its exit code."""
    child = os.fork()
    if child == 0:  # pragma: no cover - the child
        code = 70
        try:
            import signal

            signal.alarm(20)
            code = work() or 0
            gc.collect()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_fork_after_opening_is_told_and_does_no_harm(store: str) -> None:
    """In the child every use raises one clear StoreError; closing does nothing; the parent goes on."""
    ledger = open_ledger(store)
    gateway = Gateway([act], store=ledger)

    async def run(n: int) -> Any:
        return (await gateway.run([made(n)], run="r", turn=n))[0]

    def child() -> int:
        for use in (
            lambda: asyncio.run(run(1)),
            lambda: ledger.backend.read_calls(run=None, limit=9),
            lambda: verify_ledger(ledger.backend),
        ):
            with pytest.raises(StoreError, match="open one after the fork"):
                use()
        asyncio.run(gateway.close())
        ledger.close()
        return 0

    assert asyncio.run(run(0)).ok
    assert in_child(child) == 0
    assert asyncio.run(run(2)).ok
    assert asyncio.run(run(0)).replayed
    assert not verify_ledger(ledger.backend).breaks
    other = open_ledger(store)
    with other.backend.transaction():
        assert not other.backend.lost_owners([ledger.owner])
    other.close()
    asyncio.run(gateway.close())
    ledger.close()


def test_a_child_opens_a_ledger_of_its_own(store: str) -> None:
    """The same file or database opened after the fork is a process of its own, beside its parent."""
    ledger = open_ledger(store)

    def child() -> int:
        async def run() -> int:
            async with Gateway([act], store=store) as gateway:
                return int(not (await gateway.run([made(1)], run="r", turn=1))[0].ok)

        return asyncio.run(run())

    assert in_child(child) == 0

    async def again() -> Any:
        async with Gateway([act], store=ledger) as gateway:
            return (await gateway.run([made(1)], run="r", turn=1))[0]

    assert asyncio.run(again()).replayed
    ledger.close()
