"""Who watches, who decides and who waits: observers and approvers that fail, and calls that are awaited."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any

import pytest

from callmemaybe import plugins
from callmemaybe.errors import InputError
from callmemaybe.gateway import Gateway, GatewayLimits
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.tools import ToolCall, tool


@pytest.fixture(autouse=True)
def nothing_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test hears of its own observers."""
    monkeypatch.setattr(plugins, "_reported", set())


def call(name: str, **arguments: Any) -> ToolCall:
    """A call with arguments."""
    return ToolCall(name, json.dumps(arguments))


class Bad:
    """An observer that fails in one way or another."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def fail(self, *_: Any, **__: Any) -> Any:
        if self.kind == "raises":
            raise ZeroDivisionError("watch out")
        if self.kind == "blocks":
            time.sleep(0.6)
        return object()

    async def wait(self, *_: Any, **__: Any) -> None:
        raise AssertionError("nobody awaits it")

    @property
    def started(self) -> Any:
        return self.wait if self.kind == "async" else self.fail

    @property
    def finished(self) -> Any:
        return self.wait if self.kind == "async" else self.fail


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("raises", "ZeroDivisionError"),
        ("blocks", "blocks its caller"),
        ("async", "coroutine"),
        ("odd", None),
    ],
)
def test_an_observer_that_fails_changes_nothing(kind, said, caplog) -> None:
    """The call runs once and has its answer, and the log says once what is wrong with the observer."""
    ran = []

    @tool(effect="once", writes="x")
    async def act(n: int) -> int:
        """Act."""
        ran.append(n)
        return n

    async def go() -> None:
        async with Gateway([act], observer=Bad(kind)) as gateway:
            for n in (1, 2):
                (answer,) = await gateway.run([call("act", n=n)])
                assert (answer.code, answer.value) == ("ok", n)

    with caplog.at_level(logging.ERROR, "callmemaybe"):
        asyncio.run(go())
    assert ran == [1, 2]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (1 if said else 0)
    assert all(said in one for one in told)


def _raise(*_: Any) -> str:
    raise OSError("the chat service is down")


async def _raise_later(*_: Any) -> str:
    raise OSError("the chat service is down")


async def _cancelled(*_: Any) -> str:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    "approver",
    [
        _raise,
        _raise_later,
        _cancelled,
        lambda *_: True,
        lambda *_: ["approved"],
        lambda *_: "yes",
        lambda *_: None,
    ],
    ids=["raises", "raises later", "cancelled", "true", "list", "yes", "none"],
)
def test_an_approver_that_fails_approves_nothing(ledger, approver) -> None:
    """The call does not run, its approval stays pending, and a person can still decide."""
    ran = []

    @tool(effect="once", writes="money", approval="always")
    async def pay(to: str) -> None:
        """Pay."""
        ran.append(to)

    async def go() -> None:
        async with Gateway([pay], approver=approver, store=ledger) as gateway:
            (answer,) = await gateway.run([call("pay", to="x")], run="r", turn=0)
            assert (answer.code, answer.effect) == ("approval_pending", "none")
            assert not ran
            backend = gateway.ledger.backend
            (pending,) = await gateway.ledger.read(
                lambda: backend.read_approvals(pending_only=True)
            )
            await gateway.decide(pending.id, "approved", by="ann")
            (answer,) = await gateway.run([call("pay", to="x")], run="r", turn=0)
            assert answer.ok
            assert ran == ["x"]

    asyncio.run(go())


def test_an_approver_may_be_a_plain_function(ledger) -> None:
    """Its answer counts as that of one that is awaited."""

    @tool(effect="once", writes="money", approval="always")
    async def pay(to: str) -> str:
        """Pay."""
        return to

    async def go() -> list[str]:
        def decide(_: Any, proposed: ToolCall) -> str:
            return "approved" if "good" in proposed.arguments else "denied"

        async with Gateway([pay], approver=decide, store=ledger) as gateway:
            answers = await gateway.run([call("pay", to="good"), call("pay", to="bad")])
            return [answer.code for answer in answers]

    assert asyncio.run(go()) == ["ok", "denied"]


def test_an_approver_that_never_answers_is_left_when_the_approval_expires(ledger) -> None:
    """A turn does not wait for ever."""

    @tool(effect="once", writes="money", approval="always")
    async def pay(to: str) -> None:
        """Pay."""

    async def never(*_: Any) -> str:
        await asyncio.Event().wait()
        return "approved"

    async def go() -> None:
        limits = GatewayLimits(approval=0.2)
        async with Gateway([pay], approver=never, store=ledger, limits=limits) as gateway:
            (answer,) = await asyncio.wait_for(gateway.run([call("pay", to="x")]), 30)
            assert answer.code == "denied"

    asyncio.run(go())


def test_a_call_in_flight_is_awaited(ledger) -> None:
    """Whoever has the key gets the answer once it is there, in this process or another, and nothing runs again."""
    ran: list[int] = []
    go_on = asyncio.Event()

    @tool(effect="once", writes="x")
    async def slow(n: int) -> int:
        """Act for as long as the test wants."""
        ran.append(n)
        await go_on.wait()
        return n

    async def go() -> None:
        async with Gateway([slow], store=ledger) as one, Gateway([slow], store=ledger) as other:
            first = asyncio.ensure_future(one.run([call("slow", n=1)], run="r", turn=0))
            while not ran:
                await asyncio.sleep(0.01)
            (known,) = await one.run([call("slow", n=1)], run="r", turn=0)
            assert known.code == "in_flight"
            early = await other.wait(known.key, timeout=0.05)
            assert (early.code, early.state, early.effect) == (
                "in_flight",
                CallState.RUNNING,
                "possible",
            )
            waiting = [asyncio.ensure_future(each.wait(known.key)) for each in (one, other)]
            await asyncio.sleep(0.05)
            go_on.set()
            for answer in await asyncio.gather(*waiting):
                assert (answer.code, answer.value, answer.replayed) == ("ok", 1, True)
            assert (await first)[0].content == answer.content
            with pytest.raises(InputError, match="no call with this key"):
                await one.wait("no key")

    asyncio.run(asyncio.wait_for(go(), 60))
    assert ran == [1]
