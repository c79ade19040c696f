"""The only waiter: runs the calls of a turn through the store, the locks and the executor.

What a call may do next is the table's business (lifecycle), what it is allowed the policy's, in which
order the plan's. Here are only the awaits between them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import secrets as tokens
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from callmemaybe.errors import InputError
from callmemaybe.gateway import worker
from callmemaybe.gateway.audit import open_ledger
from callmemaybe.gateway.codes import Answer
from callmemaybe.gateway.executor import Executor
from callmemaybe.gateway.keys import Mac, call_key
from callmemaybe.gateway.ledger import Ledger
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.gateway.limits import DEFAULTS, Bucket, Limits
from callmemaybe.gateway.observe import Observer
from callmemaybe.gateway.policy import OPEN, Policy, Verdict, policy_for
from callmemaybe.gateway.recovery import Recovery
from callmemaybe.gateway.registry import Registered, Secrets, register
from callmemaybe.gateway.replay import answer_from
from callmemaybe.gateway.run import Run
from callmemaybe.gateway.running import Runner
from callmemaybe.gateway.store import Approval, Decide, Move, Row, StoreError
from callmemaybe.gateway.turn import Turn
from callmemaybe.tools import Effect, ToolCall, ToolSpec
from callmemaybe.tools.declare import Tool

#: Asked for a decision on an approval: "approved", "denied", or None to leave it pending.
Approver = Callable[[Approval, ToolCall], Awaitable[str | None]]
_MOST_REMEMBERED = 10_000
#: Calls of a run that were made before this process went on with it, or elsewhere.
_MOST_RECALLED = 10_000
#: Characters of finished calls. As Python's values they take up to ten times as many bytes.
_MOST_AT_HAND = 16 * 1024 * 1024
#: Effects that are there although nobody recorded the result.
_LASTING = frozenset({Effect.IDEMPOTENT, Effect.KEYED, Effect.ONCE})


class _Finished(NamedTuple):
    """A finished call: its arguments as text and as HMAC, until when its answer stands, its characters."""

    text: str
    mac: str
    until: float
    answer: Answer
    size: int


class Gateway:
    """Turns intents into effects, at most once, with evidence.

    ``tools``: what may be called at all. ``store``: ``":memory:"`` (trials), a file, a
    ``postgresql://`` address, or a Ledger. ``verdicts``: what happens to each effect class;
    by default the program that registers the tools has decided. ``secrets``: by name, a mapping or a
    function. ``approver``: asked when a call needs a person; without one such calls stay pending.
    Use it as an async context manager. Raises InputError for tools that cannot keep their promises.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        store: str | Path | Ledger = ":memory:",
        verdicts: Mapping[Effect, Verdict] = OPEN,
        secrets: Secrets | None = None,
        approver: Approver | None = None,
        limits: Limits = DEFAULTS,
        guard_origins: bool = True,
        guard_repeats: bool = True,
        observer: Observer | None = None,
        dice: Callable[[], float] = random.random,
        new_id: Callable[[], str] = lambda: tokens.token_hex(8),
        monotonic: Callable[[], float] = time.monotonic,
        processes: int | None = None,
    ) -> None:
        self.secrets: Secrets = secrets if secrets is not None else {}
        self.tools: dict[str, Registered] = register(tools, self.secrets)
        self.limits = limits
        self.approver = approver
        self.observer = observer
        self.dice = dice
        self.new_id = new_id
        self.monotonic = monotonic
        self.bucket = Bucket()
        self._full_policy = policy_for(
            (
                (name, entry.definition, entry.tool.effect, entry.tool.approval)
                for name, entry in self.tools.items()
            ),
            verdicts,
            guard_origins=guard_origins,
            guard_repeats=guard_repeats,
        )
        self._own_ledger = not isinstance(store, Ledger)
        self.ledger = store if isinstance(store, Ledger) else open_ledger(str(store), limits)
        #: Of the ledger, so that gateways that share one keep out of each other's way.
        self.locks = self.ledger.locks
        self.mac = Mac(self.ledger.backend.secret)
        self.executor = Executor(most=limits.result, depth=limits.depth, processes=processes)
        self._finished: OrderedDict[str, _Finished] = OrderedDict()
        self._remembered = 0
        self._turns: set[asyncio.Task[Any]] = set()
        self._closing = False
        self._runs: dict[tuple[str, str], Run] = {}

    @property
    def asks(self) -> bool:
        """Whether somebody is there to decide on approvals."""
        return self.approver is not None

    async def __aenter__(self) -> Self:
        """Start using the gateway."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Wait for what runs, then release everything."""
        await self.close()

    async def close(self) -> None:
        """Wait until calls that already run are recorded; end workers; close an own ledger."""
        self._closing = True
        while self._turns:
            await asyncio.wait(self._turns)
        await self.executor.close()
        if self._own_ledger:
            await asyncio.get_running_loop().run_in_executor(None, self.ledger.close)

    # --- runs ---------------------------------------------------------------------------------

    def begin(
        self,
        run: str | None = None,
        *,
        tenant: str = "",
        user: Sequence[str] = (),
        tools: Iterable[str] | None = None,
    ) -> Run:
        """Begin a run, or go on with one: its policy is frozen here and can only shrink.

        ``user`` is what the person said; ``tools`` narrows what the run may call. A run that the
        ledger knows keeps the stricter of its stored policy and this one.
        """
        policy = self._full_policy
        if tools is not None:
            wanted = set(tools)
            unknown = wanted - self.tools.keys()
            if unknown:
                raise InputError(f"there is no tool {min(unknown)!r}", where="tools")
            policy = policy.without(*(policy.grants.keys() - wanted))
        if run is None:
            return Run(self.new_id(), tenant, policy, user=list(user))
        begun = Run(run, tenant, policy, user=list(user))
        stored = self.ledger.backend.look_run(tenant, run)
        if stored is not None:
            begun.resumed = begun.known = True
            begun.policy = Policy.from_json(json.loads(stored.policy)).meet(policy)
            begun.recorded = begun.policy.hash == stored.policy_hash
            self._catch_up(begun)
        return begun

    def _catch_up(self, run: Run, *, but: str | None = None) -> None:
        """Recall what untrusted tools said in the run so far, to whichever process ``but`` one."""
        rows = self.ledger.backend.calls(
            run=run.id, tenant=run.tenant, limit=_MOST_RECALLED, but=but
        )
        for row in rows:
            if row.owner == self.ledger.owner:
                run.ours = max(run.ours, row.turn + 1)
            else:
                run.resumed = True
            entry = self.tools.get(row.tool)
            if row.content and not (entry and entry.tool.trusted):
                run.saw(row.result or row.content, row.key)
        trusts_all = not run.untrusted and all(one.tool.trusted for one in self.tools.values())
        if len(rows) == _MOST_RECALLED and not trusts_all:
            run.saturate()  # what stood in those before them is not searched

    def offers(self, run: Run) -> tuple[ToolSpec, ...]:
        """Return the tools that the next grammar of ``run`` should contain."""
        return run.offers(
            [entry.spec for entry in self.tools.values()],
            lambda name: not self.tools[name].breaker.is_open,
        )

    # --- the one thing it is for ---------------------------------------------------------------

    async def run(
        self,
        calls: Sequence[ToolCall],
        *,
        run: Run | str | None = None,
        tenant: str = "",
        turn: int | None = None,
        stopped: bool = True,
    ) -> list[Answer]:
        """Run the calls of one turn; return their answers in call order, whatever the schedule.

        ``run`` and ``turn`` make the keys: the same (tenant, run, turn, position, tool) again is a
        redelivery and is answered from the ledger. ``turn`` counts up by itself where it is not
        given. ``stopped=False`` says that the model was cut off: then nothing runs.
        Cancelling this coroutine cancels the calls that do not run yet; the others are recorded.
        Raises StoreError while the ledger cannot be written; nothing is told then. And InputError in a
        worker process whose tool's module runs calls as soon as it is imported.
        """
        if worker.importing:
            raise InputError(
                "a worker imports this module for its tools, and its program would run again",
                where="Gateway.run",
                hint='put what is to be run under `if __name__ == "__main__":`',
            )
        read = self.ledger.read
        current = run if isinstance(run, Run) else await read(lambda: self._run_named(run, tenant))
        number = current.turn if turn is None else turn
        if number > current.turn:  # another process may have had the turns between
            await read(lambda: self._catch_up(current, but=self.ledger.owner))
        current.turn = max(current.turn, number + 1)
        keys = [
            call_key(current.tenant, current.id, number, ordinal, call.name)
            for ordinal, call in enumerate(calls)
        ]
        told = self._at_hand(keys, calls) if stopped and self._finished else None
        if told is not None:
            return told
        made = Turn(self, current, number, calls, stopped=stopped, keys=keys)
        made.validate()
        if self._finished or current.resumed:
            await read(lambda: self._replay(made))
        if all(item.answer is not None for item in made.items):
            return [item.answer for item in made.items if item.answer is not None]
        task = asyncio.get_running_loop().create_task(self._run_turn(made))
        self._turns.add(task)
        return await self._shielded(task, made)

    def _run_named(self, name: str | None, tenant: str) -> Run:
        if name is None:
            return self.begin(tenant=tenant)
        known = self._runs.pop((tenant, name), None)
        if known is None:
            known = self.begin(name, tenant=tenant)
            known.turn = known.ours  # it may be one that was dropped below
        self._runs[tenant, name] = known  # behind those that were used before
        if len(self._runs) > _MOST_REMEMBERED:
            del self._runs[next(iter(self._runs))]
        return known

    async def _shielded(self, task: asyncio.Task[list[Answer]], turn: Turn) -> list[Answer]:
        """Wait for a turn; whoever stops waiting cancels only what does not run yet."""
        waiter = asyncio.get_running_loop().create_future()

        def over(_: asyncio.Task[Any]) -> None:
            self._turn_over(task)
            if not waiter.done():
                waiter.set_result(None)

        task.add_done_callback(over)
        try:
            await waiter
        except asyncio.CancelledError:
            turn.cancelled.set()
            raise
        return task.result()

    def _turn_over(self, task: asyncio.Task[Any]) -> None:
        self._turns.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may be gone; it is in the ledger

    async def _run_turn(self, turn: Turn) -> list[Answer]:
        try:
            await turn.authorise()
            await turn.admit()
            await Runner(self, turn).run()
        finally:
            for item in turn.items:
                turn.release(item)
        answers = []
        for item in turn.items:
            assert item.answer is not None
            answers.append(item.answer)
            if self.observer is not None:
                self.observer.finished(item.call, item.answer)
        self.ledger.probe("told")
        return answers

    # --- replays ------------------------------------------------------------------------------

    def _at_hand(self, keys: Sequence[str], calls: Sequence[ToolCall]) -> list[Answer] | None:
        """Return the answers if every call was finished here with the very same text."""
        now, told = 0.0, []
        for key, call in zip(keys, calls, strict=True):
            known = self._finished.get(key)
            if known is None or known.text != call.arguments:
                return None
            now = now or self.ledger.backend.now()
            if known.until <= now:
                return None
            told.append(_again(known.answer, call.id))
        return told

    def _replay(self, turn: Turn) -> None:
        """Answer what this process finished, or the ledger knows to be finished or begun.

        Also of calls that would be refused by now: their tool may have changed since they ran.
        """
        for item in turn.items:
            if not item.mac:
                continue
            known = self._finished.get(item.key)
            if known is not None:
                if known.mac == item.mac and known.until > self.ledger.backend.now():
                    item.answer = _again(known.answer, item.call.id)
            elif turn.run.resumed:
                row = self.ledger.backend.look(item.key)
                if row is None or row.mac != item.mac:
                    continue
                if row.content is not None:
                    item.answer = self.replayed(item.call.id, row)
                elif row.state == CallState.RUNNING.value and self._has_begun(row):
                    item.begun = True
                    if item.answer is not None:
                        item.fail(item.answer.code, CallState.RUNNING, detail=item.answer.detail)

    def _has_begun(self, row: Row) -> bool:
        """Whether a running row may have had an effect: not one of our own whose T1 we did not hear of."""
        ours_unheard = row.owner == self.ledger.owner and row.key not in self.ledger.active
        return Effect(row.effect) in _LASTING and not ours_unheard

    def replayed(self, call_id: str, row: Row) -> Answer:
        """Build the answer that the ledger holds; a reconciled call answers with what was found."""
        if row.state == "unknown":
            found = self.ledger.backend.look_reconciled(row.key)
            return answer_from(call_id, row, found[1] if found else None)
        return answer_from(call_id, row)

    def keep_trying(self, move: Move) -> None:
        """Offer a result to the ledger until it takes it; its caller was told nothing."""

        async def again() -> None:
            while not self._closing:
                with contextlib.suppress(StoreError):
                    await self.ledger.send(move)
                    self.ledger.active.discard(move.key)
                    return
                await asyncio.sleep(1.0)

        task = asyncio.get_running_loop().create_task(again())
        self._turns.add(task)
        task.add_done_callback(self._turn_over)

    def remember(self, text: str, mac: str, answer: Answer) -> None:
        """Keep a finished answer at hand; `unknown` is looked up each time."""
        until = self.ledger.backend.now() + self.limits.retention
        size = len(text) + len(answer.content)
        if answer.code == "result_truncated":  # the whole of it is at hand as a value
            size += self.limits.result
        known = self._finished.pop(answer.key, None)
        self._finished[answer.key] = _Finished(text, mac, until, answer, size)
        self._remembered += size - (known.size if known else 0)
        while len(self._finished) > _MOST_REMEMBERED or self._remembered > _MOST_AT_HAND:
            self._remembered -= self._finished.popitem(last=False)[1].size

    # --- people and recovery -------------------------------------------------------------------

    async def consult(self, approval: Approval, call: ToolCall) -> Approval:
        """Ask the approver, and record what it says."""
        assert self.approver is not None
        verdict = await self.approver(approval, call)
        if verdict is None:
            return approval
        return await self.decide(approval.id, verdict, by="approver")

    async def decide(self, approval: str, decision: str, *, by: str) -> Approval:
        """Record "approved" or "denied" for an approval; the first decision stands."""
        if decision not in {"approved", "denied"}:
            raise InputError(f"{decision!r} is neither approved nor denied", where="decision")
        now = self.ledger.backend.now()
        _, stands = await self.ledger.send(Decide(approval, decision, by, now))
        if stands is None:
            raise InputError(f"there is no approval {approval!r}", where="approval")
        assert isinstance(stands, Approval)
        return stands

    async def recover(self) -> int:
        """Take over calls of processes that died: `once` becomes unknown, the rest run again.

        Returns how many were run again. Call it at start and now and then. What has been taken over is
        run and recorded also where this coroutine is cancelled.
        """
        task = asyncio.get_running_loop().create_task(Recovery(self).recover())
        self._turns.add(task)
        task.add_done_callback(self._turn_over)
        return await asyncio.shield(task)

    async def reconcile(
        self, key: str, outcome: str | None = None, *, by: str, result: Any = None
    ) -> Answer:
        """Settle an unknown call: ``outcome`` is "done" or "not_done"; None asks the tool itself.

        Raises InputError if there is no such unknown call, or nobody can tell.
        """
        answer = await Recovery(self).reconcile(key, outcome, by=by, result=result)
        for run in self._runs.values():
            run.blocked.discard(answer[1])
        return answer[0]

    async def expire(self) -> int:
        """Drop the results that are older than the retention; return how many."""
        return await Recovery(self).expire()


def _again(answer: Answer, call_id: str) -> Answer:
    return replace(answer, call_id=call_id, replayed=True)
