"""The life of one tool call, as a table; the store, the docs and the model check are read from it.

This module is pure. It knows no tool, no store and no clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from callmemaybe.tools import Effect


class CallState(StrEnum):
    """Where a call stands. What is written down is one of the values."""

    PROPOSED = "proposed"
    VALIDATED = "validated"
    REJECTED = "rejected"
    AWAITING_APPROVAL = "awaiting_approval"
    AUTHORISED = "authorised"
    DENIED = "denied"
    COMMITTED = "committed"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    UNKNOWN = "unknown"
    RECONCILED = "reconciled"
    CANCELLED = "cancelled"

    __hash__ = str.__hash__  # an enum's own is written in Python, and tables are looked up by it


class LifecycleEvent(StrEnum):
    """What moves a call from one state to the next."""

    VALIDATE = "validate"
    REJECT = "reject"
    AUTHORISE = "authorise"
    ASK = "ask"
    DENY = "deny"
    REFUSE = "refuse"
    COMMIT = "commit"
    START = "start"
    RESTART = "restart"
    SUCCEED = "succeed"
    FAIL = "fail"
    TIME_OUT = "time_out"
    LOSE = "lose"
    CANCEL = "cancel"
    RECONCILE = "reconcile"

    __hash__ = str.__hash__


class Durable(StrEnum):
    """What must be on disk before the transition happens."""

    NOTHING = "nothing"
    T0 = "T0: the approval row"
    T1 = "T1: calls, keys and audit in one transaction per turn"
    T2 = "T2: owner, fence + 1, lease"
    T3 = "T3: result and audit"
    EVENT = "a new audit event; the row is not rewritten"


@dataclass(frozen=True)
class Transition:
    """One row of the table: from, on, to, under which guard, after what is durable."""

    source: CallState
    event: LifecycleEvent
    target: CallState
    guard: str
    durable: Durable


def _row(
    source: CallState, event: LifecycleEvent, target: CallState, guard: str, durable: Durable
) -> Transition:
    return Transition(source, event, target, guard, durable)


S, E, D = CallState, LifecycleEvent, Durable
# fmt: off
TABLE: tuple[Transition, ...] = (
    _row(S.PROPOSED, E.VALIDATE, S.VALIDATED, "stop event seen; strict JSON; schema", D.NOTHING),
    _row(S.PROPOSED, E.REJECT, S.REJECTED, "half-streamed, malformed, or against the schema", D.NOTHING),
    _row(S.VALIDATED, E.AUTHORISE, S.AUTHORISED, "the policy frozen at run start allows it", D.NOTHING),
    _row(S.VALIDATED, E.DENY, S.DENIED, "the policy denies it", D.NOTHING),
    _row(S.VALIDATED, E.ASK, S.AWAITING_APPROVAL, "the policy, a duplicate or the origin of a value asks for a person", D.T0),
    _row(S.AWAITING_APPROVAL, E.AUTHORISE, S.AUTHORISED, "approved for this key, arguments and policy; not expired", D.NOTHING),
    _row(S.AWAITING_APPROVAL, E.DENY, S.DENIED, "a person said no, or the approval expired", D.NOTHING),
    _row(S.AUTHORISED, E.REFUSE, S.REJECTED, "budget spent, breaker open, or blocked by an unknown call", D.NOTHING),
    _row(S.AUTHORISED, E.COMMIT, S.COMMITTED, "within budget; locks known", D.T1),
    _row(S.COMMITTED, E.START, S.RUNNING, "locks taken", D.T2),
    _row(S.RUNNING, E.RESTART, S.RUNNING, "owner lost; not `once`; fence moves on", D.T2),
    _row(S.RUNNING, E.SUCCEED, S.SUCCEEDED, "key + fence + running", D.T3),
    _row(S.RUNNING, E.FAIL, S.FAILED, "key + fence + running", D.T3),
    _row(S.RUNNING, E.TIME_OUT, S.TIMED_OUT, "key + fence + running; not `once`", D.T3),
    _row(S.RUNNING, E.LOSE, S.UNKNOWN, "key + fence + running; `once`", D.T3),
    _row(S.UNKNOWN, E.RECONCILE, S.RECONCILED, "a person, or tool.reconcile(key)", D.EVENT),
    _row(S.PROPOSED, E.CANCEL, S.CANCELLED, "before running", D.NOTHING),
    _row(S.VALIDATED, E.CANCEL, S.CANCELLED, "before running", D.NOTHING),
    _row(S.AWAITING_APPROVAL, E.CANCEL, S.CANCELLED, "before running", D.NOTHING),
    _row(S.AUTHORISED, E.CANCEL, S.CANCELLED, "before running", D.NOTHING),
    _row(S.COMMITTED, E.CANCEL, S.CANCELLED, "before running", D.T3),
)
# fmt: on
del S, E, D

#: Nobody moves a call out of these by running it. (`unknown` still waits for a person.)
TERMINAL = frozenset(
    {
        CallState.REJECTED,
        CallState.DENIED,
        CallState.SUCCEEDED,
        CallState.FAILED,
        CallState.TIMED_OUT,
        CallState.UNKNOWN,
        CallState.RECONCILED,
        CallState.CANCELLED,
    }
)

_STEPS = {(row.source, row.event): row for row in TABLE}


class IllegalTransition(AssertionError):
    """The table has no such row: a bug of the gateway, never the caller's fault."""


def advance(state: CallState, event: LifecycleEvent) -> CallState:
    """Return the state after ``event``; raises IllegalTransition where the table has no row."""
    return transition(state, event).target


def transition(state: CallState, event: LifecycleEvent) -> Transition:
    """Return the row for ``event`` in ``state``; raises IllegalTransition where there is none."""
    row = _STEPS.get((state, event))
    if row is None:
        raise IllegalTransition(f"no transition on {event} in state {state}")
    return row


def reachable(
    table: Iterable[Transition] = TABLE, start: CallState = CallState.PROPOSED
) -> set[CallState]:
    """Return the states that can be reached from ``start`` by the rows of ``table``."""
    rows = tuple(table)
    found = {start}
    grew = True
    while grew:
        more = {row.target for row in rows if row.source in found} - found
        found |= more
        grew = bool(more)
    return found


def lost(effect: Effect) -> LifecycleEvent:
    """Return what happens to a running call whose owner is gone, or whose outcome was not seen."""
    return LifecycleEvent.LOSE if effect is Effect.ONCE else LifecycleEvent.RESTART


class CallRecord(NamedTuple):
    """The cursor of one call: its state and fence. Every method returns a new record."""

    state: CallState = CallState.PROPOSED
    fence: int = 0

    def on(self, event: LifecycleEvent) -> CallRecord:
        """Return the record after ``event``; the fence counts starts and restarts."""
        row = transition(self.state, event)
        return CallRecord(row.target, self.fence + (row.durable is Durable.T2))

    @property
    def is_terminal(self) -> bool:
        """Whether no execution can follow."""
        return self.state in TERMINAL


def table_as_markdown() -> str:
    """Draw the table; the page in the docs is compared with it."""
    lines = ["| from | on | to | guard | durable before it happens |", "|---|---|---|---|---|"]
    lines += [
        f"| {row.source} | {row.event} | {row.target} | {row.guard} | {row.durable} |"
        for row in TABLE
    ]
    return "\n".join(lines) + "\n"
