"""What requests have in common is fed once: sessions kept by the ids they hold.

One keeper serves all lists of tools of a model. Where a new prefix begins like a kept one (the same
instructions, the same first tools), only the rest is fed. What was not used for longest goes first
when the sessions would take more memory than allowed, or are too many; all but the latest give back the
room they have to grow in, which for short prompts is most of what they take. That room goes on counting,
since an allocator may keep it.
"""

from __future__ import annotations

import threading
from bisect import bisect, insort
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from callmemaybe.decoding.batch import run_blocking
from callmemaybe.decoding.disk_prefix_cache import DiskPrefixCache
from callmemaybe.models.base import Model, Session, common

#: Bytes of keys and values kept per model, with the room behind them.
MOST_BYTES = 512 << 20

#: Sessions kept per model: some engines do not tell what theirs take. Of an engine that holds only so many
#: at a time, one of so many parts is kept: the rest is for those who decode.
MOST_KEPT, KEPT_SHARE = 256, 2

#: Ids that must be fed for a prefix to be worth a place on disk.
WORTH_STORING = 32

#: The latest sessions keep their room, since what is written next is mostly written behind one of them:
#: so many at most, and as many as take one of so many parts of the memory allowed.
ROOMY, ROOMY_SHARE = 16, 8

Key = tuple[int, ...]


class CachedSession(NamedTuple):
    """A session, and how many of its ids were held before it was asked for: those cost no pass."""

    session: Session
    held: int


class PrefixCache:
    """Keeps sessions of one model, least recently used out first; safe to use from any thread.

    At least the latest is kept, however large. Who asks for a prefix that is being fed waits for it.
    ``store`` keeps those that were worth it on disk as well, for the next process.
    """

    def __init__(
        self, model: Model, most_bytes: int = MOST_BYTES, store: DiskPrefixCache | None = None
    ) -> None:
        self._model, self._store = model, store
        self._most = most_bytes
        self._most_kept = MOST_KEPT
        # Few engines have a limit, so it is no part of what a model is.
        sessions: int | None = getattr(model, "most_sessions", None)
        if sessions is not None:
            self._most_kept = min(MOST_KEPT, max(1, sessions // KEPT_SHARE))
        self._kept: OrderedDict[Key, Session] = OrderedDict()
        #: The same keys, sorted: those most alike are neighbours.
        self._sorted: list[Key] = []
        #: Those that may have room to spare, oldest first.
        self._roomy: dict[Key, None] = {}
        self._bytes = 0
        #: What those with room have taken at most: allocators keep what is freed among what lives on.
        self._once_roomy = 0
        self._making: dict[Key, threading.Event] = {}
        self._lock = threading.Lock()

    def fork(self, ids: Sequence[int]) -> Session:
        """Return a session that holds ``ids`` and is the caller's own."""
        return self.take(ids).session

    def take(self, ids: Sequence[int]) -> CachedSession:
        """Return what :meth:`fork` does, and how many of the ids were held already.

        Held are those in a kept session, on disk, or fed meanwhile for somebody else.
        """
        key = tuple(ids)
        while True:
            with self._lock:
                found = self._kept.get(key)
                if found is not None:
                    self._kept.move_to_end(key)
                    return CachedSession(found.fork(), len(key))
                made = self._making.get(key)
                if made is None:
                    # Only then is it being made: what cannot begin keeps nobody waiting.
                    begun = self._nearest(key)
                    self._making[key] = threading.Event()
            if made is None:
                return self._make(key, begun)
            run_blocking(made.wait)

    def _nearest(self, key: Key) -> Session:
        """Return a session of our own that holds as much of ``key`` as any kept one does."""
        at = bisect(self._sorted, key)
        best, shared = None, 0
        for held in self._sorted[max(0, at - 1) : at + 1]:
            same = common(held, key)
            if same > shared:
                best, shared = held, same
        if best is None:
            return self._model.open()
        fork = self._kept[best].fork()
        fork.rewind(fork.length - shared)
        return fork

    def _make(self, key: Key, session: Session) -> CachedSession:
        """Feed what ``session`` lacks of ``key``, and keep it."""
        held = session.length
        try:
            if held < len(key):
                # Not under the lock: others may get at what is kept meanwhile.
                session, held = self._fed(key, session)
            with self._lock:
                if key not in self._kept:
                    self._kept[key] = session
                    insort(self._sorted, key)
                    self._roomy[key] = None
                    self._bytes += session.memory
                try:
                    fork = session.fork()  # in front of the rest: it takes over the room to grow in
                finally:
                    self._make_room()
                return CachedSession(fork, held)
        finally:
            with self._lock:
                self._making.pop(key).set()

    def _fed(self, key: Key, session: Session) -> CachedSession:
        """Return a session that holds ``key``: from the disk, or by feeding ``session`` the rest."""
        held = session.length
        rest = len(key) - held
        if self._store is None or rest < WORTH_STORING:
            session.feed(key[-rest:], keep=0)
            return CachedSession(session, held)
        stored = self._store.load(self._model, key)
        if stored is not None:
            fresh = self._model.open()
            if fresh.thaw(len(key), stored):
                return CachedSession(fresh, len(key))
        session.feed(key[-rest:], keep=0)
        frozen = session.freeze()
        if frozen is not None:
            self._store.save(self._model, key, frozen)
        return CachedSession(session, held)

    def _make_room(self) -> None:
        # A prefix that has all room to itself is what every request begins with; it stays as it is.
        few = 1 if len(self._kept) == 1 else 0
        roomy = self._in_rooms()
        self._once_roomy = max(self._once_roomy, roomy)
        share = self._most // ROOMY_SHARE
        while len(self._roomy) > few and (len(self._roomy) > ROOMY or roomy > share):
            key = next(iter(self._roomy))
            del self._roomy[key]
            session = self._kept[key]
            roomy -= session.memory
            self._bytes -= session.memory
            session.trim()
            self._bytes += session.memory
        while len(self._kept) > 1 and (
            self.memory > self._most or len(self._kept) > self._most_kept
        ):
            key, session = self._kept.popitem(last=False)
            del self._sorted[bisect(self._sorted, key) - 1]
            self._roomy.pop(key, None)
            self._bytes -= session.memory

    @property
    def memory(self) -> int:
        """Bytes that the kept sessions hold, and those that giving back their room left unused.

        What they share is counted for each.
        """
        return self._bytes + self._once_roomy - self._in_rooms()

    def _in_rooms(self) -> int:
        """Return the bytes of those that keep their room."""
        return sum(self._kept[key].memory for key in self._roomy)

    def __len__(self) -> int:
        return len(self._kept)
