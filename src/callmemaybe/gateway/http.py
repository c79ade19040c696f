"""An HTTP transport for tools that is safe against server-side request forgery (SSRF).

httpcore2 speaks HTTP; this module decides where it may connect. A host name is resolved once, every address
of it must be public, and the connection goes to an address that was checked, so a second resolution cannot
differ. Each redirect is checked again from the start; only GET and HEAD follow one. A reply is complete and in
time, or an error; an error says whether anything was sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import httpcore2
import httpx2

from callmemaybe.errors import NotExecuted, TransientError
from callmemaybe.gateway.addresses import is_public
from callmemaybe.gateway.execution.outcome import TIMED_OUT, unsafe_sends
from callmemaybe.tools.openapi import HttpRequest, HttpResponse

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FOLLOWING = frozenset({"GET", "HEAD"})
#: RFC 9110, section 9.2.1: methods that change nothing.
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
#: Methods whose request says that it has no body, if it has none (RFC 9110, section 8.6).
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
#: Headers that belong to the connection, and are written here.
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})
_PORTS = {"http": 80, "https": 443}
HostResolver = Callable[[str, int], Sequence[str]]


def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, as the system resolves it."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class HttpTransport:
    """A transport for tools: https only, public addresses only, bounded replies.

    ``schemes`` and ``private`` relax the first two for trusted networks. ``most`` bounds the reply in
    bytes, ``timeout`` the whole request in seconds, from name resolution to the last byte of the last hop,
    ``redirects`` their number. ``resolve`` returns the addresses of (host, port). ``tls`` holds the
    certificates that are trusted, by default those of the system.
    """

    def __init__(
        self,
        *,
        schemes: frozenset[str] = frozenset({"https"}),
        private: bool = False,
        most: int = 4 * 1024 * 1024,
        timeout: float = 20.0,
        redirects: int = 5,
        resolve: HostResolver = resolve_host,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._schemes = schemes
        self._private = private
        self._most = most
        self._timeout = timeout
        self._redirects = redirects
        self._resolve = resolve
        self._given_tls = tls

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given_tls or ssl.create_default_context()

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        """Send ``request`` and return the reply.

        Raises NotExecuted if nothing was sent, also when the gateway's timeout cancels it before that;
        TransientError if the reply is incomplete; TimeoutError if it did not come in time; ValueError for
        a reply that is too large and for a redirect that may not be followed. A request that was not sent
        raises TransientError if an earlier one of the same attempt was sent and may have changed something.
        """
        sends = unsafe_sends.get()
        if sends is None:  # called by something that is no attempt of a gateway
            sends = []
        before = bool(sends)
        sending = _RequestProgress(request.method, sends)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._send(request, sending)
        except asyncio.CancelledError as error:
            # Any other cancellation must propagate.
            if error.args != (TIMED_OUT,) or sending.sent or before:
                raise
            raise NotExecuted("it took too long, and nothing was sent") from error
        except Exception as error:
            judged = _judged(error, sending, before)
            if judged is error:
                raise
            raise judged from error

    async def _send(self, request: HttpRequest, sending: _RequestProgress) -> HttpResponse:
        url, headers = httpx2.URL(request.url), dict(request.headers)
        for _ in range(self._redirects + 1):
            addresses = await self._checked(url)
            reply = await self._once(request, url, addresses, headers, sending)
            redirected = reply.status in _REDIRECTS and reply.location
            if not redirected or request.method not in _FOLLOWING:
                return reply
            following = url.join(reply.location)
            if _origin(following) != _origin(url):
                # Headers for one host (credentials) must not go to another one, nor unencrypted.
                headers = {k: v for k, v in headers.items() if k.lower() == "accept"}
            url = following
        raise ValueError("too many redirects")

    async def _checked(self, url: httpx2.URL) -> Sequence[str]:
        """Return the addresses of the URL's host; raises NotExecuted where it may not be connected to."""
        if url.scheme not in self._schemes:
            raise NotExecuted(f"{url.scheme or 'no scheme'} is not allowed here")
        if not url.host or url.userinfo:
            raise NotExecuted("the address has no host, or a user in it")
        host = url.raw_host.decode()
        try:
            found = await _in_thread(self._resolve, host, _origin(url)[2])
        except OSError as error:
            raise NotExecuted(f"{host} cannot be resolved") from error
        for text in found:
            if not self._private and not is_public(text):
                raise NotExecuted(f"{host} leads to a private address")
        if not found:
            raise NotExecuted(f"{host} has no address")
        return found

    async def _once(
        self,
        request: HttpRequest,
        url: httpx2.URL,
        addresses: Sequence[str],
        headers: dict[str, str],
        sending: _RequestProgress,
    ) -> HttpResponse:
        scheme, host, port = _origin(url)
        # A connection of its own for each request: one that the server is about to close would leave the
        # outcome unknown.
        connection = httpcore2.AsyncHTTPConnection(
            httpcore2.Origin(scheme.encode(), host, port),
            ssl_context=self._tls if scheme == "https" else None,
            network_backend=_CheckedAddresses(addresses, sending),
        )
        target = httpcore2.URL(scheme=scheme.encode(), host=host, port=port, target=url.raw_path)
        made = httpcore2.Request(
            request.method,
            target,
            headers=_headers(request, url, headers),
            content=request.body,
            extensions={"sni_hostname": host.decode().rstrip(".")},
        )
        async with connection:
            reply = await connection.handle_async_request(made)
            fields = {name.lower(): value.decode("latin-1") for name, value in reply.headers}
            body = bytearray()
            async for chunk in reply.aiter_stream():
                body += chunk
                if len(body) > self._most:
                    raise ValueError(f"the reply is larger than {self._most} bytes")
        kind, location = fields.get(b"content-type", ""), fields.get(b"location", "")
        return HttpResponse(reply.status, kind, bytes(body), location)


def _origin(url: httpx2.URL) -> tuple[str, bytes, int]:
    return url.scheme, url.raw_host, url.port or _PORTS.get(url.scheme, 0)


def _headers(
    request: HttpRequest, url: httpx2.URL, given: dict[str, str]
) -> list[tuple[bytes, bytes]]:
    """Return the headers as bytes; raises UnicodeEncodeError for one that cannot be written."""
    found = [(b"Host", url.netloc), (b"Connection", b"close")]
    found += [
        (name.encode("ascii"), value.encode("latin-1"))
        for name, value in given.items()
        if name.lower() not in _OWN_HEADERS
    ]
    if request.body is not None or request.method in _WITH_BODY:
        found.append((b"Content-Length", b"%d" % len(request.body or b"")))
    return found


def _judged(error: Exception, sending: _RequestProgress, before: bool) -> Exception:
    """Return the exception that says what may have happened, given that ``error`` ended the request."""
    text = str(error) or type(error).__name__
    if not sending.sent:
        if isinstance(error, TimeoutError):
            text = "there was no connection in time"
        if before:
            return TransientError(f"{text}; an earlier request of this attempt was sent")
        return (
            error if isinstance(error, NotExecuted) else NotExecuted(f"{text}, so nothing was sent")
        )
    if isinstance(error, NotExecuted | httpx2.InvalidURL):
        return ValueError(f"a redirect was not followed: {text}")
    if isinstance(error, httpcore2.ProtocolError | httpcore2.NetworkError):
        # Not known whether the request was carried out: the missing part may say so.
        return TransientError(f"the reply is incomplete: {text}")
    return error


class _RequestProgress:
    """Whether anything of a request has been sent."""

    def __init__(self, method: str, sends: list[str]) -> None:
        self._method = method
        self._sends = sends
        self.sent = False

    def begin(self) -> None:
        """Mark that the request is being sent from here on."""
        if not self.sent and self._method not in _SAFE:
            self._sends.append(self._method)
        self.sent = True


class _CheckedAddresses(httpcore2.AsyncNetworkBackend):
    """Connects to the addresses that were checked, whatever the host is called."""

    def __init__(self, addresses: Sequence[str], sending: _RequestProgress) -> None:
        self._addresses = addresses
        self._sending = sending
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(self, host: str, port: int, **options: Any) -> _WatchedStream:  # type: ignore[override]
        """Connect to the first address that answers; nothing is sent to those that do not."""
        for address in self._addresses:
            try:
                stream = await self._backend.connect_tcp(address, port, **options)
            except httpcore2.ConnectError as error:
                last = error
            else:
                return _WatchedStream(stream, self._sending)
        raise NotExecuted(f"{host} cannot be reached") from last


class _WatchedStream(httpcore2.AsyncNetworkStream):
    """A stream that marks when the first byte of a request is sent; those of a TLS handshake are none."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream, sending: _RequestProgress) -> None:
        self._stream = stream
        self._sending = sending

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._sending.begin()
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(self, *arguments: Any, **named: Any) -> _WatchedStream:
        return _WatchedStream(await self._stream.start_tls(*arguments, **named), self._sending)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


async def _in_thread(function: Callable[..., Sequence[str]], *arguments: Any) -> Sequence[str]:
    """Return ``function(*arguments)``; whoever stops waiting leaves the thread behind.

    Not in the loop's pool: a name resolution cannot be stopped, and a closing loop waits for its pool.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Sequence[str]] = loop.create_future()

    def report(setter: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            setter(value)

    def work() -> None:
        setter: Callable[[Any], None]
        try:
            value: Any = function(*arguments)
            setter = future.set_result
        except BaseException as error:
            value, setter = error, future.set_exception
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(report, setter, value)

    threading.Thread(target=work, name="host name", daemon=True).start()
    return await future
