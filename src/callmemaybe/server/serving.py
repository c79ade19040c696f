"""From the name of a model to a running server: bind a socket, load the model, serve until stopped.

The socket is bound before the model is loaded, so that a port in use is reported at once. uvicorn's
protocol is extended by deadlines for slow clients.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from callmemaybe.caller import load_model
from callmemaybe.decoding.batch import DecodeBatch
from callmemaybe.decoding.prefix_cache import PrefixCache
from callmemaybe.generation.continuation import TextGenerator
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.generation.remote import RemoteGenerator
from callmemaybe.generation.turn import TurnGenerator
from callmemaybe.models.base import Model
from callmemaybe.models.remote import RemoteModel
from callmemaybe.server.app import ServerApp
from callmemaybe.server.common import ServedModel
from callmemaybe.server.config import ServeOptions, ServerConfig
from callmemaybe.server.gc_tuning import tune_gc
from callmemaybe.server.images import BODY_BYTES
from callmemaybe.server.observability import (
    FailureFilter,
    JsonLog,
    RequestMetrics,
    RequestObserver,
    library_logs,
)
from callmemaybe.server.scheduler import TaskRunner, ThreadRunner, TurnScheduler
from callmemaybe.server.sockets import bind, url_of

#: uvicorn answers 503 to connections beyond these; each costs a file descriptor.
MAX_CONNECTIONS = 1000
#: How often an answer of another server that is wrong is asked for again.
REPAIRS = 2
#: The environment variable of the key that the server of the model asks for; our own clients' is another.
UPSTREAM_KEY = "CALLMEMAYBE_UPSTREAM_KEY"
#: The largest head of a request, in bytes.
_HEAD_BYTES = 32 << 10
#: Seconds after which an idle connection is closed.
_IDLE_SECONDS = 30


class GracefulServer(uvicorn.Server):
    """Calls ``stopping`` at the first signal, and ends without raising the signal again."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._stopping = stopping

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop gracefully at the first signal, at once at the second."""
        self._stopping()
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while running; a signal is a server's usual end, not a failure."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()


def deadline_protocol(seconds: float) -> type[H11Protocol]:
    """Return uvicorn's protocol with a deadline of ``seconds`` for the head of a request.

    uvicorn only limits the silence between requests; a client that sends a byte now and then would hold
    a connection for ever. The deadline also holds for the rest of a body whose request was refused
    before it arrived, since its first byte ends uvicorn's limit of silence.
    """
    return type("Protocol", (_DeadlineProtocol,), {"seconds": seconds})


class _DeadlineProtocol(H11Protocol):
    """Closes connections of slow clients; see :func:`deadline_protocol`."""

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
        """Run a deadline while a request that is read is incomplete.

        Its head has arrived in part, or its body has not although the request is already answered.
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


def uvicorn_config(app: ASGIApp, config: ServerConfig) -> uvicorn.Config:
    """Return the settings of uvicorn for an application; running turns may finish within the grace period."""
    return uvicorn.Config(
        app,
        http=deadline_protocol(config.read_seconds),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_IDLE_SECONDS,
        limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        timeout_graceful_shutdown=int(config.grace_seconds) + 5,
    )


def make_server(app: ASGIApp, config: ServerConfig, stopping: Callable[[], None]) -> GracefulServer:
    """Return a server that runs until a signal, or until ``should_exit`` is set.

    Running turns may then finish within the grace period. ``stopping`` is called at the signal, on the
    event loop's thread.
    """
    return GracefulServer(uvicorn_config(app, config), stopping)


def application(
    model: Model | RemoteModel,
    config: ServerConfig,
    *,
    name: str | None = None,
    format: str | None = None,  # noqa: A002 - the public name of the setting
    observers: Sequence[RequestObserver] = (),
    created: int | None = None,
    metrics: RequestMetrics | None = None,
    **options: object,
) -> ServerApp:
    """Return the application that serves a loaded model.

    ``name`` is its name in requests, ``created`` when the server started (seconds since 1970), by default
    now; ``metrics`` counts the requests, by default in this process alone; ``options`` are those of ``LocalGenerator``, or ``RemoteGenerator`` for
    a model on a server. Raises ModelError for a model that cannot be used.
    """
    generator: TurnGenerator
    runner: TaskRunner
    cached_bytes: Callable[[], int] = int
    conversations = texts = None
    if isinstance(model, RemoteModel):
        runner = ThreadRunner()
        generator = RemoteGenerator(model, format=format, repairs=REPAIRS, **options)  # type: ignore[arg-type]
        name = name or model.model
    else:
        runner = batch = DecodeBatch(model, max_tasks=config.slots)
        batch.name = name or model.name  # errors name it as requests do, not its folder
        prefixes = PrefixCache(batch, config.cache_bytes)
        generator = LocalGenerator(batch, format=format, prefix_cache=prefixes, **options)  # type: ignore[arg-type]
        cached_bytes = lambda: prefixes.memory  # noqa: E731
        conversations = generator
        texts = TextGenerator(batch, prefix_cache=prefixes,
                              **options | {"vocabulary": generator.vocabulary})  # type: ignore[arg-type]  # fmt: skip
    if generator.reads_images:
        config = replace(config, body_bytes=max(config.body_bytes, BODY_BYTES))
    served = ServedModel(
        name or model.name, generator.format, created or int(time.time()), config, generator.reads_images,
        has_steps=not isinstance(model, RemoteModel), conversations=conversations, texts=texts,
    )  # fmt: skip

    def make_scheduler() -> TurnScheduler:
        return TurnScheduler(generator, runner, config, new_id=served.new_call_id)

    return ServerApp(served, make_scheduler, observers, cached_bytes, metrics or RequestMetrics())


def load_application(
    options: ServeOptions,
    log: JsonLog,
    *,
    most_threads: int | None = None,
    created: int | None = None,
    metrics: RequestMetrics | None = None,
) -> ServerApp:
    """Load a model, and return the application that serves it and writes to ``log``.

    ``most_threads`` is for each forward pass, where the model runs here; ``created`` is when the server
    started, in seconds since 1970. Raises ModelError for a model that cannot be served.
    """
    config = options.config
    observers = options.make_observers()
    loaded = load_model(options.model, most_threads=most_threads)
    if isinstance(loaded, RemoteModel):
        loaded = replace(
            loaded, key=options.upstream_key, key_name=UPSTREAM_KEY, timeout=config.run_seconds
        )
        loaded.dialect  # noqa: B018 - asks the server, unless the address says it
    request_log: RequestObserver = FailureFilter(log) if options.quiet else log
    app = application(
        loaded,
        config,
        name=options.name,
        format=options.format,
        observers=[request_log, *observers],
        created=created,
        metrics=metrics,
        decoding=options.decoding,
        grounding=options.grounding,
    )
    tune_gc()
    return app


def serve(options: ServeOptions, *, say: Callable[[str], None] = print) -> None:
    """Serve a model until a signal; ``say`` is called with the URL.

    Raises InputError for an address that cannot be bound, ModelError for a model that cannot be served.
    """
    opened = bind(options.config)
    try:
        log = JsonLog()
        app = load_application(options, log)
        say(f"{app.served.name} is served at {url_of(opened)} (Ctrl-C stops)")
        with library_logs(log, logging.ERROR if options.quiet else logging.WARNING):
            make_server(app.asgi(), options.config, app.begin_to_stop).run(sockets=[opened])
    finally:
        opened.close()
