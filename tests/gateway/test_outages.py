"""The store goes away, the disk fills up, the clock jumps, processes compete: nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import apsw
import pytest

from callmemaybe.errors import InputError
from callmemaybe.gateway import Gateway, StoreError, StoreFull, StoreTransient
from callmemaybe.gateway.audit.chain import ChainHead
from callmemaybe.gateway.audit.verify import file_anchor, read_anchors, verify_ledger
from callmemaybe.gateway.keys import call_key
from callmemaybe.gateway.ledger import open_ledger
from callmemaybe.gateway.limits import GatewayLimits
from callmemaybe.gateway.store import open_backend
from callmemaybe.testing.effects import EffectLog, check_invariant, logging_tool
from callmemaybe.tools import Effect, ToolCall, tool


def call(n: int) -> ToolCall:
    return ToolCall("once", json.dumps({"n": n}), str(n))


def insisting(store: str, log: EffectLog, numbers: range, **more: Any) -> None:
    """Deliver keys until each has a final answer, whatever the store does meanwhile."""

    async def one(gateway: Gateway, n: int) -> None:
        while True:
            try:
                answer = (await gateway.run([call(n)], run="r", turn=n))[0]
            except StoreError:
                await asyncio.sleep(0.05)
                continue
            log.record_answer(answer)
            if answer.code != "in_flight":
                return
            await asyncio.sleep(0.02)

    async def go() -> None:
        ledger = open_ledger(store, **more)
        async with Gateway(
            [logging_tool(log, Effect.ONCE, writes="n:{n}")], store=ledger
        ) as gateway:
            await asyncio.gather(*(one(gateway, n) for n in numbers))
        ledger.close()

    asyncio.run(go())


@pytest.mark.parametrize("keys", [40, pytest.param(500, marks=pytest.mark.slow)])
def test_four_processes_deliver_the_same_keys(store: str, tmp_path: Path, keys: int) -> None:
    """Each effect happens exactly once, whichever process wins, and all say the same."""
    log = EffectLog(tmp_path / "effects.log")
    open_backend(store).close()
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:  # pragma: no cover - the child
            code = 70
            try:
                insisting(store, log, range(keys))
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    delivered = [call_key("", "r", n, 0, "once") for n in range(keys)]
    backend = open_backend(store)
    check_invariant(log, backend, delivered)
    assert all(log.effects()[key] == 1 for key in delivered)
    backend.close()


@pytest.mark.parametrize("away", [1.0, pytest.param(30.0, marks=pytest.mark.slow)])
def test_postgresql_goes_away_under_load(postgres: Any, tmp_path: Path, away: float) -> None:
    """Stopped at once and started again later: every call has one effect and one answer."""
    store = postgres.fresh()
    log = EffectLog(tmp_path / "effects.log")
    open_backend(store).close()

    async def go() -> None:
        ledger = open_ledger(store)
        async with Gateway(
            [logging_tool(log, Effect.ONCE, writes="n:{n}")], store=ledger
        ) as gateway:
            stop = asyncio.Event()
            given = 0

            async def caller(first: int) -> None:
                nonlocal given
                n = first
                while True:
                    try:
                        answer = (await gateway.run([call(n)], run="r", turn=n))[0]
                    except StoreError:
                        await asyncio.sleep(0.05)
                        continue
                    log.record_answer(answer)
                    if answer.code == "in_flight":
                        await asyncio.sleep(0.05)
                        continue
                    n += 10
                    given += 1
                    if stop.is_set():
                        return

            callers = [asyncio.ensure_future(caller(first)) for first in range(10)]
            while given < 50:
                await asyncio.sleep(0.01)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, postgres.stop)
            await asyncio.sleep(away)
            before = given
            await loop.run_in_executor(None, postgres.start)
            while given < before + 50:
                await asyncio.sleep(0.01)
            stop.set()
            await asyncio.gather(*callers)
        ledger.close()

    asyncio.run(asyncio.wait_for(go(), 110))
    backend: Any = open_backend(store)
    rows = backend.read_calls(run="r", limit=100_000)
    check_invariant(log, backend, [row.key for row in rows])
    assert {row.state for row in rows} == {"succeeded"}, rows[0]
    backend.close()


def test_disk_full_at_t1_refuses_and_recovers(tmp_path: Path) -> None:
    """Without disk space for an intent nothing runs and no answer is given; with space the same key runs."""
    log = EffectLog(tmp_path / "effects.log")
    ledger = open_ledger(str(tmp_path / "x.db"), reserve=0)
    backend: Any = ledger.backend
    real, full = backend.insert_calls, True

    def insert(rows: Any) -> Any:
        done = real(rows)
        if full:
            raise apsw.FullError("database or disk is full")
        return done

    backend.insert_calls = insert

    async def go() -> None:
        nonlocal full
        async with Gateway(
            [logging_tool(log, Effect.ONCE, writes="n:{n}")], store=ledger
        ) as gateway:
            with pytest.raises(StoreFull):
                await gateway.run([call(1)], run="r", turn=1)
            assert not log.effects()
            assert not list(backend.read_audit())
            full = False
            assert (await gateway.run([call(1)], run="r", turn=1))[0].ok

    asyncio.run(go())
    check_invariant(log, backend, [call_key("", "r", 1, 0, "once")])
    ledger.close()


def test_a_result_gets_the_reserve(tmp_path: Path) -> None:
    """Full at T3: the reserve is given up, the result is recorded; new intents wait for room."""
    log = EffectLog(tmp_path / "effects.log")
    ledger = open_ledger(str(tmp_path / "x.db"), reserve=64 * 1024)
    backend: Any = ledger.backend
    reserve = tmp_path / "x.db-reserve"
    assert reserve.exists()
    real, full = backend.update_calls, True

    def move(moves: Any) -> Any:
        if full and reserve.exists():
            raise StoreFull("no room")
        return real(moves)

    backend.update_calls = move

    async def go() -> None:
        nonlocal full
        async with Gateway(
            [logging_tool(log, Effect.ONCE, writes="n:{n}")], store=ledger
        ) as gateway:
            assert (await gateway.run([call(1)], run="r", turn=1))[0].ok
            assert not reserve.exists()
            backend._reserve._size = 1 << 60  # no disk has this much room
            with pytest.raises(StoreFull):
                await gateway.run([call(2)], run="r", turn=2)
            backend._reserve._size, full = 64 * 1024, False
            assert (await gateway.run([call(2)], run="r", turn=2))[0].ok
            assert reserve.exists()

    asyncio.run(go())
    check_invariant(log, backend, [call_key("", "r", n, 0, "once") for n in (1, 2)])
    ledger.close()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs user namespaces")
def test_a_really_full_disk(tmp_path: Path) -> None:
    """On a file system of 3 MiB filled to the brim: no effect without a record, none lost."""
    script = tmp_path / "fill.py"
    script.write_text(
        textwrap.dedent(
            """
            import asyncio, json, os, sys
            from pathlib import Path
            from callmemaybe.tools import Effect, ToolCall
            from callmemaybe.gateway import Gateway, StoreError
            from callmemaybe.gateway.ledger import open_ledger
            from callmemaybe.testing.effects import EffectLog, check_invariant, logging_tool

            disk, log = Path(sys.argv[1]), EffectLog(Path(sys.argv[2]))

            async def go():
                ledger = open_ledger(str(disk / "x.db"), reserve=256 * 1024)
                keys, failed = [], 0
                async with Gateway([logging_tool(log, Effect.ONCE, writes="n:{n}")], store=ledger) as gateway:
                    for n in range(20_000):
                        calls = [ToolCall("once", json.dumps({"n": n}), "c")]
                        try:
                            answer = (await gateway.run(calls, run="r", turn=n))[0]
                        except StoreError:
                            failed += 1
                            if failed > 20:
                                break
                        else:
                            log.record_answer(answer)
                            keys.append(answer.key)
                assert failed, "the disk never filled"
                check_invariant(log, ledger.backend, keys)
                assert sum(log.effects().values()) == len(keys) > 10
                print("filled after", len(keys))
                ledger.close()

            asyncio.run(go())
            """
        )
    )
    disk = tmp_path / "disk"
    disk.mkdir()
    command = f"mount -t tmpfs -o size=3m tmpfs {disk} && exec {sys.executable} {script} {disk} {tmp_path}/log"
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", command], capture_output=True, text=True, check=False
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr.strip()[:100]}")
    assert done.returncode == 0, done.stderr
    assert "filled after" in done.stdout


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_the_wall_clock_may_jump(tmp_path: Path, monkeypatch: Any, jump: float) -> None:
    """An hour forward or back changes nothing about leases, replays or the chain."""
    log = EffectLog(tmp_path / "effects.log")
    store = str(tmp_path / "x.db")
    real = time.time

    async def go() -> None:
        first, second = open_ledger(store, reserve=0), open_ledger(store, reserve=0)

        @tool(effect="once", name="once", writes="x", trusted=True)
        async def slow(n: int) -> int:
            log.write("effect", call_key("", "r", n, 0, "once"))
            monkeypatch.setattr(time, "time", lambda: real() + jump)
            await asyncio.sleep(0.05)
            return n

        async with Gateway([slow], store=first) as one, Gateway([slow], store=second) as two:
            running = asyncio.ensure_future(one.run([call(1)], run="r", turn=1))
            while not log.effects():
                await asyncio.sleep(0.005)
            other = (await two.run([call(1)], run="r", turn=1))[0]
            assert other.code == "in_flight"
            answer = (await running)[0]
            assert answer.ok
            log.record_answer(answer)
            again = (await two.run([call(1)], run="r", turn=1))[0]
            assert again.content == answer.content
        check_invariant(log, first.backend, [answer.key])
        first.close()
        second.close()

    asyncio.run(go())


def test_a_lapsed_owner_cannot_record(tmp_path: Path) -> None:
    """A process that hung beyond its lease finds its call taken over; its late result is dropped."""
    store = str(tmp_path / "x.db")

    async def go() -> None:
        first, second = open_ledger(store, reserve=0), open_ledger(store, reserve=0)
        lapse: Any = second.backend
        waiting, go_on = asyncio.Event(), asyncio.Event()

        @tool(effect="once", name="once", writes="x")
        async def slow(n: int) -> int:
            waiting.set()
            await go_on.wait()
            return n

        async with Gateway([slow], store=first) as one, Gateway([slow], store=second) as two:
            late = asyncio.ensure_future(one.run([call(1)], run="r", turn=1))
            await waiting.wait()
            lapse._reader.execute("update owners set beat = -1e9 where owner = ?", (first.owner,))
            taken = (await two.run([call(1)], run="r", turn=1))[0]
            assert taken.code == "unknown_outcome"
            go_on.set()
            assert (await late)[0].content == taken.content
        assert first.backend.read_call(taken.key).state == "unknown"
        first.close()
        second.close()

    asyncio.run(go())


def test_an_anchor_that_fails_ends_no_lease(tmp_path: Path) -> None:
    """Where the last head cannot be noted, the owner goes on living, and hears of it at the end."""
    tried: list[int] = []

    def note(head: ChainHead) -> None:
        tried.append(head.length)
        raise OSError("no space left")

    @tool(effect="once", name="once", writes="x")
    async def once(n: int) -> int:
        return n

    quick = GatewayLimits(heartbeat=0.01, anchor=0.01)
    ledger = open_ledger(str(tmp_path / "x.db"), quick, anchor=note, reserve=0)

    async def go() -> None:
        async with Gateway([once], store=ledger) as gateway:
            assert (await gateway.run([call(1)], run="r", turn=1))[0].ok
            async with asyncio.timeout(20):
                while len(tried) < 3:  # by whom keeps the lease, too
                    await asyncio.sleep(0.005)

    asyncio.run(go())
    with pytest.raises(OSError, match="no space left"):
        ledger.close()
    again = open_ledger(str(tmp_path / "x.db"), reserve=0)
    again.close()


def test_an_anchor_that_hangs_ends_no_lease(tmp_path: Path) -> None:
    """An anchor that hangs for minutes does not let the lease lapse."""
    gone, running, go_on = threading.Event(), asyncio.Event(), asyncio.Event()
    noting = threading.Event()

    def note(_: ChainHead) -> None:
        noting.set()
        gone.wait(60)

    @tool(effect="once", name="once", writes="x")
    async def once(n: int) -> int:
        running.set()
        await go_on.wait()
        return n

    limits = GatewayLimits(lease=1.5, heartbeat=0.1, anchor=0.1)
    first = open_ledger(str(tmp_path / "x.db"), limits, anchor=note, reserve=0)
    second = open_ledger(str(tmp_path / "x.db"), reserve=0)

    async def go() -> None:
        async with Gateway([once], store=first) as one, Gateway([once], store=second) as two:
            held = asyncio.ensure_future(one.run([call(1)], run="r", turn=1))
            await running.wait()
            await asyncio.to_thread(noting.wait, 20)
            await asyncio.sleep(limits.lease + 0.3)
            assert (await two.run([call(1)], run="r", turn=1))[0].code == "in_flight"
            go_on.set()
            assert (await held)[0].ok
            gone.set()

    asyncio.run(go())
    first.close()
    second.close()


def test_a_truncated_anchor_is_skipped(tmp_path: Path) -> None:
    """Half a line, from a full disk, notes nothing; the heads before and after it are read."""
    path = tmp_path / "heads.jsonl"
    heads = [
        ChainHead("ab", 1, b"1" * 32),
        ChainHead("cd", 2, b"2" * 32),
        ChainHead("ab", 3, b"3" * 32),
    ]
    file_anchor(path)(heads[0])
    whole = path.read_bytes()
    for cut in range(1, len(whole)):
        path.write_bytes(whole + whole[:cut])
        for head in heads[1:]:
            file_anchor(path)(head)
        expected = heads if cut < len(whole) - 1 else [heads[0], *heads]
        assert read_anchors(path) == expected
    path.write_bytes(whole + b'{"chain": "ab", "length": 1}\n')
    with pytest.raises(InputError, match="no anchor"):
        read_anchors(path)


def test_a_lost_answer_to_a_commit_stops_nothing(store: str) -> None:
    """The store committed and the connection broke before it could say so: the chain goes on from there."""
    ran = []

    @tool(effect="once", name="once", writes="n:{n}", trusted=True)
    async def once(n: int) -> int:
        ran.append(n)
        return n

    ledger = open_ledger(store, **({} if "://" in store else {"reserve": 0}))
    committed, lost = ledger.backend.transaction, [3, 5, 6]

    @contextlib.contextmanager
    def transaction() -> Any:
        with committed():
            yield
        lost[:] = [left - 1 for left in lost]
        if 0 in lost:
            raise StoreTransient("the connection broke")

    ledger.backend.transaction = transaction  # type: ignore[method-assign]

    async def go() -> None:
        async with Gateway([once], store=ledger) as gateway:
            for n in range(6):
                (answer,) = await gateway.run([call(n)], run="r", turn=n)
                assert answer.ok, answer

    asyncio.run(go())
    assert max(lost) < 0
    assert ran == list(range(6))
    report = verify_ledger(ledger.backend)
    assert (report.calls, report.breaks) == (6, ())
    ledger.close()


def test_closing_finishes_what_a_busy_store_put_off(tmp_path: Path) -> None:
    """A record that was sent before is written, even if another process locks the store on close."""
    store = str(tmp_path / "x.db")

    @tool(effect="once", name="once", writes="x")
    async def once(n: int) -> int:
        return n

    async def go() -> None:
        ledger = open_ledger(store, reserve=0, busy=0.05)
        async with Gateway([once], store=ledger) as gateway:
            run = gateway.begin("r", tools=())
            other = apsw.Connection(store)
            other.execute("begin immediate")
            denied = asyncio.ensure_future(gateway.run([call(1)], run=run, turn=1))
            await asyncio.sleep(0.2)
            closing = asyncio.get_running_loop().run_in_executor(None, ledger.close)
            await asyncio.sleep(0.5)
            other.execute("rollback")
            await closing
            with pytest.raises(StoreError, match="closed"):
                await denied  # its run and turn were recorded, its denial could not be

    asyncio.run(go())
    backend = open_backend(store)
    assert backend.read_run("", "r") is not None
    assert backend.next_turn("", "r") == 2
    backend.close()


def test_a_store_that_is_away_is_read_again(store: str, monkeypatch: Any) -> None:
    """A run that is gone on with, an approval and a redelivery outlast a moment without the store."""

    @tool(effect="once", name="once", writes="n:{n}", trusted=True, approval="always")
    async def once(n: int) -> int:
        return n

    failed: list[str] = []

    def flaky(backend: Any, name: str) -> None:
        real, left = getattr(backend, name), 2

        def read(*what: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left >= 0:
                failed.append(name)
                raise StoreTransient("away")
            return real(*what, **more)

        monkeypatch.setattr(backend, name, read)

    async def go() -> None:
        options: dict[str, Any] = {} if "://" in store else {"reserve": 0}
        first, second = open_ledger(store, **options), open_ledger(store, **options)

        async def yes(*_: Any) -> str:
            return "approved"

        async with (
            Gateway([once], store=first, approver=yes) as one,
            Gateway([once], store=second, approver=yes) as two,
        ):
            told = await one.run([call(1)], run="r", turn=0)
            for name in ("read_run", "read_calls", "read_call", "read_approval"):
                flaky(second.backend, name)
            again = await two.run([call(1)], run="r", turn=0)
            assert (again[0].content, again[0].replayed) == (told[0].content, True)
            assert (await two.run([call(2)], run="r", turn=1))[0].ok
            assert sorted(failed) == sorted(
                2 * ["read_run", "read_calls", "read_call", "read_approval"]
            )

            def gone() -> None:
                raise StoreTransient("away")

            with pytest.raises(StoreTransient):  # and not for ever
                await second.read(gone, 0.1)
        first.close()
        second.close()

    asyncio.run(go())


@pytest.mark.parametrize("failing", [False, True])
def test_a_recovery_that_is_given_up_leaves_nothing_in_flight(
    tmp_path: Path, monkeypatch: Any, failing: bool
) -> None:
    """A cancelled recovery still runs and records what it took over; the rest waits for a redelivery."""
    ran: list[int] = []
    store = str(tmp_path / "x.db")

    @tool(effect="idempotent", name="once", writes="n:{n}", trusted=True)
    async def slow(n: int) -> int:
        ran.append(n)
        await asyncio.sleep(0.3 if len(ran) > 2 else 3600)
        return n

    async def go() -> None:
        dead = open_ledger(store, reserve=0)
        one = Gateway([slow], store=dead)
        lost = [asyncio.ensure_future(one.run([call(n)], run="r", turn=n)) for n in (1, 2)]
        while len(ran) < 2:
            await asyncio.sleep(0.01)
        other = apsw.Connection(store)
        other.execute("update owners set beat = -1e9 where owner = ?", (dead.owner,))
        async with Gateway([slow], store=store) as two:
            if failing:
                real, left = two.begin, [1]

                def begin(*what: Any, **more: Any) -> Any:
                    if left:
                        left.pop()
                        raise StoreError("not now")
                    return real(*what, **more)

                monkeypatch.setattr(two, "begin", begin)
                with pytest.raises(StoreError, match="not now"):
                    await two.recover()
            else:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(two.recover(), 0.1)
                await asyncio.sleep(0.5)
                assert sorted(ran) == [1, 1, 2, 2]
            for n in (1, 2):
                assert (await two.run([call(n)], run="r", turn=n))[0].ok
        assert sorted(ran) == [1, 1, 2, 2]
        for task in lost:
            task.cancel()
        dead.close()

    asyncio.run(go())
