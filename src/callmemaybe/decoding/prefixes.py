"""What requests have in common is fed once: sessions kept by the ids they hold.

One keeper serves all lists of tools of a model. Where a new prefix begins like a kept one (the same
instructions, the same first tools), only the rest is fed. What was not used for longest goes first
when the sessions would take more memory than allowed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from callmemaybe.models.base import Model, Session, common

#: Bytes of keys and values kept per model.
MOST_BYTES = 512 << 20


class Prefixes:
    """Keeps sessions of one model, least recently used out first; safe to use from any thread.

    At least the latest is kept, however large.
    """

    def __init__(self, model: Model, most_bytes: int = MOST_BYTES) -> None:
        self._model = model
        self._most = most_bytes
        self._kept: OrderedDict[tuple[int, ...], Session] = OrderedDict()
        self._lock = threading.Lock()

    def fork(self, ids: Sequence[int]) -> Session:
        """Return a session that holds ``ids`` and is the caller's own."""
        key = tuple(ids)
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                found = self._kept[key] = self._make(key)
                self._make_room()
            self._kept.move_to_end(key)
            return found.fork()

    def _make(self, key: tuple[int, ...]) -> Session:
        best, shared = None, 0
        for held, session in self._kept.items():
            same = common(held, key)
            if same > shared:
                best, shared = session, same
        if best is None:
            made = self._model.open()
        else:
            made = best.fork()
            made.rewind(made.length - shared)
        if shared < len(key):
            made.feed(key[shared:], keep=0)
        return made

    def _make_room(self) -> None:
        while len(self._kept) > 1 and self.memory > self._most:
            self._kept.popitem(last=False)

    @property
    def memory(self) -> int:
        """Bytes that the kept sessions hold; what they share is counted for each."""
        return sum(session.memory for session in self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)
