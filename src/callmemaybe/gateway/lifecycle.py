"""The life of one tool call as a table of transitions.

The stores, the documentation and the model checker in the tests read this table. This module is pure: it
knows no tool, no store and no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from callmemaybe.tools import Effect


class CallState(StrEnum):
    """The state of a call; the ledger stores the value."""

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

    __hash__ = (
        str.__hash__
    )  # Enum.__hash__ is Python code, and every step looks states up in tables


class LifecycleEvent(StrEnum):
    """An event that moves a call from one state to the next."""

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


class Durability(StrEnum):
    """What must be on disk before a transition happens."""

    NOTHING = "nothing"
    T0 = "T0: the approval row"
    T1 = "T1: calls, keys and audit in one transaction per turn"
    T2 = "T2: owner, fence + 1, lease"
    T3 = "T3: result and audit"
    EVENT = "a new audit event; the row is not rewritten"


@dataclass(frozen=True)
class Transition:
    """One row of the table: state, event, next state, guard, and what must be durable before."""

    source: CallState
    event: LifecycleEvent
    target: CallState
    guard: str
    durable: Durability


def _row(
    source: CallState, event: LifecycleEvent, target: CallState, guard: str, durable: Durability
) -> Transition:
    return Transition(source, event, target, guard, durable)


S, E, D = CallState, LifecycleEvent, Durability
# fmt: off
TABLE: tuple[Transition, ...] = (
    _row(S.PROPOSED, E.VALIDATE, S.VALIDATED, "stop event seen; strict JSON; schema", D.NOTHING),
    _row(S.PROPOSED, E.REJECT, S.REJECTED, "half-streamed, malformed, or against the schema", D.NOTHING),
    _row(S.VALIDATED, E.AUTHORISE, S.AUTHORISED, "the policy frozen at run start allows it", D.NOTHING),
    _row(S.VALIDATED, E.DENY, S.DENIED, "the policy denies it", D.NOTHING),
    _row(S.VALIDATED, E.ASK, S.AWAITING_APPROVAL, "the policy, a duplicate or an unlisted value asks for a person", D.T0),
    _row(S.AWAITING_APPROVAL, E.AUTHORISE, S.AUTHORISED, "approved for this key, arguments and policy; not expired", D.NOTHING),
    _row(S.AWAITING_APPROVAL, E.DENY, S.DENIED, "a person denied it, or the approval expired", D.NOTHING),
    _row(S.AUTHORISED, E.REFUSE, S.REJECTED, "budget spent, or blocked by an unknown call", D.NOTHING),
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

#: States after which a call never runs again. (`unknown` can still be reconciled.)
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

_ROWS = {(row.source, row.event): row for row in TABLE}


class IllegalTransition(AssertionError):
    """The table has no row for this event: a bug of the gateway, never the caller's fault."""


def transition(state: CallState, event: LifecycleEvent) -> Transition:
    """Return the row for ``event`` in ``state``; raises IllegalTransition if there is none."""
    row = _ROWS.get((state, event))
    if row is None:
        raise IllegalTransition(f"no transition on {event} in state {state}")
    return row


def event_when_lost(effect: Effect) -> LifecycleEvent:
    """Return the event for a running call whose owner died or whose outcome was not seen."""
    return LifecycleEvent.LOSE if effect is Effect.ONCE else LifecycleEvent.RESTART


class CallRecord(NamedTuple):
    """The cursor of one call in the table: its state and fence. Immutable."""

    state: CallState = CallState.PROPOSED
    fence: int = 0

    def advance(self, event: LifecycleEvent) -> CallRecord:
        """Return the record after ``event``; the fence counts starts and restarts.

        Raises IllegalTransition if the table has no such row.
        """
        row = transition(self.state, event)
        return CallRecord(row.target, self.fence + (row.durable is Durability.T2))
