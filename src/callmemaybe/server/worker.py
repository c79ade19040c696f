"""One worker process of a server: loads the model, takes connections, and counts together with the others.

All workers accept from one socket. Clients keep connections, so whoever accepts greedily gets the work of
many requests; a worker with more connections than another lets that one go first, and one with two more
ends the connection of an answer it gives, so that the client's next one goes elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
from types import FrameType
from typing import Any

from callmemaybe.errors import CallMeMaybeError, InputError
from callmemaybe.server.app import ServerApp
from callmemaybe.server.observability import JsonLog, library_logs
from callmemaybe.server.serving import GracefulServer, load_application, uvicorn_config
from callmemaybe.server.worker_metrics import WorkerMetrics, count_together
from callmemaybe.server.worker_seat import STUCK, WorkerSeat

#: Seconds in which another worker may take a connection first.
_WAIT = 0.005
#: Seconds until accepting is tried again where the process has no file descriptor left.
_PAUSE = 1.0
#: How many connections more than another a worker may have before it ends some.
_SURPLUS = 2


def run(seat: WorkerSeat) -> None:
    """Serve until SIGTERM, or until the supervisor ends; tell it when the worker is ready, or why it is not."""
    options = seat.options
    count_together(seat)
    log = JsonLog(worker=seat.number, alone=seat.alone)
    try:
        app = load_application(
            options, log, most_threads=seat.most_threads, created=seat.created,
            metrics=WorkerMetrics(seat),
        )  # fmt: skip
    except CallMeMaybeError as error:
        seat.control.send(("failed", isinstance(error, InputError), str(error)))
        return
    with library_logs(log, logging.ERROR if options.quiet else logging.WARNING):
        server = WorkerServer(app, seat, log)
        server.run()
    if server.is_orphan:
        shutil.rmtree(seat.folder, ignore_errors=True)


class WorkerServer(GracefulServer):
    """Accepts from the shared socket, and keeps the worker's row of the table."""

    def __init__(self, app: ServerApp, seat: WorkerSeat, log: JsonLog) -> None:
        super().__init__(uvicorn_config(app.asgi(), seat.options.config), app.begin_to_stop)
        self._app, self._seat, self._log = app, seat, log
        self._row = seat.number - 1
        #: Whether the supervisor has ended without ending this worker.
        self.is_orphan = False
        self._connecting: set[asyncio.Task[Any]] = set()
        app.sheds_connection = self._sheds_connection

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take part: accept connections, and tell the supervisor."""
        await super().startup(sockets=sockets or [])
        asyncio.get_running_loop().add_reader(self._seat.control.fileno(), self._lose_supervisor)
        self._seat.table.pids[self._row] = os.getpid()
        self._listen()
        self._seat.control.send(("ready", self._app.served.name))

    async def on_tick(self, counter: int) -> bool:
        """Keep the row and the gauges up to date, ten times a second; end if the model is blocked."""
        self._seat.table.beats[self._row] += 1
        self._count()
        self._app.measure()
        if self._app.scheduler.is_stuck:
            self._log.write("error", {"event": "worker", "message": "a request blocks the model"})
            os._exit(STUCK)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Leave the socket to the others, then finish what runs."""
        self._leave()
        self._seat.opened.close()
        await super().shutdown(sockets=sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Accept no more, and stop gracefully."""
        super().handle_exit(sig, frame)
        self._seat.table.pids[self._row] = 0
        asyncio.get_running_loop().call_soon_threadsafe(self._leave)

    def _lose_supervisor(self) -> None:
        """Stop: nothing is ever sent on this pipe, so it is readable when the supervisor has ended."""
        asyncio.get_running_loop().remove_reader(self._seat.control.fileno())
        self.is_orphan = True
        self.handle_exit(signal.SIGTERM, None)

    # -- connections ------------------------------------------------------------------------------

    def _listen(self) -> None:
        if not self.should_exit:
            asyncio.get_running_loop().add_reader(self._seat.opened.fileno(), self._take_turn)

    def _leave(self) -> None:
        if self._seat.opened.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._seat.opened.fileno())

    def _take_turn(self) -> None:
        if self._seat.table.surplus(self._seat.number) > 0:
            self._leave()
            asyncio.get_running_loop().call_later(_WAIT, self._accept_late)
        else:
            self._accept()

    def _accept_late(self) -> None:
        if not self.should_exit and self._accept():
            self._listen()

    def _accept(self) -> bool:
        """Accept one connection, if there is one; return False where accepting has to pause."""
        loop = asyncio.get_running_loop()
        try:
            connection, _ = self._seat.opened.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return True  # another worker has taken it, or its client has gone
        except OSError as error:
            self._log.write("error", {"event": "worker", "message": f"cannot accept: {error}"})
            self._leave()
            loop.call_later(_PAUSE, self._listen)
            return False
        connection.setblocking(False)
        task = loop.create_task(self._connect(connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        self._count()
        return True

    async def _connect(self, connection: socket.socket) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(self._protocol, connection)

    def _protocol(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    def _count(self) -> None:
        count = len(self.server_state.connections) + len(self._connecting)
        self._seat.table.connections[self._row] = count

    def _sheds_connection(self) -> bool:
        """Whether the connection of an answer is to end with it, since another worker has far fewer."""
        table = self._seat.table
        if table.surplus(self._seat.number) < _SURPLUS:
            return False
        table.connections[self._row] -= 1  # else all answers until the next tick would end theirs
        return True
