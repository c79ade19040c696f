"""What the gateway promises in numbers and settings: limits, keys, durability, deadlines."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmemaybe.gateway import Gateway, GatewayLimits, StoreError
from callmemaybe.gateway.keys import call_key, canonical
from callmemaybe.gateway.ledger import open_ledger
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.gateway.limits import backoff
from callmemaybe.gateway.store import open_backend
from callmemaybe.tools import ToolCall, tool

DOCS = Path(__file__).parents[2] / "docs" / "gateway.md"
TESTS = Path(__file__).parents[1]


def test_the_limits_are_the_documented_ones() -> None:
    """Seconds, bytes and counts are as the docs say, unless somebody asks for others."""
    limits = GatewayLimits()
    assert (limits.turn, limits.queue, limits.attempt, limits.reserve) == (60, 10, 30, 0.5)
    assert (limits.approval, limits.retention) == (24 * 3600, 30 * 24 * 3600)
    assert (limits.calls, limits.arguments, limits.depth) == (32, 64 * 1024, 64)
    assert (limits.result, limits.answer, limits.attempts) == (256 * 1024, 16 * 1024, 3)
    assert (limits.lease, limits.heartbeat, limits.anchor) == (30, 5, 10)
    assert backoff(1, 1.0) == 0.5
    assert backoff(9, 1.0) == 8.0


names = st.text(st.characters(exclude_categories=["Cs"]))


@given(names, names, st.integers(0, 2**40), st.integers(0, 99), names)
def test_the_key_is_sha256_of_canonical_json(
    tenant: str, run: str, turn: int, ordinal: int, name: str
) -> None:
    """However quickly it is written: SHA-256 over RFC 8785 of tenant, run, turn, position, tool."""
    expected = hashlib.sha256(canonical([tenant, run, turn, ordinal, name])).hexdigest()
    assert call_key(tenant, run, turn, ordinal, name) == expected


def test_sqlite_is_current_and_syncs(tmp_path: Path) -> None:
    """WAL with synchronous=FULL, on a SQLite that has the fix for resetting a WAL."""
    backend: Any = open_backend(str(tmp_path / "x.db"))
    found = [
        backend._write.execute(f"pragma {name}").fetchall()[0][0]
        for name in ("journal_mode", "synchronous")
    ]
    backend.close()
    assert found == ["wal", 2]
    assert tuple(map(int, apsw.sqlite_lib_version().split("."))) >= (3, 51, 3)


def test_postgresql_waits_for_its_disk_whatever_the_default(postgres: Any) -> None:
    """The ledger syncs its commits even if the database's default does not."""
    import psycopg

    store = postgres.fresh()
    with psycopg.connect(store, autocommit=True) as connection:
        name = connection.execute("select current_database()").fetchone()[0]
        connection.execute(f"alter database {name} set synchronous_commit = off")
    backend: Any = open_backend(store)
    assert backend._write.execute("show synchronous_commit").fetchone()[0] == "on"
    backend._write.rollback()
    backend.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_ledger_of_another_version_is_refused(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Tables that this version does not know are left alone, and the error says so."""
    store = str(tmp_path / "x.db")
    if kind == "postgresql":
        import psycopg

        store = request.getfixturevalue("postgres").fresh()
        open_backend(store).close()
        with psycopg.connect(store) as connection:
            connection.execute("update meta set value = '999' where name = 'version'")
    else:
        open_backend(store).close()
        connection = apsw.Connection(store)
        connection.execute("update meta set value = 999 where name = 'version'")
        connection.close()
    with pytest.raises(StoreError, match="999"):
        open_backend(store)


def test_a_foreign_database_of_postgresql_is_refused(postgres: Any) -> None:
    """Its tables are left alone, and the error says whose they are not."""
    import psycopg

    store = postgres.fresh()
    with psycopg.connect(store, autocommit=True) as connection:
        connection.execute("create table calls(number int)")
        with pytest.raises(StoreError, match=r"database d\d+: the database of another program"):
            open_backend(store)
        assert connection.execute("select to_regclass('audit')").fetchone() == (None,)
        connection.execute("drop table calls")
        open_backend(store).close()
        connection.execute("alter table runs drop column policy")
    with pytest.raises(StoreError, match="its table 'runs' is changed"):
        open_backend(store)


def test_every_audit_record_of_a_call_names_the_policy(store: str) -> None:
    """Admitted, started, tried again, finished, asked, denied: each record has the policy's hash."""
    failures = [ConnectionError("once"), None]

    @tool(effect="idempotent", writes="x")
    async def flaky(n: int) -> int:
        error = failures.pop(0) if failures else None
        if error:
            raise error
        return n

    @tool(effect="once", writes="x", approval="always")
    async def asks(n: int) -> int:
        return n

    async def go() -> list[dict[str, Any]]:
        ledger = open_ledger(store)
        async with Gateway([flaky, asks], store=ledger, rng=lambda: 0.0) as gateway:
            run = gateway.begin("r")
            calls = [ToolCall(name, f'{{"n": {n}}}', str(n)) for n, name in enumerate(["flaky", "flaky", "asks"])]  # fmt: skip
            await gateway.run(calls, run=run, turn=0)
            asked = ledger.backend.read_approvals(pending_only=True)[0]
            await gateway.decide(asked.id, "denied", by="ada")
            await gateway.run(calls, run=run, turn=0)
        found = [json.loads(record) for *_, record, _ in ledger.backend.read_audit()]
        ledger.close()
        return [{**record, "right": record.get("policy") == run.policy.hash} for record in found]

    records = asyncio.run(go())
    events = {record["event"] for record in records}
    assert {"admit", "start", "attempt", "succeed", "ask", "denied"} <= events
    assert [record for record in records if not record["right"]] == []


def test_a_turn_ends_in_time(store: str) -> None:
    """Calls that did not start before the deadline never run; those that ran are answered."""
    ran: list[int] = []

    @tool(effect="idempotent", writes="x")
    async def slow(n: int) -> int:
        ran.append(n)
        await asyncio.sleep(0.5)
        return n

    async def go() -> list[Any]:
        limits = GatewayLimits(turn=1.0, reserve=0.4)
        async with Gateway([slow], store=store, limits=limits) as gateway:
            calls = [ToolCall("slow", f'{{"n": {n}}}', str(n)) for n in range(3)]
            return await gateway.run(calls, run="r", turn=0)

    answers = asyncio.run(go())
    late = [answer for answer in answers if answer.code == "deadline_exceeded"]
    assert late
    assert all((answer.effect, answer.state) == ("none", CallState.CANCELLED) for answer in late)
    assert len(ran) == 3 - len(late)


def test_a_tool_that_kept_failing_is_called_all_the_same() -> None:
    """Twenty-five not-founds of one tenant refuse nothing, neither to it nor to another."""

    @tool(effect="read", reads="x", attempts=1)
    async def look(n: int) -> int:
        if n < 25:
            raise ValueError(f"{n} is not found")
        return n

    async def go() -> None:
        async with Gateway([look]) as gateway:
            for n in range(25):
                answer = (await gateway.run([ToolCall("look", f'{{"n": {n}}}')], tenant="one"))[0]
                assert answer.code == "tool_error"
            for tenant in ("one", "two"):
                assert (await gateway.run([ToolCall("look", '{"n": 99}')], tenant=tenant))[0].ok

    asyncio.run(go())


def test_each_promise_in_the_docs_has_its_test() -> None:
    """Every test that the docs name as proof exists."""
    section = DOCS.read_text(encoding="utf-8").partition("## What proves it")[2]
    named = set(re.findall(r"`(test_\w+)`", section))
    assert len(named) > 40
    written = {
        name
        for file in TESTS.rglob("test_*.py")
        for name in re.findall(
            r"^(?:def|class|async def) (\w+)", file.read_text("utf-8"), re.MULTILINE
        )
    }
    assert sorted(named - written) == []
