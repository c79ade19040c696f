"""Sessions of graphs that write each id's keys and values at the id's position.

A session reads from a buffer that its forks share until two of them write to the same positions; then
one of them copies (:mod:`.kv_buffer`). Several sessions go through in one pass when their buffers lie
side by side in a pool. A pass has a fixed cost (reading the weights) and a cost for each row of ids.
Sequences are padded to the longest of a pass; what would be padded too much goes through alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from callmemaybe.errors import ModelError
from callmemaybe.models.base import (
    Array,
    CheckedFeed,
    Feed,
    KVSnapshot,
    Logits,
    check_rewind,
    checked_feeds,
    padded_runs,
)
from callmemaybe.models.onnx.engine import OnnxEngine
from callmemaybe.models.onnx.kv_buffer import (
    BufferPool,
    BufferReader,
    KVBuffer,
    grown_capacity,
    prefix_index,
)
from callmemaybe.models.onnx.segments import NOWHERE, SegmentStates, Span, opening
from callmemaybe.models.onnx.session import OnnxSession

_MIN_SLOTS = 8
#: A sequence with more new ids than this goes through alone.
_MOST_SHARED_IDS = 64
#: Bytes of a sequence's cache above which it keeps its buffer: copying them into the pool takes longer
#: than sharing the few passes of a call saves (measured: 250 MB of keys and values, 1,659 ms a call
#: in a batch of eight, 790 alone). A pool has room for the longest in each slot, and keeps it: one of 16 MiB
#: in front of a mixed load took 130 MiB more than one of 4, at the same speed.
_MAX_POOLED_BYTES = 4 << 20


class ByPositionSession(OnnxSession):
    """A session over a graph that writes to its cache in place."""

    def __init__(self, engine: OnnxEngine, length: int = 0, cache: KVBuffer | None = None) -> None:
        super().__init__(engine, length)
        self.cache = cache or engine.buffer(0)
        self.reader = BufferReader(length)
        self.cache.join(self.reader)
        self._copied = 0

    @property
    def copied(self) -> int | None:
        """How many ids were copied; None for a graph without segments."""
        return None if self._engine.segments is None else self._copied

    @property
    def memory(self) -> int:
        """Bytes of the buffer that the session reads from, whether its ids fill it or not."""
        return self.cache.capacity * self._engine.graph.cache_bytes()

    def trim(self) -> None:
        """Move to a buffer that is as long as what the session holds."""
        if self.cache.capacity > self._length:
            self.cache = self.cache.trim(self.reader, self._length)

    def rewind(self, n: int) -> None:
        """Forget the last ``n`` ids; the cache is not touched."""
        check_rewind(n, self._length)
        self.set_length(self._length - n)

    def set_length(self, length: int) -> None:
        """Hold so many ids from now on, all of which are written in the cache."""
        self._length = self.reader.reach = length

    def fork(self) -> ByPositionSession:
        """Return a session on the same buffer; the first to write where the other reads copies it."""
        return ByPositionSession(self._engine, self._length, self.cache)

    def snapshot(self) -> KVSnapshot:
        """Return the positions of the cache that are in use."""
        pairs = zip(self.cache.arrays, self.cache.axes, strict=True)
        return tuple(array[prefix_index(self._length, axis)] for array, axis in pairs)

    def restore(self, length: int, snapshot: KVSnapshot) -> bool:
        """Take over a stored cache, if it is one of this graph."""
        context = self._engine.context
        if not self._engine.graph.is_cache(snapshot, length, context):
            return False
        self._claim(0, length)
        for mine, array, axis in zip(self.cache.arrays, snapshot, self.cache.axes, strict=True):
            mine[prefix_index(length, axis)] = array
        self.set_length(length)
        return True

    def feed_batch(self, feeds: Sequence[Feed]) -> list[Logits | ModelError]:
        """Feed several sessions in as few passes as the graph allows."""
        return feed_batch(self._engine, feeds)

    def _take_segments(self, ids: Array) -> int:
        states = self._engine.segments
        segments = [] if states is None else [*states.layout.spans(ids[0].tolist())]
        if states is None or not segments:
            return 0
        first, taken = self._length, 0
        self._claim(first, first + ids.shape[1])  # all at once, so that nothing is moved later
        apart = ByPositionSession(self._engine)
        for spans in segments:
            start = spans[0].start
            if taken < start and first == 0 == taken:
                self._take_opening(states, ids[:, :start])
            elif taken < start:
                self._read(ids[:, taken:start])
            at = states.layout.standing(self.cache.arrays, self._length - 1)
            if at is None:
                return start
            self._take_segment(states, spans, ids, at, apart)
            taken = spans[-1].end
        return taken

    def _take_opening(self, states: SegmentStates, ids: Array) -> None:
        """Append what a sequence opens with: copy what is kept of it, or read and keep it."""
        span = opening(ids[0].tolist())
        if self._copy(states, span, 0, NOWHERE):
            return
        self._read(ids)
        states.keep(span, self.cache.arrays, 0, NOWHERE)

    def _take_segment(
        self,
        states: SegmentStates,
        spans: Sequence[Span],
        ids: Array,
        at: Array,
        apart: ByPositionSession,
    ) -> None:
        """Append the ``spans`` of a segment of ``ids``: copy what is kept of them, read and keep the rest.

        It is read behind the id that begins it in the session ``apart``, and copied here: the fewer positions a
        pass has before it, the less it costs, and a segment sees none of them.
        """
        start, end = spans[0].start, spans[-1].end
        offset = self._length - start
        left = list(spans)
        while left and self._copy(states, left[0], offset, at):
            del left[0]
        if not left:
            return
        if not apart.length:
            apart._read(np.array([[states.layout.begin]], ids.dtype))
        apart.set_length(1)
        apart._read(ids[:, start:end])
        for span in left:
            states.keep(span, apart.cache.arrays, 1 - start, NOWHERE)
            if not states.copy(span, self.cache.arrays, offset, at):  # too large to be kept
                self._read(ids[:, span.start : end])
                return
            self._length += span.end - span.start

    def _copy(self, states: SegmentStates, span: Span, offset: int, at: Array) -> bool:
        """Append a span by copying it; False where nothing of it is kept."""
        found = states.copy(span, self.cache.arrays, offset, at)
        if found:
            self._length += span.end - span.start
            self._copied += span.end - span.start
        return found

    def _read(self, ids: Array) -> None:
        """Append ids, whose logits nobody asks for."""
        at = 0
        for count, _ in self._engine.plan(ids.shape[1], 0):
            self._pass(ids[:, at : at + count], 0)
            at += count

    def _claim(self, start: int, end: int) -> None:
        self.cache = self.cache.claim(self.reader, start, end, self._engine.context)

    def _pass(self, ids: Array, keep: int) -> Array:
        start, end = self._length, self._length + ids.shape[1]
        self._claim(start, end)
        logits = self._engine.append(ids, [start], keep, self.cache)
        self._length = end
        return logits


def feed_batch(engine: OnnxEngine, feeds: Sequence[Feed]) -> list[Logits | ModelError]:
    """Feed sessions of ``engine`` in as few passes as pay; an error is a result."""
    checked, results = checked_feeds(feeds, engine.size, engine.context)
    with engine.lock:
        for group in _plan(engine, checked):
            before = [feed.session.length for feed in group]
            try:
                if len(group) == 1:
                    rows = [group[0].session.feed(group[0].ids.tolist(), group[0].keep)]
                else:
                    rows = _padded(engine, group)
            except ModelError as error:
                rows = [error] * len(group)
                for feed, length in zip(group, before, strict=True):
                    feed.session.set_length(length)
            for feed, logits in zip(group, rows, strict=True):
                results[feed.index] = logits
    return results


def _plan(engine: OnnxEngine, feeds: list[CheckedFeed]) -> list[list[CheckedFeed]]:
    """Divide the feeds into passes, at the lowest total cost."""
    if len(feeds) < 2 or not engine.all_logits or not engine.may_batch():
        return [[feed] for feed in feeds]
    most = _MAX_POOLED_BYTES // engine.graph.cache_bytes()
    # A prompt without logits is fed to be kept. In a slot it would keep the whole pool alive, and old pools, too.
    fits = [
        bool(feed.keep) and len(feed.ids) <= _MOST_SHARED_IDS and feed.session.length <= most
        for feed in feeds
    ]
    alone = [feed for feed, is_fit in zip(feeds, fits, strict=True) if not is_fit]
    feeds = [feed for feed, is_fit in zip(feeds, fits, strict=True) if is_fit]
    feeds.sort(key=lambda feed: len(feed.ids))
    if engine.context is not None and feeds:
        # Padding would lie beyond the model's context.
        end = engine.context - len(feeds[-1].ids)
        alone += [feed for feed in feeds if feed.session.length > end]
        feeds = [feed for feed in feeds if feed.session.length <= end]
    counts = [len(feed.ids) for feed in feeds]
    groups, at = [[feed] for feed in alone], 0
    for size in padded_runs(counts, engine.chunk) if counts else ():
        groups.append(feeds[at : at + size])
        at += size
    return groups


def _padded(engine: OnnxEngine, group: Sequence[CheckedFeed]) -> list[Logits]:
    """Feed a group in one pass, padded to its last and longest; return each session's logits."""
    width = len(group[-1].ids)
    firsts = [len(feed.ids) - feed.keep for feed in group]
    rows = _pass(
        engine,
        [feed.session for feed in group],
        [feed.ids for feed in group],
        width,
        max(1, width - min(firsts)),
    )
    skipped = width - len(rows[0])
    return [
        logits[first - skipped : len(feed.ids) - skipped].astype(np.float32)
        if feed.keep
        else np.zeros((0, engine.size), np.float32)
        for feed, first, logits in zip(group, firsts, rows, strict=True)
    ]


def _pass(
    engine: OnnxEngine,
    sessions: Sequence[ByPositionSession],
    parts: Sequence[Array],
    width: int,
    keep: int,
) -> list[Array]:
    """Run one pass over ``sessions``, each with up to ``width`` ids.

    Returns each session's logits, at least those of the last ``keep`` columns.
    """
    slots = _assign_slots(engine, sessions, width)
    pool = engine.pool
    assert pool is not None
    found: dict[int, Array] = {}
    order = sorted(range(len(sessions)), key=slots.__getitem__)
    for run in _slot_runs(pool, [slots[index] for index in order], width):
        low, high = run[0], run[-1] + 1
        ids = np.zeros((high - low, width), np.int64)
        past = [pool.reach(slot) for slot in range(low, high)]
        for index in order:
            if low <= slots[index] < high:
                ids[slots[index] - low, : len(parts[index])] = parts[index]
                past[slots[index] - low] = sessions[index].length
        logits = engine.append(ids, past, keep, pool.span(low, high))
        for index in order:
            if low <= slots[index] < high:
                found[index] = logits[slots[index] - low]
    for session, part in zip(sessions, parts, strict=True):
        session.set_length(session.length + len(part))
    return [found[index] for index in range(len(sessions))]


def _assign_slots(
    engine: OnnxEngine, sessions: Sequence[ByPositionSession], width: int
) -> list[int]:
    """Move sessions into writable slots of one pool where they are not yet; return the slots."""
    longest = max(session.length for session in sessions) + width
    pool = engine.pool
    if pool is None or pool.capacity < longest:
        pool = engine.pool = _pool(engine, longest, pool.slots if pool else _MIN_SLOTS)
    slots: list[int] = []
    for session in sessions:
        slot = pool.slot(session.cache)
        length = session.length
        if slot is None or not session.cache.may_write(session.reader, length, length + width):
            fresh = pool.take()
            if fresh is None:
                engine.pool = _pool(engine, longest, 2 * pool.slots)
                return _assign_slots(engine, sessions, width)
            session.cache = session.cache.move(session.reader, length, length + width, fresh)
            slot = pool.slot(fresh)
            assert slot is not None
        slots.append(slot)
    return slots


def _pool(engine: OnnxEngine, length: int, slots: int) -> BufferPool:
    limit = None if engine.context is None else max(length, engine.context)
    buffer: Callable[[int, int], KVBuffer] = engine.buffer
    capacity = grown_capacity(length, limit, tight=True)
    return BufferPool(buffer(capacity, slots).arrays, engine.graph.axes, engine.view)


def _slot_runs(pool: BufferPool, slots: Sequence[int], width: int) -> list[list[int]]:
    """Divide slots (ascending) into runs; an unused slot inside a run is fed zeros behind its end."""
    runs: list[list[int]] = [[slots[0]]]
    for slot in slots[1:]:
        between = range(runs[-1][-1] + 1, slot)
        if len(between) < 2 and all(pool.reach(at) + width <= pool.capacity for at in between):
            runs[-1].append(slot)
        else:
            runs.append([slot])
    return runs
