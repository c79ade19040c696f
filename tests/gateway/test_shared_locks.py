"""Resources are locked over all processes that share a store; a dead process does not lock them for ever."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import apsw
import pytest

from callmemaybe.gateway import Gateway, GatewayLimits
from callmemaybe.gateway.audit.chain import verify_chains
from callmemaybe.gateway.ledger import open_ledger
from callmemaybe.gateway.locks import LockArbiter
from callmemaybe.gateway.plan import Lock
from callmemaybe.gateway.store import AdmitCalls, open_backend
from callmemaybe.tools import Context, ToolCall, tool

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and signals")

#: A lease so short that a test can wait for it to lapse.
SHORT = GatewayLimits(lease=1.0, heartbeat=0.2)


def forked(work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Run ``work`` in a process of its own."""
    child = os.fork()
    if child == 0:  # pragma: no cover - the child
        code = 70
        try:
            asyncio.run(asyncio.wait_for(work(), 60))
            code = 0
        finally:
            os._exit(code)
    return child


def ended(children: list[int]) -> list[int]:
    return [os.waitpid(child, 0)[1] for child in children]


class Span:
    """A file with the begin and end of each time that somebody was inside."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, *what: Any) -> None:
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(handle, " ".join(map(str, what)).encode() + b"\n")
        os.close(handle)

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self._path.read_text().splitlines()]


def tools(folder: Path, hold: float) -> list[Any]:
    """A write that loses updates if two run at once, and a read that notices a write beside it."""
    counter, spans = folder / "counter", Span(folder / "spans")

    async def inside(kind: str, *_: Any) -> int:
        spans.note(time.monotonic_ns(), kind, "in", os.getpid())
        found = int(counter.read_text())
        await asyncio.sleep(hold)
        return found

    @tool(effect="once", writes="{what}", trusted=True)
    async def add(what: str, n: int, context: Context) -> int:
        found = await inside("write", what)
        replacement = folder / f"counter-{os.getpid()}-{n}"
        replacement.write_text(str(found + 1))
        replacement.replace(counter)
        spans.note(time.monotonic_ns(), "write", "out", os.getpid())
        spans.note(0, "token", context.fence, os.getpid())
        return n

    @tool(effect="read", reads="{what}", trusted=True)
    async def look(what: str, n: int) -> bool:
        found = await inside("read", what, n)
        same = found == int(counter.read_text())
        spans.note(time.monotonic_ns(), "read", "out", os.getpid())
        return same

    return [add, look]


def call(name: str, n: int, what: str = "counter") -> ToolCall:
    return ToolCall(name, f'{{"what": "{what}", "n": {n}}}', str(n))


async def insist(gateway: Gateway, one: ToolCall, run: str, turn: int) -> Any:
    while True:
        answer = (await gateway.run([one], run=run, turn=turn))[0]
        if answer.code != "in_flight":
            return answer
        await asyncio.sleep(0.02)


def four_processes(
    store: str, folder: Path, each: int, resource: Callable[[int], str], hold: float = 0.002
) -> int:
    """Let four processes write and read; return how many writes the counter remembers."""
    (folder / "counter").write_text("0")
    open_backend(store).close()

    def worker(number: int) -> Callable[[], Coroutine[Any, Any, None]]:
        async def work() -> None:
            ledger = open_ledger(store)
            async with Gateway(tools(folder, hold), store=ledger) as gateway:

                async def one(turn: int) -> None:
                    name = "look" if turn % 4 == 3 else "add"
                    made = call(name, turn, resource(number))
                    answer = await insist(gateway, made, f"r{number}", turn)
                    assert answer.ok, answer
                    if answer.value is False:
                        Span(folder / "torn").note(turn)

                await asyncio.gather(*map(one, range(each)))
            ledger.close()

        return work

    assert ended([forked(worker(number)) for number in range(4)]) == [0] * 4
    return int((folder / "counter").read_text())


@pytest.mark.parametrize("names", ["one", "everything"])
def test_four_processes_take_turns(store: str, tmp_path: Path, names: str) -> None:
    """Conflicting calls of different processes never overlap: no update is lost, none read half.

    Also where one process names the resource and the others claim everything.
    """
    each = 8
    pick = {"one": lambda _: "counter", "everything": lambda n: "counter" if n else "*"}[names]
    assert four_processes(store, tmp_path, each, pick) == 4 * each * 3 // 4
    assert not (tmp_path / "torn").exists(), "a write beside a read"
    open_now, at_once = 0, 0
    for _, kind, what, _ in sorted(Span(tmp_path / "spans").lines(), key=lambda x: int(x[0])):
        if kind == "write":
            open_now += 1 if what == "in" else -1
            at_once = max(at_once, open_now)
    assert at_once == 1
    backend = open_backend(store)
    assert not verify_chains(backend.read_audit())[1]
    backend.close()


def test_without_the_shared_locks_updates_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail: with the arbiter switched off, four processes lose updates."""
    monkeypatch.setattr(LockArbiter, "is_busy", lambda *_: False)
    assert four_processes(str(tmp_path / "s.db"), tmp_path, 8, lambda _: "counter", 0.05) < 24


def test_tokens_grow_with_each_holder(store: str, tmp_path: Path) -> None:
    """`Context.fence` orders the holders of a resource, whichever process they are in."""
    four_processes(store, tmp_path, 4, lambda _: "counter")
    events = Span(tmp_path / "spans").lines()
    tokens = [int(what) for _, kind, what, _ in events if kind == "token"]
    assert len(tokens) == 12
    assert tokens == sorted(set(tokens))


def holder(store: str, folder: Path, wait: float) -> int:
    """Start a process that holds the resource for ``wait`` seconds; return when it is inside."""

    async def work() -> None:
        ledger = open_ledger(store, SHORT)
        async with Gateway(tools(folder, wait), store=ledger, limits=SHORT) as gateway:
            answer = await insist(gateway, call("add", 0), "holder", 0)
            Span(folder / "answer").note(answer.code)
        ledger.close()

    child = forked(work)
    while not (folder / "spans").exists():
        time.sleep(0.01)
    return child


async def take_over(store: str, folder: Path) -> tuple[Any, float]:
    """Take the resource in this process; return the answer and how long that took."""
    began = time.monotonic()
    ledger = open_ledger(store, SHORT)
    async with Gateway(tools(folder, 0.0), store=ledger, limits=SHORT) as gateway:
        answer = await insist(gateway, call("add", 1), "waiter", 0)
    ledger.close()
    return answer, time.monotonic() - began


def test_a_dead_holder_frees_its_resources(store: str, tmp_path: Path) -> None:
    """After kill -9 the next process gets in within the lease; the lost call is unknown by then."""
    (tmp_path / "counter").write_text("0")
    child = holder(store, tmp_path, 30.0)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    answer, waited = asyncio.run(take_over(store, tmp_path))
    assert answer.ok
    assert waited < SHORT.lease + 2.0
    backend = open_backend(store)
    lost = backend.read_calls(run="holder", limit=10)
    assert [row.state for row in lost] == ["unknown"]
    backend.close()


def test_a_stopped_holder_is_fenced_off(store: str, tmp_path: Path) -> None:
    """A process that sleeps beyond its lease loses the resource, and its late result is not recorded."""
    (tmp_path / "counter").write_text("0")
    child = holder(store, tmp_path, 0.3)
    os.kill(child, signal.SIGSTOP)
    try:
        answer, waited = asyncio.run(take_over(store, tmp_path))
    finally:
        os.kill(child, signal.SIGCONT)
    assert ended([child]) == [0]
    assert answer.ok
    assert waited < SHORT.lease + 2.0
    assert Span(tmp_path / "answer").lines() == [["unknown_outcome"]]
    tokens = {pid: int(what) for _, kind, what, pid in Span(tmp_path / "spans").lines() if kind == "token"}  # fmt: skip
    assert tokens[str(os.getpid())] > tokens[str(child)]


def test_a_renewal_and_a_judgement_never_both_win(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements of two transactions interleave: who is judged lost cannot find itself the owner after that."""
    if "://" not in store:
        pytest.skip("SQLite has one writer at a time")
    begun: list[int] = []
    judged, go_on = threading.Event(), threading.Event()

    @tool(effect="idempotent", writes="x", trusted=True)
    async def act(n: int) -> int:
        begun.append(n)
        return n

    async def go() -> tuple[Any, Any]:
        slow, quick = open_ledger(store), open_ledger(store)
        others: list[asyncio.Future[Any]] = []
        lost_owners = quick.backend.lost_owners

        def paused(owners: Any) -> set[str]:
            found = lost_owners(owners)
            judged.set()
            go_on.wait(10)
            return found

        monkeypatch.setattr(quick.backend, "lost_owners", paused)
        async with Gateway([act], store=slow) as first, Gateway([act], store=quick) as second:
            send = slow.send

            async def sleepy(operation: Any, *more: Any) -> Any:
                outcome = await send(operation, *more)
                if isinstance(operation, AdmitCalls):
                    slow._leased_at -= 1000.0
                    lapse(store, slow.owner)
                    made = ToolCall("act", '{"n": 2}', "2")
                    others.append(asyncio.ensure_future(second.run([made], run="other", turn=0)))
                    await asyncio.to_thread(judged.wait, 10)
                    asyncio.get_running_loop().call_later(0.5, go_on.set)
                return outcome

            monkeypatch.setattr(slow, "send", sleepy)
            late = (await first.run([ToolCall("act", '{"n": 1}', "1")], run="r", turn=0))[0]
            other = (await others[0])[0]
        slow.close()
        quick.close()
        return late, other

    late, other = asyncio.run(go())
    assert (late.code, other.code) == ("in_flight", "ok")
    assert begun == [2]


def test_a_process_that_was_stopped_before_its_tool_does_not_begin_it(
    store: str, tmp_path: Path
) -> None:
    """SIGSTOP past the lease between T2 and the effect: whoever renews the lease first, nothing runs twice."""
    (tmp_path / "counter").write_text("0")

    async def work() -> None:
        ledger = open_ledger(store, SHORT)
        async with Gateway(tools(tmp_path, 0.0), store=ledger, limits=SHORT) as gateway:
            send = ledger.send

            async def stopped(operation: Any, *more: Any) -> Any:
                outcome = await send(operation, *more)
                if isinstance(operation, AdmitCalls):
                    os.kill(os.getpid(), signal.SIGSTOP)
                    await asyncio.sleep(1.0)  # the lease is renewed before anybody looks at it
                return outcome

            ledger.send = stopped  # type: ignore[method-assign]
            answer = (await gateway.run([call("add", 0)], run="holder", turn=0))[0]
            Span(tmp_path / "answer").note(answer.code)
        ledger.close()

    child = forked(work)
    os.waitpid(child, os.WUNTRACED)
    time.sleep(SHORT.lease + 0.1)
    try:
        answer, _ = asyncio.run(take_over(store, tmp_path))
    finally:
        os.kill(child, signal.SIGCONT)
    assert answer.ok
    assert ended([child]) == [0]
    writers = {who for _, kind, what, who in Span(tmp_path / "spans").lines() if kind == "write"}
    assert writers == {str(os.getpid())}
    assert Span(tmp_path / "answer").lines() == [["unknown_outcome"]]
    assert (tmp_path / "counter").read_text() == "1"


def test_nothing_starts_behind_an_unknown_call(store: str) -> None:
    """What was admitted before a call became unknown does not start on its tool or resource after it."""
    ran: list[str] = []
    waiting, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="once", writes="account", trusted=True, timeout=0.3)
    async def pay(to: str) -> None:
        ran.append(to)
        if to == "hangs":
            await asyncio.sleep(30)

    @tool(effect="once", writes="account", trusted=True)
    async def close(to: str) -> None:
        ran.append(to)
        if to == "dies":
            waiting.set()
            await go_on.wait()

    @tool(effect="read", reads="weather", trusted=True)
    async def look() -> int:
        return 7

    def made(name: str, to: str) -> ToolCall:
        return ToolCall(name, f'{{"to": "{to}"}}', to)

    async def go() -> None:
        slow, quick = open_ledger(store), open_ledger(store)
        tools = [pay, close, look]
        async with Gateway(tools, store=slow) as first, Gateway(tools, store=quick) as second:
            calls = [made("pay", "hangs"), made("pay", "a"), made("close", "b")]
            answers = await first.run([*calls, ToolCall("look", "{}", "c")], run="r", turn=0)
            told = [(answer.code, answer.effect) for answer in answers]
            refused = ("refused", "none")
            assert told == [("unknown_outcome", "possible"), refused, refused, ("ok", "done")]
            # The same of calls whose process is lost: by a redelivery, and by another call of the run.
            calls = [made("close", "dies"), made("close", "d")]
            late = asyncio.ensure_future(first.run(calls, run="q", turn=0))
            await waiting.wait()
            lapse(store, slow.owner)
            other = await second.run([made("pay", "e")], run="q", turn=1)
            again = await second.run(calls, run="q", turn=0)
            assert [other[0].code, *(answer.code for answer in again)] == [
                "refused", "unknown_outcome", "refused"
            ]  # fmt: skip
            go_on.set()
            assert [one.code for one in await late] == ["unknown_outcome", "refused"]
        slow.close()
        quick.close()

    asyncio.run(go())
    assert ran == ["hangs", "dies"]


def test_a_process_that_slept_asks_before_it_begins(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between T2 and the effect the lease is looked at: fenced off meanwhile, nothing runs."""
    ran: list[int] = []

    @tool(effect="idempotent", writes="x", trusted=True)
    async def act(n: int) -> int:
        ran.append(n)
        return n

    async def go() -> tuple[Any, Any]:
        slow, quick = open_ledger(store), open_ledger(store)
        async with Gateway([act], store=slow) as first, Gateway([act], store=quick) as second:
            send, others = slow.send, []

            async def sleepy(operation: Any, *more: Any) -> Any:
                outcome = await send(operation, *more)
                if isinstance(operation, AdmitCalls):
                    slow._leased_at -= 1000.0
                    lapse(store, slow.owner)
                    made = ToolCall("act", '{"n": 2}', "2")
                    others.append((await second.run([made], run="other", turn=0))[0])
                return outcome

            monkeypatch.setattr(slow, "send", sleepy)
            late = (await first.run([ToolCall("act", '{"n": 1}', "1")], run="r", turn=0))[0]
        slow.close()
        quick.close()
        return others[0], late

    other, late = asyncio.run(go())
    assert other.ok
    assert late.code == "in_flight"
    assert ran == [2]


def lapse(store: str, owner: str) -> None:
    """Let a living owner's lease run out."""
    if "://" in store:
        import psycopg

        with psycopg.connect(store) as connection:
            connection.execute(
                "update owners set expires = clock_timestamp() where owner = %s", (owner,)
            )
        return
    connection = apsw.Connection(store)
    connection.execute("update owners set beat = beat - 1000 where owner = ?", (owner,))
    connection.close()


def test_calls_taken_over_get_their_tokens_in_turn(store: str) -> None:
    """Several lost calls on one resource, taken over at once: one after the other, tokens growing."""
    seen: list[int] = []

    @tool(effect="idempotent", writes="x", trusted=True)
    async def act(n: int, context: Context) -> int:
        seen.append(context.fence)
        return n

    async def go() -> None:
        dead, living = open_ledger(store), open_ledger(store)
        async with Gateway([act], store=dead) as first:
            hold = first.locks.try_take([Lock("x")])  # so that they are admitted, and do not start
            calls = [ToolCall("act", f'{{"n": {n}}}', str(n)) for n in range(4)]
            lost = asyncio.ensure_future(first.run(calls, run="r", turn=0))
            while not living.backend.read_calls(run="r", limit=9):
                await asyncio.sleep(0.01)
            assert hold
            lapse(store, dead.owner)
            async with Gateway([act], store=living) as second:
                answers = await second.run(calls, run="r", turn=0)
                assert [answer.value for answer in answers] == [0, 1, 2, 3]
                await second.run([ToolCall("act", '{"n": 9}')], run="other")
            first.locks.release([Lock("x")])
            told = await lost
            assert [answer.content for answer in told] == [answer.content for answer in answers]
        dead.close()
        living.close()

    asyncio.run(go())
    assert len(seen) == 5
    assert seen == sorted(set(seen))
    assert seen[0] > 0


@pytest.mark.parametrize(("starts", "locks"), [(10, 11), (300, 1)])
def test_a_large_batch_does_not_fill_the_servers_table_of_locks(
    postgres: Any, starts: int, locks: int
) -> None:
    """Up to 256 things are locked one by one while a transaction decides; more of them by one lock."""
    backend: Any = open_backend(postgres.fresh())
    with backend.transaction():
        backend.serialise([f'[["n:{n}", true]]' for n in range(starts)], (), (), ())
        held = (
            "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
        )
        assert backend._write.execute(held).fetchone()[0] == locks
    backend.close()


def test_the_longest_waiter_is_next(store: str) -> None:
    """A resource that is asked for without pause still goes to the process that asked first."""
    order: list[str] = []

    @tool(effect="once", writes="x", trusted=True)
    async def act(who: str, n: int) -> str:
        order.append(who if n >= 0 else "")
        await asyncio.sleep(0.01)
        return who

    async def go() -> None:
        busy, patient = open_ledger(store), open_ledger(store)
        async with Gateway([act], store=busy) as crowd, Gateway([act], store=patient) as single:

            async def one(gateway: Gateway, who: str, n: int) -> None:
                made = ToolCall("act", f'{{"who": "{who}", "n": {n}}}', str(n))
                answer = (await gateway.run([made], run=who, turn=n))[0]
                assert answer.ok, answer

            many = [asyncio.ensure_future(one(crowd, "crowd", n)) for n in range(60)]
            while not order:
                await asyncio.sleep(0.001)
            await one(single, "single", 0)
            ahead = len(order) - 1
            await asyncio.gather(*many)
            assert ahead < 30, f"{ahead} of 60 went first"
        busy.close()
        patient.close()

    asyncio.run(go())


def test_a_call_that_waits_too_long_is_cancelled(store: str) -> None:
    """A call that waits longer than `GatewayLimits.queue` is cancelled with effect none and blocks no other."""
    limits = GatewayLimits(queue=0.2)

    @tool(effect="idempotent", writes="x", trusted=True)
    async def act(wait: float) -> None:
        await asyncio.sleep(wait)

    async def go() -> None:
        one, two = open_ledger(store), open_ledger(store)
        async with Gateway([act], store=one) as first, Gateway([act], store=two, limits=limits) as second:  # fmt: skip
            slow = asyncio.ensure_future(first.run([ToolCall("act", '{"wait": 1.0}')]))
            await asyncio.sleep(0.1)
            late = (await second.run([ToolCall("act", '{"wait": 0.0}')]))[0]
            assert (late.code, late.effect) == ("deadline_exceeded", "none")
            assert (await slow)[0].ok
            assert (await second.run([ToolCall("act", '{"wait": 0.0}')]))[0].ok
        one.close()
        two.close()

    asyncio.run(go())
