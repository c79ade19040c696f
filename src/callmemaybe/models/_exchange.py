"""HTTP exchanges with one server that no server can hold up: bounded in time and size, ended at once.

A blocking client can only bound the silence between two bytes, and nobody can stop it while it waits. So the
exchanges run on an event loop in a thread of its own, and whoever waits for one hears of it four times a second.
"""

from __future__ import annotations

import asyncio
import math
import os
import queue
import threading
import time
import weakref
from collections.abc import Generator, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from callmemaybe.errors import UpstreamError
from callmemaybe.models.base import need_extra

#: Seconds between two signs of life to whoever waits.
_BEAT = 0.25
_CONNECT_SECONDS = 10.0
#: The largest reply, and the largest reply that tells of an error, in bytes.
MOST_BYTES = 64 << 20
_MOST_ERROR_BYTES = 64 << 10
#: The longest Retry-After that is passed on, in seconds.
_LONGEST_RETRY_AFTER = 3600.0


@dataclass(frozen=True)
class ReplyHead:
    """The beginning of a reply: its status, and what kind of content follows."""

    status: int
    content_type: str
    retry_after: float | None = None

    @property
    def is_error(self) -> bool:
        """Whether it is no success."""
        return not 200 <= self.status < 300


class HttpExchange:
    """Sends requests to one server, each within ``timeout`` seconds from the first byte to the last.

    ``key`` is sent to nobody else: redirections are not followed. Usable from several threads at once.
    """

    def __init__(self, base: str, *, name: str, key: str | None, timeout: float) -> None:
        self._base = base
        self._name = name
        self._timeout = timeout
        self._headers = {"Accept-Encoding": "identity"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._lock = threading.Lock()
        self._client: Any = None
        self._process = 0

    def send(self, method: str, path: str, body: Any) -> Iterator[ReplyHead | bytes]:
        """Send a request; yield the head of the reply and its content, and b"" now and then while waiting.

        Closing the iterator ends the exchange. Raises UpstreamError.
        """
        parts: queue.SimpleQueue[ReplyHead | bytes | BaseException | None] = queue.SimpleQueue()
        running = self._start(method, path, body, parts)
        try:
            while True:
                try:
                    part = parts.get(timeout=_BEAT)
                except queue.Empty:
                    yield b""
                    continue
                if part is None:
                    return
                if isinstance(part, BaseException):
                    raise self._translated(part) from part
                yield part
        finally:
            running.cancel()

    def _start(
        self, method: str, path: str, body: Any, parts: queue.SimpleQueue[Any]
    ) -> Future[None]:
        httpx = load_httpx()
        with self._lock:
            if self._process != os.getpid():  # threads do not live on in a forked process
                self._client = httpx.AsyncClient(
                    base_url=self._base,
                    timeout=httpx.Timeout(
                        self._timeout, connect=min(_CONNECT_SECONDS, self._timeout)
                    ),
                    headers=self._headers,
                    limits=httpx.Limits(max_connections=256, max_keepalive_connections=64),
                )
                self._process = os.getpid()
                # Connections that are kept open belong to the loop, and are closed there.
                weakref.finalize(self, _close, self._client).atexit = False
            client = self._client
        return asyncio.run_coroutine_threadsafe(
            self._run(client, method, path, body, parts), _running_loop()
        )

    async def _run(
        self, client: Any, method: str, path: str, body: Any, parts: queue.SimpleQueue[Any]
    ) -> None:
        try:
            async with (
                asyncio.timeout(self._timeout),
                client.stream(method, client.base_url.join(path), json=body) as reply,
            ):
                head = ReplyHead(
                    reply.status_code,
                    reply.headers.get("content-type", "").partition(";")[0].strip().lower(),
                    _seconds(reply.headers.get("retry-after", "")),
                )
                parts.put(head)
                if reply.headers.get("content-encoding", "identity") not in ("", "identity"):
                    raise _Unusable("answers in an encoding that it was not asked for")
                most = _MOST_ERROR_BYTES if head.is_error else MOST_BYTES
                size = 0
                async for piece in reply.aiter_raw():
                    size += len(piece)
                    if size > most:
                        if head.is_error:
                            break
                        raise _Unusable(f"answers with more than {most} bytes")
                    parts.put(piece)
            parts.put(None)
        except BaseException as error:
            parts.put(error)
            if not isinstance(error, Exception):
                raise

    def _translated(self, error: BaseException) -> UpstreamError:
        httpx = load_httpx()
        if isinstance(error, UpstreamError):
            return error
        if isinstance(error, _Unusable):
            return UpstreamError("answer", str(error), address=self._name)
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return UpstreamError("away", "cannot be reached", address=self._name,
                                 quoted=f": {error or 'it accepts no connection'}")  # fmt: skip
        if isinstance(error, TimeoutError | httpx.TimeoutException):
            return UpstreamError(
                "late", f"did not answer within {self._timeout:g} s", address=self._name
            )
        if isinstance(error, httpx.TransportError):
            return UpstreamError("broken", "broke off in the middle of its answer",
                                 address=self._name, quoted=f": {error}")  # fmt: skip
        return UpstreamError("away", "cannot be asked", address=self._name, quoted=f": {error}")


class _Unusable(Exception):
    """A reply that is not read any further."""


_LOOP_LOCK = threading.Lock()
_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}


def _running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all exchanges in this process; start it if it does not run."""
    with _LOOP_LOCK:
        loop = _LOOPS.get(os.getpid())
        if loop is None:
            _LOOPS.clear()
            loop = _LOOPS[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="upstream", daemon=True).start()
        return loop


def _close(client: Any) -> None:
    asyncio.run_coroutine_threadsafe(client.aclose(), _running_loop())


def waiting(seconds: float) -> Generator[None, None, None]:
    """Wait; yield four times a second, so that whoever waits can stop."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        yield
        time.sleep(min(_BEAT, left))


def _seconds(text: str) -> float | None:
    """Return what a Retry-After says in seconds, at most an hour (RFC 9110, section 10.2.3)."""
    text = text.strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            when = parsedate_to_datetime(text)
        except ValueError:
            return None
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        seconds = when.timestamp() - time.time()
    if math.isnan(seconds):
        return None
    return min(max(0.0, seconds), _LONGEST_RETRY_AFTER)


def load_httpx() -> Any:
    """Return the package httpx2. Raises ModelError if it is not installed."""
    try:
        import httpx2
    except ImportError as error:
        raise need_extra("servers", "remote", error) from error
    return httpx2
