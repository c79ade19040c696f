"""What is HTTP and nothing else: reading bodies, writing JSON and events, noticing who is gone."""

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
from callmemaybe.generation.validation import depth_of
from callmemaybe.jsonio.writer import LongNumber, dumps, loads
from callmemaybe.server.http_errors import Problem
from callmemaybe.server.settings import Settings

#: How deep arrays and objects of a request may nest: deeper ones are no schemas, but attacks.
MOST_DEPTH = 64
#: How many digits a number may have, in front of the point and behind it: more than any float.
MOST_DIGITS = 400
_HALF_PAIR = re.compile("[\ud800-\udfff]")
#: Names of headers (RFC 9110, section 5.6.2), with commas between.
_NAMES = re.compile(r"[!#$%&'*+.^_`|~\w-]+(?:[ \t]*,[ \t]*[!#$%&'*+.^_`|~\w-]+)*", re.ASCII)
_USUAL_HEADERS = "authorization, content-type, x-request-id"
_NAMES_OF_THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]")


T = TypeVar("T")


class Gone(Exception):
    """The client went away."""


def json_bytes(value: Any) -> bytes:
    """Write compact JSON; numbers that were read as Decimal keep their digits."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError):
        return dumps(value, compact=True).encode()


class Json(Response):
    """A JSON response."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Write the body."""
        return json_bytes(content)


async def read_json(request: Request, settings: Settings) -> Any:
    """Return the JSON value of a request's body; raise Problem for what is none, or too much."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, "Send JSON, with the header Content-Type: application/json.",
                      code="unsupported_content_type")  # fmt: skip
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise Problem(
            415, f"The body is encoded ({encoding}); send it as it is, without Content-Encoding.",
            code="unsupported_content_encoding",
        )  # fmt: skip
    body = await _read(request, settings)
    try:
        value = loads(body.decode(), most_digits=MOST_DIGITS)
    except UnicodeDecodeError as error:
        raise Problem(400, f"The body is not UTF-8: {error.reason} at byte {error.start}.",
                      code="invalid_json") from None  # fmt: skip
    except LongNumber:
        raise _too_large() from None
    except InputError as error:
        raise Problem(400, f"The body is {error.message}.", code="invalid_json") from None
    if depth_of(value) > MOST_DEPTH:
        raise Problem(400, f"The body nests deeper than {MOST_DEPTH} levels.", code="too_deep")
    _check_values(value)
    return value


def _check_values(value: Any) -> None:
    """Raise Problem for a string that is no text, and for a number that would fill a memory.

    Its digits were counted when it was read, but ``1e999999999`` is ten of them, and a gigabyte when
    somebody counts with it.
    """
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack += [*value, *value.values()]
        elif isinstance(value, list):
            stack += value
        elif isinstance(value, str):
            if not value.isascii() and _HALF_PAIR.search(value):
                raise Problem(
                    400, "A string holds half of a surrogate pair, which is no character.",
                    code="invalid_json",
                )  # fmt: skip
        elif isinstance(value, Decimal) and abs(value.adjusted()) > MOST_DIGITS:
            raise _too_large()


def _too_large() -> Problem:
    return Problem(
        400, f"A number has more than {MOST_DIGITS} digits, or is written as if it had.",
        code="number_out_of_range",
    )  # fmt: skip


async def _read(request: Request, settings: Settings) -> bytes:
    most = settings.body_bytes
    closing = {"connection": "close"}
    too_large = Problem(
        413, f"The body is larger than {most} bytes.", code="body_too_large", headers=closing
    )
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(settings.read_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise Problem(
            408, f"The body was not complete within {settings.read_seconds:g} s.",
            code="body_timeout", headers=closing,
        ) from None  # fmt: skip
    except ClientDisconnect:
        raise Gone from None
    return bytes(body)


async def until_gone(receive: Receive, work: Awaitable[T]) -> T:
    """Return what ``work`` returns; end it and raise Gone when the client goes away first."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Gone
    finally:
        for one in (task, gone):
            one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Server-sent events; ``events`` are their bytes, ``over`` is called at the end, however it ends.

    ``over`` gets True where the client went away before.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncIterator[bytes],
        over: Callable[[bool], None],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(
            headers={**headers, "cache-control": "no-cache", "x-accel-buffering": "no"}
        )
        del self.headers["content-length"]
        self._events = events
        self._over = over

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end, or the client is gone."""
        is_gone = True
        try:
            await until_gone(receive, self._send(send))
            is_gone = False
        except (Gone, OSError):
            pass
        finally:
            self._over(is_gone)

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async for event in self._events:
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


# -- who may come in ------------------------------------------------------------------------------


def check_origin(request: Request, settings: Settings) -> None:
    """Raise Problem (403) for a page of elsewhere, and for a name that is not ours.

    A browser lets any page send requests to this machine, and a name that someone else owns may be
    made to point here (DNS rebinding); without a key neither must reach the model. Names of hosts
    are the same in capitals (RFC 9110, section 4.2.3).
    """
    origin = request.headers.get("origin", "").lower()
    host = request.headers.get("host", "").lower()
    if origin and origin not in settings.let_in and origin.partition("://")[2] != host:
        raise Problem(403, f"Pages of {origin} may not use this server.", code="origin_refused")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if not settings.keys and name not in (*_NAMES_OF_THIS_MACHINE, settings.host.lower()):
        raise Problem(403, f"This server is not called {name!r}.", code="host_refused")


def cors(request: Request, settings: Settings) -> dict[str, str]:
    """Return the headers that let a page read the answer, for pages that may.

    They may send whatever they ask to: OpenAI's client has a dozen headers of its own, which change.
    """
    origin = request.headers.get("origin")
    if origin is None or origin.lower() not in settings.let_in:
        return {}
    asked = request.headers.get("access-control-request-headers", "")
    return {
        "access-control-allow-origin": origin,
        "access-control-allow-methods": "GET, POST",
        "access-control-allow-headers": asked if _NAMES.fullmatch(asked) else _USUAL_HEADERS,
        "access-control-expose-headers": "x-request-id, retry-after, openai-processing-ms",
        "access-control-max-age": "600",
        "vary": "origin, access-control-request-headers",
    }


def client_of(request: Request, keys: Sequence[str], *, is_open: bool = False) -> str:
    """Return who asks: by the key, or by the address where no keys are asked for.

    Raises Problem (401) for a key that is missing or wrong, unless the address ``is_open``.
    """
    address = request.client.host if request.client else "unknown"
    if not keys or is_open:
        return address
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    challenge = {"www-authenticate": "Bearer"}
    if scheme.lower() != "bearer" or not given:
        raise Problem(
            401, "No API key was given: send it in the header Authorization: Bearer KEY.",
            code="missing_api_key", headers=challenge,
        )  # fmt: skip
    given = given.strip()
    matches = [hmac.compare_digest(given.encode(), key.encode()) for key in keys]
    if not any(matches):
        raise Problem(401, "Incorrect API key provided.", code="invalid_api_key",
                      headers=challenge)  # fmt: skip
    return "key-" + hashlib.sha256(given.encode()).hexdigest()[:8]


Handler = Callable[[Request], Awaitable[Response]]
