"""Batched decoding: tasks that ask a model at the same time are answered by one forward pass.

Batching sits behind the seam of models: a :class:`DecodeBatch` is a model whose sessions share passes.
What decodes (a decoder, a caller, a speaker) is written as if it were alone and runs as a *task*;
where it asks for logits it is held until every running task asks, and all are fed together. A task
that ends makes place for the next one; nobody waits for a batch to fill or to drain ("continuous
batching", Yu et al., Orca, 2022).

Only one task runs at a time: a baton is handed over where a pass is asked for. So tasks may share
what they learn (masks, automata, kept prefixes) without locks, and tasks that have just begun
prepare their prompts while a pass is on its way, since engines let go of the interpreter.

A task whose language takes much work (a schema may be made to) gives way after every so many steps of
it (:data:`TURN`): the others get a pass without it, and of those that give way one goes on a pass. So
whoever asks for passes waits for TURN steps at most each time, however long another computes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from callmemaybe.errors import ModelError
from callmemaybe.grammar.pace import paced
from callmemaybe.models.base import Feed, Files, Frozen, Logits, Model, Session, leaves_of

T = TypeVar("T")
Answer = Logits | list[Logits]
#: Steps of automata that a task takes before it gives way: 0.6 to 3 ms of one core for the worst known.
TURN = 128


class DecodeTask(Future[T]):
    """What becomes of work that was submitted; a ``concurrent.futures.Future``.

    ``cancel`` also stops work that has begun: CancelledError is raised in it where it next asks for
    a pass or would give way, and is what ``result`` then raises. It returns False if the work is done.
    """

    def __init__(self, work: Callable[[], T], batch: DecodeBatch) -> None:
        super().__init__()
        self.work = work
        self.batch = batch
        self.is_stopped = False
        #: Steps of automata since it last gave way.
        self.steps = 0

    def cancel(self) -> bool:
        """Let the work not begin, or stop where it next asks for a pass or would give way."""
        if super().cancel():
            self.batch.forget(self)
            return True
        if self.done():
            return False
        self.is_stopped = True
        return True


@dataclass(eq=False)
class _Asked:
    """A task that is held until a pass has been made for it."""

    task: DecodeTask[Any]
    feed: Feed | None
    paths: tuple[Session, Sequence[Sequence[int]]] | None
    answer: Answer | BaseException | None = None
    wake: threading.Event = field(default_factory=threading.Event)

    def as_feed(self) -> Feed | None:
        """Return what can share a pass: a feed, or paths of which one holds all others."""
        if self.feed is not None or self.paths is None:
            return self.feed
        session, paths = self.paths
        leaves = leaves_of(paths)
        return Feed(session.fork(), leaves[0], len(leaves[0])) if len(leaves) == 1 else None

    def take(self, answer: Logits | ModelError | BaseException) -> None:
        """Note what came of the feed, as the answer to what was asked."""
        if self.paths is None or isinstance(answer, BaseException):
            self.answer = answer
        else:
            self.answer = [answer[: len(path)].copy() for path in self.paths[1]]


_here = threading.local()


class DecodeBatch:
    """A model whose sessions share forward passes, and the tasks that use them.

    ``most`` is how many tasks run at a time; others wait, first come first served. Engines without
    a batched pass feed one session after the other. Outside tasks, sessions work as the model's own.
    Closing (also the end of ``with``) drops what waits and awaits what runs.
    """

    def __init__(self, model: Model, most: int = 8) -> None:
        if most < 1:
            raise ModelError(f"a batch of {most} tasks cannot run; allow at least 1")
        self.model, self.most = model, most
        self._changed = threading.Condition()
        self._baton = threading.Lock()
        self._passing = threading.Lock()
        self._queue: deque[DecodeTask[Any]] = deque()
        self._asked: list[_Asked] = []
        self._running = 0
        self._awake = 0  # tasks that run and are not held for a pass
        self._is_passing = False
        self._rounds = 0  # passes made
        #: Those that give way, first come first; the round in which one of them last went on.
        self._yielding: deque[DecodeTask[Any]] = deque()
        self._went_on = 0
        self._is_driven = False
        self._is_closed = False
        #: Passes made for tasks, and the shares of tasks in them.
        self.passes = 0
        self.shares = 0

    # -- as a model -----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    @property
    def size(self) -> int:
        """Width of the logits; ids are below it."""
        return self.model.size

    @property
    def context(self) -> int | None:
        """The most ids one session can hold, where known."""
        return self.model.context

    @property
    def files(self) -> Files:
        """The files that belong to the model."""
        return self.model.files

    @property
    def fingerprint(self) -> str | None:
        """What tells the model from others, where it can be told."""
        return getattr(self.model, "fingerprint", None)

    @property
    def most_sessions(self) -> int | None:
        """How many sessions the model holds at a time, where there is a limit."""
        return getattr(self.model, "most_sessions", None)

    def open(self) -> Session:
        """Return an empty session."""
        return self.share_passes(self.model.open())

    def share_passes(self, session: Session) -> Session:
        """Return ``session``, one of the model's own, as one that shares passes."""
        return _Seat(session, self)

    # -- tasks ------------------------------------------------------------------------------------

    def submit(self, work: Callable[[], T]) -> DecodeTask[T]:
        """Let ``work`` run as a task, soon; from any thread.

        It must not wait for anything but passes (see :func:`run_blocking`). Raises ModelError if the
        batch is closed.
        """
        task = DecodeTask(work, self)
        with self._changed:
            if self._is_closed:
                raise ModelError("the batch is closed; it takes no more work")
            if self._running < self.most:
                self._running += 1
                self._awake += 1
                threading.Thread(target=self._work, args=(task,), daemon=True).start()
            else:
                self._queue.append(task)
            if not self._is_driven:
                self._is_driven = True
                threading.Thread(target=self._drive, daemon=True).start()
        return task

    @property
    def running(self) -> int:
        """How many tasks run."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many tasks wait for one that runs to end."""
        return len(self._queue)

    def forget(self, task: DecodeTask[Any]) -> None:
        """Take a task that was cancelled from those that wait."""
        with self._changed:
            if task in self._queue:
                self._queue.remove(task)

    def close(self) -> None:
        """Drop what waits and await what runs; nothing more may be submitted."""
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
        """Run a task, and those that waited for it to end."""
        following: DecodeTask[Any] | None = task
        while following is not None:
            if following.set_running_or_notify_cancel():
                self._run(following)
            with self._changed:
                following = self._queue.popleft() if self._queue else None
                if following is None:
                    self._running -= 1
                    self._awake -= 1
                self._changed.notify_all()

    def _run(self, task: DecodeTask[Any]) -> None:
        result, error = None, None
        with self._baton:
            _here.task = task
            try:
                with paced(lambda steps: self._paced(task, steps)):
                    result = task.work()
            except BaseException as raised:  # handed on: to whoever asks for the result
                error = raised
            finally:
                _here.task = None
        if error is None:
            task.set_result(result)
        else:
            task.set_exception(error)

    def ask(
        self,
        feed: Feed | None = None,
        paths: tuple[Session, Sequence[Sequence[int]]] | None = None,
    ) -> Answer:
        """Return what feeding (or branching) gives, in a pass with the other tasks."""
        task: DecodeTask[Any] | None = getattr(_here, "task", None)
        if task is None or task.batch is not self:
            with self._passing:
                return feed.session.feed(feed.ids, feed.keep) if feed else _branches(paths)
        asked = _Asked(task, feed, paths)
        with self._changed:
            self._asked.append(asked)
            self._awake -= 1  # whoever answers counts the task as awake again
            self._changed.notify_all()
        self._baton.release()
        asked.wake.wait()
        self._baton.acquire()
        if isinstance(asked.answer, BaseException):
            raise asked.answer
        if task.is_stopped:
            raise CancelledError
        return cast("Answer", asked.answer)

    def rest(self, wait: Callable[[], T]) -> T:
        """Hand the baton on, wait, and take it again; in a task only."""
        with self._changed:
            self._awake -= 1
            self._changed.notify_all()
        self._baton.release()
        try:
            return wait()
        finally:
            with self._changed:
                self._awake += 1
            self._baton.acquire()

    def _paced(self, task: DecodeTask[Any], steps: int) -> None:
        """Count the steps of a task, and let it give way where they are enough."""
        if task.is_stopped:
            raise CancelledError
        task.steps += steps
        if task.steps >= TURN:
            task.steps = 0
            self._give_way(task)

    def _give_way(self, task: DecodeTask[Any]) -> None:
        """Let the others run until they are held, and have their pass; in a task only."""
        with self._changed:
            if self._awake == 1 and not (self._asked or self._is_passing or self._yielding):
                return  # alone
            begun = self._rounds
            self._yielding.append(task)
            self._awake -= 1
            self._changed.notify_all()
        self._baton.release()
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._may_go_on(task, begun))
                self._went_on = self._rounds
                self._yielding.remove(task)
                self._awake += 1
                self._changed.notify_all()
        finally:
            self._baton.acquire()
        if task.is_stopped:
            raise CancelledError

    def _may_go_on(self, task: DecodeTask[Any], begun: int) -> bool:
        if self._yielding[0] is not task:
            return False
        is_idle = not (self._awake or self._asked or self._is_passing)
        return is_idle or self._rounds > max(begun, self._went_on)

    def _drive(self) -> None:
        """Make passes, each once every running task asks for one, until there are no tasks."""
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: not self._running or (self._asked and not self._awake)
                )
                if not self._running:
                    self._is_driven = False
                    return
                asked, self._asked = self._asked, []
                self._is_passing = True
            self._serve(asked)
            with self._changed:
                self._awake += len(asked)
                self._is_passing = False
                self._rounds += 1
                self._changed.notify_all()
            for one in asked:
                one.wake.set()

    def _serve(self, asked: Sequence[_Asked]) -> None:
        """Find the answers to all that is asked; what fails is an answer too."""
        going: list[_Asked] = []
        fed: list[tuple[_Asked, Feed]] = []
        for one in asked:
            if one.task.is_stopped:
                one.answer = CancelledError()
                continue
            going.append(one)
            try:
                feed = one.as_feed()
            except BaseException as error:  # an engine that has no session left, say
                one.answer = error
                continue
            if feed is not None:
                fed.append((one, feed))
        with self._passing:
            if fed:
                self.passes += 1
                self.shares += len(fed)
                try:
                    found = fed[0][1].session.together([feed for _, feed in fed])
                except BaseException as error:  # nobody's task: it belongs to all of them
                    found = [error] * len(fed)  # type: ignore[list-item]
                for (one, _), answer in zip(fed, found, strict=True):
                    one.take(answer)
            for one in going:
                if one.paths is not None and one.answer is None:
                    try:
                        one.answer = _branches(one.paths)
                    except BaseException as error:
                        one.answer = error


class _Seat(Session):
    """A session of the model whose passes are made by the batch."""

    def __init__(self, session: Session, batch: DecodeBatch) -> None:
        self._session, self._batch = session, batch

    @property
    def length(self) -> int:
        """How many ids the session holds."""
        return self._session.length

    @property
    def size(self) -> int:
        """Width of the logits; ids are below it."""
        return self._session.size

    @property
    def memory(self) -> int:
        """About how many bytes of keys and values the session holds; 0 where that is not known."""
        return self._session.memory

    def trim(self) -> None:
        """Give back what the session has room for and does not hold."""
        self._session.trim()

    def feed(self, ids: Sequence[int], keep: int = 1) -> Logits:
        """Append ids, with what other tasks feed; return the logits after the last ``keep``."""
        return cast("Logits", self._batch.ask(feed=Feed(self._session, ids, keep)))

    def rewind(self, n: int) -> None:
        """Forget the last ``n`` ids."""
        self._session.rewind(n)

    def fork(self) -> _Seat:
        """Return an independent session that holds the same ids."""
        return _Seat(self._session.fork(), self._batch)

    def freeze(self) -> Frozen | None:
        """Return what the session holds, as arrays to be stored."""
        return self._session.freeze()

    def thaw(self, length: int, frozen: Frozen) -> bool:
        """Let an empty session hold what was stored."""
        return self._session.thaw(length, frozen)

    def branches(self, paths: Sequence[Sequence[int]]) -> list[Logits]:
        """Return the logits after each id of each path; see :meth:`Session.branches`."""
        return cast("list[Logits]", self._batch.ask(paths=(self._session, paths)))


def run_blocking(wait: Callable[[], T]) -> T:
    """Return ``wait()``, which may have to wait for another task of the same batch.

    Within a task the others go on meanwhile; elsewhere it is just called.
    """
    task: DecodeTask[Any] | None = getattr(_here, "task", None)
    return wait() if task is None else task.batch.rest(wait)


def _branches(paths: tuple[Session, Sequence[Sequence[int]]] | None) -> list[Logits]:
    assert paths is not None
    session, ways = paths
    return session.branches(ways)
