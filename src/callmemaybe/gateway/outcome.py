"""What one attempt at running a tool came to. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from callmemaybe.errors import InputError
from callmemaybe.jsonio import dumps_result
from callmemaybe.tools.declare import NotExecuted, TransientError

Kind = Literal[
    "returned", "unrepresentable", "raised", "transient", "not_executed", "timed_out", "died"
]
#: What a coroutine is cancelled with when its attempt is out of time.
GIVEN_UP = "the attempt is out of time"


@dataclass(frozen=True, slots=True)
class Outcome:
    """``text`` is the result as JSON where it returned, and an explanation otherwise."""

    kind: Kind
    text: str


def represented(value: Any, *, most: int, depth: int) -> Outcome:
    """Return the outcome of a tool that returned ``value``: the effect happened, whatever it is.

    A text of more than ``most`` bytes is kept up to one byte more, so that it is seen to be cut.
    """
    try:
        text = dumps_result(value, max_depth=depth)
    except InputError as error:
        return Outcome("unrepresentable", error.message)
    except Exception as error:
        return Outcome("unrepresentable", f"{type(error).__name__} while it was written as JSON")
    if len(text) > most:
        text = text[: most + 1]
    return Outcome("returned", text)


def describe(error: BaseException) -> Outcome:
    """Return the outcome of a tool that raised."""
    try:
        said = str(error)[:2000]
        said.encode()
    except Exception:
        said = "(its message cannot be shown)"
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if isinstance(error, NotExecuted):
        return Outcome("not_executed", text)
    if isinstance(error, ConnectionError | TimeoutError | TransientError):
        return Outcome("transient", text)
    return Outcome("raised", text)
