"""An HTTP transport for tools that is safe against server-side request forgery (SSRF).

A host name is resolved once, every address of it must be public, and the connection goes to the address
that was checked, so a second resolution cannot differ. Each redirect is checked again from the start; only
GET and HEAD follow one. A reply is complete and in time, or an error.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import http.client
import io
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, cast
from urllib.parse import SplitResult, urljoin, urlsplit

from callmemaybe.errors import NotExecuted, TransientError
from callmemaybe.gateway.execution.outcome import TIMED_OUT
from callmemaybe.tools.openapi import HttpRequest, HttpResponse

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAFE = frozenset({"GET", "HEAD"})
_CHUNK = 1 << 16
#: Seconds for the sending thread to notice its deadline by itself.
_GRACE = 0.5
HostResolver = Callable[[str, int], Sequence[str]]
#: Whether this attempt at a tool has sent a request. Each attempt is a task with a context of its own.
_has_sent: contextvars.ContextVar[bool] = contextvars.ContextVar("has sent", default=False)


def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, as the system resolves it."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class HttpTransport:
    """A transport for tools: https only, public addresses only, bounded replies.

    ``schemes`` and ``private`` relax the first two for trusted networks. ``most`` bounds the reply in
    bytes, ``timeout`` the whole request in seconds, from name resolution to the last byte of the last hop,
    ``redirects`` their number. ``resolve`` returns the addresses of (host, port).
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
    ) -> None:
        self._schemes = schemes
        self._private = private
        self._most = most
        self._timeout = timeout
        self._redirects = redirects
        self._resolve = resolve

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        """Send ``request`` and return the reply.

        Raises NotExecuted if nothing was sent, also when the gateway's timeout cancels it before that;
        TransientError if the reply is incomplete; an OSError (TimeoutError) if it did not come in time.
        Nothing is sent after a cancellation.
        """
        attempt = _RequestAttempt(self._timeout)
        done: concurrent.futures.Future[HttpResponse] = concurrent.futures.Future()
        done.set_running_or_notify_cancel()  # from here on only the thread sets the result

        def work() -> None:
            try:
                done.set_result(self._send(request, attempt))
            except BaseException as error:
                done.set_exception(error)

        # Not in the loop's pool: a name resolution cannot be stopped, and a closing loop waits for its pool.
        threading.Thread(target=work, name="http", daemon=True).start()
        try:
            # The thread enforces the deadline itself, except during name resolution.
            async with asyncio.timeout(self._timeout + _GRACE):
                return await asyncio.wrap_future(done)
        except TimeoutError as error:
            if attempt.end():
                raise
            raise NotExecuted("there was no connection in time, so nothing was sent") from error
        except asyncio.CancelledError as error:
            # Any other cancellation must propagate. An earlier request of this attempt was sent.
            if error.args != (TIMED_OUT,) or attempt.end() or _has_sent.get():
                raise
            raise NotExecuted("it took too long, and nothing was sent") from error
        finally:
            if attempt.end():
                _has_sent.set(True)

    def _send(self, request: HttpRequest, attempt: _RequestAttempt) -> HttpResponse:
        url, headers = request.url, dict(request.headers)
        for hop in range(self._redirects + 1):
            try:
                parts = self._checked(url)
                address = self._address(parts)
                reply = self._once(request, parts, address, headers, attempt)
            except NotExecuted as error:
                if not hop:
                    raise
                raise ValueError(f"a redirect was not followed: {error}") from error
            redirected = reply.status in _REDIRECTS and reply.location
            if not redirected or request.method not in _SAFE:
                return reply
            following = urljoin(url, reply.location)
            if urlsplit(following)[:2] != parts[:2]:
                # Headers for one host (credentials) must not go to another one, nor unencrypted.
                headers = {k: v for k, v in headers.items() if k.lower() == "accept"}
            url = following
        raise ValueError("too many redirects")

    def _checked(self, url: str) -> SplitResult:
        parts = urlsplit(url)
        if parts.scheme not in self._schemes:
            raise NotExecuted(f"{parts.scheme or 'no scheme'} is not allowed here")
        if not parts.hostname or parts.username is not None:
            raise NotExecuted("the address has no host, or a user in it")
        return parts

    def _address(self, parts: SplitResult) -> str:
        assert parts.hostname is not None
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            found = self._resolve(parts.hostname, port)
        except OSError as error:
            raise NotExecuted(f"{parts.hostname} cannot be resolved") from error
        for text in found:
            if not self._private and not _is_public(text):
                raise NotExecuted(f"{parts.hostname} leads to a private address")
        if not found:
            raise NotExecuted(f"{parts.hostname} has no address")
        return found[0]

    def _once(
        self,
        request: HttpRequest,
        parts: SplitResult,
        address: str,
        headers: dict[str, str],
        attempt: _RequestAttempt,
    ) -> HttpResponse:
        connection = _connect(parts, address, attempt)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            attempt.begin()
            try:
                connection.request(request.method, path, request.body, headers)
            except (ValueError, http.client.HTTPException) as error:
                # http.client checks the request before it sends any of it (a header outside of Latin-1).
                raise NotExecuted(f"{error}, so nothing was sent") from error
            # A reply without a length keeps the socket open until the reply itself is closed.
            with connection.getresponse() as reply:
                body = self._body(reply)
                kind = reply.getheader("content-type", "")
                return HttpResponse(reply.status, kind, body, reply.getheader("location", ""))
        finally:
            connection.close()
            attempt.detach()

    def _body(self, reply: http.client.HTTPResponse) -> bytes:
        """Read the whole reply; raises TransientError if it is incomplete, ValueError if it is too large."""
        body = bytearray()
        try:
            while chunk := reply.read1(_CHUNK):
                body += chunk
                if len(body) > self._most:
                    raise ValueError(f"the reply is larger than {self._most} bytes")
        except http.client.IncompleteRead as error:
            raise TransientError("the reply is incomplete: it ends inside a chunk") from error
        if reply.length:
            # Not known whether the request was carried out: the missing part may say so.
            raise TransientError(f"the reply is incomplete: {reply.length} bytes of it are missing")
        return bytes(body)


class _RequestAttempt:
    """The deadline of one request, and the way to stop the thread that sends it."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._ended = self._begun = False
        self._handle: socket.socket | None = None

    def remaining(self) -> float:
        """Return the seconds left; raises TimeoutError if there are none."""
        left = self._until - time.monotonic()
        if self._ended or left <= 0:
            raise TimeoutError("the attempt took too long")
        return left

    def attach(self, connected: socket.socket) -> None:
        """Let ``end`` shut this socket down; raises TimeoutError after the end.

        It keeps a duplicate, so the descriptor cannot be closed and reused by another file in the
        meantime, and the TLS layer above the socket is not touched.
        """
        with self._lock:
            self.remaining()
            self._handle = connected.dup()

    def detach(self) -> None:
        """Close the duplicate of the socket."""
        with self._lock:
            if self._handle is not None:
                self._handle.close()
                self._handle = None

    def begin(self) -> None:
        """Mark that the request is being sent from here on; raises TimeoutError after the end."""
        with self._lock:
            self.remaining()
            self._begun = True

    def end(self) -> bool:
        """Stop sending and reading; return whether anything may have been sent."""
        with self._lock:
            self._ended = True
            if self._handle is not None:
                with contextlib.suppress(OSError):  # the peer closed it first
                    self._handle.shutdown(socket.SHUT_RDWR)
            return self._begun


class _DeadlineSocket:
    """The part of a socket that http.client uses, with the request's deadline applied to each step.

    A socket's own timeout starts again with each byte that arrives.
    """

    def __init__(self, connected: socket.socket, attempt: _RequestAttempt) -> None:
        self._socket = connected
        self._attempt = attempt

    def sendall(self, data: bytes) -> None:
        unsent = memoryview(data)
        while unsent:
            self._socket.settimeout(self._attempt.remaining())
            unsent = unsent[self._socket.send(unsent) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_DeadlineReader(self._socket, self._attempt))

    def close(self) -> None:
        self._socket.close()


class _DeadlineReader(io.RawIOBase):
    def __init__(self, connected: socket.socket, attempt: _RequestAttempt) -> None:
        self._socket = connected
        self._attempt = attempt
        # Keeps the socket open until it is closed itself, as http.client expects.
        self._raw = connected.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(self._attempt.remaining())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _connect(
    parts: SplitResult, address: str, attempt: _RequestAttempt
) -> http.client.HTTPConnection:
    """Connect to the checked address; the certificate and the Host header are those of the name."""
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    connection = http.client.HTTPConnection(host, port)
    try:
        raw: socket.socket = socket.create_connection((address, port), attempt.remaining())
    except OSError as error:
        raise NotExecuted(f"{host} cannot be reached") from error
    try:
        attempt.attach(raw)
        raw.settimeout(attempt.remaining())
        if parts.scheme == "https":
            raw = ssl.create_default_context().wrap_socket(raw, server_hostname=host)
    except OSError as error:
        raw.close()
        attempt.detach()
        raise NotExecuted(f"{host}: {error}") from error
    connection.sock = cast("socket.socket", _DeadlineSocket(raw, attempt))
    return connection


def _is_public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inside = address.ipv4_mapped or address.sixtofour
        if inside is not None:
            return inside.is_global
    return address.is_global and not address.is_multicast
