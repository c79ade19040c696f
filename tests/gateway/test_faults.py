"""The fault matrix: kill -9 at every write point, then redeliver, also twice at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.gateway import Gateway, GatewayLimits
from callmemaybe.gateway.audit.verify import verify_ledger
from callmemaybe.gateway.keys import call_key
from callmemaybe.gateway.ledger import Ledger, open_ledger
from callmemaybe.gateway.store import open_backend
from callmemaybe.testing.effects import (
    WRITE_POINTS,
    EffectLog,
    check_invariant,
    kill_at,
    logging_tool,
)
from callmemaybe.tools import Effect, ToolCall, make_tool

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")

CLASSES = list(Effect)


def prepare(store: str) -> None:
    """Make the table that transactional tools write to."""
    backend: Any = open_backend(store)
    with backend.transaction(), backend.savepoint() as connection:
        connection.execute("create table if not exists effects(key text)")
    backend.close()


def rows_of_effects(backend: Any) -> Counter[str]:
    with backend.transaction(), backend.savepoint() as connection:
        return Counter(key for (key,) in connection.execute("select key from effects").fetchall())


def opened(store: str, probe: Any = None) -> Ledger:
    more = {} if "://" in store else {"reserve": 0}
    return open_ledger(store, probe=probe, **more)


def lapse(store: str) -> None:
    """Let the time pass after which PostgreSQL's owners count as lost."""
    if "://" in store:
        import psycopg

        with psycopg.connect(store) as connection:
            connection.execute("update owners set expires = clock_timestamp()")


async def deliver(store: str, log: EffectLog, calls: list[ToolCall], **options: Any) -> list[Any]:
    """Deliver a turn once through a gateway of its own; log the answers."""
    tools = [logging_tool(log, effect, **_locks(options)) for effect in CLASSES]
    ledger = opened(store, options.get("probe"))
    try:
        async with Gateway(tools, store=ledger) as gateway:
            answers = await gateway.run(calls, run="r", turn=0)
            for answer in answers:
                log.record_answer(answer)
            return answers
    finally:
        ledger.close()


def _locks(options: dict[str, Any]) -> dict[str, Any]:
    return {"writes": "one thing"} if options.get("together") else {}


def in_child(store: str, log: EffectLog, calls: list[ToolCall], **options: Any) -> int:
    """Deliver in a forked process; return how it ended (a signal's number, or its exit code)."""
    child = os.fork()
    if child == 0:  # pragma: no cover - the child
        code = 70
        try:
            asyncio.run(asyncio.wait_for(deliver(store, log, calls, **options), 30))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    lapse(store)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)


def race(store: str, log: EffectLog, calls: list[ToolCall], **options: Any) -> list[Any]:
    """Two recoverers deliver the same turn at once; each repeats while the answer is `in_flight`."""

    async def insist() -> list[Any]:
        while True:
            answers = await deliver(store, log, calls, **options)
            if all(answer.code != "in_flight" for answer in answers):
                return answers
            await asyncio.sleep(0.01)

    async def both() -> list[Any]:
        first, second = await asyncio.gather(insist(), insist())
        assert [a.content for a in first] == [a.content for a in second]
        return first

    return asyncio.run(both())


def expected(effect: Effect, point: str) -> tuple[str, int]:
    """The specification's table of crash and recovery: final state, and number of effects."""
    place = WRITE_POINTS.index(point)
    if place <= WRITE_POINTS.index("T1 written"):
        return "succeeded", 1
    if place >= WRITE_POINTS.index("T3 durable"):
        return "succeeded", 1
    if effect is Effect.TRANSACTIONAL:
        return "succeeded", 1
    after_effect = place >= WRITE_POINTS.index("effect done")
    if effect is Effect.ONCE:
        return "unknown", int(after_effect)
    return "succeeded", 2 if after_effect else 1


def matrix() -> list[Any]:
    """Every write point x effect class x store; the quick run leaves out what repeats a column."""
    kinds = []
    for store in ("sqlite", "postgresql"):
        for effect in CLASSES:
            slow = effect in {Effect.PURE, Effect.READ, Effect.KEYED}
            slow = slow or (store, effect) == ("postgresql", Effect.IDEMPOTENT)
            for point in WRITE_POINTS:
                marks = [pytest.mark.slow] if slow else []
                kinds.append(pytest.param(store, effect, point, marks=marks))
    return kinds


@pytest.mark.parametrize(("store", "effect", "point"), matrix(), indirect=["store"])
def test_killed_at_every_write_point(
    store: str, tmp_path: Path, effect: Effect, point: str
) -> None:
    """After kill -9 anywhere and two recoverers at once: the table's state, the table's effects."""
    log = EffectLog(tmp_path / "effects.log")
    prepare(store)
    calls = [ToolCall(effect.value, '{"n": 1}', "c")]
    assert in_child(store, log, calls, probe=kill_at(point)) == signal.SIGKILL
    answers = race(store, log, calls)
    backend = open_backend(store)
    key = call_key("", "r", 0, 0, effect.value)
    inside = rows_of_effects(backend)
    state, effects = expected(effect, point)
    assert (backend.read_call(key).state, (log.effects() + inside)[key]) == (state, effects)
    assert answers[0].state == state
    check_invariant(log, backend, [key], inside)
    backend.close()


@pytest.mark.parametrize("effect", [Effect.ONCE, Effect.IDEMPOTENT])
@pytest.mark.parametrize("point", ["T2 half written", "T2 written", "T2 durable"])
def test_killed_around_a_later_start(
    store: str, tmp_path: Path, effect: Effect, point: str
) -> None:
    """A call that waits its turn is committed first: lost before T2 it may run, after T2 as usual."""
    log = EffectLog(tmp_path / "effects.log")
    prepare(store)
    calls = [ToolCall(effect.value, f'{{"n": {n}}}', str(n)) for n in (1, 2)]
    ended = in_child(store, log, calls, probe=kill_at(point), together=True)
    assert ended == signal.SIGKILL
    race(store, log, calls, together=True)
    backend = open_backend(store)
    keys = [call_key("", "r", 0, place, effect.value) for place in (0, 1)]
    check_invariant(log, backend, keys)
    lost = effect is Effect.ONCE and point == "T2 durable"
    assert backend.read_call(keys[0]).state == "succeeded"
    assert backend.read_call(keys[1]).state == ("unknown" if lost else "succeeded")
    assert log.effects()[keys[1]] == (0 if lost else 1)
    backend.close()


def test_recover_without_a_redelivery(store: str, tmp_path: Path) -> None:
    """`recover()` alone settles what a dead process left: once unknown, the others run again."""
    log = EffectLog(tmp_path / "effects.log")
    prepare(store)
    calls = [ToolCall(effect.value, '{"n": 1}', effect.value) for effect in CLASSES]
    point = kill_at("T1 durable")
    assert in_child(store, log, calls, probe=point) == signal.SIGKILL

    async def go() -> None:
        tools = [logging_tool(log, effect) for effect in CLASSES]
        ledger = opened(store)
        async with Gateway(tools, store=ledger) as gateway:
            await gateway.recover()
            assert await gateway.recover() == 0
        ledger.close()

    asyncio.run(go())
    backend = open_backend(store)
    states = {row.tool: row.state for row in backend.read_calls(run="r", limit=100)}
    assert states["pure"] == "succeeded"
    assert set(states.values()) <= {"succeeded", "unknown", "committed"}
    race(store, log, calls)
    keys = [call_key("", "r", 0, place, effect.value) for place, effect in enumerate(CLASSES)]
    check_invariant(log, backend, keys, rows_of_effects(backend))
    backend.close()


def test_what_never_started_is_cancelled_after_its_turn(store: str) -> None:
    """kill -9 between T1 and T2: `recover()` cancels what waited, with effect none, and it never runs."""
    waits = [make_tool(_hang, name=name, effect="once", writes="x") for name in ("first", "second")]
    calls = [ToolCall(name, '{"n": 1}', name) for name in ("first", "second")]

    async def die() -> None:
        gateway = Gateway(waits, store=opened(store))
        turn = asyncio.ensure_future(gateway.run(calls, run="r", turn=0))
        while not turn.done():
            await asyncio.sleep(0.02)
            rows = gateway.ledger.backend.read_calls(run="r", limit=9)
            if sorted(row.state for row in rows) == ["committed", "running"]:
                os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:  # pragma: no cover - the child
        asyncio.run(die())
        os._exit(70)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    lapse(store)

    async def go() -> None:
        ledger = opened(store)
        async with Gateway(waits, store=ledger, limits=GatewayLimits(turn=3600)) as early:
            await early.recover()
            assert states(ledger) == {"first": "unknown", "second": "committed"}
        async with Gateway(waits, store=ledger, limits=GatewayLimits(turn=0.001)) as late:
            await asyncio.sleep(0.01)
            await late.recover()
            assert states(ledger) == {"first": "unknown", "second": "cancelled"}
        async with Gateway(waits, store=ledger) as gateway:
            answers = await gateway.run(calls, run="r", turn=0)
            assert [(one.code, one.effect) for one in answers] == [
                ("unknown_outcome", "possible"), ("cancelled", "none"),
            ]  # fmt: skip
            assert not verify_ledger(ledger.backend).breaks
        ledger.close()

    asyncio.run(go())


def test_what_dead_processes_leave_beside_a_ledger_is_deleted(tmp_path: Path) -> None:
    """Files and leases of dead owners go at the next open and at `recover()`; those of living ones stay."""
    store, folder = str(tmp_path / "s.db"), tmp_path / "s.db-owners"

    def die() -> None:
        child = os.fork()
        if child == 0:  # pragma: no cover - the child
            open_ledger(store, reserve=0)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)

    def left(ledger: Ledger) -> tuple[int, int]:
        found = ledger.backend._read("select count(*) from owners", ())  # type: ignore[attr-defined]
        return len(list(folder.iterdir())), found[0][0]

    living = opened(store)
    for _ in range(3):
        die()
    second = opened(store)
    assert left(second) == (2, 2)
    die()

    async def go() -> None:
        async with Gateway([], store=second) as gateway:
            assert left(second) == (3, 3)
            await gateway.recover()

    asyncio.run(go())
    assert left(second) == (2, 2)
    second.close()
    living.close()
    assert not list(folder.iterdir())


async def _hang(n: int) -> int:
    await asyncio.sleep(60)
    return n


def states(ledger: Ledger) -> dict[str, str]:
    return {row.tool: row.state for row in ledger.backend.read_calls(run="r", limit=9)}


def test_recovery_is_not_blocked_by_calls_it_cannot_run(store: str) -> None:
    """Calls that wait for a redelivery or have an unknown tool do not use up the limit of a recovery."""
    stop = asyncio.Event()

    async def held(n: int) -> int:
        await stop.wait()
        return n

    async def done(n: int) -> int:
        return n

    writes = {"queued": "one thing", "foreign": "{n}", "last": "another"}
    hanging, working = (
        [make_tool(way, name=name, effect="idempotent", writes=writes[name]) for name in writes]
        for way in (held, done)
    )

    async def go() -> None:
        dying, living = opened(store), opened(store)
        old = Gateway(hanging, store=dying)
        names = ["queued"] * 110 + ["foreign"] * 110 + ["last"]
        turns = [
            asyncio.ensure_future(
                old.run([ToolCall(name, f'{{"n": {n}}}')], run=f"{name} {n}", turn=0)
            )
            for n, name in enumerate(names)
        ]
        running = 0
        while running < 112:
            await asyncio.sleep(0.02)
            found = dying.backend.read_calls(run=None, limit=1000)
            running = sum(row.state == "running" for row in found)
        vanish(dying, store)
        async with Gateway([working[0], working[2]], store=living) as gateway:
            assert await gateway.recover() == 2
            for name, n in (("queued", 0), ("last", 220)):
                (row,) = living.backend.read_calls(run=f"{name} {n}", limit=1)
                assert (row.state, row.owner) == ("succeeded", living.owner)
        stop.set()
        await asyncio.gather(*turns, return_exceptions=True)
        await old.close()
        dying.close()
        living.close()

    asyncio.run(go())


def vanish(ledger: Ledger, store: str) -> None:
    """Let a ledger's owner count as lost though it is here."""
    if "://" in store:
        lapse(store)
    else:
        ledger.backend._alive.close()  # type: ignore[attr-defined]
