"""The stores: rows, ledger operations, and the interface that every database implements.

An operation is a value. The ledger's writer applies many of them in one transaction and resolves their
outcomes after the commit. ``store/<name>.py`` holds the SQL of one kind of database and decides nothing.

This folder is the registry: a module in it offers a class with the interface :class:`StoreBackend` as
``STORE``. Other packages add stores through entry points of the group ``callmemaybe.gateway.store``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Protocol

from callmemaybe import plugins
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.gateway.recorded import TurnRow


@dataclass(slots=True)
class CallRow:
    """One call as the ledger stores it; the fields are the columns."""

    key: str
    tenant: str
    run: str
    turn: int
    ordinal: int
    call_id: str
    tool: str
    effect: str
    mac: str
    """HMAC of the arguments as delivered."""
    policy: str
    definition: str
    arguments: str
    """JSON; redacted for `once`, because such a call never runs again."""
    locks: str
    """JSON: [[resource, exclusive], ...]"""
    state: str
    fence: int
    owner: str
    created: float
    ended: float | None = None
    code: str | None = None
    content: str | None = None
    result: str | None = None
    asked: float | None = None
    """The time since when a committed call waits for locks of other processes."""


#: Version of the tables; a ledger of another version is refused.
SCHEMA_VERSION = 3
CALL_COLUMNS: tuple[str, ...] = tuple(CallRow.__dataclass_fields__)


class CallProposal(NamedTuple):
    """One call of an AdmitCalls: the row to write and its audit record."""

    row: CallRow
    record: str
    approved: bool = False
    """A person approved exactly this call, so a repeat needs no second approval."""
    is_named: bool = False
    """Its key is a business key, which other runs have, too."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run and its policy."""

    tenant: str
    run: str
    policy: str
    """The policy as JSON."""
    policy_hash: str


class AdmitCalls(NamedTuple):
    """T1: record the calls of one turn, all or none; rows in state running start at once (T2).

    ``run`` is given if its policy is not in the ledger yet. ``turn`` records the turn itself. The outcome
    is a list of Admission.
    """

    proposals: tuple[CallProposal, ...]
    run: RunRow | None = None
    guard_repeats: bool = True
    turn: TurnRow | None = None


class OpenTurn(NamedTuple):
    """Record a run's policy and a turn before anything of it is decided; the outcome is an OpenedTurn."""

    run: RunRow
    turn: TurnRow


class Admission(NamedTuple):
    """The outcome of one proposal, and the row in the ledger if there is one.

    ``status`` is one of

    - new: the row was inserted; restarted: the row was taken over from a lost owner;
    - replay: the call ended before; unknown: its owner is lost, and it may not run again;
    - in_flight: it is being run; conflict: the key has other arguments;
    - busy: another process holds its locks; blocked: a call of unknown outcome (``detail``: its key) does;
    - repeat: the same `once` call was made before (``detail``: its key);
    - policy: the run has another policy in the ledger (``detail``: its hash);
    - denied: a person denied it (``detail``: who); taken: the turn had to be new and is not.

    A conflict's ``detail`` says what the turn was recorded with, if another call stands at its position.
    """

    status: str
    row: CallRow | None = None
    detail: str = ""
    token: int = 0
    """Fencing token of a call that starts: grows with each conflicting call over all processes."""


class UpdateCall(NamedTuple):
    """T2, T3 or a cancellation: compare-and-set of a row on key, fence and state.

    A start (T2) names its ``locks`` (JSON) and is busy while another process holds one of them; ``asked`` is
    its place in the queue. The outcome is an UpdateResult.
    """

    key: str
    expected: CallState
    fence: int
    target: CallState
    record: str
    starts: bool = False
    arguments: str | None = None
    locks: str | None = None
    asked: float | None = None
    ended: float | None = None
    code: str | None = None
    content: str | None = None
    result: str | None = None


class UpdateResult(NamedTuple):
    """Whether the row was updated; if not, the row as it is now and why.

    ``busy``: another process holds its locks. ``blocker``: the key of a call of unknown outcome that does.
    ``token``: the fencing token of a start.
    """

    won: bool
    row: CallRow | None
    busy: bool = False
    token: int = 0
    blocker: str = ""


@dataclass(frozen=True, slots=True)
class AppendAudit:
    """Append an audit record that changes no row: a denial, an attempt."""

    key: str
    record: str


@dataclass(frozen=True, slots=True)
class Approval:
    """A request for a person's decision; it binds key, arguments, policy and expiry."""

    id: str
    key: str
    tenant: str
    run: str
    tool: str
    mac: str
    policy: str
    arguments: str
    reason: str
    created: float
    expires: float
    decision: str | None = None
    by: str | None = None
    decided: float | None = None


@dataclass(frozen=True, slots=True)
class RequestApproval:
    """T0: insert an approval unless it exists; the outcome is the row in the ledger."""

    approval: Approval
    record: str


@dataclass(frozen=True, slots=True)
class DecideApproval:
    """Record the decision "approved" or "denied"; the first one stands.

    The outcome is (decided now, the approval or None).
    """

    id: str
    decision: str
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class ReconcileCall:
    """Record what a call of unknown outcome did: "done" or "not_done"; the first record stands."""

    key: str
    outcome: str
    by: str
    at: float
    content: str
    record: str


@dataclass(frozen=True, slots=True)
class ExpireResults:
    """Drop the results of calls that ended before ``before``; their keys stay. The outcome is a count."""

    before: float
    record: str


@dataclass(frozen=True, slots=True)
class ClaimLostCalls:
    """Take over running calls whose owner is lost: `once` becomes unknown, others restart here.

    A call that was admitted under another definition of its tool is ended with that answer instead. Calls of
    lost owners that never started, and were admitted before ``unstarted``, are cancelled.

    The outcome is a list of Admission with the rows that this owner restarts.
    """

    tools: Mapping[str, str]
    """The tools that this process can run: name -> definition hash."""
    at: float
    unstarted: float
    limit: int = 100


@dataclass(frozen=True, slots=True)
class RunInTransaction:
    """T3 of a `transactional` call: ``effect`` runs inside the transaction that records it.

    ``effect(connection)`` returns the UpdateCall to apply. If it raises, its writes are rolled back and
    ``failed(error)`` returns the UpdateCall to apply instead.
    """

    effect: Any
    failed: Any


#: The hash of the policy of a run that was archived: no other policy has it, so no call is admitted.
ARCHIVED = "archived"
#: The key of the audit records of archives.
ARCHIVE_KEY = "archive"


@dataclass(frozen=True, slots=True)
class ArchiveRuns:
    """Move up to ``limit`` runs that were finished before ``before`` to an archive.

    ``write(lines)`` makes them durable and returns (name, SHA-256); what it raises undoes everything. The
    outcome is the audit record, None if there is nothing to move.
    """

    before: float
    limit: int
    write: Any


@dataclass(frozen=True, slots=True)
class RenewLease:
    """Renew this owner's lease, as each transaction does that finds it half used."""


@dataclass(frozen=True, slots=True)
class ConfirmOwnership:
    """Renew the lease, then check that ``key`` still runs for this owner at ``fence``.

    The outcome is a new fencing token, or 0 if the call was taken over.
    """

    key: str
    fence: int


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call of another process that runs and holds its locks, or that ``asked`` for them."""

    key: str
    locks: str
    owner: str
    running: bool
    asked: float | None


@dataclass(frozen=True, slots=True)
class ClaimKey:
    """Note the check value of the key that the HMACs are made with, unless one is there; ``replace``: in any case.

    The outcome is the check value in the ledger from now on.
    """

    check: str
    replace: bool = False
    record: str = ""
    """The audit record of a replacement."""


LedgerOperation = (
    RenewLease
    | ConfirmOwnership
    | AdmitCalls
    | OpenTurn
    | UpdateCall
    | AppendAudit
    | RequestApproval
    | DecideApproval
    | ReconcileCall
    | ExpireResults
    | ClaimKey
    | ClaimLostCalls
    | RunInTransaction
    | ArchiveRuns
)


@dataclass
class OperationBatch:
    """The operations of one transaction, their outcomes, and the audit records (key, JSON) in order."""

    operations: Sequence[LedgerOperation]
    outcomes: dict[int, Any] = field(default_factory=dict)
    audit: list[tuple[str, str]] = field(default_factory=list)


#: The columns of the tables that a verification reads.
TABLE_COLUMNS: Mapping[str, Sequence[str]] = {
    "calls": CALL_COLUMNS,
    "approvals": tuple(item.name for item in fields(Approval)),
    "runs": ("tenant", "run", "policy", "policy_hash"),
    "turns": TurnRow._fields[:-1],
    "reconciliations": ("key", "outcome", "by", "at", "content"),
}


class LedgerSnapshot:
    """Reads one moment of a ledger; ``select`` runs SQL with a key for each ``{key}`` in it."""

    def __init__(self, select: Callable[[str, Sequence[Any]], Iterator[tuple[Any, ...]]]) -> None:
        self._select = select

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table, by column."""
        names = TABLE_COLUMNS[table]
        for row in self._select(f"select {', '.join(names)} from {table}", ()):
            yield dict(zip(names, row, strict=True))

    def read_audit(self, *, key: str | None = None) -> Iterator[tuple[str, int, str, str, bytes]]:
        """Yield the audit rows ordered by chain and number; with ``key`` those of it alone."""
        where, values = ("where key = {key}", (key,)) if key is not None else ("", ())
        sql = f"select chain, number, key, record, hash from audit {where} order by chain, number"
        for chain, number, key_, record, digest in self._select(sql, values):
            yield chain, number, key_, record, bytes(digest)


class StoreBackend(Protocol):
    """The interface of a store. All methods but the readers run in the writer's thread.

    A store translates its database's exceptions into StoreError, StoreFull and StoreTransient.
    """

    owner: str
    """A random id of this process."""
    is_private: bool
    """Whether no other process can ever open it, as one in memory."""
    alive: int | None
    """The descriptor of a lock that lets other processes see that this one lives, None if there is none.
    A process of a tool that inherits it is seen as part of this one."""

    def transaction(self) -> AbstractContextManager[None]:
        """Open, then commit durably or roll back."""

    def savepoint(self) -> AbstractContextManager[Any]:
        """Inside a transaction: yield it for a tool (``_guard.GuardedTransaction``), without its control.

        An exception undoes only what came after.
        """

    def insert_calls(self, rows: Sequence[CallRow]) -> set[str]:
        """Insert the rows whose key is free; return those keys."""

    def fetch_calls(self, keys: Iterable[str]) -> dict[str, CallRow]:
        """Return the rows of these keys as this transaction sees them."""

    def update_calls(self, moves: Sequence[UpdateCall]) -> set[str]:
        """Apply compare-and-set updates; return the keys of the updated rows."""

    def claim_call(
        self, key: str, fence: int, state: CallState, *, owner: str | None = None
    ) -> bool:
        """Take a row over with ``fence`` + 1; False if it is no longer running or committed at ``fence``.

        ``owner`` is the new owner: by default this process, "" for none.
        """

    def serialise(
        self,
        locks: Collection[str],
        rows: Collection[CallRow],
        runs: Collection[tuple[str, str]],
        begun: Collection[tuple[str, str]],
    ) -> None:
        """Wait for other transactions that decide about the same locks (JSON of each call).

        Also wait for those that may admit the same calls as ``rows`` (tenant, run, tool, arguments). What
        the transaction will ask about these and ``runs`` next may be read ahead here, and the policies of
        those runs that are ``begun``.
        """

    def open_calls_of_others(self) -> list[OpenCall]:
        """Return the calls of other owners that are running or have asked for their locks."""

    def queue_for_locks(self, keys: Sequence[tuple[str, str, float]]) -> None:
        """Record that committed calls (key, locks, since when) wait for their locks."""

    def next_token(self) -> int:
        """Return a number larger than any before it, in the order of serialised transactions."""

    def find_repeats(self, rows: Sequence[CallRow]) -> dict[str, str]:
        """Return, for `once` rows, key -> key of another call of the run with equal tool and arguments."""

    def unknown_calls(self, runs: Iterable[tuple[str, str]]) -> list[CallRow]:
        """Return the unknown, unreconciled rows of these (tenant, run)."""

    def begin_runs(self, runs: Sequence[RunRow]) -> dict[tuple[str, str], str]:
        """Insert the runs that do not exist; return the policy hash in the ledger of each.

        Until the commit no other transaction reads or changes their policies.
        """

    def policy_hashes(self, runs: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the policy hash in the ledger of each of these (tenant, run) that exists.

        Until the commit no other transaction changes it: what T1 admits under a policy, it admits before.
        """

    def policy_json(self, tenant: str, run: str) -> str:
        """Return the policy in the ledger, as JSON, of a run that exists."""

    def replace_policy(self, run: RunRow) -> None:
        """Replace the policy of a run."""

    def insert_turns(self, rows: Sequence[TurnRow]) -> dict[tuple[str, str, int], TurnRow]:
        """Insert the turns that are not recorded, each place once; return those that were, by place."""

    def replace_turn(self, row: TurnRow) -> None:
        """Replace the calls and arguments of a recorded turn."""

    def denied_calls(self, keys: Collection[str]) -> dict[tuple[str, str], str]:
        """Return (key, HMAC of the arguments) -> who, of what a person denied of these keys."""

    def lost_owners(self, owners: Iterable[str]) -> set[str]:
        """Return which of these owners are dead or have a lapsed lease.

        Until this transaction ends, none of them can renew its lease.
        """

    def forget_dead_owners(self) -> None:
        """Delete what is left of processes that are gone, but their calls."""

    def open_owners(self) -> set[str]:
        """Return the other owners of running and committed rows."""

    def orphaned_calls(
        self, owners: Iterable[str], tools: Collection[str], limit: int
    ) -> list[CallRow]:
        """Return running rows of these owners: `once`, or of one of ``tools``."""

    def unstarted_calls(self, owners: Iterable[str], before: float, limit: int) -> list[CallRow]:
        """Return committed rows of these owners that were admitted before ``before``."""

    def append_audit(self, records: Sequence[tuple[str, int, str, str, bytes]]) -> None:
        """Append audit rows (chain, number, key, record, hash), all of one chain.

        Raises StoreTransient if one of the numbers was written meanwhile, by an own commit without an answer.
        """

    def chain_after(self, chain: str, number: int) -> list[tuple[str, int, str, str, bytes]]:
        """Return the audit rows of ``chain`` after ``number``, in order, as this transaction sees them."""

    def insert_approval(self, approval: Approval) -> tuple[bool, Approval]:
        """Insert the approval unless it exists; return (inserted, the row in the ledger)."""

    def decide_approval(self, decide: DecideApproval) -> tuple[bool, Approval | None]:
        """Decide an open approval; return (decided now, the row)."""

    def insert_reconciliation(self, reconcile: ReconcileCall) -> bool:
        """Insert the reconciliation of an unknown call; False if there is one or the call is not unknown."""

    def expire_results(self, before: float) -> int:
        """Drop the results of calls that ended before ``before``; return how many."""

    def finished_runs(self, before: float, limit: int) -> list[tuple[str, str]]:
        """Return runs (tenant, run) with nothing open, waiting or newer than ``before``, and lock them."""

    def rows_of_runs(self, runs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (table, row) of everything that belongs to these runs."""

    def close_runs(self, runs: Sequence[tuple[str, str]], named: Sequence[str]) -> None:
        """Delete what belongs to these runs, but the keys ``named``, and mark them as archived."""

    def unneeded_audit(self, before: float) -> dict[str, int]:
        """Return chain -> number before which no record is younger or belongs to a run that is not archived."""

    def read_chain(self, chain: str, until: int) -> list[tuple[str, int, str, str, bytes]]:
        """Return the audit rows of ``chain`` before number ``until``, as this transaction sees them."""

    def delete_chain(self, chain: str, until: int) -> None:
        """Delete the audit rows of ``chain`` before number ``until``."""

    def renew_lease(self, lease: float) -> bool:
        """Renew this owner's lease; return whether it had lapsed, so that others may have judged it lost.

        Waits for transactions that judge this owner, so it is the first statement of its transaction: what
        is read afterwards shows what they did.
        """

    def release_reserve(self) -> bool:
        """Free the disk space reserved for results; False if there was none left."""

    def close(self) -> None:
        """Release everything."""

    def claim_key(self, check: str, *, replace: bool) -> str | None:
        """Store the check value of the HMACs' key if there is none, or ``replace`` it; return the one before."""

    # readers: any thread, outside transactions
    def read_call(self, key: str) -> CallRow | None:
        """Return the committed row of ``key``."""

    def read_run(self, tenant: str, run: str) -> RunRow | None:
        """Return the committed row of a run."""

    def read_turn(self, tenant: str, run: str, turn: int) -> TurnRow | None:
        """Return the committed row of a turn."""

    def following_turn(self, tenant: str, run: str, turn: int, request: str) -> TurnRow | None:
        """Return the first turn from ``turn`` on that was recorded for this request, None if there is none."""

    def next_turn(self, tenant: str, run: str) -> int:
        """Return one more than the last recorded turn of a run, 0 if there is none."""

    def read_denial(self, key: str, mac: str) -> Approval | None:
        """Return an approval of the call with this key and these arguments that a person denied."""

    def read_approval(self, id_: str) -> Approval | None:
        """Return an approval by its id."""

    def read_reconciliation(self, key: str) -> tuple[str, str] | None:
        """Return (outcome, content) of a call that was reconciled."""

    def read_approvals(self, *, pending_only: bool) -> list[Approval]:
        """Return approvals, oldest first."""

    def read_calls(
        self,
        *,
        run: str | None,
        limit: int,
        exclude_owner: str | None = None,
        tenant: str | None = None,
    ) -> list[CallRow]:
        """Return committed rows, newest first, without those of ``exclude_owner``."""

    def read_unknown(self, limit: int) -> list[CallRow]:
        """Return committed rows of unknown outcome that nobody reconciled, newest first."""

    def read_audit(
        self, *, key: str | None = None, limit: int | None = None
    ) -> Iterator[tuple[str, int, str, str, bytes]]:
        """Yield audit rows ordered by chain and number."""

    def snapshot(self) -> AbstractContextManager[LedgerSnapshot]:
        """Open the ledger as it is now, to be read."""

    def now(self) -> float:
        """Return the store's wall clock (seconds since 1970)."""


def restarted(row: CallRow, owner: str) -> CallRow:
    """Return ``row`` as it is after ``owner`` took it over."""
    return replace(row, owner=owner, fence=row.fence + 1, state=CallState.RUNNING.value)


def open_snapshot(store: str) -> AbstractContextManager[LedgerSnapshot]:
    """Open the ledger at an address to be read only: nothing is written, not even a lease.

    Raises StoreError, or InputError for an unknown scheme.
    """
    opened: AbstractContextManager[LedgerSnapshot] = _class_of(store).open_snapshot(store)
    return opened


def open_backend(store: str, **options: Any) -> StoreBackend:
    """Open the store at an address: the scheme of ``scheme://...`` names its module, else it is a file.

    ``options`` are those of the store's class. Raises StoreError, or InputError for an unknown scheme.
    """
    backend: StoreBackend = _class_of(store)(store, **options)
    return backend


def _class_of(store: str) -> Any:
    scheme, separator, _ = store.partition("://")
    name = scheme if separator else "sqlite"
    return plugins.load(__name__, {"postgres": "postgresql"}.get(name, name), "STORE")
