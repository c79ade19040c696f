"""What somebody changes in a ledger behind the gateway's back is found, whatever it is."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.errors import StoreError
from callmemaybe.gateway import Gateway, GatewayLimits
from callmemaybe.gateway.audit.chain import ChainHead
from callmemaybe.gateway.audit.verify import command_anchor, read_anchors, verify_ledger
from callmemaybe.gateway.ledger import open_ledger
from callmemaybe.gateway.store import open_snapshot
from callmemaybe.tools import Effect, NotExecuted, ToolCall, Transaction, tool


def call(name: str, id_: str = "", **arguments: Any) -> ToolCall:
    """A call with arguments."""
    return ToolCall(name, json.dumps(arguments), id_)


@tool(effect="once", writes="money", approval="always", trusted=True)
async def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


@tool(effect="once", writes="door", timeout=0.05, trusted=True)
async def lose() -> None:
    """Act, and hear nothing."""
    await asyncio.sleep(30)


@tool(effect="read", reads="book", trusted=True)
async def look(n: int) -> dict[str, Any]:
    """Look; a large number gives a large answer."""
    return {"n": n, "text": "x" * n}


@tool(effect="idempotent", writes="book", attempts=2, trusted=True)
async def note(text: str) -> str:
    """Note."""
    if text == "bad":
        raise NotExecuted("no")
    return text


@tool(effect="transactional", writes="table", trusted=True)
def insert(transaction: Transaction, n: int) -> int:
    """Insert."""
    transaction.execute("create table if not exists effects(n text)")
    transaction.execute(f"insert into effects values ('{n}')")
    return n


TOOLS = [pay, lose, look, note, insert]


async def history(store: str) -> None:
    """Do everything that changes a row."""
    async with Gateway(TOOLS, store=store, limits=GatewayLimits(answer=1000)) as gateway:
        run = gateway.begin("r", tenant="t")
        refers = ToolCall("note", '{"text": {"$ref": "a#/text"}}', "b")
        answers = await gateway.run(
            [call("look", "a", n=3), refers, call("pay", to="x"), call("pay", to="y"), call("note", text="bad")],
            run=run,
        )  # fmt: skip
        await gateway.decide(answers[2].approval or "", "approved", by="ann")
        await gateway.decide(answers[3].approval or "", "denied", by="bob")
        await gateway.resume(answers[2].approval or "")
        await gateway.run(
            [call("look", n=5000), call("insert", n=1), ToolCall("nope", "{")], run=run
        )
        narrower = gateway.begin("r", tenant="t", tools=["look", "lose", "note"])
        (lost,) = await gateway.run([call("lose")], run=narrower)
        await gateway.reconcile(lost.key, "done", by="ann", result=7)
        (lost,) = await gateway.run([call("lose")], run="s")
        assert lost.code == "unknown_outcome"


class Tampered:
    """A ledger with a history, and statements that somebody with the database's password can run."""

    def __init__(self, store: str) -> None:
        self.store = store
        asyncio.run(history(store))
        self.is_file = "://" not in store

    def breaks(self) -> tuple[str, ...]:
        """What a verification finds."""
        with contextlib.closing(open_ledger(self.store)) as ledger:
            return verify_ledger(ledger.backend).breaks

    @contextlib.contextmanager
    def connection(self) -> Iterator[Any]:
        """A connection of the attacker's."""
        if self.is_file:
            import apsw

            opened: Any = apsw.Connection(self.store)
        else:
            import psycopg

            opened = psycopg.connect(self.store, autocommit=True)
        with contextlib.closing(opened):
            yield opened

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table."""
        with self.connection() as opened:
            cursor = opened.execute(f"select * from {table}")
            described = cursor.get_description() if self.is_file else cursor.description
            names = [column[0] for column in described] if described else []
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def change(self, table: str, keys: dict[str, Any], column: str, value: Any) -> None:
        """Change a column of one row."""
        mark = "?" if self.is_file else "%s"
        where = " and ".join(f"{name} = {mark}" for name in keys)
        with self.connection() as opened:
            opened.execute(
                f"update {table} set {column} = {mark} where {where}", (value, *keys.values())
            )

    def delete(self, table: str, keys: dict[str, Any]) -> None:
        """Delete one row."""
        mark = "?" if self.is_file else "%s"
        where = " and ".join(f"{name} = {mark}" for name in keys)
        with self.connection() as opened:
            opened.execute(f"delete from {table} where {where}", tuple(keys.values()))

    def insert(self, table: str, row: dict[str, Any]) -> None:
        """Insert a row."""
        mark = ", ".join(["?" if self.is_file else "%s"] * len(row))
        with self.connection() as opened:
            opened.execute(
                f"insert into {table}({', '.join(row)}) values ({mark})", tuple(row.values())
            )


KEYS = {
    "calls": ["key"], "approvals": ["id"], "runs": ["tenant", "run"], "turns": ["tenant", "run", "turn"],
    "reconciliations": ["key"], "audit": ["chain", "number"],
}  # fmt: skip
#: Columns that say nothing of what was done: the place in a queue, an order of insertion, how a delivery is named.
FREE = {"calls": {"id", "asked"}, "turns": {"delivery", "request", "arguments", "created"}}


def changed(value: Any) -> Any:
    """Another value of the same type."""
    if value is None:
        return "x"
    if isinstance(value, bytes | memoryview):
        return bytes(value)[::-1]
    if isinstance(value, str):
        return value[:-1] + ("1" if value[-1:] != "1" else "2") if value else "x"
    return value + 1


def test_an_untouched_ledger_holds(store: str) -> None:
    """Nothing is found where nothing was changed."""
    assert not Tampered(store).breaks()


def test_every_column_of_every_row_is_watched(store: str) -> None:
    """Whatever is changed, and whatever row is deleted, a verification says so; put back, it holds again."""
    ledger = Tampered(store)
    unseen = []
    for table, names in KEYS.items():
        for row in ledger.rows(table):
            keys = {name: row[name] for name in names}
            for column in row.keys() - FREE.get(table, set()):
                if table == "turns" and column == "calls" and row["run"] == "none":
                    continue
                value = changed(row[column])
                if column in {"ended", "decided"} and row[column] is None:
                    value = 1.0
                new = {name: value if name == column else old for name, old in keys.items()}
                try:
                    ledger.change(table, keys, column, value)
                except Exception:
                    continue
                if not ledger.breaks():
                    unseen.append((table, column, row[column], value))
                ledger.change(table, new, column, row[column])
    assert not unseen
    assert not ledger.breaks()


def test_deleted_and_inserted_rows_are_seen(store: str) -> None:
    """A call that never was, an approval nobody gave, and whatever is missing."""
    ledger = Tampered(store)
    unseen = []
    for table, names in KEYS.items():
        for row in ledger.rows(table):
            ledger.delete(table, {name: row[name] for name in names})
            is_last = table == "audit" and row["number"] == max(
                (one["number"] for one in ledger.rows(table) if one["chain"] == row["chain"]), default=0
            ) + 1  # fmt: skip
            has_no_call = table == "turns" and not any(
                (one["run"], one["turn"]) == (row["run"], row["turn"])
                for one in ledger.rows("calls")
            )
            if not ledger.breaks() and not (is_last or has_no_call):
                unseen.append((table, row))
            ledger.insert(table, row)
    for table in ("calls", "approvals"):
        row = dict(ledger.rows(table)[0])
        row.pop("id" if table == "calls" else "", None)
        row["key" if table == "calls" else "id"] = "f" * 64
        ledger.insert(table, row)
        if not ledger.breaks():
            unseen.append((table, "inserted"))
        ledger.delete(table, {"key" if table == "calls" else "id": "f" * 64})
    assert not unseen
    assert not ledger.breaks()


def test_a_ledger_that_may_only_be_read_is_verified(postgres: Any) -> None:
    """A role that may only select is enough."""
    import psycopg

    store = postgres.fresh()
    ledger = Tampered(store)
    with ledger.connection() as opened, contextlib.suppress(psycopg.Error):
        opened.execute("create role auditor login")
    with ledger.connection() as opened:
        opened.execute("grant select on all tables in schema public to auditor")
    reader = store.replace("tester@", "auditor@")
    with open_snapshot(reader) as snapshot:
        assert not verify_ledger(snapshot).breaks
    ledger.change("calls", {"run": "s"}, "state", "succeeded")
    with open_snapshot(reader) as snapshot:
        assert verify_ledger(snapshot).breaks


@pytest.mark.skipif(
    not hasattr(os, "fork") or os.getuid() != 0, reason="only root can give up its rights"
)
@pytest.mark.parametrize("is_open", [False, True])
def test_a_file_that_cannot_be_written_is_verified(is_open: bool) -> None:
    """A user who may write neither the file nor its folder is enough, also while a gateway has it open."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "house.db"
        Tampered(str(place))
        opened = open_ledger(str(place)) if is_open else None
        for path in [Path(folder), *Path(folder).iterdir()]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        child = os.fork()
        if not child:
            code = 9
            with contextlib.suppress(BaseException):
                os.setgid(65534)
                os.setuid(65534)
                with open_snapshot(str(place)) as snapshot:
                    report = verify_ledger(snapshot)
                    code = 0 if report.calls > 5 and not report.breaks else 8
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        if opened is not None:
            opened.close()


def test_an_anchor_is_written_for_every_call_that_matters(store: str) -> None:
    """Before it runs and after it ended; if that fails, it does not run. A chain that is cut off is found."""
    heads: list[ChainHead] = []
    seen: list[int] = []

    @tool(effect="once", writes="x", trusted=True)
    async def act() -> None:
        """Act."""
        seen.append(len(heads))

    async def go(anchor: Any) -> list[str]:
        opened = open_ledger(store, anchor=anchor, anchor_effects=[Effect.ONCE])
        found = []
        try:
            async with Gateway([act, look], store=opened) as gateway:
                for one in (call("act"), call("look", n=1)):
                    try:
                        (answer,) = await gateway.run([one])
                        found.append(answer.code)
                    except StoreError as error:
                        found.append(str(error))
        finally:
            with contextlib.suppress(OSError):
                opened.close()
        return found

    assert asyncio.run(go(heads.append)) == ["ok", "ok"]
    assert seen == [1]
    assert len(heads) == 3  # the last one when it was closed
    with open_snapshot(store) as snapshot:
        assert not verify_ledger(snapshot, heads).breaks

    def fail(_: ChainHead) -> None:
        raise OSError("the other machine is away")

    refused, other = asyncio.run(go(fail))
    assert "the other machine is away" in refused
    assert other == "ok"
    assert seen == [1]
    ledger = Tampered(store)
    ledger.delete("audit", {"chain": heads[-1].chain, "number": heads[-1].length})
    with open_snapshot(store) as snapshot:
        assert any("cut off" in one for one in verify_ledger(snapshot, heads).breaks)


def test_a_program_gets_the_anchors(tmp_path: Path) -> None:
    """Each head is a line of JSON on its input; its failure is an OSError that says so."""
    written = tmp_path / "heads"
    anchor = command_anchor(["sh", "-c", f"cat >> {written}"])
    anchor(ChainHead("c", 1, b"\1" * 32))
    anchor(ChainHead("c", 2, b"\2" * 32))
    assert [head.length for head in read_anchors(written)] == [1, 2]
    for command in (["false"], ["no such program"], ["sleep", "9"]):
        with pytest.raises(OSError, match=r"program failed|No such file"):
            command_anchor(command, timeout=0.2)(ChainHead("c"))
