"""What a hostile model, server or file name tries; and where it gets."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.gateway import Gateway
from callmemaybe.gateway.addresses import is_public
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
def web(
    pages: dict[str, tuple[int, dict[str, str], bytes]], tls: ssl.SSLContext | None = None
) -> Iterator[tuple[int, list[Any]]]:
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

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None: ...  # a handshake that the client gave up

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], seen
    finally:
        server.shutdown()
        server.server_close()


#: Addresses that no request may go to, and their neighbours that are of the open internet.
_PRIVATE = """
0.0.0.0 0.255.255.255 10.1.2.3 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254 169.254.169.254
168.63.129.16 172.16.0.1 172.31.255.255 192.0.0.8 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1
198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
:: ::1 ::7f00:1 ::5db8:d822 ::ffff:127.0.0.1 ::ffff:0:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254
64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b::10.0.0.1 64:ff9b:1::8.8.8.8 64:ff9b:1:ffff::1
2002:7f00:1:: 2002:a9fe:a9fe::1 2002:c0a8:1:: 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2
2001:2::1 2001:10::1 2001:20::1 2001:db8::1 3fff::1 5f00::1 100::1 fc00::1 fd12::1 fe80::1 fe80::1%eth0
fec0::1 ff02::1 ff0e::1 2a00:1450:4001::5efe:10.0.0.1 2a00:1450:4001::200:5efe:192.168.0.1 4000::1
"""
_PUBLIC = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 128.0.0.1 172.32.0.1
191.255.255.255 192.0.1.1 198.17.255.255 198.20.0.0 223.255.255.255 ::ffff:8.8.8.8 64:ff9b::8.8.8.8
2002:808:808::1 2001:4860:4860::8888 2606:4700::1111 2a00:1450:4001::5efe:8.8.8.8
"""


@pytest.mark.parametrize("address", _PUBLIC.split())
def test_public_addresses_are_known(address: str) -> None:
    """The neighbours of the special networks are connected to."""
    assert is_public(address)


@pytest.mark.parametrize("address", _PRIVATE.split())
def test_private_addresses_are_refused(address: str) -> None:
    """Wherever a name leads, only public addresses are connected to; one bad one is enough."""
    transport = HttpTransport(resolve=lambda *_: ["93.184.216.34", address])
    with pytest.raises(NotExecuted, match="private address"):
        asyncio.run(transport(HttpRequest("GET", "https://api.example/x")))


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example/",
        "file:///etc/passwd",
        "https://u:p@a.example/",
        "https://a.example@127.0.0.1/",
        "https://a.example:x/",
        "https:///x",
        "https://[::1/",
        "//a.example/",
        "gopher://x",
        "x",
        "",
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    """Only https without a user; nothing is resolved for the others."""
    transport = HttpTransport(resolve=lambda *_: pytest.fail("resolved"))
    with pytest.raises(NotExecuted):
        asyncio.run(transport(HttpRequest("GET", url)))


@pytest.mark.parametrize(
    "host",
    [
        "127.1", "0x7f.1", "0x7f000001", "2130706433", "0177.0.0.1", "017700000001", "127.0.0.1.", "0",
        "localhost", "localhost.", "LOCALHOST", "[::1]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]",
        "[::ffff:7f00:1]", "[fe80::1%25lo]", "127\u3002 0.0.1".replace(" ", ""), "\uff11\uff12\uff17.0.0.1",
        "\u2460\u2461\u2466.0.0.1",
    ],
)  # fmt: skip
def test_no_spelling_of_a_host_leads_home(host: str) -> None:
    """Decimal, octal, hexadecimal, short, dotted and full-width hosts are what they resolve to."""
    transport = HttpTransport(schemes=frozenset({"http"}), timeout=20)
    with line(b"HTTP/1.1 204 No\r\n\r\n") as (port, heard):
        with pytest.raises(NotExecuted):
            asyncio.run(transport(HttpRequest("POST", f"http://{host}:{port}/x")))
        assert not heard


def test_a_reply_that_is_not_read_to_its_end_keeps_no_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection is closed at once, and not when its reply is collected."""
    opened: list[Any] = []
    connect = anyio.connect_tcp

    async def watched(*arguments: Any, **named: Any) -> Any:
        stream = await connect(*arguments, **named)
        opened.append(stream.extra(anyio.abc.SocketAttribute.raw_socket))
        return stream

    async def ask(transport: HttpTransport, url: str) -> None:
        with contextlib.suppress(ValueError):
            await transport(HttpRequest("GET", url))
        await asyncio.sleep(0.05)
        assert opened.pop().fileno() == -1

    monkeypatch.setattr(anyio, "connect_tcp", watched)
    with web({"/big": (200, {}, b"x" * 2000)}) as (port, _):
        for path in ("big", "lost"):
            asyncio.run(ask(near(most=1000), f"http://api.example:{port}/{path}"))


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


@pytest.mark.parametrize(("first", "told"), [("POST", "unknown_outcome"), ("GET", "refused")])
@pytest.mark.parametrize("together", [False, True])
def test_a_request_that_was_not_sent_does_not_undo_an_earlier_one(
    first: str, told: str, together: bool
) -> None:
    """The second request of an attempt finds no connection: nothing happened only if the first changed nothing."""
    with line(b"HTTP/1.1 204 No\r\n\r\n") as (port, heard), socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = free.getsockname()[1]
        send = near()

        @tool(effect="once", writes="x", attempts=1)
        async def act() -> None:
            one = send(HttpRequest(first, f"http://api.example:{port}/x"))
            await (asyncio.gather(one) if together else one)
            await send(HttpRequest("POST", f"http://api.example:{closed}/x"))

        assert answer_of(act).code == told
        assert len(heard) == 1


def certified(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The TLS of a server for api.example, and that of a client that trusts it."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key,
         "-out", certificate, "-subj", "/CN=api.example", "-addext", "subjectAltName=DNS:api.example"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    return server, ssl.create_default_context(cafile=str(certificate))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_the_certificate_is_that_of_the_name(tmp_path: Path) -> None:
    """TLS with the checked address: name, certificate and Host are the URL's; a wrong one is sent nothing."""
    ours, theirs = certified(tmp_path)
    named: list[str | None] = []
    ours.sni_callback = lambda _, name, __: named.append(name)
    with web({"/x": (200, {"content-type": "text/plain"}, b"here")}, ours) as (port, seen):
        resolve = lambda *_: ["127.0.0.1"]  # noqa: E731
        trusting = HttpTransport(private=True, resolve=resolve, tls=theirs)
        reply = asyncio.run(trusting(HttpRequest("GET", f"https://api.example:{port}/x")))
        assert (reply.body, named) == (b"here", ["api.example"])
        assert seen[0][1]["Host"] == f"api.example:{port}"
        with pytest.raises(NotExecuted, match="nothing was sent"):
            asyncio.run(trusting(HttpRequest("POST", f"https://other.example:{port}/x")))
        strict = HttpTransport(private=True, resolve=resolve)
        with pytest.raises(NotExecuted, match="nothing was sent"):
            asyncio.run(strict(HttpRequest("POST", f"https://api.example:{port}/x")))
        assert len(seen) == 1


def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    """A name with several addresses: nothing is sent to one that refuses the connection."""
    with line(b"HTTP/1.1 204 No\r\n\r\n") as (port, heard):
        send = near(resolve=lambda *_: ["127.0.0.9", "127.0.0.1"])
        assert asyncio.run(send(HttpRequest("POST", f"http://api.example:{port}/x"))).status == 204
        assert len(heard) == 1


def test_a_redirect_into_the_clear_takes_nothing_along() -> None:
    """Headers meant for https are not repeated to the same host over http."""
    sent: list[tuple[str, dict[str, str]]] = []

    class Recorded(HttpTransport):
        async def _once(self, *asked: Any) -> HttpResponse:
            _, url, _, headers, _ = asked
            sent.append((url.scheme, headers))
            there = "http://api.example/y" if url.scheme == "https" else ""
            return HttpResponse(302 if there else 200, "", b"", there)

    transport = Recorded(
        schemes=frozenset({"http", "https"}), private=True, resolve=lambda *_: ["127.0.0.1"]
    )
    request = HttpRequest(
        "GET", "https://api.example/x", {"Authorization": "Bearer 1", "Accept": "a"}
    )
    assert asyncio.run(transport(request)).status == 200
    assert sent == [("https", dict(request.headers)), ("http", {"Accept": "a"})]
