"""The key-value cache of fused attention: one buffer that sessions share until they disagree.

An engine whose attention writes new keys and values into the buffer it reads from copies nothing
per token. Rewinding is then a smaller number, and a fork is a second reader of the same buffer: it
gets a copy of its own only when it writes where another session has something to lose. So the
common case of a batch (a prefix, forked for each request, the fork dropped after it) copies never.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_STEP = 256


class Shared:
    """Arrays ``[1, heads, capacity, width]`` whose rows ``[:length]`` several readers may share."""

    def __init__(self, arrays: Sequence[Array], wrap: Callable[[Array], Any]) -> None:
        self.arrays = tuple(arrays)
        self.values = tuple(wrap(array) for array in arrays)
        self._wrap = wrap
        self._readers: WeakSet[Reader] = WeakSet()
        self._lock = threading.Lock()

    @property
    def capacity(self) -> int:
        """How many positions there is room for."""
        return int(self.arrays[0].shape[2])

    def join(self, reader: Reader) -> None:
        """Let ``reader`` use the rows below its reach."""
        with self._lock:
            self._readers.add(reader)

    def claim(self, reader: Reader, start: int, end: int, limit: int | None) -> Shared:
        """Return the buffer in which ``reader`` may write rows ``start`` to ``end``.

        It is this one if there is room and nobody else relies on those rows, else a larger copy
        of the rows before ``start``, with room up to ``limit``.
        """
        with self._lock:
            mine = end <= self.capacity and all(
                other.reach <= start for other in self._readers if other is not reader
            )
            if mine:
                reader.reach = end
                return self
            copy = self._copy(start, _room(end, limit))
            self._readers.discard(reader)
        copy.join(reader)
        reader.reach = end
        return copy

    def _copy(self, rows: int, capacity: int) -> Shared:
        arrays = []
        for array in self.arrays:
            batch, heads, _, width = array.shape
            fresh = np.zeros((batch, heads, capacity, width), array.dtype)
            fresh[:, :, :rows] = array[:, :, :rows]
            arrays.append(fresh)
        return Shared(arrays, self._wrap)


class Reader:
    """One session's claim on a buffer: rows below ``reach`` are, or may be, its own."""

    def __init__(self, reach: int = 0) -> None:
        self.reach = reach


def _room(rows: int, limit: int | None) -> int:
    """Half as much again, so that appending copies seldom; not beyond the model's context."""
    wanted = -(-max(rows + _STEP, rows + rows // 2) // _STEP) * _STEP
    return wanted if limit is None else max(rows, min(wanted, limit))
