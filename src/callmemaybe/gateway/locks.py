"""The locks of one process: taken all together or not at all, in the order they were asked for."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence

from callmemaybe.gateway.plan import EVERYTHING, Lock, conflict


class LockTable:
    """Who holds what. A waiter holds nothing, and is not overtaken by a conflicting newcomer."""

    def __init__(self) -> None:
        self._exclusive: Counter[str] = Counter()
        self._shared: Counter[str] = Counter()
        self._waiters: deque[tuple[Sequence[Lock], asyncio.Future[None]]] = deque()

    def try_take(self, locks: Sequence[Lock]) -> bool:
        """Take all of ``locks`` now, or none."""
        if any(conflict(locks, waiting) for waiting, _ in self._waiters):
            return False
        if not self._free(locks):
            return False
        self._add(locks)
        return True

    async def take(self, locks: Sequence[Lock], timeout: float) -> bool:
        """Take all of ``locks``, waiting up to ``timeout`` seconds; False if it was not possible."""
        if self.try_take(locks):
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (locks, future)
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                await future
        except TimeoutError:
            if future.done() and not future.cancelled():
                return True
            self._forget(waiter)
            return False
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release(locks)
            else:
                self._forget(waiter)
            raise
        return True

    def release(self, locks: Sequence[Lock]) -> None:
        """Give ``locks`` back and let in those who now fit, first come first served."""
        for lock in locks:
            counter = self._exclusive if lock.exclusive else self._shared
            counter[lock.resource] -= 1
            if not counter[lock.resource]:
                del counter[lock.resource]
        self._let_in()

    def _forget(self, waiter: tuple[Sequence[Lock], asyncio.Future[None]]) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        self._let_in()

    def _let_in(self) -> None:
        still: deque[tuple[Sequence[Lock], asyncio.Future[None]]] = deque()
        while self._waiters:
            locks, future = self._waiters.popleft()
            if future.done():
                continue
            overtakes = any(conflict(locks, earlier) for earlier, _ in still)
            if not overtakes and self._free(locks):
                self._add(locks)
                future.set_result(None)
            else:
                still.append((locks, future))
        self._waiters = still

    def _free(self, locks: Sequence[Lock]) -> bool:
        return all(self._one_free(lock) for lock in locks)

    def _one_free(self, lock: Lock) -> bool:
        if lock.resource == EVERYTHING:
            return not self._exclusive and not (lock.exclusive and self._shared)
        if lock.resource in self._exclusive or EVERYTHING in self._exclusive:
            return False
        return not (
            lock.exclusive and (lock.resource in self._shared or EVERYTHING in self._shared)
        )

    def _add(self, locks: Sequence[Lock]) -> None:
        for lock in locks:
            (self._exclusive if lock.exclusive else self._shared)[lock.resource] += 1
