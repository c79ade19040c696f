"""What each operation means, applied to a batch inside an open transaction.

Whatever the store, this is the only code that decides what becomes of an operation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from callmemaybe.gateway.arbiter import Arbiter
from callmemaybe.gateway.lifecycle import TERMINAL, CallState, LifecycleEvent, advance, lost
from callmemaybe.gateway.plan import conflict, locks_of
from callmemaybe.gateway.policy import Policy
from callmemaybe.gateway.store import (
    Admit,
    Admitted,
    Ask,
    Backend,
    Batch,
    Beat,
    Claim,
    Confirm,
    Decide,
    Expire,
    Move,
    Moved,
    Note,
    Operation,
    Proposal,
    Reconcile,
    Row,
    RunRow,
    StoreError,
    Transact,
    restarted,
)
from callmemaybe.tools import Effect

#: The owner of a call that was taken from its process and by nobody yet.
NOBODY = ""
_TERMINAL = frozenset(state.value for state in TERMINAL)


class Applier:
    """Applies one batch inside an open transaction, many operations per statement."""

    def __init__(self, backend: Backend, batch: Batch, active: Collection[str]) -> None:
        self._backend = backend
        self._batch = batch
        self._active = active
        self._arbiter = Arbiter(backend, self._fence_off)
        #: Keys that this batch admits or takes over for this process.
        self.taken: set[str] = set()

    def apply(self) -> None:
        """Fill in the outcome of every operation, and the audit records."""
        admits: list[tuple[int, Admit]] = []
        moves: list[tuple[int, Move]] = []
        others: list[tuple[int, Operation]] = []
        for index, operation in enumerate(self._batch.operations):
            if isinstance(operation, Admit):
                admits.append((index, operation))
            elif isinstance(operation, Move):
                moves.append((index, operation))
            else:
                others.append((index, operation))
        starts = [(index, move) for index, move in moves if move.starts]
        if len(starts) < len(moves):  # ends first: what they free or leave unknown is seen below
            self._move([(index, move) for index, move in moves if not move.starts])
        self._look(admits, starts)
        if starts:
            self._move(starts)
        if admits:
            self._admit(admits)
        for index, operation in others:
            self._batch.outcomes[index] = self._other(operation)

    def _look(
        self, admits: Sequence[tuple[int, Admit]], starts: Sequence[tuple[int, Move]]
    ) -> None:
        """Wait for the transactions that decide about the same things, and see what is held."""
        proposals = [(admit, proposal) for _, admit in admits for proposal in admit.proposals]
        needed = [p.row.locks for _, p in proposals if p.row.state == CallState.RUNNING.value]
        needed += [move.locks for _, move in starts if move.locks]
        once = [
            proposal.row
            for admit, proposal in proposals
            if admit.guard_repeats and proposal.row.effect == Effect.ONCE.value
        ]
        if needed or once:
            self._arbiter.open(needed, once, {(p.row.tenant, p.row.run) for _, p in proposals})

    def _note(self, key: str, record: str) -> None:
        self._batch.audit.append((key, record))

    # --- T1 -----------------------------------------------------------------------------------

    def _admit(self, admits: Sequence[tuple[int, Admit]]) -> None:
        fresh: dict[str, Row] = {}
        settled: dict[int, Admitted] = {}
        refused = self._refusals(admits)
        for _, admit in admits:
            for proposal in admit.proposals:
                verdict = refused.get(id(proposal))
                if verdict is not None:
                    settled[id(proposal)] = verdict
                else:
                    fresh.setdefault(proposal.row.key, proposal.row)
        inserted = self._backend.insert(list(fresh.values())) if fresh else set()
        wanted = {
            proposal.row.key
            for _, admit in admits
            for proposal in admit.proposals
            if proposal.row.key not in inserted or fresh.get(proposal.row.key) is not proposal.row
        }
        standing = self._backend.fetch(wanted) if wanted else {}
        for index, admit in admits:
            outcome = []
            for proposal in admit.proposals:
                key = proposal.row.key
                if key in inserted and fresh.get(key) is proposal.row:
                    self._note(key, proposal.record)
                    self.taken.add(key)
                    starts = proposal.row.state == CallState.RUNNING.value
                    token = self._arbiter.token if starts else 0
                    outcome.append(Admitted("new", proposal.row, token=token))
                elif key in standing:
                    refusal = settled.get(id(proposal))
                    outcome.append(self._redelivered(proposal, standing[key], refusal))
                else:
                    outcome.append(settled[id(proposal)])
            self._batch.outcomes[index] = outcome

    def _refusals(self, admits: Sequence[tuple[int, Admit]]) -> dict[int, Admitted]:
        """Find what must not be admitted as new: other policy, blocked, or a repeat."""
        refused: dict[int, Admitted] = {}
        proposals = [proposal for _, admit in admits for proposal in admit.proposals]
        runs = {(p.row.tenant, p.row.run) for p in proposals}
        policies = self._policies(admits, runs)
        busy = {
            id(p)
            for p in proposals
            if p.row.state == CallState.RUNNING.value
            and self._arbiter.is_busy(p.row.key, p.row.locks, None)
        }
        unknown = self._backend.blocked(runs)  # those that were just fenced off among them
        once: list[tuple[Admit, Proposal]] = []
        for _, admit in admits:
            for proposal in admit.proposals:
                row = proposal.row
                stands = policies.get((row.tenant, row.run), row.policy)
                blocker = _blocker(row, unknown) if unknown else None
                if stands != row.policy:
                    refused[id(proposal)] = Admitted("policy", detail=stands)
                elif blocker is not None:
                    refused[id(proposal)] = Admitted("blocked", detail=blocker.key)
                elif id(proposal) in busy:
                    refused[id(proposal)] = Admitted("busy")
                elif row.effect == Effect.ONCE.value and admit.guard_repeats:
                    once.append((admit, proposal))
        if once:
            self._find_repeats(once, refused)
        return refused

    def _policies(
        self, admits: Sequence[tuple[int, Admit]], runs: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], str]:
        """Begin or narrow what is to begin or to be narrowed; return the hashes that stand of all runs."""
        begun = [admit.run for _, admit in admits if admit.run is not None]
        standing = self._backend.open_runs(begun) if begun else {}
        for run in begun:
            stands = standing[run.tenant, run.run]
            if stands != run.policy_hash and self._narrows(run, stands):
                standing[run.tenant, run.run] = run.policy_hash
        # A run that began here may have been narrowed by another process since.
        others = set(runs) - standing.keys()
        return {**self._backend.policies(others), **standing} if others else standing

    def _narrows(self, run: RunRow, stands: str) -> bool:
        """Let a run go on under a policy that allows less; False if it would allow anything more."""
        begun = Policy.from_json(json.loads(self._backend.policy_of(run.tenant, run.run)))
        asked = Policy.from_json(json.loads(run.policy))
        if begun.meet(asked).hash != asked.hash:
            return False
        self._backend.narrow(run)
        facts = {"event": "narrow", "t": self._backend.now(), "tenant": run.tenant, "run": run.run}
        facts |= {"policy": run.policy_hash, "was": stands}
        self._note("", json.dumps(facts, ensure_ascii=False))
        return True

    def _find_repeats(
        self, once: Sequence[tuple[Admit, Proposal]], refused: dict[int, Admitted]
    ) -> None:
        earlier = self._backend.repeats([proposal.row for _, proposal in once])
        seen: dict[tuple[str, str, str, str], str] = {}
        for _, proposal in once:
            row = proposal.row
            same = seen.setdefault((row.tenant, row.run, row.tool, row.mac), row.key)
            repeat = earlier.get(row.key) or (same if same != row.key else None)
            if repeat and not proposal.approved:
                refused.setdefault(id(proposal), Admitted("repeat", detail=repeat))

    def _redelivered(self, proposal: Proposal, stands: Row, refusal: Admitted | None) -> Admitted:
        """Decide on a key that is there already: replay, conflict, in flight, or a take-over."""
        mine = proposal.row
        if stands.mac != mine.mac:
            return Admitted("conflict", stands)
        if stands.state in _TERMINAL:
            return Admitted("replay", stands)
        if stands.owner == mine.owner:
            if stands.key in self._active or stands.key in self.taken:
                return Admitted("in_flight", stands)
            # Our own T1, whose commit went through without our hearing of it: nothing ran yet.
            self.taken.add(stands.key)
            return Admitted("new", stands)
        if stands.owner not in self._backend.lost([stands.owner]):
            return Admitted("in_flight", stands)
        waits = stands.state == CallState.COMMITTED.value
        if waits and refusal is not None and refusal.verdict == "policy":
            return refusal  # nothing of it ran: it is decided upon like a new one
        return self._take_over(stands, mine.created)

    def _take_over(self, stands: Row, now: float) -> Admitted:
        state = CallState(stands.state)
        event = (
            LifecycleEvent.START if state is CallState.COMMITTED else lost(Effect(stands.effect))
        )
        target = advance(state, event)
        if target is CallState.UNKNOWN:
            return self._give_up(stands, now)
        self._arbiter.open([stands.locks])
        if self._arbiter.is_busy(stands.key, stands.locks, stands.asked):
            return Admitted("in_flight", stands)  # its resources are another's now
        if state is CallState.COMMITTED:
            blocker = _blocker(stands, self._backend.blocked({(stands.tenant, stands.run)}))
            if blocker is not None:
                return Admitted("blocked", stands, blocker.key)
        if not self._backend.claim(stands.key, stands.fence, target):
            return Admitted("in_flight", stands)
        row = restarted(stands, self._backend.owner)
        self.taken.add(row.key)
        self._note(row.key, _record(event, row, now, lost_owner=stands.owner))
        return Admitted("restarted", row)  # its token comes when its process lets it in

    def _fence_off(self, key: str) -> None:
        """Take the locks from a call whose owner is lost: nothing of it is recorded after this."""
        row, now = self._backend.fetch([key]).get(key), self._backend.now()
        if row is None or row.state != CallState.RUNNING.value:
            return
        if row.effect == Effect.ONCE.value:
            self._give_up(row, now)
        elif self._backend.claim(key, row.fence, CallState.RUNNING, owner=NOBODY):
            fenced = replace(row, fence=row.fence + 1, owner=NOBODY)
            self._note(key, _record(LifecycleEvent.RESTART, fenced, now, lost_owner=row.owner))

    def _give_up(self, stands: Row, now: float) -> Admitted:
        content = json.dumps(
            {"ok": False, "code": "unknown_outcome", "effect": "possible", "retry": "never"}
        )
        gone = replace(
            stands,
            state=CallState.UNKNOWN.value,
            code="unknown_outcome",
            content=content,
            ended=now,
        )
        digest = hashlib.sha256(content.encode()).hexdigest()
        record = _record(LifecycleEvent.LOSE, gone, now, lost_owner=stands.owner, answer=digest)
        move = Move(
            stands.key,
            CallState.RUNNING,
            stands.fence,
            CallState.UNKNOWN,
            record,
            ended=now,
            code=gone.code,
            content=content,
        )
        if not self._backend.move([move]):
            return Admitted("in_flight", stands)
        self._note(stands.key, record)
        return Admitted("unknown", gone)

    # --- T2, T3 -------------------------------------------------------------------------------

    def _move(self, moves: Sequence[tuple[int, Move]]) -> None:
        busy = {
            move.key: (move.key, move.locks, move.asked or self._backend.now())
            for _, move in moves
            if move.starts
            and move.locks
            and self._arbiter.is_busy(move.key, move.locks, move.asked)
        }
        if busy:
            self._backend.ask_for(list(busy.values()))
        blockers = self._blockers([m for _, m in moves if m.starts and m.key not in busy])
        ready = [m for _, m in moves if m.key not in busy and m.key not in blockers]
        won = self._backend.move(ready) if ready else set()
        others = [move.key for _, move in moves if move.key not in won]
        standing = self._backend.fetch(others) if others else {}
        for index, move in moves:
            if move.key in won:
                self._note(move.key, move.record)
                token = self._arbiter.token if move.starts and move.locks else 0
                self._batch.outcomes[index] = Moved(True, None, token=token)
                continue
            if move.key in busy:
                self._batch.outcomes[index] = self._must_wait(move, standing.get(move.key))
                continue
            row = standing.get(move.key)
            if move.key in blockers:
                self._batch.outcomes[index] = Moved(False, row, blocker=blockers[move.key])
                continue
            # Our own move, sent again because the answer to its commit was lost on the way.
            again = row is not None and (
                row.owner == self._backend.owner
                and row.state == move.target.value
                and row.fence == move.fence + move.starts
                and row.content == move.content
            )
            self._batch.outcomes[index] = Moved(again, row)

    def _blockers(self, starts: Sequence[Move]) -> dict[str, str]:
        """Find the unknown calls that keep others from starting: what waited was admitted before them."""
        found: dict[str, str] = {}
        rows = self._backend.fetch([move.key for move in starts]) if starts else {}
        runs = {(row.tenant, row.run) for row in rows.values()}
        unknown = self._backend.blocked(runs) if runs else []
        for move in starts if unknown else ():
            row = rows.get(move.key)
            if row is not None and (row.state, row.fence) == (move.expected.value, move.fence):
                blocker = _blocker(replace(row, locks=move.locks or row.locks), unknown)
                if blocker is not None:
                    found[move.key] = blocker.key
        return found

    def _must_wait(self, move: Move, row: Row | None) -> Moved:
        """Say that the call's resources are held elsewhere, unless it is no longer there to wait."""
        waits = (
            row is not None and row.state == CallState.COMMITTED.value and row.fence == move.fence
        )
        return Moved(False, row, busy=waits)

    # --- the rest -----------------------------------------------------------------------------

    def _other(self, operation: Operation) -> Any:
        if isinstance(operation, Beat):
            return self._backend.beat(operation.lease)
        if isinstance(operation, Confirm):
            self._backend.beat(operation.lease)
            row = self._backend.fetch([operation.key]).get(operation.key)
            ours = (CallState.RUNNING.value, self._backend.owner, operation.fence)
            held = row is not None and (row.state, row.owner, row.fence) == ours
            return self._arbiter.token if held else 0
        if isinstance(operation, Note):
            return self._note(operation.key, operation.record)
        if isinstance(operation, Ask):
            inserted, approval = self._backend.ask(operation.approval)
            if inserted:
                self._note(approval.key, operation.record)
            return approval
        if isinstance(operation, Decide):
            return self._decide(operation)
        if isinstance(operation, Reconcile):
            made = self._backend.reconcile(operation)
            if made:
                self._note(operation.key, operation.record)
            return made
        if isinstance(operation, Expire):
            count = self._backend.expire(operation.before)
            if count:
                self._note("", operation.record)
            return count
        if isinstance(operation, Claim):
            return self._claim(operation)
        assert isinstance(operation, Transact)
        return self._transact(operation)

    def _decide(self, decide: Decide) -> Any:
        decided, approval = self._backend.decide(decide)
        if decided and approval is not None:
            facts: dict[str, Any] = {
                "event": decide.decision,
                "approval": decide.id,
                "by": decide.by,
            }
            facts |= {"t": decide.at, "mac": approval.mac, "policy": approval.policy}
            self._note(approval.key, json.dumps(facts, ensure_ascii=False))
        return decided, approval

    def _claim(self, claim: Claim) -> list[Admitted]:
        gone = self._backend.lost(self._backend.open_owners())
        taken = []
        for row in self._backend.orphans(gone, claim.tools, claim.limit) if gone else []:
            # A `once` call is given up here, and nothing of it is taken.
            admitted = self._take_over(row, claim.at)
            if admitted.verdict == "restarted":
                taken.append(admitted)
        return taken

    def _transact(self, operation: Transact) -> Moved:
        try:
            with self._backend.savepoint() as connection:
                move: Move = operation.effect(connection)
                moved = self._one(move)
                if not moved.won:
                    raise _LostFence(moved)
        except _LostFence as lost_fence:
            return lost_fence.moved
        except StoreError:
            raise
        except (Exception, SystemExit) as error:  # a tool's `exit` is its failure, not our end
            return self._one(operation.failed(error))
        return moved

    def _one(self, move: Move) -> Moved:
        if self._backend.move([move]):
            self._note(move.key, move.record)
            return Moved(True, None)
        return Moved(False, self._backend.fetch([move.key]).get(move.key))


class _LostFence(Exception):
    """The row was taken over: undo the effect."""

    def __init__(self, moved: Moved) -> None:
        super().__init__("lost fence")
        self.moved = moved


def _blocker(row: Row, unknown: Sequence[Row]) -> Row | None:
    """Return the unknown call that keeps ``row`` from running: its tool, or a lock it still holds."""
    mine = locks_of(row.locks)
    for other in unknown:
        if (other.tenant, other.run) != (row.tenant, row.run) or other.key == row.key:
            continue
        if other.tool == row.tool or conflict(mine, locks_of(other.locks)):
            return other
    return None


def _record(event: LifecycleEvent, row: Row, now: float, **more: Any) -> str:
    facts: dict[str, Any] = {"event": event.value, "t": now, "tool": row.tool, "state": row.state}
    facts |= {"fence": row.fence, "policy": row.policy, **more}
    return json.dumps(facts, ensure_ascii=False)
