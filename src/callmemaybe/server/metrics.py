"""What Prometheus reads: counters and histograms of the requests, gauges of the queue."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from callmemaybe.server.observe import Facts

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """An observer that counts; ``text`` is what ``/metrics`` answers."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, waiting: Callable[[], int], running: Callable[[], int]) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
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
        Gauge("callmemaybe_turns_waiting", "Turns that wait.", registry=registry).set_function(
            waiting
        )
        Gauge("callmemaybe_turns_running", "Turns in a slot.", registry=registry).set_function(
            running
        )

    def _histogram(self, name: str, what: str) -> Histogram:
        return Histogram(name, what, ["route"], buckets=_SECONDS, registry=self._registry)

    def started(self, facts: Facts) -> None:
        """See a request that was read; it is counted at its end."""

    def finished(self, facts: Facts) -> None:
        """Count a request."""
        self._requests.labels(facts.route, str(facts.status)).inc()
        self._seconds.labels(facts.route).observe(facts.seconds)
        if facts.is_dropped:
            self._dropped.inc()
        for reason in facts.finish:
            self._finished.labels(reason).inc()
        self._tokens.labels("prompt").inc(facts.prompt_tokens)
        self._tokens.labels("completion").inc(facts.tokens)
        self._passes.inc(facts.passes)
        if facts.waited is not None:
            self._waited.labels(facts.route).observe(facts.waited)
        if facts.first is not None:
            self._first.labels(facts.route).observe(facts.first)

    def text(self) -> bytes:
        """Return the metrics as Prometheus reads them."""
        return generate_latest(self._registry)
