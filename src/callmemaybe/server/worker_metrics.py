"""Metrics of several worker processes: each counts in files that all of them read.

The counts stand in files by the worker's number, so that they live on when its process is replaced.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial

from prometheus_client import CollectorRegistry, values
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from callmemaybe.server.observability import RequestMetrics
from callmemaybe.server.worker_seat import WorkerSeat, WorkerTable


def count_together(seat: WorkerSeat) -> None:
    """Let what this process counts from now on stand in the files that all workers share."""
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(seat.folder)
    number = partial(int, seat.number)
    values.ValueClass = values.MultiProcessValue(number)  # type: ignore[no-untyped-call]


class WorkerMetrics(RequestMetrics):
    """Counts requests in files that all workers read: each tells the sum over all, and of those before them."""

    def __init__(self, seat: WorkerSeat) -> None:
        super().__init__()
        self._seat = seat
        self.gauge("callmemaybe_workers", "Workers that are ready.").set(1)

    def add_process(self) -> None:
        """Do nothing: ``text`` adds what is known of all processes."""

    def text(self) -> bytes:
        """Return the metrics as Prometheus reads them."""
        registry = CollectorRegistry()
        MultiProcessCollector(registry, str(self._seat.folder))  # type: ignore[no-untyped-call]
        registry.register(_WorkerProcesses(self._seat.table))
        PlatformCollector(registry=registry)
        return generate_latest(registry)


class _WorkerProcesses(Collector):
    """What the system tells of the processes, with the label ``worker``; the supervisor's is 0."""

    def __init__(self, table: WorkerTable) -> None:
        self._pids = {0: os.getppid()} | {at + 1: pid for at, pid in enumerate(table.pids) if pid}

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for number, pid in self._pids.items():
            for found in ProcessCollector(pid=partial(int, pid), registry=None).collect():
                family = families.setdefault(
                    found.name, Metric(found.name, found.documentation, found.type, found.unit)
                )
                for sample in found.samples:
                    family.add_sample(sample.name, {"worker": str(number)}, sample.value)
        return families.values()
