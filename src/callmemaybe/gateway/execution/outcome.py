"""The outcome of one attempt at running a tool, and what of it is known while it runs."""

from __future__ import annotations

from collections.abc import Awaitable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

from callmemaybe.errors import InputError, NotExecuted, TransientError
from callmemaybe.jsonio import dumps_result

OutcomeKind = Literal[
    "returned", "unrepresentable", "raised", "transient", "not_executed", "timed_out", "died"
]
#: Errors of libraries by which a connection broke or no reply came in time, as package.class of the error
#: or of a class above it. By name, so that none of them is imported here.
_BROKEN = frozenset((
    "aiohttp.ClientConnectionError", "aiohttp.ClientPayloadError", "anyio.BrokenResourceError",
    "anyio.ClosedResourceError", "anyio.EndOfStream", "asyncio.IncompleteReadError",
    "botocore.HTTPClientError", "http.HTTPException", "httpcore.NetworkError",
    "httpcore.ProtocolError", "httpcore.TimeoutException", "httpcore2.NetworkError",
    "httpcore2.ProtocolError", "httpcore2.TimeoutException", "httpx.TransportError",
    "httpx2.TransportError", "requests.ChunkedEncodingError", "requests.ConnectionError",
    "requests.Timeout", "ssl.SSLError", "subprocess.TimeoutExpired", "urllib.URLError",
    "urllib3.HTTPError",
))  # fmt: skip
#: A reply of the service, although its class is below one of those.
_REPLY = "urllib.HTTPError"
#: The methods of the HTTP requests that the attempt which runs here has sent and that may have changed
#: something; None where no attempt runs.
unsafe_sends: ContextVar[list[str] | None] = ContextVar("requests of the attempt", default=None)
#: The message with which a coroutine is cancelled when its attempt is out of time.
TIMED_OUT = "the attempt is out of time"


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """How an attempt ended; ``text`` is the result as JSON if it returned, an explanation otherwise."""

    kind: OutcomeKind
    text: str
    ending: Awaitable[AttemptOutcome] | None = field(default=None, compare=False)
    """Set if something of the attempt still runs: the outcome when it has ended."""


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
    if _is_broken(error):
        return AttemptOutcome("transient", text)
    return AttemptOutcome("raised", text)


def _is_broken(error: BaseException) -> bool:
    """Whether the error, one that it was raised from, or one of its group is a connection that broke."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, ConnectionError | TimeoutError | TransientError):
            return True
        kinds = type(one).__mro__
        names = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in kinds}
        if not _BROKEN.isdisjoint(names) and _REPLY not in names:
            return True
        if isinstance(one, BaseExceptionGroup):
            pending += one.exceptions
        pending.append(one.__cause__)
    return False
