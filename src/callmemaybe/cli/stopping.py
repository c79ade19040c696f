"""Ctrl-C and SIGTERM as one exception, raised once, so that finished work can be saved in peace."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from types import FrameType
from typing import TYPE_CHECKING

from callmemaybe.cli.exits import Exit

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_SIGNALS = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}
_SOON = 0.01  # seconds after which a signal that was swallowed comes again, and again


class Stopped(BaseException):
    """The user or the system asked the program to stop; ``code`` is what to exit with."""

    def __init__(self, code: Exit) -> None:
        super().__init__(code.meaning)
        self.code = code


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Raise Stopped in the body at the first signal and ignore those that follow.

    A signal may come while Python runs what must not raise (a destructor, the callback of a weak
    reference): there the exception is told to ``sys.unraisablehook`` and dropped. Then the signal is
    raised again every hundredth of a second, until the body is left.
    """
    tell, left, threads = sys.unraisablehook, Event(), list[Thread]()
    telling = False  # what is raised while a dropped exception is told would be dropped as well

    def stop(number: int, _frame: FrameType | None) -> None:
        if telling:
            return
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(_SIGNALS[signal.Signals(number)])

    def again(number: signal.Signals) -> None:
        while not left.wait(_SOON):
            signal.raise_signal(number)

    def dropped(unraisable: UnraisableHookArgs) -> None:
        nonlocal telling
        if not isinstance(unraisable.exc_value, Stopped):
            tell(unraisable)
            return
        code = unraisable.exc_value.code
        telling = True
        for each in _SIGNALS:
            signal.signal(each, stop)
        if not threads:
            number = next(each for each, its in _SIGNALS.items() if its is code)
            threads.append(Thread(target=again, args=(number,), daemon=True))
            threads[-1].start()
        telling = False

    before = {each: signal.signal(each, stop) for each in _SIGNALS}
    sys.unraisablehook = dropped
    try:
        yield
    finally:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        left.set()
        for thread in threads:
            thread.join()  # it would raise the signal for whoever listens next
        sys.unraisablehook = tell
        for each, handler in before.items():
            signal.signal(each, handler)
