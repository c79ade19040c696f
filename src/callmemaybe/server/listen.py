"""Listening: a socket before the model is loaded, a protocol for slow clients, an orderly end."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from callmemaybe.errors import InputError
from callmemaybe.server.settings import Settings

#: Connections beyond these are told 503 by uvicorn; each costs a file descriptor.
MOST_CONNECTIONS = 1000
_BACKLOG = 512
#: The largest head of a request, in bytes.
_HEAD_BYTES = 32 << 10
#: Seconds after which a connection that asks for nothing is closed.
_IDLE_SECONDS = 30


def bind(settings: Settings) -> socket.socket:
    """Return a socket that nobody else can have; raise InputError if there is none."""
    where = f"{settings.host}:{settings.port}"
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise InputError(
            f"{settings.host!r} is no address: {error.strerror}", where="--host"
        ) from None
    except UnicodeError:
        raise InputError(
            f"{settings.host!r} is no address: a part of the name is empty or too long",
            where="--host", hint="write it as 127.0.0.1, ::1 or host.example.org",
        ) from None  # fmt: skip
    opened = socket.socket(family, kind, number)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind(address)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"{where} is in use by another program", where="--port", hint="choose another"
            ) from None
        raise InputError(f"cannot listen on {where}: {error.strerror}", where="--host") from None
    opened.setblocking(False)
    return opened


def address_of(opened: socket.socket) -> str:
    """Return the address of a socket as a browser takes it."""
    host, port = opened.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 - not bound here
    return f"http://{f'[{name}]' if ':' in name and name[0] != '[' else name}:{port}"


class Server(uvicorn.Server):
    """Tells when it is told to stop, and ends without raising the signal again."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._stopping = stopping

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop at the first signal; at once at the second."""
        self._stopping()
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while running; being stopped is how a server ends, not a failure."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()


def protocol(seconds: float) -> type[H11Protocol]:
    """Return uvicorn's protocol, which closes a connection whose head takes longer than ``seconds``.

    uvicorn only bounds the silence between requests; a client that sends a byte now and then would
    hold a connection for ever. So would a body that is refused before it has come, at whose first
    byte uvicorn forgets about the silence; it is bounded alike.
    """
    return type("Protocol", (_Protocol,), {"seconds": seconds})


class _Protocol(H11Protocol):
    """Closes a connection whose head takes too long; see :func:`protocol`."""

    seconds: float
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._deadline = self.loop.call_later(self.seconds, self._too_slow)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_deadline()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear()
        super().connection_lost(exc)

    def _set_deadline(self) -> None:
        """Run a deadline exactly while part of a head is there and the rest is not.

        Or while the rest of a body is not, though it was answered already.
        """
        is_between = self.conn.their_state is h11.IDLE
        has_begun = bool(self.conn.trailing_data[0])
        if (is_between and has_begun) or self._is_answered_early():
            if self._deadline is None:
                self._deadline = self.loop.call_later(self.seconds, self._too_slow)
            return
        self._clear()
        if is_between and self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _is_answered_early(self) -> bool:
        return self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY

    def _clear(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        if self.transport.is_closing():
            return
        if not self._is_answered_early():
            self.transport.write(
                b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
        self.transport.close()


def server_of(app: ASGIApp, settings: Settings, stopping: Callable[[], None]) -> Server:
    """Return what serves until a signal (or ``should_exit``) says to stop.

    What runs then may finish within the grace. ``stopping`` is called at the signal, on the event
    loop's thread.
    """
    config = uvicorn.Config(
        app,
        http=protocol(settings.read_seconds),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_IDLE_SECONDS,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        timeout_graceful_shutdown=int(settings.grace_seconds) + 5,
    )
    return Server(config, stopping)
