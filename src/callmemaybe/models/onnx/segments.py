"""States of segments that see nothing but themselves: kept, and copied to where the same ids stand again.

A network may be made so that a piece of its input, such as one of many tools, begins at position 0 and
attends to itself alone. Then what it keeps of that piece is the same in any list and at any place, but for
whole numbers that say where the segment begins and how many there were before. ``config.json`` names those
("segments"). A segment that has been read is copied from then on, with these numbers shifted: of 50 ids
that takes 0.2 ms, reading them 15. Each segment goes through by itself, so that nothing beside it changes a bit.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from callmemaybe.errors import ModelError
from callmemaybe.models.base import Array
from callmemaybe.models.onnx.graph import CacheTensor, Graph

#: Bytes of states that are kept for one model; of the embedded one's functions some 230.
MAX_BYTES = 128 << 20

Key = tuple[int, ...]


class Numbers(NamedTuple):
    """Where one tensor of the cache holds numbers that depend on where a segment stands."""

    tensor: int
    #: Rows that hold positions, counted from 1, and rows that hold how many segments had begun; 0 is neither.
    places: tuple[int, ...]
    counts: tuple[int, ...]


class Span(NamedTuple):
    """Ids ``[start, end)`` of a sequence; ``key`` are those since the segment's beginning, to the end."""

    key: Key
    start: int
    end: int


#: What to add to the numbers of what a sequence opens with.
NOWHERE = np.zeros(2, np.int64)


def opening(ids: Sequence[int]) -> Span:
    """Return what stands before the first segment of a sequence; it is kept like a segment."""
    return Span((-1, *ids), 0, len(ids))


@dataclass(frozen=True)
class SegmentLayout:
    """Which ids bound segments, and which numbers depend on where a segment stands.

    A segment begins behind the id ``begin``, and ends with one of ``ends``, which belongs to it.
    """

    begin: int
    ends: frozenset[int]
    numbers: tuple[Numbers, ...]
    cache: tuple[CacheTensor, ...]

    @classmethod
    def read(cls, about: Any, graph: Graph, where: Path) -> SegmentLayout:
        """Read "segments" of the configuration ``where``. Raises ModelError if that does not fit the graph."""
        names = [state.past.partition(".")[2] for state in graph.cache]
        try:
            numbers = tuple(
                Numbers(
                    names.index(name),
                    tuple(map(int, rows.get("places", ()))),
                    tuple(map(int, rows.get("counts", ()))),
                )
                for name, rows in about["numbers"].items()
            )
            found = cls(
                int(about["begin"]), frozenset(map(int, about["ends"])), numbers, graph.cache
            )
            found.place(NOWHERE, graph.empty(1, 1))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ModelError(
                f'{where}: "segments" does not fit the graph ({error}); '
                "fetch the folder again, or take the entry out"
            ) from error
        return found

    def spans(self, ids: Sequence[int]) -> Iterator[list[Span]]:
        """Yield the whole segments of ``ids``, each as what it says and the id that ends it."""
        start = None
        for at, token in enumerate(ids):
            if token in self.ends:
                if start is not None:
                    key = tuple(ids[start : at + 1])
                    text = [Span(key[:-1], start, at)] if at > start else []
                    yield [*text, Span(key, at, at + 1)]
                start = at + 1 if token == self.begin else None

    def place(self, at: Array, arrays: Sequence[Array | None]) -> None:
        """Add ``at``, a position and a count, to the numbers of states ``arrays``."""
        for tensor, places, counts in self.numbers:
            array = arrays[tensor]
            if array is None:
                continue
            rows = np.moveaxis(array, self.cache[tensor].axis, 1)
            for some, more in zip((places, counts), at.tolist(), strict=True):
                for row in some:
                    held = rows[:, :, row]
                    held += more * (held != 0)

    def standing(self, arrays: Sequence[Array], position: int) -> Array | None:
        """Return what to add to the numbers of a segment behind the ``begin`` at ``position``.

        None where something else than segments stands before: their states may depend on it.
        """
        count = 1
        for tensor, places, counts in self.numbers:
            row = np.moveaxis(arrays[tensor], self.cache[tensor].axis, 1)[0, position]
            if any(row[place] not in {0, position + 1} for place in places):
                return None
            count = max(count, *(int(row[each]) for each in counts))
        # Kept is what the first segment of a sequence has, behind a `begin` at position 0.
        return np.array([position, count - 1])


class SegmentStates:
    """Keeps what was read of segments; thread-safe. The least recently used are dropped first."""

    def __init__(self, layout: SegmentLayout, max_bytes: int = MAX_BYTES) -> None:
        self.layout = layout
        self.max_bytes = max_bytes
        self.bytes = 0
        self._kept: OrderedDict[Key, tuple[Array | None, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def keep(self, span: Span, arrays: Sequence[Array], offset: int, at: Array) -> None:
        """Keep the positions of ``span``, ``offset`` further on in ``arrays``; see ``standing`` for ``at``."""
        pieces = self._pieces(arrays, span, offset)
        sizes = [piece.nbytes if piece.any() else 0 for piece in pieces]
        if sum(sizes) > self.max_bytes:
            return
        whole = np.empty(sum(sizes), np.uint8)  # one allocation, which goes back as a whole
        found: list[Array | None] = []
        start = 0
        for piece, size in zip(pieces, sizes, strict=True):
            held = None
            if size:
                held = whole[start : start + size].view(piece.dtype).reshape(piece.shape)
                held[...] = piece
            found.append(held)
            start += size
        self.layout.place(-at, found)
        with self._lock:
            self._drop(self._kept.pop(span.key, ()))
            self._kept[span.key] = tuple(found)
            self.bytes += len(whole)
            while self.bytes > self.max_bytes:
                self._drop(self._kept.popitem(last=False)[1])

    def copy(self, span: Span, arrays: Sequence[Array], offset: int, at: Array) -> bool:
        """Write what is kept of ``span`` into ``arrays``; False where nothing is."""
        with self._lock:
            found = self._kept.get(span.key)
            if found is None:
                return False
            self._kept.move_to_end(span.key)
        targets = self._pieces(arrays, span, offset)
        for target, held in zip(targets, found, strict=True):
            target[...] = 0 if held is None else held
        self.layout.place(at, targets)
        return True

    def _drop(self, arrays: Sequence[Array | None]) -> None:
        self.bytes -= sum(one.nbytes for one in arrays if one is not None)

    def _pieces(self, arrays: Sequence[Array], span: Span, offset: int) -> list[Array]:
        rows = slice(offset + span.start, offset + span.end)
        pairs = zip(arrays, self.layout.cache, strict=True)
        return [array[(*(slice(None),) * state.axis, rows)] for array, state in pairs]
