"""Several processes that serve one port: started, watched and replaced by the process that holds the port.

One socket is bound here and inherited by every worker. So a port in use is told as by a single process,
a connection waits in one queue for whichever worker takes it, and none is lost when a worker ends (with
SO_REUSEPORT each would have a queue of its own, which dies with it).

The workers are started anew rather than forked, since engines have threads. They share a table
(connections, heartbeats), the files of the metrics and the log; nothing else: each has its own
model, queue and caches. The supervisor loads no model and serves nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType

from callmemaybe.errors import InputError, ModelError
from callmemaybe.server.config import ServeOptions
from callmemaybe.server.observability import JsonLog
from callmemaybe.server.sockets import bind, url_of
from callmemaybe.server.worker_seat import STUCK, WorkerSeat, WorkerTable, alone

#: The most workers that can be asked for.
MOST_WORKERS = 64
#: A worker that has served for as many seconds is replaced at once, however it ended.
_LONG = 10.0
#: Seconds between attempts to replace one that has not, at most.
_LONGEST_PAUSE = 30.0
#: Attempts in a row after which the server ends, if no worker is left.
_TRIES = 5
#: Seconds without a heartbeat, while the supervisor itself runs, after which a worker is killed.
_SILENCE = 60
#: Seconds for a worker beyond the grace period: what uvicorn and the scheduler may take to close.
_CLOSING = 10.0
#: What libraries read to choose their threads.
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def serve_with_workers(
    options: ServeOptions, count: int, *, say: Callable[[str], None] = print
) -> None:
    """Serve a model with ``count`` processes until a signal; ``say`` is called with the URL.

    Raises InputError for an address that cannot be bound, ModelError for a model that cannot be served, or
    if workers die before they are ready.
    """
    if not 1 <= count <= MOST_WORKERS:
        raise InputError(f"must be from 1 to {MOST_WORKERS}", where="--workers")
    opened = bind(options.config)
    try:
        with tempfile.TemporaryDirectory(prefix="callmemaybe-") as folder:
            supervisor = WorkerSupervisor(options, count, opened, Path(folder), say)
            with supervisor.signals():
                supervisor.run()
    finally:
        opened.close()


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass
class WorkerState:
    """What the supervisor knows of one worker, which several processes may be in turn."""

    number: int
    process: SpawnProcess | None = None
    control: Connection | None = None
    #: When its process became ready, by the supervisor's clock; None if it is not.
    ready: float | None = None
    #: How often in a row it died soon, and when it is to be started again.
    failures: int = 0
    due: float = 0.0
    #: The last heartbeat seen, and for how many seconds it has not changed.
    beat: int = 0
    silent: int = 0


class WorkerSupervisor:
    """Starts workers on a listening socket, replaces those that die, and ends them gracefully."""

    def __init__(
        self,
        options: ServeOptions,
        count: int,
        opened: socket.socket,
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        self._options = options
        self._opened = opened
        self._folder = folder
        self._say = say
        self._log = JsonLog(worker=0, alone=partial(alone, folder))
        self._context = multiprocessing.get_context("spawn")
        self._table = WorkerTable(self._context, count)
        self._workers = [WorkerState(number + 1) for number in range(count)]
        self._created = int(time.time())
        self._is_announced = False
        self._signals = 0
        self._deadline: float | None = None
        self._wake, self._waker = socket.socketpair()
        self._checked = 0.0

    # -- from the first signal to the last worker -------------------------------------------------

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Count SIGINT and SIGTERM while running, and wake up for them."""

        def count(_number: int, _frame: FrameType | None) -> None:
            self._signals += 1

        for end in (self._wake, self._waker):
            end.setblocking(False)
        before = {each: signal.signal(each, count) for each in (signal.SIGINT, signal.SIGTERM)}
        previous = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(previous)
            for each, handler in before.items():
                signal.signal(each, handler)
            self._wake.close()
            self._waker.close()

    def run(self) -> None:
        """Run the workers until a signal; the second signal ends them at once.

        Raises InputError or ModelError, and ends all workers, if they cannot start.
        """
        try:
            while True:
                self._obey()
                running = [worker for worker in self._workers if worker.process]
                if self._deadline is not None and not running:
                    return
                self._start_due()
                self._wait()
                self._check_beats()
        finally:
            for worker in self._workers:
                if worker.process is not None:
                    worker.process.kill()
                    worker.process.join()

    def _obey(self) -> None:
        """End all workers gracefully after the first signal, and by force after the second or when late."""
        if not self._signals:
            return
        if self._deadline is None:
            self._deadline = time.monotonic() + self._options.config.grace_seconds + _CLOSING
            for worker in self._workers:
                if worker.process is not None:
                    worker.process.terminate()
        elif self._signals > 1 or time.monotonic() > self._deadline:
            for worker in self._workers:
                if worker.process is not None:
                    worker.process.kill()

    def _wait(self) -> None:
        """Wait for what comes next, a second at most, and take note of it."""
        found = {worker.process.sentinel: worker for worker in self._workers if worker.process}
        told = {worker.control: worker for worker in self._workers if worker.control}
        for one in wait([*found, *told, self._wake], timeout=1.0):
            if one is self._wake:
                self._wake.recv(4096)
            elif one in told:
                self._hear(told[one])
        for sentinel, worker in found.items():
            if wait([sentinel], timeout=0):
                self._bury(worker)

    # -- one worker -------------------------------------------------------------------------------

    def _start_due(self) -> None:
        for worker in self._workers:
            is_due = worker.process is None and time.monotonic() >= worker.due
            if is_due and self._deadline is None:
                self._start(worker)

    def _start(self, worker: WorkerState) -> None:
        worker.control, theirs = self._context.Pipe()
        threads = max(1, cores() // len(self._workers))
        seat = WorkerSeat(
            worker.number, self._options, self._opened, theirs, self._table, self._folder,
            threads, self._created,
        )  # fmt: skip
        worker.process = self._context.Process(target=_work, args=(seat,), name="worker")
        worker.ready, worker.silent = None, 0
        # Ctrl-C goes to all processes of a terminal, but only the supervisor shall hear of it.
        masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with _environment(dict.fromkeys(_THREAD_VARIABLES, str(threads))):
                worker.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)
            theirs.close()

    def _hear(self, worker: WorkerState) -> None:
        """Take the message of a worker: it is ready, or says why it cannot be."""
        assert worker.control is not None
        try:
            kind, *what = worker.control.recv()
        except (EOFError, OSError):
            worker.control.close()
            worker.control = None
            return
        if kind == "failed":
            is_input, message = what
            if self._is_announced:
                self._log.write(
                    "error", {"event": "worker", "message": f"{_name(worker)}: {message}"}
                )
                return
            raise InputError(message) if is_input else ModelError(message)
        worker.ready = time.monotonic()
        if not self._is_announced and all(each.ready is not None for each in self._workers):
            self._is_announced = True
            self._announce(*what)

    def _announce(self, name: str) -> None:
        count = len(self._workers)
        if count > cores():
            self._log.write("warning", {
                "event": "worker",
                "message": f"{count} workers share {cores()} cores; more than one each gains nothing",
            })  # fmt: skip
        self._say(f"{name} is served at {url_of(self._opened)} by {count} workers (Ctrl-C stops)")

    def _bury(self, worker: WorkerState) -> None:
        """Take note of a worker's end, and of when another is to take its place."""
        assert worker.process is not None
        while worker.control is not None and worker.control.poll():
            self._hear(worker)  # until the end of the pipe
        worker.process.join()
        how = _ending(worker.process.exitcode)
        worker.process = worker.control = None
        self._table.clear(worker.number)
        for file in self._folder.glob(f"gauge_live*_{worker.number}.db"):
            file.unlink()
        if self._deadline is not None:
            return
        if not self._is_announced and worker.ready is None:
            raise ModelError(
                f"worker {worker.number} of {len(self._workers)} {how} before it was ready; is there "
                "memory for all of them?"
            )
        now = time.monotonic()
        lasted = 0.0 if worker.ready is None else now - worker.ready
        worker.ready = None
        worker.failures = 0 if lasted >= _LONG else worker.failures + 1
        pause = min(_LONGEST_PAUSE, 2.0 ** (worker.failures - 2)) if worker.failures > 1 else 0.0
        worker.due = now + pause
        if all(each.process is None and each.failures >= _TRIES for each in self._workers):
            raise ModelError(f"no worker is left, and {_TRIES} in a row died soon; the last {how}")
        self._log.write("warning", {
            "event": "worker",
            "message": f"{_name(worker)} {how}; another takes its place in {pause:g} s",
        })  # fmt: skip

    def _check_beats(self) -> None:
        """Kill workers whose event loop has stood still for a minute in which the supervisor has not."""
        if time.monotonic() < self._checked + 1:
            return
        self._checked = time.monotonic()
        for worker in self._workers:
            beat = self._table.beats[worker.number - 1]
            is_still = worker.ready is not None and beat == worker.beat
            worker.silent = worker.silent + 1 if is_still else 0
            worker.beat = beat
            if worker.silent >= _SILENCE and worker.process is not None:
                worker.process.kill()


def _name(worker: WorkerState) -> str:
    return f"worker {worker.number}"


def _ending(code: int | None) -> str:
    """Say how a process ended."""
    if code == STUCK:
        return "was blocked by a request"
    if code is not None and code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with code {code}"


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables that are not set, for as long as a process is started."""
    new = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


def _work(seat: WorkerSeat) -> None:
    """Be a worker; its modules are imported by nobody else."""
    from callmemaybe.server.worker import run

    run(seat)
