"""Who watches, who decides and who waits: observers and approvers that fail, and calls that are awaited."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any

import pytest

from callmemaybe import Conversation, GatewayExecutor, plugins
from callmemaybe.conversation.events import UserMessage, turn_events
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


@tool(effect="once", writes="money", approval="always")
async def pay(to: str) -> str:
    """Pay."""
    PAID.append(to)
    return to


@tool(effect="once", writes="post")
async def tell(who: str) -> str:
    """Tell."""
    PAID.append(who)
    return who


PAID: list[str] = []


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    """Each test begins with nothing done."""
    PAID.clear()


def test_a_run_goes_on_after_a_decision(ledger) -> None:
    """Whoever awaits a decision resumes the turn: what was approved runs once, the rest is as it was."""

    async def go() -> None:
        async with Gateway([pay, tell], store=ledger) as one:
            asked = await one.run(
                [
                    call("pay", to="x"),
                    call("tell", who="y"),
                    call("pay", to="z"),
                    ToolCall("pay", "{"),
                ]
            )
            assert [answer.code for answer in asked] == [
                "approval_pending",
                "ok",
                "approval_pending",
                "invalid_arguments",
            ]
            first, second = asked[0].approval, asked[2].approval
            assert (await one.decision(first, timeout=0.05)).decision is None
            waiting = asyncio.ensure_future(one.decision(first))
            await asyncio.sleep(0.05)
            await one.decide(first, "approved", by="ann")
            assert (await waiting).by == "ann"
        async with Gateway([pay, tell], store=ledger) as other:
            answers = await other.resume(first)
            assert [answer.code for answer in answers] == [
                "ok",
                "ok",
                "approval_pending",
                "invalid_arguments",
            ]
            await other.decide(second, "denied", by="ann")
            answers = await other.resume(second)
            assert [answer.code for answer in answers] == [
                "ok",
                "ok",
                "denied",
                "invalid_arguments",
            ]
            with pytest.raises(InputError, match="there is no approval"):
                await other.resume("nope")
            with pytest.raises(InputError, match="there is no approval"):
                await other.decision("nope")

    asyncio.run(asyncio.wait_for(go(), 60))
    assert PAID == ["y", "x"]


def test_a_policy_of_the_resuming_process_still_holds(ledger) -> None:
    """An approval lets nothing run that the run's or this process's policy denies."""

    async def go() -> None:
        async with Gateway([pay, tell], store=ledger) as one:
            (asked,) = await one.run([call("pay", to="x")], run="r")
            await one.decide(asked.approval, "approved", by="ann")
        async with Gateway([tell], store=ledger) as other:
            (answer,) = await other.resume(asked.approval)
            assert answer.code == "unknown_tool"

    asyncio.run(go())
    assert not PAID


def test_what_the_ledger_does_not_keep_is_said(ledger) -> None:
    """A turn whose arguments are sensitive, or whose calls had keys of the caller's, is not made up."""

    @tool(effect="once", writes="safe", approval="always", sensitive="code")
    async def store_code(code: str) -> None:
        """Store."""

    async def go() -> None:
        async with Gateway([store_code, pay], store=ledger) as gateway:
            (asked,) = await gateway.run([call("store_code", code="1234")])
            with pytest.raises(InputError, match="does not keep"):
                await gateway.resume(asked.approval)
            (asked,) = await gateway.run([call("pay", to="x")], keys=["order:1"])
            with pytest.raises(InputError, match="a key of its own"):
                await gateway.resume(asked.approval)

    asyncio.run(go())
    assert not PAID


def test_an_agent_waits_for_a_person(ledger) -> None:
    """Its turn goes on when somebody else has decided, without another turn of the model."""

    async def go() -> None:
        async with (
            Gateway([pay, tell], store=ledger) as gateway,
            Gateway([pay], store=ledger) as desk,
        ):
            conversation = Conversation()
            conversation.take(UserMessage("user", "pay x"))
            for event in turn_events("", [ToolCall("pay", '{"to": "x"}', "c1")]):
                conversation.take(event)
            execute = GatewayExecutor(gateway, wait_for_approvals=True)
            turn = asyncio.ensure_future(
                execute.execute(conversation, conversation.entries[-1].calls)
            )
            backend = gateway.ledger.backend
            while not (
                found := await desk.ledger.read(lambda: backend.read_approvals(pending_only=True))
            ):
                await asyncio.sleep(0.01)
            assert not turn.done()
            await desk.decide(found[0].id, "approved", by="ann")
            (answer,) = await turn
            assert answer.ok

    asyncio.run(asyncio.wait_for(go(), 60))
    assert PAID == ["x"]


def test_unknown_calls_are_found_until_they_are_reconciled(ledger) -> None:
    """The ledger lists the calls of unknown outcome of all runs, newest first, and no other."""

    @tool(effect="once", writes="x:{n}")
    async def lose(n: int) -> None:
        """Act, perhaps."""
        if n:
            raise ConnectionResetError

    async def go() -> None:
        async with Gateway([lose], store=ledger) as gateway:
            answers = [
                (await gateway.run([call("lose", n=n)], run=f"r{n}"))[0] for n in (0, 1, 2, 3)
            ]
            await gateway.reconcile(answers[2].key, "done", by="ada")
            found = [row.key for row in ledger.backend.read_unknown(10)]
            assert found == [answers[3].key, answers[1].key]
            assert [row.key for row in ledger.backend.read_unknown(1)] == [answers[3].key]

    asyncio.run(go())
