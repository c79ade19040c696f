"""Servers: each dialect gets the language in its notation, and no answer is taken on trust."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.caller import Caller, load_model
from callmemaybe.cli.main import main
from callmemaybe.errors import InputError, ModelError
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.models.remote import DIALECTS, RemoteModel

TOOLS = [
    {"name": "add", "parameters": {"a": {"type": "number"}, "b": {"type": "number"}}},
    {
        "type": "function",
        "function": {
            "name": "tree",
            "parameters": {
                "type": "object",
                "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}},
                "additionalProperties": False,
            },
        },
    },
]
ADD = '{"name": "add", "arguments": {"a": 2, "b": 3}}'
OWNERS = {
    "vllm": "vllm",
    "llama.cpp": "llamacpp",
    "sglang": "sglang",
    "ollama": "library",
    "openai": "system",
}
Reply = tuple[int, Any]
Script = Callable[[str, dict[str, Any]], Reply]


@contextmanager
def server(script: Script, owner: str = "vllm") -> Iterator[tuple[str, list[Any]]]:
    """Run a server on this machine; yield its address and what it was asked."""
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.say(200, {"data": [{"id": "m", "owned_by": owner}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, body, self.headers.get("Authorization")))
            self.say(*script(self.path, body))

        def say(self, status: int, value: Any) -> None:
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            with suppress(BrokenPipeError):  # who asked has given up
                self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}/v1", asked
    finally:
        running.shutdown()
        running.server_close()
        thread.join()


def saying(text: str, finish: str = "stop") -> Script:
    def script(path: str, _: dict[str, Any]) -> Reply:
        if path == "/api/chat":
            return 200, {"message": {"content": text}, "done_reason": finish}
        return 200, {"choices": [{"message": {"content": text}, "finish_reason": finish}]}

    return script


def remote(address: str, **options: Any) -> RemoteModel:
    return RemoteModel(address, **({"pause": 0.001, "timeout": 10.0} | options))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_dialect_is_told_and_spoken(dialect: str) -> None:
    """The server's list of models tells its dialect; the language goes where that has it."""
    with server(saying(ADD), OWNERS[dialect]) as (address, asked):
        loaded = load_model(address)
        assert isinstance(loaded, RemoteModel)
        assert loaded.dialect == dialect
        outcome = Caller(loaded, TOOLS, max_tokens=99, decoding=DecodingConfig(seed=7)).call(
            "2 and 3"
        )
        assert outcome.call is not None
        assert outcome.call.parsed == {"a": 2, "b": 3}
        assert outcome.remarks == ()
        ((path, body, _),) = asked
    assert body["model"] == "m"
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert '"add"' in body["messages"][0]["content"]
    place = {
        "vllm": lambda: body["structured_outputs"]["grammar"],
        "llama.cpp": lambda: body["grammar"],
        "sglang": lambda: body["ebnf"],
        "ollama": lambda: body["format"]["anyOf"],
        "openai": lambda: body["response_format"]["json_schema"]["schema"]["anyOf"],
    }[dialect]()
    assert "root ::=" in place if isinstance(place, str) else len(place) == 2
    assert path == ("/api/chat" if dialect == "ollama" else "/v1/chat/completions")
    dice = body["options"] if dialect == "ollama" else body
    assert dice["seed"] == 7
    assert dice["num_predict" if dialect == "ollama" else "max_tokens"] == 99


def test_the_dialect_and_the_model_may_be_stated() -> None:
    """An address may say both, and then the server is not asked for them."""
    with server(saying(ADD)) as (address, asked):
        Caller(remote(f"{address}?dialect=sglang#other"), TOOLS).call("2 and 3")
        assert asked[0][1]["model"] == "other"
        assert "ebnf" in asked[0][1]
        with pytest.raises(ModelError, match="no dialect 'x'; state one of"):
            Caller(remote(f"{address}?dialect=x#m"), TOOLS).call("")


def test_references_inside_a_schema_still_point_to_it() -> None:
    """Put into one schema with others, a schema's references to its own root are moved with it."""
    with server(saying(ADD), "system") as (address, asked):
        Caller(remote(address), TOOLS).call("x")
        schema = asked[0][1]["response_format"]["json_schema"]["schema"]
    inner = schema["anyOf"][1]["properties"]["arguments"]
    assert inner["properties"]["kids"]["items"]["$ref"] == "#/anyOf/1/properties/arguments"


def test_another_notation_is_tried_where_one_is_refused() -> None:
    """A server that does not take a grammar is asked by schema; none at all is an error."""

    def script(path: str, body: dict[str, Any]) -> Reply:
        if "grammar" in body:
            return 400, {"error": {"message": "unknown field grammar"}}
        return saying(ADD)(path, body)

    with server(script, "llamacpp") as (address, asked):
        assert Caller(remote(address), TOOLS).call("x").call is not None
        assert ["grammar" in body for _, body, _ in asked] == [True, False]
    with (
        server(lambda *_: (422, {"detail": "Nothing like that."}), "sglang") as (address, _),
        pytest.raises(ModelError, match="takes this grammar in no way: ebnf: Nothing") as refused,
    ):
        Caller(remote(address), TOOLS).call("x")
    assert "like that. If it is another kind" in str(refused.value)


def test_spaces_and_order_are_put_right_and_reported() -> None:
    """A valid call in another spelling is taken, and said to have been put right."""
    loose = '{ "arguments": {"b":3,\n "a":2}, "name":"add" }'
    with server(saying(loose), "system") as (address, _):
        outcome = Caller(remote(address), TOOLS).call("x")
    assert outcome.call is not None
    assert outcome.call.arguments == '{"a": 2, "b": 3}'
    assert "the server chose spaces or the order of keys itself" in outcome.remarks[0]


@pytest.mark.parametrize(
    ("text", "finish", "said"),
    [
        ("I'd say add!", "stop", "did not hold to it: byte 0"),
        ('{"name": "sub", "arguments": {}}', "stop", "did not hold to it: byte 10"),
        ('{"name": "add", "arguments": {"a": 2, "b": "3"}}', "stop", "did not hold to it"),
        ('{"name": "add", "arguments": {"a": 2', "length", "cut off at 512 tokens"),
        ("", "stop", "did not hold"),
        ("null", "stop", "did not hold"),
    ],
)
def test_what_was_not_enforced_is_refused(text: str, finish: str, said: str) -> None:
    """An answer outside of the language is an error that says where, never a call."""
    with (
        server(saying(text, finish)) as (address, _),
        pytest.raises(ModelError, match=said),
    ):
        Caller(remote(address), TOOLS).call("x")


def test_no_call() -> None:
    """Where it is allowed, a server may answer that no function fits."""
    with server(saying("null")) as (address, asked):
        assert Caller(remote(address), TOOLS, no_call=True).call("x").call is None
        assert "answer null" in asked[0][1]["messages"][0]["content"]


def test_what_may_pass_is_tried_again() -> None:
    """Overload and breakdown are tried again, so many times; what is final is not."""
    left = [503, 429, 200]

    def script(path: str, body: dict[str, Any]) -> Reply:
        status = left.pop(0)
        return (status, {}) if status != 200 else saying(ADD)(path, body)

    with server(script) as (address, asked):
        assert Caller(remote(address), TOOLS).call("x").call is not None
        assert len(asked) == 3
    for status, said, tries in [(503, "failed .503.", 2), (401, "put its key into", 1)]:
        with server(lambda *_, status=status: (status, {})) as (address, asked):
            with pytest.raises(ModelError, match=said):
                Caller(remote(address, tries=2), TOOLS).call("x")
            assert len(asked) == tries


def test_silence_and_nonsense_are_model_errors() -> None:
    """A server that is not there, is too slow, or speaks another language gives one clear error."""
    with pytest.raises(ModelError, match="cannot be reached"):
        Caller(remote("http://127.0.0.1:9/v1", tries=2), TOOLS).call("x")
    wait = threading.Event()
    with server(lambda *_: (wait.wait(5), (200, {}))[1]) as (address, _):
        with pytest.raises(ModelError, match=r"did not answer within 0\.05 s, 1 times"):
            Caller(remote(address, timeout=0.05, tries=1), TOOLS).call("x")
        wait.set()
    with (
        server(lambda *_: (200, b"<html>")) as (address, _),
        pytest.raises(ModelError, match="something else than a completion"),
    ):
        Caller(remote(address), TOOLS).call("x")
    with pytest.raises(ModelError, match="is not an address"):
        Caller(remote("http://"), TOOLS).call("x")


def test_the_key_is_sent_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key from the environment goes to the server and into no message."""
    monkeypatch.setenv("CALLMEMAYBE_API_KEY", "secret-key")
    with server(saying(ADD)) as (address, asked):
        made = remote(address)
        Caller(made, TOOLS).call("x")
        assert asked[0][2] == "Bearer secret-key"
        assert "secret" not in repr(made)
        assert "secret" not in repr(remote(address, key="secret"))


@pytest.mark.parametrize("key", ["sk-\u201csecret\u201d", "sk-secret\r\nX: y", "sk-\x00secret"])
def test_a_key_that_is_none_is_never_shown(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """Space around a key is no part of it; what no header can hold is refused, unasked and unshown."""
    with server(saying(ADD)) as (address, asked):
        Caller(remote(address, key=" sk-secret\n"), TOOLS).call("x")
        assert asked.pop()[2] == "Bearer sk-secret"
        with pytest.raises(ModelError, match="the argument key holds") as caught:
            Caller(remote(address, key=key), TOOLS).call("x")
        assert "secret" not in str(caught.value)
        if "\0" not in key:
            monkeypatch.setenv("CALLMEMAYBE_API_KEY", key)
            with pytest.raises(ModelError, match="CALLMEMAYBE_API_KEY holds") as caught:
                Caller(remote(address), TOOLS).call("x")
            assert "secret" not in str(caught.value)
        assert not asked


def dripping(listening: socket.socket, pieces: int, pause: float) -> None:
    """Answer one request, and in front of the answer say a space now and then."""
    connection, _ = listening.accept()
    with connection, suppress(OSError):  # who asked has given up
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(pieces):
            connection.sendall(b"1\r\n \r\n")
            time.sleep(pause)
        answer = json.dumps(saying(ADD)("", {})[1]).encode()
        connection.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(answer), answer))


@pytest.mark.parametrize("timeout", [0.5, 60.0])
def test_an_answer_that_drips_is_too_late(timeout: float) -> None:
    """The time for a try is that of the whole answer, not of each of its bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=dripping, args=(listening, 20, 0.1), daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/v1?dialect=vllm#m"
        caller = Caller(remote(address, timeout=timeout, tries=1), TOOLS)
        if timeout > 2:
            assert caller.call("x").call is not None
        else:
            with pytest.raises(ModelError, match=r"did not answer within 0\.5 s"):
                caller.call("x")
        thread.join()


def test_an_answer_that_nests_too_deep_is_no_answer() -> None:
    """JSON of any depth, from a refusal too, is a ModelError, never a RecursionError."""
    for status, said in [(200, "something else than a completion"), (500, "failed")]:
        deep = b"[" * 200_000
        with (
            server(lambda *_, status=status, deep=deep: (status, deep)) as (address, _),
            pytest.raises(ModelError, match=said),
        ):
            Caller(remote(address, tries=1), TOOLS).call("x")


def test_many_at_once() -> None:
    """One caller serves several threads, each gets its own answer."""

    def script(path: str, body: dict[str, Any]) -> Reply:
        number = body["messages"][1]["content"]
        return saying(ADD.replace("2", number))(path, body)

    with server(script) as (address, _):
        caller = Caller(remote(address), TOOLS)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda one: caller.call(str(one)), range(40)))
        many = list(caller.call_many(map(str, range(40)), at_once=5))
    for outcomes in (found, many):
        assert [one.call.parsed["a"] for one in outcomes if one.call] == list(range(40))


def test_what_a_server_cannot_do_is_refused() -> None:
    """Options that need logits are refused instead of being ignored."""
    with pytest.raises(InputError, match="penalties, logit_bias, seed and stop only"):
        Caller(RemoteModel("http://127.0.0.1:9/v1#m"), TOOLS, decoding=DecodingConfig(beam=2))
    with pytest.raises(InputError, match="plain JSON"):
        Caller(RemoteModel("http://127.0.0.1:9/v1#m"), TOOLS, format="hermes")


def test_a_check_asks_once_and_needs_no_list_of_models() -> None:
    """A server that answers anything but a refusal of the key is there; one that is away, or refuses it, is told."""
    with server(saying(ADD)) as (address, asked):
        remote(address).check()
        remote(address.removesuffix("v1") + "other?dialect=openai#m").check()
        assert asked == []
    with pytest.raises(ModelError, match="cannot be reached"):
        remote(address, tries=1).check()


def test_a_refused_key_ends_a_batch(tmp_path: Path) -> None:
    """No other prompt fares better, so the run ends with what is done, instead of one failure for each."""
    with server(lambda *_: (401, {"error": "who are you?"})) as (address, asked):
        (tmp_path / "p.json").write_text('["Add 2 and 3", "Add 4 and 5"]')
        (tmp_path / "f.json").write_text(json.dumps(TOOLS[:1]))
        words = ["run", "-f", "f.json", "-i", "p.json", "-o", "o.json", "-m", f"{address}#m"]
        with chdir(tmp_path), pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 3
        assert len(asked) == 1
