"""The meaning of each ledger operation, applied to a batch inside an open transaction.

This is the only code that decides the outcome of an operation, whatever the store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from callmemaybe.errors import StoreError
from callmemaybe.gateway.answers import failure_answer
from callmemaybe.gateway.audit.chain import text_digest
from callmemaybe.gateway.keys import call_key
from callmemaybe.gateway.lifecycle import (
    TERMINAL,
    CallState,
    LifecycleEvent,
    event_when_lost,
    transition,
)
from callmemaybe.gateway.locks import LockArbiter
from callmemaybe.gateway.plan import locks_conflict, locks_from_json
from callmemaybe.gateway.policy import Policy
from callmemaybe.gateway.recorded import OpenedTurn, TurnRow, compare
from callmemaybe.gateway.store import (
    ARCHIVE_KEY,
    ARCHIVED,
    Admission,
    AdmitCalls,
    AppendAudit,
    ArchiveRuns,
    CallProposal,
    CallRow,
    ClaimKey,
    ClaimLostCalls,
    ConfirmOwnership,
    DecideApproval,
    ExpireResults,
    LedgerOperation,
    OpenTurn,
    OperationBatch,
    ReconcileCall,
    RenewLease,
    RequestApproval,
    RunInTransaction,
    RunRow,
    StoreBackend,
    UpdateCall,
    UpdateResult,
    restarted,
)
from callmemaybe.tools import Effect

#: The owner of a call that was fenced off and not yet taken over.
NOBODY = ""
_CHANGED = (
    "its process is gone ({}), and the tool's definition has changed since it was admitted;"
    " it is not run as something else"
)
_TERMINAL = frozenset(state.value for state in TERMINAL)


class Applier:
    """Applies one batch inside an open transaction, many operations per statement."""

    def __init__(
        self,
        backend: StoreBackend,
        batch: OperationBatch,
        active: Collection[str],
        lease: float | None = None,
        in_doubt: Collection[tuple[str, str]] = (),
    ) -> None:
        self._backend = backend
        self._batch = batch
        self._active = active
        self._lease = lease
        #: Audit records (key, JSON) of a transaction that was committed although its answer was lost.
        self._in_doubt = in_doubt
        self._arbiter = LockArbiter(backend, self._fence_off)
        #: The running calls that recover() takes over in this batch.
        self._lost: list[CallRow] = []
        #: Keys that this batch admitted or took over for this process.
        self.taken: set[str] = set()
        #: Whether the lease, which is renewed if ``lease`` is given, had lapsed before.
        self.lapsed = False

    def apply(self) -> None:
        """Compute the outcome of every operation and the audit records."""
        if self._lease is not None:
            self.lapsed = self._backend.renew_lease(self._lease)
        admits: list[tuple[int, AdmitCalls]] = []
        updates: list[tuple[int, UpdateCall]] = []
        others: list[tuple[int, LedgerOperation]] = []
        for index, operation in enumerate(self._batch.operations):
            if isinstance(operation, AdmitCalls):
                admits.append((index, operation))
            elif isinstance(operation, UpdateCall):
                updates.append((index, operation))
            else:
                others.append((index, operation))
        self._find_lost([one for _, one in others if isinstance(one, ClaimLostCalls)])
        starts = [(index, update) for index, update in updates if update.starts]
        if len(starts) < len(
            updates
        ):  # ends first: starts must see the locks and blocks they change
            self._update([(index, update) for index, update in updates if not update.starts])
        self._serialise(admits, starts)
        if starts:
            self._update(starts)
        if admits:
            self._admit(admits)
        for index, operation in others:
            self._batch.outcomes[index] = self._apply_other(operation)

    def _serialise(
        self, admits: Sequence[tuple[int, AdmitCalls]], starts: Sequence[tuple[int, UpdateCall]]
    ) -> None:
        """Wait for transactions that decide about the same locks or calls; read the other open calls."""
        proposals = [(admit, proposal) for _, admit in admits for proposal in admit.proposals]
        needed = [p.row.locks for _, p in proposals if p.row.state == CallState.RUNNING.value]
        needed += [update.locks for _, update in starts if update.locks]
        needed += [row.locks for row in self._lost]
        once = [
            proposal.row
            for admit, proposal in proposals
            if admit.guard_repeats and proposal.row.effect == Effect.ONCE.value
        ]
        if needed or once:
            runs = {(p.row.tenant, p.row.run) for _, p in proposals}
            begins = {(a.run.tenant, a.run.run) for _, a in admits if a.run is not None}
            self._arbiter.open(needed, once, runs, runs - begins)

    def _audit(self, key: str, record: str) -> None:
        self._batch.audit.append((key, record))

    # --- T1 -----------------------------------------------------------------------------------

    def _admit(self, admits: Sequence[tuple[int, AdmitCalls]]) -> None:
        fresh: dict[str, CallRow] = {}
        settled: dict[int, Admission] = {}
        refused = self._refusals(admits)
        for _, admit in admits:
            for proposal in admit.proposals:
                verdict = refused.get(id(proposal))
                if verdict is not None:
                    settled[id(proposal)] = verdict
                else:
                    fresh.setdefault(proposal.row.key, proposal.row)
        inserted = self._backend.insert_calls(list(fresh.values())) if fresh else set()
        # Before any outcome: an earlier delivery of the same key in this batch may have been refused.
        self.taken |= inserted
        wanted = {
            proposal.row.key
            for _, admit in admits
            for proposal in admit.proposals
            if proposal.row.key not in inserted or fresh.get(proposal.row.key) is not proposal.row
        }
        stored_rows = self._backend.fetch_calls(wanted) if wanted else {}
        for index, admit in admits:
            outcome = []
            for proposal in admit.proposals:
                key = proposal.row.key
                refusal = settled.get(id(proposal))
                if refusal is not None and refusal.status == "taken":
                    outcome.append(refusal)  # the keys are another delivery's
                elif key in inserted and fresh.get(key) is proposal.row:
                    self._audit(key, proposal.record)
                    starts = proposal.row.state == CallState.RUNNING.value
                    token = self._arbiter.token if starts else 0
                    outcome.append(Admission("new", proposal.row, token=token))
                elif key in stored_rows:
                    outcome.append(self._redelivered(proposal, stored_rows[key], refusal))
                else:
                    outcome.append(settled[id(proposal)])
            self._batch.outcomes[index] = outcome

    def _refusals(self, admits: Sequence[tuple[int, AdmitCalls]]) -> dict[int, Admission]:
        """Return the outcome of proposals that must not be admitted as new: policy, blocked, busy, repeat."""
        proposals = [proposal for _, admit in admits for proposal in admit.proposals]
        runs = {(p.row.tenant, p.row.run) for p in proposals}
        policies = self._policies(admits, runs)
        refused = self._turn_refusals(admits)
        busy = {
            id(p)
            for p in proposals
            if p.row.state == CallState.RUNNING.value
            and self._arbiter.is_busy(p.row.key, p.row.locks, None)
        }
        unknown = self._backend.unknown_calls(runs)  # after is_busy(), which may have added some
        once: list[tuple[AdmitCalls, CallProposal]] = []
        for _, admit in admits:
            for proposal in admit.proposals:
                row = proposal.row
                stored = policies.get((row.tenant, row.run), row.policy)
                blocker = _blocker(row, unknown) if unknown else None
                if id(proposal) in refused:
                    continue
                if stored != row.policy:
                    refused[id(proposal)] = Admission("policy", detail=stored)
                elif blocker is not None:
                    refused[id(proposal)] = Admission("blocked", detail=blocker.key)
                elif id(proposal) in busy:
                    refused[id(proposal)] = Admission("busy")
                elif row.effect == Effect.ONCE.value and admit.guard_repeats:
                    once.append((admit, proposal))
        if once:
            self._find_repeats(once, refused)
        return refused

    def _policies(
        self, admits: Sequence[tuple[int, AdmitCalls]], runs: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], str]:
        """Begin or narrow runs; return the policy hash in the ledger of every run."""
        stored_rows = self._begin([admit.run for _, admit in admits if admit.run is not None])
        # Another process may have narrowed a run that began here.
        others = set(runs) - stored_rows.keys()
        return {**self._backend.policy_hashes(others), **stored_rows} if others else stored_rows

    def _begin(self, new_runs: Sequence[RunRow]) -> dict[tuple[str, str], str]:
        """Begin or narrow these runs; return the policy hash in the ledger of each."""
        stored_rows = self._backend.begin_runs(new_runs) if new_runs else {}
        for run in sorted(new_runs, key=lambda run: (run.tenant, run.run)):
            stored = stored_rows[run.tenant, run.run]
            if stored in {run.policy_hash, ARCHIVED}:
                continue
            if self._narrow(run, stored):
                stored_rows[run.tenant, run.run] = run.policy_hash
        return stored_rows

    def _record_turns(self, turns: Sequence[TurnRow]) -> dict[int, OpenedTurn]:
        """Record turns; return for each (by identity) what the ledger knew of it."""
        if not turns:
            return {}
        first: dict[tuple[str, str, int], TurnRow] = {}
        for turn in turns:
            first.setdefault(turn.place, turn)
        known = self._backend.insert_turns(list(first.values()))
        opened = {}
        for turn in turns:
            stored = known.get(turn.place, first[turn.place])
            if stored.delivery == turn.delivery:
                opened[id(turn)] = OpenedTurn(existed=turn.place in known)
            elif turn.is_new:
                opened[id(turn)] = OpenedTurn(existed=True, is_taken=True)
            else:
                conflicts, corrected = compare(stored, turn)
                if corrected is not None:
                    self._backend.replace_turn(corrected)
                    known[turn.place] = corrected
                opened[id(turn)] = OpenedTurn(existed=True, conflicts=conflicts)
        return opened

    def _turn_refusals(self, admits: Sequence[tuple[int, AdmitCalls]]) -> dict[int, Admission]:
        """Record the turns; refuse what another delivery recorded otherwise, or a person denied."""
        refused: dict[int, Admission] = {}
        opened = self._record_turns([admit.turn for _, admit in admits if admit.turn is not None])
        doubtful: list[CallProposal] = []
        for _, admit in admits:
            found = opened.get(id(admit.turn), OpenedTurn())
            for proposal in admit.proposals:
                conflict = found.conflicts.get(proposal.row.ordinal)
                if found.is_taken:
                    refused[id(proposal)] = Admission("taken")
                elif conflict is not None:
                    refused[id(proposal)] = Admission("conflict", detail=conflict)
                elif found.existed or proposal.is_named:
                    doubtful.append(proposal)
        denied = self._backend.denied_calls([p.row.key for p in doubtful]) if doubtful else {}
        for proposal in doubtful if denied else ():
            by = denied.get((proposal.row.key, proposal.row.mac))
            if by is not None:
                refused[id(proposal)] = Admission("denied", detail=by)
        return refused

    def _narrow(self, run: RunRow, stored: str) -> bool:
        """Narrow the policy of a run; False if the new policy allows anything that the old one does not."""
        current = Policy.from_json(json.loads(self._backend.policy_json(run.tenant, run.run)))
        narrowed = Policy.from_json(json.loads(run.policy))
        if current.meet(narrowed).hash != narrowed.hash:
            return False
        self._backend.replace_policy(run)
        facts = {"event": "narrow", "t": self._backend.now(), "tenant": run.tenant, "run": run.run}
        facts |= {"policy": run.policy_hash, "was": stored}
        self._audit("", json.dumps(facts, ensure_ascii=False))
        return True

    def _find_repeats(
        self, once: Sequence[tuple[AdmitCalls, CallProposal]], refused: dict[int, Admission]
    ) -> None:
        earlier = self._backend.find_repeats([proposal.row for _, proposal in once])
        seen: dict[tuple[str, str, str, str], str] = {}
        for _, proposal in once:
            row = proposal.row
            same = seen.setdefault((row.tenant, row.run, row.tool, row.mac), row.key)
            repeat = earlier.get(row.key) or (same if same != row.key else None)
            if repeat and not proposal.approved:
                refused.setdefault(id(proposal), Admission("repeat", detail=repeat))

    def _redelivered(
        self, proposal: CallProposal, stored: CallRow, refusal: Admission | None
    ) -> Admission:
        """Decide on a key that exists: replay, conflict, in flight, or a take-over."""
        mine = proposal.row
        if stored.mac != mine.mac:
            return Admission("conflict", stored)
        if stored.state in _TERMINAL:
            return Admission("replay", stored)
        if stored.owner == mine.owner:
            if stored.key in self._active or stored.key in self.taken:
                return Admission("in_flight", stored)
            # Our own T1 whose commit succeeded although its answer was lost: nothing ran yet.
            self.taken.add(stored.key)
            return Admission("new", stored)
        if stored.owner not in self._backend.lost_owners([stored.owner]):
            return Admission("in_flight", stored)
        waits = stored.state == CallState.COMMITTED.value
        if waits and refusal is not None and refusal.status == "policy":
            return refusal  # nothing ran, so it is decided on like a new call
        return self._take_over(stored, mine.created, mine.definition)

    def _take_over(self, stored: CallRow, now: float, definition: str) -> Admission:
        """Take over a call whose owner is lost, as a process that has this definition of its tool."""
        state = CallState(stored.state)
        event = (
            LifecycleEvent.START
            if state is CallState.COMMITTED
            else event_when_lost(Effect(stored.effect))
        )
        target = transition(state, event).target
        if target is CallState.UNKNOWN:
            return self._declare_unknown(stored, now)
        if stored.definition != definition:
            return self._refuse_changed(stored, now)
        if stored not in self._lost:
            self._arbiter.open([stored.locks])
        if self._arbiter.is_busy(stored.key, stored.locks, stored.asked):
            return Admission("in_flight", stored)  # another call holds its locks now
        if state is CallState.COMMITTED:
            blocker = _blocker(stored, self._backend.unknown_calls({(stored.tenant, stored.run)}))
            if blocker is not None:
                return Admission("blocked", stored, blocker.key)
        if not self._backend.claim_call(stored.key, stored.fence, target):
            return Admission("in_flight", stored)
        row = restarted(stored, self._backend.owner)
        self.taken.add(row.key)
        self._audit(row.key, _record(event, row, now, lost_owner=stored.owner))
        return Admission("restarted", row)  # it gets its token in ConfirmOwnership

    def _fence_off(self, key: str, owner: str) -> bool:
        """Take the locks from a running call of a lost owner: its result is not recorded any more.

        False if somebody else was faster and the call may hold its locks again.
        """
        row, now = self._backend.fetch_calls([key]).get(key), self._backend.now()
        if row is None or row.state != CallState.RUNNING.value:
            return True
        if row.owner != owner:
            return False
        if row.effect == Effect.ONCE.value:
            return self._declare_unknown(row, now).status == "unknown"
        if not self._backend.claim_call(key, row.fence, CallState.RUNNING, owner=NOBODY):
            return False
        fenced = replace(row, fence=row.fence + 1, owner=NOBODY)
        self._audit(key, _record(LifecycleEvent.RESTART, fenced, now, lost_owner=row.owner))
        return True

    def _declare_unknown(self, stored: CallRow, now: float) -> Admission:
        content = json.dumps(
            {"ok": False, "code": "unknown_outcome", "effect": "possible", "retry": "never"}
        )
        lost = self._end(stored, LifecycleEvent.LOSE, "unknown_outcome", content, now)
        return Admission("unknown", lost) if lost else Admission("in_flight", stored)

    def _refuse_changed(self, stored: CallRow, now: float) -> Admission:
        """End a lost call whose tool has another definition here: it would not run as it was admitted."""
        began = stored.state == CallState.RUNNING.value
        event = LifecycleEvent.FAIL if began else LifecycleEvent.CANCEL
        code = "tool_error" if began else "refused"
        answer = failure_answer(
            stored.call_id,
            code,
            transition(CallState(stored.state), event).target,
            effect_class=Effect(stored.effect),
            detail=_CHANGED.format("it had begun" if began else "it had not begun"),
        )
        ended = self._end(stored, event, code, answer.content, now)
        return Admission("replay", ended) if ended else Admission("in_flight", stored)

    def _end(
        self, stored: CallRow, event: LifecycleEvent, code: str, content: str, now: float
    ) -> CallRow | None:
        """End a call whose owner is lost; None if it is not as ``stored`` any more."""
        target = transition(CallState(stored.state), event).target
        ended = replace(stored, state=target.value, code=code, content=content, ended=now)
        facts = {"lost_owner": stored.owner, "code": code, "answer": text_digest(content)}
        record = _record(event, ended, now, **facts)
        update = UpdateCall(
            stored.key,
            CallState(stored.state),
            stored.fence,
            target,
            record,
            ended=now,
            code=code,
            content=content,
        )
        if not self._backend.update_calls([update]):
            return None
        self._audit(stored.key, record)
        return ended

    # --- T2, T3 -------------------------------------------------------------------------------

    def _update(self, updates: Sequence[tuple[int, UpdateCall]]) -> None:
        busy = {
            update.key: (update.key, update.locks, update.asked or self._backend.now())
            for _, update in updates
            if update.starts
            and update.locks
            and self._arbiter.is_busy(update.key, update.locks, update.asked)
        }
        if busy:
            self._backend.queue_for_locks(list(busy.values()))
        blockers = self._blockers([m for _, m in updates if m.starts and m.key not in busy])
        # Two updates of one call in a batch: the second finds what the first left.
        ready: dict[str, UpdateCall] = {}
        for _, update in updates:
            if update.key not in busy and update.key not in blockers:
                ready.setdefault(update.key, update)
        won = self._backend.update_calls(list(ready.values())) if ready else set()
        others = [m.key for _, m in updates if m.key not in won or ready[m.key] is not m]
        stored_rows = self._backend.fetch_calls(others) if others else {}
        for index, update in updates:
            if update.key in won and ready[update.key] is update:
                self._audit(update.key, update.record)
                token = self._arbiter.token if update.starts and update.locks else 0
                self._batch.outcomes[index] = UpdateResult(True, None, token=token)
                continue
            if update.key in busy:
                self._batch.outcomes[index] = self._busy_result(update, stored_rows.get(update.key))
                continue
            row = stored_rows.get(update.key)
            if update.key in blockers:
                self._batch.outcomes[index] = UpdateResult(False, row, blocker=blockers[update.key])
                continue
            # Our own update, sent again because the answer to its commit was lost.
            again = row is not None and (
                row.owner == self._backend.owner
                and row.state == update.target.value
                and row.fence == update.fence + update.starts
                and row.content == update.content
            )
            self._batch.outcomes[index] = UpdateResult(again, row)

    def _blockers(self, starts: Sequence[UpdateCall]) -> dict[str, str]:
        """Return, for starts, key -> key of the call of unknown outcome that blocks it.

        T1 checked this too, but a call that waited for its locks was admitted before the other was lost.
        """
        found: dict[str, str] = {}
        rows = self._backend.fetch_calls([update.key for update in starts]) if starts else {}
        runs = {(row.tenant, row.run) for row in rows.values()}
        unknown = self._backend.unknown_calls(runs) if runs else []
        for update in starts if unknown else ():
            row = rows.get(update.key)
            if row is not None and (row.state, row.fence) == (update.expected.value, update.fence):
                blocker = _blocker(replace(row, locks=update.locks or row.locks), unknown)
                if blocker is not None:
                    found[update.key] = blocker.key
        return found

    def _busy_result(self, update: UpdateCall, row: CallRow | None) -> UpdateResult:
        """Return a busy outcome, unless the call is no longer committed."""
        waits = (
            row is not None and row.state == CallState.COMMITTED.value and row.fence == update.fence
        )
        return UpdateResult(False, row, busy=waits)

    # --- the other operations -----------------------------------------------------------------

    def _apply_other(self, operation: LedgerOperation) -> Any:
        if isinstance(operation, RenewLease):
            return None  # apply() did it before everything else
        if isinstance(operation, ConfirmOwnership):
            row = self._backend.fetch_calls([operation.key]).get(operation.key)
            expected = (CallState.RUNNING.value, self._backend.owner, operation.fence)
            is_owned = row is not None and (row.state, row.owner, row.fence) == expected
            return self._arbiter.token if is_owned else 0
        if isinstance(operation, AppendAudit):
            if (operation.key, operation.record) not in self._in_doubt:
                self._audit(operation.key, operation.record)
            return None
        if isinstance(operation, OpenTurn):
            run, turn = operation
            policy = self._begin([run])[run.tenant, run.run]
            return self._record_turns([turn])[id(turn)]._replace(policy=policy)
        if isinstance(operation, RequestApproval):
            inserted, approval = self._backend.insert_approval(operation.approval)
            if inserted:
                self._audit(approval.key, operation.record)
            return approval
        if isinstance(operation, DecideApproval):
            return self._decide(operation)
        if isinstance(operation, ReconcileCall):
            made = self._backend.insert_reconciliation(operation)
            if made:
                self._audit(operation.key, operation.record)
            return made
        if isinstance(operation, ExpireResults):
            count = self._backend.expire_results(operation.before)
            if count:
                self._audit("", operation.record)
            return count
        if isinstance(operation, ClaimKey):
            before = self._backend.claim_key(operation.check, replace=operation.replace)
            if operation.replace:
                self._audit("", operation.record)
                return operation.check
            return before or operation.check
        if isinstance(operation, ClaimLostCalls):
            return self._claim(operation)
        if isinstance(operation, ArchiveRuns):
            return self._archive(operation)
        assert isinstance(operation, RunInTransaction)
        return self._transact(operation)

    def _decide(self, decide: DecideApproval) -> Any:
        decided, approval = self._backend.decide_approval(decide)
        if decided and approval is not None:
            facts: dict[str, Any] = {
                "event": decide.decision,
                "approval": decide.id,
                "by": decide.by,
            }
            facts |= {"t": decide.at, "mac": approval.mac, "policy": approval.policy}
            self._audit(approval.key, json.dumps(facts, ensure_ascii=False))
        return decided, approval

    def _find_lost(self, claims: Sequence[ClaimLostCalls]) -> None:
        """Read the running calls to take over, before the locks of the batch are asked for, all at once.

        One after the other they would come in another order than those of another recovery: a deadlock.
        """
        for claim in claims:
            lost = self._backend.lost_owners(self._backend.open_owners())
            if lost:
                self._lost += self._backend.orphaned_calls(lost, claim.tools, claim.limit)
            self._lost += self._given_up(claim, self._backend.orphaned_calls, claim.tools)

    def _given_up(
        self, claim: ClaimLostCalls, find: Callable[..., list[CallRow]], *how: Any
    ) -> list[CallRow]:
        """Return old calls of this process that it does not know of: nobody heard that they were admitted."""
        found = find([self._backend.owner], *how, claim.limit + len(self._active))
        return [
            row
            for row in found
            if row.key not in self._active
            and row.key not in self.taken
            and row.created < claim.unstarted
        ]

    def _claim(self, claim: ClaimLostCalls) -> list[Admission]:
        taken = []
        for row in self._lost:
            if row.owner == self._backend.owner and row.effect == Effect.ONCE.value:
                self._refuse_given_up(row, claim.at)
                continue
            # A `once` call becomes unknown here and is not taken over.
            admitted = self._take_over(row, claim.at, claim.tools.get(row.tool, ""))
            if admitted.status == "restarted":
                taken.append(admitted)
        self._lost = []
        lost = self._backend.lost_owners(self._backend.open_owners())
        old = self._backend.unstarted_calls(lost, claim.unstarted, claim.limit) if lost else []
        old += self._given_up(claim, self._backend.unstarted_calls, claim.unstarted)
        for row in old:
            self._cancel_unstarted(row, claim.at)
        self._backend.forget_dead_owners()
        return taken

    def _refuse_given_up(self, stored: CallRow, now: float) -> None:
        """End a `once` call of this process that was admitted while its caller was told of an error.

        It has had no effect: this process drops a `once` call that acted only when its end is recorded.
        """
        event = LifecycleEvent.FAIL
        state = transition(CallState.RUNNING, event).target
        why = "the ledger was away when it was admitted, and it never began"
        answer = failure_answer(stored.call_id, "refused", state, detail=why)
        self._end(stored, event, "refused", answer.content, now)

    def _cancel_unstarted(self, stored: CallRow, now: float) -> None:
        """Cancel a call that was admitted and never started, as its process would have at its deadline."""
        state = transition(CallState.COMMITTED, LifecycleEvent.CANCEL).target
        why = "its process ended before it began"
        content = failure_answer(stored.call_id, "cancelled", state, detail=why).content
        row = replace(stored, state=state.value)
        facts = {"lost_owner": stored.owner, "code": "cancelled", "answer": text_digest(content)}
        record = _record(LifecycleEvent.CANCEL, row, now, **facts)
        self._update_one(
            UpdateCall(
                stored.key,
                CallState.COMMITTED,
                stored.fence,
                state,
                record,
                ended=now,
                code="cancelled",
                content=content,
            )
        )

    def _transact(self, operation: RunInTransaction) -> UpdateResult:
        try:
            with self._backend.savepoint() as transaction:
                update: UpdateCall = operation.effect(transaction)
                transaction.close()
                result = self._update_one(update)
                if not result.won:
                    raise _LostFence(result)
        except _LostFence as lost_fence:
            return lost_fence.result
        except StoreError:
            raise
        except (Exception, SystemExit) as error:  # exit() in a tool is its failure, not our end
            return self._update_one(operation.failed(error))
        return result

    def _archive(self, archive: ArchiveRuns) -> dict[str, Any] | None:
        """Write finished runs and the records that only they need to a file; then delete them."""
        backend = self._backend
        runs = backend.finished_runs(archive.before, archive.limit)
        if not runs:
            return None
        moved = list(backend.rows_of_runs(runs))
        calls = [row for table, row in moved if table == "calls"]
        # A business key holds in other runs, too.
        backend.close_runs(runs, [row["key"] for row in calls if not _is_positional(row)])
        untils = backend.unneeded_audit(archive.before)
        parts = {chain: backend.read_chain(chain, until) for chain, until in untils.items()}
        ends = {chain: [rows[-1][1], rows[-1][4].hex()] for chain, rows in parts.items() if rows}
        audit = [row for chain in sorted(ends) for row in parts[chain]]
        name, digest = archive.write(_archive_lines(moved, audit))
        for chain in ends:
            backend.delete_chain(chain, untils[chain])
        facts = {"event": "archive", "t": backend.now(), "file": name, "sha256": digest}
        facts |= {"before": archive.before, "runs": len(runs), "calls": len(calls)}
        facts |= {"records": len(audit), "ends": ends}
        self._audit(ARCHIVE_KEY, json.dumps(facts, ensure_ascii=False))
        return facts

    def _update_one(self, update: UpdateCall) -> UpdateResult:
        if self._backend.update_calls([update]):
            self._audit(update.key, update.record)
            return UpdateResult(True, None)
        return UpdateResult(False, self._backend.fetch_calls([update.key]).get(update.key))


class _LostFence(Exception):
    """Raised to roll the effect back: another owner took the row over."""

    def __init__(self, result: UpdateResult) -> None:
        super().__init__("lost fence")
        self.result = result


def _is_positional(row: Mapping[str, Any]) -> bool:
    place = (row["tenant"], row["run"], row["turn"], row["ordinal"], row["tool"])
    return bool(call_key(*place) == row["key"])


def _archive_lines(
    rows: Iterable[tuple[str, dict[str, Any]]], audit: Iterable[tuple[str, int, str, str, bytes]]
) -> Iterator[dict[str, Any]]:
    """Yield the lines of an archive (see ``callmemaybe.gateway.archive``)."""
    for table, row in rows:
        yield {"table": table, "row": row}
    for chain, number, key, record, digest in audit:
        yield {"table": "audit", "row": [chain, number, key, record, digest.hex()]}


def _blocker(row: CallRow, unknown: Sequence[CallRow]) -> CallRow | None:
    """Return the call of unknown outcome that blocks ``row``: the same tool, or a conflicting lock."""
    mine = locks_from_json(row.locks)
    for other in unknown:
        if (other.tenant, other.run) != (row.tenant, row.run) or other.key == row.key:
            continue
        if other.tool == row.tool or locks_conflict(mine, locks_from_json(other.locks)):
            return other
    return None


def _record(event: LifecycleEvent, row: CallRow, now: float, **more: Any) -> str:
    facts: dict[str, Any] = {"event": event.value, "t": now, "tool": row.tool, "state": row.state}
    facts |= {"fence": row.fence, "policy": row.policy, "owner": row.owner, **more}
    return json.dumps(facts, ensure_ascii=False)
