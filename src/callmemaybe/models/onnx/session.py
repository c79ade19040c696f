"""What all sessions over an ONNX graph share: checks, chunks, and collecting the rows asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from callmemaybe.models.base import Array, Logits, Session, check_feed
from callmemaybe.models.onnx.engine import OnnxEngine


class OnnxSession(Session):
    """What both kinds of session have in common: checking, chunking, collecting rows."""

    def __init__(self, engine: OnnxEngine, length: int = 0) -> None:
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
            at = self._take_segments(array[:, : array.shape[1] - keep])
            for count, rows in engine.plan(array.shape[1] - at, keep):
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

    def _take_segments(self, ids: Array) -> int:
        """Append the first of ``ids`` if they are whole segments (:mod:`.segments`); return how many those were."""
        del ids
        return 0

    def _pass(self, ids: Array, keep: int) -> Array:
        """Run one chunk ``[1, n]`` and advance; return logits, of which the last rows count."""
        raise NotImplementedError
