"""Who may start while other processes hold resources: the store's open calls are the locks.

A running row holds the locks written in it, T3 gives them back: there is no second record that could
disagree. A call may start if no running row of another process conflicts with it, and none that asked
earlier still waits. Whoever lost its lease is passed over only after its call has been fenced off, so its
result can no longer be recorded. Works inside the transaction that starts the call; calls of one process
are kept apart by its own lock table before they get here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from callmemaybe.gateway.plan import conflict, locks_of
from callmemaybe.gateway.store import Backend, Holder, Row

#: Behind everyone who has asked.
_LAST = (float("inf"), "")


class Arbiter:
    """Decides about the starts of one transaction. ``fence_off`` is given the key of a lost call."""

    def __init__(self, backend: Backend, fence_off: Callable[[str], None]) -> None:
        self._backend = backend
        self._fence_off = fence_off
        self._others: list[Holder] | None = None
        self._lost: dict[str, bool] = {}
        self._token = 0

    def open(
        self,
        texts: Collection[str],
        rows: Collection[Row] = (),
        runs: Collection[tuple[str, str]] = (),
    ) -> None:
        """Wait for other transactions about these locks (JSON) and rows; look at what is held."""
        self._backend.serialise(texts, rows, runs)
        self._others = self._backend.others()

    @property
    def token(self) -> int:
        """The number of this transaction's starts: larger than that of any conflicting one before."""
        if not self._token:
            self._token = self._backend.token()
        return self._token

    def is_busy(self, key: str, text: str, asked: float | None) -> bool:
        """Whether another process keeps ``key`` from its locks; fences off those that are gone."""
        assert self._others is not None, "open() comes first"
        if not self._others:
            return False
        mine, place = locks_of(text), _LAST if asked is None else (asked, key)
        for holder in self._others[:]:
            if holder.key == key or not conflict(mine, locks_of(holder.locks)):
                continue
            if not holder.running and _place(holder) > place:
                continue
            if not self._is_lost(holder.owner):
                return True
            if holder.running:
                self._fence_off(holder.key)
            self._others.remove(holder)
        return False

    def _is_lost(self, owner: str) -> bool:
        if owner not in self._lost:
            self._lost[owner] = bool(self._backend.lost([owner]))
        return self._lost[owner]


def _place(holder: Holder) -> tuple[float, str]:
    return (holder.asked if holder.asked is not None else _LAST[0], holder.key)
