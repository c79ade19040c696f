"""The ledger in one SQLite file: the embedded default. Several processes of one machine may share it.

WAL with synchronous=FULL: one sync per commit, and a commit that returned survives a power cut.
Through apsw, which carries a current SQLite: versions 3.7.0 to 3.51.2 may corrupt a WAL that is reset
while another process checkpoints. Owners prove they live by a lock on a file, which the kernel
drops however the process dies; leases are monotonic time of one boot, so the wall clock may jump.
"""

from __future__ import annotations

import contextlib
import operator
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import apsw

from callmemaybe.gateway.audit._host import OwnerFiles, Reserve, boot_id, make_private
from callmemaybe.gateway.lifecycle import TERMINAL, State
from callmemaybe.gateway.store import (
    COLUMNS,
    VERSION,
    Approval,
    Decide,
    Holder,
    Move,
    Reconcile,
    Row,
    RunRow,
    StoreError,
    StoreFull,
    StoreTransient,
)
from callmemaybe.gateway.strict import dumps

_TABLES = """
create table if not exists meta(name text primary key, value blob not null) without rowid;
create table if not exists owners(
  owner text primary key, boot text not null, pid integer not null, beat real not null,
  lease real not null
) without rowid;
create table if not exists runs(
  tenant text not null, run text not null, policy text not null, policy_hash text not null,
  primary key (tenant, run)
) without rowid;
-- In the order of arrival: keys are hashes, and rows in their order would touch a page each.
create table if not exists calls(
  id integer primary key, key text not null unique, tenant text not null, run text not null, turn integer not null,
  ordinal integer not null, call_id text not null, tool text not null, effect text not null,
  mac text not null, policy text not null, definition text not null, arguments text not null,
  locks text not null, state text not null, fence integer not null, owner text not null,
  created real not null, ended real, code text, content text, result text, asked real
);
create index if not exists calls_once on calls(run, tool, mac, tenant) where effect = 'once';
create index if not exists calls_open on calls(owner) where state in ('committed', 'running');
create index if not exists calls_unknown on calls(run, tenant) where state = 'unknown';
create table if not exists approvals(
  id text primary key, key text not null, tenant text not null, run text not null,
  tool text not null, mac text not null, policy text not null, arguments text not null,
  reason text not null, created real not null, expires real not null,
  decision text, by text, decided real
) without rowid;
create table if not exists reconciliations(
  key text primary key, outcome text not null, by text not null, at real not null,
  content text not null
) without rowid;
create table if not exists audit(
  chain text not null, number integer not null, key text not null, record text not null,
  hash blob not null, primary key (chain, number)
) without rowid;
"""
_COLUMNS = ", ".join(COLUMNS)
#: Batches travel as one JSON text: one statement, so the interpreter lock changes hands once.
_INSERT = (
    f"insert into calls({_COLUMNS}) select "
    + ", ".join(f"value ->> {place}" for place in range(len(COLUMNS)))
    + " from json_each(?) where true on conflict do nothing"
)
_STAND = "select key from calls where key in (select value from json_each(?))"
# A move's place in its array: key, fence, expected, target, then the new values.
_BEATEN = """
select j.value ->> 0 from json_each(?) as j left join calls as c on c.key = j.value ->> 0
where c.key is null or c.fence <> j.value ->> 1 or c.state <> j.value ->> 2
"""
_START = """
update calls set state = j.value ->> 3, fence = calls.fence + 1, owner = ?2,
  arguments = coalesce(j.value ->> 4, calls.arguments), locks = coalesce(j.value ->> 5, calls.locks)
from json_each(?1) as j where calls.key = j.value ->> 0
"""
_FINISH = """
update calls set state = j.value ->> 3, ended = j.value ->> 4, code = j.value ->> 5,
  content = j.value ->> 6, result = j.value ->> 7
from json_each(?1) as j where calls.key = j.value ->> 0
"""
_REPEATS = """
select j.value ->> 0, min(c.key) from json_each(?) as j join calls as c
  on c.run = j.value ->> 1 and c.tool = j.value ->> 2 and c.mac = j.value ->> 3
  and c.tenant = j.value ->> 4 and c.effect = 'once'
where c.key <> j.value ->> 0 and c.state <> 'cancelled' and coalesce(c.code, '') <> 'refused'
group by 1
"""
# Its own rows are left out by two ranges of the index, not by looking at each.
_OTHERS = """
select key, locks, owner, state = 'running', asked from calls
where state in ('committed', 'running') and (owner > ?1 or (owner < ?1 and owner > ''))
  and (state = 'running' or asked is not null)
"""
_ASK_FOR = """
update calls set locks = j.value ->> 1, asked = coalesce(calls.asked, j.value ->> 2)
from json_each(?1) as j where calls.key = j.value ->> 0 and calls.state = 'committed'
"""
_COUNT_UP = "update meta set value = value + 1 where name = 'token' returning value"
_BLOCKED = f"""
select {_COLUMNS} from calls where state = 'unknown'
  and (run, tenant) in (select value ->> 0, value ->> 1 from json_each(?))
  and key not in (select key from reconciliations)
"""
_AUDIT = """
insert into audit select value ->> 0, value ->> 1, value ->> 2, value ->> 3, unhex(value ->> 4)
from json_each(?)
"""
_APPROVAL = ", ".join(item.name for item in fields(Approval))
_DONE = ", ".join(f"'{state.value}'" for state in sorted(TERMINAL))
_RESERVE = 4 * 1024 * 1024


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Turn apsw's exceptions into ours."""
    try:
        yield
    except apsw.FullError as error:
        raise StoreFull(f"the disk under the ledger is full ({error})") from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreTransient(f"the ledger is busy ({error})") from error
    except apsw.IOError as error:
        raise StoreTransient(f"the ledger's disk failed ({error})") from error
    except apsw.Error as error:
        raise StoreError(f"SQLite: {error}") from error


class Sqlite:
    """The statements. One connection writes, in the ledger's thread; one reads, behind a lock."""

    def __init__(self, path: str, *, reserve: int = _RESERVE, busy: float = 10.0) -> None:
        self.path = Path(path)
        self._memory = path == ":memory:"
        # An in-memory ledger (tests, trials) is shared between its two connections by name.
        name = f"file:/{secrets.token_hex(8)}?vfs=memdb" if self._memory else str(self.path)
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        if not self._memory:
            make_private(self.path)
        with _translated():
            self._write: Any = apsw.Connection(name, flags=flags)
            self._write.set_busy_timeout(int(busy * 1000))
            if not self._memory:
                self._write.execute("pragma journal_mode = wal")
            self._write.execute("pragma synchronous = full; pragma wal_autocheckpoint = 4000")
            self._write.execute("begin immediate")
            self._write.execute(_TABLES)
            self._write.execute(
                "insert into meta values ('mac', ?), ('version', ?), ('token', 0)"
                " on conflict do nothing",
                (secrets.token_bytes(32), VERSION),
            )
            self._write.execute("commit")
            found = _one(self._write.execute("select value from meta where name = 'version'"))
            if found != VERSION:
                raise StoreError(f"{path}: a ledger of version {found}, this is {VERSION}")
            self._reader: Any = apsw.Connection(name, flags=flags)
            self._reader.set_busy_timeout(int(busy * 1000))
            meta = self._write.execute("select value from meta where name = 'mac'")
            self.secret: bytes = _one(meta)
        self._reading = threading.Lock()
        self._boot = boot_id()
        self.owner = secrets.token_hex(8)
        self._alive = None if self._memory else OwnerFiles(self.path, self.owner)
        self._reserve = None if self._memory else Reserve(self.path, reserve)

    # --- who lives ----------------------------------------------------------------------------

    def beat(self, lease: float) -> None:
        """Renew this owner's lease."""
        self._write.execute(
            "insert into owners values (?, ?, ?, ?, ?) on conflict do update set beat = ?4",
            (self.owner, self._boot, os.getpid(), time.monotonic(), lease),
        )

    def lost(self, owners: Iterable[str]) -> set[str]:
        """Those of another boot, without their file lock, or with a lapsed lease."""
        gone = set()
        for owner in owners:
            if owner == self.owner:
                continue
            rows = self._write.execute(
                "select boot, beat + lease from owners where owner = ?", (owner,)
            ).fetchall()
            if (
                not rows
                or rows[0][0] != self._boot
                or rows[0][1] < time.monotonic()
                or (self._alive is not None and not self._alive.is_held(owner))
            ):
                gone.add(owner)
        return gone

    # --- transactions and space ---------------------------------------------------------------

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin immediate, then commit with a sync, or roll back."""
        with _translated():
            self._write.execute("begin immediate")
            try:
                yield
                self._write.execute("commit")
            except BaseException:
                if self._write.in_transaction:
                    self._write.execute("rollback")
                raise

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[apsw.Connection]:
        """Yield the connection; undo what was written since if an exception passes."""
        self._write.execute("savepoint tool")
        try:
            yield self._write
        except BaseException:
            self._write.execute("rollback to tool; release tool")
            raise
        self._write.execute("release tool")

    def recover_space(self) -> bool:
        """Delete the reserve."""
        return self._reserve is not None and self._reserve.give_up()

    # --- calls --------------------------------------------------------------------------------

    def insert(self, rows: Sequence[Row]) -> set[str]:
        """Insert the rows whose key is free."""
        if self._reserve is not None and not self._reserve.keep():
            raise StoreFull("the disk under the ledger is full; only results are written")
        keys = [row.key for row in rows]
        taken = {key for (key,) in self._write.execute(_STAND, (dumps(keys),))}
        free = [row for row in rows if row.key not in taken]
        if free:
            self._write.execute(_INSERT, (dumps([_values(row) for row in free]),))
        return {row.key for row in free}

    def fetch(self, keys: Iterable[str]) -> dict[str, Row]:
        """Return the rows of these keys as this transaction sees them."""
        found = {}
        for key in keys:
            for values in self._write.execute(
                f"select {_COLUMNS} from calls where key = ?", (key,)
            ):
                found[key] = Row(*values)
        return found

    def move(self, moves: Sequence[Move]) -> set[str]:
        """Compare and set."""
        rows = [
            (move.key, move.fence, move.expected.value, move.target.value, *_news(move))
            for move in moves
        ]
        beaten = {key for (key,) in self._write.execute(_BEATEN, (dumps(rows),))}
        won = [(row, move) for row, move in zip(rows, moves, strict=True) if move.key not in beaten]
        starts = [row for row, move in won if move.starts]
        ends = [row for row, move in won if not move.starts]
        if starts:
            self._write.execute(_START, (dumps(starts), self.owner))
        if ends:
            self._write.execute(_FINISH, (dumps(ends),))
        return {move.key for _, move in won}

    def claim(self, key: str, fence: int, state: State, *, owner: str | None = None) -> bool:
        """Take a row over."""
        self._write.execute(
            "update calls set owner = ?, fence = fence + 1, state = ?"
            " where key = ? and fence = ? and state in ('committed', 'running')",
            (self.owner if owner is None else owner, state.value, key, fence),
        )
        return bool(self._write.changes())

    def serialise(self, locks: Sequence[tuple[str, bool]]) -> None:
        """SQLite has one writer at a time: nothing is left to do."""

    def others(self) -> list[Holder]:
        """Return the open calls of other processes that hold locks, or asked for them."""
        return [
            Holder(key, locks, owner, bool(running), asked)
            for key, locks, owner, running, asked in self._write.execute(_OTHERS, (self.owner,))
        ]

    def ask_for(self, keys: Sequence[tuple[str, str, float]]) -> None:
        """Note since when committed calls wait for their locks."""
        self._write.execute(_ASK_FOR, (dumps(keys),))

    def token(self) -> int:
        """Count up."""
        return int(_one(self._write.execute(_COUNT_UP)))

    def repeats(self, rows: Sequence[Row]) -> dict[str, str]:
        """Find calls of the same run with the same `once` tool and arguments."""
        asked = [(row.key, row.run, row.tool, row.mac, row.tenant) for row in rows]
        return dict(self._write.execute(_REPEATS, (dumps(asked),)).fetchall())

    def blocked(self, runs: Iterable[tuple[str, str]]) -> list[Row]:
        """Return unknown calls of these runs that nobody reconciled."""
        pairs = dumps([(run, tenant) for tenant, run in runs])
        return [Row(*values) for values in self._write.execute(_BLOCKED, (pairs,))]

    def open_owners(self) -> set[str]:
        """Return the other owners of open calls."""
        found = self._write.execute(
            "select distinct owner from calls where state in ('committed', 'running')"
            " and owner <> ?",
            (self.owner,),
        )
        return {owner for (owner,) in found}

    def orphans(self, owners: Iterable[str], limit: int) -> list[Row]:
        """Return open calls of these owners, oldest first."""
        return [
            Row(*values)
            for values in self._write.execute(
                f"select {_COLUMNS} from calls where state in ('committed', 'running')"
                " and owner in (select value from json_each(?)) order by id limit ?",
                (dumps(list(owners)), limit),
            )
        ]

    def open_runs(self, runs: Sequence[RunRow]) -> dict[tuple[str, str], str]:
        """Insert the runs that are not there."""
        rows = dumps([(run.tenant, run.run, run.policy, run.policy_hash) for run in runs])
        self._write.execute(
            "insert into runs select value ->> 0, value ->> 1, value ->> 2, value ->> 3"
            " from json_each(?) where true on conflict do nothing",
            (rows,),
        )
        found = self._write.execute(
            "select tenant, run, policy_hash from runs where (tenant, run) in"
            " (select value ->> 0, value ->> 1 from json_each(?))",
            (rows,),
        )
        return {(tenant, run): stands for tenant, run, stands in found}

    def append(self, records: Sequence[tuple[str, int, str, str, bytes]]) -> None:
        """Append audit rows."""
        rows = [(*record[:4], record[4].hex()) for record in records]
        self._write.execute(_AUDIT, (dumps(rows),))

    # --- approvals, reconciliation, retention -------------------------------------------------

    def ask(self, approval: Approval) -> tuple[bool, Approval]:
        """Insert the approval unless it is there."""
        names = [item.name for item in fields(Approval)]
        self._write.execute(
            f"insert into approvals({_APPROVAL}) values ({', '.join('?' * len(names))})"
            " on conflict do nothing",
            tuple(getattr(approval, name) for name in names),
        )
        inserted = bool(self._write.changes())
        stands = _approval(self._write, approval.id)
        assert stands is not None
        return inserted, stands

    def decide(self, decide: Decide) -> tuple[bool, Approval | None]:
        """Decide an open, unexpired approval."""
        self._write.execute(
            "update approvals set decision = ?, by = ?, decided = ?"
            " where id = ? and decision is null and expires > ?",
            (decide.decision, decide.by, decide.at, decide.id, decide.at),
        )
        return bool(self._write.changes()), _approval(self._write, decide.id)

    def reconcile(self, reconcile: Reconcile) -> bool:
        """Insert the reconciliation of an unknown call."""
        self._write.execute(
            "insert into reconciliations select key, ?, ?, ?, ? from calls"
            " where key = ? and state = 'unknown' on conflict do nothing",
            (reconcile.outcome, reconcile.by, reconcile.at, reconcile.content, reconcile.key),
        )
        return bool(self._write.changes())

    def expire(self, before: float) -> int:
        """Forget old results; the keys stay."""
        self._write.execute(
            "update calls set content = null, result = null, arguments = '{}'"
            f" where ended < ? and content is not null and state in ({_DONE})",
            (before,),
        )
        return int(self._write.changes())

    # --- readers ------------------------------------------------------------------------------

    def look(self, key: str) -> Row | None:
        """Return the committed row of ``key``."""
        rows = self._read(f"select {_COLUMNS} from calls where key = ?", (key,))
        return Row(*rows[0]) if rows else None

    def look_run(self, tenant: str, run: str) -> RunRow | None:
        """Return the committed start of a run."""
        rows = self._read("select * from runs where tenant = ? and run = ?", (tenant, run))
        return RunRow(*rows[0]) if rows else None

    def look_approval(self, id_: str) -> Approval | None:
        """Return an approval by its id."""
        with self._reading, _translated():
            return _approval(self._reader, id_)

    def look_reconciled(self, key: str) -> tuple[str, str] | None:
        """Return (outcome, content) of a reconciled call."""
        rows = self._read("select outcome, content from reconciliations where key = ?", (key,))
        return (rows[0][0], rows[0][1]) if rows else None

    def approvals(self, *, pending_only: bool) -> list[Approval]:
        """Return approvals, oldest first."""
        where = "where decision is null" if pending_only else ""
        rows = self._read(f"select {_APPROVAL} from approvals {where} order by created, id", ())
        return [Approval(*values) for values in rows]

    def calls(self, *, run: str | None, limit: int) -> list[Row]:
        """Return rows, newest first."""
        where = "where run = ?1" if run is not None else "where ?1 is null"
        rows = self._read(
            f"select {_COLUMNS} from calls {where} order by created desc, ordinal desc limit ?2",
            (run, limit),
        )
        return [Row(*values) for values in rows]

    def audit(
        self, *, key: str | None = None, limit: int | None = None
    ) -> Iterator[tuple[str, int, str, str, bytes]]:
        """Yield audit rows on a connection of their own: a snapshot, however long it is."""
        where = "where key = ?1 and key <> ''" if key is not None else "where ?1 is null"
        sql = f"select * from audit {where} order by chain, number limit ?2"
        if self._memory:
            yield from self._read(sql, (key, -1 if limit is None else limit))
            return
        with _translated():
            connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
            try:
                yield from connection.execute(sql, (key, -1 if limit is None else limit))
            finally:
                connection.close()

    def _read(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        with self._reading, _translated():
            rows: list[Any] = self._reader.execute(sql, values).fetchall()
            return rows

    def now(self) -> float:
        """Return the wall clock."""
        return time.time()

    def close(self) -> None:
        """Close the connections and let go of the owner's lock."""
        self._write.close()
        self._reader.close()
        if self._alive is not None:
            self._alive.close()


_values = operator.attrgetter(*COLUMNS)


def _news(move: Move) -> tuple[Any, ...]:
    if move.starts:
        return (move.arguments, move.locks)
    return (move.ended, move.code, move.content, move.result)


def _one(cursor: Any) -> Any:
    return cursor.fetchall()[0][0]


def _approval(connection: Any, id_: str) -> Approval | None:
    rows = connection.execute(f"select {_APPROVAL} from approvals where id = ?", (id_,)).fetchall()
    return Approval(*rows[0]) if rows else None


AUDIT_LOG: Callable[..., Sqlite] = Sqlite
