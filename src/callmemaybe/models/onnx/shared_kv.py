"""Sessions that share one key-value buffer, so that one pass serves many of them without copies.

The buffer is a row of cells, each with the keys and values of one id. A session owns some of the cells:
in order, but not always next to each other. A prefix that sessions have in common, such as the list of
tools that a batch of requests begins with, is one set of cells: stored once, read once per pass. The
new ids of all sessions in a pass are written behind the last cell in use, and a bias on the attention
hides the cells of other sessions (:mod:`.graph_rewrite`). A fork costs nothing, a rewind frees cells,
and nothing is padded: each session brings as many ids as it has.

Attention computes hidden cells too. So a session moves to a buffer of its own, with a copy of its
cells, before the cells of others outnumber its own; and unused cells are removed by compaction.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from weakref import WeakSet, ref

import numpy as np
from numpy.typing import NDArray

from callmemaybe.errors import ModelError
from callmemaybe.models.base import (
    Array,
    CheckedFeed,
    Feed,
    KVSnapshot,
    Logits,
    check_rewind,
    checked_feeds,
    feed_each,
    feed_forks,
    feed_trie,
)
from callmemaybe.models.onnx.engine import OnnxEngine
from callmemaybe.models.onnx.graph import TreeAttention
from callmemaybe.models.onnx.kv_buffer import KVBuffer, grown_capacity, prefix_index
from callmemaybe.models.onnx.session import OnnxSession

Cells = NDArray[np.int64]

#: Cells of others that a session always tolerates; unused cells below which nothing is compacted.
_FOREIGN_CELLS, _UNUSED_CELLS = 256, 128
_NONE: Cells = np.zeros(0, np.int64)


class SharedKV:
    """A buffer of cells and the sessions that use some of them; the lock guards both."""

    def __init__(self, buffer: KVBuffer) -> None:
        self.buffer = buffer
        self.lock = threading.RLock()
        self.sessions: WeakSet[SharedKVSession] = WeakSet()

    @property
    def top(self) -> int:
        """The index behind the last cell in use."""
        ends = (int(session.cells[-1]) + 1 for session in self.sessions if len(session.cells))
        return max(ends, default=0)

    def reserve(self, engine: OnnxEngine, end: int) -> None:
        """Grow the buffer to at least ``end`` cells."""
        if end > self.buffer.capacity:
            top = self.top
            larger = engine.buffer(grown_capacity(end, engine.context))
            for old, new, axis in zip(self.buffer.arrays, larger.arrays, larger.axes, strict=True):
                new[prefix_index(top, axis)] = old[prefix_index(top, axis)]
            self.buffer = larger

    def compact(self) -> None:
        """Close the gaps between the cells in use, if many cells are unused."""
        used = np.zeros(self.top, bool)
        for session in self.sessions:
            used[session.cells] = True
        if len(used) - int(used.sum()) < _UNUSED_CELLS:
            return
        first = int(used.argmin())
        moved = first + np.flatnonzero(used[first:])
        for array, axis in zip(self.buffer.arrays, self.buffer.axes, strict=True):
            target = (*(slice(None),) * axis, slice(first, first + len(moved)))
            array[target] = np.take(array, moved, axis)
        now = np.cumsum(used) - 1
        for session in self.sessions:
            session.cells = now[session.cells]


class SharedKVSession(OnnxSession):
    """A session whose ids are in cells of a buffer that it shares with others."""

    def __init__(
        self, engine: OnnxEngine, shared: SharedKV | None = None, cells: Cells = _NONE
    ) -> None:
        super().__init__(engine)
        #: None before the first id: a buffer is chosen when ids are fed.
        self.shared = shared
        #: The cell of each id, ascending; the array is replaced, never changed in place.
        self.cells = cells
        if shared is not None:
            shared.sessions.add(self)

    @property
    def length(self) -> int:
        """How many ids the session holds."""
        return len(self.cells)

    def rewind(self, n: int) -> None:
        """Forget the last ``n`` ids and free their cells."""
        check_rewind(n, self.length)
        if self.shared is not None:
            with self.shared.lock:
                self.cells = self.cells[: self.length - n]

    def fork(self) -> SharedKVSession:
        """Return a session on the same cells."""
        if self.shared is None:
            return SharedKVSession(self._engine)
        with self.shared.lock:
            return SharedKVSession(self._engine, self.shared, self.cells)

    def snapshot(self) -> KVSnapshot:
        """Return the cells in use, in order."""
        if self.shared is None:
            return tuple(self._engine.graph.empty(1, 0))
        with self.shared.lock:
            buffer, cells = self.shared.buffer, self.cells
            if len(cells) and cells[-1] == len(cells) - 1:
                pairs = zip(buffer.arrays, buffer.axes, strict=True)
                return tuple(array[prefix_index(len(cells), axis)] for array, axis in pairs)
            return tuple(_copy_cells(buffer, cells))

    def restore(self, length: int, snapshot: KVSnapshot) -> bool:
        """Take over a stored cache, if it is one of this graph."""
        if not self._engine.graph.is_cache(snapshot, length, self._engine.context):
            return False
        self._move_out(snapshot, length, length)
        return True

    def feed_batch(self, feeds: Sequence[Feed]) -> list[Logits | ModelError]:
        """Feed several sessions; those of one buffer share passes."""
        return feed_batch(self._engine, feeds)

    def branches(self, paths: Sequence[Sequence[int]]) -> list[Logits]:
        """Score all paths in shared passes, where the graph gives the right logits for them."""
        if not self._engine.may_batch():
            return feed_trie(self.fork(), paths)
        return feed_forks(self, paths, self._engine.context)

    # -- passes -------------------------------------------------------------------------------

    def _pass(self, ids: Array, keep: int) -> Array:
        count = ids.shape[1]
        while True:
            with self.shared_buffer(count).lock:
                if self._is_crowded(count):
                    continue  # another thread took the room in between
                (logits,) = run(self._engine, [CheckedFeed(0, self, ids[0], keep)])
                return logits[None, :]

    def shared_buffer(self, count: int) -> SharedKV:
        """Return the buffer for ``count`` more ids; it changes where the present one is crowded."""
        if self.shared is None:
            with self._engine.lock:
                self.shared = self._join_common(count)
        with self.shared.lock:
            if self._is_crowded(count):
                self._move_out(_copy_cells(self.shared.buffer, self.cells), self.length, count)
            return self.shared

    def _join_common(self, count: int) -> SharedKV:
        """Join the buffer in which short sequences begin, or a new buffer if that is full."""
        engine = self._engine
        shared: SharedKV | None = None if engine.common is None else engine.common()
        if shared is not None:
            with shared.lock:
                if shared.top + count <= _FOREIGN_CELLS:
                    shared.sessions.add(self)
                    return shared
        shared = SharedKV(engine.buffer(0))
        shared.sessions.add(self)
        engine.common = ref(shared)
        return shared

    def _is_crowded(self, count: int) -> bool:
        assert self.shared is not None
        if self.shared.top - self.length >= _UNUSED_CELLS:
            self.shared.compact()
        top, own = self.shared.top, self.length
        if top == own:
            return False
        limit = self._engine.context
        return (
            not self._engine.may_batch()
            or top - own > max(_FOREIGN_CELLS, own)
            or count > _FOREIGN_CELLS  # so many ids would burden the other sessions
            or (limit is not None and top + count > limit)
        )

    def _move_out(self, arrays: Sequence[Array], length: int, count: int) -> None:
        """Move to a buffer of its own whose first ``length`` cells are ``arrays``."""
        engine = self._engine
        wanted = grown_capacity(length + count, engine.context)
        shared = SharedKV(engine.buffer(wanted))
        for mine, array, axis in zip(shared.buffer.arrays, arrays, shared.buffer.axes, strict=True):
            mine[prefix_index(length, axis)] = array
        if self.shared is not None:
            self.shared.sessions.discard(self)
        self.shared, self.cells = shared, np.arange(length)
        shared.sessions.add(self)


def feed_batch(engine: OnnxEngine, feeds: Sequence[Feed]) -> list[Logits | ModelError]:
    """Feed sessions of ``engine``, those of one buffer in shared passes; an error is a result."""
    if not engine.may_batch():
        return feed_each(feeds)
    checked, results = checked_feeds(feeds, engine.size, engine.context)
    groups: dict[SharedKV, list[CheckedFeed]] = {}
    for feed in checked:
        groups.setdefault(feed.session.shared_buffer(len(feed.ids)), []).append(feed)
    for shared, group in groups.items():
        with shared.lock:
            for some in _passes(engine, shared, group):
                try:
                    rows = run(engine, some) if len(some) > 1 else [_alone(some[0])]
                except ModelError as error:
                    rows = [error] * len(some)  # type: ignore[list-item]
                for feed, logits in zip(some, rows, strict=True):
                    results[feed.index] = logits
    return results


def _alone(feed: CheckedFeed) -> Logits:
    logits: Logits = feed.session.feed(feed.ids.tolist(), feed.keep)
    return logits


def _passes(
    engine: OnnxEngine, shared: SharedKV, feeds: Sequence[CheckedFeed]
) -> Iterator[list[CheckedFeed]]:
    """Divide the feeds of one buffer into passes of at most a chunk that fit into the model's context."""
    some: list[CheckedFeed] = []
    count = 0
    for feed in feeds:
        if not shared.top and not some:
            yield [feed]  # with no cell in use, the operator counts positions by itself
            continue
        over = engine.context is not None and (shared.top + count + len(feed.ids) > engine.context)
        if some and (over or count + len(feed.ids) > engine.chunk):
            yield some
            some, count = [], 0
        some.append(feed)
        count += len(feed.ids)
    if some:
        yield some


def run(engine: OnnxEngine, feeds: Sequence[CheckedFeed]) -> list[Logits]:
    """Run one pass over sessions of one buffer, whose lock the caller has; return each session's logits.

    Ids whose logits are wanted come last, so that no other logits need to be computed.
    """
    shared = feeds[0].session.shared
    assert shared is not None
    top, count = shared.top, sum(len(feed.ids) for feed in feeds)
    shared.reserve(engine, top + count)
    places = _row_places(feeds)
    ids = np.empty((1, count), np.int64)
    for feed, place in zip(feeds, places, strict=True):
        ids[0, place] = feed.ids
    tree = None if _is_plain(feeds, top) else _tree_attention(feeds, places, top, count)
    keep = sum(feed.keep for feed in feeds)
    logits = engine.append(ids, [top], keep, shared.buffer, tree=tree)[0]
    logits = logits[len(logits) - keep :]
    found, at = [], 0
    for feed, place in zip(feeds, places, strict=True):
        feed.session.cells = np.concatenate([feed.session.cells, top + place])
        rows = logits[at : at + feed.keep]
        # A copy, so that a caller who keeps its rows does not keep those of others alive.
        is_whole = len(feeds) == 1 and engine.graph.keep
        found.append(rows.astype(np.float32, copy=not is_whole))
        at += feed.keep
    return found


def _row_places(feeds: Sequence[CheckedFeed]) -> list[Array]:
    """Return the rows of the pass for each feed's ids; ids without wanted logits come first."""
    at, kept_at = 0, sum(len(feed.ids) - feed.keep for feed in feeds)
    found = []
    for feed in feeds:
        unkept = len(feed.ids) - feed.keep
        rows = np.arange(at, at + unkept), np.arange(kept_at, kept_at + feed.keep)
        found.append(np.concatenate(rows))
        at, kept_at = at + unkept, kept_at + feed.keep
    return found


def _is_plain(feeds: Sequence[CheckedFeed], top: int) -> bool:
    """Whether a pass is of one session that owns all cells in use."""
    return len(feeds) == 1 and feeds[0].session.length == top


def _tree_attention(
    feeds: Sequence[CheckedFeed], places: Sequence[Array], top: int, count: int
) -> TreeAttention:
    positions = np.zeros(count, np.int64)
    visible = np.zeros((count, top + count), bool)
    for feed, place in zip(feeds, places, strict=True):
        session = feed.session
        positions[place] = session.length + np.arange(len(place))
        mine = np.zeros(top + count, bool)
        mine[session.cells] = True
        mine[top + place] = True
        visible[place] = mine
    return TreeAttention(positions, visible)


def _copy_cells(buffer: KVBuffer, cells: Cells) -> list[Array]:
    pairs = zip(buffer.arrays, buffer.axes, strict=True)
    return [np.take(array, cells, axis) for array, axis in pairs]
