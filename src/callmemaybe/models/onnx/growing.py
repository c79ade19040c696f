"""Sessions of graphs that take the cache in and return it longer; each pass copies it once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from callmemaybe.models.base import (
    Array,
    check_rewind,
)
from callmemaybe.models.onnx.engine import OnnxEngine
from callmemaybe.models.onnx.kv_buffer import prefix_index
from callmemaybe.models.onnx.session import OnnxSession


class GrowingSession(OnnxSession):
    """A session over a graph that returns its cache longer than it took it."""

    def __init__(
        self, engine: OnnxEngine, length: int = 0, cache: Sequence[Any] | None = None
    ) -> None:
        super().__init__(engine, length)
        self._cache = cache or engine.empty()

    def rewind(self, n: int) -> None:
        """Forget the last ``n`` ids; the cache is truncated when it is next used."""
        check_rewind(n, self._length)
        self._length -= n

    def fork(self) -> GrowingSession:
        """Return a session with the same cache; a pass returns a new cache and does not change it."""
        return GrowingSession(self._engine, self._length, self._cache)

    def _pass(self, ids: Array, keep: int) -> Array:
        logits, self._cache = self._engine.grow(ids, self._length, keep, self._trimmed())
        self._length += ids.shape[1]
        return logits

    def _trimmed(self) -> Sequence[Any]:
        axes = self._engine.graph.axes
        if self._cache[0].shape()[axes[0]] > self._length:
            view = self._engine.view
            self._cache = [
                view(np.ascontiguousarray(value.numpy()[prefix_index(self._length, axis)]))
                for value, axis in zip(self._cache, axes, strict=True)
            ]
        return self._cache
