"""The ledger in one SQLite file: the embedded default, shared by the processes of one machine.

WAL with synchronous=FULL: one sync per commit, and a commit that returned survives a power failure. It uses
apsw, which ships a current SQLite: versions 3.7.0 to 3.51.2 may corrupt a WAL that is reset while another
process checkpoints. Each process proves that it lives by a lock on a file, which the kernel releases
however the process dies. Leases are monotonic time of one boot, so the wall clock may jump.
"""

from __future__ import annotations

import contextlib
import operator
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import apsw

from callmemaybe.errors import StoreError, StoreFull, StoreTransient
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.gateway.recorded import TurnRow
from callmemaybe.gateway.store import (
    CALL_COLUMNS,
    SCHEMA_VERSION,
    Approval,
    CallRow,
    DecideApproval,
    LedgerSnapshot,
    OpenCall,
    ReconcileCall,
    RunRow,
    UpdateCall,
)
from callmemaybe.gateway.store import _archive_sql as archives
from callmemaybe.gateway.store import _sqlite_sql as statements
from callmemaybe.gateway.store._guard import ENDED, GuardedTransaction, wrote_to_the_ledger
from callmemaybe.gateway.store._tables import check_tables
from callmemaybe.jsonio import dumps

fcntl: Any
try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: only leases show who is alive
    fcntl = None

_APPROVAL = ", ".join(item.name for item in fields(Approval))
_AMONG = archives.AMONG.format(
    pairs="select json_extract(value, '$[0]'), json_extract(value, '$[1]') from json_each(?1)"
)
_RESERVE = 4 * 1024 * 1024


@contextlib.contextmanager
def _translated(path: object) -> Iterator[None]:
    """Translate apsw's exceptions into StoreError and its subclasses."""
    try:
        yield
    except apsw.FullError as error:
        raise StoreFull(f"{path}: the disk under the ledger is full ({error})") from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreTransient(f"{path}: the ledger is busy ({error})") from error
    except apsw.IOError as error:
        raise StoreTransient(f"{path}: the ledger's disk failed ({error})") from error
    except apsw.NotADBError as error:
        raise StoreError(f"{path}: no ledger, and no SQLite database; name another file") from error
    except (apsw.CorruptError, UnicodeDecodeError) as error:
        raise StoreError(
            f"{path}: the ledger is damaged ({error}); restore it from a copy"
        ) from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as error:
        raise StoreError(
            f"{path}: the ledger cannot be opened for writing ({error});"
            " let this user write the file and its folder"
        ) from error
    except apsw.Error as error:
        raise StoreError(f"{path}: SQLite: {error}") from error


class SqliteStore:
    """The StoreBackend of SQLite. One connection writes, in the ledger's thread; one reads, behind a lock.

    ``path``: a file, or ``:memory:``. ``reserve``: bytes of disk space reserved for results. ``busy``:
    seconds to wait for other processes' write transactions.
    """

    def __init__(self, path: str, *, reserve: int = _RESERVE, busy: float = 10.0) -> None:
        self.path = Path(path)
        self.is_private = self._memory = path == ":memory:"
        # The two connections of an in-memory ledger share it by name.
        name = f"file:/{secrets.token_hex(8)}?vfs=memdb" if self._memory else str(self.path)
        self._name = name
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        if not self._memory:
            _create_private(self.path)
        with _translated(self.path):
            self._write: Any = apsw.Connection(name, flags=flags)
            self._write.set_busy_timeout(int(busy * 1000))
            self._reader: Any = self._write
            try:
                self._prepare()
            except BaseException:
                self._write.close()
                raise
            self._reader = apsw.Connection(name, flags=flags)
            self._reader.set_busy_timeout(int(busy * 1000))
        self._refused = False  # whether a tool's statement would change a table of the ledger
        self._reading = threading.Lock()
        self._boot = _boot_id()
        self.owner = secrets.token_hex(8)
        self._alive = None if self._memory else _OwnerFiles(self.path, self.owner)
        self.alive = self._alive.handle if self._alive is not None else None
        self._reserve = None if self._memory else _DiskReserve(self.path, reserve)
        with self.transaction():
            self.forget_dead_owners()

    def _prepare(self) -> None:
        """Make the tables unless they are there. Raises StoreError for others."""
        self._write.execute("begin")  # a foreign database is not touched
        check_tables(str(self.path), *_tables(self._write))
        self._write.execute("commit")
        if not self._memory:
            self._write.execute("pragma journal_mode = wal")
        self._write.execute(
            "pragma synchronous = full; pragma wal_autocheckpoint = 4000; pragma cache_size = -32768"
        )
        self._write.execute("begin immediate")
        self._write.execute(statements.TABLES)
        self._write.execute(
            "insert into meta values ('version', ?), ('token', 0) on conflict do nothing",
            (SCHEMA_VERSION,),
        )
        self._write.execute("commit")

    def claim_key(self, check: str, *, replace: bool) -> str | None:
        """Store the check value of the HMACs' key; return the one before."""
        known = self._write.execute("select value from meta where name = 'key'").fetchone()
        if known is None or replace:
            self._write.execute("insert or replace into meta values ('key', ?)", (check,))
        return None if known is None else str(known[0])

    # --- leases -------------------------------------------------------------------------------

    def renew_lease(self, lease: float) -> bool:
        """Renew this owner's lease."""
        lapsed = bool(self._lapsed([self.owner]))
        self._write.execute(
            "insert into owners values (?, ?, ?, ?, ?) on conflict do update set beat = ?4",
            (self.owner, self._boot, os.getpid(), time.monotonic(), lease),
        )
        return lapsed

    def lost_owners(self, owners: Iterable[str]) -> set[str]:
        """Return the owners of another boot, without their file lock, or with a lapsed lease."""
        asked = {owner for owner in owners if owner != self.owner}
        lost = self._lapsed(asked)
        if self._alive is not None:
            lost |= {owner for owner in asked - lost if not self._alive.is_held(owner)}
        return lost

    def forget_dead_owners(self) -> None:
        """Delete the files and leases of processes that are gone; their calls are lost without them, too."""
        if self._alive is None:
            return
        self._alive.delete_dead()
        owners = [owner for (owner,) in self._write.execute("select owner from owners")]
        dead = [(owner,) for owner in owners if not self._alive.is_held(owner)]
        self._write.executemany("delete from owners where owner = ?", dead)

    def _lapsed(self, owners: Iterable[str]) -> set[str]:
        """Return the owners without a lease of this boot, or with a lapsed one."""
        lapsed = set()
        for owner in owners:
            rows = self._write.execute(
                "select boot, beat + lease from owners where owner = ?", (owner,)
            ).fetchall()
            if not rows or rows[0][0] != self._boot or rows[0][1] < time.monotonic():
                lapsed.add(owner)
        return lapsed

    # --- transactions and space ---------------------------------------------------------------

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin immediate, then commit with a sync, or roll back."""
        with _translated(self.path):
            self._write.execute("begin immediate")
            try:
                yield
                self._write.execute("commit")
            except BaseException:
                if self._write.in_transaction:
                    self._write.execute("rollback")
                raise

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[GuardedTransaction]:
        """Yield the transaction for a tool; undo what was written since if an exception passes."""
        self._write.execute("savepoint tool")
        guarded = GuardedTransaction(
            self._run_of_tool, lambda _: int(self._write.changes()), self._check_intact
        )
        self._write.authorizer = self._authorise_tool
        try:
            try:
                yield guarded
            finally:
                guarded.close()
        except BaseException:
            if self._write.in_transaction:
                self._write.execute("rollback to tool; release tool")
            raise
        self._write.execute("release tool")

    def _run_of_tool(self, sql: str, values: Sequence[Any]) -> Any:
        self._refused = False
        try:
            return self._write.execute(sql, values)
        except apsw.AuthError:
            if not self._refused:
                raise
            raise wrote_to_the_ledger() from None

    def _authorise_tool(
        self, operation: int, first: str | None, second: str | None, *_: str | None
    ) -> int:
        """Refuse what controls the transaction, and what changes the ledger's own tables."""
        place = _CHANGES.get(operation)
        name = None if place is None else (first, second)[place]
        if name is not None and name.lower() in statements.COLUMNS:
            self._refused = True
        return int(apsw.SQLITE_DENY if self._refused or operation in _CONTROL else apsw.SQLITE_OK)

    def _check_intact(self) -> None:
        self._write.authorizer = None
        if not self._write.in_transaction:
            raise StoreError(ENDED)

    def release_reserve(self) -> bool:
        """Delete the reserve."""
        return self._reserve is not None and self._reserve.release()

    # --- calls --------------------------------------------------------------------------------

    def insert_calls(self, rows: Sequence[CallRow]) -> set[str]:
        """Insert the rows whose key is free."""
        if self._reserve is not None and not self._reserve.ensure():
            raise StoreFull("the disk under the ledger is full; only results are written")
        keys = [row.key for row in rows]
        taken = {key for (key,) in self._all(statements.STAND, keys)}
        free = [row for row in rows if row.key not in taken]
        self._each(statements.INSERT, [_values(row) for row in free])
        return {row.key for row in free}

    def fetch_calls(self, keys: Iterable[str]) -> dict[str, CallRow]:
        """Return the rows of these keys as this transaction sees them."""
        return {values[0]: CallRow(*values) for values in self._all(statements.FETCH, list(keys))}

    def update_calls(self, moves: Sequence[UpdateCall]) -> set[str]:
        """Compare and set."""
        expected = [(move.key, move.fence, move.expected.value) for move in moves]
        beaten = {key for (key,) in self._all(statements.BEATEN, expected)}
        won = [move for move in moves if move.key not in beaten] if beaten else moves
        self._each(
            statements.START,
            [
                (move.key, move.target.value, self.owner, move.arguments, move.locks)
                for move in won
                if move.starts
            ],
        )
        self._each(
            statements.FINISH,
            [
                (move.key, move.target.value, move.ended, move.code, move.content, move.result)
                for move in won
                if not move.starts
            ],
        )
        return {move.key for move in won}

    def claim_call(
        self, key: str, fence: int, state: CallState, *, owner: str | None = None
    ) -> bool:
        """Take a row over."""
        self._write.execute(
            "update calls set owner = ?, fence = fence + 1, state = ?"
            " where key = ? and fence = ? and state in ('committed', 'running')",
            (self.owner if owner is None else owner, state.value, key, fence),
        )
        return bool(self._write.changes())

    def serialise(
        self,
        locks: Collection[str],
        rows: Collection[CallRow],
        runs: Collection[tuple[str, str]],
        begun: Collection[tuple[str, str]],
    ) -> None:
        """Do nothing: SQLite has one writer at a time."""

    def open_calls_of_others(self) -> list[OpenCall]:
        """Return the open calls of other processes that hold locks, or asked for them."""
        return [
            OpenCall(key, locks, owner, bool(running), asked)
            for key, locks, owner, running, asked in self._write.execute(
                statements.OTHERS, (self.owner,)
            )
        ]

    def queue_for_locks(self, keys: Sequence[tuple[str, str, float]]) -> None:
        """Record since when committed calls wait for their locks."""
        self._each(statements.ASK_FOR, keys)

    def next_token(self) -> int:
        """Increment and return the counter of fencing tokens."""
        return int(_one(self._write.execute(statements.COUNT_UP)))

    def find_repeats(self, rows: Sequence[CallRow]) -> dict[str, str]:
        """Find calls of the same run with the same `once` tool and arguments."""
        asked = [(row.key, row.run, row.tool, row.mac, row.tenant) for row in rows]
        return dict(self._all(statements.REPEATS, asked))

    def unknown_calls(self, runs: Iterable[tuple[str, str]]) -> list[CallRow]:
        """Return unknown calls of these runs that nobody reconciled."""
        pairs = [(run, tenant) for tenant, run in runs]
        return [CallRow(*values) for values in self._all(statements.BLOCKED, pairs)]

    def open_owners(self) -> set[str]:
        """Return the other owners of open calls."""
        found = self._write.execute(
            "select distinct owner from calls where state in ('committed', 'running')"
            " and owner <> ?",
            (self.owner,),
        )
        return {owner for (owner,) in found}

    def orphaned_calls(
        self, owners: Iterable[str], tools: Collection[str], limit: int
    ) -> list[CallRow]:
        """Return running calls of these owners that are `once` or whose tool is known, oldest first."""
        asked = (dumps(list(owners)), dumps(list(tools)), limit)
        return [CallRow(*values) for values in self._write.execute(statements.ORPHANS, asked)]

    def unstarted_calls(self, owners: Iterable[str], before: float, limit: int) -> list[CallRow]:
        """Return old committed calls of these owners, oldest first."""
        asked = (dumps(list(owners)), before, limit)
        return [CallRow(*values) for values in self._write.execute(statements.UNSTARTED, asked)]

    def begin_runs(self, runs: Sequence[RunRow]) -> dict[tuple[str, str], str]:
        """Insert the runs that do not exist; return the policy hash of each."""
        rows = [(run.tenant, run.run, run.policy, run.policy_hash) for run in runs]
        self._each(statements.BEGIN_RUNS, rows)
        return self.policy_hashes([row[:2] for row in rows])

    def policy_hashes(self, runs: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the policy hash of each run."""
        found = self._all(statements.RUNS, list(runs))
        return {(tenant, run): policy_hash for tenant, run, policy_hash in found}

    def policy_json(self, tenant: str, run: str) -> str:
        """Return the policy of a run as JSON."""
        found = self._write.execute(
            "select policy from runs where tenant = ? and run = ?", (tenant, run)
        )
        return str(_one(found))

    def replace_policy(self, run: RunRow) -> None:
        """Replace the policy of a run."""
        self._write.execute(
            "update runs set policy = ?, policy_hash = ? where tenant = ? and run = ?",
            (run.policy, run.policy_hash, run.tenant, run.run),
        )

    def insert_turns(self, rows: Sequence[TurnRow]) -> dict[tuple[str, str, int], TurnRow]:
        """Insert the turns that are not recorded; return those that were."""
        made = {
            tuple(place) for place in self._all(statements.OPEN_TURNS, [row[:8] for row in rows])
        }
        others = [row.place for row in rows if row.place not in made]
        found = [TurnRow(*values) for values in self._all(statements.TURNS, others)]
        return {row.place: row for row in found}

    def replace_turn(self, row: TurnRow) -> None:
        """Replace the calls of a recorded turn."""
        self._write.execute(
            "update turns set calls = ?, arguments = ? where tenant = ? and run = ? and turn = ?",
            (row.calls, row.arguments, *row.place),
        )

    def denied_calls(self, keys: Collection[str]) -> dict[tuple[str, str], str]:
        """Return what a person denied of these keys."""
        return {(key, mac): by for key, mac, by in self._all(statements.DENIED, list(keys))}

    def append_audit(self, records: Sequence[tuple[str, int, str, str, bytes]]) -> None:
        """Append audit rows."""
        self._each(statements.APPEND, records)

    def chain_after(self, chain: str, number: int) -> list[tuple[str, int, str, str, bytes]]:
        """Return the records of a chain after ``number``."""
        found: list[Any] = self._write.execute(statements.AFTER, (chain, number)).fetchall()
        return found

    def _each(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement that returns nothing over all rows."""
        for part in statements.batches(rows):
            self._write.execute(
                statements.filled(statement, len(part), len(part[0])), statements.flat(part)
            )

    def _all(self, statement: str, rows: Sequence[Any]) -> list[Any]:
        """Return the rows that a statement finds over all ``rows``: tuples, or single values for a list."""
        found: list[Any] = []
        for part in statements.batches(rows):
            single = isinstance(part[0], str)
            sql = statements.filled(statement, len(part), 0 if single else len(part[0]))
            found += self._write.execute(sql, part if single else statements.flat(part)).fetchall()
        return found

    # --- approvals, reconciliation, retention -------------------------------------------------

    def insert_approval(self, approval: Approval) -> tuple[bool, Approval]:
        """Insert the approval unless it exists."""
        names = [item.name for item in fields(Approval)]
        self._write.execute(
            f"insert into approvals({_APPROVAL}) values ({', '.join('?' * len(names))})"
            " on conflict do nothing",
            tuple(getattr(approval, name) for name in names),
        )
        inserted = bool(self._write.changes())
        stored = _approval(self._write, approval.id)
        assert stored is not None
        return inserted, stored

    def decide_approval(self, decide: DecideApproval) -> tuple[bool, Approval | None]:
        """Decide an open, unexpired approval."""
        self._write.execute(
            "update approvals set decision = ?, by = ?, decided = ?"
            " where id = ? and decision is null and expires > ?",
            (decide.decision, decide.by, decide.at, decide.id, decide.at),
        )
        return bool(self._write.changes()), _approval(self._write, decide.id)

    def insert_reconciliation(self, reconcile: ReconcileCall) -> bool:
        """Insert the reconciliation of an unknown call."""
        self._write.execute(
            "insert into reconciliations select key, ?, ?, ?, ? from calls"
            " where key = ? and state = 'unknown' on conflict do nothing",
            (reconcile.outcome, reconcile.by, reconcile.at, reconcile.content, reconcile.key),
        )
        return bool(self._write.changes())

    def expire_results(self, before: float) -> int:
        """Drop old results; the keys stay."""
        self._write.execute(
            "update calls set content = null, result = null, arguments = '{}'"
            f" where ended < ? and content is not null and state in ({statements.DONE})",
            (before,),
        )
        count = int(self._write.changes())
        self._write.execute(
            "update turns set arguments = '[]' where created < ? and arguments <> '[]'", (before,)
        )
        return count

    # --- archives -----------------------------------------------------------------------------

    def finished_runs(self, before: float, limit: int) -> list[tuple[str, str]]:
        """Return runs that ended; nobody else writes meanwhile."""
        sql = archives.FINISHED.format(before="?1", now="?2", more="limit ?3")
        return list(self._write.execute(sql, (before, self.now(), limit)))

    def rows_of_runs(self, runs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield every row of these runs."""
        asked = (dumps(list(runs)),)
        selects = [(table, f"select * from {table} where {_AMONG}") for table in archives.TABLES]
        for table, sql in [*selects, ("reconciliations", archives.RECONCILED.format(among=_AMONG))]:
            cursor = self._write.execute(sql, asked)
            for row in cursor:
                names = [column[0] for column in cursor.get_description()]
                yield table, dict(zip(names, row, strict=True))

    def close_runs(self, runs: Sequence[tuple[str, str]], named: Sequence[str]) -> None:
        """Delete the rows of these runs, but keep named keys."""
        asked, kept = dumps(list(runs)), dumps(list(named))
        mine = f"{_AMONG} and key not in (select value from json_each(?2))"
        self._write.execute(
            f"delete from reconciliations where key in (select key from calls where {mine})",
            (asked, kept),
        )
        self._write.execute(f"delete from calls where {mine}", (asked, kept))
        self._write.execute(
            "update calls set content = null, result = null, arguments = '{}', locks = '[]'"
            f" where {_AMONG}",
            (asked,),
        )
        for table in ("turns", "approvals"):
            self._write.execute(f"delete from {table} where {_AMONG}", (asked,))
        self._write.execute(archives.CLOSE.format(among=_AMONG), (asked,))

    def unneeded_audit(self, before: float) -> dict[str, int]:
        """Return where each chain begins to be needed."""
        ends = dict(self._write.execute("select chain, max(number) + 1 from audit group by chain"))
        sql = archives.NEEDED.format(before="?1", t="json_extract(a.record, '$.t')")
        return ends | dict(self._write.execute(sql, (before,)))

    def read_chain(self, chain: str, until: int) -> list[tuple[str, int, str, str, bytes]]:
        """Return the beginning of a chain."""
        sql = "select * from audit where chain = ? and number < ? order by number"
        return list(self._write.execute(sql, (chain, until)))

    def delete_chain(self, chain: str, until: int) -> None:
        """Delete the beginning of a chain."""
        self._write.execute("delete from audit where chain = ? and number < ?", (chain, until))

    # --- readers ------------------------------------------------------------------------------

    def read_call(self, key: str) -> CallRow | None:
        """Return the committed row of ``key``."""
        rows = self._read(f"select {statements.ROW} from calls where key = ?", (key,))
        return CallRow(*rows[0]) if rows else None

    def read_run(self, tenant: str, run: str) -> RunRow | None:
        """Return the committed row of a run."""
        rows = self._read("select * from runs where tenant = ? and run = ?", (tenant, run))
        return RunRow(*rows[0]) if rows else None

    def read_turn(self, tenant: str, run: str, turn: int) -> TurnRow | None:
        """Return the committed row of a turn."""
        rows = self._read(
            f"select {statements.TURN} from turns where tenant = ? and run = ? and turn = ?",
            (tenant, run, turn),
        )
        return TurnRow(*rows[0]) if rows else None

    def following_turn(self, tenant: str, run: str, turn: int, request: str) -> TurnRow | None:
        """Return the first turn from ``turn`` on that was recorded for this request."""
        rows = self._read(
            f"select {statements.TURN} from turns where tenant = ? and run = ? and turn >= ?"
            " and request = ? order by turn limit 1",
            (tenant, run, turn, request),
        )
        return TurnRow(*rows[0]) if rows else None

    def next_turn(self, tenant: str, run: str) -> int:
        """Return one more than the last recorded turn of a run."""
        rows = self._read("select max(turn) from turns where tenant = ? and run = ?", (tenant, run))
        return 0 if rows[0][0] is None else int(rows[0][0]) + 1

    def read_denial(self, key: str, mac: str) -> Approval | None:
        """Return an approval of this call that a person denied."""
        rows = self._read(
            f"select {_APPROVAL} from approvals where key = ? and mac = ? and decision = 'denied'",
            (key, mac),
        )
        return Approval(*rows[0]) if rows else None

    def read_approval(self, id_: str) -> Approval | None:
        """Return an approval by its id."""
        with self._reading, _translated(self.path):
            return _approval(self._reader, id_)

    def read_reconciliation(self, key: str) -> tuple[str, str] | None:
        """Return (outcome, content) of a reconciled call."""
        rows = self._read("select outcome, content from reconciliations where key = ?", (key,))
        return (rows[0][0], rows[0][1]) if rows else None

    def read_approvals(self, *, pending_only: bool) -> list[Approval]:
        """Return approvals, oldest first."""
        where = "where decision is null" if pending_only else ""
        rows = self._read(f"select {_APPROVAL} from approvals {where} order by created, id", ())
        return [Approval(*values) for values in rows]

    def read_calls(
        self,
        *,
        run: str | None,
        limit: int,
        exclude_owner: str | None = None,
        tenant: str | None = None,
    ) -> list[CallRow]:
        """Return rows, newest first."""
        where = "where run = ?1" if run is not None else "where ?1 is null"
        where += " and (?3 is null or owner <> ?3) and (?4 is null or tenant = ?4)"
        rows = self._read(
            f"select {statements.ROW} from calls {where} order by created desc, ordinal desc limit ?2",
            (run, limit, exclude_owner, tenant),
        )
        return [CallRow(*values) for values in rows]

    def read_unknown(self, limit: int) -> list[CallRow]:
        """Return calls of unknown outcome that nobody reconciled, newest first."""
        rows = self._read(
            f"select {statements.ROW} from calls where state = 'unknown' and key not in"
            " (select key from reconciliations) order by created desc, ordinal desc limit ?",
            (limit,),
        )
        return [CallRow(*values) for values in rows]

    def read_audit(
        self, *, key: str | None = None, limit: int | None = None
    ) -> Iterator[tuple[str, int, str, str, bytes]]:
        """Yield audit rows on a connection of their own: a snapshot, however long it is."""
        where = "where key = ?1 and key <> ''" if key is not None else "where ?1 is null"
        sql = f"select * from audit {where} order by chain, number limit ?2"
        if self._memory:
            yield from self._read(sql, (key, -1 if limit is None else limit))
            return
        with _translated(self.path):
            connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
            try:
                yield from connection.execute(sql, (key, -1 if limit is None else limit))
            finally:
                connection.close()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[LedgerSnapshot]:
        """Open the ledger as it is now."""
        with _translated(self.path):
            yield from _snapshot_of(self._name)

    @classmethod
    @contextlib.contextmanager
    def open_snapshot(cls, path: str) -> Iterator[LedgerSnapshot]:
        """Open a file as it is now, also on a disk that cannot be written."""
        file = Path(path)
        with _translated(file), tempfile.TemporaryDirectory() as folder:
            name = f"{file.absolute().as_uri()}?mode=ro"
            try:
                with contextlib.closing(apsw.Connection(name, flags=_READ_ONLY)) as opened:
                    opened.execute("select count(*) from sqlite_schema").fetchall()
            except (apsw.CantOpenError, apsw.ReadOnlyError):
                if not file.exists():
                    raise
                # SQLite cannot make what it needs beside the file; it would not see the log of an immutable one.
                log = file.with_name(f"{file.name}-wal")
                if log.exists() and log.stat().st_size:
                    copy = Path(folder) / "ledger"
                    shutil.copyfile(file, copy)
                    shutil.copyfile(log, copy.with_name("ledger-wal"))
                    name = copy.as_uri()
                else:
                    name = f"{file.absolute().as_uri()}?immutable=1"
            yield from _snapshot_of(name, where=path)

    def _read(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        with self._reading, _translated(self.path):
            rows: list[Any] = self._reader.execute(sql, values).fetchall()
            return rows

    def now(self) -> float:
        """Return the wall clock."""
        return time.time()

    def close(self) -> None:
        """Close the connections and release the owner's file lock."""
        self._write.close()
        self._reader.close()
        if self._alive is not None:
            self._alive.close()


_READ_ONLY = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


def _snapshot_of(name: str, where: str | None = None) -> Iterator[LedgerSnapshot]:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI if where is None else _READ_ONLY
    if where is not None and "?" not in name:  # a copy of our own, whose log is to be read
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    with contextlib.closing(apsw.Connection(name, flags=flags)) as connection:
        connection.execute("begin")
        found, expected, version = _tables(connection)  # the first read is the moment
        if where is not None:
            if not found:
                raise StoreError(f"{where}: there is no ledger in it")
            check_tables(where, found, expected, version)
        yield LedgerSnapshot(lambda sql, values: connection.execute(sql.format(key="?"), values))


def _tables(
    connection: Any,
) -> tuple[dict[str, list[str]], dict[str, frozenset[str]], str | None]:
    """Return the columns of the tables with our names, what they should be, and the version."""
    expected = statements.COLUMNS
    found = {
        name: [row[1] for row in connection.execute(f"pragma table_info({name})")]
        for (name,) in connection.execute("select lower(name) from sqlite_schema").fetchall()
        if name in expected
    }
    version = None
    if frozenset(found.get("meta", ())) == expected["meta"]:
        said = connection.execute("select value from meta where name = 'version'").fetchall()
        version = str(said[0][0]) if said else None
    return found, expected, version


#: What SQLite refuses while a tool has the transaction, however the statement is written.
_CONTROL = {
    apsw.SQLITE_TRANSACTION,
    apsw.SQLITE_SAVEPOINT,
    apsw.SQLITE_ATTACH,
    apsw.SQLITE_DETACH,
    apsw.SQLITE_PRAGMA,
}


#: What changes a table, and which of the two arguments names it.
_CHANGES = {
    apsw.SQLITE_INSERT: 0,
    apsw.SQLITE_UPDATE: 0,
    apsw.SQLITE_DELETE: 0,
    apsw.SQLITE_DROP_TABLE: 0,
    apsw.SQLITE_ALTER_TABLE: 1,
    apsw.SQLITE_CREATE_TRIGGER: 1,
    apsw.SQLITE_CREATE_TEMP_TRIGGER: 1,
    apsw.SQLITE_DROP_TRIGGER: 1,
    apsw.SQLITE_CREATE_INDEX: 1,
    apsw.SQLITE_DROP_INDEX: 1,
    # A temporary table of this name would stand before the ledger's.
    apsw.SQLITE_CREATE_TEMP_TABLE: 0,
    apsw.SQLITE_CREATE_TEMP_VIEW: 0,
}


_values = operator.attrgetter(*CALL_COLUMNS)


def _one(cursor: Any) -> Any:
    return cursor.fetchall()[0][0]


def _approval(connection: Any, id_: str) -> Approval | None:
    rows = connection.execute(f"select {_APPROVAL} from approvals where id = ?", (id_,)).fetchall()
    return Approval(*rows[0]) if rows else None


STORE: Callable[..., SqliteStore] = SqliteStore


class _OwnerFiles:
    """A locked file per living process; the kernel releases the lock however the process dies."""

    def __init__(self, path: Path, owner: str) -> None:
        self._folder = path.with_name(path.name + "-owners")
        self._file = self._folder / owner
        self.handle: int | None = None
        if fcntl is None:  # pragma: no cover
            return
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            while self.handle is None:
                self.handle = self._locked_file()
        except OSError as error:
            raise StoreError(f"{self._folder}: cannot be written ({error.strerror})") from None

    def _locked_file(self) -> int | None:
        """Create and lock the file; None if another process took it for a dead owner's and deleted it."""
        handle = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), self._file.stat()):
                return handle
        os.close(handle)
        return None

    def delete_dead(self) -> None:
        """Delete the files that no living process holds."""
        if self.handle is None:
            return
        for file in self._folder.iterdir():
            with contextlib.suppress(OSError):
                handle = os.open(file, os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    file.unlink()  # while it is locked: its owner, if one just makes it, notices
                finally:
                    os.close(handle)

    def is_held(self, owner: str) -> bool:
        """Whether the process behind ``owner`` still holds its file."""
        if fcntl is None:  # pragma: no cover
            return True
        try:
            handle = os.open(self._folder / owner, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def close(self) -> None:
        """Release the lock and delete the file."""
        if self.handle is not None:
            self._file.unlink(missing_ok=True)
            os.close(self.handle)
            self.handle = None


class _DiskReserve:
    """A file whose disk space is freed for results when the disk is full."""

    def __init__(self, path: Path, size: int) -> None:
        self._file = path.with_name(path.name + "-reserve")
        self._size = size
        self.ensure()

    def ensure(self) -> bool:
        """Create the reserve unless it exists; False if there is no space for it."""
        if not self._size or self._file.exists():
            return True
        try:
            handle = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(handle, 0, self._size)
            else:  # pragma: no cover - macOS
                os.write(handle, b"\0" * self._size)
        except OSError:
            self.release()
            return False
        finally:
            os.close(handle)
        return True

    def release(self) -> bool:
        """Delete the reserve; False if there was none."""
        if not self._file.exists():
            return False
        with contextlib.suppress(FileNotFoundError):
            self._file.unlink()
        return True


def _create_private(path: Path) -> None:
    """Create the file with access for its owner only; SQLite's WAL inherits the mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreError(
            f"{path}: the ledger cannot be opened ({error.strerror}); check the path and who may write it"
        ) from None


def _boot_id() -> str:
    """Return an id that changes with every boot: monotonic times compare only within one boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # pragma: no cover - not Linux
        return str(int(time.time() - time.monotonic()) // 10)
