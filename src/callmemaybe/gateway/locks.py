"""Resource locks: between the calls of one process (LockTable) and between processes (LockArbiter).

A call takes all its locks together or none. Within a process, an in-memory table queues the waiters.
Between processes the open calls in the ledger are the locks: a running row holds the locks that are
written in it, and the write that ends the call (T3) releases them. There is no second record that could
disagree. A call may start if no running row of another process conflicts with it and no conflicting call
asked earlier and still waits. A holder whose lease lapsed is passed over only after its row was fenced
off, so that its result can no longer be recorded.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence

from callmemaybe.gateway.plan import EVERYTHING, Lock, locks_conflict, locks_from_json
from callmemaybe.gateway.store import CallRow, OpenCall, StoreBackend


class _LockCounts:
    """A multiset of locks by resource; a lookup takes constant time however many there are."""

    def __init__(self) -> None:
        self._exclusive: Counter[str] = Counter()
        self._shared: Counter[str] = Counter()

    def add(self, locks: Sequence[Lock]) -> None:
        for lock in locks:
            (self._exclusive if lock.exclusive else self._shared)[lock.resource] += 1

    def remove(self, locks: Sequence[Lock]) -> None:
        for lock in locks:
            counter = self._exclusive if lock.exclusive else self._shared
            counter[lock.resource] -= 1
            if not counter[lock.resource]:
                del counter[lock.resource]

    def allow(self, locks: Sequence[Lock]) -> bool:
        """Whether none of ``locks`` conflicts with one in the multiset."""
        return all(self._allows(lock) for lock in locks)

    def _allows(self, lock: Lock) -> bool:
        if lock.resource == EVERYTHING:
            return not self._exclusive and not (lock.exclusive and self._shared)
        if lock.resource in self._exclusive or EVERYTHING in self._exclusive:
            return False
        return not (
            lock.exclusive and (lock.resource in self._shared or EVERYTHING in self._shared)
        )


class LockTable:
    """The locks of one process. A waiter holds none, and no conflicting newcomer overtakes it."""

    def __init__(self) -> None:
        self._held = _LockCounts()
        self._wanted = _LockCounts()
        self._waiters: deque[tuple[Sequence[Lock], asyncio.Future[None]]] = deque()

    def try_take(self, locks: Sequence[Lock]) -> bool:
        """Take all of ``locks`` now, or none; return whether they were taken."""
        if not (self._wanted.allow(locks) and self._held.allow(locks)):
            return False
        self._held.add(locks)
        return True

    async def take(self, locks: Sequence[Lock], timeout: float) -> bool:
        """Take all of ``locks``, waiting up to ``timeout`` seconds; return whether they were taken."""
        if self.try_take(locks):
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((locks, future))
        self._wanted.add(locks)
        try:
            async with asyncio.timeout(timeout):
                await future
        except TimeoutError:
            if future.done() and not future.cancelled():
                return True
            future.cancel()
            self._wake_waiters()
            return False
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release(locks)
            else:
                future.cancel()
                self._wake_waiters()
            raise
        return True

    def release(self, locks: Sequence[Lock]) -> None:
        """Release ``locks`` and wake the waiters that no longer conflict, first come first served."""
        self._held.remove(locks)
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        """Give waiters the locks that are free for them; drop waiters that gave up."""
        waiting: deque[tuple[Sequence[Lock], asyncio.Future[None]]] = deque()
        wanted = _LockCounts()
        for locks, future in self._waiters:
            if future.done():
                continue
            if wanted.allow(locks) and self._held.allow(locks):
                self._held.add(locks)
                future.set_result(None)
            else:
                waiting.append((locks, future))
                wanted.add(locks)
        self._waiters, self._wanted = waiting, wanted


#: The queue position of a call that has not asked: behind every call that has.
_LAST = (float("inf"), "")


class LockArbiter:
    """Decides which calls of one transaction may start, against the open calls of other processes.

    Runs inside that transaction. ``fence_off`` is called with the key and the owner of a running call whose
    owner is lost, and returns whether the call holds its locks no more. Calls of one process were kept apart
    by its LockTable before.
    """

    def __init__(self, backend: StoreBackend, fence_off: Callable[[str, str], bool]) -> None:
        self._backend = backend
        self._fence_off = fence_off
        self._others: list[OpenCall] | None = None
        self._lost: dict[str, bool] = {}
        self._token = 0

    def open(
        self,
        texts: Collection[str],
        rows: Collection[CallRow] = (),
        runs: Collection[tuple[str, str]] = (),
        begun: Collection[tuple[str, str]] = (),
    ) -> None:
        """Serialise with transactions about the same locks (JSON) and rows; read the other open calls."""
        self._backend.serialise(texts, rows, runs, begun)
        self._others = self._backend.open_calls_of_others()

    @property
    def token(self) -> int:
        """The fencing token of this transaction's starts: larger than that of any earlier conflicting one."""
        if not self._token:
            self._token = self._backend.next_token()
        return self._token

    def is_busy(self, key: str, text: str, asked: float | None) -> bool:
        """Whether an open call of another process keeps ``key`` from its locks (JSON).

        ``asked`` is the time since when the call waits. Calls whose owner is lost are fenced off on the way.
        """
        assert self._others is not None, "open() comes first"
        if not self._others:
            return False
        mine, position = locks_from_json(text), _LAST if asked is None else (asked, key)
        for other in self._others[:]:
            if other.key == key or not locks_conflict(mine, locks_from_json(other.locks)):
                continue
            if not other.running and _queue_position(other) > position:
                continue
            if not self._is_lost(other.owner):
                return True
            if other.running and not self._fence_off(other.key, other.owner):
                return True
            self._others.remove(other)
        return False

    def _is_lost(self, owner: str) -> bool:
        if owner not in self._lost:
            self._lost[owner] = bool(self._backend.lost_owners([owner]))
        return self._lost[owner]


def _queue_position(call: OpenCall) -> tuple[float, str]:
    return (call.asked if call.asked is not None else _LAST[0], call.key)
