"""A commit whose answer is lost, a policy that changes meanwhile, two who recover: the ledger says what is true."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from typing import Any

import pytest

from callmemaybe.gateway import Gateway, GatewayLimits, StoreError, StoreTransient
from callmemaybe.gateway.apply import Applier
from callmemaybe.gateway.audit.verify import verify_ledger
from callmemaybe.gateway.ledger import Ledger, open_ledger
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.gateway.store import (
    AdmitCalls,
    AppendAudit,
    CallProposal,
    CallRow,
    ClaimLostCalls,
    OperationBatch,
    RunRow,
    UpdateCall,
)
from callmemaybe.tools import ToolCall, make_tool, tool
from tests.gateway import my_tools


def opened(store: str, **more: Any) -> Ledger:
    options = {} if "://" in store else {"reserve": 0}
    return open_ledger(store, GatewayLimits(**more), **options)


def test_who_narrowed_a_policy_finds_no_later_admission_under_the_old_one(store: str) -> None:
    """T1 compares the policies until its commit: a process that narrows the run waits for it."""
    order: list[str] = []
    written, narrowed = threading.Event(), threading.Event()

    def probe(point: str) -> None:
        if point == "T1 written":
            written.set()
            narrowed.wait(1.0)  # time enough, if nothing made it wait
        elif point == "T1 durable":
            order.append("admitted")

    @tool(effect="read", trusted=True)
    async def look() -> int:
        return 1

    call = [ToolCall("look", "{}", "c")]

    async def go() -> None:
        first, second = opened(store), opened(store)
        async with Gateway([look], store=first) as one, Gateway([look], store=second) as two:
            assert (await one.run(call, run="r", turn=0))[0].ok
            run = two.begin("r")
            first.probe = probe
            admitted = asyncio.ensure_future(one.run(call, run="r", turn=1))
            while not written.is_set():
                await asyncio.sleep(0.01)
            run.narrow("look")
            (denied,) = await two.run(call, run=run, turn=2)
            order.append("narrowed")
            narrowed.set()
            assert denied.code == "denied"
            assert (await admitted)[0].ok
            first.probe = lambda _: None
            assert (await one.run(call, run="r", turn=3))[0].code == "denied"
        first.close()
        second.close()

    asyncio.run(go())
    assert order == ["admitted", "narrowed"]


def losing(ledger: Ledger, error: type[StoreError], kind: type) -> list[int]:
    """Let the store commit the next operation of ``kind`` and lose the answer."""
    real, commit, left = ledger.backend.transaction, ledger._commit, [1]

    def watched(queued: Any) -> None:
        @contextlib.contextmanager
        def transaction() -> Any:
            with real():
                yield
            if left and any(isinstance(one.operation, kind) for one in queued):
                left.clear()
                raise error("the connection broke")

        ledger.backend.transaction = transaction  # type: ignore[method-assign]
        commit(queued)

    ledger._commit = watched  # type: ignore[method-assign]
    return left


@pytest.mark.parametrize("sees_it", [True, False])
def test_an_audit_record_whose_commit_was_not_answered_is_there_once(
    store: str, sees_it: bool
) -> None:
    """Sent again it is recognised, also if the commit is done only after the chain's end was read."""
    ledger = opened(store)
    left = losing(ledger, StoreTransient, AppendAudit)
    if not sees_it and "://" in store:
        after, blind = ledger.backend.chain_after, [1]

        def chain_after(chain: str, number: int) -> Any:
            return [] if blind and blind.pop() else after(chain, number)

        ledger.backend.chain_after = chain_after  # type: ignore[method-assign]
    for n in range(3):
        ledger.send_and_wait(AppendAudit("", json.dumps({"event": "attempt", "n": n})))
    assert not left
    records = [json.loads(row[3])["n"] for row in ledger.backend.read_audit()]
    assert records == [0, 1, 2]
    assert not verify_ledger(ledger.backend).breaks
    ledger.close()


@pytest.mark.parametrize("effect", ["once", "idempotent"])
def test_what_was_admitted_while_its_caller_heard_of_an_error_does_not_stay_running(
    store: str, effect: str
) -> None:
    """`recover()` of the same, living process ends a `once` call, effect none, and runs the others."""
    ran: list[int] = []

    @tool(effect=effect, writes="a", trusted=True)
    async def put(n: int) -> int:
        ran.append(n)
        return n

    def call(n: int) -> list[ToolCall]:
        return [ToolCall("put", json.dumps({"n": n}), "c")]

    async def go() -> None:
        ledger = opened(store)
        losing(ledger, StoreError, AdmitCalls)
        async with Gateway([put], store=ledger) as early:
            with pytest.raises(StoreError, match="broke"):
                await early.run(call(1), run="r", turn=0)
            assert await early.recover() == 0  # its caller may deliver it again
            (row,) = ledger.backend.read_calls(run="r", limit=9)
            assert (row.state, ran) == ("running", [])
        now = ledger.backend.now
        ledger.backend.now = lambda: now() + 100  # type: ignore[method-assign]
        async with Gateway([put], store=ledger) as late:
            await late.recover()
            assert ran == ([] if effect == "once" else [1])
        async with Gateway([put], store=ledger) as gateway:
            (again,) = await gateway.run(call(1), run="r", turn=0)
            told = ("refused", "none") if effect == "once" else ("ok", "done")
            assert (again.code, again.effect) == told
            assert (await gateway.run(call(2), run="r", turn=1))[0].ok
        assert not verify_ledger(ledger.backend).breaks
        ledger.close()

    asyncio.run(go())


def test_a_recovery_asks_for_all_locks_at_once(store: str) -> None:
    """Two that recover calls of crossing resources take their locks in one order."""

    @tool(effect="idempotent", writes="n:{n}", trusted=True)
    async def put(n: int) -> int:
        began.append(n)
        await asyncio.sleep(3600 if dying else 0)
        return n

    dying, began = [1], list[int]()

    async def go() -> None:
        dead = opened(store)
        one = Gateway([put], store=dead)
        calls = [ToolCall("put", json.dumps({"n": n}), str(n)) for n in range(4)]
        lost = asyncio.ensure_future(one.run(calls, run="r", turn=0))
        while len(began) < 4:
            await asyncio.sleep(0.01)
        ledger = opened(store)
        backend = ledger.backend
        serialised: list[int] = []
        serialise = backend.serialise

        def counted(locks: Any, *rest: Any) -> None:
            serialised.append(len(locks))
            serialise(locks, *rest)

        backend.serialise = counted  # type: ignore[method-assign]
        backend.lost_owners = lambda owners: {dead.owner} & set(owners)  # type: ignore[method-assign]
        dying.clear()
        async with Gateway([put], store=ledger) as gateway:
            assert await gateway.recover() == 4
        assert serialised[0] == 4
        assert 4 not in serialised[1:]
        lost.cancel()
        ledger.close()
        dead.close()

    asyncio.run(go())


def test_nobodys_wall_clock_moves_the_clock_of_postgresql(
    postgres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Approvals and retention follow the database's clock, also while this host's is an hour wrong."""
    ledger = opened(postgres.fresh(), heartbeat=0.02)
    before, real = ledger.backend.now(), time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    time.sleep(0.1)
    assert 0 < ledger.backend.now() - before < 60
    ledger.backend._offset -= 500.0  # type: ignore[attr-defined]
    deadline = time.monotonic() + 30
    while abs(ledger.backend.now() - real()) > 60 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert abs(ledger.backend.now() - real()) < 60
    ledger.close()


@pytest.mark.parametrize("kind", ["async", "thread", "process"])
@pytest.mark.parametrize("taken_over", [False, True])
def test_a_process_that_was_suspended_just_before_the_tool_asks_again(
    tmp_path: Any, kind: str, taken_over: bool
) -> None:
    """The lease is looked at once more right before the function: a call that was taken over does not begin."""
    store, effects = str(tmp_path / "x.db"), tmp_path / "effects"
    options = {"effect": "once", "writes": "a", "trusted": True, "name": "put"}
    if kind == "async":

        async def put() -> None:
            effects.open("a").write("x")

        made = make_tool(put, **options)
    elif kind == "thread":

        def put_in_thread() -> None:
            effects.open("a").write("x")

        made = make_tool(put_in_thread, timeout=None, **options)
    else:
        made = my_tools.act
    arguments = json.dumps({"path": str(effects), "text": "x"} if kind == "process" else {})
    call = [ToolCall(made.name, arguments, "c")]

    async def go() -> None:
        ledger, other = opened(store), opened(store)
        looked: list[int] = []
        real = ledger.has_held_lease

        def has_held_lease(since: float) -> bool:
            if threading.current_thread() is ledger._writer:
                return real(since)
            looked.append(1)
            if len(looked) == 1 and taken_over:
                other.backend.lost_owners = lambda _: {ledger.owner}  # type: ignore[method-assign]
                other.send_and_wait(ClaimLostCalls({}, time.time(), 0.0))
            return len(looked) == 1 or (len(looked) > 3 and real(since))

        async with Gateway([made], store=ledger) as gateway:
            ledger.has_held_lease = has_held_lease  # type: ignore[method-assign]
            (answer,) = await gateway.run(call, run="r", turn=0)
        assert len(looked) >= 3
        code = "unknown_outcome" if taken_over else "ok"
        assert answer.code == code, answer
        assert effects.exists() is not taken_over
        assert taken_over or effects.read_text().strip() == "x"
        ledger.close()
        other.close()

    asyncio.run(go())


def test_one_batch_admits_a_call_once_and_starts_it_once(store: str) -> None:
    """Two deliveries in one transaction, the first of which finds its locks taken: one of them runs the call."""
    ledger, other = opened(store), opened(store)
    locks = '[["a", true]]'

    def row(key: str, owner: str, state: str) -> CallRow:
        return CallRow(
            key, "", "r", 0, 0, "c", "put", "once", "m", "p", "d", "{}", locks, state,
            int(state == "running"), owner, 1.0,
        )  # fmt: skip

    def apply(*operations: Any) -> list[Any]:
        batch = OperationBatch(operations)
        with ledger.backend.transaction():
            Applier(ledger.backend, batch, set(), 30.0).apply()
        return [batch.outcomes[index] for index in range(len(operations))]

    run = RunRow("", "r", "{}", "p")
    theirs = AdmitCalls((CallProposal(row("k1", other.owner, "running"), "{}"),), run, False)
    other.send_and_wait(theirs)
    mine = [
        AdmitCalls((CallProposal(row("k2", ledger.owner, state), "{}"),), None, False)
        for state in ("running", "committed")
    ]
    statuses = [outcome[0].status for outcome in apply(*mine)]
    assert sorted(statuses) == ["in_flight", "new"]
    states = CallState.COMMITTED, CallState.CANCELLED
    ends = [UpdateCall("k2", states[0], 0, states[1], "{}", content=text) for text in ("1", "2")]
    assert [outcome.won for outcome in apply(*ends)] == [True, False]
    assert ledger.backend.read_call("k2").content == "1"  # type: ignore[union-attr]
    ledger.close()
    other.close()


@pytest.mark.parametrize("left", ["a pipeline", "a transaction"])
def test_a_connection_that_broke_in_the_middle_is_replaced(postgres: Any, left: str) -> None:
    """What a given-up transaction leaves of its connection does not stop the next one for ever."""
    ledger = opened(postgres.fresh())
    backend: Any = ledger.backend
    if left == "a pipeline":
        backend._write.pgconn.enter_pipeline_mode()
    else:
        backend._write.execute("select 1")
    ledger.send_and_wait(AppendAudit("", '{"event": "attempt", "t": 1}'), 2.0)
    assert len(list(backend.read_audit())) == 1
    ledger.close()
