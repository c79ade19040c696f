"""The front door: Gateway takes the calls of a turn and returns their answers.

It owns the parts that wait: the ledger, the locks, the executor and the tasks of running turns. What a call
may do next is decided by the lifecycle table, whether it may run by the policy, in which order by the
plan.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import random
import secrets as tokens
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from callmemaybe.errors import InputError, StoreError
from callmemaybe.gateway import waiting
from callmemaybe.gateway.answers import CallAnswer, answer_from_row
from callmemaybe.gateway.call_runner import CallRunner
from callmemaybe.gateway.execution import worker
from callmemaybe.gateway.execution.executor import ToolExecutor
from callmemaybe.gateway.keys import Mac, call_key
from callmemaybe.gateway.ledger import Ledger, open_ledger
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.gateway.limits import DEFAULT_LIMITS, GatewayLimits
from callmemaybe.gateway.policy import OPEN, AllowedValues, Policy, Verdict, policy_for
from callmemaybe.gateway.recovery import Recovery
from callmemaybe.gateway.registry import RegisteredTool, SecretSource, register_tools
from callmemaybe.gateway.run import MAX_TURN, Run, check_name, check_open, check_turn
from callmemaybe.gateway.services import GatewayObserver
from callmemaybe.gateway.store import Approval, CallRow, DecideApproval, UpdateCall
from callmemaybe.gateway.turn import GatewayTurn, TurnIsTaken
from callmemaybe.jsonio import dumps
from callmemaybe.plugins import notify
from callmemaybe.tools import Effect, ToolCall, ToolSpec
from callmemaybe.tools.declare import Tool

_LOG = logging.getLogger("callmemaybe.gateway")
#: What a person may decide.
DECISIONS = ("approved", "denied")
#: Decides on an approval: "approved", "denied", or None to leave it pending.
Approver = Callable[[Approval, ToolCall], Awaitable[str | None] | str | None]
#: Answers, and runs, that are cached.
_CACHED_ANSWERS = 10_000
#: Earlier calls of a resumed run whose results are read back.
_RESUMED_CALLS = 10_000
#: Characters of cached answers. As Python values they take up to ten times as many bytes.
_CACHED_CHARACTERS = 16 * 1024 * 1024
#: Effect classes whose effect may exist although no result was recorded.
_LASTING = frozenset({Effect.IDEMPOTENT, Effect.KEYED, Effect.ONCE})


class _CachedAnswer(NamedTuple):
    """The cached answer of a call.

    ``text`` and ``mac`` are of its arguments, ``until`` is the end of its retention, ``size`` in characters.
    """

    text: str
    mac: str
    until: float
    answer: CallAnswer
    size: int


class Gateway:
    """Turns intents to call tools into effects, at most once, with evidence. An async context manager.

    - ``tools``: the tools that may be called.
    - ``store``: ``":memory:"`` (trials), a file, a ``postgresql://`` address, or an open Ledger.
    - ``verdicts``: what happens to each effect class; by default every registered tool may run.
    - ``secrets``: secrets by name, as a mapping or a function.
    - ``approver``: asked when a call needs a person, and awaited if it is ``async``. It answers "approved", "denied",
      or None: then the approval stays pending, as it does without an approver. Whatever else it answers or raises is
      logged and counts as None; it may take as long as the approval is valid.
    - ``guard_values``, ``guard_repeats``: whether, after an untrusted result, values of writes that nobody
      listed need approval, and the same `once` call again in a run.
    - ``allowed``: values that need no approval, by tool and argument:
      ``{"send_money": {"recipient": ["landlord"]}}``; ``{"sync": {}}`` allows the call without arguments.
    - ``observer``: called when a call is admitted and when it has its answer.
    - ``ledger_key``: a file with the key of the HMACs over arguments; None: the file that CALLMEMAYBE_LEDGER_KEY names,
      else the user's own. All processes of a ledger need the same.
    - ``rng``, ``new_id``, ``monotonic``: sources of random numbers in [0, 1), of run ids and of time.
    - ``processes``: how many worker processes run at once.

    Raises InputError for a tool whose declaration cannot be enforced.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        store: str | Path | Ledger = ":memory:",
        verdicts: Mapping[Effect, Verdict] = OPEN,
        secrets: SecretSource | None = None,
        approver: Approver | None = None,
        limits: GatewayLimits = DEFAULT_LIMITS,
        guard_values: bool = True,
        guard_repeats: bool = True,
        allowed: AllowedValues | None = None,
        observer: GatewayObserver | None = None,
        ledger_key: Path | None = None,
        rng: Callable[[], float] = random.random,
        new_id: Callable[[], str] = lambda: tokens.token_hex(8),
        monotonic: Callable[[], float] = time.monotonic,
        processes: int | None = None,
    ) -> None:
        self.secrets: SecretSource = secrets if secrets is not None else {}
        self.tools: dict[str, RegisteredTool] = register_tools(tools, self.secrets)
        self.limits = limits
        self.approver = approver
        self.observer = observer
        self.rng = rng
        self.new_id = new_id
        self.monotonic = monotonic
        self._full_policy = policy_for(
            (
                (
                    name,
                    entry.definition if entry.tool.pinned else "",
                    entry.tool.effect,
                    entry.tool.approval,
                )
                for name, entry in self.tools.items()
            ),
            verdicts,
            guard_values=guard_values,
            guard_repeats=guard_repeats,
            allowed=_checked_allowed(allowed or {}, self.tools),
        )
        self._own_ledger = not isinstance(store, Ledger)
        self.ledger, self.mac = _open(store, limits, ledger_key)
        #: The ledger's, so that gateways that share a ledger respect each other's locks.
        self.locks = self.ledger.locks
        self.executor = ToolExecutor(
            most=limits.result,
            depth=limits.depth,
            processes=processes,
            alive=self.ledger.backend.alive,
        )
        self._cache: OrderedDict[str, _CachedAnswer] = OrderedDict()
        self._cache_size = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._closing = False
        self._runs: dict[tuple[str, str], Run] = {}

    @property
    def has_approver(self) -> bool:
        """Whether an approver decides on approvals while the turn waits."""
        return self.approver is not None

    async def __aenter__(self) -> Self:
        """Start using the gateway."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Wait for running calls, then release everything."""
        await self.close()

    async def close(self) -> None:
        """Wait until running calls are recorded; end the worker processes; close an own ledger.

        What still runs of a call after its answer (``in_flight``) is waited for as long as a turn may take.
        """
        self._closing = True
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._background:
            await asyncio.wait(self._background, timeout=self.limits.turn)
        for task in self._background:
            task.cancel()
        while self._background:
            await asyncio.wait(self._background)
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
        """Begin a run or resume one; its policy is frozen here and can only be narrowed.

        ``user`` holds the user's messages; ``tools`` narrows what the run may call. A run in the ledger
        continues under the stricter of its stored policy and this one, after its last turn. Names are
        compared code point by code point. Raises InputError for an unknown tool and for a name that a
        store cannot hold, StoreError if the ledger cannot be read.
        """
        check_name(tenant, "tenant")
        if run is not None:
            check_name(run, "run")
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
        stored = self.ledger.backend.read_run(tenant, run)
        if stored is not None:
            check_open(stored)
            begun.resumed = begun.in_ledger = True
            begun.policy = Policy.from_json(json.loads(stored.policy)).meet(policy)
            begun.policy_recorded = begun.policy.hash == stored.policy_hash
            begun.turn = self.ledger.backend.next_turn(tenant, run)
            self._read_history(begun)
        return begun

    def _read_history(self, run: Run, *, exclude_owner: str | None = None) -> None:
        """Read whether the run had untrusted results before, in all processes but ``exclude_owner``."""
        rows = self.ledger.backend.read_calls(
            run=run.id, tenant=run.tenant, limit=_RESUMED_CALLS, exclude_owner=exclude_owner
        )
        for row in rows:
            run.resumed |= row.owner != self.ledger.owner
            entry = self.tools.get(row.tool)
            if row.content and not (entry and entry.tool.trusted):
                run.has_untrusted = True
        if len(rows) == _RESUMED_CALLS and not all(one.tool.trusted for one in self.tools.values()):
            run.has_untrusted = True  # older results were not read

    def offers(self, run: Run) -> tuple[ToolSpec, ...]:
        """Return the tools that the next turn of ``run`` may call: not denied, not blocked."""
        return run.offers([entry.spec for entry in self.tools.values()])

    # --- turns ----------------------------------------------------------------------------------

    async def run(
        self,
        calls: Sequence[ToolCall],
        *,
        run: Run | str | None = None,
        tenant: str = "",
        turn: int | None = None,
        stopped: bool = True,
        keys: Sequence[str | None] = (),
    ) -> list[CallAnswer]:
        """Run the calls of one turn; return their answers in call order, whatever the schedule.

        The key of a call is made of tenant, run, turn, position and tool; the same key again is a
        redelivery and is answered from the ledger. Without ``turn`` the calls are a new turn: a named run
        continues after the last turn that the ledger has of it, from whatever process.
        ``keys`` gives calls names of their own, by position ("order:17"; None for none): the same tool with
        the same name and arguments in any run of the tenant is answered as it was the first time, and with
        other arguments it is a key_conflict. ``stopped=False`` means that the model's output was cut off: then nothing runs. Cancelling this
        coroutine cancels the calls that have not started; the others are recorded.

        Raises StoreError if the ledger cannot be written, without any answer. Raises InputError for a name
        or turn that no store can hold, and in a worker process whose tool's module runs calls when it is
        imported.
        """
        _refuse_in_worker()
        if turn is not None:
            check_turn(turn)
        _check_names(keys, calls)
        read = self.ledger.read
        current = run if isinstance(run, Run) else await read(lambda: self._run_named(run, tenant))
        number = _next_turn(current) if turn is None else turn
        if number > current.turn:  # another process may have had the turns between
            await read(lambda: self._read_history(current, exclude_owner=self.ledger.owner))
        is_past, current.turn = number < current.turn, max(current.turn, number + 1)
        own_keys = _keys(current, number, calls)
        if stopped and not keys and turn is not None and self._cache:
            cached = self._cached_answers(own_keys, calls)
            if cached is not None:
                return cached
        made = GatewayTurn(
            self,
            current,
            number,
            calls,
            stopped=stopped,
            keys=own_keys,
            is_new=turn is None,
            names=keys,
        )
        made.validate()
        is_known = turn is not None and (is_past or self._cache or current.resumed)
        if is_known or any(item.is_named for item in made.items):
            await read(lambda: self._replay(made, is_past=is_past))
        if all(item.answer is not None for item in made.items):
            return [item.answer for item in made.items if item.answer is not None]
        task = asyncio.get_running_loop().create_task(self._run_turn(made))
        self._tasks.add(task)
        return await self._shielded(task, made)

    def _run_named(self, name: str | None, tenant: str) -> Run:
        if name is None:
            return self.begin(tenant=tenant)
        known = self._runs.pop((tenant, name), None)
        if known is None:
            known = self.begin(name, tenant=tenant)
        self._runs[tenant, name] = known  # the most recently used run is last
        if len(self._runs) > _CACHED_ANSWERS:
            del self._runs[next(iter(self._runs))]
        return known

    async def _shielded(
        self, task: asyncio.Task[list[CallAnswer]], turn: GatewayTurn
    ) -> list[CallAnswer]:
        """Wait for a turn; if the waiter is cancelled, cancel only the calls that have not started."""
        waiter = asyncio.get_running_loop().create_future()

        def wake(_: asyncio.Task[Any]) -> None:
            self._task_done(task)
            if not waiter.done():
                waiter.set_result(None)

        task.add_done_callback(wake)
        try:
            await waiter
        except asyncio.CancelledError:
            turn.cancelled.set()
            raise
        return task.result()

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marked as retrieved: the caller may be gone, and the ledger has the outcome

    async def _run_turn(self, turn: GatewayTurn) -> list[CallAnswer]:
        try:
            while True:
                try:
                    await turn.authorise()
                    await turn.admit()
                    break
                except TurnIsTaken:
                    await self._renumber(turn)
            await CallRunner(self, turn).run()
        finally:
            for item in turn.items:
                turn.release(item)
        answers = []
        for item in turn.items:
            assert item.answer is not None
            answers.append(item.answer)
            if self.observer is not None:
                notify(self.observer.finished, item.call, item.answer)
        self.ledger.probe("answered")
        return answers

    async def _renumber(self, turn: GatewayTurn) -> None:
        """Give a new turn the next number: another process, or another task, had its own."""
        run, ledger = turn.run, self.ledger
        following = await ledger.read(lambda: ledger.backend.next_turn(run.tenant, run.id))
        await ledger.read(lambda: self._read_history(run, exclude_owner=ledger.owner))
        run.turn = max(run.turn, following)
        number = _next_turn(run)
        run.turn = number + 1
        turn.restart(number, _keys(run, number, [item.call for item in turn.items]))

    # --- replays ------------------------------------------------------------------------------

    def _cached_answers(
        self, keys: Sequence[str], calls: Sequence[ToolCall]
    ) -> list[CallAnswer] | None:
        """Return the answers if every call ended here before, with the same text of arguments."""
        now, answers = 0.0, []
        for key, call in zip(keys, calls, strict=True):
            known = self._cache.get(key)
            if known is None or known.text != call.arguments:
                return None
            now = now or self.ledger.backend.now()
            if known.until <= now:
                return None
            answers.append(_as_replay(known.answer, call.id))
        return answers

    def _replay(self, turn: GatewayTurn, *, is_past: bool) -> None:
        """Answer calls that ended before, from the cache or the ledger; mark those that may have run.

        This includes calls that would be rejected now: their tool may have changed since they ran.
        """
        for item in turn.items:
            if not item.mac:
                continue
            # A business key may be another run's: whether that answer may be given here is decided first.
            known = None if item.is_named else self._cache.get(item.key)
            if known is not None and known.until > self.ledger.backend.now():
                if known.mac == item.mac:
                    item.answer = _as_replay(known.answer, item.call.id)
            elif is_past or turn.run.resumed or item.is_named:
                row = self.ledger.backend.read_call(item.key)
                if row is None or row.mac != item.mac or row.run != turn.run.id:
                    continue
                if row.ended is not None:
                    item.answer = self.answer_from_ledger(item.call.id, row)
                elif row.state == CallState.RUNNING.value and self._has_begun(row):
                    item.may_have_run = True
                    if item.answer is not None:
                        item.fail(item.answer.code, CallState.RUNNING, detail=item.answer.detail)

    def _has_begun(self, row: CallRow) -> bool:
        """Whether a running row may have had an effect.

        A row of our own that is not active is one whose T1 was committed although its answer was lost.
        """
        lost_answer = row.owner == self.ledger.owner and row.key not in self.ledger.active
        return Effect(row.effect) in _LASTING and not lost_answer

    def answer_from_ledger(self, call_id: str, row: CallRow) -> CallAnswer:
        """Return the answer of a terminal row, or that of its reconciliation."""
        if row.state == "unknown":
            found = self.ledger.backend.read_reconciliation(row.key)
            return answer_from_row(call_id, row, found[1] if found else None)
        return answer_from_row(call_id, row)

    def record_in_background(self, update: UpdateCall) -> None:
        """Send a result to the ledger again until it is recorded; its caller got StoreError."""

        async def again() -> None:
            while not self._closing:
                with contextlib.suppress(StoreError):
                    await self.ledger.send(update)
                    self.ledger.active.discard(update.key)
                    return
                await asyncio.sleep(1.0)

        task = asyncio.get_running_loop().create_task(again())
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` beside the turns; cancel it when the gateway has waited for it while closing."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def cache_answer(self, text: str, mac: str, answer: CallAnswer) -> None:
        """Cache the answer of a call that ended; ``text`` and ``mac`` are of its arguments."""
        until = self.ledger.backend.now() + self.limits.retention
        size = len(text) + len(answer.content)
        if answer.code == "result_truncated":  # the answer holds the whole result as a value
            size += self.limits.result
        known = self._cache.pop(answer.key, None)
        self._cache[answer.key] = _CachedAnswer(text, mac, until, answer, size)
        self._cache_size += size - (known.size if known else 0)
        while len(self._cache) > _CACHED_ANSWERS or self._cache_size > _CACHED_CHARACTERS:
            self._cache_size -= self._cache.popitem(last=False)[1].size

    # --- people and recovery -------------------------------------------------------------------

    async def ask_approver(self, approval: Approval, call: ToolCall) -> Approval:
        """Ask the approver; record and return its decision."""
        assert self.approver is not None
        try:
            said: object = self.approver(approval, call)
            verdict = await said if inspect.isawaitable(said) else said
        except Exception:
            _LOG.exception("the approver failed, so approval %s stays pending", approval.id)
            return approval
        if verdict is None:
            return approval
        if not isinstance(verdict, str) or verdict not in DECISIONS:
            _LOG.error(
                "the approver answered %.50r, so approval %s stays pending; let it answer 'approved',"
                " 'denied' or None", verdict, approval.id,
            )  # fmt: skip
            return approval
        return await self.decide(approval.id, verdict, by="approver")

    async def decide(self, approval: str, decision: str, *, by: str) -> Approval:
        """Record "approved" or "denied" for the approval with this id; the first decision stands.

        Returns the approval. Raises InputError for another decision or an unknown id.
        """
        if decision not in DECISIONS:
            raise InputError(f"{decision!r} is neither approved nor denied", where="decision")
        now = self.ledger.backend.now()
        _, stored = await self.ledger.send(DecideApproval(approval, decision, by, now))
        if stored is None:
            raise InputError(f"there is no approval {approval!r}", where="approval")
        assert isinstance(stored, Approval)
        return stored

    async def wait(self, key: str, *, timeout: float | None = None) -> CallAnswer:
        """Wait until the call with this key has ended, in whatever process; return its answer.

        ``key`` is that of its first answer (``in_flight``). After ``timeout`` seconds (None:
        ``limits.turn``) the answer is ``in_flight`` still. Nothing runs again: a call whose process died is
        for :meth:`recover`. Raises InputError if no call with this key was admitted.
        """
        seconds = self.limits.turn if timeout is None else timeout
        return await waiting.answer_of(self, key, seconds)

    async def decision(self, approval: str, *, timeout: float | None = None) -> Approval:
        """Wait until a person has decided on the approval with this id, or it has expired; return it.

        Whoever decides may be another process. After ``timeout`` seconds (None: no limit) the approval is returned
        undecided. Raises InputError for an unknown id.
        """
        return await waiting.decision_on(self, approval, timeout)

    async def resume(self, approval: str) -> list[CallAnswer]:
        """Run the turn again that waits for this approval, as the ledger has it; return all its answers.

        Nothing that ran runs again: this is a redelivery. What a person approved runs now, what was denied
        is told so, and what still waits is pending. Raises InputError for an unknown id, and for a turn whose
        calls the ledger does not keep (sensitive arguments, keys of the caller's own).
        """
        read = self.ledger.read
        found, turn, calls = await read(lambda: waiting.recorded_turn(self, approval))
        run = await read(lambda: self._run_named(found.run, found.tenant))
        return await self.run(calls, run=run, turn=turn)

    async def recover(self) -> int:
        """Take over calls of processes that died: `once` becomes unknown, the others run again.

        Returns how many ran again. Call it at the start and regularly. Calls that were taken over are run
        and recorded even if this coroutine is cancelled.
        """
        task = asyncio.get_running_loop().create_task(Recovery(self).recover())
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return await asyncio.shield(task)

    async def reconcile(
        self, key: str, outcome: str | None = None, *, by: str, result: Any = None
    ) -> CallAnswer:
        """Record the outcome of a call of unknown outcome; return its answer from now on.

        ``outcome`` is "done" or "not_done"; None asks the tool. Raises InputError if there is no such call
        or the tool cannot tell.
        """
        answer, row = await Recovery(self).reconcile(key, outcome, by=by, result=result)
        if (run := self._runs.get((row.tenant, row.run))) is not None:
            run.blocked.discard(row.tool)
        return answer

    async def expire(self) -> int:
        """Drop the results that are older than ``limits.retention``; return how many."""
        return await Recovery(self).expire()


def _open(
    store: str | Path | Ledger, limits: GatewayLimits, key: Path | None
) -> tuple[Ledger, Mac]:
    if isinstance(store, Ledger):
        if key is not None:
            raise InputError("give the key to open_ledger instead", where="ledger_key")
        return store, store.mac
    ledger = open_ledger(str(store), limits, key=key)
    try:
        return ledger, ledger.mac
    except BaseException:
        ledger.close()
        raise


def _refuse_in_worker() -> None:
    if worker.importing:
        raise InputError(
            "a worker imports this module for its tools, and its program would run again",
            where="Gateway.run",
            hint='put what is to be run under `if __name__ == "__main__":`',
        )


def _check_names(names: Sequence[str | None], calls: Sequence[ToolCall]) -> None:
    if names and len(names) != len(calls):
        raise InputError(f"there are {len(names)} for {len(calls)} calls", where="keys")
    for name in names:
        if name is not None:
            check_name(name, "keys")


def _next_turn(run: Run) -> int:
    if run.turn > MAX_TURN:
        raise InputError("it has no turn left", where=f"run {run.id!r}")
    return run.turn


def _keys(run: Run, number: int, calls: Sequence[ToolCall]) -> list[str]:
    return [
        call_key(run.tenant, run.id, number, ordinal, call.name)
        for ordinal, call in enumerate(calls)
    ]


def _as_replay(answer: CallAnswer, call_id: str) -> CallAnswer:
    return replace(answer, call_id=call_id, replayed=True)


def _checked_allowed(allowed: AllowedValues, tools: Mapping[str, RegisteredTool]) -> AllowedValues:
    """Return the allowed values as a policy keeps them; raises InputError that names the wrong entry."""
    for name, arguments in allowed.items():
        if name not in tools:
            raise InputError(f"there is no tool {name!r}", where="allowed")
        if not isinstance(arguments, Mapping):
            raise InputError("it must be lists of values by argument", where=f"allowed, {name}")
        for argument, options in arguments.items():
            where = f"allowed, {name}, {argument}"
            if isinstance(options, str) or not isinstance(options, Sequence):
                raise InputError("it must be a list of values", where=where)
            try:
                dumps(list(options), canonical=True)
            except (TypeError, ValueError):
                raise InputError("it holds what JSON cannot", where=where) from None
    return {
        name: {argument: tuple(options) for argument, options in arguments.items()}
        for name, arguments in allowed.items()
    }
