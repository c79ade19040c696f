"""Batches drawn ahead of the training loop, by a thread."""

from __future__ import annotations

import queue
import threading

from callmemaybe.tuning.packing import Encoder, TokenBatch
from training.data.mixture import BlockMaker
from training.data.packing import BatchLimits, draw_batch

AHEAD = 4  # batches


class Prefetch:
    """Batches number `start`, `start + stride`, ... of a seed, in order."""

    def __init__(
        self,
        maker: BlockMaker,
        encoder: Encoder,
        seed: str,
        limits: BatchLimits,
        start: int,
        stride: int = 1,
    ) -> None:
        self.maker, self.encoder, self.seed, self.limits = maker, encoder, seed, limits
        self.number, self.stride = start, stride
        self.ready: queue.Queue[TokenBatch | Exception] = queue.Queue(AHEAD)
        threading.Thread(target=self._draw, daemon=True).start()

    def _draw(self) -> None:
        while True:
            seed = f"{self.seed}:{self.number}"
            try:
                self.ready.put(draw_batch(self.maker, self.encoder, seed, self.limits))
            except Exception as problem:
                problem.add_note(f"drawing the batch {seed!r}")
                self.ready.put(problem)
                return
            self.number += self.stride

    def get(self) -> TokenBatch:
        """Return the next batch; raises what drawing it raised."""
        found = self.ready.get()
        if isinstance(found, Exception):
            raise found
        return found
