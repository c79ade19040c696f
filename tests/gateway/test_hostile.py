"""What a hostile model, server or file name tries; and where it gets."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.gateway import Gateway
from callmemaybe.gateway.http import HttpTransport
from callmemaybe.gateway.paths import open_below
from callmemaybe.tools import NotExecuted, ToolCall, TransientError, tool, tools_from
from callmemaybe.tools.openapi import HttpRequest, HttpResponse


def test_any_call_has_an_answer() -> None:
    """Whatever stands in a call, the answer is a failure that JSON can carry, and nothing runs."""
    ran = []

    @tool(effect="once", writes="x")
    async def act(n: int) -> None:
        ran.append(n)

    with asyncio.Runner() as loop:
        gateway = Gateway([act])

        @settings(max_examples=60, deadline=None)
        @given(st.text(max_size=30), st.text(max_size=60), st.text(max_size=12))
        def answers_any_call(name: str, arguments: str, id_: str) -> None:
            calls = [ToolCall(name, arguments, id_), ToolCall("act", arguments, id_)]
            for answer in loop.run(gateway.run(calls)):
                assert answer.is_error
                json.loads(answer.content)
                answer.content.encode()

        answers_any_call()
        loop.run(gateway.close())
    assert not ran


@pytest.mark.parametrize("id_", ["\0", "\ud800", "a\nb", "x" * 100_000, "'; drop table calls; --"])
def test_call_ids_are_only_text(ledger, id_: str) -> None:
    """An id goes into the ledger and back without breaking either store."""

    @tool(effect="once", writes="x")
    async def act() -> int:
        return 1

    async def go() -> Any:
        async with Gateway([act], store=ledger) as gateway:
            return (await gateway.run([ToolCall("act", "{}", id_)]))[0]

    answer = asyncio.run(go())
    assert answer.ok
    assert answer.call_id == id_
    assert len(ledger.backend.read_call(answer.key).call_id) <= 200


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/../../x", "link/x", "link", "..", "", "a\0b", "deep/link"]
)
def test_paths_stay_below_their_folder(tmp_path: Path, name: str) -> None:
    """No `..`, no absolute path, no symbolic link leads out."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("secret")
    (root / "deep").mkdir(parents=True)
    (root / "link").symlink_to(outside)
    (root / "deep" / "link").symlink_to(outside / "x")
    with pytest.raises((NotExecuted, OSError)), open_below(root, name, "w") as file:
        file.write("broken")
    assert (outside / "x").read_text() == "secret"
    with open_below(root, "deep/new", "w") as file:
        file.write("fine")
    assert (root / "deep" / "new").read_text() == "fine"


@contextlib.contextmanager
def web(pages: dict[str, tuple[int, dict[str, str], bytes]]) -> Iterator[tuple[int, list[Any]]]:
    seen: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, dict(self.headers)))
            status, headers, body = pages.get(self.path, (404, {}, b""))
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "::1",
        "::ffff:127.0.0.1",
        "2002:7f00:1::",
        "fe80::1%eth0",
        "0.0.0.0",
        "224.0.0.1",
    ],
)
def test_private_addresses_are_refused(address: str) -> None:
    """Wherever a name leads, only public addresses are connected to; one bad one is enough."""
    transport = HttpTransport(resolve=lambda *_: ["93.184.216.34", address])
    with pytest.raises(NotExecuted, match="private address"):
        asyncio.run(transport(HttpRequest("GET", "https://api.example/x")))


@pytest.mark.parametrize(
    "url", ["http://a.example/", "file:///etc/passwd", "https://u:p@a.example/", "gopher://x", "x"]
)
def test_other_addresses_are_refused(url: str) -> None:
    """Only https without a user; nothing is resolved for the others."""
    transport = HttpTransport(resolve=lambda *_: pytest.fail("resolved"))
    with pytest.raises(NotExecuted):
        asyncio.run(transport(HttpRequest("GET", url)))


def test_a_reply_that_is_not_read_to_its_end_keeps_no_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection is closed at once, and not when its reply is collected."""
    opened: list[socket.socket] = []
    connect = socket.create_connection

    def watched(*arguments: Any) -> socket.socket:
        opened.append(connect(*arguments))
        return opened[-1]

    monkeypatch.setattr(socket, "create_connection", watched)
    with web({"/big": (200, {}, b"x" * 2000)}) as (port, _):
        transport = HttpTransport(
            schemes=frozenset({"http"}),
            private=True,
            resolve=lambda *_: ["127.0.0.1"],
            most=1000,
        )
        for path in ("big", "lost"):
            with contextlib.suppress(ValueError):
                asyncio.run(transport(HttpRequest("GET", f"http://api.example:{port}/{path}")))
            assert opened.pop().fileno() == -1


def test_the_checked_address_is_the_one_used_and_redirects_are_checked() -> None:
    """The name is resolved once per hop; a redirect to a private host is refused; headers stay home."""
    asked: list[str] = []
    inside = {"/start": (302, {"location": "http://other.example:{port}/end"}, b"")}
    inside["/end"] = (200, {"content-type": "text/plain"}, b"here")
    inside["/big"] = (200, {}, b"x" * 2000)
    inside["/loop"] = (302, {"location": "/loop"}, b"")
    with web(inside) as (port, seen):
        inside["/start"][1]["location"] = f"http://other.example:{port}/end"

        def resolve(host: str, _: int) -> list[str]:
            asked.append(host)
            return ["127.0.0.1"]

        transport = HttpTransport(
            schemes=frozenset({"http"}), private=True, resolve=resolve, most=1000
        )
        secret = {"authorization": "Bearer canary", "accept": "text/plain"}
        reply = asyncio.run(
            transport(HttpRequest("GET", f"http://api.example:{port}/start", secret))
        )
        assert (reply.status, reply.body) == (200, b"here")
        assert asked == ["api.example", "other.example"]
        assert "canary" in str(seen[0])
        assert "canary" not in str(seen[1])
        assert seen[1][1]["Host"] == f"other.example:{port}"
        for path in ("big", "loop"):
            with pytest.raises(ValueError, match=r"larger|redirects"):
                asyncio.run(transport(HttpRequest("GET", f"http://api.example:{port}/{path}")))
        strict = HttpTransport(schemes=frozenset({"http"}), resolve=resolve)
        with pytest.raises(NotExecuted, match="private"):
            asyncio.run(strict(HttpRequest("GET", f"http://api.example:{port}/start")))


@contextlib.contextmanager
def line(*pieces: bytes, pause: float = 0.0) -> Iterator[tuple[int, list[bytes]]]:
    """A server that answers every connection with these pieces, a pause after each, and hangs up."""
    heard: list[bytes] = []
    listening = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                heard.append(connection.recv(1 << 16))
                for piece in pieces:
                    connection.sendall(piece)
                    over.wait(pause)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1], heard
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)


def near(**settings: Any) -> HttpTransport:
    return HttpTransport(
        schemes=frozenset({"http"}),
        private=True,
        **{"resolve": lambda *_: ["127.0.0.1"], **settings},
    )


def operation(port: int, transport: HttpTransport, method: str) -> Any:
    document = {
        "openapi": "3.0.3",
        "servers": [{"url": f"http://api.example:{port}"}],
        "paths": {"/x": {method: {"operationId": "act"}}},
    }
    (made,) = tools_from(document, transport=transport)
    return made


def answer_of(made: Any) -> Any:
    async def go() -> Any:
        async with Gateway([made]) as gateway:
            return (await gateway.run([ToolCall("act", "{}", "1")]))[0]

    return asyncio.run(go())


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n64\r\nhalf",
    ],
)
def test_a_reply_that_is_cut_off_is_no_result(reply: bytes) -> None:
    """Half a reply is an error; a write may have happened, and one that must not is not sent again."""
    with line(reply) as (port, heard):
        for method in ("GET", "POST"):
            with pytest.raises(TransientError, match="incomplete"):
                asyncio.run(near()(HttpRequest(method, f"http://api.example:{port}/x")))
        heard.clear()
        answer = answer_of(operation(port, near(), "post"))
        assert (answer.ok, answer.effect, answer.retry) == (False, "possible", "never")
        assert "incomplete" in answer.detail
        assert len(heard) == 1


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nwhole", b"whol"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 204 No\r\ncontent-length: 9\r\n\r\n", b""),
        (b"HTTP/1.0 200 OK\r\n\r\nwhole", b"whole"),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n",
            b"ab",
        ),
    ],
)
def test_a_whole_reply_is_read_however_it_is_cut(reply: bytes, body: bytes) -> None:
    """Each way to say where a reply ends, in one piece and byte by byte."""
    for pieces in ([reply], [reply[at : at + 1] for at in range(len(reply))]):
        with line(*pieces) as (port, _):
            got = asyncio.run(near()(HttpRequest("GET", f"http://api.example:{port}/x")))
            assert got.body == body
    with line(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n") as (port, _):
        assert asyncio.run(near()(HttpRequest("HEAD", f"http://api.example:{port}/x"))).body == b""


@pytest.mark.parametrize(
    ("status", "effect"), [(307, "possible"), (302, "possible"), (303, "done")]
)
def test_a_redirected_write_is_not_followed(status: int, effect: str) -> None:
    """The recorded effect is right: 303 was handled, of 307 and 302 that is unknown."""
    reply = b"HTTP/1.1 %d Go\r\nlocation: /y\r\ncontent-length: 0\r\n\r\n" % status
    with line(reply) as (port, heard):
        answer = answer_of(operation(port, near(), "post"))
        assert (answer.ok, answer.effect) == (status == 303, effect)
        assert str(status) in answer.content
        assert "/y" in answer.content
        assert all(one.startswith(b"POST /x ") for one in heard)


_DRIPS = [
    [b"HTTP/1.1 200 OK\r\n"] + [b"x: y\r\n"] * 100,
    [b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n"] + [b"x"] * 100,
    [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"] + [b"1\r\nx\r\n"] * 100,
]


@pytest.mark.parametrize("pieces", _DRIPS, ids=["head", "body", "chunks"])
def test_a_reply_that_drips_ends_with_its_time(pieces: list[bytes]) -> None:
    """The time is that of the whole attempt, however often a byte comes."""
    with line(*pieces, pause=0.1) as (port, _):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            asyncio.run(near(timeout=0.5)(HttpRequest("GET", f"http://api.example:{port}/x")))
        assert 0.4 < time.monotonic() - began < 4


@pytest.mark.parametrize("pieces", _DRIPS, ids=["head", "body", "chunks"])
def test_an_attempt_that_is_given_up_keeps_nothing_alive(pieces: list[bytes]) -> None:
    """Whoever stops waiting stops the reading: the loop ends, and no thread stays."""

    async def go(port: int) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(near()(HttpRequest("GET", f"http://api.example:{port}/x")), 0.5)

    with line(*pieces, pause=0.1) as (port, _):
        before, began = set(threading.enumerate()), time.monotonic()
        asyncio.run(go(port))
        for thread in set(threading.enumerate()) - before:
            thread.join(4)
            assert not thread.is_alive()
        assert time.monotonic() - began < 4


def test_nothing_is_sent_after_the_attempt_was_given_up() -> None:
    """A name that is found too late leads nowhere, and the loop does not wait for it."""
    found = threading.Event()

    def slow(*_: Any) -> list[str]:
        found.wait(30)
        return ["127.0.0.1"]

    async def go(port: int) -> None:
        request = HttpRequest("POST", f"http://api.example:{port}/x", {}, b"{}")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(near(resolve=slow)(request), 0.2)

    with line(b"HTTP/1.1 204 No\r\n\r\n") as (port, heard):
        before, began = set(threading.enumerate()), time.monotonic()
        asyncio.run(go(port))
        assert time.monotonic() - began < 4
        left = set(threading.enumerate()) - before
        found.set()
        for thread in left:
            thread.join(4)
        assert not heard
    # Its own time is over before anything is sent: that is said.
    with line() as (port, heard):
        late = near(timeout=0.1, resolve=lambda *_: time.sleep(0.3) or ["127.0.0.1"])
        with pytest.raises(NotExecuted):
            asyncio.run(late(HttpRequest("POST", f"http://api.example:{port}/x")))
        assert not heard


def test_a_name_that_is_not_found_in_time_was_sent_nothing() -> None:
    """Looking a name up cannot be stopped: at the end of its time the call is refused, and not unknown."""
    gone = threading.Event()

    def slow(*_: Any) -> list[str]:
        gone.wait(30)
        return ["127.0.0.1"]

    began = time.monotonic()
    with pytest.raises(NotExecuted, match="nothing was sent"):
        asyncio.run(near(timeout=0.2, resolve=slow)(HttpRequest("POST", "http://api.example/x")))
    assert time.monotonic() - began < 10
    gone.set()


@pytest.mark.parametrize("before", [0, 1])
def test_a_tool_that_times_out_before_it_sends_is_not_unknown(before: int) -> None:
    """Its time is over while a name is looked up: `refused`, unless a request of the attempt went out before."""
    found, asked = threading.Event(), []

    def slow(host: str, _: int) -> list[str]:
        asked.append(host)
        if len(asked) > before:
            found.wait(30)
        return ["127.0.0.1"]

    with line(b"HTTP/1.1 204 No\r\n\r\n") as (port, heard):
        send = near(resolve=slow)

        @tool(effect="once", writes="x", timeout=1.0, attempts=1)
        async def act() -> None:
            for _ in range(before + 1):
                await send(HttpRequest("POST", f"http://api.example:{port}/x", {}, b"{}"))

        answer = answer_of(act)
        found.set()
        expected = ("unknown_outcome", "possible") if before else ("refused", "none")
        assert (answer.code, answer.effect) == expected, answer.content
        assert len(b"".join(heard).split(b"POST")) == before + 1


def test_a_header_that_cannot_be_written_is_not_sent() -> None:
    """A value outside of Latin-1 is the arguments' fault, and nothing happened."""
    with line(b"HTTP/1.1 204 No\r\n\r\n") as (port, heard):
        request = HttpRequest(
            "POST", f"http://api.example:{port}/x", {"x-name": "O'Neil \u65e5\u672c"}, b"{}"
        )
        with pytest.raises(NotExecuted, match="nothing was sent"):
            asyncio.run(near()(request))
        assert not any(heard)


def test_a_redirect_into_the_clear_takes_nothing_along() -> None:
    """Headers meant for https are not repeated to the same host over http."""
    sent: list[tuple[str, dict[str, str]]] = []

    class Recorded(HttpTransport):
        def _once(self, *asked: Any) -> HttpResponse:
            _, parts, _, headers, _ = asked
            sent.append((parts.scheme, headers))
            there = "http://api.example/y" if parts.scheme == "https" else ""
            return HttpResponse(302 if there else 200, "", b"", there)

    transport = Recorded(
        schemes=frozenset({"http", "https"}), private=True, resolve=lambda *_: ["127.0.0.1"]
    )
    request = HttpRequest(
        "GET", "https://api.example/x", {"Authorization": "Bearer 1", "Accept": "a"}
    )
    assert asyncio.run(transport(request)).status == 200
    assert sent == [("https", dict(request.headers)), ("http", {"Accept": "a"})]
