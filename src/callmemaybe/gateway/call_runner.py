"""Runs the calls that T1 admitted: wait for the plan and the locks, start (T2), attempt, record (T3).

A call gets its answer only after T3 is durable.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from callmemaybe.errors import InputError, NotExecuted, StoreError
from callmemaybe.gateway import redact
from callmemaybe.gateway.answers import (
    CallAnswer,
    answer_without_result,
    failure_answer,
    success_answer,
)
from callmemaybe.gateway.audit.chain import text_digest
from callmemaybe.gateway.execution.executor import call_function, inject
from callmemaybe.gateway.execution.outcome import (
    AttemptOutcome,
    OutcomeKind,
    outcome_of_error,
    outcome_of_value,
)
from callmemaybe.gateway.ledger import lease_clock
from callmemaybe.gateway.lifecycle import CallState, LifecycleEvent
from callmemaybe.gateway.limits import backoff
from callmemaybe.gateway.plan import Lock, locks_to_json, resolve_references
from callmemaybe.gateway.policy import Verdict
from callmemaybe.gateway.registry import available_secrets
from callmemaybe.gateway.services import GatewayServices
from callmemaybe.gateway.store import (
    AppendAudit,
    ConfirmOwnership,
    RunInTransaction,
    UpdateCall,
    UpdateResult,
)
from callmemaybe.gateway.turn import GatewayTurn, PendingCall
from callmemaybe.jsonio import dumps
from callmemaybe.plugins import notify
from callmemaybe.tools import Effect
from callmemaybe.tools.declare import DEFAULT_TIMEOUT, Context, Mode

#: Seconds for which a result is sent to an unavailable ledger before the caller gets StoreError.
_RECORD_PATIENCE = 60.0
#: Seconds until the first and between later checks whether another process released a call's locks.
_FIRST_PAUSE, _MAX_PAUSE = 0.005, 0.08


class CallRunner:
    """Runs the admitted calls of one turn concurrently, as far as the plan allows."""

    def __init__(self, gateway: GatewayServices, turn: GatewayTurn) -> None:
        self._gateway = gateway
        self._turn = turn
        self._deadline = gateway.monotonic() + gateway.limits.turn
        self._ended: dict[int, asyncio.Future[None]] = {}

    async def run(self) -> None:
        """Run every admitted call; raises StoreError if a result could not be recorded."""
        live = [item for item in self._turn.items if item.row is not None and item.answer is None]
        if len(live) == 1:
            await self.one(live[0])
            return
        loop = asyncio.get_running_loop()
        self._ended = {item.ordinal: loop.create_future() for item in live}
        outcomes = await asyncio.gather(*map(self.one, live), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def one(self, item: PendingCall) -> None:
        """Run one admitted call until it has its answer."""
        try:
            if self._gateway.observer is not None:
                effect = item.tool.tool.effect.value
                call = item.call
                if item.tool.tool.sensitive:
                    call = replace(call, arguments=self._turn.redacted(item, item.arguments))
                observer = self._gateway.observer
                notify(observer.started, call, key=item.key, run=self._turn.run.id, effect=effect)
            if await self._ready(item):
                if item.tool.tool.mode is Mode.TRANSACTION:
                    await self._transact(item)
                else:
                    outcome, attempts = await self._attempts(item)
                    if outcome is not None and outcome.ending is not None:
                        self._leave_in_flight(item, outcome, attempts)
                    elif outcome is not None:
                        await self._record(item, outcome, attempts)
        except StoreError:
            if not item.recording:
                # Nothing ran, or what ran may run again: a redelivery continues from the row.
                self._gateway.ledger.active.discard(item.key)
            raise
        except Exception as error:
            await self._record_internal_error(item, error)
        finally:
            self._turn.release(item)
            ended = self._ended.get(item.ordinal)
            if ended is not None and not ended.done():
                ended.set_result(None)

    async def _record_internal_error(self, item: PendingCall, error: Exception) -> None:
        """Record an error of the gateway itself: a call that was running may have had its effect."""
        if item.recording or item.cursor.state is not CallState.RUNNING:
            if not item.recording:
                self._gateway.ledger.active.discard(item.key)
            raise error
        await self._record(
            item, AttemptOutcome("died", f"{type(error).__name__} in the gateway"), 1
        )

    def _remaining(self) -> float:
        return self._deadline - self._gateway.monotonic() - self._gateway.limits.reserve

    # --- committed -> running (T2) ------------------------------------------------------------

    async def _ready(self, item: PendingCall) -> bool:
        """Wait for earlier calls and for the locks, then start; False if the call ended without running."""
        if item.step.runs_after or item.step.needs:
            waiting = [
                self._ended[place]
                for place in (*item.step.runs_after, *item.step.needs)
                if place in self._ended
            ]
            if not await self._wait(waiting):
                await self._cancel(item)
                return False
            if not await self._resolve(item):
                return False
        if item.taken_locks is None and not await self._take_locks(item):
            await self._cancel(item, detail="its resources were not free in time")
            return False
        stopped = self._turn.cancelled.is_set() and item.cursor.state is CallState.COMMITTED
        if stopped or self._remaining() <= 0:
            await self._cancel(item)
            return False
        return item.cursor.state is CallState.RUNNING or await self._start(item)

    async def _wait(self, futures: Iterable[asyncio.Future[None]]) -> bool:
        """Wait until all are done; False if the deadline passes or the turn is cancelled first."""
        pending = {future for future in futures if not future.done()}
        if not pending:
            return True
        stop = asyncio.ensure_future(self._turn.cancelled.wait())
        try:
            everything = asyncio.gather(*pending)
            timeout = max(0.0, self._remaining())
            either: list[asyncio.Future[Any]] = [everything, stop]
            await asyncio.wait(either, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            return everything.done()
        finally:
            stop.cancel()

    async def _take_locks(self, item: PendingCall) -> bool:
        """Take the call's locks, all together; False if they were not free in time."""
        patience = min(self._gateway.limits.queue, max(0.0, self._remaining()))
        if await self._gateway.locks.take(item.locks, patience):
            item.taken_locks = item.locks
            return True
        return False

    async def _resolve(self, item: PendingCall) -> bool:
        """Put earlier results into the arguments and authorise the call again; False if that ended it."""
        if not item.references:
            return True
        sources = {place: self._turn.items[place].answer for place in item.step.needs}
        failed = [place for place, answer in sources.items() if answer is None or not answer.ok]
        if failed:
            await self._cancel(
                item, "dependency_failed", detail=f"call {failed[0]} did not give a result"
            )
            return False
        values = {place: answer.value for place, answer in sources.items() if answer is not None}
        try:
            item.arguments = resolve_references(item.arguments, item.references, values)
            item.values = item.tool.check(item.arguments)
        except InputError as error:
            await self._cancel(item, "dependency_failed", path=error.where, detail=error.message)
            return False
        # An approval must be for the resolved arguments, not for those with a reference in them.
        item.mac, item.approved = self._gateway.mac.of(item.arguments), False
        decision = self._turn.decision(item, item.arguments)
        if decision.verdict is Verdict.ASK:
            await self._turn.ask(item, decision.reason)
        elif decision.verdict is Verdict.DENY:
            item.fail("denied", CallState.DENIED, detail=decision.reason)
        if item.answer is not None:
            code, detail = item.answer.code, item.answer.detail
            item.answer = None
            code = "cancelled" if self._turn.cancelled.is_set() else code
            await self._cancel(item, code, detail=detail)
            return False
        item.locks = self._turn.locks_of(item, item.arguments)
        return True

    async def _start(self, item: PendingCall) -> bool:
        """T2: become the owner with fence + 1, with no conflicting call in another process."""
        gateway, update = self._gateway, self._start_update(item)
        until = gateway.monotonic() + min(gateway.limits.queue, max(0.0, self._remaining()))
        pause = _FIRST_PAUSE
        while True:
            result: UpdateResult = await gateway.ledger.send(update)
            if not result.busy:
                break
            if self._turn.cancelled.is_set() or gateway.monotonic() + pause >= until:
                await self._cancel(item, detail="another process holds its resources")
                return False
            await asyncio.sleep(pause * (0.5 + gateway.rng() / 2))
            pause = min(pause * 2, _MAX_PAUSE)
            update = update._replace(asked=result.row.asked if result.row else None)
        if result.blocker:
            why = f"blocked until call {result.blocker[:16]} is reconciled"
            await self._cancel(item, "refused", detail=why)
            return False
        if not result.won:
            self._answer_overtaken(item, result)
            return False
        item.advance(LifecycleEvent.START)
        item.token = result.token
        return True

    def _start_update(self, item: PendingCall) -> UpdateCall:
        after = item.cursor.advance(LifecycleEvent.START)
        args = self._turn.redacted(item, item.arguments)
        resolved = args if item.references and item.tool.tool.effect is not Effect.ONCE else None
        facts = {} if resolved is None else {"arguments": text_digest(resolved)}
        locks = locks_to_json(item.locks)
        record = self._turn.record(
            "start", item, args=args, state=after.state, fence=after.fence, locks=locks, **facts
        )
        return UpdateCall(
            item.key,
            item.cursor.state,
            item.cursor.fence,
            after.state,
            record,
            starts=True,
            arguments=resolved,
            locks=locks,
            asked=item.row.asked if item.row else None,
        )

    def _answer_overtaken(self, item: PendingCall, result: UpdateResult) -> None:
        """Answer a call whose row another owner updated, from that row."""
        if result.row is not None and result.row.content is not None:
            item.answer = self._gateway.answer_from_ledger(item.call.id, result.row)
        else:
            item.fail("in_flight", CallState.RUNNING, detail="another process took it over")
        self._gateway.ledger.active.discard(item.key)

    async def _cancel(self, item: PendingCall, code: str | None = None, **facts: Any) -> None:
        """Record that an admitted call will not run; one that was taken over may have run before."""
        if code is None:
            code = "cancelled" if self._turn.cancelled.is_set() else "deadline_exceeded"
        if item.may_have_run:
            why = facts.get("detail", "it does not go on")
            code, facts = "tool_error", {"detail": f"taken over, and {code}: {why}"}
        event = (
            LifecycleEvent.CANCEL
            if item.cursor.state is CallState.COMMITTED
            else LifecycleEvent.FAIL
        )
        before, fence = item.cursor.state, item.cursor.fence
        item.advance(event)
        state, effect = item.cursor.state, item.tool.tool.effect
        answer = failure_answer(
            item.call.id, code, state, key=item.key, effect_class=effect, **facts
        )
        await self._end(item, before, fence, answer, {"event": event.value})

    # --- running -> ... -----------------------------------------------------------------------

    def _timeout(self, item: PendingCall) -> float | None:
        own = item.tool.tool.timeout
        if own is None:
            return None
        return min(
            self._gateway.limits.attempt if own == DEFAULT_TIMEOUT else own, self._remaining()
        )

    async def _still_owned(self, item: PendingCall) -> bool:
        """Whether this process still owns the call; if not, answer it.

        Asks the ledger only if the lease may have lapsed (the process slept, even if the lease was renewed
        since), or if the call was taken over
        and has no fencing token yet.
        """
        ledger, fence = self._gateway.ledger, item.cursor.fence
        item.lapses = None
        if ledger.has_held_lease(self._turn.began) and (item.token or not item.locks):
            return True
        while True:
            item.lapses = ledger.lapses
            item.token = await ledger.send(ConfirmOwnership(item.key, fence))
            if not item.token:
                break
            if item.lapses == ledger.lapses:
                return True
        row = await ledger.read(lambda: ledger.backend.read_call(item.key))
        self._answer_overtaken(item, UpdateResult(False, row))
        return False

    def _may_begin(self, item: PendingCall) -> None:
        """Raise NotExecuted if the lease lapsed since `_still_owned`: the process was suspended there."""
        ledger, lapses = self._gateway.ledger, item.lapses
        since = self._turn.began if lapses is None else lease_clock()
        if lapses not in {None, ledger.lapses} or not ledger.has_held_lease(since):
            raise NotExecuted("this process was suspended just before the call began")

    async def _attempts(self, item: PendingCall) -> tuple[AttemptOutcome | None, int]:
        """Run the tool, with retries where they are safe; return the outcome and the number of attempts.

        Every attempt but the last is an audit record of its own. The outcome is None if another process took
        the call over before anything ran.
        """
        gateway, tool = self._gateway, item.tool.tool
        most = min(tool.attempts, gateway.limits.attempts)
        attempt = 1
        while True:
            if not await self._still_owned(item):
                return None, attempt
            run = self._turn.run
            context = Context(item.key, attempt, run.id, run.tenant, item.token)
            gateway.ledger.probe("effect next")
            try:
                secrets = self._secrets(item)
            except InputError as error:
                return AttemptOutcome("not_executed", str(error)), attempt
            values, item.values = item.values, None
            times = (self._timeout(item), self._remaining())
            outcome = await gateway.executor.run(
                tool,
                item.arguments,
                context,
                secrets,
                *times,
                values,
                functools.partial(self._may_begin, item),
            )
            gateway.ledger.probe("effect done")
            if not tool.effect.writes:
                outcome = replace(outcome, ending=None)  # what still runs changes nothing
            if outcome.ending is not None:
                return outcome, attempt
            safe = tool.effect is not Effect.ONCE or outcome.kind == "not_executed"
            may_pass = outcome.kind in {"transient", "timed_out", "died", "not_executed"}
            if not (safe and may_pass) or attempt >= most or not self._may_retry(attempt):
                return outcome, attempt
            item.may_have_run |= outcome.kind != "not_executed"
            record = self._turn.record(
                "attempt",
                item,
                attempt=attempt,
                outcome=outcome.kind,
                detail=redact.text(outcome.text, self._replacements(item))[:500],
            )
            await gateway.ledger.send(AppendAudit(item.key, record))
            await asyncio.sleep(backoff(attempt, gateway.rng()))
            attempt += 1

    def _may_retry(self, attempt: int) -> bool:
        longest = backoff(attempt, 1.0)
        return not self._turn.cancelled.is_set() and self._remaining() > longest

    def _secrets(self, item: PendingCall) -> dict[str, str]:
        """Look up the tool's secrets; raises InputError if one is not available."""
        source = self._gateway.secrets
        found = {}
        for parameter, name in item.tool.tool.secrets.items():
            try:
                value = source[name] if isinstance(source, Mapping) else source(name)
                found[parameter] = item.secrets[name] = value
            except Exception as error:
                raise InputError(f"the secret {name!r} cannot be had") from error
        return found

    def _replacements(self, item: PendingCall) -> Mapping[str, str]:
        """Return the secrets and sensitive values to replace in texts about this call."""
        source, sensitive = self._gateway.secrets, item.tool.tool.sensitive
        if not source and not sensitive:
            return {}
        if not isinstance(source, Mapping):
            source = available_secrets(source, self._gateway.tools.values())
        return redact.replacements({**source, **item.secrets}, item.arguments, sensitive)

    def _answer(
        self, item: PendingCall, outcome: AttemptOutcome
    ) -> tuple[LifecycleEvent, CallAnswer, str | None]:
        """Return the event, the answer, and the full result if the answer holds only a part."""
        try:
            text, found = outcome.text, self._replacements(item)
            if found:
                clean = redact.result if outcome.kind == "returned" else redact.text
                text = clean(text, found)
                if len(outcome.text) > self._gateway.limits.result:
                    text = redact.partial_ending(text, found)
            return self._answer_with(item, outcome, text)
        except Exception as error:
            # The outcome must be recorded even if its text cannot be shown; the text may hold a secret.
            kind: OutcomeKind = "unrepresentable" if outcome.kind == "returned" else outcome.kind
            text = f"{type(error).__name__} while the gateway read it"
            return self._answer_with(item, AttemptOutcome(kind, text), text)

    def _answer_with(
        self, item: PendingCall, outcome: AttemptOutcome, text: str
    ) -> tuple[LifecycleEvent, CallAnswer, str | None]:
        """As ``_answer``, with the redacted text of the outcome."""
        limits, call_id, effect = self._gateway.limits, item.call.id, item.tool.tool.effect
        if outcome.kind == "returned":
            cut = len(outcome.text) > limits.result or len(text.encode()) > limits.result
            value = None if cut else json.loads(text)
            answer = success_answer(
                call_id, text, key=item.key, value=value, limit=limits.answer, cut=cut
            )
            stored = None
            if answer.code == "result_truncated":
                stored = text.encode()[: limits.result].decode(errors="ignore")
            return LifecycleEvent.SUCCEED, answer, stored
        if outcome.kind == "unrepresentable":
            return (
                LifecycleEvent.SUCCEED,
                answer_without_result(call_id, "result_unrepresentable", key=item.key, detail=text),
                None,
            )
        once = effect is Effect.ONCE
        # An attempt that did nothing does not undo an earlier one, of which that is not known.
        did_nothing = outcome.kind == "not_executed" and not item.may_have_run
        if did_nothing:
            event, code, state = LifecycleEvent.FAIL, "refused", CallState.FAILED
        elif once and outcome.kind != "raised":
            event, code, state = LifecycleEvent.LOSE, "unknown_outcome", CallState.UNKNOWN
        elif outcome.kind == "timed_out":
            event, code, state = LifecycleEvent.TIME_OUT, "timed_out", CallState.TIMED_OUT
        else:
            event, code, state = LifecycleEvent.FAIL, "tool_error", CallState.FAILED
        answer = failure_answer(
            call_id, code, state, key=item.key, effect_class=effect, detail=text[:2000]
        )
        return event, answer, None

    async def _record(self, item: PendingCall, outcome: AttemptOutcome, attempts: int) -> None:
        """T3: record the result and its audit record; the answer is given after they are durable."""
        event, answer, result = self._answer(item, outcome)
        before, fence = item.cursor.state, item.cursor.fence
        item.advance(event)
        facts = {"event": event.value, "attempts": attempts}
        self._note_outcome(item, answer)
        await self._end(item, before, fence, answer, facts, result)

    def _leave_in_flight(self, item: PendingCall, outcome: AttemptOutcome, attempts: int) -> None:
        """Answer a call of which something still runs; it keeps its locks until that has ended."""
        item.fail("in_flight", CallState.RUNNING, detail=f"{outcome.text}, and it still runs")
        taken, item.taken_locks = item.taken_locks, None
        self._gateway.run_in_background(self._record_at_end(item, outcome, attempts, taken))

    async def _record_at_end(
        self,
        item: PendingCall,
        outcome: AttemptOutcome,
        attempts: int,
        locks: tuple[Lock, ...] | None,
    ) -> None:
        """Record the outcome when all of the attempt has ended, or when the gateway does not wait any more."""
        assert outcome.ending is not None
        ending = asyncio.ensure_future(outcome.ending)
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((ending,))
            known = ending.done() and not ending.cancelled() and ending.exception() is None
            # A call whose outcome cannot be recorded is sent to the ledger again by others.
            with contextlib.suppress(StoreError):
                await self._record(item, ending.result() if known else outcome, attempts)
        finally:
            if locks is not None:
                self._gateway.locks.release(locks)

    def _note_outcome(self, item: PendingCall, answer: CallAnswer) -> None:
        """Update the run: untrusted results and blocked tools."""
        self._turn.run.has_untrusted |= not item.tool.tool.trusted
        if answer.state is CallState.UNKNOWN:
            self._turn.run.blocked.add(item.tool.tool.name)

    def _end_update(
        self,
        item: PendingCall,
        before: CallState,
        fence: int,
        answer: CallAnswer,
        facts: Mapping[str, Any],
        result: str | None,
    ) -> UpdateCall:
        now = self._gateway.ledger.backend.now()
        record = {
            **facts,
            "t": now,
            "run": self._turn.run.id,
            "tool": item.call.name,
            "state": answer.state,
            "fence": fence,
            "code": answer.code,
            "effect": answer.effect,
            "answer": text_digest(answer.content),
            "policy": self._turn.run.policy.hash,
        }
        if result is not None:
            record["result"] = text_digest(result)
        return UpdateCall(
            item.key,
            before,
            fence,
            answer.state,
            dumps(record),
            ended=now,
            code=answer.code,
            content=answer.content,
            result=result,
        )

    async def _end(
        self,
        item: PendingCall,
        before: CallState,
        fence: int,
        answer: CallAnswer,
        facts: Mapping[str, Any],
        result: str | None = None,
    ) -> None:
        update = self._end_update(item, before, fence, answer, facts, result)
        item.recording = True
        try:
            recorded = await self._gateway.ledger.send(update, _RECORD_PATIENCE)
        except StoreError:
            self._gateway.record_in_background(update)
            raise
        self._answer_recorded(item, answer, recorded)

    def _answer_recorded(
        self, item: PendingCall, answer: CallAnswer, recorded: UpdateResult
    ) -> None:
        if not recorded.won:
            self._answer_overtaken(item, recorded)
            return
        self._gateway.ledger.active.discard(item.key)
        item.answer = answer
        if answer.state is not CallState.UNKNOWN and item.row is not None:
            self._gateway.cache_answer(item.call.arguments, item.row.mac, answer)

    # --- transactional ------------------------------------------------------------------------

    async def _transact(self, item: PendingCall) -> None:
        """Run the tool inside the transaction of T3, so that effect and record are one commit."""
        run = self._turn.run
        context = Context(item.key, 1, run.id, run.tenant, item.token)
        before, fence = item.cursor.state, item.cursor.fence
        limits, tool = self._gateway.limits, item.tool.tool
        ends: list[tuple[LifecycleEvent, CallAnswer, AttemptOutcome]] = []

        def finish(outcome: AttemptOutcome) -> UpdateCall:
            event, answer, result = self._answer(item, outcome)
            ends.append((event, answer, outcome))
            return self._end_update(item, before, fence, answer, {"event": event.value}, result)

        def effect(connection: Any) -> UpdateCall:
            values = inject(tool, tool.bind(item.arguments), connection, self._secrets(item))
            for name, marker in tool.injected.items():
                values[name] = context if marker is Context else connection
            self._gateway.ledger.probe("effect next")
            value = call_function(tool, values)
            self._gateway.ledger.probe("effect done")
            return finish(outcome_of_value(value, most=limits.result, depth=limits.depth))

        def failed(error: BaseException) -> UpdateCall:
            return finish(outcome_of_error(error))

        try:
            recorded = await self._gateway.ledger.send(
                RunInTransaction(effect, failed), _RECORD_PATIENCE
            )
        except StoreError:
            # Nothing was committed, so nothing happened; a redelivery continues from the row.
            self._gateway.ledger.active.discard(item.key)
            raise
        event, answer, _ = ends[-1]
        item.advance(event)
        self._note_outcome(item, answer)
        self._answer_recorded(item, answer, recorded)
