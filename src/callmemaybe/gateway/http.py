"""Sends the HTTP requests of tools without letting an address lead somewhere else.

A name is resolved once; every address it has must be public; the connection goes to the address that was
checked (so a second resolution cannot differ), and each redirect is checked again from the start.
"""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
import socket
import ssl
from collections.abc import Callable, Sequence
from urllib.parse import SplitResult, urljoin, urlsplit

from callmemaybe.calls.declare import NotExecuted
from callmemaybe.calls.openapi import Request, Response

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAFE = frozenset({"GET", "HEAD"})
Resolve = Callable[[str, int], Sequence[str]]


def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, as the system resolves it."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class HttpTransport:
    """A transport for tools: https only, public addresses only, bounded replies.

    ``schemes`` and ``private`` loosen the first two for trusted networks. ``most`` bounds the reply
    in bytes; ``timeout`` each step of the connection in seconds.
    """

    def __init__(
        self,
        *,
        schemes: frozenset[str] = frozenset({"https"}),
        private: bool = False,
        most: int = 4 * 1024 * 1024,
        timeout: float = 20.0,
        redirects: int = 5,
        resolve: Resolve = resolve,
    ) -> None:
        self._schemes = schemes
        self._private = private
        self._most = most
        self._timeout = timeout
        self._redirects = redirects
        self._resolve = resolve

    async def __call__(self, request: Request) -> Response:
        """Send ``request``; raises NotExecuted where nothing was sent."""
        return await asyncio.to_thread(self._send, request)

    def _send(self, request: Request) -> Response:
        url, headers = request.url, dict(request.headers)
        for _ in range(self._redirects + 1):
            parts = self._checked(url)
            address = self._address(parts)
            reply, location = self._once(request, parts, address, headers)
            if reply.status not in _REDIRECTS or not location or request.method not in _SAFE:
                return reply
            following = urljoin(url, location)
            if urlsplit(following).netloc != parts.netloc:
                # What was meant for one host is not shown to another.
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
        self, request: Request, parts: SplitResult, address: str, headers: dict[str, str]
    ) -> tuple[Response, str | None]:
        connection = self._connect(parts, address)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            connection.request(request.method, path, request.body, headers)
            # A reply that ends with its connection keeps the socket until it is closed itself.
            with connection.getresponse() as reply:
                body = reply.read(self._most + 1)
                if len(body) > self._most:
                    raise ValueError(f"the reply is larger than {self._most} bytes")
                kind = reply.getheader("content-type", "")
                return Response(reply.status, kind, body), reply.getheader("location")
        finally:
            connection.close()

    def _connect(self, parts: SplitResult, address: str) -> http.client.HTTPConnection:
        """Connect to the checked address; the certificate and Host are those of the name."""
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        connection = http.client.HTTPConnection(host, port, timeout=self._timeout)
        try:
            raw: socket.socket = socket.create_connection((address, port), self._timeout)
        except OSError as error:
            raise NotExecuted(f"{host} cannot be reached") from error
        if parts.scheme == "https":
            try:
                raw = ssl.create_default_context().wrap_socket(raw, server_hostname=host)
            except (OSError, ssl.SSLError) as error:
                raw.close()
                raise NotExecuted(f"{host}: {error}") from error
        connection.sock = raw
        return connection


def _is_public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inside = address.ipv4_mapped or address.sixtofour
        if inside is not None:
            return inside.is_global
    return address.is_global and not address.is_multicast
