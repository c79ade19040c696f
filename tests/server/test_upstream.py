"""The server in front of another one, which may break, drip, lie or have no room."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="the extra remote is not installed")

from callmemaybe.errors import ModelError
from callmemaybe.models.remote import RemoteModel, Sampling
from callmemaybe.server.config import ServeOptions, ServerConfig
from callmemaybe.server.observability import JsonLog
from callmemaybe.server.serving import application, serve
from tests.server.conftest import PATIENCE, USER, WEATHER, Running, Seen, running

CALL = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
KEY = "sk-upstream-secret"
#: Status, headers, and pieces of the body: bytes, or seconds to wait.
Reply = tuple[int, dict[str, str], Iterable[bytes | float]]
Script = Callable[[dict[str, Any]], Reply]


def chunk(delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"choices": choices, **more}).encode() + b"\n\n"


def stream(*pieces: bytes | float, kind: str = "text/event-stream") -> Reply:
    return 200, {"Content-Type": kind}, pieces


def saying(*texts: str, finish: str = "stop", **more: Any) -> Reply:
    usage = chunk(None, usage={"prompt_tokens": 7, "completion_tokens": 3})
    return stream(
        *(chunk({"content": text}) for text in texts), chunk({}, finish, **more), usage,
        b"data: [DONE]\n\n",
    )  # fmt: skip


def calling(name: str, *arguments: str) -> Reply:
    first = {"index": 0, "id": "x", "type": "function", "function": {"name": name, "arguments": ""}}
    return stream(
        chunk({"tool_calls": [first]}),
        *(chunk({"tool_calls": [{"index": 0, "function": {"arguments": part}}]})
          for part in arguments),
        chunk({}, "tool_calls"), b"data: [DONE]\n\n",
    )  # fmt: skip


def failing(status: int, message: str = "it hurts", **headers: str) -> Reply:
    return status, headers, [json.dumps({"error": {"message": message}}).encode()]


class Upstream:
    """A server that plays one reply after the other, the last one for ever."""

    def __init__(self, replies: Sequence[Reply | Script]) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.address = ""
        self.dropped = threading.Event()
        self._replies = replies

    def reply(self, body: dict[str, Any]) -> Reply:
        self.asked.append(body)
        reply = self._replies[min(len(self.asked), len(self._replies)) - 1]
        return reply(body) if callable(reply) else reply


@contextmanager
def upstream(*replies: Reply | Script) -> Iterator[Upstream]:
    """Run an upstream server on this machine."""
    played = Upstream(replies)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            played.keys.append(self.headers.get("Authorization"))
            status, headers, pieces = played.reply(body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for piece in pieces:
                    if isinstance(piece, float):
                        time.sleep(piece)
                    else:
                        self.wfile.write(piece)
                        self.wfile.flush()
            except OSError:
                played.dropped.set()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    played.address = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield played
    finally:
        server.shutdown()
        server.socket.close()
        thread.join()


@contextmanager
def front(
    behind: Upstream, dialect: str = "vllm", *, log: io.StringIO | None = None, **options: Any
) -> Iterator[Running]:
    """Run our server in front of an upstream one."""
    limits = {"pause": 0.001, "timeout": 60.0, "tries": 2, "key": KEY} | options
    model = RemoteModel(f"{behind.address}?dialect={dialect}#talker", **limits)
    config = ServerConfig(port=0, run_seconds=PATIENCE)
    seen = Seen()
    observers = [seen] if log is None else [seen, JsonLog(log)]
    served = running(application(model, config, observers=observers), config, model, seen)
    try:
        yield served
    finally:
        served.close()


def error_of(served: Running, **body: Any) -> tuple[int, str, str]:
    answer = served.chat(**body)
    found = answer.json()["error"]
    return answer.status_code, found["code"], found["message"]


@pytest.mark.parametrize("dialect", ["vllm", "llama.cpp", "sglang"])
def test_a_call_comes_through_under_the_grammar(dialect: str) -> None:
    """Law: the upstream server is given our grammar, and its call is a call of ours, with its usage."""
    with upstream(saying(CALL[:20], CALL[20:])) as behind, front(behind, dialect) as served:
        answer = served.chat(tools=[WEATHER]).json()
        chunks = served.chunks(tools=[WEATHER])
        assert served.client.get("/v1/models").json()["data"][0]["id"] == "talker"
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (7, 3)
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    grammar = {"vllm": "structured_outputs", "llama.cpp": "grammar", "sglang": "ebnf"}[dialect]
    assert grammar in behind.asked[0]
    assert behind.keys == [f"Bearer {KEY}"] * 2


def test_metrics_are_told_without_a_cache_of_prompts() -> None:
    """Law: in front of another server, which keeps its prompts itself, /metrics counts requests and 0 bytes."""
    with upstream(saying("It rains.")) as behind, front(behind) as served:
        assert served.chat().status_code == 200
        answer = served.client.get("/metrics")
    assert answer.status_code == 200
    assert "callmemaybe_prompt_cache_bytes 0.0" in answer.text, answer.text


@pytest.mark.parametrize("dialect", ["openai", "ollama"])
def test_functions_go_as_functions_where_no_grammar_can(dialect: str) -> None:
    """Law: to a server that knows schemas only, the conversation goes as it came, calls and results too."""
    history = [
        *USER,
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "rain"},
    ]  # fmt: skip
    with upstream(calling("get_weather", '{"ci', 'ty": "Paris"}')) as behind, front(behind, dialect) as served:  # fmt: skip
        answer = served.chat(messages=history, tools=[WEATHER]).json()["choices"][0]
        named = {"type": "function", "function": {"name": "get_weather"}}
        served.chat(tools=[WEATHER], tool_choice=named, parallel_tool_calls=True)
    assert answer["message"]["tool_calls"][0]["function"]["arguments"] == '{"city": "Paris"}'
    assert [one["role"] for one in behind.asked[0]["messages"]] == ["user", "assistant", "tool"]
    assert behind.asked[0]["tool_choice"] == "auto"
    assert behind.asked[1]["tool_choice"] == named


def test_text_is_streamed_as_it_comes() -> None:
    """Law: the first words are there before the upstream server has written the last."""
    go_on = threading.Event()

    def script(_: dict[str, Any]) -> Reply:
        def pieces() -> Iterator[bytes | float]:
            yield chunk({"content": "Hel"})
            go_on.wait(PATIENCE)
            yield chunk({"content": "lo, {you}"})
            yield chunk({}, "stop")

        return 200, {"Content-Type": "text/event-stream"}, pieces()

    body = {"model": "talker", "messages": USER, "tools": [WEATHER], "stream": True}
    with (
        upstream(script) as behind,
        front(behind) as served,
        served.client.stream("POST", "/v1/chat/completions", json=body) as answer,
    ):
        seen = ""
        for line in answer.iter_lines():
            seen += line
            if "Hel" in line:
                go_on.set()
    assert '"content":"lo, {you}"' in seen
    assert seen.endswith("data: [DONE]")


WRONG = [
    calling("get_weather", '{"town": "Paris"}'),
    calling("get_weather", '{"city": "Par'),
    calling("get_weather", '{"city": "Paris", "city": "Rome"}'),
    calling("buy_weather", "{}"),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_call_is_asked_for_again(wrong: Reply) -> None:
    """Law: a call that its schema does not allow is put right by the model, or is an error; never a call."""
    with upstream(wrong, calling("get_weather", '{"city":"Paris"}')) as behind:
        with front(behind, "openai") as served:
            message = served.chat(tools=[WEATHER]).json()["choices"][0]["message"]
        assert message["tool_calls"][0]["function"]["arguments"] == '{"city": "Paris"}'
        said = behind.asked[1]["messages"][-1]["content"]
        assert "wrong" in said
    with upstream(wrong) as behind, front(behind, "openai") as served:
        answer = served.chat(tools=[WEATHER])
        assert answer.status_code in (500, 502)
        assert answer.json()["error"]["code"] in ("upstream_answer", "repeated_key")
        assert len(behind.asked) == 3


def test_a_grammar_that_is_ignored_is_seen() -> None:
    """Law: an answer outside of the grammar is asked for again, and then an error of the upstream server."""
    with upstream(saying('{"name": "fly"}')) as behind, front(behind) as served:
        assert error_of(served, tools=[WEATHER])[:2] == (502, "upstream_answer")
        assert len(behind.asked) == 3
    with upstream(saying("No."), saying(CALL)) as behind, front(behind) as served:
        answer = served.chat(tools=[WEATHER], tool_choice="required").json()
        assert answer["choices"][0]["finish_reason"] == "tool_calls"


def test_an_answer_by_a_schema_is_spelt_our_way() -> None:
    """Law: spaces and the order of keys do not matter; what the schema forbids does."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}},
              "required": ["a", "b"], "additionalProperties": False}  # fmt: skip
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    loose, wrong = saying('{\n "b":', ' true, "a": 1}'), saying('{"a": "1", "b": true}')
    with upstream(loose) as behind, front(behind, "openai") as served:
        message = served.chat(response_format=form).json()["choices"][0]["message"]
        assert message["content"] == '{"a": 1, "b": true}'
        assert behind.asked[0]["response_format"]["json_schema"]["schema"] == schema
        message = served.chat(response_format=form, tools=[WEATHER]).json()["choices"][0]["message"]
        assert message["content"] == '{"a": 1, "b": true}'
    with upstream(wrong) as behind, front(behind, "openai") as served:
        assert error_of(served, response_format=form)[:2] == (502, "upstream_answer")


FAILURES = [
    (failing(401, f"bad key {KEY}"), 502, "upstream_refused_key", "CALLMEMAYBE_UPSTREAM_KEY"),
    (failing(403), 502, "upstream_refused_key", "refuses (403)"),
    (failing(404), 502, "upstream_refused_key", "has no model"),
    (failing(500), 502, "upstream_failed", "failed (500), 2 times"),
    (failing(302, Location="http://127.0.0.1:9/"), 502, "upstream_answer", "failed (302)"),
    (failing(400, f"too hot for {KEY}"), 400, "upstream_refused_request", "too hot for ***"),
    (failing(400, "maximum context length is 9"), 400, "context_length_exceeded", "length is 9"),
    (failing(503), 503, "upstream_busy", "failed (503)"),
    (stream(b"<html>hello</html>", kind="text/html"), 502, "upstream_answer", "something else"),
    (stream(b"data: {oops\n\n"), 502, "upstream_answer", "something else"),
    (stream(b"data: 7\n\n"), 502, "upstream_answer", "something else"),
    (stream(b"data: " + b"[" * 100_000 + b"\n\n"), 502, "upstream_answer", "something else"),
    (stream(b'data: {"error": {"message": "no"}}\n\n'), 502, "upstream_failed", "in the middle"),
    (stream(chunk({"role": "assistant"})), 502, "upstream_failed", "broke off"),
    (saying("Sorry", finish="content_filter"), 502, "upstream_answer", "content_filter"),
    ((200, {"Content-Encoding": "gzip", "Content-Type": "text/event-stream"}, [b"\x1f\x8b"]), 502,
     "upstream_answer", "encoding"),
    ((200, {"Content-Type": "text/event-stream", "Content-Length": "99"}, [b": hello\n\n"]), 502,
     "upstream_failed", "broke off"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "status", "code", "said"), FAILURES)
def test_failures_have_a_type_and_one_sentence(
    reply: Reply, status: int, code: str, said: str
) -> None:
    """Law: what fails behind us is 502, 503 or 504 with its code, and no secret is in it or in the log."""
    log = io.StringIO()
    with upstream(reply) as behind, front(behind, log=log, key_name="CALLMEMAYBE_UPSTREAM_KEY") as served:  # fmt: skip
        found = error_of(served, tools=[WEATHER])
        assert found[:2] == (status, code), found
        assert said in found[2]
        assert behind.address not in found[2]
        assert KEY not in found[2]
        assert "www-authenticate" not in served.chat(tools=[WEATHER]).headers
    assert KEY not in log.getvalue()
    assert "Weather in Paris" not in log.getvalue()
    line = json.loads(log.getvalue().splitlines()[0])
    assert "error" not in line
    assert behind.address in line["upstream"]


def test_nobody_there() -> None:
    """Law: a server that is away is 502; at the start it is one sentence."""
    with upstream(saying("x")) as behind:
        pass
    with front(behind) as served:
        assert error_of(served)[:2] == (502, "upstream_unreachable")
    with pytest.raises(ModelError, match="cannot be reached"):
        serve(ServeOptions(f"{behind.address}#m", ServerConfig(port=0)), say=lambda _: None)


@pytest.mark.parametrize("after", ["0.4", "0"])
def test_a_pause_that_is_asked_for_is_kept(after: str) -> None:
    """Law: Retry-After is how long we wait, not our own pause; the client sees nothing of it."""
    busy = failing(429, **{"Retry-After": after})
    with upstream(busy, saying("Hi")) as behind, front(behind, pause=100.0) as served:
        began = time.monotonic()
        assert served.chat().json()["choices"][0]["message"]["content"] == "Hi"
        assert time.monotonic() - began >= float(after)
        assert len(behind.asked) == 2


@pytest.mark.parametrize(
    ("after", "told"), [("90", "90"), ("1e9", "3600"), ("Fri, 31 Dec 2100 23:59:59 GMT", "3600")]
)
def test_a_long_pause_is_left_to_the_client(after: str, told: str) -> None:
    """Law: a slot is not held for longer than 20 s; the client is told to wait, at most an hour."""
    with upstream(failing(429, **{"Retry-After": after})) as behind, front(behind) as served:
        answer = served.chat(stream=True)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "upstream_busy"
        assert answer.headers["retry-after"] == told
        assert len(behind.asked) == 1


@pytest.mark.parametrize("piece", [b" ", b": still here\n\n", chunk({"content": ""})])
def test_what_drips_ends_in_time(piece: bytes) -> None:
    """Law: however it drips, an answer has so many seconds, from the first byte to the last."""
    drip = stream(*(part for _ in range(600) for part in (piece, 0.1)))
    with upstream(drip) as behind, front(behind, timeout=0.6, tries=1) as served:
        found = served.chat(stream=True)
        assert "upstream_timeout" in found.text
        if piece == b" ":
            assert error_of(served)[:2] == (504, "upstream_timeout")
        served.wait_until(behind.dropped.is_set)


def test_a_huge_answer_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: neither a reply, nor an event of it, nor an error is kept beyond its bound."""
    monkeypatch.setattr("callmemaybe.models._exchange.MOST_BYTES", 1 << 20)
    endless = (b"x" * (1 << 16) for _ in iter(int, 1))
    for reply in (
        (200, {"Content-Type": "application/json"}, endless),
        (200, {"Content-Type": "text/event-stream"}, (b"data: " + each for each in endless)),
    ):
        with upstream(reply) as behind, front(behind) as served:
            assert error_of(served)[:2] == (502, "upstream_answer")
            served.wait_until(behind.dropped.is_set)
    refusal = 400, {}, (b"x" * (1 << 16) for _ in iter(int, 1))
    with upstream(refusal) as behind, front(behind) as served:
        status, code, message = error_of(served)
        assert (status, code) == (400, "upstream_refused_request")
        assert len(message) < 500


def test_a_stream_that_breaks_off_ends_in_an_error() -> None:
    """Law: behind text that was given there is no second try; what was held can be asked for again."""
    half = stream(chunk({"content": "Half a"}), 0.01)
    with upstream(half, saying("Other")) as behind, front(behind) as served:
        text = served.chat(stream=True).text
        assert "Half a" in text
        assert "Other" not in text
        assert '"code":"upstream_failed"' in text
        assert len(behind.asked) == 1
    held = stream(chunk({"content": CALL[:20]}))
    with upstream(held, saying(CALL)) as behind, front(behind) as served:
        chunks = served.chunks(tools=[WEATHER])
        assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
        assert len(behind.asked) == 2


def test_what_is_cut_off_is_no_call() -> None:
    """Law: at the limit of tokens a text is given as far as it is there, and of a call nothing."""
    for reply in (saying(CALL[:40], finish="length"),):
        with upstream(reply) as behind, front(behind) as served:
            (choice,) = served.chat(tools=[WEATHER], max_tokens=9).json()["choices"]
            assert choice["finish_reason"] == "length"
            assert "tool_calls" not in choice["message"]
            assert behind.asked[0]["max_tokens"] == 9
    with upstream(saying("Once upon", finish="length")) as behind, front(behind) as served:
        (choice,) = served.chat(tools=[WEATHER]).json()["choices"]
        assert (choice["finish_reason"], choice["message"]["content"]) == ("length", "Once upon")
    half = stream(
        chunk({"tool_calls": [{"index": 0, "function": {"name": "get_weather", "arguments": '{"ci'}}]}),
        chunk({}, "length"),
    )  # fmt: skip
    with upstream(half) as behind, front(behind, "openai") as served:
        (choice,) = served.chat(tools=[WEATHER]).json()["choices"]
        assert choice["finish_reason"] == "length"
        assert "tool_calls" not in choice["message"]


def test_who_goes_away_ends_it_behind_too() -> None:
    """Law: a client that leaves frees its slot and the connection behind, however silent that is."""
    slow = stream(
        chunk({"content": "Once"}), *(part for _ in range(600) for part in (0.1, b": \n"))
    )
    body = {"model": "talker", "messages": USER, "stream": True}
    with upstream(slow) as behind, front(behind) as served:
        with served.client.stream("POST", "/v1/chat/completions", json=body) as answer:
            next(answer.iter_lines())
        served.wait_until(behind.dropped.is_set)
        served.wait_until(lambda: served.scheduler().running == 0)
        assert served.client.get("/healthz").status_code == 200


def test_settings_go_through_or_are_refused() -> None:
    """Law: top_p, seed and stop are kept; what needs the model's own numbers is refused by name."""
    with upstream(saying("One. Two.")) as behind, front(behind, "openai") as served:
        answer = served.chat(top_p=0.5, seed=3, stop=[" Two"]).json()["choices"][0]
        assert answer["message"]["content"] == "One."
        assert (behind.asked[0]["top_p"], behind.asked[0]["seed"]) == (0.5, 3)
        refused = served.chat(logprobs=True)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "logprobs")
        assert len(behind.asked) == 1


def test_our_own_server_behind_our_own() -> None:
    """Law: this server is one that can stand behind this server."""
    from tests.server.conftest import begin

    inner = begin()
    try:
        model = RemoteModel(f"{inner.url}/v1?dialect=openai")
        config, seen = ServerConfig(port=0), Seen()
        served = running(application(model, config), config, model, seen)
        try:
            assert model.model == "talker"
            for body in ({}, {"tool_choice": "required"}):
                message = served.chat(tools=[WEATHER], **body).json()["choices"][0]["message"]
                assert message["tool_calls"][0]["function"]["arguments"] == '{"city": "Paris"}'
        finally:
            served.close()
    finally:
        inner.close()


def test_a_password_in_the_address_is_never_shown() -> None:
    """Law: no message has it."""
    model = RemoteModel("http://me:hush@127.0.0.1:9/v1?dialect=vllm#m", tries=1)
    with pytest.raises(ModelError) as caught:
        model.complete([], None, Sampling(9))
    assert "hush" not in str(caught.value)
    assert "hush" not in model.name


PICTURE = "data:image/png;base64,iVBORw0KGgo="
SEEN = [{"role": "user", "content": [
    {"type": "text", "text": "Weather here?"},
    {"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}}]}]  # fmt: skip


@pytest.mark.parametrize("dialect", ["vllm", "llama.cpp", "openai"])
def test_pictures_go_through(dialect: str) -> None:
    """Law: a model of another server gets the picture where it stands, and calls as ever."""
    with upstream(saying(CALL)) as behind, front(behind, dialect) as served:
        message = served.chat(messages=SEEN, tools=[WEATHER]).json()["choices"][0]["message"]
        assert message["tool_calls"][0]["function"]["arguments"] == '{"city": "Paris"}'
        assert behind.asked[0]["messages"][-1] == SEEN[0]
        parts = [{"type": "input_text", "text": "Weather here?"},
                 {"type": "input_image", "image_url": PICTURE, "detail": "low"}]  # fmt: skip
        served.respond(input=[{"role": "user", "content": parts}])
        assert behind.asked[1]["messages"] == SEEN
        large = {"type": "image_url", "image_url": {"url": f"{PICTURE}{'A' * (8 << 20)}"}}
        assert served.chat(messages=[{"role": "user", "content": [large]}]).status_code == 200


def test_pictures_as_ollama_has_them() -> None:
    """Law: where Ollama is asked in its own form, a picture is where that form has it."""
    line = {"message": {"content": CALL}, "done": True, "done_reason": "stop", "eval_count": 3}
    reply = stream(json.dumps(line).encode() + b"\n", kind="application/x-ndjson")
    with upstream(reply) as behind, front(behind, "ollama") as served:
        body = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}
        answer = served.chat(messages=SEEN, **body).json()
        assert answer["choices"][0]["finish_reason"] == "tool_calls"
        assert answer["usage"]["completion_tokens"] == 3
        said = behind.asked[0]["messages"][-1]
        assert (said["content"], said["images"]) == ("Weather here?", ["iVBORw0KGgo="])
        url = {"type": "image_url", "image_url": {"url": "https://example.org/x.png"}}
        refused = served.chat(messages=[{"role": "user", "content": [url]}], **body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "messages")


def test_pictures_are_refused_where_nobody_reads_them(shared: Running) -> None:
    """Law: a model of text says that it is one, naming the part; an address of a file is none."""
    refused = shared.chat(messages=SEEN)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (400, "unsupported_content")
    assert error["param"] == "messages[0].content[1]"
    assert "leave the picture out" in error["message"]
    parts = [{"type": "input_image", "image_url": PICTURE}]
    refused = shared.respond(input=[{"role": "user", "content": parts}])
    assert refused.json()["error"]["param"] == "input[0].content[0]"
    local = {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}
    with upstream(saying("x")) as behind, front(behind) as served:
        assert error_of(served, messages=[{"role": "user", "content": [local]}])[0] == 400
        assert not behind.asked
