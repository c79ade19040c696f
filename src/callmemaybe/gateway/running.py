"""Runs what T1 admitted: waits for its place, starts (T2), attempts, records (T3), and only then tells."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.gateway import redact
from callmemaybe.gateway.codes import Answer, done_without_result, failure, success
from callmemaybe.gateway.executor import call_with, passed
from callmemaybe.gateway.host import Host
from callmemaybe.gateway.lifecycle import CallState, LifecycleEvent
from callmemaybe.gateway.limits import backoff
from callmemaybe.gateway.outcome import Kind, Outcome, describe, represented
from callmemaybe.gateway.plan import locks_as_json, resolve
from callmemaybe.gateway.policy import Verdict
from callmemaybe.gateway.registry import at_hand
from callmemaybe.gateway.store import Confirm, Move, Moved, Note, StoreError, Transact
from callmemaybe.gateway.turn import Item, Turn
from callmemaybe.jsonio import dumps
from callmemaybe.tools import Effect
from callmemaybe.tools.declare import UNSET, Context, Mode

#: How long a result is offered to a ledger that is away before the caller is told so.
_PATIENCE = 60.0
#: How soon, and at last how often, a call looks whether another process gave its resources back.
_FIRST_LOOK, _LONGEST_PAUSE = 0.005, 0.08
_FAILED = frozenset({"raised", "transient", "timed_out", "died"})


class Runner:
    """Runs the admitted calls of one turn side by side, as far as the plan lets them."""

    def __init__(self, gateway: Host, turn: Turn) -> None:
        self._gateway = gateway
        self._turn = turn
        self._deadline = gateway.monotonic() + gateway.limits.turn
        self._over: dict[int, asyncio.Future[None]] = {}

    async def run(self) -> None:
        """Run every admitted call; raise StoreError if a result could not be recorded."""
        live = [item for item in self._turn.items if item.row is not None and item.answer is None]
        if len(live) == 1:
            await self.one(live[0])
            return
        loop = asyncio.get_running_loop()
        self._over = {item.ordinal: loop.create_future() for item in live}
        outcomes = await asyncio.gather(*map(self.one, live), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def one(self, item: Item) -> None:
        """Take one admitted call to its answer."""
        try:
            if self._gateway.observer is not None:
                effect = item.tool.tool.effect.value
                call = item.call
                if item.tool.tool.sensitive:
                    call = replace(call, arguments=self._turn.redacted(item, item.arguments))
                self._gateway.observer.started(
                    call, key=item.key, run=self._turn.run.id, effect=effect
                )
            if await self._ready(item):
                if item.tool.tool.mode is Mode.TRANSACTION:
                    await self._transact(item)
                else:
                    outcome, attempts = await self._attempts(item)
                    if outcome is not None:
                        await self._record(item, outcome, attempts)
        except StoreError:
            if not item.recording:
                # Nothing ran, or what ran may run again: a redelivery goes on from the row.
                self._gateway.ledger.active.discard(item.key)
            raise
        except Exception as error:
            await self._broken(item, error)
        finally:
            self._turn.release(item)
            over = self._over.get(item.ordinal)
            if over is not None and not over.done():
                over.set_result(None)

    async def _broken(self, item: Item, error: Exception) -> None:
        """Settle a call that the gateway itself failed in: what began may have had its effect."""
        if item.recording or item.cursor.state is not CallState.RUNNING:
            if not item.recording:
                self._gateway.ledger.active.discard(item.key)
            raise error
        await self._record(item, Outcome("died", f"{type(error).__name__} in the gateway"), 1)

    def _remaining(self) -> float:
        return self._deadline - self._gateway.monotonic() - self._gateway.limits.reserve

    # --- committed -> running (T2) ------------------------------------------------------------

    async def _ready(self, item: Item) -> bool:
        """Wait for the calls before it and its locks; False if it was settled without running."""
        if item.step.after or item.step.needs:
            waiting = [
                self._over[place]
                for place in (*item.step.after, *item.step.needs)
                if place in self._over
            ]
            if not await self._wait(waiting):
                await self._cancel(item)
                return False
            if not await self._resolved(item):
                return False
        if item.held is None and not await self._locked(item):
            await self._cancel(item, detail="its resources were not free in time")
            return False
        stopped = self._turn.cancelled.is_set() and item.cursor.state is CallState.COMMITTED
        if stopped or self._remaining() <= 0:
            await self._cancel(item)
            return False
        return item.cursor.state is CallState.RUNNING or await self._start(item)

    async def _wait(self, futures: Iterable[asyncio.Future[None]]) -> bool:
        """Wait until all are done; False at the deadline or when the turn is cancelled."""
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

    async def _locked(self, item: Item) -> bool:
        """Take the call's locks, all together."""
        patience = min(self._gateway.limits.queue, max(0.0, self._remaining()))
        if await self._gateway.locks.take(item.locks, patience):
            item.held = item.locks
            return True
        return False

    async def _resolved(self, item: Item) -> bool:
        """Put earlier results into the arguments; validate and authorise them again."""
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
            item.arguments = resolve(item.arguments, item.references, values)
            item.values = item.tool.check(item.arguments)
        except InputError as error:
            await self._cancel(item, "dependency_failed", path=error.where, detail=error.message)
            return False
        # An approval is for these arguments, not for those with the reference in them.
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
        item.locks = item.tool.locks(item.arguments)
        return True

    async def _start(self, item: Item) -> bool:
        """T2: owner, fence + 1, no other process on its resources; only then may the effect begin."""
        gateway, move = self._gateway, self._starting(item)
        until = gateway.monotonic() + min(gateway.limits.queue, max(0.0, self._remaining()))
        pause = _FIRST_LOOK
        while True:
            moved: Moved = await gateway.ledger.send(move)
            if not moved.busy:
                break
            if self._turn.cancelled.is_set() or gateway.monotonic() + pause >= until:
                await self._cancel(item, detail="another process holds its resources")
                return False
            await asyncio.sleep(pause * (0.5 + gateway.dice() / 2))
            pause = min(pause * 2, _LONGEST_PAUSE)
            move = move._replace(asked=moved.row.asked if moved.row else None)
        if moved.blocker:
            why = f"blocked until call {moved.blocker[:16]} is reconciled"
            await self._cancel(item, "refused", detail=why)
            return False
        if not moved.won:
            return self._overtaken(item, moved)
        item.on(LifecycleEvent.START)
        item.token = moved.token
        return True

    def _starting(self, item: Item) -> Move:
        after, args = (
            item.cursor.on(LifecycleEvent.START),
            self._turn.redacted(item, item.arguments),
        )
        kept = args if item.references and item.tool.tool.effect is not Effect.ONCE else None
        record = self._turn.record("start", item, args=args, state=after.state, fence=after.fence)
        return Move(
            item.key,
            item.cursor.state,
            item.cursor.fence,
            after.state,
            record,
            starts=True,
            arguments=kept,
            locks=locks_as_json(item.locks),
            asked=item.row.asked if item.row else None,
        )

    def _overtaken(self, item: Item, moved: Moved) -> bool:
        """Somebody else moved the row: answer with what it says now."""
        if moved.row is not None and moved.row.content is not None:
            item.answer = self._gateway.replayed(item.call.id, moved.row)
        else:
            item.fail("in_flight", CallState.RUNNING, detail="another process took it over")
        self._gateway.ledger.active.discard(item.key)
        return False

    async def _cancel(self, item: Item, code: str | None = None, **told: Any) -> None:
        """Settle a call that was admitted and will not run; one that was taken over may have run before."""
        if code is None:
            code = "cancelled" if self._turn.cancelled.is_set() else "deadline_exceeded"
        if item.begun:
            why = told.get("detail", "it does not go on")
            code, told = "tool_error", {"detail": f"taken over, and {code}: {why}"}
        event = (
            LifecycleEvent.CANCEL
            if item.cursor.state is CallState.COMMITTED
            else LifecycleEvent.FAIL
        )
        before, fence = item.cursor.state, item.cursor.fence
        item.on(event)
        state, effect = item.cursor.state, item.tool.tool.effect
        answer = failure(item.call.id, code, state, key=item.key, effect_class=effect, **told)
        await self._settle(item, before, fence, answer, {"event": event.value})

    # --- running -> ... -----------------------------------------------------------------------

    def _timeout(self, item: Item) -> float | None:
        own = item.tool.tool.timeout
        if own is None:
            return None
        return min(self._gateway.limits.attempt if own == UNSET else own, self._remaining())

    async def _still_ours(self, item: Item) -> bool:
        """Whether the lease holds: a process that slept may find its call fenced off.

        A call that was taken over gets its token here, now that its turn has come.
        """
        ledger, fence = self._gateway.ledger, item.cursor.fence
        if ledger.in_lease and (item.token or not item.locks):
            return True
        item.token = await ledger.send(Confirm(item.key, fence, ledger.lease))
        if item.token:
            return True
        row = await ledger.read(lambda: ledger.backend.look(item.key))
        return self._overtaken(item, Moved(False, row))

    async def _attempts(self, item: Item) -> tuple[Outcome | None, int]:
        """Run the tool, again where that is safe and may help; every attempt is an audit row.

        No outcome where another process took the call over before anything ran.
        """
        gateway, tool = self._gateway, item.tool.tool
        most = min(tool.attempts, gateway.limits.attempts)
        attempt = 1
        while True:
            if not await self._still_ours(item):
                return None, attempt
            run = self._turn.run
            context = Context(item.key, attempt, run.id, run.tenant, item.token)
            gateway.ledger.probe("effect next")
            try:
                secrets = self._secrets(item)
            except InputError as error:
                return Outcome("not_executed", str(error)), attempt
            values, item.values = item.values, None
            times = (self._timeout(item), self._remaining())
            outcome = await gateway.executor.run(
                tool, item.arguments, context, secrets, *times, values
            )
            gateway.ledger.probe("effect done")
            safe = tool.effect is not Effect.ONCE or outcome.kind == "not_executed"
            passing = outcome.kind in {"transient", "timed_out", "died", "not_executed"}
            if not (safe and passing) or attempt >= most or not self._may_wait(attempt):
                return outcome, attempt
            record = self._turn.record(
                "attempt",
                item,
                attempt=attempt,
                outcome=outcome.kind,
                detail=redact.text(outcome.text, self._hidden(item))[:500],
            )
            await gateway.ledger.send(Note(item.key, record))
            await asyncio.sleep(backoff(attempt, gateway.dice()))
            attempt += 1

    def _may_wait(self, attempt: int) -> bool:
        longest = backoff(attempt, 1.0)
        if self._turn.cancelled.is_set() or self._remaining() <= longest:
            return False
        return self._gateway.bucket.take(self._gateway.monotonic())

    def _secrets(self, item: Item) -> dict[str, str]:
        """Look the tool's secrets up; raises InputError if one cannot be had."""
        source = self._gateway.secrets
        found = {}
        for parameter, name in item.tool.tool.secrets.items():
            try:
                value = source[name] if isinstance(source, Mapping) else source(name)
                found[parameter] = item.used[name] = value
            except Exception as error:
                raise InputError(f"the secret {name!r} cannot be had") from error
        return found

    def _hidden(self, item: Item) -> Mapping[str, str]:
        """Return what must not be told or written of this call: secrets and sensitive arguments."""
        source, sensitive = self._gateway.secrets, item.tool.tool.sensitive
        if not source and not sensitive:
            return {}
        if not isinstance(source, Mapping):
            source = at_hand(source, self._gateway.tools.values())
        return redact.hidden({**source, **item.used}, item.arguments, sensitive)

    def _answer(self, item: Item, outcome: Outcome) -> tuple[LifecycleEvent, Answer, str | None]:
        """Return the event, the answer, and the full result where the answer holds only a part."""
        try:
            text, hidden = outcome.text, self._hidden(item)
            if hidden:
                clean = redact.result if outcome.kind == "returned" else redact.text
                text = clean(text, hidden)
                if len(outcome.text) > self._gateway.limits.result:
                    text = redact.ending(text, hidden)
            return self._told(item, outcome, text)
        except Exception as error:
            # What happened must be recorded, whatever keeps it from being told; its text may hold a secret.
            kind: Kind = "unrepresentable" if outcome.kind == "returned" else outcome.kind
            text = f"{type(error).__name__} while the gateway read it"
            return self._told(item, Outcome(kind, text), text)

    def _told(
        self, item: Item, outcome: Outcome, text: str
    ) -> tuple[LifecycleEvent, Answer, str | None]:
        """As `_answer`, of an outcome of whose text this much may be told."""
        limits, call_id, effect = self._gateway.limits, item.call.id, item.tool.tool.effect
        if outcome.kind == "returned":
            cut = len(outcome.text) > limits.result or len(text.encode()) > limits.result
            value = None if cut else json.loads(text)
            answer = success(
                call_id, text, key=item.key, value=value, told_limit=limits.told, cut=cut
            )
            kept = text.encode()[: limits.result].decode(errors="ignore")
            return (
                LifecycleEvent.SUCCEED,
                answer,
                kept if answer.code == "result_truncated" else None,
            )
        if outcome.kind == "unrepresentable":
            return (
                LifecycleEvent.SUCCEED,
                done_without_result(call_id, "result_unrepresentable", key=item.key, detail=text),
                None,
            )
        once = effect is Effect.ONCE
        if outcome.kind == "not_executed":
            event, code, state = LifecycleEvent.FAIL, "refused", CallState.FAILED
        elif outcome.kind in {"timed_out", "died"} and once:
            event, code, state = LifecycleEvent.LOSE, "unknown_outcome", CallState.UNKNOWN
        elif outcome.kind == "timed_out":
            event, code, state = LifecycleEvent.TIME_OUT, "timed_out", CallState.TIMED_OUT
        else:
            event, code, state = LifecycleEvent.FAIL, "tool_error", CallState.FAILED
        answer = failure(
            call_id, code, state, key=item.key, effect_class=effect, detail=text[:2000]
        )
        return event, answer, None

    async def _record(self, item: Item, outcome: Outcome, attempts: int) -> None:
        """T3: the result and its audit row; nobody is told before it is durable."""
        event, answer, result = self._answer(item, outcome)
        before, fence = item.cursor.state, item.cursor.fence
        item.on(event)
        facts = {"event": event.value, "attempts": attempts}
        self._learn(item, outcome, answer)
        await self._settle(item, before, fence, answer, facts, result)

    def _learn(self, item: Item, outcome: Outcome, answer: Answer) -> None:
        """Feed the breaker, and remember what an untrusted tool said."""
        item.tool.breaker.record(self._gateway.monotonic(), outcome.kind not in _FAILED)
        if not item.tool.tool.trusted:
            text = answer.content if answer.value is None else outcome.text
            self._turn.run.saw(text, item.key)
        if answer.state is CallState.UNKNOWN:
            self._turn.run.blocked.add(item.tool.tool.name)

    def _move(
        self,
        item: Item,
        before: CallState,
        fence: int,
        answer: Answer,
        facts: Mapping[str, Any],
        result: str | None,
    ) -> Move:
        now = self._gateway.ledger.backend.now()
        digest = hashlib.sha256(answer.content.encode()).hexdigest()
        record = {
            **facts,
            "t": now,
            "run": self._turn.run.id,
            "tool": item.call.name,
            "state": answer.state,
            "fence": fence,
            "code": answer.code,
            "effect": answer.effect,
            "answer": digest,
            "policy": self._turn.run.policy.hash,
        }
        return Move(
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

    async def _settle(
        self,
        item: Item,
        before: CallState,
        fence: int,
        answer: Answer,
        facts: Mapping[str, Any],
        result: str | None = None,
    ) -> None:
        move = self._move(item, before, fence, answer, facts, result)
        item.recording = True
        try:
            moved = await self._gateway.ledger.send(move, _PATIENCE)
        except StoreError:
            self._gateway.keep_trying(move)
            raise
        self._settled(item, answer, moved)

    def _settled(self, item: Item, answer: Answer, moved: Moved) -> None:
        if not moved.won:
            self._overtaken(item, moved)
            return
        self._gateway.ledger.active.discard(item.key)
        item.answer = answer
        if answer.state is not CallState.UNKNOWN and item.row is not None:
            self._gateway.remember(item.call.arguments, item.row.mac, answer)

    # --- transactional ------------------------------------------------------------------------

    async def _transact(self, item: Item) -> None:
        """Run the tool inside the transaction of T3: effect and record are one commit."""
        run = self._turn.run
        context = Context(item.key, 1, run.id, run.tenant, item.token)
        before, fence = item.cursor.state, item.cursor.fence
        limits, tool = self._gateway.limits, item.tool.tool
        told: list[tuple[LifecycleEvent, Answer, Outcome]] = []

        def finish(outcome: Outcome) -> Move:
            event, answer, result = self._answer(item, outcome)
            told.append((event, answer, outcome))
            return self._move(item, before, fence, answer, {"event": event.value}, result)

        def effect(connection: Any) -> Move:
            values = passed(tool, tool.bind(item.arguments), connection, self._secrets(item))
            for name, marker in tool.injected.items():
                values[name] = context if marker is Context else connection
            self._gateway.ledger.probe("effect next")
            value = call_with(tool, values)
            self._gateway.ledger.probe("effect done")
            return finish(represented(value, most=limits.result, depth=limits.depth))

        def failed(error: BaseException) -> Move:
            return finish(describe(error))

        try:
            moved = await self._gateway.ledger.send(Transact(effect, failed), _PATIENCE)
        except StoreError:
            # Nothing was committed, so nothing happened; the row stays for a redelivery.
            self._gateway.ledger.active.discard(item.key)
            raise
        event, answer, outcome = told[-1]
        item.on(event)
        self._learn(item, outcome, answer)
        self._settled(item, answer, moved)
