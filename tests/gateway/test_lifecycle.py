"""The transition table, and the model check that reads it."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from callmemaybe.gateway.lifecycle import (
    TABLE,
    TERMINAL,
    CallRecord,
    CallState,
    Durability,
    IllegalTransition,
    LifecycleEvent,
    Transition,
)
from callmemaybe.tools import Effect
from tests.gateway.isolation_model import IsolationRules, explore_isolation
from tests.gateway.lock_model import LockRules, explore_locks
from tests.gateway.protocol_model import ProtocolRules, Violation, explore, reachable


def test_one_target_per_state_and_event() -> None:
    """The table is deterministic."""
    assert len({(row.source, row.event) for row in TABLE}) == len(TABLE)


def test_every_state_is_reachable() -> None:
    """No state of the enum is decoration."""
    assert reachable() == set(CallState)


def test_running_needs_the_audit_row() -> None:
    """Without the transition whose audit row is durable first (T1), RUNNING is unreachable."""
    without = [row for row in TABLE if row.durable is not Durability.T1]
    assert len(without) == len(TABLE) - 1
    assert CallState.RUNNING not in reachable(without)
    assert CallState.SUCCEEDED not in reachable(without)


def test_cancelled_only_before_running() -> None:
    """No row leads from RUNNING, or from anything after it, to CANCELLED."""
    after = reachable(TABLE, CallState.RUNNING)
    assert CallState.CANCELLED not in after


def test_terminal_states_never_run_again() -> None:
    """From a terminal state nothing runs; only `unknown` goes on, to `reconciled`."""
    for state in TERMINAL:
        assert CallState.RUNNING not in reachable(TABLE, state)
        assert reachable(TABLE, state) - {state} <= {CallState.RECONCILED}


def test_the_record_is_a_cursor() -> None:
    """Each event moves a copy; starts and restarts count the fence; nonsense is refused."""
    record = CallRecord()
    for event in (
        LifecycleEvent.VALIDATE,
        LifecycleEvent.AUTHORISE,
        LifecycleEvent.COMMIT,
        LifecycleEvent.START,
        LifecycleEvent.RESTART,
    ):
        record = record.advance(event)
    assert (record.state, record.fence) == (CallState.RUNNING, 2)
    assert record.advance(LifecycleEvent.SUCCEED).state in TERMINAL
    with pytest.raises(IllegalTransition):
        record.advance(LifecycleEvent.CANCEL)


@pytest.mark.parametrize("effect", list(Effect))
def test_the_protocol_holds(effect: Effect) -> None:
    """In every reachable world of two workers, kills and expired leases, no law is broken."""
    worlds = explore(effect)
    assert isinstance(worlds, int), worlds
    assert worlds > 100


@pytest.mark.parametrize(
    ("rule", "effect"),
    [
        ("intent_before_effect", Effect.ONCE),
        ("intent_before_effect", Effect.IDEMPOTENT),
        ("result_before_answer", Effect.ONCE),
        ("finish_checks_fence", Effect.ONCE),
        ("claim_is_exclusive", Effect.ONCE),
        ("lost_once_is_unknown", Effect.ONCE),
        ("audit_with_intent", Effect.ONCE),
        ("audit_with_intent", Effect.READ),
        ("key_is_unique", Effect.ONCE),
    ],
)
def test_each_injected_bug_is_found(rule: str, effect: Effect) -> None:
    """Turning one rule of the protocol off leads to a broken law, with a trace to it."""
    found = explore(effect, rules=replace(ProtocolRules(), **{rule: False}))
    assert isinstance(found, Violation), rule
    assert found.steps


def _changed(source: CallState, event: LifecycleEvent, target: CallState) -> list[Transition]:
    kept = [row for row in TABLE if (row.source, row.event) != (source, event)]
    return [*kept, Transition(source, event, target, "injected", Durability.T3)]


@pytest.mark.parametrize(
    "table",
    [
        _changed(CallState.RUNNING, LifecycleEvent.LOSE, CallState.RUNNING),
        _changed(CallState.RUNNING, LifecycleEvent.LOSE, CallState.SUCCEEDED),
        _changed(
            CallState.AUTHORISED, LifecycleEvent.COMMIT, CallState.COMMITTED
        ),  # T1 without its audit row
    ],
    ids=["lost once runs again", "lost once is success", "commit without audit"],
)
def test_a_wrong_table_is_found(table: list[Transition]) -> None:
    """The check reads the table: a wrong row in it breaks a law."""
    assert isinstance(explore(Effect.ONCE, table=table), Violation)


def test_without_t1_nothing_runs() -> None:
    """With T1's row deleted, no world of the check has an effect: two deliveries, two idle workers."""
    table = [row for row in TABLE if row.durable is not Durability.T1]
    worlds = explore(Effect.ONCE, table=table)
    assert isinstance(worlds, int)
    assert worlds < 100


def test_the_locks_hold() -> None:
    """Two calls, two processes, kills and lapsed leases: never both run, and no call waits for ever."""
    scenes = explore_locks()
    assert isinstance(scenes, int), scenes
    assert scenes > 200


@pytest.mark.parametrize("rule", [one.name for one in fields(LockRules)])
def test_each_bug_in_the_locks_is_found(rule: str) -> None:
    """Turning one rule of the arbiter off breaks a law, with a trace that leads there."""
    found = explore_locks(replace(LockRules(), **{rule: False}))
    assert isinstance(found, Violation), rule
    assert found.steps


def test_leases_hold_under_read_committed() -> None:
    """However the statements of a renewal and a judgement interleave: who is fenced off does not begin."""
    states = explore_isolation()
    assert isinstance(states, int), states
    assert states > 100


@pytest.mark.parametrize("rule", [one.name for one in fields(IsolationRules)])
def test_each_bug_of_isolation_is_found(rule: str) -> None:
    """Without a lock, in the other order, or with a lapse that nobody sees, a law is broken."""
    found = explore_isolation(replace(IsolationRules(), **{rule: False}))
    assert isinstance(found, Violation), rule
    assert found.steps
