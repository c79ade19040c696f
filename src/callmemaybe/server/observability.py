"""Observers of requests: the log, the metrics; spans are in ``integrations.opentelemetry``.

The log is JSON, one line per request on standard error; messages of the libraries below have the same
form. Metrics are Prometheus counters and histograms of requests, and gauges of the queue. Nothing that a
user wrote is in either.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Any, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector


@dataclass
class RequestSummary:
    """The outcome of one request, without anything that a user wrote.

    Times are in seconds: ``waited`` for a slot, ``first`` until the first update, ``seconds`` in all.
    """

    id: str
    method: str
    route: str
    client: str
    status: int = 0
    #: The status of an error inside a stream, whose own ``status`` is 200.
    failed_status: int | None = None
    code: str | None = None
    model: str | None = None
    is_stream: bool = False
    finish: tuple[str, ...] = ()
    prompt_tokens: int = 0
    tokens: int = 0
    passes: int = 0
    waited: float | None = None
    first: float | None = None
    seconds: float = 0.0
    #: Whether the client disconnected before the end.
    is_dropped: bool = False
    #: The error behind a 500, for the log.
    error: BaseException | None = field(default=None, repr=False)
    #: What failed at the server of the model, without anything that was asked or answered.
    upstream: str | None = None
    #: The W3C trace context that came with the request.
    traceparent: str | None = None

    @property
    def is_failure(self) -> bool:
        """Whether the request failed through no fault of the client, possibly inside a stream."""
        return max(self.status, self.failed_status or 0) >= 500


class RequestObserver(Protocol):
    """Is called for each request; must be quick and must not raise."""

    def started(self, summary: RequestSummary) -> None:
        """Handle the start of a request, once its client is known."""
        ...

    def finished(self, summary: RequestSummary) -> None:
        """Handle the end of a request: answered, refused or dropped."""
        ...


class JsonLog:
    """Writes a JSON line per request; ``now`` returns seconds since 1970.

    A ``worker`` stands in each line, and ``alone`` is entered to write one, so that lines of several
    processes do not mix.
    """

    def __init__(
        self,
        file: IO[str] | None = None,
        now: Callable[[], float] = time.time,
        *,
        worker: int | None = None,
        alone: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._file = file or sys.stderr
        self._now = now
        self._who = {} if worker is None else {"worker": worker}
        self._alone = alone

    def started(self, summary: RequestSummary) -> None:
        """Do nothing: the line is written at the end."""

    def finished(self, summary: RequestSummary) -> None:
        """Write the line of a request."""
        line: dict[str, Any] = {
            "event": "request", "id": summary.id, "method": summary.method, "route": summary.route,
            "status": summary.status, "seconds": round(summary.seconds, 4),
        }  # fmt: skip
        if summary.code:
            line["code"] = summary.code
        if summary.is_dropped:
            line["dropped"] = True
        if summary.waited is not None:
            line |= {
                "client": summary.client, "model": summary.model, "stream": summary.is_stream,
                "waited": round(summary.waited, 4),
                "first": None if summary.first is None else round(summary.first, 4),
                "finish": list(summary.finish), "prompt_tokens": summary.prompt_tokens,
                "tokens": summary.tokens, "passes": summary.passes,
            }  # fmt: skip
        if summary.upstream is not None:
            line["upstream"] = summary.upstream
        if summary.error is not None:
            line["error"] = "".join(traceback.format_exception(summary.error))
        self.write("error" if summary.is_failure else "info", line)

    def write(self, level: str, line: dict[str, Any]) -> None:
        """Write one line; errors of writing are ignored."""
        when = datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="milliseconds")
        try:
            with self._alone():
                self._file.write(
                    json.dumps({"time": when, "level": level, **self._who, **line}) + "\n"
                )
                self._file.flush()
        except (OSError, ValueError):
            pass


class FailureFilter:
    """Passes failed requests on to another observer, and no others."""

    def __init__(self, inner: RequestObserver) -> None:
        self._inner = inner

    def started(self, summary: RequestSummary) -> None:
        """Do nothing."""

    def finished(self, summary: RequestSummary) -> None:
        """Pass on a request that failed through no fault of the client."""
        if summary.is_failure:
            self._inner.finished(summary)


#: The loggers used while serving: uvicorn's, and asyncio's for uncaught exceptions.
_LOGGERS = ("uvicorn.error", "asyncio")


@contextmanager
def library_logs(log: JsonLog, level: int) -> Iterator[None]:
    """Write log records of libraries, from ``level`` on, to ``log``."""
    handler = _JsonLogHandler(log, level)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


class _JsonLogHandler(logging.Handler):
    """Writes records as lines of a log."""

    def __init__(self, log: JsonLog, level: int) -> None:
        super().__init__(level)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = {"event": "log", "logger": record.name, "message": record.getMessage()}
            if record.exc_info and record.exc_info[1] is not None:
                line["error"] = "".join(traceback.format_exception(record.exc_info[1]))
        except Exception:
            self.handleError(record)
        else:
            self._log.write(record.levelname.lower(), line)


_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class RequestMetrics:
    """Counts requests; ``text`` is the body of ``/metrics``."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "callmemaybe_requests", "Requests by route and status.", ["route", "status"],
            registry=registry,
        )  # fmt: skip
        self._dropped = Counter(
            "callmemaybe_requests_dropped", "Requests whose client went away.", registry=registry
        )
        self._finished = Counter(
            "callmemaybe_choices", "Answers by finish reason.", ["finish_reason"],
            registry=registry,
        )  # fmt: skip
        self._tokens = Counter(
            "callmemaybe_tokens", "Tokens read and written.", ["kind"], registry=registry
        )
        self._passes = Counter(
            "callmemaybe_forward_passes", "Forward passes that turns asked for.", registry=registry
        )
        self._seconds = self._histogram("callmemaybe_request_seconds", "Whole requests.")
        self._first = self._histogram("callmemaybe_first_piece_seconds", "Until the first piece.")
        self._waited = self._histogram("callmemaybe_queue_seconds", "Waiting for a slot.")
        self._waiting = self.gauge("callmemaybe_turns_waiting", "Turns that wait.")
        self._running = self.gauge("callmemaybe_turns_running", "Turns in a slot.")
        self._cached = self.gauge(
            "callmemaybe_prompt_cache_bytes", "Bytes of prompts that are kept."
        )
        self.add_process()

    def add_process(self) -> None:
        """Add what is known of the process."""
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)

    def gauge(self, name: str, what: str) -> Gauge:
        """Return a gauge, of which the values of several processes add up."""
        return Gauge(name, what, multiprocess_mode="livesum", registry=self.registry)

    def _histogram(self, name: str, what: str) -> Histogram:
        return Histogram(name, what, ["route"], buckets=_SECONDS, registry=self.registry)

    def started(self, summary: RequestSummary) -> None:
        """Do nothing: requests are counted at their end."""

    def finished(self, summary: RequestSummary) -> None:
        """Count a request."""
        self._requests.labels(summary.route, str(summary.status)).inc()
        self._seconds.labels(summary.route).observe(summary.seconds)
        if summary.is_dropped:
            self._dropped.inc()
        for reason in summary.finish:
            self._finished.labels(reason).inc()
        self._tokens.labels("prompt").inc(summary.prompt_tokens)
        self._tokens.labels("completion").inc(summary.tokens)
        self._passes.inc(summary.passes)
        if summary.waited is not None:
            self._waited.labels(summary.route).observe(summary.waited)
        if summary.first is not None:
            self._first.labels(summary.route).observe(summary.first)

    def measure(self, waiting: int, running: int, cached_bytes: int) -> None:
        """Set the gauges: turns that wait, turns in a slot, bytes of prompts that are kept."""
        self._waiting.set(waiting)
        self._running.set(running)
        self._cached.set(cached_bytes)

    def text(self) -> bytes:
        """Return the metrics as Prometheus reads them."""
        return generate_latest(self.registry)
