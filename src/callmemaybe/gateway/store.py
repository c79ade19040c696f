"""What every store keeps and promises: the rows, the operations, and the one interface.

An operation is a value. The ledger's writer applies many of them in one transaction and only then
says what became of each. The SQL lives in ``audit/<store>.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from callmemaybe.errors import CallMeMaybeError
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.tools import Effect


class StoreError(CallMeMaybeError):
    """The ledger cannot be read or written; nothing that was told is affected."""


class StoreFull(StoreError):
    """There is no room for a new intent; room for results of running calls was kept."""


class StoreTransient(StoreError):
    """The store is away or busy for now; the same operation may be sent again."""


@dataclass(slots=True)
class Row:
    """One call as the ledger holds it."""

    key: str
    tenant: str
    run: str
    turn: int
    ordinal: int
    call_id: str
    tool: str
    effect: str
    mac: str
    """HMAC of the arguments as they were delivered."""
    policy: str
    definition: str
    arguments: str
    """JSON; redacted for `once`, which never runs again."""
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
    """Since when a committed call waits for resources that other processes hold."""


#: Of the tables; a ledger of another version is refused.
VERSION = 2
COLUMNS: tuple[str, ...] = tuple(Row.__dataclass_fields__)


class Proposal(NamedTuple):
    """One call of an Admit: the row to write, its audit record, and what was already asked."""

    row: Row
    record: str
    approved: bool = False
    """A person approved exactly this call, so a repeat is no reason to ask again."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """The frozen start of a run."""

    tenant: str
    run: str
    policy: str
    """The policy as JSON."""
    policy_hash: str


class Admit(NamedTuple):
    """T1: the calls of one turn, all or none; rows in state running are started with it (T2)."""

    proposals: tuple[Proposal, ...]
    run: RunRow | None = None
    guard_repeats: bool = True


class Admitted(NamedTuple):
    """What became of one proposal.

    ``verdict`` is new, busy, replay, conflict, in_flight, blocked, repeat, restarted, unknown or policy.
    """

    verdict: str
    row: Row | None = None
    detail: str = ""
    token: int = 0
    """For a call that starts: grows from one conflicting call to the next, over all processes."""


class Move(NamedTuple):
    """T2, T3 or a cancellation: compare-and-set on key, fence and state.

    A start needs its ``locks`` (JSON): while another process holds one of them it is busy, and since
    ``asked`` it is first come, first served.
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


class Moved(NamedTuple):
    """Whether this Move won, and the row as it stands now; busy: its locks are held elsewhere.

    ``blocker``: the key of the unknown call that keeps this one from starting.
    """

    won: bool
    row: Row | None
    busy: bool = False
    token: int = 0
    blocker: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """An audit record of its own: a denial, an attempt."""

    key: str
    record: str


@dataclass(frozen=True, slots=True)
class Approval:
    """A question to a person; it binds key, arguments, policy and expiry."""

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
class Ask:
    """T0: write an approval row unless it is there; the outcome is the row as it stands."""

    approval: Approval
    record: str


@dataclass(frozen=True, slots=True)
class Decide:
    """A person's decision on an approval: "approved" or "denied"; the first one stands."""

    id: str
    decision: str
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class Reconcile:
    """What an unknown call turned out to have done: "done" or "not_done"; the first one stands."""

    key: str
    outcome: str
    by: str
    at: float
    content: str
    record: str


@dataclass(frozen=True, slots=True)
class Expire:
    """Drop the results of calls that ended before ``before``; their keys stay."""

    before: float
    record: str


@dataclass(frozen=True, slots=True)
class Claim:
    """Take over running calls whose owner is lost: `once` becomes unknown, others restart here.

    The outcome is a list of Admitted: the rows claimed for a restart by this owner.
    """

    tools: Mapping[str, str]
    """Tools this process can run: name -> definition hash."""
    at: float
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Transact:
    """T3 of a `transactional` call: ``effect`` runs inside the transaction that records it.

    ``effect`` gets the store's connection and returns the Move to apply; if it raises, what it wrote is
    rolled back and ``failed(error)`` gives the Move to apply instead.
    """

    effect: Any
    failed: Any


@dataclass(frozen=True, slots=True)
class Beat:
    """Renew this owner's lease, in seconds."""

    lease: float


@dataclass(frozen=True, slots=True)
class Confirm:
    """Renew the lease; the outcome is a new token if ``key`` still runs for this owner at ``fence``.

    And 0 if it does not.
    """

    key: str
    fence: int
    lease: float


@dataclass(frozen=True, slots=True)
class Holder:
    """An open call of another process: it runs and holds its locks, or ``asked`` for them."""

    key: str
    locks: str
    owner: str
    running: bool
    asked: float | None


Operation = (
    Beat | Confirm | Admit | Move | Note | Ask | Decide | Reconcile | Expire | Claim | Transact
)


@dataclass
class Batch:
    """What one transaction is about to do, and what came of it; the audit records in order."""

    operations: Sequence[Operation]
    outcomes: dict[int, Any] = field(default_factory=dict)
    audit: list[tuple[str, str]] = field(default_factory=list)


class Backend(Protocol):
    """The statements of one kind of store; every method but the readers runs in the writer's thread.

    Foreign errors are translated into StoreError and its kinds here.
    """

    owner: str
    secret: bytes
    """The key of the HMAC over arguments."""

    def transaction(self) -> AbstractContextManager[None]:
        """Open, then commit durably or roll back."""

    def savepoint(self) -> AbstractContextManager[Any]:
        """Inside a transaction: yields the connection; an exception undoes only what came after."""

    def insert(self, rows: Sequence[Row]) -> set[str]:
        """Insert the rows whose key is free; return those keys."""

    def fetch(self, keys: Iterable[str]) -> dict[str, Row]:
        """Return the rows of these keys, seen by this transaction."""

    def move(self, moves: Sequence[Move]) -> set[str]:
        """Apply compare-and-set moves; return the keys that moved."""

    def claim(self, key: str, fence: int, state: CallState, *, owner: str | None = None) -> bool:
        """Take a row over at ``fence`` + 1; False if it is no longer running or committed there.

        ``owner`` is who has it then: this process, or "" for nobody yet.
        """

    def serialise(
        self, locks: Collection[str], rows: Collection[Row], runs: Collection[tuple[str, str]]
    ) -> None:
        """Wait for the other transactions that decide about these locks (JSON, of each call).

        And for those that might admit the same calls as ``rows`` (tenant, run, tool, arguments).
        What else will be asked about ``locks``, ``rows`` and ``runs`` may be looked up on the way.
        """

    def others(self) -> list[Holder]:
        """Return the calls of other owners that run or have asked for their locks."""

    def ask_for(self, keys: Sequence[tuple[str, str, float]]) -> None:
        """Note of committed calls (key, locks, since when) that they wait for their locks."""

    def token(self) -> int:
        """Return a number larger than any before, in the order of serialised transactions."""

    def repeats(self, rows: Sequence[Row]) -> dict[str, str]:
        """For `once` rows: key -> key of another call of the run with tool and arguments equal."""

    def blocked(self, runs: Iterable[tuple[str, str]]) -> list[Row]:
        """Return the unknown, unreconciled rows of these (tenant, run)."""

    def open_runs(self, runs: Sequence[RunRow]) -> dict[tuple[str, str], str]:
        """Insert the runs that are not there; return the policy hash that stands of each."""

    def policies(self, runs: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the policy hash that stands of each of these (tenant, run) that has begun."""

    def policy_of(self, tenant: str, run: str) -> str:
        """Return the policy, as JSON, that stands of a run that has begun."""

    def narrow(self, run: RunRow) -> None:
        """Put this policy in the place of the one that stands."""

    def lost(self, owners: Iterable[str]) -> set[str]:
        """Which of these owners are certainly gone, or have let their lease lapse."""

    def open_owners(self) -> set[str]:
        """Return the other owners of running and committed rows."""

    def orphans(self, owners: Iterable[str], tools: Mapping[str, str], limit: int) -> list[Row]:
        """Return running rows of these owners: `once`, or of ``tools`` (name -> definition hash)."""

    def append(self, records: Sequence[tuple[str, int, str, str, bytes]]) -> None:
        """Append audit rows (chain, number, key, record, hash)."""

    def end_of(self, chain: str) -> tuple[int, bytes] | None:
        """Return the number and hash of the last audit row of ``chain``, seen by this transaction."""

    def ask(self, approval: Approval) -> tuple[bool, Approval]:
        """Insert the approval unless it is there; return (inserted, the row that stands)."""

    def decide(self, decide: Decide) -> tuple[bool, Approval | None]:
        """Decide an open approval; return (decided now, the row)."""

    def reconcile(self, reconcile: Reconcile) -> bool:
        """Insert the reconciliation of an unknown call; False where one stands or none is due."""

    def expire(self, before: float) -> int:
        """Forget results of calls ended before ``before``; return how many."""

    def beat(self, lease: float) -> None:
        """Renew this owner's lease."""

    def recover_space(self) -> bool:
        """Give up the reserve kept for results; False if there was none left."""

    def close(self) -> None:
        """Release everything."""

    # readers: any thread, outside transactions
    def look(self, key: str) -> Row | None:
        """Return the committed row of ``key``."""

    def look_run(self, tenant: str, run: str) -> RunRow | None:
        """Return the committed start of a run."""

    def look_approval(self, id_: str) -> Approval | None:
        """Return an approval by its id."""

    def look_reconciled(self, key: str) -> tuple[str, str] | None:
        """Return (outcome, content) if the call was reconciled."""

    def approvals(self, *, pending_only: bool) -> list[Approval]:
        """Return approvals, oldest first."""

    def calls(
        self, *, run: str | None, limit: int, but: str | None = None, tenant: str | None = None
    ) -> list[Row]:
        """Return rows, newest first; those of the owner ``but`` are left out."""

    def audit(
        self, *, key: str | None = None, limit: int | None = None
    ) -> Iterator[tuple[str, int, str, str, bytes]]:
        """Yield audit rows ordered by chain and number."""

    def now(self) -> float:
        """Return the store's wall clock (seconds since 1970)."""


def restarted(row: Row, owner: str) -> Row:
    """Return ``row`` as its new owner holds it after a claim."""
    return replace(row, owner=owner, fence=row.fence + 1, state=CallState.RUNNING.value)


def effect_of(row: Row) -> Effect:
    """Return the effect class of a row."""
    return Effect(row.effect)
