"""Archives: finished runs leave the ledger, the chains stay verifiable, and nothing archived runs again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.errors import InputError
from callmemaybe.gateway import Gateway
from callmemaybe.gateway.archive import archive_runs
from callmemaybe.gateway.audit.chain import ChainHead
from callmemaybe.gateway.audit.verify import verify_ledger
from callmemaybe.gateway.ledger import Ledger, open_ledger
from callmemaybe.tools import ToolCall, tool

ran: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@tool(effect="once", writes="n:{n}", trusted=True)
async def pay(n: int) -> int:
    """Pay."""
    ran.append(n)
    return n


@tool(effect="once", writes="x", trusted=True, approval="always")
async def ask(n: int) -> int:
    """Ask first."""
    ran.append(("ask", n))
    return n


@tool(effect="once", writes="y", trusted=True)
async def lose(n: int) -> int:
    """Leave its outcome unknown."""
    ran.append(("lose", n))
    raise TimeoutError


@tool(effect="once", writes="z", trusted=True, idempotency_key="order:{n}")
async def order(n: int) -> int:
    """Order once over all runs."""
    ran.append(("order", n))
    return n


TOOLS = [pay, ask, lose, order]


def opened(store: str, **more: Any) -> Ledger:
    return open_ledger(store, **more, **({} if "://" in store else {"reserve": 0}))


def call(name: str, n: int) -> list[ToolCall]:
    return [ToolCall(name, json.dumps({"n": n}), "c")]


async def work(store: str, runs: int) -> None:
    """Make finished runs, and one of each kind that has to stay."""
    ledger = opened(store)
    async with Gateway(TOOLS, store=ledger) as gateway:
        for n in range(runs):
            for turn in (0, 1):
                assert (await gateway.run(call("pay", n + turn), run=f"r{n}", turn=turn))[0].ok
        assert (await gateway.run(call("order", 7), run="r0", turn=2))[0].ok
        assert (await gateway.run(call("ask", 1), run="waits"))[0].code == "approval_pending"
        assert (await gateway.run(call("lose", 1), run="lost"))[0].code == "unknown_outcome"
    ledger.close()


def everything(store: str, folder: Path) -> Counter[str]:
    """Return how often each call is in the ledger with its result, or in an archive."""
    ledger = opened(store)
    found = Counter(
        row.key for row in ledger.backend.read_calls(run=None, limit=10**6) if row.locks != "[]"
    )
    ledger.close()
    for path in folder.glob("archive-*"):
        for line in path.read_text().splitlines():
            facts = json.loads(line)
            if facts["table"] == "calls":
                found[facts["row"]["key"]] += 1
    return found


@pytest.mark.parametrize("compress", [False, True])
def test_finished_runs_leave_and_the_chains_stay_verifiable(
    store: str, tmp_path: Path, compress: bool
) -> None:
    """`audit verify` holds with the files and without; what waits or is unknown stays, and so does what is young."""
    asyncio.run(work(store, 3))
    ledger = opened(store)
    anchors = []
    for chain, number, _, _, digest in ledger.backend.read_audit():
        anchors.append(ChainHead(chain, number, digest))
    before = verify_ledger(ledger.backend)
    assert not archive_runs(ledger, tmp_path / "a", 3600, compress=compress)
    (made,) = archive_runs(ledger, tmp_path / "a", 0, compress=compress)
    assert (made.runs, made.calls) == (3, 7)
    assert made.records == 14
    left = {row.run for row in ledger.backend.read_calls(run=None, limit=99)}
    assert left == {"r0", "lost"}  # r0: the business key
    assert len(ledger.backend.read_approvals(pending_only=True)) == 1
    without = verify_ledger(ledger.backend)
    assert (without.breaks, without.archived) == ((), 14)
    whole = verify_ledger(ledger.backend, anchors, [made.path])
    assert (whole.breaks, whole.archived) == ((), 0)
    assert whole.records == before.records + 1
    assert not archive_runs(ledger, tmp_path / "a", 0)
    ledger.close()


def test_what_was_archived_does_not_run_again(store: str, tmp_path: Path) -> None:
    """A redelivery, another turn and a process that knew the run are refused; a business key keeps its answer."""
    asyncio.run(work(store, 2))

    async def go() -> None:
        first, second = opened(store), opened(store)
        async with Gateway(TOOLS, store=first) as one, Gateway(TOOLS, store=second) as two:
            known = two.begin("r1")
            ran.clear()
            assert archive_runs(first, tmp_path, 0)
            for gateway, run in ((one, "r1"), (two, known), (two, "r0")):
                for turn in (0, 1, 5, None):
                    with pytest.raises(InputError, match="archived"):
                        await gateway.run(call("pay", 1), run=run, turn=turn)
            (same,) = await two.run(call("order", 7), run="new")
            assert (same.code, same.effect) == ("result_expired", "done")
            assert not ran
            assert (await two.run(call("pay", 1), run="new"))[0].ok
        first.close()
        second.close()

    asyncio.run(go())


def test_a_run_that_goes_on_is_not_archived(postgres: Any, tmp_path: Path) -> None:
    """Between T1 and its commit the run is locked: archiving passes it by."""
    store = postgres.fresh()
    asyncio.run(work(store, 1))
    archived: list[Any] = []

    async def go() -> None:
        first, second = opened(store), opened(store)

        def probe(point: str) -> None:
            if point == "T1 written":
                first.probe = lambda _: None
                archived.extend(archive_runs(second, tmp_path, 0))

        async with Gateway(TOOLS, store=first) as gateway:
            first.probe = probe
            (answer,) = await gateway.run(call("pay", 9), run="r0", turn=9)
            assert answer.ok
        assert not archived
        first.close()
        second.close()

    asyncio.run(go())


def test_an_archive_that_was_changed_is_refused(store: str, tmp_path: Path) -> None:
    """A changed file is none of this ledger; records that no archive took are missing as before."""
    asyncio.run(work(store, 2))
    ledger = opened(store)
    (made,) = archive_runs(ledger, tmp_path, 0)
    text = made.path.read_bytes()
    made.path.write_bytes(
        text.replace(b'"n": 1', b'"n": 2', 1).replace(b'{"n":1', b'{"n":2', 1)[:-1]
    )
    with pytest.raises(InputError, match="no archive of this ledger"):
        verify_ledger(ledger.backend, (), [made.path])
    made.path.write_bytes(text)
    backend: Any = ledger.backend
    with backend.transaction():
        backend._write.execute(
            "delete from audit where key <> 'archive' and number = (select min(number) from audit)"
        )
        backend._write.execute(
            "delete from audit as a where key <> 'archive' and number ="
            " (select min(number) from audit as b where a.chain = b.chain)"
        )
    assert verify_ledger(backend).breaks
    assert verify_ledger(backend, (), [made.path]).breaks
    ledger.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize(
    "point", ["in the file", "other half written", "other written", "other durable"]
)
def test_killed_while_archiving_nothing_is_lost_or_doubled(
    store: str, tmp_path: Path, point: str
) -> None:
    """kill -9 at each step: the next archiving finishes or begins again; each call is in one place."""
    asyncio.run(work(store, 4))
    before = everything(store, tmp_path)
    child = os.fork()
    if child == 0:  # pragma: no cover - the child
        try:
            ledger = opened(store)

            def probe(at: str) -> None:
                if at == point and list(tmp_path.glob("*.part")):
                    os.kill(os.getpid(), signal.SIGKILL)

            ledger.probe = probe
            if point == "in the file":
                real = os.fsync

                def fsync(handle: int) -> None:
                    if any(path.stat().st_size for path in tmp_path.glob("*.part")):
                        os.kill(os.getpid(), signal.SIGKILL)
                    real(handle)

                os.fsync = fsync  # type: ignore[assignment]
            archive_runs(ledger, tmp_path, 0)
        finally:
            os._exit(70)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert list(tmp_path.glob("*.part"))
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        ledger = opened(store)
        archive_runs(ledger, tmp_path, 0)
        ledger.close()
        if everything(store, tmp_path) == before:
            break
    assert everything(store, tmp_path) == before
    assert not list(tmp_path.glob("*.part"))
    assert len(list(tmp_path.glob("archive-*"))) == 1
    ledger = opened(store)
    report = verify_ledger(ledger.backend, (), list(tmp_path.glob("archive-*")))
    assert (report.breaks, report.archived) == ((), 0)
    ledger.close()


def test_an_archive_that_cannot_be_written_changes_nothing(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk under the folder: an OSError, and every run is still in the ledger."""
    asyncio.run(work(store, 2))
    ledger = opened(store)
    before = len(ledger.backend.read_calls(run=None, limit=99))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("callmemaybe.gateway.archive.dumps", full)
    with pytest.raises(OSError, match="No space"):
        archive_runs(ledger, tmp_path, 0)
    monkeypatch.undo()
    assert len(ledger.backend.read_calls(run=None, limit=99)) == before
    assert not verify_ledger(ledger.backend).breaks
    assert archive_runs(ledger, tmp_path, 0)
    assert not list(tmp_path.glob("*.part"))
    ledger.close()
