"""The calls of one turn up to T1: validate, authorise, admit. CallRunner runs what was admitted.

The order of these steps is that of the transition table. Each call carries its cursor (CallRecord), so a
step out of order raises IllegalTransition.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.gateway import redact
from callmemaybe.gateway.answers import CODES, CallAnswer, failure_answer
from callmemaybe.gateway.audit.chain import text_digest
from callmemaybe.gateway.keys import business_key
from callmemaybe.gateway.ledger import lease_clock
from callmemaybe.gateway.lifecycle import CallRecord, CallState, LifecycleEvent
from callmemaybe.gateway.listed import unlisted_values
from callmemaybe.gateway.plan import (
    Lock,
    PlanStep,
    Reference,
    find_references,
    locks_to_json,
    plan_calls,
)
from callmemaybe.gateway.policy import Policy, PolicyDecision, Verdict
from callmemaybe.gateway.recorded import OpenedTurn, RecordedCall, TurnRow, write_calls
from callmemaybe.gateway.registry import RegisteredTool
from callmemaybe.gateway.run import Run, approval_id, check_open
from callmemaybe.gateway.services import GatewayServices
from callmemaybe.gateway.store import (
    Admission,
    AdmitCalls,
    AppendAudit,
    Approval,
    CallProposal,
    CallRow,
    OpenTurn,
    RequestApproval,
    RunRow,
)
from callmemaybe.jsonio import dumps, loads
from callmemaybe.tools import Effect, ToolCall

_NO_EDGES = PlanStep((), (), ())
_PROPOSED = CallRecord()
#: Rejections after which the model may send a corrected call in the same place.
_CORRECTABLE = frozenset({"invalid_arguments", "unknown_tool"})
_deliveries = itertools.count()


class TurnIsTaken(Exception):
    """Raised when a turn that had to be new is in the ledger; nothing of it has run."""


@dataclass(slots=True)
class PendingCall:
    """One call of a turn and everything known about it so far."""

    ordinal: int
    call: ToolCall
    key: str
    entry: RegisteredTool | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] | None = None
    """The arguments as the function's own types, for the first attempt."""
    is_named: bool = False
    """The key is a business key, which holds in every run of the tenant."""
    mac: str = ""
    """HMAC of the arguments; empty if they could not be read."""
    cursor: CallRecord = _PROPOSED
    locks: tuple[Lock, ...] = ()
    references: tuple[Reference, ...] = ()
    step: PlanStep = _NO_EDGES
    taken_locks: tuple[Lock, ...] | None = None
    waits_for_locks: bool = False
    """Another process holds one of its locks."""
    token: int = 0
    """The fencing token of its start."""
    lapses: int | None = None
    """How often the lease had lapsed when the ledger said that the call is still ours; None if it did not ask."""
    row: CallRow | None = None
    """The ledger's row once the call is admitted."""
    decided: PolicyDecision | None = None
    """The policy's decision, if it was made before the turn was recorded."""
    approved: bool = False
    was_admitted: bool = False
    """An earlier delivery of this very call passed T1."""
    may_have_run: bool = False
    """An earlier delivery may have started the tool, and its outcome is not in the ledger."""
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    """The secrets that were passed to the tool, by name."""
    recording: bool = False
    """T3 was sent to the ledger; from here on only the ledger may end the call."""
    answer: CallAnswer | None = None

    def advance(self, event: LifecycleEvent) -> None:
        """Move the cursor; raises IllegalTransition."""
        self.cursor = self.cursor.advance(event)

    def fail(self, code: str, state: CallState, **facts: Any) -> None:
        """Answer the call with a failure before it ran.

        If an earlier delivery may have run it, the answer is ``in_flight``: its effect is not known.
        """
        effect = self.entry.tool.effect if self.entry else None
        if self.may_have_run and CODES[code][0] == "none":
            why = facts.get("detail") or code
            facts = {"detail": f"it had begun before, and does not go on: {why}"}
            code, state = "in_flight", CallState.RUNNING
        self.answer = failure_answer(
            self.call.id, code, state, key=self.key, effect_class=effect, **facts
        )

    @property
    def tool(self) -> RegisteredTool:
        """The registered tool; only to be used once the call is validated."""
        assert self.entry is not None
        return self.entry


class GatewayTurn:
    """The calls of one turn up to T1."""

    def __init__(
        self,
        gateway: GatewayServices,
        run: Run,
        number: int,
        calls: Sequence[ToolCall],
        *,
        stopped: bool,
        keys: Sequence[str],
        is_new: bool = False,
        names: Sequence[str | None] = (),
    ) -> None:
        self._gateway = gateway
        self._names = names
        self.run = run
        self._is_new = is_new
        self._set(number, calls, keys)
        self._ids = {call.id: ordinal for ordinal, call in enumerate(calls) if call.id}
        self._stopped = stopped
        self.cancelled = asyncio.Event()
        #: Before any of its calls starts (T2).
        self.began = lease_clock()

    def _set(self, number: int, calls: Sequence[ToolCall], keys: Sequence[str]) -> None:
        self.number = number
        self._delivery = f"{self._gateway.ledger.owner}:{next(_deliveries)}"
        self._recorded_row: TurnRow | None = None
        self.items = [
            PendingCall(ordinal, call, key)
            for ordinal, (call, key) in enumerate(zip(calls, keys, strict=True))
        ]

    def restart(self, number: int, keys: Sequence[str]) -> None:
        """Begin again as another turn; nothing of this one has been recorded."""
        for item in self.items:
            self.release(item)
        self._set(number, [item.call for item in self.items], keys)
        self.validate()

    # --- proposed -> validated / rejected -----------------------------------------------------

    def validate(self) -> None:
        """Validate every call and plan the valid ones; answer those that cannot run."""
        for item in self.items:
            if not self._stopped:
                self._reject(item, "output_truncated", detail="the model was cut off")
            elif item.ordinal >= self._gateway.limits.calls:
                self._reject(
                    item, "refused", detail=f"more than {self._gateway.limits.calls} calls a turn"
                )
            else:
                self._validate(item)
        live = [item for item in self.items if item.answer is None]
        if len(live) == 1 and not live[0].references:
            live[0].locks = self.locks_of(live[0], live[0].arguments)
            return
        for item in live:
            item.locks = self.locks_of(item, None if item.references else item.arguments)
        # A model that does not stop makes thousands of calls, and a plan compares every pair.
        planned = self.items[: self._gateway.limits.calls]
        steps = plan_calls(
            [
                item.tool.order_locks(None if item.references else item.arguments)
                if item.answer is None
                else ()
                for item in planned
            ],
            [item.references for item in planned],
        )
        for item, step in zip(planned, steps, strict=True):
            item.step = step

    def locks_of(self, item: PendingCall, arguments: Any) -> tuple[Lock, ...]:
        """Return the locks that ``item`` holds while it runs; ``arguments`` is None while they are unknown."""
        return item.tool.locks(arguments, self.run.tenant, self.run.id)

    def _validate(self, item: PendingCall) -> None:
        item.entry = self._gateway.tools.get(item.call.name)
        if item.entry is None:
            with contextlib.suppress(InputError):
                item.mac = self._gateway.mac.of(self._read(item))
            self._reject(item, "unknown_tool", detail=f"there is no tool {item.call.name[:200]!r}")
            return
        try:
            item.arguments = value = self._read(item)
            item.mac = self._gateway.mac.of(value)
            item.references = (
                find_references(value, self._ids, item.ordinal)
                if '"$ref"' in item.call.arguments
                else ()
            )
            if not item.references:
                item.values = item.entry.check(value)
            self._name(item)
        except InputError as error:
            self._reject(
                item,
                "invalid_arguments",
                path=error.where,
                expected=error.hint,
                detail=_error_detail(error, item),
            )
            return
        item.advance(LifecycleEvent.VALIDATE)

    def _name(self, item: PendingCall) -> None:
        """Give the call its business key, if the caller or its tool's declaration has one."""
        name = self._names[item.ordinal] if self._names else None
        if name is None:
            name = item.tool.tool.name_of_call(item.arguments)
        if name is not None:
            item.key = business_key(self.run.tenant, item.call.name, name)
            item.is_named = True

    def _read(self, item: PendingCall) -> dict[str, Any]:
        limits = self._gateway.limits
        value = loads(
            item.call.arguments,
            exact=False,
            strict=True,
            max_bytes=limits.arguments,
            max_depth=limits.depth,
        )
        if not isinstance(value, dict):
            raise InputError("the arguments must be a JSON object", where="/")
        return value

    def _reject(self, item: PendingCall, code: str, **facts: Any) -> None:
        item.advance(LifecycleEvent.REJECT)
        item.fail(code, CallState.REJECTED, **facts)

    # --- validated -> authorised / denied / awaiting_approval ----------------------------------

    async def authorise(self) -> None:
        """Apply the policy; answer what it denies and what waits for a person."""
        if self.run.has_untrusted:
            await self._find_admitted()
        await self._open()
        for item in self.items:
            if item.answer is None:
                await self._authorise(item)

    async def _open(self) -> None:
        """Record the run's policy and the turn before anything is decided that T1 does not record.

        A denial, or a question to a person, must hold in every process: also in one with a looser policy.
        """
        gateway, run = self._gateway, self.run
        while True:
            live = [item for item in self.items if item.answer is None and item.row is None]
            for item in live:
                item.decided = self.decision(item, item.arguments)
            if not any(_is_decided_before_t1(item) for item in live):
                return
            policy = run.policy
            row = RunRow(run.tenant, run.id, policy.text, policy.hash)
            opened: OpenedTurn = await gateway.ledger.send(OpenTurn(row, self._turn_row()))
            if opened.is_taken:
                raise TurnIsTaken
            run.in_ledger = True
            if opened.policy == policy.hash:
                break
            await self._meet_stored_policy()
        run.policy_recorded = run.policy is policy  # it may have been narrowed in the meantime
        for ordinal, detail in opened.conflicts.items():
            if self.items[ordinal].answer is None:
                self.items[ordinal].fail("key_conflict", CallState.REJECTED, detail=detail)

    async def _meet_stored_policy(self) -> None:
        run, ledger = self.run, self._gateway.ledger
        stored = await ledger.read(lambda: ledger.backend.read_run(run.tenant, run.id))
        assert stored is not None
        check_open(stored)
        run.policy = Policy.from_json(json.loads(stored.policy)).meet(run.policy)
        run.policy_recorded = False

    def _turn_row(self) -> TurnRow:
        """Return the turn as the ledger records it."""
        if self._recorded_row is None:
            run, most = self.run, self._gateway.limits.calls
            calls, arguments = write_calls([self._recorded(item) for item in self.items[:most]])
            now = self._gateway.ledger.backend.now()
            self._recorded_row = TurnRow(
                run.tenant, run.id, self.number, self._delivery, self._request(), calls, arguments, now,
                is_new=self._is_new,
            )  # fmt: skip
        return self._recorded_row

    def _request(self) -> str:
        return self._gateway.mac.of(self.run.user) if self.run.user else ""

    def _recorded(self, item: PendingCall) -> RecordedCall:
        call, answer = item.call, item.answer
        is_kept = bool(item.mac) and not (item.entry and item.entry.tool.sensitive)
        return RecordedCall(
            call.name if item.entry else _printable(call.name),
            f"{item.mac} {item.key}" if item.is_named else item.mac,
            _printable(call.id),
            answer is not None and answer.code in _CORRECTABLE,
            call.arguments if is_kept and item.entry else None,
        )

    async def _authorise(self, item: PendingCall, denial: str | None = None) -> None:
        decision = item.decided or self.decision(item, item.arguments)
        item.decided = None
        if decision.verdict is Verdict.DENY:
            await self.deny(item, denial or decision.reason)
        elif decision.verdict is Verdict.ALLOW or item.references:
            # A value that is not known yet cannot be approved; it is once the reference is resolved.
            item.advance(LifecycleEvent.AUTHORISE)
        elif not self.cancelled.is_set():
            await self.ask(item, decision.reason)

    def decision(self, item: PendingCall, arguments: dict[str, Any]) -> PolicyDecision:
        """Return the policy's decision on ``arguments``, whose references may have been resolved since."""
        entry = item.tool
        unlisted = () if item.was_admitted else self._unlisted(item, arguments)
        return self.run.policy.decide(
            entry.tool.name, entry.definition, entry.tool.effect, unlisted=unlisted
        )

    def _unlisted(self, item: PendingCall, arguments: dict[str, Any]) -> Sequence[str]:
        """Return the places of the values that nobody listed, once an untrusted result may have made them."""
        run, tool = self.run, item.tool.tool
        if not run.has_untrusted or not run.policy.guard_values or not tool.may_send(arguments):
            return ()
        found = unlisted_values(
            arguments,
            tool.spec.parameters,
            user=run.words,
            allowed=run.policy.allowed.get(tool.name),
        )
        if not tool.sensitive:
            return found
        # Keys below a sensitive argument are as secret as its values.
        return tuple(dict.fromkeys("/".join(pointer.split("/")[:2]) for pointer in found))

    async def _find_admitted(self) -> None:
        """Find out which calls were admitted before: they go on as they were, and nobody is asked.

        A call with references was admitted without the values that they bring, so it is decided on again.
        """
        ledger = self._gateway.ledger
        for item in self.items:
            if item.references or item.answer is not None:
                continue
            if self._unlisted(item, item.arguments):
                row = await ledger.read(functools.partial(ledger.backend.read_call, item.key))
                item.was_admitted = row is not None and (row.tenant, row.run, row.mac) == (
                    self.run.tenant, self.run.id, item.mac,
                )  # fmt: skip

    async def deny(self, item: PendingCall, reason: str) -> None:
        """Answer a call as denied and append the denial to the audit.

        What an earlier delivery has run is answered as that: the ledger's policy and a person's denial hold
        from when they were recorded.
        """
        ledger = self._gateway.ledger
        row = await ledger.read(lambda: ledger.backend.read_call(item.key))
        mine = row is not None and (row.tenant, row.run) == (self.run.tenant, self.run.id)
        if row is not None and mine and row.mac == item.mac and item.row is None:
            if row.ended is not None:
                item.answer = self._gateway.answer_from_ledger(item.call.id, row)
                return
            item.may_have_run |= row.state == CallState.RUNNING.value
        if item.cursor.state in {CallState.VALIDATED, CallState.AWAITING_APPROVAL}:
            item.advance(LifecycleEvent.DENY)
        item.fail("denied", CallState.DENIED, detail=reason)
        await ledger.send(AppendAudit(item.key, self.record("deny", item, reason=reason)))

    async def ask(self, item: PendingCall, reason: str) -> None:
        """Apply a person's decision on the call if there is one; request an approval otherwise."""
        gateway, backend = self._gateway, self._gateway.ledger.backend
        id_ = approval_id(item.key, item.mac, self.run.policy.hash, item.tool.definition)
        if item.cursor.state is CallState.VALIDATED:
            item.advance(LifecycleEvent.ASK)
        stored = await gateway.ledger.read(
            lambda: backend.read_denial(item.key, item.mac) or backend.read_approval(id_)
        )
        if stored is None:
            now = backend.now()
            made = Approval(
                id_, item.key, self.run.tenant, self.run.id, item.tool.tool.name, item.mac,
                self.run.policy.hash, self.redacted(item, item.arguments), reason, now,
                now + gateway.limits.approval,
            )  # fmt: skip
            record = self.record(
                "ask", item, reason=reason, approval=id_, created=now, expires=made.expires,
                arguments=text_digest(made.arguments),
            )  # fmt: skip
            stored = await gateway.ledger.send(RequestApproval(made, record))
        if stored.decision is None and gateway.has_approver:
            stored = await self._ask_approver(stored, item.call)
        await self._apply_decision(item, stored)

    async def _ask_approver(self, approval: Approval, call: ToolCall) -> Approval:
        """Ask the approver; return the approval undecided if the turn is cancelled first."""
        asked = asyncio.ensure_future(self._gateway.ask_approver(approval, call))
        stop = asyncio.ensure_future(self.cancelled.wait())
        try:
            left = approval.expires - self._gateway.ledger.backend.now()
            await asyncio.wait(
                (asked, stop), timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED
            )
            return asked.result() if asked.done() and not asked.cancelled() else approval
        finally:
            stop.cancel()
            if not asked.done():
                asked.add_done_callback(lambda task: task.cancelled() or task.exception())
                asked.cancel()

    async def _apply_decision(self, item: PendingCall, approval: Approval) -> None:
        expired = approval.expires <= self._gateway.ledger.backend.now()
        if approval.decision == "approved" and not expired:
            item.approved = True
            if item.cursor.state is CallState.AWAITING_APPROVAL:
                item.advance(LifecycleEvent.AUTHORISE)
        elif approval.decision == "denied":
            await self.deny(item, f"denied by {approval.by}")
        elif expired:
            await self.deny(item, "the approval expired")
        else:
            item.fail(
                "approval_pending",
                CallState.AWAITING_APPROVAL,
                detail=f"approval {approval.id}: {approval.reason}",
                approval=approval.id,
            )

    # --- authorised -> committed (T1), and running where its locks are free (T2) -------

    async def admit(self) -> None:
        """Record the calls that may run, all in one transaction; answer replays and refusals."""
        for item in self._to_admit():
            self._refuse_early(item)
        if not self._to_admit() and self.run.in_ledger and not self.run.policy_recorded:
            # No call is left, but the narrowed policy must reach the ledger.
            await self._send([])
        while ready := self._to_admit():
            for item, outcome in zip(ready, await self._send(ready), strict=True):
                await self._apply_admission(item, outcome)

    async def _send(self, ready: Sequence[PendingCall]) -> list[Admission]:
        run, policy = self.run, self.run.policy
        outcomes: list[Admission] = await self._gateway.ledger.send(self._admission(ready))
        if any(outcome.status == "taken" for outcome in outcomes):
            raise TurnIsTaken
        run.in_ledger = True
        run.policy_recorded = run.policy is policy  # it may have been narrowed in the meantime
        return outcomes

    def _to_admit(self) -> list[PendingCall]:
        """Return the calls still to be admitted; once the turn is cancelled, cancel them instead."""
        waiting = [item for item in self.items if item.answer is None and item.row is None]
        if not self.cancelled.is_set():
            return waiting
        for item in waiting:
            self.release(item)
            item.advance(LifecycleEvent.CANCEL)
            item.fail("cancelled", CallState.CANCELLED)
        return []

    def _refuse_early(self, item: PendingCall) -> None:
        if any(_failed(self.items[source].answer) for source in item.step.needs):
            item.advance(LifecycleEvent.CANCEL)
            item.fail("dependency_failed", CallState.CANCELLED, detail="a call it uses did not run")

    def _admission(self, ready: Sequence[PendingCall]) -> AdmitCalls:
        gateway, run = self._gateway, self.run
        now = gateway.ledger.backend.now()
        proposals = []
        for item in ready:
            if item.cursor.state is CallState.AUTHORISED:
                item.advance(LifecycleEvent.COMMIT)
            starts = item.cursor.state is CallState.RUNNING
            free = not (item.step.runs_after or item.step.needs or item.waits_for_locks)
            if not starts and free and gateway.locks.try_take(item.locks):
                item.taken_locks = item.locks
                item.advance(LifecycleEvent.START)
            row = self._row(item, now)
            record = self.record(
                "admit", item, args=self.redacted(item, item.arguments), effect=row.effect,
                definition=row.definition, locks=row.locks, created=now,
                arguments=text_digest(row.arguments),
            )  # fmt: skip
            proposals.append(CallProposal(row, record, item.approved, item.is_named))
        frozen = None
        if not run.policy_recorded:
            frozen = RunRow(run.tenant, run.id, run.policy.text, run.policy.hash)
        turn = self._turn_row() if proposals else None
        return AdmitCalls(tuple(proposals), frozen, run.policy.guard_repeats, turn)

    def _row(self, item: PendingCall, now: float) -> CallRow:
        run, call, entry = self.run, item.call, item.tool
        tool, state, arguments = entry.tool, item.cursor, call.arguments
        if tool.effect is Effect.ONCE or tool.sensitive:
            arguments = self.redacted(item, item.arguments)
        # Positional, in the order of the columns: keywords would cost twice as much.
        row = CallRow(
            item.key, run.tenant, run.id, self.number, item.ordinal, _printable(call.id),
            call.name, tool.effect, item.mac, run.policy.hash, entry.definition, arguments,
            locks_to_json(item.locks), state.state, state.fence, self._gateway.ledger.owner, now,
        )  # fmt: skip
        if item.waits_for_locks:
            row.asked = now
        return row

    async def _apply_admission(self, item: PendingCall, outcome: Admission) -> None:
        """Continue with the row of an admitted call; answer one that was not admitted."""
        status = outcome.status
        if status in {"new", "restarted"}:
            assert outcome.row is not None
            item.row, item.token = outcome.row, outcome.token
            item.may_have_run = status == "restarted" and outcome.row.fence > 1
            if item.cursor != (outcome.row.state, outcome.row.fence):
                item.cursor = CallRecord(CallState(outcome.row.state), outcome.row.fence)
            return
        if status == "busy":
            # It keeps its locks in this process and is admitted next without being started.
            item.cursor, item.waits_for_locks = CallRecord(CallState.COMMITTED), True
            return
        self.release(item)
        if status in {"replay", "unknown"}:
            row = outcome.row
            assert row is not None
            if (row.run, row.tenant) != (
                self.run.id,
                self.run.tenant,
            ) and not item.tool.tool.trusted:
                self.run.has_untrusted = True
            item.answer = await self._gateway.ledger.read(
                lambda: self._gateway.answer_from_ledger(item.call.id, row)
            )
        elif status == "conflict":
            detail = outcome.detail or "the key has other arguments"
            item.fail("key_conflict", CallState.REJECTED, detail=detail)
        elif status == "in_flight":
            item.fail("in_flight", CallState.RUNNING, detail="it is being run")
        elif status == "blocked":
            self.run.blocked.add(item.tool.tool.name)
            item.fail(
                "refused",
                CallState.REJECTED,
                detail=f"blocked until call {outcome.detail[:16]} is reconciled",
            )
        elif status == "policy":
            await self._authorise_again(item)
        elif status == "denied":
            item.cursor = CallRecord(CallState.VALIDATED)
            await self.deny(item, f"denied by {outcome.detail}")
        else:
            assert status == "repeat"
            item.cursor = CallRecord(CallState.VALIDATED)
            earlier = outcome.detail[:16]
            await self.ask(item, f"the same call was made before in this run ({earlier})")

    async def _authorise_again(self, item: PendingCall) -> None:
        """Decide again under the ledger's policy of the run, which differs from this process's."""
        await self._meet_stored_policy()
        # The approval was given under the old policy.
        item.cursor, item.approved = CallRecord(CallState.VALIDATED), False
        await self._open()
        if item.answer is None:
            await self._authorise(item, "the run began under another policy")

    def release(self, item: PendingCall) -> None:
        """Release the call's locks, if it has any."""
        if item.taken_locks is not None:
            self._gateway.locks.release(item.taken_locks)
            item.taken_locks = None

    # --- what is recorded -----------------------------------------------------------------------

    def redacted(self, item: PendingCall, arguments: dict[str, Any]) -> str:
        """Return the arguments as JSON with the tool's sensitive ones replaced."""
        sensitive = item.tool.tool.sensitive
        if not sensitive:
            return dumps(arguments) if item.references else item.call.arguments
        return dumps(redact.arguments(arguments, sensitive))

    def record(self, event: str, item: PendingCall, **more: Any) -> str:
        """Return an audit record of this call as JSON."""
        run, call, cursor = self.run, item.call, item.cursor
        facts = {
            "event": event,
            "t": self._gateway.ledger.backend.now(),
            "tenant": run.tenant,
            "run": run.id,
            "turn": self.number,
            "ordinal": item.ordinal,
            "call": _printable(call.id),
            "tool": call.name,
            "state": cursor.state,
            "fence": cursor.fence,
            "mac": item.mac,
            "policy": run.policy.hash,
            **more,
        }
        return dumps(facts)


def _is_decided_before_t1(item: PendingCall) -> bool:
    """Whether the policy denies the call, or has a person asked before its turn is recorded."""
    decision = item.decided
    if decision is None or decision.verdict is Verdict.ALLOW:
        return False
    return decision.verdict is Verdict.DENY or not item.references


def _failed(answer: CallAnswer | None) -> bool:
    """Whether a call ended without a result; a replayed result is one."""
    return answer is not None and not answer.ok


def _error_detail(error: InputError, item: PendingCall) -> str:
    """Return the message about wrong arguments, with sensitive values that it quotes replaced."""
    sensitive = item.tool.tool.sensitive
    if not sensitive:
        return error.message
    if not item.arguments:
        return "the arguments cannot be read as a JSON object"
    return redact.text(error.message, redact.replacements({}, item.arguments, sensitive))


def _printable(text: str) -> str:
    """Return a call id of the model in a form that every store can hold."""
    if len(text) <= 200 and text.isascii() and text.isprintable():
        return text
    return text[:200].encode(errors="replace").decode().replace("\0", "?")
