"""A batch on several processes: each has the model, gets some prompts at a time, and may be killed.

The processes are started anew rather than forked, since engines have threads. Results come back one by
one and are handed on in the order of the prompts. What a process that died had not finished is done by
another; a prompt that several die of is a failure of its own, and the run goes on.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from queue import SimpleQueue
from threading import Thread

from callmemaybe.cli.batch import BatchRow, RowMaker, lost_row
from callmemaybe.cli.prompts import PromptRow
from callmemaybe.errors import CallMeMaybeError, InputError, ModelError

#: The most processes that can be asked for.
MOST_WORKERS = 256
#: Processes that may die over one prompt, and that may die in a row without a result.
_DEATHS_OF_A_PROMPT = 3
_DEATHS_IN_A_ROW = 6
#: Results that wait for an earlier one, for each process.
_WAITING = 512

#: Makes what a process works with; called in it, with the most threads it should use.
MakeRunner = Callable[[int], RowMaker]


@dataclass(eq=False)
class _Worker:
    """A process, what it was sent and has not answered, and whether its model is loaded."""

    process: SpawnProcess
    pipe: Connection
    chunks: deque[deque[PromptRow]] = field(default_factory=deque)
    is_ready: bool = False


class WorkerProcesses:
    """Makes rows in ``count`` processes, each of which gets ``chunk`` prompts at a time."""

    def __init__(self, make: MakeRunner, count: int, chunk: int) -> None:
        self._make, self._count, self._chunk = make, count, chunk
        self._threads = max(1, (os.cpu_count() or 1) // count)
        self._workers: list[_Worker] = []
        self._again: deque[deque[PromptRow]] = deque()
        self._deaths: dict[int, int] = {}
        self._deaths_in_a_row = 0
        self._finished: dict[int, BatchRow] = {}

    def rows(self, prompts: Iterable[PromptRow]) -> Iterator[BatchRow]:
        """Yield the result of each prompt, in order.

        Raises ModelError where the model cannot be loaded, and where process after process dies.
        """
        todo = iter(prompts)
        order: deque[int] = deque()
        self._finished.clear()
        try:
            while len(self._workers) < self._count:
                self._start()
            while True:
                self._send(todo, order)
                if not order:
                    return
                while order and order[0] in self._finished:
                    yield self._finished.pop(order.popleft())
                if order:
                    self._receive()
        finally:
            self._end()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=_work, args=(theirs, self._make, self._threads), daemon=True
        )
        # Ctrl-C comes to every process of a terminal, and is for this one to answer.
        before = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            process.start()
        finally:
            signal.signal(signal.SIGINT, before)
        theirs.close()
        self._workers.append(_Worker(process, ours))

    def _send(self, todo: Iterator[PromptRow], order: deque[int]) -> None:
        """Give each process what it works on, and one chunk more."""
        for more in (1, 2):
            for worker in self._workers:
                if len(worker.chunks) >= more or not worker.is_ready:
                    continue
                if self._again:
                    chunk = self._again.popleft()
                elif len(order) < _WAITING * self._count:
                    chunk = deque(islice(todo, self._chunk))
                    order.extend(row.index for row in chunk)
                else:
                    return
                if not chunk:
                    if not order:
                        return
                    continue
                worker.chunks.append(chunk)
                with contextlib.suppress(OSError):  # it has died, which its end of the pipe tells
                    worker.pipe.send(list(chunk))
        if not order and not any(worker.is_ready for worker in self._workers):
            # The first prompts are read at once: there may be none.
            chunk = deque(islice(todo, self._chunk))
            if chunk:
                order.extend(row.index for row in chunk)
                self._again.append(chunk)

    def _receive(self) -> None:
        """Take what the processes have to say; replace those that died."""
        ready = set(wait([worker.pipe for worker in self._workers]))
        for worker in [one for one in self._workers if one.pipe in ready]:
            try:
                while worker.pipe.poll():
                    self._take(worker, worker.pipe.recv())
            except (EOFError, OSError):
                self._replace(worker)

    def _take(self, worker: _Worker, message: object) -> None:
        if isinstance(message, CallMeMaybeError):
            raise message
        self._deaths_in_a_row = 0
        if not isinstance(message, BatchRow):
            worker.is_ready = True
            return
        chunk = worker.chunks[0]
        assert chunk[0].index == message.index
        chunk.popleft()
        if not chunk:
            worker.chunks.popleft()
        self._finished[message.index] = message
        self._deaths.pop(message.index, None)

    def _replace(self, worker: _Worker) -> None:
        """Start another process in place of one that died; what it had not finished is done again."""
        worker.process.join()
        worker.pipe.close()
        self._workers.remove(worker)
        self._deaths_in_a_row += 1
        how = _how_it_ended(worker.process.exitcode)
        if self._deaths_in_a_row >= _DEATHS_IN_A_ROW:
            raise ModelError(
                f"{self._deaths_in_a_row} worker processes in a row ended without a result ({how}); "
                "use fewer --workers; finished results are saved, --resume continues"
            )
        current = worker.chunks.popleft() if worker.chunks else deque[PromptRow]()
        self._again.extendleft(reversed(worker.chunks))
        for row in reversed(current):
            deaths = self._deaths[row.index] = self._deaths.get(row.index, 0) + 1
            if deaths < _DEATHS_OF_A_PROMPT:
                # Alone, so that it takes no other prompt with it the next time.
                self._again.appendleft(deque([row]))
            else:
                failure = f"{deaths} worker processes ended while they worked on it ({how})"
                self._finished[row.index] = lost_row(row, failure)
        self._start()

    def _end(self) -> None:
        for worker in self._workers:
            worker.process.kill()  # it has nothing that could be lost
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()
        self._workers.clear()
        self._again.clear()


def _how_it_ended(code: int | None) -> str:
    if code == -9:
        return "killed by signal 9, as by a system that is out of memory"
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _work(pipe: Connection, make: MakeRunner, threads: int) -> None:
    """Work on the chunks that come through ``pipe``; what a process runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        runner = make(threads)
    except CallMeMaybeError as error:
        # Not every error can be unpickled; these two can.
        if isinstance(error, InputError):
            _tell(pipe, InputError(error.message, where=error.where, hint=error.hint))
        else:
            _tell(pipe, ModelError(str(error)))
        return
    _tell(pipe, "ready")
    chunks: SimpleQueue[list[PromptRow]] = SimpleQueue()
    Thread(target=_listen, args=(pipe, chunks), daemon=True).start()
    while True:
        for row in runner.rows(chunks.get()):
            # The result of a process is what the file says, without the measurements.
            _tell(pipe, BatchRow(row.index, row.record, details=row.details))


def _tell(pipe: Connection, message: object) -> None:
    """Send a message; end the process quietly when the run that started it is dead."""
    try:
        pipe.send(message)
    except OSError:
        os._exit(0)


def _listen(pipe: Connection, chunks: SimpleQueue[list[PromptRow]]) -> None:
    """Take what comes, so that whoever sends never waits; end the process when nobody is left to send."""
    try:
        while True:
            chunks.put(pipe.recv())
    except (EOFError, OSError):
        os._exit(0)
