"""Many prompts at a time: submitted, worked on concurrently, returned in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from threading import Lock, Thread
from typing import Generic, Protocol, TypeVar
from weakref import WeakSet

from callmemaybe.decoding.batch import DecodeBatch, DecodeTask
from callmemaybe.decoding.decoder import Step
from callmemaybe.models.base import Model

T = TypeVar("T")
OnStep = Callable[[Step], None] | None
#: How many prompts are submitted for each one that is worked on.
AHEAD = 4
#: Default concurrency: for a server, and for a model in this process. For the latter sharing forward
#: passes brought nothing: the embedded model took 40.5, 43.6, 39.4 and 40.1 ms of CPU a call
#: with 1, 2, 4 and 8 at once on one core, and each has a key-value cache of its own.
ON_SERVER, AT_ONCE = 8, 1


class Submit(Protocol[T]):
    """Submits a prompt."""

    def __call__(self, prompt: str, on_step: OnStep = None) -> Future[T]:
        """Return the future of its outcome; from any thread. ``on_step`` is called in another."""
        ...


class _Threads(Generic[T]):
    """At most ``most`` threads that run ``call`` and are not joined at the end.

    The interpreter joins those of a ThreadPoolExecutor at exit, and a server may take minutes to answer.
    """

    def __init__(self, call: Callable[[str, OnStep], T], most: int) -> None:
        self._call = call
        self._idle = most
        self._lock = Lock()
        self._waiting: deque[tuple[Future[T], str, OnStep]] = deque()
        self._is_closed = False

    def submit(self, prompt: str, on_step: OnStep = None) -> Future[T]:
        """Submit a prompt; raises RuntimeError after :meth:`close`."""
        future: Future[T] = Future()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("nothing may be submitted after the end")
            self._waiting.append((future, prompt, on_step))
            starts = self._idle > 0
            self._idle -= starts
        if starts:
            Thread(target=self._work, daemon=True).start()
        return future

    def close(self) -> None:
        """Cancel what has not begun; what runs is left to end by itself."""
        with self._lock:
            self._is_closed = True
            dropped = [future for future, _, _ in self._waiting]
            self._waiting.clear()
        for future in dropped:
            future.cancel()

    def _work(self) -> None:
        """Work until nothing waits."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._idle += 1
                    return
                future, prompt, on_step = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                outcome = self._call(prompt, on_step)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(outcome)


@contextmanager
def on_server(call: Callable[[str, OnStep], T], at_once: int | None = None) -> Iterator[Submit[T]]:
    """Let ``call`` work on ``at_once`` prompts, each in a thread that waits for an answer.

    At the end what has not begun is dropped, and nobody waits for the answers that are on their way.
    """
    threads = _Threads(call, at_once or ON_SERVER)
    try:
        yield threads.submit
    finally:
        threads.close()


@contextmanager
def in_batch(
    call: Callable[[str, OnStep, DecodeBatch], T], model: Model, at_once: int | None = None
) -> Iterator[Submit[T]]:
    """Let ``call`` work on ``at_once`` prompts whose forward passes are shared.

    A model that is a batch is used as it is. At the end what has not begun is dropped, and what runs
    is stopped.
    """
    batch = model if isinstance(model, DecodeBatch) else DecodeBatch(model, at_once or AT_ONCE)
    tasks: WeakSet[DecodeTask[T]] = WeakSet()

    def submit(prompt: str, on_step: OnStep = None) -> Future[T]:
        task = batch.submit(lambda: call(prompt, on_step, batch))
        tasks.add(task)
        return task

    try:
        yield submit
    finally:
        for task in list(tasks):
            task.cancel()
        if batch is not model:
            batch.close()


def in_order(
    submitting: AbstractContextManager[Submit[T]], prompts: Iterable[str], at_once: int | None
) -> Iterator[T]:
    """Yield the outcome of each prompt, in order; what one raises ends it."""
    with submitting as submit:
        waiting: deque[Future[T]] = deque()
        for prompt in prompts:
            waiting.append(submit(prompt))
            if len(waiting) >= AHEAD * (at_once or ON_SERVER):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
