"""The outcome of one attempt at running a tool. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from callmemaybe.errors import InputError, NotExecuted, TransientError
from callmemaybe.jsonio import dumps_result

OutcomeKind = Literal[
    "returned", "unrepresentable", "raised", "transient", "not_executed", "timed_out", "died"
]
#: The message with which a coroutine is cancelled when its attempt is out of time.
TIMED_OUT = "the attempt is out of time"


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """How an attempt ended; ``text`` is the result as JSON if it returned, an explanation otherwise."""

    kind: OutcomeKind
    text: str


def outcome_of_value(value: Any, *, most: int, depth: int) -> AttemptOutcome:
    """Return the outcome of a tool that returned ``value``: the effect happened even if JSON cannot hold it.

    A text of more than ``most`` characters is cut to ``most`` + 1, so that its length shows the cut.
    ``depth`` bounds the nesting.
    """
    try:
        text = dumps_result(value, max_depth=depth)
    except InputError as error:
        return AttemptOutcome("unrepresentable", error.message)
    except Exception as error:
        return AttemptOutcome(
            "unrepresentable", f"{type(error).__name__} while it was written as JSON"
        )
    if len(text) > most:
        text = text[: most + 1]
    return AttemptOutcome("returned", text)


def outcome_of_error(error: BaseException) -> AttemptOutcome:
    """Return the outcome of a tool that raised ``error``."""
    try:
        message = str(error)[:2000]
        message.encode()
    except Exception:
        message = "(its message cannot be shown)"
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    if isinstance(error, NotExecuted):
        return AttemptOutcome("not_executed", text)
    if isinstance(error, ConnectionError | TimeoutError | TransientError):
        return AttemptOutcome("transient", text)
    return AttemptOutcome("raised", text)
