"""What a worker process is given when it starts, and the table that all workers of a server share.

Knows neither how workers are supervised nor how they serve, so that both sides can import it.
"""

from __future__ import annotations

import fcntl
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import Array, c_longlong
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from pathlib import Path

from callmemaybe.server.config import ServeOptions

#: How a worker ends whose model is blocked by a request, so that another takes its place.
STUCK = 75


class WorkerTable:
    """A row of numbers for each worker, in memory that all of them and the supervisor share.

    Each worker writes its own row; a row whose process is 0 belongs to nobody who takes connections.
    """

    def __init__(self, context: SpawnContext, count: int) -> None:
        self.pids: Array[c_longlong] = context.RawArray(c_longlong, count)
        self.connections: Array[c_longlong] = context.RawArray(c_longlong, count)
        #: Counts up ten times a second while the worker's event loop runs.
        self.beats: Array[c_longlong] = context.RawArray(c_longlong, count)

    def clear(self, number: int) -> None:
        """Empty the row of a worker that has ended."""
        self.pids[number - 1] = self.connections[number - 1] = 0

    def surplus(self, number: int) -> int:
        """Return how many connections a worker has more than the one with the fewest."""
        taken = zip(self.pids, self.connections, strict=True)
        mine = self.connections[number - 1]
        return mine - min((open_ for pid, open_ in taken if pid), default=mine)


@dataclass(frozen=True)
class WorkerSeat:
    """What one worker process is given: its number, counted from 1, and what it shares with others.

    ``control`` is its end of a pipe to the supervisor, which closes the other end when it ends;
    ``folder`` holds the counts of all workers. ``created`` is when the server started, in seconds since
    1970.
    """

    number: int
    options: ServeOptions
    opened: socket.socket
    control: Connection
    table: WorkerTable
    folder: Path
    most_threads: int
    created: int

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Do something while no other worker does it; a worker that dies holds nobody up."""
        with alone(self.folder):
            yield


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Do something while no other process does it that uses the same folder."""
    with (folder / "lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
