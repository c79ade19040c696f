"""Schedules the turns of one model: which wait, which run, and how their updates reach the requests.

Waiting turns are in a queue that is fair among clients, whatever each has asked for: clients alternate,
and within a client it is first come, first served (round robin; Nagle, RFC 970). So a client that sends
a hundred requests delays another's by one turn, not by a hundred.

Running turns are tasks of a :class:`~callmemaybe.decoding.batch.DecodeBatch`: each waits where it needs
a forward pass, and all of them go through the model together. Everything else happens on the event
loop. A turn whose client has disconnected, or whose time is up, ends at its next update, its next
forward pass, or where it yields, whichever comes first.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from callmemaybe.generation.turn import TurnGenerator
from callmemaybe.grammar.automaton import steps_limited
from callmemaybe.grammar.json_schema.document import SchemaTooLarge
from callmemaybe.server.config import ServerConfig
from callmemaybe.server.gc_tuning import COSTLY_FAILURE
from callmemaybe.server.http_errors import ApiError, api_error
from callmemaybe.server.turns import TurnRequest, TurnUpdate, turn_updates

T = TypeVar("T")


class QueueFull(Exception):
    """The queue has no room, for anybody or for this client."""


class FairQueue(Generic[T]):
    """Waiting items of clients: at most ``most`` in all, ``most_each`` of one client."""

    def __init__(self, most: int, most_each: int) -> None:
        self._most = most
        self._most_each = most_each
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()
        self._count = 0

    def put(self, client: str, *items: T, free: int = 0) -> None:
        """Add items of a client: all of them, or none (raises QueueFull).

        ``free`` of them need no room in the queue, since they will be taken at once.
        """
        line = self._waiting.get(client)
        mine = len(line) if line is not None else 0
        more = len(items) - free
        if self._count + more > self._most or mine + more > self._most_each:
            raise QueueFull
        if line is None:
            line = self._waiting[client] = deque()
        line.extend(items)
        self._count += len(items)

    def take(self) -> T | None:
        """Remove and return the next item; None if none waits."""
        if not self._waiting:
            return None
        client, line = self._waiting.popitem(last=False)
        item = line.popleft()
        if line:
            self._waiting[client] = line
        self._count -= 1
        return item

    def remove(self, client: str, item: T) -> bool:
        """Remove an item; return False if it is not waiting."""
        line = self._waiting.get(client)
        if line is None or item not in line:
            return False
        line.remove(item)
        if not line:
            del self._waiting[client]
        self._count -= 1
        return True

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        """Iterate over the waiting items, client by client."""
        for line in self._waiting.values():
            yield from line


#: The number of recent turns that waiting times are estimated from.
_RECENT = 32
#: Seconds for running turns to notice that the server is closing.
_CLOSING = 2.0


class TaskRunner(Protocol):
    """Runs turns on other threads; a ``DecodeBatch`` is one."""

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Run ``work`` on another thread, together with others where possible."""
        ...

    def close(self) -> None:
        """Stop running anything."""
        ...


class ThreadRunner:
    """Runs turns that only wait, each in a thread of its own; the scheduler bounds how many there are."""

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Run ``work`` in a thread, which the interpreter does not wait for at its end."""
        future: Future[None] = Future()

        def run() -> None:
            future.set_running_or_notify_cancel()
            try:
                work()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(None)

        threading.Thread(target=run, name="turn", daemon=True).start()
        return future

    def close(self) -> None:
        """Do nothing: the turns end where their requests are closed."""


@dataclass(eq=False)
class ScheduledTurn:
    """One turn of a request: choice number ``index``."""

    pending: PendingRequest
    index: int
    request: TurnRequest
    task: Future[None] | None = None
    started: float = 0.0
    #: When its task was cancelled.
    cancelled: float | None = None

    @property
    def blocks_others(self) -> bool:
        """Whether others wait while it goes on; a task that encodes a long text lets them run."""
        return not getattr(self.task, "lets_others_run", False)


@dataclass(eq=False)
class PendingRequest:
    """The turns of one request, and their updates; iterate over it once.

    ``TurnScheduler.cancel`` ends what still waits or runs.
    """

    scheduler: TurnScheduler
    client: str
    turns: list[ScheduledTurn] = field(default_factory=list)
    created: float = 0.0
    first: float | None = None
    is_closed: bool = False
    updates: asyncio.Queue[tuple[int, TurnUpdate | BaseException]] = field(
        default_factory=asyncio.Queue
    )

    async def __aiter__(self) -> AsyncIterator[tuple[int, TurnUpdate]]:
        """Yield the updates of all turns, each with the number of its choice, as they come."""
        remaining = len(self.turns)
        while remaining:
            index, update = await self.updates.get()
            if isinstance(update, BaseException):
                raise api_error(update) from update
            yield index, update
            remaining -= update.result is not None

    @property
    def waited(self) -> float:
        """Seconds until the first of its turns started; so far, if none has."""
        starts = [turn.started for turn in self.turns if turn.started]
        return (min(starts) if starts else self.scheduler.clock()) - self.created

    @property
    def has_started(self) -> bool:
        """Whether any of its turns has started."""
        return any(turn.task is not None for turn in self.turns)


class TurnScheduler:
    """Runs turns of one model, as many at once as there are slots. Create it on its event loop.

    ``new_id`` returns an id for a call; ``clock`` returns seconds.
    """

    def __init__(
        self,
        generator: TurnGenerator,
        runner: TaskRunner,
        config: ServerConfig,
        *,
        new_id: Callable[[], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.generator = generator
        self.clock = clock
        self._runner = runner
        self._config = config
        self._new_id = new_id
        self._queue: FairQueue[ScheduledTurn] = FairQueue(config.queue, config.queue_per_client)
        self._running: set[ScheduledTurn] = set()
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self.is_stopping = False
        #: Whether a turn has failed that took long: the next one collects what it left, once its error is gone.
        self._has_garbage = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def waiting(self) -> int:
        """The number of waiting turns."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """The number of turns in a slot."""
        return len(self._running)

    @property
    def is_stuck(self) -> bool:
        """Whether a turn goes on although it was cancelled, and blocks all others."""
        late = self.clock() - self._config.stuck_seconds
        return any(turn.cancelled is not None and turn.cancelled < late and turn.blocks_others
                   for turn in self._running)  # fmt: skip

    def submit(self, client: str, requests: Sequence[TurnRequest]) -> PendingRequest:
        """Queue the turns of a request.

        Raises ApiError: 429 if the queue has no room, 503 if the server is stopping or stuck.
        """
        self.check()
        pending = PendingRequest(self, client, created=self.clock())
        pending.turns = [
            ScheduledTurn(pending, index, request) for index, request in enumerate(requests)
        ]
        try:
            free = self._config.slots - len(self._running)
            self._queue.put(client, *pending.turns, free=free)
        except QueueFull:
            raise ApiError(
                429,
                f"{self.waiting} turns wait already, and {len(requests)} more find no room; try again "
                "later.",
                code="queue_full",
                retry_after=self.expected_wait(),
            ) from None
        self._idle.clear()
        self._admit()
        return pending

    def check(self) -> None:
        """Raise ApiError (503) if no request can be taken: the server is stopping, or a turn is stuck.

        A cancelled turn ends at its next forward pass, or where it yields. One that reaches neither
        (an engine may hang) blocks all others; ``/healthz`` reports it, so that the server can be
        restarted.
        """
        if self.is_stopping:
            raise ApiError(503, "The server is stopping.", code="stopping", retry_after=1)
        if self.is_stuck:
            raise ApiError(503, "A request blocks the model for all others.", code="stuck",
                          retry_after=self._config.stuck_seconds)  # fmt: skip

    def expected_wait(self) -> float:
        """Return an estimate, in seconds, of how long a new turn will wait."""
        each = sum(self._recent) / len(self._recent) if self._recent else 1.0
        return min(60.0, each * (len(self._queue) + 1) / self._config.slots)

    def cancel(self, pending: PendingRequest, error: ApiError | None = None) -> None:
        """End the turns of a request that wait or run, with ``error`` if one is given."""
        if pending.is_closed:
            return
        pending.is_closed = True
        for turn in pending.turns:
            if turn.task is not None:
                turn.cancelled = self.clock()
                turn.task.cancel()
            else:
                self._queue.remove(pending.client, turn)
        if error is not None:
            pending.updates.put_nowait((0, error))
        self._check_idle()

    async def watch(self) -> None:
        """Call ``expire`` four times a second, for ever."""
        while True:
            await asyncio.sleep(0.25)
            self.expire()

    def expire(self) -> None:
        """End requests that have waited too long for a slot, or run for too long."""
        now, config = self.clock(), self._config
        for turn in list(self._queue):
            # A request that has started is not given up because the rest of it waits.
            if not turn.pending.has_started and now - turn.pending.created > config.queue_seconds:
                self.cancel(turn.pending, ApiError(
                    429, f"No slot was free within {config.queue_seconds:g} s; try again later.",
                    code="queue_timeout", retry_after=self.expected_wait(),
                ))  # fmt: skip
        for turn in list(self._running):
            if now - turn.started > config.run_seconds:
                self.cancel(turn.pending, ApiError(
                    504, f"The answer was not complete within {config.run_seconds:g} s; ask for "
                    "fewer tokens.", code="timeout",
                ))  # fmt: skip

    async def stop(self, grace: float) -> None:
        """Refuse new requests; let the others finish within ``grace`` seconds, then end them."""
        self.is_stopping = True
        try:
            await asyncio.wait_for(self._idle.wait(), grace)
        except TimeoutError:
            error = ApiError(503, "The server was stopped.", code="stopping", retry_after=1)
            for pending in {turn.pending for turn in [*self._queue, *self._running]}:
                self.cancel(pending, error)

    async def close(self) -> None:
        """Close the task runner, waiting at most two seconds for running turns."""
        closing = threading.Thread(target=self._runner.close, daemon=True)
        closing.start()
        end = self.clock() + _CLOSING
        while closing.is_alive() and self.clock() < end:
            await asyncio.sleep(0.01)

    # -- from the queue to the model, and back ----------------------------------------------------

    def _admit(self) -> None:
        while len(self._running) < self._config.slots:
            turn = self._queue.take()
            if turn is None:
                return
            self._start(turn)

    def _too_costly(self) -> SchemaTooLarge:
        return SchemaTooLarge(
            self._config.turn_steps,
            what="what one request asks for",
            setting="ServerConfig.turn_steps",
        )

    def _start(self, turn: ScheduledTurn) -> None:
        loop, pending = self.loop, turn.pending
        turn.started = self.clock()

        def work() -> None:
            if self._has_garbage:
                self._has_garbage = False
                gc.collect()
            generator = turn.request.generator or self.generator
            stream = turn_updates(generator, turn.request, self._new_id)
            try:
                with steps_limited(self._config.turn_steps, self._too_costly):
                    for update in stream:
                        if pending.is_closed:
                            return
                        if update:
                            loop.call_soon_threadsafe(self._deliver, turn, update)
            finally:
                stream.close()

        def ended(task: Future[None]) -> None:
            loop.call_soon_threadsafe(self._ended, turn, task)

        self._running.add(turn)
        turn.task = self._runner.submit(work)
        turn.task.add_done_callback(ended)

    def _deliver(self, turn: ScheduledTurn, update: TurnUpdate | BaseException) -> None:
        pending = turn.pending
        if pending.is_closed:
            return
        has_content = isinstance(update, TurnUpdate) and (update.events or update.result)
        if pending.first is None and has_content:
            pending.first = self.clock()
        pending.updates.put_nowait((turn.index, update))

    def _ended(self, turn: ScheduledTurn, task: Future[None]) -> None:
        """Free the slot of a turn, and deliver its error if it failed."""
        self._running.discard(turn)
        try:
            error = task.exception()
        except CancelledError:
            error = None
        if error is not None and not isinstance(error, CancelledError):
            self._has_garbage |= self.clock() - turn.started > COSTLY_FAILURE
            self._deliver(turn, error)
        else:
            self._recent.append(self.clock() - turn.started)
        self._admit()
        self._check_idle()

    def _check_idle(self) -> None:
        if not self._running and not len(self._queue):
            self._idle.set()
