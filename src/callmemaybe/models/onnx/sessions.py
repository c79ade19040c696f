"""Sessions over an ONNX graph, of the two kinds there are; see :mod:`onnx` for the graphs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from callmemaybe.errors import ModelError
from callmemaybe.models.base import (
    Feed,
    KVSnapshot,
    Logits,
    Session,
    check_feed,
    check_rewind,
    common_prefix_length,
    feed_trie,
    maximal_paths,
)
from callmemaybe.models.onnx.engine import Engine, close
from callmemaybe.models.onnx.feed_batch import feed_batch
from callmemaybe.models.onnx.kv_buffer import BufferReader, KVBuffer, prefix_index

Array = NDArray[Any]


class OnnxSession(Session):
    """What both kinds of session have in common: checking, chunking, collecting rows."""

    def __init__(self, engine: Engine, length: int = 0) -> None:
        self._engine = engine
        self._length = length

    @property
    def length(self) -> int:
        """How many ids the session holds."""
        return self._length

    @property
    def size(self) -> int:
        """Width of the logits; ids are below it."""
        return self._engine.size

    @property
    def memory(self) -> int:
        """Bytes of keys and values that the session's ids take."""
        return self.length * self._engine.graph.cache_bytes()

    def feed(self, ids: Sequence[int], keep: int = 1) -> Logits:
        """Append ids; return the logits after each of the last ``keep``."""
        engine, before = self._engine, self.length
        room = None if engine.context is None else engine.context - before
        array = check_feed(ids, keep, engine.size, room)[None, :]
        kept: list[Array] = []
        at = 0
        try:
            for count, rows in engine.plan(array.shape[1], keep):
                logits = self._pass(array[:, at : at + count], rows)
                at += count
                if rows:
                    kept.append(logits[0, -rows:].astype(np.float32, copy=logits.shape[1] > rows))
        except BaseException:
            self.rewind(self.length - before)
            raise
        if len(kept) == 1:
            return kept[0]
        return np.concatenate(kept) if kept else np.zeros((0, engine.size), np.float32)

    def _pass(self, ids: Array, keep: int) -> Array:
        """Run one chunk ``[1, n]`` and advance; return logits, of which the last rows count."""
        raise NotImplementedError


class ByPositionSession(OnnxSession):
    """A session over a graph that writes to its cache in place."""

    def __init__(self, engine: Engine, length: int = 0, cache: KVBuffer | None = None) -> None:
        super().__init__(engine, length)
        self.cache = cache or engine.buffer(0)
        self.reader = BufferReader(length)
        self.cache.join(self.reader)

    @property
    def memory(self) -> int:
        """Bytes of the buffer that the session reads from, whether its ids fill it or not."""
        return self.cache.capacity * self._engine.graph.cache_bytes()

    def trim(self) -> None:
        """Move to a buffer that is as long as what the session holds."""
        if self.cache.capacity > self._length:
            self.cache = self.cache.trim(self.reader, self._length)

    def rewind(self, n: int) -> None:
        """Forget the last ``n`` ids: nothing is touched."""
        check_rewind(n, self._length)
        self.reach(self._length - n)

    def reach(self, length: int) -> None:
        """Hold so many ids from now on, of those whose share of the cache is written."""
        self._length = self.reader.reach = length

    def fork(self) -> ByPositionSession:
        """Return a session on the same buffer, which is copied when the two disagree."""
        return ByPositionSession(self._engine, self._length, self.cache)

    def snapshot(self) -> KVSnapshot:
        """Return the positions of the cache that are in use."""
        pairs = zip(self.cache.arrays, self.cache.axes, strict=True)
        return tuple(array[prefix_index(self._length, axis)] for array, axis in pairs)

    def restore(self, length: int, frozen: KVSnapshot) -> bool:
        """Take over a stored cache, if it is one of this graph."""
        context = self._engine.context
        if not self._engine.graph.is_cache(frozen, length, context):
            return False
        tight = self._engine.kind == "placed"
        self.cache = self.cache.claim(self.reader, 0, length, context, tight)
        for mine, array, axis in zip(self.cache.arrays, frozen, self.cache.axes, strict=True):
            mine[prefix_index(length, axis)] = array
        self.reach(length)
        return True

    def feed_batch(self, feeds: Sequence[Feed]) -> list[Logits | ModelError]:
        """Feed several sessions in as few passes as the graph allows."""
        return feed_batch(self._engine, feeds)

    def _pass(self, ids: Array, keep: int) -> Array:
        start, end = self._length, self._length + ids.shape[1]
        tight = self._engine.kind == "placed"
        self.cache = self.cache.claim(self.reader, start, end, self._engine.context, tight)
        logits = self._engine.append(ids, [start], keep, self.cache)
        self._length = end
        return logits


class GrowingSession(OnnxSession):
    """A session over a graph that returns its cache longer than it took it."""

    def __init__(self, engine: Engine, length: int = 0, cache: Sequence[Any] | None = None) -> None:
        super().__init__(engine, length)
        self._cache = cache or engine.empty()

    def rewind(self, n: int) -> None:
        """Forget the last ``n`` ids; the cache is cut when it is next used."""
        check_rewind(n, self._length)
        self._length -= n

    def fork(self) -> GrowingSession:
        """Return a session with the same cache, which no pass ever changes."""
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

    def branches(self, paths: Sequence[Sequence[int]]) -> list[Logits]:
        """Score all paths in padded batches, where the graph is right about those."""
        engine = self._engine
        leaves = maximal_paths(paths)
        room = None if engine.context is None else engine.context - self._length
        for leaf in leaves:
            check_feed(leaf, 0, engine.size, room)
        rows = self._batched(leaves) if len(leaves) > 2 and engine.all_logits else None
        if rows is None:
            return feed_trie(self.fork(), paths)
        return [_read_off(rows, leaves, tuple(path)) for path in paths]

    def _batched(self, leaves: list[tuple[int, ...]]) -> dict[tuple[int, ...], Logits] | None:
        """Return the rows of each leaf, or None if the graph cannot, or memory would not do."""
        engine, session = self._engine, self.fork()
        stem = leaves[0][: common_prefix_length(leaves[0], leaves[-1])]
        ends = [leaf[len(stem) :] for leaf in leaves]
        longest = max(map(len, ends))
        count = engine.batch(session.length + len(stem) + longest, longest)
        if engine.batches is False or count < 2:
            return None
        first = session.feed(stem, len(stem)) if stem else np.zeros((0, engine.size), np.float32)
        try:
            tails = [
                logits
                for at in range(0, len(ends), count)
                for logits in session.batch(ends[at : at + count], longest)
            ]
        except ModelError:
            # GroupQueryAttention continues several sequences only by one id each.
            engine.batches = False
            return None
        if engine.batches is None:
            alone = session.fork().feed(ends[0], keep=len(ends[0]))
            engine.batches = close(tails[0], alone)
            if not engine.batches:
                return None
        return {
            leaf: np.concatenate([first, tail]) for leaf, tail in zip(leaves, tails, strict=True)
        }

    def batch(self, paths: Sequence[tuple[int, ...]], width: int) -> list[Logits]:
        """One pass over ``paths`` padded to ``width``, none of them kept."""
        engine = self._engine
        ids = np.zeros((len(paths), width), np.int64)
        for row, path in zip(ids, paths, strict=True):
            row[: len(path)] = path
        cache = [
            engine.view(np.repeat(value.numpy(), len(paths), axis=0)) for value in self._trimmed()
        ]
        logits, _ = engine.grow(ids, self._length, width, cache, quiet=True)
        return [
            rows[: len(path)].astype(np.float32) for rows, path in zip(logits, paths, strict=True)
        ]


def _read_off(
    rows: Mapping[tuple[int, ...], Logits], leaves: list[tuple[int, ...]], path: tuple[int, ...]
) -> Logits:
    """Return the rows of a path: those of the first leaf that goes through it."""
    leaf = leaves[bisect_left(leaves, path)] if path else leaves[0]
    return rows[leaf][: len(path)].copy()
