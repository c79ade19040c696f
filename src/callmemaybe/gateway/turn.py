"""One turn: propose, validate, authorise, admit (T1), and then run what was admitted.

The order of these steps is the transition table's; each call carries its cursor (CallRecord) along,
so that a step out of order is an IllegalTransition and not an accident.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.gateway import redact
from callmemaybe.gateway.codes import CODES, Answer, failure
from callmemaybe.gateway.host import Host
from callmemaybe.gateway.lifecycle import CallRecord, CallState, LifecycleEvent
from callmemaybe.gateway.plan import (
    Lock,
    Reference,
    Step,
    locks_as_json,
    plan,
    references,
)
from callmemaybe.gateway.policy import Decision, Policy, Verdict
from callmemaybe.gateway.provenance import label, tainted
from callmemaybe.gateway.registry import Registered
from callmemaybe.gateway.run import Run, approval_id
from callmemaybe.gateway.store import (
    Admit,
    Admitted,
    Approval,
    Ask,
    Note,
    Proposal,
    Row,
    RunRow,
)
from callmemaybe.jsonio import dumps, loads
from callmemaybe.tools import Effect, ToolCall

_FREE = Step((), (), ())
_PROPOSED = CallRecord()


@dataclass(slots=True)
class Item:
    """One call on its way through a turn."""

    ordinal: int
    call: ToolCall
    key: str
    entry: Registered | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] | None = None
    """The arguments as the function's own values, for the first attempt."""
    mac: str = ""
    cursor: CallRecord = _PROPOSED
    locks: tuple[Lock, ...] = ()
    references: tuple[Reference, ...] = ()
    step: Step = _FREE
    held: tuple[Lock, ...] | None = None
    waits: bool = False
    """Another process holds what it needs."""
    token: int = 0
    row: Row | None = None
    approved: bool = False
    begun: bool = False
    """An earlier delivery of it got as far as the tool, and its outcome is not in the ledger."""
    used: dict[str, str] = field(default_factory=dict, repr=False)
    """The secrets that the tool was given, by name."""
    recording: bool = False
    """Its end is being written down; from here on only the ledger may settle it."""
    answer: Answer | None = None

    def on(self, event: LifecycleEvent) -> None:
        """Move the cursor."""
        self.cursor = self.cursor.on(event)

    def fail(self, code: str, state: CallState, **told: Any) -> None:
        """Settle the call with a failure that ran nothing; of one that had begun, nothing is sure."""
        effect = self.entry.tool.effect if self.entry else None
        if self.begun and CODES[code][0] == "none":
            why = told.get("detail") or code
            told = {"detail": f"it had begun before, and does not go on: {why}"}
            code, state = "in_flight", CallState.RUNNING
        self.answer = failure(self.call.id, code, state, key=self.key, effect_class=effect, **told)

    @property
    def tool(self) -> Registered:
        """The registered tool; only asked for once the call is validated."""
        assert self.entry is not None
        return self.entry


class Turn:
    """The calls of one turn up to T1. Everything that needs the store goes through the gateway."""

    def __init__(
        self,
        gateway: Host,
        run: Run,
        number: int,
        calls: Sequence[ToolCall],
        *,
        stopped: bool,
        keys: Sequence[str],
    ) -> None:
        self._gateway = gateway
        self.run = run
        self.number = number
        self.items = [
            Item(ordinal, call, key)
            for ordinal, (call, key) in enumerate(zip(calls, keys, strict=True))
        ]
        self._ids = {call.id: ordinal for ordinal, call in enumerate(calls) if call.id}
        self._stopped = stopped
        self.cancelled = asyncio.Event()

    # --- proposed -> validated / rejected -----------------------------------------------------

    def validate(self) -> None:
        """Settle what cannot run; the rest is validated, with its plan."""
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
            live[0].locks = live[0].tool.locks(live[0].arguments)
            return
        for item in live:
            item.locks = item.tool.locks(None if item.references else item.arguments)
        # A model that cannot stop calls thousands of times, and a plan compares all with all.
        planned = self.items[: self._gateway.limits.calls]
        steps = plan(
            [item.locks if item.answer is None else () for item in planned],
            [item.references for item in planned],
        )
        for item, step in zip(planned, steps, strict=True):
            item.step = step

    def _validate(self, item: Item) -> None:
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
                references(value, self._ids, item.ordinal)
                if '"$ref"' in item.call.arguments
                else ()
            )
            if not item.references:
                item.values = item.entry.check(value)
        except InputError as error:
            self._reject(
                item,
                "invalid_arguments",
                path=error.where,
                expected=error.hint,
                detail=_complaint(error, item),
            )
            return
        item.on(LifecycleEvent.VALIDATE)

    def _read(self, item: Item) -> dict[str, Any]:
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

    def _reject(self, item: Item, code: str, **told: Any) -> None:
        item.on(LifecycleEvent.REJECT)
        item.fail(code, CallState.REJECTED, **told)

    # --- validated -> authorised / denied / awaiting_approval ----------------------------------

    async def authorise(self) -> None:
        """Settle what the policy denies and what waits for a person."""
        for item in self.items:
            if item.answer is None:
                await self._authorise(item)

    async def _authorise(self, item: Item, denial: str | None = None) -> None:
        decision = self.decision(item, item.arguments)
        if decision.verdict is Verdict.DENY:
            self.deny(item, denial or decision.reason)
        elif decision.verdict is Verdict.ALLOW or item.references:
            # Nobody can approve a value that is not there yet: once it is, it is asked about.
            item.on(LifecycleEvent.AUTHORISE)
        elif not self.cancelled.is_set():
            await self.ask(item, decision.reason)

    def decision(self, item: Item, arguments: dict[str, Any]) -> Decision:
        """Ask the run's policy; also for arguments whose references were resolved since."""
        entry = item.tool
        suspects: Sequence[str] = ()
        guarded = entry.tool.effect in {Effect.ONCE, Effect.KEYED}
        if guarded and self.run.untrusted and self.run.policy.guard_origins:
            labels = label(
                arguments,
                entry.spec.parameters,
                user=self.run.user,
                untrusted=self.run.untrusted,
            )
            suspects = tainted(labels)
            if self.run.saturated:
                suspects = [one.pointer for one in labels if one.origin == "ungrounded"]
        return self.run.policy.decide(
            entry.tool.name, entry.definition, entry.tool.effect, tainted=suspects
        )

    def deny(self, item: Item, reason: str) -> None:
        """Settle a call as denied, and note it in the audit."""
        if item.cursor.state in {CallState.VALIDATED, CallState.AWAITING_APPROVAL}:
            item.on(LifecycleEvent.DENY)
        item.fail("denied", CallState.DENIED, detail=reason)
        self._gateway.ledger.send_later(Note(item.key, self.record("deny", item, reason=reason)))

    async def ask(self, item: Item, reason: str) -> None:
        """Find a person's decision, or ask for it."""
        gateway, backend = self._gateway, self._gateway.ledger.backend
        id_ = approval_id(item.key, item.mac, self.run.policy.hash)
        if item.cursor.state is CallState.VALIDATED:
            item.on(LifecycleEvent.ASK)
        stands = await gateway.ledger.read(lambda: backend.look_approval(id_))
        if stands is None:
            now = backend.now()
            stands = await gateway.ledger.send(
                Ask(
                    Approval(
                        id_,
                        item.key,
                        self.run.tenant,
                        self.run.id,
                        item.tool.tool.name,
                        item.mac,
                        self.run.policy.hash,
                        self.redacted(item, item.arguments),
                        reason,
                        now,
                        now + gateway.limits.approval,
                    ),
                    self.record("ask", item, reason=reason),
                )
            )
        if stands.decision is None and gateway.asks:
            stands = await self._consult(stands, item.call)
        self._decided(item, stands)

    async def _consult(self, open_: Approval, call: ToolCall) -> Approval:
        """Ask the approver; a turn that is cancelled waits no longer for the answer."""
        asked = asyncio.ensure_future(self._gateway.consult(open_, call))
        stop = asyncio.ensure_future(self.cancelled.wait())
        try:
            await asyncio.wait((asked, stop), return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else open_
        finally:
            stop.cancel()
            if not asked.done():
                asked.add_done_callback(lambda task: task.cancelled() or task.exception())
                asked.cancel()

    def _decided(self, item: Item, approval: Approval) -> None:
        expired = approval.expires <= self._gateway.ledger.backend.now()
        if approval.decision == "approved" and not expired:
            item.approved = True
            if item.cursor.state is CallState.AWAITING_APPROVAL:
                item.on(LifecycleEvent.AUTHORISE)
        elif approval.decision == "denied":
            self.deny(item, f"denied by {approval.by}")
        elif expired:
            self.deny(item, "the approval expired")
        else:
            item.fail(
                "approval_pending",
                CallState.AWAITING_APPROVAL,
                detail=f"approval {approval.id}: {approval.reason}",
            )

    # --- authorised -> committed (T1), and running where nothing stands in the way (T2) -------

    async def admit(self) -> None:
        """Write down what may run, all in one transaction; settle replays and refusals."""
        for item in self._waiting():
            self._refuse_early(item)
        if not self._waiting() and self.run.known and not self.run.recorded:
            # Nothing of this turn is left, and what narrowed the run since holds everywhere.
            await self._send([])
        while ready := self._waiting():
            for item, outcome in zip(ready, await self._send(ready), strict=True):
                await self._admitted(item, outcome)

    async def _send(self, ready: Sequence[Item]) -> list[Admitted]:
        run, policy = self.run, self.run.policy
        outcomes: list[Admitted] = await self._gateway.ledger.send(self._admission(ready))
        run.known = True
        run.recorded = run.policy is policy  # it may have been narrowed meanwhile
        return outcomes

    def _waiting(self) -> list[Item]:
        """Return what is still to be admitted: nothing once the turn is cancelled."""
        waiting = [item for item in self.items if item.answer is None and item.row is None]
        if not self.cancelled.is_set():
            return waiting
        for item in waiting:
            self.release(item)
            item.on(LifecycleEvent.CANCEL)
            item.fail("cancelled", CallState.CANCELLED)
        return []

    def _refuse_early(self, item: Item) -> None:
        if not item.tool.breaker.allows(self._gateway.monotonic()):
            item.on(LifecycleEvent.REFUSE)
            item.fail("refused", CallState.REJECTED, detail="the tool keeps failing; not tried now")
        elif any(_failed(self.items[source].answer) for source in item.step.needs):
            item.on(LifecycleEvent.CANCEL)
            item.fail("dependency_failed", CallState.CANCELLED, detail="a call it uses did not run")

    def _admission(self, ready: Sequence[Item]) -> Admit:
        gateway, run = self._gateway, self.run
        now = gateway.ledger.backend.now()
        proposals = []
        for item in ready:
            if item.cursor.state is CallState.AUTHORISED:
                item.on(LifecycleEvent.COMMIT)
            starts = item.cursor.state is CallState.RUNNING
            free = not (item.step.after or item.step.needs or item.waits)
            if not starts and free and gateway.locks.try_take(item.locks):
                item.held = item.locks
                item.on(LifecycleEvent.START)
            proposals.append(
                Proposal(
                    self._row(item, now),
                    self.record("admit", item, args=self.redacted(item, item.arguments)),
                    item.approved,
                )
            )
        frozen = None
        if not run.recorded:
            frozen = RunRow(run.tenant, run.id, run.policy.text, run.policy.hash)
        return Admit(tuple(proposals), frozen, run.policy.guard_repeats)

    def _row(self, item: Item, now: float) -> Row:
        run, call, entry = self.run, item.call, item.tool
        tool, state, kept = entry.tool, item.cursor, call.arguments
        if tool.effect is Effect.ONCE or tool.sensitive:
            kept = self.redacted(item, item.arguments)
        # By position, in the order of the columns: with names it would cost twice as much.
        row = Row(
            item.key, run.tenant, run.id, self.number, item.ordinal, _printable(call.id),
            call.name, tool.effect, item.mac, run.policy.hash, entry.definition, kept,
            locks_as_json(item.locks), state.state, state.fence, self._gateway.ledger.owner, now,
        )  # fmt: skip
        if item.waits:
            row.asked = now
        return row

    async def _admitted(self, item: Item, outcome: Admitted) -> None:
        verdict = outcome.verdict
        if verdict in {"new", "restarted"}:
            assert outcome.row is not None
            item.row, item.token = outcome.row, outcome.token
            item.begun = verdict == "restarted" and outcome.row.fence > 1
            if item.cursor != (outcome.row.state, outcome.row.fence):
                item.cursor = CallRecord(CallState(outcome.row.state), outcome.row.fence)
            return
        if verdict == "busy":
            # It keeps its place in this process, and is admitted without being started.
            item.cursor, item.waits = CallRecord(CallState.COMMITTED), True
            return
        self.release(item)
        if verdict in {"replay", "unknown"}:
            row = outcome.row
            assert row is not None
            item.answer = await self._gateway.ledger.read(
                lambda: self._gateway.replayed(item.call.id, row)
            )
        elif verdict == "conflict":
            item.fail("key_conflict", CallState.REJECTED, detail="the key has other arguments")
        elif verdict == "in_flight":
            item.fail("in_flight", CallState.RUNNING, detail="it is being run")
        elif verdict == "blocked":
            self.run.blocked.add(item.tool.tool.name)
            item.fail(
                "refused",
                CallState.REJECTED,
                detail=f"blocked until call {outcome.detail[:16]} is reconciled",
            )
        elif verdict == "policy":
            await self._narrowed(item)
        else:
            assert verdict == "repeat"
            await self._repeat(item, outcome.detail)

    async def _narrowed(self, item: Item) -> None:
        """Decide again by what is left of the run: its policy is another one in the ledger."""
        run, ledger = self.run, self._gateway.ledger
        stands = await ledger.read(lambda: ledger.backend.look_run(run.tenant, run.id))
        assert stands is not None
        run.policy = Policy.from_json(json.loads(stands.policy)).meet(run.policy)
        run.recorded = False
        # What was approved was approved under the policy before.
        item.cursor, item.approved = CallRecord(CallState.VALIDATED), False
        await self._authorise(item, "the run began under another policy")

    async def _repeat(self, item: Item, earlier: str) -> None:
        """Ask a person about the same `once` call again: a small model repeats itself."""
        item.cursor = CallRecord(CallState.VALIDATED)
        await self.ask(item, f"the same call was made before in this run ({earlier[:16]})")

    def release(self, item: Item) -> None:
        """Give the call's locks back."""
        if item.held is not None:
            self._gateway.locks.release(item.held)
            item.held = None

    # --- what is written down ------------------------------------------------------------------

    def redacted(self, item: Item, arguments: dict[str, Any]) -> str:
        """Return the arguments as JSON, without what the tool declares sensitive."""
        sensitive = item.tool.tool.sensitive
        if not sensitive:
            return dumps(arguments) if item.references else item.call.arguments
        return dumps(redact.arguments(arguments, sensitive))

    def record(self, event: str, item: Item, **more: Any) -> str:
        """Return an audit record of this call."""
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


def _failed(answer: Answer | None) -> bool:
    """Whether a call is over and gave no result; a result of an earlier delivery is one."""
    return answer is not None and not answer.ok


def _complaint(error: InputError, item: Item) -> str:
    """Return what is wrong with arguments, without the sensitive ones that it may quote."""
    sensitive = item.tool.tool.sensitive
    if not sensitive:
        return error.message
    if not item.arguments:
        return "the arguments cannot be read as a JSON object"
    return redact.text(error.message, redact.hidden({}, item.arguments, sensitive))


def _printable(text: str) -> str:
    """Return a model's id as every store can hold it."""
    if len(text) <= 200 and text.isascii() and text.isprintable():
        return text
    return text[:200].encode(errors="replace").decode().replace("\0", "?")
