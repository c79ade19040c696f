"""The program as a process: exit codes, signals, standard streams.

Exit codes are one table, from which the reference in the docs is generated. Ctrl-C and SIGTERM become
one exception that is raised once, so that finished work can be saved without being interrupted again.
Standard streams may be closed, full, or unable to encode some characters.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from threading import Event, Thread
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


class ExitCode(IntEnum):
    """An exit code and its meaning for scripts."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        """Attach the meaning to the code."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    DONE = 0, "done; of a run, every prompt has its result"
    SOME_FAILED = 1, "the results are complete, but some prompts got no call; each says why"
    BAD_INPUT = 2, "a file, a function definition or an option is wrong; no model was loaded"
    NO_MODEL = 3, "the model cannot be found, fetched or loaded"
    NOT_WRITTEN = 4, "what was asked for could not be written; the previous file is untouched"
    NO_LEDGER = 5, "the ledger can no longer be read or written; what it has recorded stands"
    INTERNAL_ERROR = 70, "a bug in callmemaybe; please report it"
    INTERRUPTED = 130, "stopped by Ctrl-C; finished results are saved, --resume continues"
    TERMINATED = 143, "stopped by SIGTERM; finished results are saved, --resume continues"


_SIGNALS = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}
_REPEAT_AFTER = 0.01  # seconds between repetitions of a signal whose exception was dropped


class StopRequested(BaseException):
    """The user or the system asked the program to stop; ``code`` is its exit code."""

    def __init__(self, code: ExitCode) -> None:
        super().__init__(code.meaning)
        self.code = code


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Raise StopRequested in the body at the first signal and ignore those that follow.

    A signal may arrive while Python runs code whose exceptions it drops (a destructor, the callback of
    a weak reference), reporting them to ``sys.unraisablehook``. The signal is then raised again every
    hundredth of a second until the body ends.
    """
    report, body_ended, threads = sys.unraisablehook, Event(), list[Thread]()
    reporting = False  # an exception raised during the hook would be dropped as well

    def stop(number: int, _frame: FrameType | None) -> None:
        if reporting:
            return
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise StopRequested(_SIGNALS[signal.Signals(number)])

    def again(number: signal.Signals) -> None:
        while not body_ended.wait(_REPEAT_AFTER):
            signal.raise_signal(number)

    def dropped(unraisable: UnraisableHookArgs) -> None:
        nonlocal reporting
        if not isinstance(unraisable.exc_value, StopRequested):
            report(unraisable)
            return
        code = unraisable.exc_value.code
        reporting = True
        for each in _SIGNALS:
            signal.signal(each, stop)
        if not threads:
            number = next(each for each, its in _SIGNALS.items() if its is code)
            threads.append(Thread(target=again, args=(number,), daemon=True))
            threads[-1].start()
        reporting = False

    before = {each: signal.signal(each, stop) for each in _SIGNALS}
    sys.unraisablehook = dropped
    try:
        yield
    finally:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        body_ended.set()
        for thread in threads:
            thread.join()  # else it would raise the signal for the restored handlers
        sys.unraisablehook = report
        for each, handler in before.items():
            signal.signal(each, handler)


STREAM_NAMES = {"stdout": "standard output", "stderr": "standard error"}


class _MonitoredStream:
    """A stream that remembers the error it raised, to distinguish it from errors of other files.

    A broken pipe is no error: further output is discarded, and the run continues to its end and its
    usual exit code.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            discard(self._stream)
            return len(text)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            discard(self._stream)
        except OSError as error:
            self.error = error
            raise


def prepare_streams() -> None:
    """Replace closed streams, escape what cannot be encoded, and record write errors."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            # Child processes expect it, too.
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 - until the end
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)
        elif isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
        if name in STREAM_NAMES and not isinstance(stream, _MonitoredStream):
            setattr(sys, name, _MonitoredStream(stream))


def stdout_is_closed() -> bool:
    """Whether standard output was closed when the program was started (it is now a stand-in)."""
    return getattr(sys.stdout, "name", None) == os.devnull


def failed_stream(error: OSError) -> str | None:
    """Return "stdout" or "stderr" if that stream raised this very error, else None."""
    return next(
        (name for name in STREAM_NAMES if getattr(getattr(sys, name), "error", None) is error), None
    )


def discard(stream: IO[str]) -> None:
    """Point a stream at the null device, so that flushing its buffer at exit cannot fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def printable(text: str, most: int | None = None) -> str:
    """Return ``text`` with control characters, which terminals obey, escaped; cut to ``most``."""
    if most is not None and len(text) > most:
        text = text[: most - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
