"""Who is next: a queue that is fair among clients. Pure: no clock, no thread, no socket.

Clients take turns, whatever each has asked for; within a client it is first come, first served
(round robin; Nagle, RFC 970). A client that was served waits behind all others that have something
to do, so one that sends a hundred requests delays another's by one turn, not by a hundred.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Full(Exception):
    """There is no room to wait: for anybody, or for this client."""


class FairQueue(Generic[T]):
    """Things of clients that wait; ``most`` in all, ``most_each`` of one client."""

    def __init__(self, most: int, most_each: int) -> None:
        self._most = most
        self._most_each = most_each
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()
        self._count = 0

    def put(self, client: str, *things: T, free: int = 0) -> None:
        """Let things of a client wait: all of them, or (raising Full) none.

        As many as ``free`` need no room to wait: they are to be taken at once.
        """
        line = self._waiting.get(client)
        mine = len(line) if line is not None else 0
        more = len(things) - free
        if self._count + more > self._most or mine + more > self._most_each:
            raise Full
        if line is None:
            line = self._waiting[client] = deque()
        line.extend(things)
        self._count += len(things)

    def take(self) -> T | None:
        """Return what is next, None if nothing waits."""
        if not self._waiting:
            return None
        client, line = self._waiting.popitem(last=False)
        thing = line.popleft()
        if line:
            self._waiting[client] = line
        self._count -= 1
        return thing

    def remove(self, client: str, thing: T) -> bool:
        """Let a thing wait no longer; False if it does not wait."""
        line = self._waiting.get(client)
        if line is None or thing not in line:
            return False
        line.remove(thing)
        if not line:
            del self._waiting[client]
        self._count -= 1
        return True

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        """Go through what waits, client by client."""
        for line in self._waiting.values():
            yield from line
