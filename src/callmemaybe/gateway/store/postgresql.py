"""The ledger in PostgreSQL, shared by any number of processes on any hosts.

A batch is one statement per kind of row with one parameter. Leases and times are the database's, so the
hosts' clocks may disagree. No row is written by all processes: each appends to an audit chain of its own. A
lost connection is opened again; the ledger then repeats the operation, which compare-and-set makes safe.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import operator
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import psycopg
from psycopg import errors

from callmemaybe.errors import StoreError, StoreFull, StoreTransient
from callmemaybe.gateway.lifecycle import TERMINAL, CallState
from callmemaybe.gateway.plan import EVERYTHING, locks_from_json
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
from callmemaybe.gateway.store import _postgresql_sql as statements
from callmemaybe.gateway.store._guard import ENDED, GuardedTransaction, wrote_to_the_ledger
from callmemaybe.gateway.store._tables import check_tables
from callmemaybe.jsonio import dumps

_APPROVAL = ", ".join(item.name for item in fields(Approval))
_AMONG = archives.AMONG.format(
    pairs="select v ->> 0, v ->> 1 from json_array_elements(%(runs)s::json) as v"
)
_DONE = [state.value for state in sorted(TERMINAL)]
_TRANSIENT = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    errors.DeadlockDetected,
    errors.SerializationFailure,
)
#: The server has one table of locks for all sessions (6,400 by default); a batch with more locks than this
#: takes the one lock that conflicts with every other instead.
_MAX_LOCKS = 256
#: The columns from here on are set when a call ends.
_WRITTEN = CALL_COLUMNS.index("ended")
_values = operator.attrgetter(*CALL_COLUMNS)
_start = operator.attrgetter("key", "fence", "expected", "target", "arguments", "locks")
_end = operator.attrgetter(
    "key", "fence", "expected", "target", "ended", "code", "content", "result"
)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Translate psycopg's exceptions into StoreError and its subclasses."""
    try:
        yield
    except errors.DiskFull as error:
        raise StoreFull(f"the disk under the ledger is full ({error})") from error
    except _TRANSIENT as error:
        raise StoreTransient(f"PostgreSQL is away or busy ({_first_line(error)})") from error
    except psycopg.Error as error:
        raise StoreError(f"PostgreSQL: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


@dataclass(slots=True)
class _Prefetched:
    """What ``serialise`` read ahead for the transaction, each answer with what it was asked for."""

    others: list[OpenCall] | None = None
    token: int | None = None
    blocked: tuple[set[tuple[str, str]], list[CallRow]] | None = None
    policies: tuple[set[tuple[str, str]], list[Any]] | None = None
    repeats: tuple[set[str], dict[str, str]] | None = None


class PostgresqlStore:
    """The StoreBackend of PostgreSQL. One connection writes, in the ledger's thread; one reads, behind a lock."""

    def __init__(self, address: str, *, connect_timeout: int = 5) -> None:
        self._address = address
        self._options = {"connect_timeout": connect_timeout, "application_name": "callmemaybe"}
        self._reading = threading.Lock()
        self._reader: Any = None
        self._offset = 0.0
        self._ahead = _Prefetched()
        self.owner = secrets.token_hex(8)
        self.is_private = False
        self.alive: int | None = None  # a lease, which others see in the database
        with _translated():
            self._write = self._connect()
            try:
                self._prepare()
            except BaseException:
                self._write.close()
                raise

    def _prepare(self) -> None:
        """Make the tables unless they are there. Raises StoreError for others."""
        where = f"database {self._write.info.dbname}"
        with self._write.transaction():
            self._write.execute("select pg_advisory_xact_lock(%s)", (statements.MAKING,))
            check_tables(where, *_tables(self._write))
            try:
                self._write.execute(statements.TABLES)
            except errors.InsufficientPrivilege as error:
                raise StoreError(
                    f"{where}: its tables cannot be made ({_first_line(error)});"
                    " let the role create tables there"
                ) from error
            self._write.execute(
                "insert into meta values ('version', %s) on conflict do nothing",
                (str(SCHEMA_VERSION).encode(),),
            )

    def claim_key(self, check: str, *, replace: bool) -> str | None:
        """Store the check value of the HMACs' key; return the one before."""
        made = self._write.execute(
            "insert into meta values ('key', %s) on conflict do nothing", (check.encode(),)
        )
        if made.rowcount:
            return None
        found = self._write.execute(
            "select value from meta where name = 'key' for update"
        ).fetchone()
        if replace:
            self._write.execute("update meta set value = %s where name = 'key'", (check.encode(),))
        return None if found is None else bytes(found[0]).decode()

    def _connect(self, *, autocommit: bool = False) -> psycopg.Connection[Any]:
        options: dict[str, Any] = dict(self._options)
        if not autocommit:
            given = psycopg.conninfo.conninfo_to_dict(self._address).get("options") or ""
            options["options"] = f"{given} {statements.PLANS}"
        made = psycopg.connect(self._address, autocommit=autocommit, **options)
        with made.transaction():
            made.execute(statements.SETTINGS)
            before = _clock()
            row = made.execute("select extract(epoch from clock_timestamp())").fetchone()
            assert row is not None
            self._offset = float(row[0]) - (before + _clock()) / 2
        return made

    # --- leases -------------------------------------------------------------------------------

    def renew_lease(self, lease: float) -> bool:
        """Renew this owner's lease, by the database's clock; waits for who judges it lost just now."""
        was = self._write.execute(statements.OWN_LEASE, (self.owner,)).fetchone()
        before = _clock()
        found = self._write.execute(statements.RENEW, (self.owner, lease, was and was[0]))
        lapsed, now = found.fetchall()[0]
        # The database's clock was read between these two; its offset stays if that agrees with it.
        least, most = float(now) - _clock(), float(now) - before
        self._offset = min(max(self._offset, least), most)
        return bool(lapsed)

    def lost_owners(self, owners: Iterable[str]) -> set[str]:
        """Return the owners without a lease or with a lapsed one, which stay lost until the commit.

        A row that another transaction locks is about to be renewed, or to be judged there: not lost here.
        """
        asked = [owner for owner in owners if owner != self.owner]
        return {owner for (owner,) in self._write.execute(statements.LOST, {"asked": asked})}

    def forget_dead_owners(self) -> None:
        """Delete leases that lapsed a day ago, of owners that have no open call."""
        self._write.execute(statements.FORGET)

    # --- transactions -------------------------------------------------------------------------

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin, then commit durably or roll back; reopens a lost connection."""
        with _translated():
            if not _is_at_rest(self._write):
                self._write.close()  # something broke in the middle of the last transaction
            if self._write.closed or self._write.broken:
                self._write = self._connect()
            self._ahead = _Prefetched()
            with self._write.transaction():
                yield

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[GuardedTransaction]:
        """Yield the transaction for a tool; undo what was written since if an exception passes."""
        write = self._write
        # A prepared statement is one statement: a second one behind a semicolon is refused.
        before = write.execute(statements.WRITTEN).fetchone()
        guarded = GuardedTransaction(
            lambda sql, values: write.execute(sql, values or None, prepare=True),
            lambda cursor: int(cursor.rowcount),
            lambda: self._check_tool(before),
        )
        with write.transaction():
            try:
                yield guarded
            finally:
                guarded.close()

    def _check_tool(self, before: Any) -> None:
        """Raise if a tool ended the transaction or wrote to the ledger's tables; undo what it set."""
        status = self._write.info.transaction_status
        if status == psycopg.pq.TransactionStatus.IDLE:
            self._write.close()  # the next transaction connects anew
        if self._write.closed:
            raise StoreError(ENDED)
        if status == psycopg.pq.TransactionStatus.INTRANS:  # else it is undone as a whole
            self._write.execute(statements.RESET, prepare=False)
            if self._write.execute(statements.WRITTEN).fetchone() != before:
                raise wrote_to_the_ledger()

    def release_reserve(self) -> bool:
        """Return False: this store reserves no disk space on the database's host."""
        return False

    # --- calls --------------------------------------------------------------------------------

    def insert_calls(self, rows: Sequence[CallRow]) -> set[str]:
        """Insert the rows whose key is free, ordered by key so that two writers cannot deadlock."""
        ordered = sorted(rows, key=operator.attrgetter("key"))
        # Columns that are empty in new rows are left out.
        width = len(CALL_COLUMNS) if any(row.asked for row in rows) else _WRITTEN
        text = dumps(
            [dict(zip(CALL_COLUMNS[:width], _values(row), strict=False)) for row in ordered]
        )
        return {key for (key,) in self._write.execute(statements.INSERT, (text,))}

    def fetch_calls(self, keys: Iterable[str]) -> dict[str, CallRow]:
        """Return the rows of these keys as this transaction sees them."""
        rows = self._write.execute(
            f"select {statements.ROW} from calls where key = any(%s)", (list(keys),)
        )
        return {values[0]: CallRow(*values) for values in rows}

    def update_calls(self, moves: Sequence[UpdateCall]) -> set[str]:
        """Compare and set."""
        won: set[str] = set()
        if any(move.target is CallState.UNKNOWN for move in moves):
            self._ahead.blocked = None
        ordered = sorted(moves, key=operator.attrgetter("key"))
        starts = [_start(move) for move in ordered if move.starts]
        ends = [_end(move) for move in ordered if not move.starts]
        if starts:
            rows = self._write.execute(statements.START, (self.owner, dumps(starts)))
            won |= {key for (key,) in rows}
        if ends:
            rows = self._write.execute(statements.FINISH, (dumps(ends),))
            won |= {key for (key,) in rows}
        return won

    def claim_call(
        self, key: str, fence: int, state: CallState, *, owner: str | None = None
    ) -> bool:
        """Take a row over."""
        done = self._write.execute(
            "update calls set owner = %s, fence = fence + 1, state = %s"
            " where key = %s and fence = %s and state in ('committed', 'running')",
            (self.owner if owner is None else owner, state.value, key, fence),
        )
        return bool(done.rowcount)

    def serialise(
        self,
        locks: Collection[str],
        rows: Collection[CallRow],
        runs: Collection[tuple[str, str]],
        begun: Collection[tuple[str, str]],
    ) -> None:
        """Take advisory locks until the commit, in one order for all processes.

        Under "read committed" two transactions that start conflicting calls, or the same call of a run,
        would not see each other. A lock on everything conflicts with all others. What the transaction will
        ask next is read in the same pipeline; each statement sees what was committed before it, so what was
        committed before the locks were granted.
        """
        wanted = {_number(EVERYTHING): False}
        for lock in itertools.chain.from_iterable(map(locks_from_json, locks)):
            number, alone = _number(lock.resource), lock.exclusive or lock.resource == EVERYTHING
            wanted[number] = wanted.get(number, False) or alone
        wanted.update({_lock_number(row): True for row in rows})
        if len(wanted) > _MAX_LOCKS:
            wanted = {_number(EVERYTHING): True}
        ask = self._write.execute
        with self._write.pipeline():
            ask(statements.SERIALISE, (dumps(list(wanted.items())),))
            others = ask(statements.OTHERS, {"me": self.owner})
            token = ask(statements.COUNT_UP) if locks else None
            unknown = ask(statements.BLOCKED, (_pairs(runs),)) if runs else None
            policies = ask(statements.POLICIES, (_pairs(begun),)) if begun else None
            repeats = ask(statements.REPEATS, (_likes(rows),)) if rows else None
        self._ahead = _Prefetched(
            [OpenCall(*values) for values in others],
            None if token is None else _number_of(token),
            None if unknown is None else (set(runs), [CallRow(*values) for values in unknown]),
            None if policies is None else (set(begun), policies.fetchall()),
            None if repeats is None else ({row.key for row in rows}, dict(repeats.fetchall())),
        )

    def open_calls_of_others(self) -> list[OpenCall]:
        """Return the open calls of other processes that hold locks, or asked for them."""
        found, self._ahead.others = self._ahead.others, None
        if found is None:
            rows = self._write.execute(statements.OTHERS, {"me": self.owner})
            found = [OpenCall(*values) for values in rows]
        return found

    def queue_for_locks(self, keys: Sequence[tuple[str, str, float]]) -> None:
        """Record since when committed calls wait for their locks."""
        self._write.execute(statements.ASK_FOR, list(map(list, zip(*sorted(keys), strict=True))))

    def next_token(self) -> int:
        """Return the next fencing token from a sequence, which no writer waits for."""
        number, self._ahead.token = self._ahead.token, None
        if number is None:
            number = _number_of(self._write.execute(statements.COUNT_UP))
        return number

    def find_repeats(self, rows: Sequence[CallRow]) -> dict[str, str]:
        """Find calls of the same run with the same `once` tool and arguments."""
        ahead = self._ahead.repeats
        if ahead is not None and ahead[0].issuperset(row.key for row in rows):
            return ahead[1]
        return dict(self._write.execute(statements.REPEATS, (_likes(rows),)).fetchall())

    def unknown_calls(self, runs: Iterable[tuple[str, str]]) -> list[CallRow]:
        """Return unknown calls of these runs that nobody reconciled."""
        asked, ahead = set(runs), self._ahead.blocked
        if ahead is not None and ahead[0] == asked:
            return ahead[1]
        found = self._write.execute(statements.BLOCKED, (_pairs(asked),))
        return [CallRow(*values) for values in found]

    def open_owners(self) -> set[str]:
        """Return the other owners of open calls."""
        rows = self._write.execute(
            "select distinct owner from calls where state in ('committed', 'running')"
            " and owner <> %s",
            (self.owner,),
        )
        return {owner for (owner,) in rows}

    def orphaned_calls(
        self, owners: Iterable[str], tools: Collection[str], limit: int
    ) -> list[CallRow]:
        """Return running calls of these owners that can be taken over; skip rows that another process locked."""
        asked = (list(owners), list(tools), limit)
        return [CallRow(*values) for values in self._write.execute(statements.ORPHANS, asked)]

    def unstarted_calls(self, owners: Iterable[str], before: float, limit: int) -> list[CallRow]:
        """Return old committed calls of these owners; skip rows that another process locked."""
        asked = (list(owners), before, limit)
        return [CallRow(*values) for values in self._write.execute(statements.UNSTARTED, asked)]

    def begin_runs(self, runs: Sequence[RunRow]) -> dict[tuple[str, str], str]:
        """Insert the runs that do not exist, in one order for all writers."""
        ordered = sorted((run.tenant, run.run, run.policy, run.policy_hash) for run in runs)
        found = self._write.execute(statements.BEGIN_RUNS, (dumps(ordered),)).fetchall()
        known = {row[:2] for row in ordered} - {row[:2] for row in found}
        if known:  # the rows that were just inserted are ours alone until the commit
            asked = (_pairs(known),)
            found += self._write.execute(statements.POLICIES_TO_CHANGE, asked).fetchall()
        return {(tenant, run): policy_hash for tenant, run, policy_hash in found}

    def policy_hashes(self, runs: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the policy hash of each run."""
        ahead, found = self._ahead.policies, None
        if ahead is not None and ahead[0].issuperset(runs):
            found = ahead[1]
        found = found or self._write.execute(statements.POLICIES, (_pairs(runs),)).fetchall()
        return {(tenant, run): policy_hash for tenant, run, policy_hash in found}

    def policy_json(self, tenant: str, run: str) -> str:
        """Return the policy of a run as JSON."""
        found = self._write.execute(
            "select policy from runs where tenant = %s and run = %s", (tenant, run)
        )
        return str(found.fetchall()[0][0])

    def replace_policy(self, run: RunRow) -> None:
        """Replace the policy of a run."""
        self._write.execute(
            "update runs set policy = %s, policy_hash = %s where tenant = %s and run = %s",
            (run.policy, run.policy_hash, run.tenant, run.run),
        )

    def insert_turns(self, rows: Sequence[TurnRow]) -> dict[tuple[str, str, int], TurnRow]:
        """Insert the turns that are not recorded, in one order for all writers; return those that were."""
        ordered = sorted(row[:8] for row in rows)
        made = set(self._write.execute(statements.OPEN_TURNS, (dumps(ordered),)).fetchall())
        others = [row.place for row in rows if row.place not in made]
        if not others:
            return {}
        found = [
            TurnRow(*values) for values in self._write.execute(statements.TURNS, (dumps(others),))
        ]
        return {row.place: row for row in found}

    def replace_turn(self, row: TurnRow) -> None:
        """Replace the calls of a recorded turn."""
        self._write.execute(
            "update turns set calls = %s, arguments = %s"
            " where tenant = %s and run = %s and turn = %s",
            (row.calls, row.arguments, *row.place),
        )

    def denied_calls(self, keys: Collection[str]) -> dict[tuple[str, str], str]:
        """Return what a person denied of these keys."""
        rows = self._write.execute(statements.DENIED, (list(keys),))
        return {(key, mac): by for key, mac, by in rows}

    def append_audit(self, records: Sequence[tuple[str, int, str, str, bytes]]) -> None:
        """Append audit rows."""
        chain, first = records[0][:2]
        rows = dumps([(key, record, digest.hex()) for _, _, key, record, digest in records])
        try:
            self._write.execute(statements.AUDIT, (chain, first - 1, rows))
        except errors.UniqueViolation as error:
            # Our own commit, of a connection that broke, was not done when the end of the chain was read.
            raise StoreTransient("the end of the audit chain has moved") from error

    def chain_after(self, chain: str, number: int) -> list[tuple[str, int, str, str, bytes]]:
        """Return the records of a chain after ``number``."""
        return self._write.execute(statements.AFTER, (chain, number)).fetchall()

    # --- approvals, reconciliation, retention -------------------------------------------------

    def insert_approval(self, approval: Approval) -> tuple[bool, Approval]:
        """Insert the approval unless it exists."""
        names = [item.name for item in fields(Approval)]
        done = self._write.execute(
            f"insert into approvals({_APPROVAL}) values ({', '.join(['%s'] * len(names))})"
            " on conflict do nothing",
            [getattr(approval, name) for name in names],
        )
        stored = _approval(self._write, approval.id)
        assert stored is not None
        return bool(done.rowcount), stored

    def decide_approval(self, decide: DecideApproval) -> tuple[bool, Approval | None]:
        """Decide an open, unexpired approval."""
        done = self._write.execute(
            "update approvals set decision = %s, by = %s, decided = %s"
            " where id = %s and decision is null"
            " and expires > extract(epoch from clock_timestamp())",
            (decide.decision, decide.by, decide.at, decide.id),
        )
        return bool(done.rowcount), _approval(self._write, decide.id)

    def insert_reconciliation(self, reconcile: ReconcileCall) -> bool:
        """Insert the reconciliation of an unknown call."""
        done = self._write.execute(
            "insert into reconciliations select key, %s, %s, %s, %s from calls"
            " where key = %s and state = 'unknown' on conflict do nothing",
            (reconcile.outcome, reconcile.by, reconcile.at, reconcile.content, reconcile.key),
        )
        return bool(done.rowcount)

    def expire_results(self, before: float) -> int:
        """Drop old results; the keys stay."""
        done = self._write.execute(
            "update calls set content = null, result = null, arguments = '{}'"
            " where ended < %s and content is not null and state = any(%s)",
            (before, _DONE),
        )
        self._write.execute(
            "update turns set arguments = '[]' where created < %s and arguments <> '[]'", (before,)
        )
        return done.rowcount

    # --- archives -----------------------------------------------------------------------------

    def finished_runs(self, before: float, limit: int) -> list[tuple[str, str]]:
        """Lock runs that seem finished, so that T1 waits; return those that are, now that they are locked."""
        more = "limit %(limit)s for update of r skip locked"
        sql = archives.FINISHED.format(before="%(before)s", now="%(now)s", more="{more}")
        asked: dict[str, Any] = {"before": before, "now": self.now(), "limit": limit}
        locked = self._write.execute(sql.format(more=more), asked).fetchall()
        among = f"and ({_AMONG.replace('tenant, run', 'r.tenant, r.run', 1)})"
        asked["runs"] = dumps(locked)
        return self._write.execute(sql.format(more=among), asked).fetchall()

    def rows_of_runs(self, runs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield every row of these runs."""
        asked = {"runs": dumps(list(runs))}
        selects = [(table, f"select * from {table} where {_AMONG}") for table in archives.TABLES]
        for table, sql in [*selects, ("reconciliations", archives.RECONCILED.format(among=_AMONG))]:
            cursor = self._write.execute(sql, asked)
            names = [column.name for column in cursor.description or ()]
            for row in cursor:
                yield table, dict(zip(names, row, strict=True))

    def close_runs(self, runs: Sequence[tuple[str, str]], named: Sequence[str]) -> None:
        """Delete the rows of these runs, but keep named keys."""
        asked = {"runs": dumps(list(runs)), "named": list(named)}
        mine = f"{_AMONG} and key <> all(%(named)s::text[])"
        self._write.execute(
            f"delete from reconciliations where key in (select key from calls where {mine})", asked
        )
        self._write.execute(f"delete from calls where {mine}", asked)
        self._write.execute(
            "update calls set content = null, result = null, arguments = '{}', locks = '[]'"
            f" where {_AMONG}",
            asked,
        )
        for table in ("turns", "approvals"):
            self._write.execute(f"delete from {table} where {_AMONG}", asked)
        self._write.execute(archives.CLOSE.format(among=_AMONG), asked)

    def unneeded_audit(self, before: float) -> dict[str, int]:
        """Return where each chain begins to be needed."""
        ends = dict(
            self._write.execute(
                "select chain, max(number) + 1 from audit group by chain"
            ).fetchall()
        )
        sql = archives.NEEDED.format(before="%s", t="(a.record::json ->> 't')::float8")
        return ends | dict(self._write.execute(sql, (before,)).fetchall())

    def read_chain(self, chain: str, until: int) -> list[tuple[str, int, str, str, bytes]]:
        """Return the beginning of a chain."""
        sql = "select * from audit where chain = %s and number < %s order by number"
        return self._write.execute(sql, (chain, until)).fetchall()

    def delete_chain(self, chain: str, until: int) -> None:
        """Delete the beginning of a chain."""
        self._write.execute("delete from audit where chain = %s and number < %s", (chain, until))

    # --- readers ------------------------------------------------------------------------------

    def read_call(self, key: str) -> CallRow | None:
        """Return the committed row of ``key``."""
        rows = self._read(f"select {statements.ROW} from calls where key = %s", (key,))
        return CallRow(*rows[0]) if rows else None

    def read_run(self, tenant: str, run: str) -> RunRow | None:
        """Return the committed row of a run."""
        rows = self._read("select * from runs where tenant = %s and run = %s", (tenant, run))
        return RunRow(*rows[0]) if rows else None

    def read_turn(self, tenant: str, run: str, turn: int) -> TurnRow | None:
        """Return the committed row of a turn."""
        rows = self._read(
            f"select {statements.TURN} from turns where tenant = %s and run = %s and turn = %s",
            (tenant, run, turn),
        )
        return TurnRow(*rows[0]) if rows else None

    def following_turn(self, tenant: str, run: str, turn: int, request: str) -> TurnRow | None:
        """Return the first turn from ``turn`` on that was recorded for this request."""
        rows = self._read(
            f"select {statements.TURN} from turns where tenant = %s and run = %s and turn >= %s"
            " and request = %s order by turn limit 1",
            (tenant, run, turn, request),
        )
        return TurnRow(*rows[0]) if rows else None

    def next_turn(self, tenant: str, run: str) -> int:
        """Return one more than the last recorded turn of a run."""
        rows = self._read(
            "select max(turn) from turns where tenant = %s and run = %s", (tenant, run)
        )
        return 0 if rows[0][0] is None else int(rows[0][0]) + 1

    def read_denial(self, key: str, mac: str) -> Approval | None:
        """Return an approval of this call that a person denied."""
        rows = self._read(
            f"select {_APPROVAL} from approvals where key = %s and mac = %s and decision = 'denied'",
            (key, mac),
        )
        return Approval(*rows[0]) if rows else None

    def read_approval(self, id_: str) -> Approval | None:
        """Return an approval by its id."""
        rows = self._read(f"select {_APPROVAL} from approvals where id = %s", (id_,))
        return Approval(*rows[0]) if rows else None

    def read_reconciliation(self, key: str) -> tuple[str, str] | None:
        """Return (outcome, content) of a reconciled call."""
        rows = self._read("select outcome, content from reconciliations where key = %s", (key,))
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
        rows = self._read(
            f"select {statements.ROW} from calls where (%s::text is null or run = %s)"
            " and (%s::text is null or owner <> %s) and (%s::text is null or tenant = %s)"
            " order by created desc, ordinal desc limit %s",
            (run, run, exclude_owner, exclude_owner, tenant, tenant, limit),
        )
        return [CallRow(*values) for values in rows]

    def read_unknown(self, limit: int) -> list[CallRow]:
        """Return calls of unknown outcome that nobody reconciled, newest first."""
        rows = self._read(
            f"select {statements.ROW} from calls where state = 'unknown' and key not in"
            " (select key from reconciliations) order by created desc, ordinal desc limit %s",
            (limit,),
        )
        return [CallRow(*values) for values in rows]

    def read_audit(
        self, *, key: str | None = None, limit: int | None = None
    ) -> Iterator[tuple[str, int, str, str, bytes]]:
        """Yield audit rows through a server-side cursor on a connection of its own."""
        sql = (
            "select * from audit where %s::text is null or (key = %s and key <> '')"
            " order by chain, number limit %s"
        )
        with (
            _translated(),
            self._connect(autocommit=True) as connection,
            connection.transaction(),
            connection.cursor(name="audit") as cursor,
        ):
            cursor.itersize = 10_000
            cursor.execute(sql, (key, key, limit))
            yield from cursor

    def snapshot(self) -> contextlib.AbstractContextManager[LedgerSnapshot]:
        """Open the ledger as it is now."""
        return self.open_snapshot(self._address)

    @classmethod
    @contextlib.contextmanager
    def open_snapshot(cls, address: str) -> Iterator[LedgerSnapshot]:
        """Open a ledger as it is now; a role that may only select is enough."""
        numbers = itertools.count()
        with (
            _translated(),
            psycopg.connect(address, autocommit=True, application_name="callmemaybe") as connection,
            connection.transaction(),
        ):
            connection.execute("set transaction isolation level repeatable read, read only")
            found, expected, version = _tables(connection)
            where = f"database {connection.info.dbname}"
            if not found:
                raise StoreError(f"{where}: there is no ledger in it")
            check_tables(where, found, expected, version)

            def select(sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
                with connection.cursor(name=f"rows{next(numbers)}") as cursor:
                    cursor.itersize = 10_000
                    cursor.execute(sql.format(key="%s").encode(), values)
                    yield from cursor

            yield LedgerSnapshot(select)

    def _read(self, sql: str, values: Sequence[Any]) -> list[Any]:
        with self._reading, _translated():
            for attempt in (1, 2):
                if self._reader is None or self._reader.closed:
                    self._reader = self._connect(autocommit=True)
                try:
                    rows: list[Any] = self._reader.execute(sql, values).fetchall()
                except (psycopg.OperationalError, psycopg.InterfaceError):
                    self._reader.close()
                    if attempt == 2:
                        raise
                else:
                    return rows
        raise AssertionError("unreachable")

    def now(self) -> float:
        """Return the database's clock, by this host's monotonic one since the last renewal of the lease."""
        return _clock() + self._offset

    def close(self) -> None:
        """Give up the lease and close the connections."""
        with contextlib.suppress(StoreError), self.transaction():
            self._write.execute("delete from owners where owner = %s", (self.owner,))
        self._write.close()
        if self._reader is not None:
            self._reader.close()


def _tables(
    connection: Any,
) -> tuple[dict[str, list[str]], dict[str, frozenset[str]], str | None]:
    """Return the columns of the tables with our names, what they should be, and the version."""
    expected, version = statements.COLUMNS, None
    found = dict(connection.execute(statements.FOUND, (list(expected),)).fetchall())
    if frozenset(found.get("meta", ())) == expected["meta"]:
        said = connection.execute("select value from meta where name = 'version'").fetchone()
        version = bytes(said[0]).decode(errors="replace") if said else None
    return found, expected, version


def _clock() -> float:
    """Return seconds of a clock that nobody turns and that counts while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def _is_at_rest(connection: psycopg.Connection[Any]) -> bool:
    """Whether a connection is neither in a transaction nor in a pipeline that was given up."""
    wire = connection.pgconn
    return (wire.transaction_status, wire.pipeline_status) == (
        psycopg.pq.TransactionStatus.IDLE,
        psycopg.pq.PipelineStatus.OFF,
    )


def _number_of(cursor: psycopg.Cursor[Any]) -> int:
    found = cursor.fetchone()
    assert found is not None
    return int(found[0])


def _pairs(runs: Collection[tuple[str, str]]) -> str:
    return dumps([(run, tenant) for tenant, run in runs])


def _likes(rows: Collection[CallRow]) -> str:
    return dumps([(row.key, row.run, row.tool, row.mac, row.tenant) for row in rows])


def _lock_number(row: CallRow) -> int:
    return _number(f"{row.tenant}\n{row.run}\n{row.tool}\n{row.mac}")


@functools.lru_cache(maxsize=4096)
def _number(text: str) -> int:
    """Return the advisory lock for a text; a collision only makes two transactions wait for each other."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


def _approval(connection: psycopg.Connection[Any], id_: str) -> Approval | None:
    row = connection.execute(f"select {_APPROVAL} from approvals where id = %s", (id_,)).fetchone()
    return Approval(*row) if row else None


STORE: Callable[..., PostgresqlStore] = PostgresqlStore
