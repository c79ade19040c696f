"""Ctrl-C and SIGTERM as one exception, raised once, so that finished work can be saved in peace."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from callmemaybe.cli.exits import Exit

_SIGNALS = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}


class Stopped(BaseException):
    """The user or the system asked the program to stop; ``code`` is what to exit with."""

    def __init__(self, code: Exit) -> None:
        super().__init__(code.meaning)
        self.code = code


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Raise Stopped in the body at the first signal and ignore those that follow."""

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(_SIGNALS[signal.Signals(number)])

    before = {each: signal.signal(each, stop) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
