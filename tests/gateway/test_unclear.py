"""Services that act and then say something else, or nothing: what the ledger may say of such calls."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from callmemaybe.gateway import CallAnswer, Gateway, GatewayLimits
from callmemaybe.gateway.http import HttpTransport
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.tools import NotExecuted, Tool, ToolCall, TransientError, tool, tools_from
from callmemaybe.tools.openapi import HttpRequest, HttpResponse

LIMITS = GatewayLimits(turn=20, reserve=0.1, attempt=2)


class ActingServer:
    """An HTTP server that acts on each whole request, whatever it answers; ``effects`` counts."""

    def __init__(self, respond: Callable[[socket.socket], None]) -> None:
        self._respond = respond
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.effects: list[bytes] = []
        self.gone = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                self._one(connection)

    def _one(self, connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            piece = connection.recv(1 << 16)
            if not piece:
                return
            head += piece
        self.effects.append(head.split(b" ")[0])
        self._respond(connection)

    def close(self) -> None:
        self.gone.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)


@contextlib.contextmanager
def acting(respond: Callable[[socket.socket], None]) -> Iterator[ActingServer]:
    server = ActingServer(respond)
    try:
        yield server
    finally:
        server.close()


def says(raw: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(raw)


def status(code: int, extra: bytes = b"") -> Callable[[socket.socket], None]:
    return says(b"HTTP/1.1 %d Said\r\n%scontent-length: 2\r\n\r\nno" % (code, extra))


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def hang_up(_: socket.socket) -> None:
    """Close without a word."""


def stall(connection: socket.socket) -> None:
    connection.settimeout(10)
    connection.recv(1)  # until the other side gives up


#: What a backend or its proxy may answer though the backend has acted.
UNCLEAR = {
    **{str(code): status(code) for code in (408, 425, 429, 499, 500, 501, 502, 503, 504, 520, 599)},
    **{
        str(code): status(code, b"location: /elsewhere\r\n")
        for code in (300, 301, 302, 304, 307, 308)
    },
    "307 to itself": status(307, b"location: /x\r\n"),
    "308 without an address": status(308),
    "600": status(600),
    "reset": reset,
    "hang up": hang_up,
    "half a head": says(b"HTTP/1.1 200 OK\r\ncontent-le"),
    "half a body": says(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"),
    "half a chunk": says(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhalf"),
    "another language": says(b"220 mail.example ESMTP\r\n"),
    "too large": says(b"HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n" + b"x" * 9_999_999),
    "nothing in time": stall,
}
REFUSED = (400, 401, 402, 403, 404, 405, 409, 410, 412, 413, 415, 422, 423, 451)


def operations(port: int, transport: Any = None, **effects: str) -> list[Tool]:
    """An operation ``act_EFFECT`` per keyword, whose method is given: ``once="post"``."""
    near = HttpTransport(
        schemes=frozenset({"http"}),
        private=True,
        resolve=lambda *_: ["127.0.0.1"],
        most=1_000_000,
        timeout=1.0,
    )
    paths = {
        f"/{effect}": {method: {"operationId": f"act_{effect}", "x-callmemaybe-effect": effect}}
        for effect, method in effects.items()
    }
    document = {
        "openapi": "3.0.3",
        "servers": [{"url": f"http://api.example:{port}"}],
        "paths": paths,
    }
    return tools_from(document, transport=transport or near)


def told(made: Tool, **options: Any) -> CallAnswer:
    async def go() -> CallAnswer:
        async with Gateway([made], limits=LIMITS, rng=lambda: 0.0, **options) as gateway:
            return (await gateway.run([ToolCall(made.name, "{}", "1")]))[0]

    return asyncio.run(go())


@pytest.mark.parametrize("reply", UNCLEAR)
def test_a_service_that_acts_and_answers_unclearly_is_asked_once(reply: str) -> None:
    """One effect, state unknown: the tool is blocked in its run, and what happened can be recorded."""

    async def go(port: int) -> None:
        tools = operations(port, once="post")
        async with Gateway(tools, limits=LIMITS, rng=lambda: 0.0) as gateway:
            run = gateway.begin("r")
            (lost,) = await gateway.run([ToolCall("act_once", "{}", "1")], run=run)
            assert (lost.code, lost.effect, lost.retry) == ("unknown_outcome", "possible", "never")
            assert lost.state is CallState.UNKNOWN
            assert not gateway.offers(run)
            (behind,) = await gateway.run([ToolCall("act_once", '{"n": 2}', "2")], run=run)
            assert behind.effect == "none"
            found = await gateway.reconcile(lost.key, "done", by="ada", result="found")
            assert (found.state, found.value) == (CallState.RECONCILED, "found")

    with acting(UNCLEAR[reply]) as server:
        asyncio.run(go(server.port))
        assert server.effects == [b"POST"]


@pytest.mark.parametrize("code", REFUSED)
def test_a_definite_refusal_is_a_failure(code: int) -> None:
    """The service says that it did not do it: asked once, and nothing is blocked."""
    with acting(status(code)) as server:
        answer = told(operations(server.port, once="post")[0])
        assert (answer.code, answer.state) == ("tool_error", CallState.FAILED)
        assert str(code) in (answer.detail or "")
        assert server.effects == [b"POST"]


@pytest.mark.parametrize("effect", ["once", "idempotent", "read"])
def test_what_never_reached_the_service_is_tried_again_and_refused(effect: str) -> None:
    """A port where nobody listens: nothing happened, whatever the class."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        answer = told(operations(free.getsockname()[1], **{effect: "put"})[0])
    assert (answer.code, answer.effect) == ("refused", "none")


@pytest.mark.parametrize(
    ("code", "times"),
    [(429, 3), (408, 3), (500, 3), (503, 3), (504, 3), (302, 1), (307, 1), (308, 1), (404, 1)],
)
def test_other_classes_may_be_repeated_and_never_hear_that_nothing_happened(
    code: int, times: int
) -> None:
    """`idempotent` is tried again where that may help; what is left is a failure of possible effect."""
    with acting(status(code, b"location: /y\r\n")) as server:
        answer = told(operations(server.port, idempotent="put")[0])
        assert (answer.code, answer.effect, answer.retry) == ("tool_error", "possible", "same")
        assert len(server.effects) == times
    with acting(status(code)) as server:
        answer = told(operations(server.port, read="get")[0])
        assert (answer.code, answer.effect, answer.retry) == ("tool_error", "none", "same")


def test_a_read_that_acts_is_not_followed_into_a_refusal() -> None:
    """A GET declared `once` that was sent, and led to where nothing may be sent: it was sent."""
    with acting(status(302, b"location: https://10.0.0.1/\r\n")) as server:
        answer = told(operations(server.port, once="get")[0])
        assert (answer.code, answer.effect) == ("unknown_outcome", "possible")
        assert server.effects == [b"GET"]


@pytest.mark.parametrize(
    "error",
    [OSError("a bad cable"), RuntimeError("a bug"), TimeoutError(), TransientError("later")],
)
def test_any_transport_that_fails_leaves_a_once_call_unknown(error: Exception) -> None:
    """Only NotExecuted says that nothing was sent."""
    sent: list[HttpRequest] = []

    async def transport(request: HttpRequest) -> HttpResponse:
        sent.append(request)
        raise error

    answer = told(operations(1, transport, once="post")[0])
    assert (answer.code, len(sent)) == ("unknown_outcome", 1)


@pytest.mark.parametrize("kind", [TransientError, ConnectionResetError, TimeoutError])
def test_a_once_tool_that_does_not_know_is_unknown(ledger, kind: type[Exception]) -> None:
    """TransientError, or a connection that broke, is not a failure: the tool may have acted."""
    ran = []

    @tool(effect="once", writes="x")
    async def pay() -> None:
        ran.append(1)
        raise kind("cut off")

    answer = told(pay, store=ledger)
    assert (answer.code, answer.state, len(ran)) == ("unknown_outcome", CallState.UNKNOWN, 1)
    assert "cut off" in (answer.detail or "")


def foreign(module: str, name: str) -> Exception:
    """An error of a client library; skips the test where that is not installed."""
    found = pytest.importorskip(module)
    for part in name.split("."):
        found = getattr(found, part)
    error: Exception = found.__new__(found)
    Exception.__init__(error, "cut off")
    return error


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("httpx2", "ReadTimeout"),
        ("httpx2", "RemoteProtocolError"),
        ("requests", "exceptions.ReadTimeout"),
        ("requests", "exceptions.ChunkedEncodingError"),
        ("urllib3", "exceptions.ProtocolError"),
        ("http.client", "IncompleteRead"),
        ("http.client", "BadStatusLine"),
        ("urllib.error", "URLError"),
        ("asyncio", "IncompleteReadError"),
        ("subprocess", "TimeoutExpired"),
        ("anyio", "BrokenResourceError"),
        ("ssl", "SSLEOFError"),
    ],
)
def test_errors_of_other_clients_are_understood(module: str, name: str) -> None:
    """A broken connection is unclear whatever the library calls it; no such error is an OSError of ours."""
    error = foreign(module, name)

    async def fail() -> None:
        raise error

    once = told(tool(effect="once", writes="x")(fail))
    assert once.code == "unknown_outcome"
    tried: list[int] = []

    async def again() -> str:
        tried.append(1)
        if len(tried) < 2:
            raise error
        return "ok"

    assert told(tool(effect="idempotent", writes="x")(again)).ok


class VendorError(Exception):
    """What a vendor's client raises for whatever happened below."""


def test_errors_around_a_broken_connection_are_understood() -> None:
    """A group that holds one, or an error that was raised from one; a plain error is the tool's word."""

    async def grouped() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail(ConnectionResetError("cut off")))

    async def wrapped() -> None:
        try:
            await fail(TimeoutError())
        except TimeoutError as error:
            raise VendorError("no luck") from error

    async def handled() -> None:
        try:
            await fail(TimeoutError())
        except TimeoutError:
            raise VendorError("it says no") from None

    async def fail(error: Exception) -> None:
        raise error

    found = [told(tool(effect="once", writes="x")(one)).code for one in (grouped, wrapped, handled)]
    assert found == ["unknown_outcome", "unknown_outcome", "tool_error"]


def test_a_second_attempt_that_did_nothing_does_not_undo_the_first(ledger) -> None:
    """The first attempt may have acted; that the last one did not is no reason to say `none`."""
    tried: list[int] = []

    @tool(effect="idempotent", writes="x")
    async def put() -> None:
        tried.append(1)
        if len(tried) == 1:
            raise TransientError("cut off")
        raise NotExecuted("not now")

    answer = told(put, store=ledger)
    assert (answer.code, answer.effect, answer.retry) == ("tool_error", "possible", "same")
    assert len(tried) == 3
