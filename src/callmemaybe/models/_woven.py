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
from callmemaybe.models._cache import Shared, before_end, room
from callmemaybe.models._engine import Engine
from callmemaybe.models._graph import Woven
from callmemaybe.models._onnx_sessions import OnnxSession
from callmemaybe.models.base import (
    Feed,
    Frozen,
    Logits,
    check_feed,
    check_rewind,
    fan,
    one_by_one,
    walk,
)

Array = NDArray[Any]
Cells = NDArray[np.int64]

#: Strangers' cells that any session puts up with, and unused ones that are left where they are.
_STRANGERS, _HOLES = 256, 128
_NONE: Cells = np.zeros(0, np.int64)


class Weave:
    """A buffer of cells and the sessions that hold some of them; its lock guards both."""

    def __init__(self, buffer: Shared) -> None:
        self.buffer = buffer
        self.lock = threading.RLock()
        self.sessions: WeakSet[WovenSession] = WeakSet()

    @property
    def top(self) -> int:
        """The first cell behind all that are in use."""
        ends = (int(session.cells[-1]) + 1 for session in self.sessions if len(session.cells))
        return max(ends, default=0)

    def reserve(self, engine: Engine, end: int) -> None:
        """See to it that there are ``end`` cells."""
        if end > self.buffer.capacity:
            top = self.top
            larger = engine.buffer(room(end, engine.context, tight=engine.kind == "placed"))
            for old, new, axis in zip(self.buffer.arrays, larger.arrays, larger.axes, strict=True):
                new[before_end(top, axis)] = old[before_end(top, axis)]
            self.buffer = larger

    def close_up(self) -> None:
        """Move the cells in use together, if many between them are not."""
        used = np.zeros(self.top, bool)
        for session in self.sessions:
            used[session.cells] = True
        if len(used) - int(used.sum()) < _HOLES:
            return
        first = int(used.argmin())
        moved = first + np.flatnonzero(used[first:])
        for array, axis in zip(self.buffer.arrays, self.buffer.axes, strict=True):
            target = (*(slice(None),) * axis, slice(first, first + len(moved)))
            array[target] = np.take(array, moved, axis)
        now = np.cumsum(used) - 1
        for session in self.sessions:
            session.cells = now[session.cells]


class WovenSession(OnnxSession):
    """A session whose ids stand in cells of a buffer that it shares with others."""

    def __init__(self, engine: Engine, weave: Weave | None = None, cells: Cells = _NONE) -> None:
        super().__init__(engine)
        #: None before the first id: then the session goes wherever it fits.
        self.weave = weave
        #: Which cell each id is in, ascending; replaced, never changed.
        self.cells = cells
        if weave is not None:
            weave.sessions.add(self)

    @property
    def length(self) -> int:
        """How many ids the session holds."""
        return len(self.cells)

    def rewind(self, n: int) -> None:
        """Forget the last ``n`` ids: their cells are free."""
        check_rewind(n, self.length)
        if self.weave is not None:
            with self.weave.lock:
                self.cells = self.cells[: self.length - n]

    def fork(self) -> WovenSession:
        """Return a session on the same cells."""
        if self.weave is None:
            return WovenSession(self._engine)
        with self.weave.lock:
            return WovenSession(self._engine, self.weave, self.cells)

    def freeze(self) -> Frozen:
        """Return the cells in use, in order."""
        if self.weave is None:
            return tuple(self._engine.graph.empty(1, 0))
        with self.weave.lock:
            buffer, cells = self.weave.buffer, self.cells
            if len(cells) and cells[-1] == len(cells) - 1:
                pairs = zip(buffer.arrays, buffer.axes, strict=True)
                return tuple(array[before_end(len(cells), axis)] for array, axis in pairs)
            return tuple(_taken(buffer, cells))

    def thaw(self, length: int, frozen: Frozen) -> bool:
        """Take over a stored cache, if it is one of this graph."""
        if not self._engine.graph.is_cache(frozen, length, self._engine.context):
            return False
        self._settle_alone(frozen, length, length)
        return True

    def together(self, feeds: Sequence[Feed]) -> list[Logits | ModelError]:
        """Feed several sessions; those that share a buffer share passes."""
        return together(self._engine, feeds)

    def branches(self, paths: Sequence[Sequence[int]]) -> list[Logits]:
        """Score all paths in shared passes, where the graph is right about those."""
        if not self._engine.may_batch():
            return walk(self.fork(), paths)
        return fan(self, paths, self._engine.context)

    # -- passes -------------------------------------------------------------------------------

    def _pass(self, ids: Array, keep: int) -> Array:
        count = ids.shape[1]
        while True:
            with self.settle(count).lock:
                if self._is_crowded(count):
                    continue  # another thread was quicker
                (logits,) = run(self._engine, [_Share(0, self, ids[0], keep)])
                return logits[None, :]

    def settle(self, count: int) -> Weave:
        """Return the buffer in which ``count`` more ids go."""
        if self.weave is None:
            with self._engine.lock:
                self.weave = self._somewhere(count)
        with self.weave.lock:
            if self._is_crowded(count):
                self._settle_alone(_taken(self.weave.buffer, self.cells), self.length, count)
            return self.weave

    def _somewhere(self, count: int) -> Weave:
        """Join the buffer in which short sequences begin, a new one if that is full."""
        engine = self._engine
        weave: Weave | None = None if engine.common is None else engine.common()
        if weave is not None:
            with weave.lock:
                if weave.top + count <= _STRANGERS:
                    weave.sessions.add(self)
                    return weave
        weave = Weave(engine.buffer(0))
        weave.sessions.add(self)
        engine.common = ref(weave)
        return weave

    def _is_crowded(self, count: int) -> bool:
        assert self.weave is not None
        if self.weave.top - self.length >= _HOLES:
            self.weave.close_up()
        top, own = self.weave.top, self.length
        if top == own:
            return False
        limit = self._engine.context
        return (
            not self._engine.may_batch()
            or top - own > max(_STRANGERS, own)
            or count > _STRANGERS  # who has so much to say would be in the others' way
            or (limit is not None and top + count > limit)
        )

    def _settle_alone(self, arrays: Sequence[Array], length: int, count: int) -> None:
        """Hold the ids whose share of the cache is ``arrays``, in a buffer of its own."""
        engine = self._engine
        wanted = room(length + count, engine.context, tight=engine.kind == "placed")
        weave = Weave(engine.buffer(wanted))
        for mine, array, axis in zip(weave.buffer.arrays, arrays, weave.buffer.axes, strict=True):
            mine[before_end(length, axis)] = array
        if self.weave is not None:
            self.weave.sessions.discard(self)
        self.weave, self.cells = weave, np.arange(length)
        weave.sessions.add(self)


class _Share(NamedTuple):
    """One session's ids of a pass, and where its answer belongs."""

    at: int
    session: WovenSession
    ids: Array
    keep: int


def together(engine: Engine, feeds: Sequence[Feed]) -> list[Logits | ModelError]:
    """Feed sessions of ``engine`` in few passes; what fails stands in its place."""
    if not engine.may_batch():
        return one_by_one(feeds)
    found: list[Any] = [None] * len(feeds)
    groups: dict[Weave, list[_Share]] = {}
    for at, (session, ids, keep) in enumerate(feeds):
        assert isinstance(session, WovenSession)
        left = None if engine.context is None else engine.context - session.length
        try:
            checked = check_feed(ids, keep, engine.size, left)
        except ModelError as error:
            found[at] = error
            continue
        share = _Share(at, session, checked, keep)
        groups.setdefault(session.settle(len(checked)), []).append(share)
    for weave, shares in groups.items():
        with weave.lock:
            for some in _passes(engine, weave, shares):
                try:
                    rows = run(engine, some) if len(some) > 1 else [_alone(some[0])]
                except ModelError as error:
                    rows = [error] * len(some)  # type: ignore[list-item]
                for share, answer in zip(some, rows, strict=True):
                    found[share.at] = answer
    return found


def _alone(share: _Share) -> Logits:
    return share.session.feed(share.ids.tolist(), share.keep)


def _passes(engine: Engine, weave: Weave, shares: Sequence[_Share]) -> Iterator[list[_Share]]:
    """Divide the shares of one buffer into passes of at most a chunk, which leave it in its bounds."""
    some: list[_Share] = []
    count = 0
    for share in shares:
        if not weave.top and not some:
            yield [share]  # with no cell in use, the operator counts positions by itself
            continue
        over = engine.context is not None and (weave.top + count + len(share.ids) > engine.context)
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
    weave = shares[0].session.weave
    assert weave is not None
    top, count = weave.top, sum(len(share.ids) for share in shares)
    weave.reserve(engine, top + count)
    places = _places(shares)
    ids = np.empty((1, count), np.int64)
    for share, place in zip(shares, places, strict=True):
        ids[0, place] = share.ids
    woven = None if _is_plain(shares, top) else _woven(shares, places, top, count)
    keep = sum(share.keep for share in shares)
    logits = engine.append(ids, [top], keep, weave.buffer, woven=woven)[0]
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


def _places(shares: Sequence[_Share]) -> list[Array]:
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


def _woven(shares: Sequence[_Share], places: Sequence[Array], top: int, count: int) -> Woven:
    positions = np.zeros(count, np.int64)
    seen = np.zeros((count, top + count), bool)
    for share, place in zip(shares, places, strict=True):
        session = share.session
        positions[place] = session.length + np.arange(len(place))
        mine = np.zeros(top + count, bool)
        mine[session.cells] = True
        mine[top + place] = True
        seen[place] = mine
    return Woven(positions, seen)


def _taken(buffer: Shared, cells: Cells) -> list[Array]:
    pairs = zip(buffer.arrays, buffer.axes, strict=True)
    return [np.take(array, cells, axis) for array, axis in pairs]
