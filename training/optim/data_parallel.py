"""Data-parallel processes: each takes steps of its own, and after every few steps all average their weights.

One process per core: two threads that share every product wait for each other, and so do two
processes that share every gradient (`training/LOG.md`). After a few steps the mean of the weights
is as good as that of the gradients, with less waiting (local SGD: Stich, 2019). Momenta are not shared. Only the first
process writes files.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as distributed
import torch.multiprocessing as processes
from torch import Tensor


class ProcessGroup:
    """One process of `size`; in a group of one nothing is averaged."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def average(self, weights: Iterable[Tensor], numbers: list[float]) -> list[float]:
        """Set the weights of all processes to their mean; returns the sums of their `numbers`."""
        if self.size == 1:
            return numbers
        weights = list(weights)
        flat = torch.cat([weight.detach().flatten() for weight in weights])
        distributed.all_reduce(flat)
        parts = flat.div_(self.size).split([weight.numel() for weight in weights])
        with torch.no_grad():
            for weight, part in zip(weights, parts, strict=True):
                weight.copy_(part.view_as(weight))
        sums = torch.tensor(numbers, dtype=torch.float64)  # counts do not fit into a float32
        distributed.all_reduce(sums)
        return sums.tolist()


def _join(rank: int, size: int, store: str) -> ProcessGroup:
    distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=size)
    return ProcessGroup(rank, size)


def _follow(rank: int, size: int, store: str, work: Callable[..., None], given: Any) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the first process decides when to stop
    work(_join(rank, size, store), *given)
    distributed.destroy_process_group()


def run_in_parallel(size: int, work: Callable[..., None], *given: Any) -> None:
    """Run `work(crew, *given)` in `size` processes, the first of which is this one."""
    if size == 1:
        work(ProcessGroup(), *given)
        return
    start = processes.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        others: list[BaseProcess] = [
            start.Process(target=_follow, args=(rank, size, store, work, given), daemon=True)
            for rank in range(1, size)
        ]
        for each in others:
            each.start()
        work(_join(0, size, store), *given)
        distributed.destroy_process_group()
        for each in others:
            each.join(60)
