"""Prefix cache: what prompts have in common is fed once, and sessions are cached by the ids they hold.

One cache serves all lists of tools of a model. Where a new prefix begins like a cached one (the same
instructions, the same first tools), only the rest is fed. The least recently used sessions are dropped
when they would take more memory than allowed, or are too many. A session has buffers with spare capacity
to grow in, which for short prompts is most of its memory; all but the latest give theirs back. That
capacity still counts, since an allocator may not return it.
"""

from __future__ import annotations

import threading
from bisect import bisect, insort
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from callmemaybe.decoding.batch import run_blocking
from callmemaybe.decoding.disk_prefix_cache import DiskPrefixCache
from callmemaybe.models.base import Model, Session, common_prefix_length

#: Bytes of keys and values cached per model, with their spare capacity.
MAX_BYTES = 512 << 20

#: Sessions cached per model: some engines do not tell how much memory theirs take. Of an engine that
#: limits its sessions, this fraction (one of so many) is cached; the others are for those who decode.
MAX_SESSIONS, SESSIONS_FRACTION = 256, 2

#: With fewer ids to feed than this, a prefix is not stored on disk.
MIN_STORED_IDS = 32

#: A prefix of which no more ids than this had to be fed, since all others were copied (:attr:`Session.copied`), is cached when it
#: is asked for again, if it is among the latest of these.
FEW_IDS, MAX_ASKED = 8, 1024

#: The latest sessions keep their spare capacity, since most outputs are written after one of them: so
#: many at most, and at most this fraction (one of so many) of the memory allowed.
MAX_SPACIOUS, SPACIOUS_FRACTION = 16, 8

Key = tuple[int, ...]


class CachedSession(NamedTuple):
    """A session, and how many of its ids were cached: those cost no pass."""

    session: Session
    cached: int


class PrefixCache:
    """Caches sessions of one model; thread-safe. The least recently used are dropped first.

    At least the latest stays, however large. A thread that asks for a prefix which another one is feeding
    waits for it. ``store`` also keeps long prefixes on disk, for the next process.
    """

    def __init__(
        self, model: Model, max_bytes: int = MAX_BYTES, store: DiskPrefixCache | None = None
    ) -> None:
        self._model, self._store = model, store
        self._max_bytes = max_bytes
        self._max_sessions = MAX_SESSIONS
        # Few engines have a limit, so it is not part of the protocol of models.
        sessions: int | None = getattr(model, "most_sessions", None)
        if sessions is not None:
            self._max_sessions = min(MAX_SESSIONS, max(1, sessions // SESSIONS_FRACTION))
        self._sessions: OrderedDict[Key, Session] = OrderedDict()
        #: The same keys, sorted: those with the longest common prefix are neighbours.
        self._sorted: list[Key] = []
        #: Those that may have spare capacity, oldest first.
        self._spacious: dict[Key, None] = {}
        self._bytes = 0
        #: The most that spacious sessions have taken: allocators may not return what is freed.
        self._peak_spacious = 0
        self._being_fed: dict[Key, threading.Event] = {}
        #: Hashes of prefixes that were put together from copies, and not cached.
        self._asked: OrderedDict[int, None] = OrderedDict()
        self._lock = threading.Lock()

    def fork(self, ids: Sequence[int]) -> Session:
        """Return a session that holds ``ids`` and belongs to the caller."""
        return self.take(ids).session

    def take(self, ids: Sequence[int]) -> CachedSession:
        """Return what :meth:`fork` does, and how many of the ids were cached.

        Cached are ids in a cached session, on disk, or fed meanwhile by another thread.
        """
        key = tuple(ids)
        while True:
            with self._lock:
                found = self._sessions.get(key)
                if found is not None:
                    self._sessions.move_to_end(key)
                    return CachedSession(found.fork(), len(key))
                fed = self._being_fed.get(key)
                if fed is None:
                    # Registered only after that: a session that cannot be opened blocks nobody.
                    session = self._longest_prefix(key)
                    self._being_fed[key] = threading.Event()
            if fed is None:
                return self._add(key, session)
            run_blocking(fed.wait)

    def _longest_prefix(self, key: Key) -> Session:
        """Return a new session that holds as much of ``key`` as any cached one does."""
        at = bisect(self._sorted, key)
        best, shared = None, 0
        for other in self._sorted[max(0, at - 1) : at + 1]:
            same = common_prefix_length(other, key)
            if same > shared:
                best, shared = other, same
        if best is None or self._sessions[best].copied is not None:
            return self._model.open()
        fork = self._sessions[best].fork()
        fork.rewind(fork.length - shared)
        return fork

    def _add(self, key: Key, session: Session) -> CachedSession:
        """Feed what ``session`` lacks of ``key``, and cache it."""
        cached = session.length
        try:
            if cached < len(key):
                # Not under the lock: others may use the cache meanwhile.
                session, cached = self._feed(key, session)
            with self._lock:
                if session.copied and len(key) - cached <= FEW_IDS and self._is_new(key):
                    return CachedSession(session, cached)
                if key not in self._sessions:
                    self._sessions[key] = session
                    insort(self._sorted, key)
                    self._spacious[key] = None
                    self._bytes += session.memory
                try:
                    fork = session.fork()  # before shrinking: it takes over the spare capacity
                finally:
                    self._shrink()
                return CachedSession(fork, cached)
        finally:
            with self._lock:
                self._being_fed.pop(key).set()

    def _feed(self, key: Key, session: Session) -> CachedSession:
        """Return a session that holds ``key``: from the disk, or by feeding ``session`` the rest."""
        cached = session.length
        rest = len(key) - cached
        if self._store is None or rest < MIN_STORED_IDS:
            session.feed(key[-rest:], keep=0)
            return CachedSession(session, cached + (session.copied or 0))
        stored = self._store.load(self._model, key)
        if stored is not None:
            fresh = self._model.open()
            if fresh.restore(len(key), stored):
                return CachedSession(fresh, len(key))
        session.feed(key[-rest:], keep=0)
        snapshot = session.snapshot()
        if snapshot is not None:
            self._store.save(self._model, key, snapshot)
        return CachedSession(session, cached + (session.copied or 0))

    def _is_new(self, key: Key) -> bool:
        """Whether a prefix was not asked for lately; it was, then."""
        digest = hash(key)
        is_new = digest not in self._asked
        self._asked[digest] = None
        if len(self._asked) > MAX_ASKED:
            self._asked.popitem(last=False)
        return is_new

    def _shrink(self) -> None:
        """Give back spare capacity, then drop sessions, until the limits are kept."""
        # A single prefix is what every request begins with; it stays spacious.
        few = 1 if len(self._sessions) == 1 else 0
        spacious = self._spacious_bytes()
        self._peak_spacious = max(self._peak_spacious, spacious)
        limit = self._max_bytes // SPACIOUS_FRACTION
        while len(self._spacious) > few and (
            len(self._spacious) > MAX_SPACIOUS or spacious > limit
        ):
            key = next(iter(self._spacious))
            del self._spacious[key]
            session = self._sessions[key]
            spacious -= session.memory
            self._bytes -= session.memory
            session.trim()
            self._bytes += session.memory
        while len(self._sessions) > 1 and (
            self.memory > self._max_bytes or len(self._sessions) > self._max_sessions
        ):
            key, session = self._sessions.popitem(last=False)
            del self._sorted[bisect(self._sorted, key) - 1]
            self._spacious.pop(key, None)
            self._bytes -= session.memory

    @property
    def memory(self) -> int:
        """Bytes that the cached sessions hold, and the spare capacity given back and perhaps unused.

        What sessions share counts for each.
        """
        return self._bytes + self._peak_spacious - self._spacious_bytes()

    def _spacious_bytes(self) -> int:
        """Return the bytes of those that keep their spare capacity."""
        return sum(self._sessions[key].memory for key in self._spacious)

    def __len__(self) -> int:
        return len(self._sessions)
