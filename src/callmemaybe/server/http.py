"""HTTP alone: reading bodies, writing JSON and events, disconnects, access control."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from callmemaybe.errors import InputError
from callmemaybe.jsonio import LongNumber, dumps, has_lone_surrogate, is_deeper, loads
from callmemaybe.server.config import ServerConfig
from callmemaybe.server.http_errors import ApiError

#: How deep arrays and objects of a request may nest; no sensible schema is deeper.
MAX_DEPTH = 64
#: How many digits a number may have before and after the point; more than any float has.
MAX_DIGITS = 400
#: Header names (RFC 9110, section 5.6.2) separated by commas.
_HEADER_NAMES = re.compile(r"[!#$%&'*+.^_`|~\w-]+(?:[ \t]*,[ \t]*[!#$%&'*+.^_`|~\w-]+)*", re.ASCII)
#: Names what of a conversation the model did not read.
UNREAD_HEADER = "callmemaybe-unread"
_DEFAULT_HEADERS = "authorization, content-type, x-request-id"
_LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
#: Seconds without an event after which a stream sends a sign of life.
_SILENCE_SECONDS = 15.0
#: A comment of server-sent events, which readers skip.
COMMENT = b": still working\n\n"


T = TypeVar("T")


class ClientGone(Exception):
    """The client disconnected."""


def json_bytes(value: Any) -> bytes:
    """Write compact JSON; numbers that were read as Decimal keep their digits."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError):
        return dumps(value, compact=True).encode()


class JsonResponse(Response):
    """A JSON response; bytes are JSON already."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Write the body."""
        return content if isinstance(content, bytes) else json_bytes(content)


async def read_json(request: Request, config: ServerConfig) -> Any:
    """Return the JSON value of a request's body; raise ApiError if it is not JSON, or too large."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, "Send JSON, with the header Content-Type: application/json.",
                      code="unsupported_content_type")  # fmt: skip
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise ApiError(
            415, f"The body is encoded ({encoding}); send it as it is, without Content-Encoding.",
            code="unsupported_content_encoding",
        )  # fmt: skip
    body = await read_body(request, config)
    request.state.body_size = len(body)
    try:
        text = body.decode()
        value = loads(text, max_digits=MAX_DIGITS)
    except UnicodeDecodeError as error:
        raise ApiError(400, f"The body is not UTF-8: {error.reason} at byte {error.start}.",
                      code="invalid_json") from None  # fmt: skip
    except LongNumber:
        raise _number_too_large() from None
    except InputError as error:
        raise ApiError(400, f"The body is {error.message}.", code="invalid_json") from None
    if is_deeper(text, MAX_DEPTH):
        raise ApiError(400, f"The body nests deeper than {MAX_DEPTH} levels.", code="too_deep")
    _check_values(value)
    return value


def _check_values(value: Any) -> None:
    """Raise ApiError for lone surrogates in strings, and for numbers that would fill the memory.

    ``1e999999999`` has few digits when it is read, but takes a gigabyte as an integer.
    """
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack += [*value, *value.values()]
        elif isinstance(value, list):
            stack += value
        elif isinstance(value, str):
            if not value.isascii() and has_lone_surrogate(value):
                raise ApiError(
                    400, "A string holds half of a surrogate pair, which is no character.",
                    code="invalid_json",
                )  # fmt: skip
        elif isinstance(value, Decimal) and abs(value.adjusted()) > MAX_DIGITS:
            raise _number_too_large()


def _number_too_large() -> ApiError:
    return ApiError(
        400, f"A number has more than {MAX_DIGITS} digits, or is written as if it had.",
        code="number_out_of_range",
    )  # fmt: skip


async def read_body(request: Request, config: ServerConfig) -> bytes:
    """Return the body of a request; raise ApiError if it is too large or too slow, ClientGone if it ends early."""
    most = config.body_bytes
    closing = {"connection": "close"}
    too_large = ApiError(
        413, f"The body is larger than {most} bytes.", code="body_too_large", headers=closing
    )
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(config.read_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise ApiError(
            408, f"The body was not complete within {config.read_seconds:g} s.",
            code="body_timeout", headers=closing,
        ) from None  # fmt: skip
    except ClientDisconnect:
        raise ClientGone from None
    return bytes(body)


async def until_disconnect(receive: Receive, work: Awaitable[T]) -> T:
    """Return the result of ``work``; cancel it and raise ClientGone if the client disconnects first."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        for one in (task, gone):
            one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Server-sent events, given as bytes.

    ``on_end`` is called at the end, with True if the client disconnected before it; ``idle`` is sent while there are none.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncIterator[bytes],
        on_end: Callable[[bool], None],
        headers: Mapping[str, str],
        idle: bytes = COMMENT,
    ) -> None:
        super().__init__(
            headers={**headers, "cache-control": "no-cache", "x-accel-buffering": "no"}
        )
        del self.headers["content-length"]
        self._events = events
        self._on_end = on_end
        self._idle = idle

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end, or the client disconnects."""
        is_gone = True
        try:
            await until_disconnect(receive, self._send(send))
            is_gone = False
        except (ClientGone, OSError):
            pass
        finally:
            self._on_end(is_gone)

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async for event in with_comments(self._events, _SILENCE_SECONDS, self._idle):
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def with_comments(
    events: AsyncIterator[bytes], seconds: float, comment: bytes = COMMENT
) -> AsyncIterator[bytes]:
    """Yield the events, and a comment after each ``seconds`` without one.

    Proxies and clients close connections that are silent for too long; readers of server-sent events skip
    comments.
    """
    following = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            done, _ = await asyncio.wait({following}, timeout=seconds)
            if not done:
                yield comment
                continue
            event = following.result()
            if event is None:
                return
            yield event
            following = asyncio.ensure_future(anext(events, None))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


# -- access control -------------------------------------------------------------------------------


def check_origin(request: Request, config: ServerConfig) -> None:
    """Raise ApiError (403) for web pages of other origins, and for unknown host names.

    A browser lets any page send requests to this machine, and a foreign host name may be made to
    resolve to it (DNS rebinding); without a key neither may reach the model. Host names are
    case-insensitive (RFC 9110, section 4.2.3).
    """
    origin = request.headers.get("origin", "").lower()
    host = request.headers.get("host", "").lower()
    if origin and origin not in config.allowed_origins and origin.partition("://")[2] != host:
        raise ApiError(403, f"Pages of {origin} may not use this server.", code="origin_refused")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if not config.keys and name not in (*_LOCAL_NAMES, config.host.lower()):
        raise ApiError(403, f"This server is not called {name!r}.", code="host_refused")


def cors(request: Request, config: ServerConfig) -> dict[str, str]:
    """Return the CORS headers for pages of the allowed origins.

    All requested headers are allowed: OpenAI's client sends a dozen of its own, which change.
    """
    origin = request.headers.get("origin")
    if origin is None or origin.lower() not in config.allowed_origins:
        return {}
    asked = request.headers.get("access-control-request-headers", "")
    return {
        "access-control-allow-origin": origin,
        "access-control-allow-methods": "GET, POST",
        "access-control-allow-headers": asked
        if _HEADER_NAMES.fullmatch(asked)
        else _DEFAULT_HEADERS,
        "access-control-expose-headers": "x-request-id, request-id, retry-after, openai-processing-ms, "
        + UNREAD_HEADER,
        "access-control-max-age": "600",
        "vary": "origin, access-control-request-headers",
    }


def client_id(request: Request, keys: Sequence[str], *, is_open: bool = False) -> str:
    """Return an id of the client: a hash of its key, or its address where no keys are required.

    Raises ApiError (401) for a missing or wrong key, unless the route ``is_open``.
    """
    address = request.client.host if request.client else "unknown"
    if not keys or is_open:
        return address
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    own = request.headers.get("x-api-key", "")
    found = [one.strip() for one in (bearer if scheme.lower() == "bearer" else "", own)]
    challenge = {"www-authenticate": "Bearer"}
    if not any(found):
        raise ApiError(
            401, "No API key was given: send it in the header Authorization: Bearer KEY, or X-Api-Key: KEY.",
            code="missing_api_key", headers=challenge,
        )  # fmt: skip
    right = [
        given
        for given in found
        for key in keys
        if hmac.compare_digest(given.encode(), key.encode())
    ]
    if not right:
        raise ApiError(401, "Incorrect API key provided.", code="invalid_api_key",
                      headers=challenge)  # fmt: skip
    given = right[0]
    return "key-" + hashlib.sha256(given.encode()).hexdigest()[:8]


Handler = Callable[[Request], Awaitable[Response]]
