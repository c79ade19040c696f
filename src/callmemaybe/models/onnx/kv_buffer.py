"""Key-value buffers of graphs that write in place, shared between a session and its forks.

A graph that writes new keys and values into the buffer it reads from copies nothing per token. A
rewind only lowers the session's length. A fork is a second reader of the same buffer (copy on
write): it copies only when it writes at a position that another session still uses. So the common
case of a batch (a prefix, forked for each request, the fork dropped after it) never copies.

Sequences that share a pass lie side by side in a :class:`BufferPool`.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet, finalize, ref

import numpy as np

from callmemaybe.models.base import Array

_STEP, _ANSWER = 256, 192
_ALIGNED = 64
# Populating all pages at once costs a third of faulting them in one by one.
_POPULATE: dict[str, int] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE}
    if hasattr(mmap, "MAP_POPULATE")
    else {}
)


class BoundArrays:
    """Arrays as the runtime's tensors, and the unused bindings of them.

    Binding dozens of arrays takes a tenth of a small model's pass, so bindings are reused. A pass
    takes one from ``bindings`` (or makes one), and puts it back if it succeeds.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = tuple(values)
        self.bindings: list[Any] = []


class KVBuffer:
    """Arrays of one sequence each (axis 0) whose positions ``[:length]`` readers may share.

    ``axes`` says which axis of each array the positions are.
    """

    def __init__(
        self, arrays: Sequence[Array], axes: Sequence[int], wrap: Callable[[Array], Any]
    ) -> None:
        self.arrays, self.axes = tuple(arrays), tuple(axes)
        self.bound = BoundArrays([wrap(array) for array in arrays])
        self._wrap = wrap
        self._readers: WeakSet[BufferReader] = WeakSet()
        self._lock = threading.Lock()

    @property
    def capacity(self) -> int:
        """How many positions there is room for."""
        return int(self.arrays[0].shape[self.axes[0]])

    @property
    def reach(self) -> int:
        """How many positions are, or may be, used by a reader."""
        with self._lock:
            return max((reader.reach for reader in self._readers), default=0)

    def join(self, reader: BufferReader) -> None:
        """Let ``reader`` use the positions below its reach."""
        with self._lock:
            self._readers.add(reader)

    def claim(self, reader: BufferReader, start: int, end: int, limit: int | None) -> KVBuffer:
        """Return the buffer in which ``reader`` may write positions ``start`` to ``end``.

        It is this one if there is room and no other reader uses those positions, else a larger copy of
        the positions before ``start``, with at most ``limit`` positions (see :func:`grown_capacity`).
        """
        if self.may_write(reader, start, end):
            return self
        arrays = [
            np.zeros(shape, array.dtype)
            for shape, array in zip(
                self._shapes(grown_capacity(end, limit, tight=True)), self.arrays, strict=True
            )
        ]
        return self.move(reader, start, end, KVBuffer(arrays, self.axes, self._wrap))

    def may_write(self, reader: BufferReader, start: int, end: int) -> bool:
        """Whether ``reader`` may write positions ``start`` to ``end``; it reaches that far then."""
        with self._lock:
            mine = end <= self.capacity and all(
                other.reach <= start for other in self._readers if other is not reader
            )
            if mine:
                reader.reach = end
            return mine

    def trim(self, reader: BufferReader, length: int) -> KVBuffer:
        """Move ``reader`` to a buffer with room for the positions before ``length`` only.

        The buffer is a memory mapping of its own, since it is meant to live long.
        """
        arrays = _mapped(self._shapes(length), [array.dtype for array in self.arrays])
        return self.move(reader, length, length, KVBuffer(arrays, self.axes, self._wrap))

    def _shapes(self, length: int) -> list[tuple[int, ...]]:
        pairs = zip(self.arrays, self.axes, strict=True)
        return [_resized(array, axis, length) for array, axis in pairs]

    def move(self, reader: BufferReader, start: int, end: int, other: KVBuffer) -> KVBuffer:
        """Move ``reader`` to ``other``, an unused buffer, and copy the positions before ``start``."""
        for mine, fresh, axis in zip(self.arrays, other.arrays, self.axes, strict=True):
            rows = prefix_index(start, axis)
            fresh[rows] = mine[rows]
        with self._lock:
            self._readers.discard(reader)
        other.join(reader)
        reader.reach = end
        return other


class BufferReader:
    """One session's use of a buffer: it uses, or may write, the positions below ``reach``."""

    def __init__(self, reach: int = 0) -> None:
        self.reach = reach


class BufferPool:
    """Buffers side by side in the same arrays, so that neighbours can share a pass.

    ``arrays`` have one sequence per slot; a slot is free again when its buffer is garbage collected.
    """

    def __init__(
        self, arrays: Sequence[Array], axes: Sequence[int], wrap: Callable[[Array], Any]
    ) -> None:
        self._arrays, self._axes, self._wrap = tuple(arrays), tuple(axes), wrap
        self._free = set(range(len(arrays[0])))
        self._slots: dict[int, ref[KVBuffer]] = {}
        self._spans: dict[tuple[int, int], BoundArrays] = {}

    @property
    def capacity(self) -> int:
        """How many positions there is room for in each slot."""
        return int(self._arrays[0].shape[self._axes[0]])

    @property
    def slots(self) -> int:
        """How many slots there are."""
        return len(self._arrays[0])

    def take(self) -> KVBuffer | None:
        """Return the first free slot's buffer; None if all are taken."""
        if not self._free:
            return None
        slot = min(self._free)
        self._free.discard(slot)
        found = KVBuffer([array[slot : slot + 1] for array in self._arrays], self._axes, self._wrap)
        self._slots[slot] = ref(found)
        finalize(found, self._release, slot)
        return found

    def _release(self, slot: int) -> None:
        del self._slots[slot]
        self._free.add(slot)

    def slot(self, buffer: KVBuffer) -> int | None:
        """Return which slot a buffer is; None if it is none of this pool."""
        return next((slot for slot, held in list(self._slots.items()) if held() is buffer), None)

    def reach(self, slot: int) -> int:
        """How many positions of a slot are in use; 0 for a free slot."""
        held = self._slots.get(slot)
        buffer = None if held is None else held()
        return 0 if buffer is None else buffer.reach

    def span(self, low: int, high: int) -> BoundArrays:
        """Return the slots from ``low`` to before ``high`` as the runtime's tensors."""
        found = self._spans.get((low, high))
        if found is None:
            found = BoundArrays([self._wrap(array[low:high]) for array in self._arrays])
            self._spans[low, high] = found
        return found


def grown_capacity(rows: int, limit: int | None, tight: bool = False) -> int:
    """Return a capacity for ``rows`` positions and more, at most ``limit``, so that few appends copy.

    Half as many again; with ``tight`` an eighth, for graphs that compute with the whole buffer. Either
    way there is room for a typical request and answer behind a shared prompt.
    """
    least, step, share = (_ANSWER, 64, 8) if tight else (_STEP, _STEP, 2)
    wanted = -(-max(rows + least, rows + rows // share) // step) * step
    return wanted if limit is None else max(rows, min(wanted, limit))


def _mapped(shapes: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype[Any]]) -> list[Array]:
    """Return zeroed arrays in one memory mapping, which is unmapped when they are garbage collected.

    A mapping takes longer than an allocator (1.1 ms for 3 MB, ten times as long). But glibc does not
    return freed memory between live pieces to the system: a cache of many prompts took 1.5 times the
    memory of its contents.
    """
    counts = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
    starts = [0]
    for count, dtype in zip(counts, dtypes, strict=True):
        starts.append(starts[-1] + -(-count * dtype.itemsize // _ALIGNED) * _ALIGNED)
    held = mmap.mmap(-1, max(1, starts[-1]), **_POPULATE)
    return [
        np.frombuffer(held, dtype, count, start).reshape(shape)
        for shape, dtype, count, start in zip(shapes, dtypes, counts, starts, strict=False)
    ]


def prefix_index(end: int, axis: int) -> tuple[slice, ...]:
    """Return the index of the positions before ``end`` along ``axis``."""
    return (*(slice(None),) * axis, slice(end))


def _resized(array: Array, axis: int, length: int) -> tuple[int, ...]:
    return (*array.shape[:axis], length, *array.shape[axis + 1 :])
