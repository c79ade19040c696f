"""What sessions need of an engine that runs a graph: :class:`callmemaybe.models.onnx.model.OnnxEngine`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from callmemaybe.models.base import Logits
from callmemaybe.models.onnx.graph import Graph, TreeAttention
from callmemaybe.models.onnx.kv_buffer import BoundArrays, BufferPool, BufferReader, KVBuffer

Array = NDArray[Any]


class Engine(Protocol):
    """A loaded graph and how to run it."""

    graph: Graph
    context: int | None
    size: int
    #: Whether the graph gives logits for each position, and how it keeps its cache.
    all_logits: bool
    kind: Literal["fused", "placed", "grown"]
    batches: bool | None
    chunk: int
    #: The most ids with which a sequence shares a pass; more keep a processor busy alone.
    most_shared_ids: int
    lock: threading.RLock
    pool: BufferPool | None
    #: A weak reference to where short sequences begin that have nothing in common; None before any.
    common: Any

    def may_batch(self) -> bool:
        """Whether sequences go through together and come out right."""
        ...

    def buffer(self, length: int, sequences: int = 1) -> KVBuffer:
        """Return an empty cache with room for so many positions."""
        ...

    def empty(self) -> list[Any]:
        """Return the cache of a grown session that holds nothing."""
        ...

    def view(self, array: Array) -> Any:
        """View an array's memory as the runtime sees it; the array must live as long."""
        ...

    def grow(
        self, ids: Array, past: int, keep: int, cache: Sequence[Any], quiet: bool = False
    ) -> tuple[Array, list[Any]]:
        """Run ``ids[batch, n]``; return the logits and the longer cache."""
        ...

    def append(
        self,
        ids: Array,
        past: Sequence[int],
        keep: int,
        cache: KVBuffer | BoundArrays,
        quiet: bool = False,
        tree: TreeAttention | None = None,
    ) -> Array:
        """Run ``ids[batch, n]``, writing into ``cache`` behind ``past`` each; return the logits."""
        ...

    def batch(self, length: int, width: int) -> int:
        """How many paths of ``width`` ids may go through at once behind ``length - width``."""
        ...

    def plan(self, count: int, keep: int) -> list[tuple[int, int]]:
        """Split ``count`` ids into (ids, rows kept) per pass, in order."""
        ...


class InPlace(Protocol):
    """A session whose cache is written in place."""

    cache: KVBuffer
    reader: BufferReader

    @property
    def length(self) -> int:
        """How many ids the session holds."""
        ...

    def reach(self, length: int) -> None:
        """Hold so many ids from now on."""
        ...

    def feed(self, ids: Sequence[int], keep: int = 1) -> Logits:
        """Append ids; return the logits after each of the last ``keep``."""
        ...


def close(left: Array, right: Array) -> bool:
    """Whether two ways to the same logits agree, as far as different kernels may."""
    scale = float(np.abs(right).max()) or 1.0
    return bool(np.abs(left.astype(np.float64) - right).max() <= 0.02 * scale)
