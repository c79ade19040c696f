"""Sessions that share one buffer of cells, so that one pass serves many of them without copies.

A session's ids stand in cells of a buffer, in order but not always side by side. What sessions have
in common, such as the list of tools that a batch of requests begins with, is one set of cells:
stored once, read once per pass. New ids of all sessions that go through together are written behind
the last cell in use; a bias hides from each what belongs to others (see :mod:`_graft`). A fork costs
nothing, rewinding frees cells, and nothing is padded: each session brings as many ids as it has.

Every id pays for the cells it may not see, as it would for those it may. So a session moves out,
with a copy of its own cells, before strangers' cells are more than its own; and cells that nobody
uses any more are closed up.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakSet, ref

import numpy as np
from numpy.typing import NDArray

from callmemaybe.errors import ModelError
from callmemaybe.models.base import (
    Feed,
    KVSnapshot,
    Logits,
    check_feed,
    check_rewind,
    feed_each,
    feed_forks,
    feed_trie,
)
from callmemaybe.models.onnx.engine import Engine
from callmemaybe.models.onnx.graph import TreeAttention
from callmemaybe.models.onnx.kv_buffer import KVBuffer, grown_capacity, prefix_index
from callmemaybe.models.onnx.sessions import OnnxSession

Array = NDArray[Any]
Cells = NDArray[np.int64]

#: Strangers' cells that any session puts up with, and unused ones that are left where they are.
_FOREIGN_CELLS, _UNUSED_CELLS = 256, 128
_NONE: Cells = np.zeros(0, np.int64)


class SharedKV:
    """A buffer of cells and the sessions that hold some of them; its lock guards both."""

    def __init__(self, buffer: KVBuffer) -> None:
        self.buffer = buffer
        self.lock = threading.RLock()
        self.sessions: WeakSet[SharedKVSession] = WeakSet()

    @property
    def top(self) -> int:
        """The first cell behind all that are in use."""
        ends = (int(session.cells[-1]) + 1 for session in self.sessions if len(session.cells))
        return max(ends, default=0)

    def reserve(self, engine: Engine, end: int) -> None:
        """See to it that there are ``end`` cells."""
        if end > self.buffer.capacity:
            top = self.top
            larger = engine.buffer(
                grown_capacity(end, engine.context, tight=engine.kind == "placed")
            )
            for old, new, axis in zip(self.buffer.arrays, larger.arrays, larger.axes, strict=True):
                new[prefix_index(top, axis)] = old[prefix_index(top, axis)]
            self.buffer = larger

    def compact(self) -> None:
        """Move the cells in use together, if many between them are not."""
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
    """A session whose ids stand in cells of a buffer that it shares with others."""

    def __init__(
        self, engine: Engine, shared: SharedKV | None = None, cells: Cells = _NONE
    ) -> None:
        super().__init__(engine)
        #: None before the first id: then the session goes wherever it fits.
        self.shared = shared
        #: Which cell each id is in, ascending; replaced, never changed.
        self.cells = cells
        if shared is not None:
            shared.sessions.add(self)

    @property
    def length(self) -> int:
        """How many ids the session holds."""
        return len(self.cells)

    def rewind(self, n: int) -> None:
        """Forget the last ``n`` ids: their cells are free."""
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

    def restore(self, length: int, frozen: KVSnapshot) -> bool:
        """Take over a stored cache, if it is one of this graph."""
        if not self._engine.graph.is_cache(frozen, length, self._engine.context):
            return False
        self._move_out(frozen, length, length)
        return True

    def feed_batch(self, feeds: Sequence[Feed]) -> list[Logits | ModelError]:
        """Feed several sessions; those that share a buffer share passes."""
        return feed_batch(self._engine, feeds)

    def branches(self, paths: Sequence[Sequence[int]]) -> list[Logits]:
        """Score all paths in shared passes, where the graph is right about those."""
        if not self._engine.may_batch():
            return feed_trie(self.fork(), paths)
        return feed_forks(self, paths, self._engine.context)

    # -- passes -------------------------------------------------------------------------------

    def _pass(self, ids: Array, keep: int) -> Array:
        count = ids.shape[1]
        while True:
            with self.shared_buffer(count).lock:
                if self._is_crowded(count):
                    continue  # another thread was quicker
                (logits,) = run(self._engine, [_Share(0, self, ids[0], keep)])
                return logits[None, :]

    def shared_buffer(self, count: int) -> SharedKV:
        """Return the buffer in which ``count`` more ids go."""
        if self.shared is None:
            with self._engine.lock:
                self.shared = self._join_common(count)
        with self.shared.lock:
            if self._is_crowded(count):
                self._move_out(_copy_cells(self.shared.buffer, self.cells), self.length, count)
            return self.shared

    def _join_common(self, count: int) -> SharedKV:
        """Join the buffer in which short sequences begin, a new one if that is full."""
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
            or count > _FOREIGN_CELLS  # who has so much to say would be in the others' way
            or (limit is not None and top + count > limit)
        )

    def _move_out(self, arrays: Sequence[Array], length: int, count: int) -> None:
        """Hold the ids whose share of the cache is ``arrays``, in a buffer of its own."""
        engine = self._engine
        wanted = grown_capacity(length + count, engine.context, tight=engine.kind == "placed")
        shared = SharedKV(engine.buffer(wanted))
        for mine, array, axis in zip(shared.buffer.arrays, arrays, shared.buffer.axes, strict=True):
            mine[prefix_index(length, axis)] = array
        if self.shared is not None:
            self.shared.sessions.discard(self)
        self.shared, self.cells = shared, np.arange(length)
        shared.sessions.add(self)


class _Share(NamedTuple):
    """One session's ids of a pass, and where its answer belongs."""

    at: int
    session: SharedKVSession
    ids: Array
    keep: int


def feed_batch(engine: Engine, feeds: Sequence[Feed]) -> list[Logits | ModelError]:
    """Feed sessions of ``engine`` in few passes; what fails stands in its place."""
    if not engine.may_batch():
        return feed_each(feeds)
    found: list[Any] = [None] * len(feeds)
    groups: dict[SharedKV, list[_Share]] = {}
    for at, (session, ids, keep) in enumerate(feeds):
        assert isinstance(session, SharedKVSession)
        left = None if engine.context is None else engine.context - session.length
        try:
            checked = check_feed(ids, keep, engine.size, left)
        except ModelError as error:
            found[at] = error
            continue
        share = _Share(at, session, checked, keep)
        groups.setdefault(session.shared_buffer(len(checked)), []).append(share)
    for shared, shares in groups.items():
        with shared.lock:
            for some in _passes(engine, shared, shares):
                try:
                    rows = run(engine, some) if len(some) > 1 else [_alone(some[0])]
                except ModelError as error:
                    rows = [error] * len(some)  # type: ignore[list-item]
                for share, answer in zip(some, rows, strict=True):
                    found[share.at] = answer
    return found


def _alone(share: _Share) -> Logits:
    return share.session.feed(share.ids.tolist(), share.keep)


def _passes(engine: Engine, shared: SharedKV, shares: Sequence[_Share]) -> Iterator[list[_Share]]:
    """Divide the shares of one buffer into passes of at most a chunk, which leave it in its bounds."""
    some: list[_Share] = []
    count = 0
    for share in shares:
        if not shared.top and not some:
            yield [share]  # with no cell in use, the operator counts positions by itself
            continue
        over = engine.context is not None and (shared.top + count + len(share.ids) > engine.context)
        if some and (over or count + len(share.ids) > engine.chunk):
            yield some
            some, count = [], 0
        some.append(share)
        count += len(share.ids)
    if some:
        yield some


def run(engine: Engine, shares: Sequence[_Share]) -> list[Logits]:
    """Run one pass over sessions of one buffer, whose lock is held; return the kept rows of each.

    Rows that are kept come last, so that the logits of no others need to be computed.
    """
    shared = shares[0].session.shared
    assert shared is not None
    top, count = shared.top, sum(len(share.ids) for share in shares)
    shared.reserve(engine, top + count)
    places = _row_places(shares)
    ids = np.empty((1, count), np.int64)
    for share, place in zip(shares, places, strict=True):
        ids[0, place] = share.ids
    tree = None if _is_plain(shares, top) else _tree_attention(shares, places, top, count)
    keep = sum(share.keep for share in shares)
    logits = engine.append(ids, [top], keep, shared.buffer, tree=tree)[0]
    logits = logits[len(logits) - keep :]
    found, at = [], 0
    for share, place in zip(shares, places, strict=True):
        share.session.cells = np.concatenate([share.session.cells, top + place])
        rows = logits[at : at + share.keep]
        # The array is the caller's, who shall not keep those of others alive.
        is_whole = len(shares) == 1 and engine.graph.keep
        found.append(rows.astype(np.float32, copy=not is_whole))
        at += share.keep
    return found


def _row_places(shares: Sequence[_Share]) -> list[Array]:
    """Return at which rows of the pass each one's ids are: first those whose logits nobody wants."""
    at, kept_at = 0, sum(len(share.ids) - share.keep for share in shares)
    found = []
    for share in shares:
        quiet = len(share.ids) - share.keep
        rows = np.arange(at, at + quiet), np.arange(kept_at, kept_at + share.keep)
        found.append(np.concatenate(rows))
        at, kept_at = at + quiet, kept_at + share.keep
    return found


def _is_plain(shares: Sequence[_Share], top: int) -> bool:
    """Whether a pass is of one session that holds all cells there are."""
    return len(shares) == 1 and shares[0].session.length == top


def _tree_attention(
    shares: Sequence[_Share], places: Sequence[Array], top: int, count: int
) -> TreeAttention:
    positions = np.zeros(count, np.int64)
    visible = np.zeros((count, top + count), bool)
    for share, place in zip(shares, places, strict=True):
        session = share.session
        positions[place] = session.length + np.arange(len(place))
        mine = np.zeros(top + count, bool)
        mine[session.cells] = True
        mine[top + place] = True
        visible[place] = mine
    return TreeAttention(positions, visible)


def _copy_cells(buffer: KVBuffer, cells: Cells) -> list[Array]:
    pairs = zip(buffer.arrays, buffer.axes, strict=True)
    return [np.take(array, cells, axis) for array, axis in pairs]
