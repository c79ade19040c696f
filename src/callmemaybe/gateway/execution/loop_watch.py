"""Reports a tool that holds the event loop: no timeout reaches an `async def` that does not give way."""

from __future__ import annotations

import asyncio
import itertools
import logging
import sys
import threading
import time
from typing import NamedTuple

_LOG = logging.getLogger("callmemaybe.gateway")
#: Seconds after the end of an attempt's time within which a loop that is free has seen to it.
_GRACE = 1.0
#: Seconds between two looks.
_LOOK = 0.5


class _WatchedAttempt(NamedTuple):
    until: float
    timeout: float
    loop: asyncio.AbstractEventLoop
    thread: int
    """The thread of the loop."""


class LoopWatch:
    """A thread that notices attempts of which the event loop does not notice that their time is over.

    It can stop nothing; it logs the tool and the line that hold the loop, once for each time.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._watched: dict[int, _WatchedAttempt] = {}
        self._busy = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def begin(self, timeout: float) -> int:
        """Expect :meth:`end` with the number that is returned, ``timeout`` seconds from now at the latest."""
        if self._thread is None or not self._thread.is_alive():
            self._start()
        number = next(self._numbers)
        until = time.monotonic() + timeout + _GRACE
        loop = asyncio.get_running_loop()
        self._watched[number] = _WatchedAttempt(until, timeout, loop, threading.get_ident())
        if not self._busy.is_set():
            self._busy.set()
        return number

    def end(self, number: int) -> None:
        """Stop watching an attempt."""
        del self._watched[number]

    def _start(self) -> None:
        with self._starting:
            if self._thread is not None:
                if self._thread.is_alive():
                    return
                self._watched.clear()  # this process was forked: those attempts are its parent's
            self._thread = threading.Thread(target=self._look, name="loop watch", daemon=True)
            self._thread.start()

    def _look(self) -> None:
        reported: set[int] = set()
        while True:
            if not self._watched:
                self._busy.clear()
                if not self._watched:
                    reported.clear()
                    self._busy.wait()
            time.sleep(_LOOK)
            now = time.monotonic()
            named: set[asyncio.AbstractEventLoop] = set()
            for number, attempt in list(self._watched.items()):
                if attempt.until < now and number not in reported:
                    reported.add(number)
                    if attempt.loop not in named:  # one report for all that wait for the same loop
                        named.add(attempt.loop)
                        _report(attempt)


#: The watch of this process: one thread looks after the attempts of all gateways.
LOOP_WATCH = LoopWatch()


def _report(attempt: _WatchedAttempt) -> None:
    task = asyncio.current_task(attempt.loop)
    name = task.get_name() if task is not None else "something"
    # The documented way to look into another thread.
    frame = sys._current_frames().get(attempt.thread)  # noqa: SLF001
    where = f" at {frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""
    _LOG.error(
        "%s holds the event loop%s, so the timeout of a tool (%g s) is not kept; let it await, or"
        ' run it in a process (mode="process")',
        name,
        where,
        attempt.timeout,
    )
