"""Turns that wait and turns that run: the bridge between the event loop and the model.

Everything here happens on the event loop, except a turn's decoding, which is a task of the
:class:`~callmemaybe.decoding.batch.DecodeBatch`: all running turns are held where they ask for a forward
pass, and go through the model together. A turn whose client is gone, or whose time is up, ends at
its next update or pass, or where it gives way, whichever comes first.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Protocol

from callmemaybe.generation.local import LocalGenerator
from callmemaybe.server.http_errors import Problem, translated
from callmemaybe.server.queue import FairQueue, Full
from callmemaybe.server.settings import Settings
from callmemaybe.server.turns import TurnRequest, TurnUpdate, turn_updates

#: How many of the latest turns the estimate of a wait is made from.
_RECENT = 32
#: Seconds that turns have to notice that the server is at its end.
_CLOSING = 2.0


class Tasks(Protocol):
    """What runs turns: a ``Batch``, or anything else that does."""

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Run ``work`` on another thread, with others where that is possible."""
        ...

    def close(self) -> None:
        """Run nothing any more."""
        ...


@dataclass(eq=False)
class Job:
    """One turn of a ticket: choice number ``index``."""

    ticket: Ticket
    index: int
    request: TurnRequest
    task: Future[None] | None = None
    started: float = 0.0
    #: When it was told to end before its time.
    cancelled: float | None = None


@dataclass(eq=False)
class Ticket:
    """What one request waits for: its turns, and what they have told.

    Iterate over it once; ``OnnxEngine.drop`` ends whatever still runs.
    """

    engine: Engine
    client: str
    jobs: list[Job] = field(default_factory=list)
    created: float = 0.0
    first: float | None = None
    is_over: bool = False
    #: Why everything of it is to end, if it is.
    problem: Problem | None = None
    told: asyncio.Queue[tuple[int, TurnUpdate | BaseException]] = field(
        default_factory=asyncio.Queue
    )

    async def __aiter__(self) -> AsyncIterator[tuple[int, TurnUpdate]]:
        """Yield the updates of all turns, each with the number of its choice, as they come."""
        left = len(self.jobs)
        while left:
            index, update = await self.told.get()
            if isinstance(update, BaseException):
                raise translated(update) from update
            yield index, update
            left -= update.result is not None

    @property
    def waited(self) -> float:
        """Seconds until the first of its turns was begun; so far, if none was."""
        starts = [job.started for job in self.jobs if job.started]
        return (min(starts) if starts else self.engine.clock()) - self.created

    @property
    def is_begun(self) -> bool:
        """Whether any of its turns was begun."""
        return any(job.task is not None for job in self.jobs)


class Engine:
    """Runs turns of one model, as many at once as there are slots; is made on its event loop.

    ``new_id`` returns the id of a call; ``clock`` seconds.
    """

    def __init__(
        self,
        generator: LocalGenerator,
        tasks: Tasks,
        settings: Settings,
        *,
        new_id: Callable[[], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.generator = generator
        self.clock = clock
        self._tasks = tasks
        self._settings = settings
        self._new_id = new_id
        self._queue: FairQueue[Job] = FairQueue(settings.queue, settings.queue_per_client)
        self._running: set[Job] = set()
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self.is_stopping = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def waiting(self) -> int:
        """How many turns wait."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """How many turns are being decoded."""
        return len(self._running)

    def submit(self, client: str, requests: Sequence[TurnRequest]) -> Ticket:
        """Let the turns of a request wait for their slots.

        Raises Problem (429) if there is no room to wait, and (503) if the server is stopping.
        """
        self.check()
        ticket = Ticket(self, client, created=self.clock())
        ticket.jobs = [Job(ticket, index, request) for index, request in enumerate(requests)]
        try:
            free = self._settings.slots - len(self._running)
            self._queue.put(client, *ticket.jobs, free=free)
        except Full:
            raise Problem(
                429,
                f"{self.waiting} turns wait already, and {len(requests)} more find no room; try again "
                "later.",
                code="queue_full",
                retry_after=self.expected_wait(),
            ) from None
        self._idle.clear()
        self._admit()
        return ticket

    def check(self) -> None:
        """Raise Problem (503) where nothing new should be asked: at the end, and behind a stuck turn.

        A turn ends at its next forward pass, and where it gives way. One that was told to end, and
        does neither (an engine may hang), keeps all others from their passes; that is for whoever
        runs the server to notice, by ``/healthz``, and to start it anew.
        """
        if self.is_stopping:
            raise Problem(503, "The server is stopping.", code="stopping", retry_after=1)
        late = self.clock() - self._settings.stuck_seconds
        if any(job.cancelled is not None and job.cancelled < late for job in self._running):
            raise Problem(503, "A request keeps the model from all others.", code="stuck",
                          retry_after=self._settings.stuck_seconds)  # fmt: skip

    def expected_wait(self) -> float:
        """Return about how many seconds what is in the queue will take to be begun."""
        each = sum(self._recent) / len(self._recent) if self._recent else 1.0
        return min(60.0, each * (len(self._queue) + 1) / self._settings.slots)

    def drop(self, ticket: Ticket, problem: Problem | None = None) -> None:
        """End what still waits or runs of a request; tell it ``problem``, if there is one."""
        if ticket.is_over:
            return
        ticket.is_over = True
        for job in ticket.jobs:
            if job.task is not None:
                job.cancelled = self.clock()
                job.task.cancel()
            else:
                self._queue.remove(ticket.client, job)
        if problem is not None:
            ticket.told.put_nowait((0, problem))
        self._note_idle()

    async def watch(self) -> None:
        """End what has waited or run for too long, for ever; look four times a second."""
        while True:
            await asyncio.sleep(0.25)
            self.expire()

    def expire(self) -> None:
        """End what has waited or run for too long."""
        now, limits = self.clock(), self._settings
        for job in list(self._queue):
            # What is being answered is not given up for want of a slot for the rest of it.
            if not job.ticket.is_begun and now - job.ticket.created > limits.queue_seconds:
                self.drop(job.ticket, Problem(
                    429, f"No slot was free within {limits.queue_seconds:g} s; try again later.",
                    code="queue_timeout", retry_after=self.expected_wait(),
                ))  # fmt: skip
        for job in list(self._running):
            if now - job.started > limits.run_seconds:
                self.drop(job.ticket, Problem(
                    504, f"The answer was not complete within {limits.run_seconds:g} s; ask for "
                    "fewer tokens.", code="timeout",
                ))  # fmt: skip

    async def stop(self, grace: float) -> None:
        """Take nothing new; let what waits and runs finish within ``grace`` seconds, then end it."""
        self.is_stopping = True
        try:
            await asyncio.wait_for(self._idle.wait(), grace)
        except TimeoutError:
            problem = Problem(503, "The server was stopped.", code="stopping", retry_after=1)
            for ticket in {job.ticket for job in [*self._queue, *self._running]}:
                self.drop(ticket, problem)

    async def close(self) -> None:
        """Let go of the model; a turn that will not end is not waited for longer than that."""
        closing = threading.Thread(target=self._tasks.close, daemon=True)
        closing.start()
        end = self.clock() + _CLOSING
        while closing.is_alive() and self.clock() < end:
            await asyncio.sleep(0.01)

    # -- from the queue into the model, and out ---------------------------------------------------

    def _admit(self) -> None:
        while len(self._running) < self._settings.slots:
            job = self._queue.take()
            if job is None:
                return
            self._start(job)

    def _start(self, job: Job) -> None:
        loop, ticket = self.loop, job.ticket
        job.started = self.clock()

        def work() -> None:
            turn = turn_updates(self.generator, job.request, self._new_id)
            try:
                for update in turn:
                    if ticket.is_over:
                        return
                    if update:
                        loop.call_soon_threadsafe(self._tell, job, update)
            finally:
                turn.close()

        def ended(task: Future[None]) -> None:
            loop.call_soon_threadsafe(self._ended, job, task)

        self._running.add(job)
        job.task = self._tasks.submit(work)
        job.task.add_done_callback(ended)

    def _tell(self, job: Job, update: TurnUpdate | BaseException) -> None:
        ticket = job.ticket
        if ticket.is_over:
            return
        if ticket.first is None and not isinstance(update, BaseException):
            ticket.first = self.clock()
        ticket.told.put_nowait((job.index, update))

    def _ended(self, job: Job, task: Future[None]) -> None:
        """Free the slot, and tell of a turn that failed."""
        self._running.discard(job)
        try:
            error = task.exception()
        except CancelledError:
            error = None
        if error is not None and not isinstance(error, CancelledError):
            self._tell(job, error)
        else:
            self._recent.append(self.clock() - job.started)
        self._admit()
        self._note_idle()

    def _note_idle(self) -> None:
        if not self._running and not len(self._queue):
            self._idle.set()
