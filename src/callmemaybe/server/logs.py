"""One JSON line per request, on standard error; nothing of what users wrote.

What the libraries below have to say (of a head that is no HTTP, say) is a line of the same form.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, Any

from callmemaybe.server.observe import Facts


class Log:
    """An observer that writes lines; ``now`` returns seconds since 1970."""

    def __init__(self, file: IO[str] | None = None, now: Callable[[], float] = time.time) -> None:
        self._file = file or sys.stderr
        self._now = now

    def started(self, facts: Facts) -> None:
        """See a request that was read; it is told at its end."""

    def finished(self, facts: Facts) -> None:
        """Write the line of a request."""
        line: dict[str, Any] = {
            "event": "request", "id": facts.id, "method": facts.method, "route": facts.route,
            "status": facts.status, "seconds": round(facts.seconds, 4),
        }  # fmt: skip
        if facts.code:
            line["code"] = facts.code
        if facts.is_dropped:
            line["dropped"] = True
        if facts.waited is not None:
            line |= {
                "client": facts.client, "model": facts.model, "stream": facts.is_stream,
                "waited": round(facts.waited, 4),
                "first": None if facts.first is None else round(facts.first, 4),
                "finish": list(facts.finish), "prompt_tokens": facts.prompt_tokens,
                "tokens": facts.tokens, "passes": facts.passes,
            }  # fmt: skip
        if facts.error is not None:
            line["error"] = "".join(traceback.format_exception(facts.error))
        self.write("error" if facts.is_failure else "info", line)

    def write(self, level: str, line: dict[str, Any]) -> None:
        """Write one line; a log that cannot be written stops nothing."""
        when = datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="milliseconds")
        try:
            self._file.write(json.dumps({"time": when, "level": level, **line}) + "\n")
            self._file.flush()
        except (OSError, ValueError):
            pass


#: Who logs while serving: uvicorn, and the event loop of what nobody else has caught.
_LOGGERS = ("uvicorn.error", "asyncio")


@contextmanager
def taking(log: Log, level: int) -> Iterator[None]:
    """Write what libraries log from ``level`` on into ``log``, in its form."""
    handler = _Handler(log, level)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


class _Handler(logging.Handler):
    """Writes records as lines of a log."""

    def __init__(self, log: Log, level: int) -> None:
        super().__init__(level)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = {"event": "log", "logger": record.name, "message": record.getMessage()}
            if record.exc_info and record.exc_info[1] is not None:
                line["error"] = "".join(traceback.format_exception(record.exc_info[1]))
        except Exception:
            self.handleError(record)
        else:
            self._log.write(record.levelname.lower(), line)
