"""The standard streams, whatever the program was started with: closed, full, or without some letters."""

from __future__ import annotations

import io
import os
import sys
from typing import IO, Any

NAMES = {"stdout": "standard output", "stderr": "standard error"}


class _Watched:
    """A stream that remembers the error it raised, which thus can be told from those of other files.

    A reader that has left is none: nothing is written from there on, and what was begun goes on to its
    end, whose exit code says what became of it.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self.refused: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            drop(self._stream)
            return len(text)
        except OSError as error:
            self.refused = error
            raise

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            drop(self._stream)
        except OSError as error:
            self.refused = error
            raise


def make_safe() -> None:
    """Let every stream be there, take every letter, and remember what it refuses."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            # Whoever is started by this process looks for it, too.
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 - until the end
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)
        elif isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
        if name in NAMES and not isinstance(stream, _Watched):
            setattr(sys, name, _Watched(stream))


def is_closed() -> bool:
    """Whether standard output was closed when the program was started: a stand-in has another name."""
    return getattr(sys.stdout, "name", None) == os.devnull


def which_refused(error: OSError) -> str | None:
    """Return "stdout" or "stderr" if it raised this very error, None if that was neither."""
    return next(
        (name for name in NAMES if getattr(getattr(sys, name), "refused", None) is error), None
    )


def drop(stream: IO[str]) -> None:
    """Lead a stream to nowhere: what it holds back must not fail again, nor at the interpreter's end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
