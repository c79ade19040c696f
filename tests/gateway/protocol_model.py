"""An explicit-state model checker of the protocol: two workers, crashes, expired leases, one key.

The ledger's transitions are the rows of :data:`~callmemaybe.gateway.lifecycle.TABLE`, passed as data, so that a
changed table can be checked. What the gateway adds to the table is a set of ``ProtocolRules``; each can be
turned off, and a test shows that the checker then finds a violation. Breadth-first search.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from callmemaybe.gateway.lifecycle import (
    TABLE,
    TERMINAL,
    CallState,
    Durability,
    LifecycleEvent,
    Transition,
)
from callmemaybe.tools import Effect


@dataclass(frozen=True)
class ProtocolRules:
    """What the gateway guarantees in addition to the table; False injects the bug."""

    intent_before_effect: bool = True  # T1 and T2 are durable before the tool starts
    result_before_answer: bool = True  # T3 is durable before the answer is given
    finish_checks_fence: bool = True  # T3 compares key + fence + running
    claim_moves_fence: bool = True  # a recoverer takes fence + 1
    claim_is_exclusive: bool = True  # two recoverers cannot both claim one fence
    lost_once_is_unknown: bool = True  # a lost `once` call is never run again
    audit_with_intent: bool = True  # the audit row is part of T1
    key_is_unique: bool = True  # a second delivery finds the first one's row


@dataclass(frozen=True)
class Worker:
    """One process: idle, claiming, ready (may start the tool), done (tool returned) or dead."""

    at: str = "idle"
    fence: int = 0
    stalled: bool = False


@dataclass(frozen=True)
class World:
    """The whole state: the ledger's row, the audit, the effects, and the answers that were given."""

    row: CallState | None = None
    fence: int = 0
    owner: int = -1
    audited: bool = False
    effects: int = 0
    answers: frozenset[CallState] = frozenset()
    workers: tuple[Worker, ...] = (Worker(), Worker())
    crashes: int = 0
    deliveries: int = 0


@dataclass(frozen=True)
class Violation:
    """A broken law and the shortest sequence of steps to it."""

    law: str
    steps: tuple[str, ...]


State = TypeVar("State", bound=Hashable)


def search(
    start: State,
    steps: Callable[[State], Iterable[tuple[str, State]]],
    broken_law: Callable[[State], str | None],
) -> tuple[Violation | None, dict[State, tuple[State, str] | None]]:
    """Visit every reachable state, breadth first, up to the first that breaks a law.

    Returns the violation, and the states that were seen with the first step that led to each.
    """
    seen: dict[State, tuple[State, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        law = broken_law(state)
        if law:
            return Violation(law, path_to(state, seen)), seen
        for step, after in steps(state):
            if after not in seen:
                seen[after] = (state, step)
                queue.append(after)
    return None, seen


def path_to(state: State, seen: dict[State, tuple[State, str] | None]) -> tuple[str, ...]:
    """Return the shortest sequence of steps from the start to ``state``."""
    steps: list[str] = []
    came = seen[state]
    while came is not None:
        state, step = came
        steps.append(step)
        came = seen[state]
    return tuple(reversed(steps))


def explore(
    effect: Effect,
    *,
    rules: ProtocolRules = ProtocolRules(),
    table: Iterable[Transition] = TABLE,
    crashes: int = 2,
    deliveries: int = 3,
) -> Violation | int:
    """Visit every reachable state; return the first broken law, or the number of states."""
    model = _ProtocolModel(effect, rules, tuple(table), crashes, deliveries)
    violation, seen = search(World(), model.steps, model.broken)
    return violation or len(seen)


class _ProtocolModel:
    def __init__(
        self,
        effect: Effect,
        rules: ProtocolRules,
        table: tuple[Transition, ...],
        crashes: int,
        deliveries: int,
    ) -> None:
        self._effect = effect
        self._once = effect is Effect.ONCE
        self._rules = rules
        self._moves = {(row.source, row.event): row for row in table}
        self._crashes = crashes
        self._deliveries = deliveries

    def broken(self, world: World) -> str | None:
        """Name the law that ``world`` breaks, if any."""
        if self._once and world.effects > 1:
            return "a `once` effect happened twice"
        if world.row is CallState.SUCCEEDED and self._once and world.effects != 1:
            return "`once` succeeded without exactly one effect"
        if world.row is CallState.SUCCEEDED and world.effects < 1:
            return "succeeded without an effect"
        if world.effects and (world.row is None or not world.audited):
            return "an effect without a record of its intent"
        if len(world.answers) > 1:
            return "two different final answers were given"
        if world.answers and world.row in TERMINAL and world.answers != {world.row}:
            return "the answer given is not what the ledger says"
        if world.row in {None, CallState.COMMITTED} and world.answers:
            return "an answer was given that the ledger does not hold"
        return None

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        """Yield every next state with the name of the step."""
        for index, worker in enumerate(world.workers):
            name = f"worker {index}"
            if worker.at == "idle" and world.deliveries < self._deliveries:
                more = replace(world, deliveries=world.deliveries + 1)
                yield from self._deliver(name, more, index)
            if worker.at == "claiming":
                yield from self._claim(name, world, index)
            if worker.at == "ready":
                after = replace(world, effects=min(world.effects + 1, 3))
                yield f"{name} runs the tool", _put(after, index, replace(worker, at="done"))
            if worker.at == "done":
                yield from self._finish(name, world, index)
            if worker.at == "early":
                yield from self._intend(name, _put(world, index, replace(worker, at="done")), index)
            if worker.at != "dead" and world.crashes < self._crashes:
                fresh = replace(world, crashes=world.crashes + 1)
                yield f"{name} is killed", _put(fresh, index, Worker("dead"))
            if worker.at == "dead":
                yield f"{name} comes back", _put(world, index, Worker())
            if worker.at in {"ready", "done"} and not worker.stalled:
                yield f"{name}'s lease expires", _put(world, index, replace(worker, stalled=True))

    def _deliver(self, name: str, world: World, index: int) -> Iterator[tuple[str, World]]:
        if world.row is None or not self._rules.key_is_unique:
            if not self._rules.intent_before_effect:
                early = replace(world, effects=min(world.effects + 1, 3))
                yield f"{name} runs the tool at once", _put(early, index, Worker("early", 1))
            else:
                yield from self._intend(name, _put(world, index, Worker("ready", 1)), index)
        elif world.row in TERMINAL:
            replayed = replace(world, answers=world.answers | {world.row})
            yield f"{name} replays {world.row}", replayed
        elif self._is_lost(world):
            yield f"{name} sees a lost call", _put(world, index, Worker("claiming", world.fence))

    def _intend(self, name: str, world: World, index: int) -> Iterator[tuple[str, World]]:
        commit = self._moves.get((CallState.AUTHORISED, LifecycleEvent.COMMIT))
        start = self._moves.get((CallState.COMMITTED, LifecycleEvent.START))
        if commit is None or start is None:
            return  # without T1 nothing may run at all
        audited = commit.durable is Durability.T1 and self._rules.audit_with_intent
        yield (
            f"{name} commits T1 and T2",
            replace(world, row=start.target, fence=1, owner=index, audited=audited),
        )

    def _is_lost(self, world: World) -> bool:
        owner = world.workers[world.owner]
        return owner.stalled or owner.at in {"dead", "idle"}

    def _claim(self, name: str, world: World, index: int) -> Iterator[tuple[str, World]]:
        worker = world.workers[index]
        current = world.row is CallState.RUNNING and world.fence == worker.fence
        if self._rules.claim_is_exclusive and not current:
            yield f"{name} lost the race for the claim", _put(world, index, Worker())
            return
        unknown = self._once and self._rules.lost_once_is_unknown
        row = self._moves.get(
            (CallState.RUNNING, LifecycleEvent.LOSE if unknown else LifecycleEvent.RESTART)
        )
        if row is None:
            yield f"{name} may not claim", _put(world, index, Worker())
            return
        fence = world.fence + (1 if self._rules.claim_moves_fence else 0)
        claimed = replace(world, row=row.target, fence=fence, owner=index)
        if row.target is CallState.RUNNING:
            yield f"{name} claims and runs again", _put(claimed, index, Worker("ready", fence))
        else:
            declared = replace(claimed, answers=claimed.answers | {row.target})
            yield f"{name} declares it {row.target}", _put(declared, index, Worker())

    def _finish(self, name: str, world: World, index: int) -> Iterator[tuple[str, World]]:
        worker = world.workers[index]
        row = self._moves.get((CallState.RUNNING, LifecycleEvent.SUCCEED))
        if row is None:
            return
        if not self._rules.result_before_answer and CallState.SUCCEEDED not in world.answers:
            yield f"{name} answers before T3", replace(world, answers=world.answers | {row.target})
        mine = world.row is CallState.RUNNING and world.fence == worker.fence
        if mine or not self._rules.finish_checks_fence:
            done = replace(world, row=row.target, answers=world.answers | {row.target})
            yield f"{name} commits T3 and answers", _put(done, index, Worker())
        elif world.row in TERMINAL:
            found = replace(world, answers=world.answers | {world.row})
            yield f"{name} finds {world.row} and answers that", _put(found, index, Worker())
        else:
            yield f"{name} lost its fence", _put(world, index, Worker())


def _put(world: World, index: int, worker: Worker) -> World:
    workers = list(world.workers)
    workers[index] = worker
    return replace(world, workers=tuple(workers))


def reachable(
    table: Iterable[Transition] = TABLE, start: CallState = CallState.PROPOSED
) -> set[CallState]:
    """Return the states that can be reached from ``start`` by the rows of ``table``."""
    rows = tuple(table)
    found, size = {start}, 0
    while len(found) > size:
        size = len(found)
        found |= {row.target for row in rows if row.source in found}
    return found
