"""The locks of one process: taken all together or not at all, in the order they were asked for."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence

from callmemaybe.gateway.plan import EVERYTHING, Lock


class _Claims:
    """Which resources are claimed, and how often: looked up, however many claims there are."""

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
        """Whether none of ``locks`` conflicts with a claim."""
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
    """Who holds what. A waiter holds nothing, and is not overtaken by a conflicting newcomer."""

    def __init__(self) -> None:
        self._held = _Claims()
        self._wanted = _Claims()
        self._waiters: deque[tuple[Sequence[Lock], asyncio.Future[None]]] = deque()

    def try_take(self, locks: Sequence[Lock]) -> bool:
        """Take all of ``locks`` now, or none."""
        if not (self._wanted.allow(locks) and self._held.allow(locks)):
            return False
        self._held.add(locks)
        return True

    async def take(self, locks: Sequence[Lock], timeout: float) -> bool:
        """Take all of ``locks``, waiting up to ``timeout`` seconds; False if it was not possible."""
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
            self._let_in()
            return False
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release(locks)
            else:
                future.cancel()
                self._let_in()
            raise
        return True

    def release(self, locks: Sequence[Lock]) -> None:
        """Give ``locks`` back and let in those who now fit, first come first served."""
        self._held.remove(locks)
        self._let_in()

    def _let_in(self) -> None:
        """Give those who wait what is free for them, and forget those who gave up."""
        still: deque[tuple[Sequence[Lock], asyncio.Future[None]]] = deque()
        wanted = _Claims()
        for locks, future in self._waiters:
            if future.done():
                continue
            if wanted.allow(locks) and self._held.allow(locks):
                self._held.add(locks)
                future.set_result(None)
            else:
                still.append((locks, future))
                wanted.add(locks)
        self._waiters, self._wanted = still, wanted
