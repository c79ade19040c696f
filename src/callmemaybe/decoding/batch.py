"""Batched decoding: tasks that need a forward pass at the same time share one.

A :class:`DecodeBatch` is a model whose sessions share passes, so that decoders and callers are written as
if they were alone. Each runs as a *task*, in a thread of its own. A task that asks for logits is blocked
until every running task asks, and all are fed together. When a task ends, the next one starts at once;
nobody waits for a batch to fill or to drain ("continuous batching", Yu et al., Orca, 2022).

Only the task that holds the run lock runs; the lock is handed over where a pass is asked for. So tasks may
share caches (masks, automata, prefixes) without locks, and tasks that have just begun prepare their
prompts during a pass, since engines release the interpreter.

A task whose automata take many steps yields its turn after every :data:`STEPS_PER_TURN` of them: the
others get a pass without it, and after each pass one of those that yielded resumes. So whoever asks for
passes waits for that many steps at most each time, however long another task computes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar, cast

from callmemaybe.errors import ModelError
from callmemaybe.grammar.automaton import progress_reported_to
from callmemaybe.models.base import Feed, KVSnapshot, Logits, Model, Session, maximal_paths

T = TypeVar("T")
PassResult = Logits | list[Logits]
#: Steps of automata that a task takes before it yields: 0.6 to 3 ms of one core in the worst case known.
STEPS_PER_TURN = 128


class DecodeTask(Future[T]):
    """The future of submitted work; a ``concurrent.futures.Future``.

    ``cancel`` also stops work that has begun: CancelledError is raised in it where it next asks for
    a pass or yields, and by ``result``. It returns False if the work is done.
    """

    def __init__(self, work: Callable[[], T], batch: DecodeBatch) -> None:
        super().__init__()
        self.work = work
        self.batch = batch
        self.is_cancelled = False
        #: Whether it is within :func:`run_blocking`, where it keeps no other task waiting.
        self.lets_others_run = False
        #: Steps of automata since it last yielded.
        self.steps = 0

    def cancel(self) -> bool:
        """Keep the work from beginning, or stop it where it next asks for a pass or yields."""
        if super().cancel():
            self.batch.discard(self)
            return True
        if self.done():
            return False
        self.is_cancelled = True
        return True


class _Paths(NamedTuple):
    """Branching paths to score after what a session holds."""

    session: Session
    paths: Sequence[Sequence[int]]


@dataclass(eq=False)
class _PassRequest:
    """What a blocked task asks for, and what came of it."""

    task: DecodeTask[Any]
    work: Feed | _Paths
    result: PassResult | BaseException | None = None
    wake: threading.Event = field(default_factory=threading.Event)

    def as_feed(self) -> Feed | None:
        """Return the work as a feed, which can share a pass; None if it takes several."""
        if isinstance(self.work, Feed):
            return self.work
        leaves = maximal_paths(self.work.paths)
        return (
            Feed(self.work.session.fork(), leaves[0], len(leaves[0])) if len(leaves) == 1 else None
        )

    def set_result(self, result: Logits | BaseException) -> None:
        """Store the result of the feed as that of the work."""
        if isinstance(self.work, Feed) or isinstance(result, BaseException):
            self.result = result
        else:
            self.result = [result[: len(path)].copy() for path in self.work.paths]


_current = threading.local()


class DecodeBatch:
    """A model whose sessions share forward passes, and the tasks that use them.

    ``max_tasks`` run at a time; others wait, first come first served. Engines without a batched pass
    feed one session after the other. Outside tasks, sessions work as the model's own. Closing (also the
    end of ``with``) cancels the tasks that wait and awaits those that run.
    """

    def __init__(self, model: Model, max_tasks: int = 8) -> None:
        if max_tasks < 1:
            raise ModelError(f"a batch of {max_tasks} tasks cannot run; allow at least 1")
        self.model, self.max_tasks = model, max_tasks
        self.name, self.size, self.context, self.files = (
            model.name,
            model.size,
            model.context,
            model.files,
        )
        #: How many sessions the model holds at a time, where there is a limit.
        self.most_sessions: int | None = getattr(model, "most_sessions", None)
        self._changed = threading.Condition()
        self._run_lock = threading.Lock()
        self._model_lock = threading.Lock()
        self._queue: deque[DecodeTask[Any]] = deque()
        self._requests: list[_PassRequest] = []
        self._running = 0
        self._runnable = 0  # running tasks that are not blocked
        self._is_passing = False
        self._rounds = 0  # how often passes were made
        #: Tasks that have yielded, in order; the round in which one of them last resumed.
        self._yielded: deque[DecodeTask[Any]] = deque()
        self._last_resumed = 0
        self._has_driver = False
        self._is_closed = False
        #: Passes made for tasks, and the feeds of tasks in them.
        self.passes = 0
        self.feeds = 0

    # -- as a model -----------------------------------------------------------------------------

    @property
    def fingerprint(self) -> str | None:
        """What identifies the model's files, where that is known."""
        return getattr(self.model, "fingerprint", None)

    def open(self) -> Session:
        """Return an empty session."""
        return self.share_passes(self.model.open())

    def share_passes(self, session: Session) -> Session:
        """Return ``session``, one of the model's own, as a session that shares passes."""
        return _BatchedSession(session, self)

    # -- tasks ------------------------------------------------------------------------------------

    def submit(self, work: Callable[[], T]) -> DecodeTask[T]:
        """Run ``work`` as a task; may be called from any thread.

        It must not wait for anything but passes (see :func:`run_blocking`). Raises ModelError if the
        batch is closed.
        """
        task = DecodeTask(work, self)
        with self._changed:
            if self._is_closed:
                raise ModelError("the batch is closed; it takes no more work")
            if self._running < self.max_tasks:
                self._running += 1
                self._runnable += 1
                threading.Thread(target=self._work, args=(task,), daemon=True).start()
            else:
                self._queue.append(task)
            if not self._has_driver:
                self._has_driver = True
                threading.Thread(target=self._drive, daemon=True).start()
        return task

    @property
    def running(self) -> int:
        """How many tasks run."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many tasks wait for a running one to end."""
        return len(self._queue)

    def discard(self, task: DecodeTask[Any]) -> None:
        """Remove a cancelled task from those that wait."""
        with self._changed:
            if task in self._queue:
                self._queue.remove(task)

    def close(self) -> None:
        """Cancel the tasks that wait and await those that run; nothing more may be submitted."""
        with self._changed:
            self._is_closed = True
            waiting = list(self._queue)
        for task in waiting:
            task.cancel()
        with self._changed:
            self._changed.wait_for(lambda: not self._running)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- inside -----------------------------------------------------------------------------------

    def _work(self, task: DecodeTask[Any]) -> None:
        """Run a task, then tasks that wait, until there are none."""
        following: DecodeTask[Any] | None = task
        while following is not None:
            if following.set_running_or_notify_cancel():
                self._run(following)
            with self._changed:
                following = self._queue.popleft() if self._queue else None
                if following is None:
                    self._running -= 1
                    self._runnable -= 1
                self._changed.notify_all()

    def _run(self, task: DecodeTask[Any]) -> None:
        result, error = None, None
        with self._run_lock:
            _current.task = task
            try:
                with progress_reported_to(lambda steps: self._count_steps(task, steps)):
                    result = task.work()
            except BaseException as raised:  # raised where the result is asked for
                error = raised
            finally:
                _current.task = None
        if error is None:
            task.set_result(result)
        else:
            task.set_exception(error)

    def run_pass(self, work: Feed | _Paths) -> PassResult:
        """Return the logits of a feed (or of paths), from a pass shared with the other tasks."""
        task: DecodeTask[Any] | None = getattr(_current, "task", None)
        if task is None or task.batch is not self:
            with self._model_lock:
                return _run(work)
        request = _PassRequest(task, work)
        with self._changed:
            self._requests.append(request)
            self._runnable -= 1  # the driver counts the task as runnable again
            self._changed.notify_all()
        self._run_lock.release()
        request.wake.wait()
        self._run_lock.acquire()
        if isinstance(request.result, BaseException):
            raise request.result
        if task.is_cancelled:
            raise CancelledError
        return cast("PassResult", request.result)

    def run_blocking(self, task: DecodeTask[Any], wait: Callable[[], T]) -> T:
        """Release the run lock, wait, and take it again; in that task only."""
        with self._changed:
            self._runnable -= 1
            self._changed.notify_all()
        task.lets_others_run = True
        self._run_lock.release()
        try:
            found = wait()
        finally:
            with self._changed:
                self._runnable += 1
            self._run_lock.acquire()
            task.lets_others_run = False
        if task.is_cancelled:
            raise CancelledError
        return found

    def _count_steps(self, task: DecodeTask[Any], steps: int) -> None:
        """Count the steps of a task, and yield its turn after enough of them."""
        if task.is_cancelled:
            raise CancelledError
        task.steps += steps
        if task.steps >= STEPS_PER_TURN:
            task.steps = 0
            self._yield_turn(task)

    def _yield_turn(self, task: DecodeTask[Any]) -> None:
        """Let the others run until they are blocked, and get their pass; in a task only."""
        with self._changed:
            if self._runnable == 1 and not (self._requests or self._is_passing or self._yielded):
                return  # no other task
            begun = self._rounds
            self._yielded.append(task)
            self._runnable -= 1
            self._changed.notify_all()
        self._run_lock.release()
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._may_resume(task, begun))
                self._last_resumed = self._rounds
                self._yielded.remove(task)
                self._runnable += 1
                self._changed.notify_all()
        finally:
            self._run_lock.acquire()
        if task.is_cancelled:
            raise CancelledError

    def _may_resume(self, task: DecodeTask[Any], begun: int) -> bool:
        if self._yielded[0] is not task:
            return False
        is_idle = not (self._runnable or self._requests or self._is_passing)
        return is_idle or self._rounds > max(begun, self._last_resumed)

    def _drive(self) -> None:
        """Make a pass whenever every running task asks for one, until there are no tasks."""
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: not self._running or (self._requests and not self._runnable)
                )
                if not self._running:
                    self._has_driver = False
                    return
                requests, self._requests = self._requests, []
                self._is_passing = True
            self._answer(requests)
            with self._changed:
                self._runnable += len(requests)
                self._is_passing = False
                self._rounds += 1
                self._changed.notify_all()
            for request in requests:
                request.wake.set()

    def _answer(self, requests: Sequence[_PassRequest]) -> None:
        """Set the result of each request; an error is a result too."""
        feeds: list[tuple[_PassRequest, Feed]] = []
        for request in requests:
            if request.task.is_cancelled:
                request.result = CancelledError()
                continue
            try:
                feed = request.as_feed()
            except BaseException as error:  # an engine may have no session left
                request.result = error
                continue
            if feed is not None:
                feeds.append((request, feed))
        with self._model_lock:
            if feeds:
                self.passes += 1
                self.feeds += len(feeds)
                try:
                    found = feeds[0][1].session.feed_batch([feed for _, feed in feeds])
                except BaseException as error:  # of no one task: all of them get it
                    found = [error] * len(feeds)  # type: ignore[list-item]
                for (request, _), result in zip(feeds, found, strict=True):
                    request.set_result(result)
            for request in requests:
                if request.result is None:
                    try:
                        request.result = _run(request.work)
                    except BaseException as error:
                        request.result = error


class _BatchedSession(Session):
    """A session of the model whose passes the batch makes."""

    def __init__(self, session: Session, batch: DecodeBatch) -> None:
        self._session, self._batch = session, batch

    @property
    def length(self) -> int:
        return self._session.length

    @property
    def size(self) -> int:
        return self._session.size

    @property
    def memory(self) -> int:
        return self._session.memory

    @property
    def copied(self) -> int | None:
        return self._session.copied

    def trim(self) -> None:
        self._session.trim()

    def feed(self, ids: Sequence[int], keep: int = 1) -> Logits:
        return cast("Logits", self._batch.run_pass(Feed(self._session, ids, keep)))

    def rewind(self, n: int) -> None:
        self._session.rewind(n)

    def fork(self) -> _BatchedSession:
        return _BatchedSession(self._session.fork(), self._batch)

    def snapshot(self) -> KVSnapshot | None:
        return self._session.snapshot()

    def restore(self, length: int, frozen: KVSnapshot) -> bool:
        return self._session.restore(length, frozen)

    def branches(self, paths: Sequence[Sequence[int]]) -> list[Logits]:
        return cast("list[Logits]", self._batch.run_pass(_Paths(self._session, paths)))


def run_blocking(wait: Callable[[], T]) -> T:
    """Return ``wait()``, which may block until another task of the same batch has done something.

    Within a task, the other tasks run meanwhile; elsewhere it is just called. Raises CancelledError where the
    task was cancelled meanwhile.
    """
    task: DecodeTask[Any] | None = getattr(_current, "task", None)
    if task is None or task.lets_others_run:
        return wait()
    return task.batch.run_blocking(task, wait)


#: Held where something takes long, and much memory, without the model.
_long_work = threading.RLock()


def run_long(work: Callable[[], T]) -> T:
    """Return ``work()``, which takes long and needs no model: other tasks run meanwhile, as by :func:`run_blocking`.

    One such work goes on at a time, so it takes memory once and leaves the interpreter to the other tasks; what
    belongs to a task that was cancelled before its turn came is not begun.
    """
    task: DecodeTask[Any] | None = getattr(_current, "task", None)

    def alone() -> T:
        with _long_work:
            if task is not None and task.is_cancelled:
                raise CancelledError
            return work()

    return run_blocking(alone)


def _run(work: Feed | _Paths) -> PassResult:
    if isinstance(work, Feed):
        return work.session.feed(work.ids, work.keep)
    return work.session.branches(work.paths)
