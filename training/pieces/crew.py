"""Processes that learn together: each grades lists of its own, and all take the same step.

One process per core: two threads of one process that share every product wait for each other
(`training/LOG.md`). All begin from the same weights and get the same mean of gradients, so their weights stay
the same; what is written to files is written by the first.
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


class Crew:
    """One process of `size`; a crew of one does nothing to what it is given."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def mine(self, items: list[Any]) -> list[Any]:
        """This process's share of a list that all have."""
        return items[self.rank :: self.size]

    def add(self, values: Tensor) -> Tensor:
        """The sum of the values of all, in place."""
        if self.size > 1:
            distributed.all_reduce(values)
        return values

    def average(self, weights: Iterable[Tensor], told: list[float]) -> list[float]:
        """Give every weight the mean of all gradients; returns the sums of what each tells.

        A weight without a gradient in one process may have one in another, so it counts as zero.
        """
        if self.size == 1:
            return told
        weights = list(weights)
        grads = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
        flat = torch.cat([grad.flatten() for grad in grads])
        self.add(flat.div_(self.size))
        for weight, grad in zip(weights, flat.split([g.numel() for g in grads]), strict=True):
            weight.grad = grad.view_as(weight)
        # apart and in float64: counts do not fit into a float32
        return self.add(torch.tensor(told, dtype=torch.float64)).tolist()

    def agree(self, state: Iterable[Tensor]) -> None:
        """Take over the first one's values, should rounding ever part the processes."""
        if self.size > 1:
            for value in state:
                distributed.broadcast(value, 0)


def _join(rank: int, size: int, store: str) -> Crew:
    distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=size)
    return Crew(rank, size)


def _follow(rank: int, size: int, store: str, work: Callable[..., None], given: Any) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the first says when to stop
    work(_join(rank, size, store), *given)
    distributed.destroy_process_group()


def together(size: int, work: Callable[..., None], *given: Any) -> None:
    """Run `work(crew, *given)` in `size` processes, the first of which is this one."""
    if size == 1:
        work(Crew(), *given)
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
