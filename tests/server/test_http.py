"""What goes wrong between a client and the server: told in one shape, and nobody else's trouble."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from callmemaybe.server.http import with_comments
from tests.server.conftest import FLAT_WEATHER, USER, WEATHER, Running, Start

CHAT = "/v1/chat/completions"
TURNS = 25  # of a tenth of a second each
LONG = ("It rains all day. " * 40,)
GOOD = {"model": "talker", "messages": USER, "tools": [WEATHER]}


def error_of(response: httpx2.Response) -> dict[str, Any]:
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    found: dict[str, Any] = body["error"]
    return found


@pytest.mark.parametrize(
    ("change", "param", "code"),
    [
        ({"temprature": 1}, "temprature", "unknown_parameter"),
        ({"messages": None}, "messages", "invalid_type"),
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "missing_required_parameter"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0]", "invalid_value"),
        ({"messages": [{"role": "user", "content": "x", "colour": 1}]}, "messages[0].colour",
         "unknown_parameter"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]},
         "messages[0].content[0].type", "invalid_value"),
        ({"messages": [{"role": "tool", "tool_call_id": "x", "content": "y"}]}, "messages",
         "invalid_value"),
        ({"temperature": "hot"}, "temperature", "invalid_type"),
        ({"temperature": 2.5}, "temperature", "invalid_value"),
        ({"top_p": 0}, "top_p", "invalid_value"),
        ({"n": 0}, "n", "invalid_value"),
        ({"n": 1000}, "n", "unsupported_parameter"),
        ({"n": True}, "n", "invalid_type"),
        ({"max_tokens": 1.5}, "max_tokens", "invalid_type"),
        ({"max_tokens": 9, "max_completion_tokens": 9}, "max_tokens", "invalid_value"),
        ({"stop": ["a"] * 5}, "stop", "invalid_value"),
        ({"stop": ""}, "stop", "invalid_value"),
        ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
        ({"stream_options": {}}, "stream_options", "invalid_value"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5", "invalid_value"),
        ({"logit_bias": {"five": 1}}, "logit_bias.five", "invalid_value"),
        ({"logit_bias": {"99999999": 1}}, "logit_bias", "invalid_value"),
        ({"frequency_penalty": 2.5}, "frequency_penalty", "invalid_value"),
        ({"repetition_penalty": 0}, "repetition_penalty", "invalid_value"),
        ({"store": True}, "store", "unsupported_parameter"),
        ({"reasoning_effort": "much"}, "reasoning_effort", "invalid_value"),
        ({"functions": []}, "functions", "unsupported_parameter"),
        ({"model": "gpt-4o"}, "model", "model_not_found"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice", "invalid_value"),
        ({"tool_choice": {"type": "function", "function": {"name": "nope"}}}, "tool_choice",
         "invalid_value"),
        ({"tools": [WEATHER, WEATHER]}, "tools/1/name", "invalid_value"),
        ({"tools": [{"type": "custom", "custom": {}}]}, "tools[0].type", "invalid_value"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {
            "type": "object", "properties": {"a": {"not": {"type": "array"}, "pattern": "("}}}}}]},
         None, "invalid_value"),
        *(
            ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {
                "type": "object", "properties": {"a": schema}, "required": ["a"]}}}]},
             "tools", "invalid_value")
            for schema in (
                {"type": "string", "minLength": 10**9},
                {"type": "array", "items": {"type": "integer"}, "minItems": 10**6},
                {"type": "array", "minItems": 1000,
                 "items": {"type": "array", "minItems": 1000, "items": {"type": "integer"}}},
            )
        ),
        *(
            ({"response_format": {"type": "json_schema", "json_schema": {
                "name": "x", "schema": schema}}}, "response_format.json_schema.schema", "invalid_value")
            for schema in (
                {"$ref": "#/$defs/0", "$defs": {
                    **{str(at): {"type": "array", "minItems": 200,
                                 "items": {"$ref": f"#/$defs/{at + 1}"}} for at in range(4)},
                    "4": {"type": "null"}}},
                {"$defs": {"~a b": [0, {"minLength": 200}]}, "type": "array", "minItems": 200,
                 "items": {"$ref": "#/$defs/~0a%20b/1"}},
                {"type": "array", "minItems": 200, "items": {"$ref": "#/x"},
                 "x": {"anyOf": [{"$ref": "#"}, {"type": "string", "minLength": 200}]}},
            )
        ),
        ({"response_format": {"type": "regex", "regex": "("}}, None, "invalid_value"),
        ({"response_format": {"type": "grammar", "grammar": "start: undefined_rule"}}, None,
         "invalid_value"),
        ({"response_format": {"type": "xml"}}, "response_format", "invalid_value"),
        ({"callmemaybe": {"steps": True}}, "callmemaybe.steps", "invalid_value"),
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_named(
    shared: Running, change: dict[str, Any], param: str | None, code: str
) -> None:
    """What is not understood or not done is refused; the error says which parameter it is."""
    response = shared.post(CHAT, {**GOOD, **change})
    assert response.status_code in {400, 404}, response.text
    error = error_of(response)
    assert error["code"] == code
    if param is not None:
        assert error["param"] == param


USER_ITEM = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    ("change", "param", "told"),
    [
        ({"input": [USER_ITEM, {"type": "item_reference", "id": "fc_1"}]}, "input[1].type",
         "'store' to false"),
        ({"input": [{"type": "web_search_call", "id": "ws_1"}]}, "input[0].type",
         "'web_search_call' is not supported, only 'message', 'function_call', 'function_call_output'"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "x"}]}]},
         "input[0].content[0].type", "only 'input_text', 'output_text', 'input_image'"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "f"}]}, "input[0].arguments",
         "Missing"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}",
                     "caller": {"type": "program"}}]}, "input[0].caller", "Unknown"),
        ({"tools": [{"type": "mcp", "server_label": "x"}]}, "tools[0].type", "only 'function'"),
        ({"tools": [FLAT_WEATHER], "tool_choice": {"type": "web_search"}}, "tool_choice.type",
         "only 'function', 'allowed_tools'"),
        ({"input": [{"type": ["x" * 99]}]}, "input[0].type", "that is not supported"),
        ({"text": {"verbosity": "low"}}, "text.verbosity", "does not support 'text.verbosity'"),
        ({"previous_response_id": "resp_1"}, "previous_response_id", "send the earlier turns"),
    ],
)  # fmt: skip
def test_what_is_of_no_type_done_here_is_told_so(
    shared: Running, change: dict[str, Any], param: str, told: str
) -> None:
    """By its type, and not by what a member of another type would lack or not know."""
    response = shared.respond(**change)
    assert response.status_code == 400
    error = error_of(response)
    assert error["param"] == param
    assert told in error["message"]


@pytest.mark.parametrize(
    "change",
    [{"frequency_penalty": 0}, {"presence_penalty": 0.0}, {"store": False}, {"logit_bias": {}},
     {"n": None}, {"user": "me"}, {"metadata": {"a": "b"}}, {"modalities": ["text"]},
     {"service_tier": "auto"}, {"moderation": None}, {"prompt_cache_options": None}, {"seed": None}, {"tool_choice": None}, {"temperature": 1}],
)  # fmt: skip
def test_what_asks_for_nothing_is_let_in(shared: Running, change: dict[str, Any]) -> None:
    """Values that mean "as usual" do no harm."""
    assert shared.post(CHAT, {**GOOD, **change}).status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"null", 400),
        (b'{"model": NaN}', 400),
        (b"\xff\xfe{", 400),
        (b"\x00" * 100, 400),
        (b"[" * 100_000 + b"]" * 100_000, 400),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 400),
        (b'{"model": "talker", "messages": 1e999999999}', 400),
        (b'{"model": "talker", "seed": ' + b"9" * 100_000 + b', "messages": []}', 400),
        (b'{"tools": [{"maximum": 1e999999999}]}', 400),
        (b'{"tools": [{"maximum": 1e' + b"9" * 30 + b"}]}", 400),
        (b'{"tools": [{"enum": [-1e-999999999]}]}', 400),
        (b'{"tools": [' + b"7" * 1000 + b"]}", 400),
        (b'{"tools": [0.' + b"7" * 1000 + b"]}", 400),
        (b" " * (5 << 20), 413),
    ],
    ids=lambda value: repr(value[:12]) if isinstance(value, bytes) else None,
)
def test_a_hostile_body_is_refused(shared: Running, body: bytes, status: int) -> None:
    """Whatever is sent, the answer is an error of the API, never a traceback."""
    response = shared.client.post(CHAT, content=body, headers={"content-type": "application/json"})
    assert response.status_code == status
    error_of(response)


@pytest.mark.parametrize("text", ["\x00", "🌍" * 500, "<|im_end|>", '"}}]', "\u202eabc"])
def test_hostile_text_is_only_text(shared: Running, text: str) -> None:
    """In the request, in descriptions and in results of calls."""
    tool = json.loads(json.dumps(WEATHER))
    tool["function"]["description"] = text
    call = {"id": text, "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city": "x"}'}}  # fmt: skip
    messages = [
        {"role": "user", "content": text},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": text, "content": text},
        {"role": "user", "content": text},
    ]
    body = json.dumps({**GOOD, "messages": messages, "tools": [tool]})
    response = shared.client.post(
        CHAT, content=body.encode(), headers={"content-type": "application/json"}
    )
    assert response.status_code == 200, response.text
    call = response.json()["choices"][0]["message"]["tool_calls"][0]
    assert set(json.loads(call["function"]["arguments"])) <= {"city", "days"}


def test_half_a_character_is_refused(shared: Running) -> None:
    """Half of a surrogate pair is no text; a whole pair is."""
    body = json.dumps({**GOOD, "messages": [{"role": "user", "content": "\ud800"}]}).encode()
    response = shared.client.post(CHAT, content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert error_of(response)["code"] == "invalid_json"


def test_ten_thousand_tools_are_refused_at_once(shared: Running) -> None:
    """By their number, before anything is made of them."""
    tools = [{"type": "function", "function": {"name": f"f{n}"}} for n in range(10_000)]
    began = time.process_time()  # the server is in this process
    response = shared.post(CHAT, {**GOOD, "tools": tools})
    assert error_of(response)["code"] == "array_above_max_length"
    assert time.process_time() - began < 5


def test_a_conversation_beyond_the_context_is_refused(start: Start) -> None:
    """With the code that clients know."""
    response = start(context=300).chat(messages=[{"role": "user", "content": "a" * 1000}])
    assert response.status_code == 400
    assert error_of(response)["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("PUT", CHAT, 405), ("GET", CHAT, 405), ("POST", "/v1/models", 405),
     ("GET", "/v1/models/other", 404), ("GET", "/v1/models/a/b", 404), ("GET", "/%00", 404)],
)  # fmt: skip
def test_wrong_addresses_are_told_in_the_same_shape(
    shared: Running, method: str, path: str, status: int
) -> None:
    """An address that does not exist, and a method that it does not take."""
    response = shared.client.request(method, path)
    assert response.status_code == status
    error_of(response)


def test_a_slash_too_many_is_none(shared: Running) -> None:
    """At the end, and where a base URL and a path meet; it is answered and logged, not redirected."""
    for path in (f"{CHAT}/", "/v1//chat/completions", f"{shared.url}/{CHAT}"):
        shared.seen.over.clear()
        assert shared.post(path, GOOD, follow_redirects=False).status_code == 200
        assert [summary.route for summary in shared.seen.over] == [CHAT]
    listed = shared.client.get("/v1/models/", follow_redirects=False)
    assert listed.json() == shared.client.get("/v1/models").json()


def test_an_address_without_its_version_is_told_where_to_go(shared: Running) -> None:
    """As clients ask whose base URL is the server's bare address."""
    for path in ("/chat/completions", "/v1/embeddings"):
        response = shared.post(path, GOOD)
        assert response.status_code == 404
        assert "the base URL of a client ends in /v1" in error_of(response)["message"]


def test_only_json_is_taken(shared: Running) -> None:
    """A form of a page of elsewhere could be sent without asking; JSON cannot."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        response = shared.client.post(
            CHAT, content=json.dumps(GOOD).encode(), headers={"content-type": kind}
        )
        assert response.status_code == 415


def test_models_health_and_metrics(shared: Running) -> None:
    """The model is listed; health says ok; metrics count what was asked."""
    (listed,) = shared.client.get("/v1/models").json()["data"]
    assert shared.client.get(f"/v1/models/{listed['id']}").json() == listed
    assert listed["id"] == "talker"
    assert shared.client.get("/healthz").json() == {"status": "ok"}
    assert shared.post(CHAT, GOOD).status_code == 200
    shared.wait_until(lambda: shared.scheduler().running == 0)
    text = shared.client.get("/metrics").text
    assert f'callmemaybe_requests_total{{route="{CHAT}",status="200"}}' in text
    assert 'callmemaybe_choices_total{finish_reason="tool_calls"}' in text
    assert "callmemaybe_turns_running 0.0" in text
    assert "callmemaybe_prompt_cache_bytes " in text
    assert "process_resident_memory_bytes" in text


def test_a_request_has_an_id(shared: Running) -> None:
    """Its own where it brings one that a log can bear, a fresh one otherwise."""
    assert shared.post(CHAT, GOOD, headers={"x-request-id": "mine-1"}).headers[
        "x-request-id"
    ] == "mine-1"  # fmt: skip
    for given in ("a b", "x" * 200, ""):
        found = shared.post(CHAT, GOOD, headers={"x-request-id": given}).headers["x-request-id"]
        assert found.startswith("req_")


# -- who may come in ------------------------------------------------------------------------------


def test_a_key_is_asked_for(start: Start) -> None:
    """Where there are keys, everything but the page, its document and health needs one of them."""
    server = start(keys=("sesame", "other"))
    for headers, code in (({}, "missing_api_key"), ({"authorization": "Bearer x"}, "invalid_api_key"),
                          ({"authorization": "Basic sesame"}, "missing_api_key")):  # fmt: skip
        for path in ("/v1/models", "/metrics"):
            response = server.client.get(path, headers=headers)
            assert response.status_code == 401
            assert error_of(response)["code"] == code
    for key in ("sesame", "other"):
        allowed = {"authorization": f"Bearer {key}"}
        assert server.post(CHAT, GOOD, headers=allowed).status_code == 200
    for path in ("/", "/openapi.json", "/healthz"):
        assert server.client.get(path).status_code == 200
    assert all("sesame" not in str(summary) for summary in server.seen.over)


def test_a_long_number_is_refused(shared: Running) -> None:
    """Making an integer of its digits takes time that grows with their square, and stops everybody."""
    for digits in (b"1" * 401, b"-" + b"1" * 300_000):
        body = b'{"model": "talker", "messages": [], "seed": ' + digits + b"}"
        response = shared.client.post(
            CHAT, content=body, headers={"content-type": "application/json"}
        )
        assert response.status_code == 400
        assert error_of(response)["code"] == "number_out_of_range"


@pytest.mark.parametrize("arguments", ["", "null", " null\n"])
def test_a_call_without_arguments_is_taken(shared: Running, arguments: str) -> None:
    """Clients send null, or nothing, for what was called without any."""
    assert shared.chat(messages=_called(arguments), tools=[WEATHER]).status_code == 200


def _called(arguments: str) -> list[dict[str, Any]]:
    function = {"name": "get_weather", "arguments": arguments}
    call = {"id": "call_1", "type": "function", "function": function}
    return [
        *GOOD["messages"],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "18"},
    ]


def test_pages_of_elsewhere_are_kept_out(shared: Running) -> None:
    """By their origin, and by the name they call this machine; the page of the server may."""
    for headers in ({"origin": "https://evil.example"}, {"origin": "null"},
                    {"host": "evil.example"}):  # fmt: skip
        response = shared.post(CHAT, GOOD, headers=headers)
        assert response.status_code == 403
        assert "access-control-allow-origin" not in response.headers
    assert shared.post(CHAT, GOOD, headers={"origin": shared.url}).status_code == 200
    refused = shared.client.options(CHAT, headers={"origin": "https://evil.example"})
    assert refused.status_code == 403


def test_names_of_hosts_are_the_same_in_capitals(start: Start) -> None:
    """Of this machine, and of the origins that are let in."""
    server = start(origins=("https://Good.example",))
    port = server.url.rpartition(":")[2]
    assert server.client.get("/healthz", headers={"host": f"LocalHost:{port}"}).status_code == 200
    answer = server.client.get("/healthz", headers={"origin": "https://good.example"})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://good.example"


def test_origins_may_be_let_in(start: Start) -> None:
    """Those that are named, with what a browser needs to hear; no others."""
    server = start(origins=("https://good.example",))
    ask = {"origin": "https://good.example", "access-control-request-method": "POST"}
    preflight = server.client.options(CHAT, headers=ask)
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "https://good.example"
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    answer = server.post(CHAT, GOOD, headers={"origin": "https://good.example"})
    assert answer.headers["access-control-allow-origin"] == "https://good.example"
    assert server.post(CHAT, GOOD, headers={"origin": "https://bad.example"}).status_code == 403


def test_a_page_may_send_what_headers_it_asks_to(start: Start) -> None:
    """OpenAI's client has a dozen of its own; what is no list of names is not repeated."""
    server = start(origins=("https://good.example",))
    asked = "authorization,content-type, x-stainless-lang,x-stainless-retry-count"
    ask = {"origin": "https://good.example", "access-control-request-method": "POST"}
    for sent, told in (
        (asked, asked),
        ("", "authorization, content-type, x-request-id"),
        ("x-a b", "authorization, content-type, x-request-id"),
        ("x-a,,x-b", "authorization, content-type, x-request-id"),
    ):
        headers = {**ask, "access-control-request-headers": sent}
        answer = server.client.options(CHAT, headers=headers)
        assert answer.headers["access-control-allow-headers"] == told
        assert "access-control-request-headers" in answer.headers["vary"]
    refused = {"origin": "https://bad.example", "access-control-request-headers": asked}
    answer = server.client.options(CHAT, headers=refused)
    assert "access-control-allow-headers" not in answer.headers


# -- time and room --------------------------------------------------------------------------------


def test_a_full_queue_says_when_to_come_again(start: Start) -> None:
    """Those that fit in are served; the others get 429 and Retry-After, and lose nothing."""
    server = start(slow=0.02, slots=1, queue=2)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: server.chat(tools=[WEATHER]), range(8)))
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert {answer.status_code for answer in answers} == {200, 429}
    for answer in refused:
        assert error_of(answer)["type"] == "rate_limit_error"
        assert int(answer.headers["retry-after"]) >= 1
    assert server.chat(tools=[WEATHER]).status_code == 200


def test_who_waits_too_long_is_told(start: Start) -> None:
    """Waiting for a slot ends with 429, being answered with 504; the slot is free again."""
    server = start(LONG, slow=0.02, slots=1, queue_seconds=0.3, run_seconds=1.0)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(server.chat)
        server.wait_until(lambda: server.scheduler().running == 1)
        second = pool.submit(server.chat)
        assert error_of(second.result())["code"] == "queue_timeout"
        assert second.result().status_code == 429
        assert first.result().status_code == 504
        assert error_of(first.result())["code"] == "timeout"
    server.wait_until(lambda: server.scheduler().running == 0)


def test_a_stream_that_fails_says_so(start: Start) -> None:
    """After it has begun, the error is its last event, and there is no end that looks good."""
    server = start(LONG, slow=0.02, run_seconds=0.8)
    lines = server.chat(stream=True).text.strip().split("\n\n")
    assert json.loads(lines[-1].removeprefix("data: "))["error"]["code"] == "timeout"
    last = server.respond(stream=True).text
    assert json.loads(last.strip().split("data: ")[-1])["type"] == "response.failed"


@pytest.mark.parametrize("stream", [False, True])
def test_who_goes_away_frees_the_slot_within_a_second(start: Start, stream: bool) -> None:
    """Streaming or not, running or waiting: all are broken off, none runs to its end."""
    server = start(LONG, slow=0.02, slots=1)
    host, port = server.url.removeprefix("http://").split(":")
    body = json.dumps({"model": "talker", "messages": USER, "stream": stream}).encode()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connections = [socket.create_connection((host, int(port)), timeout=10) for _ in range(3)]
    for connection in connections:
        connection.sendall(head.encode() + body)
    server.wait_until(lambda: (server.scheduler().running, server.scheduler().waiting) == (1, 2))
    if stream:
        assert b"200 OK" in connections[0].recv(4096)
    for connection in connections:
        connection.close()
    assert (
        server.wait_until(lambda: server.scheduler().running + server.scheduler().waiting == 0)
        < 1.0
    )
    server.wait_until(lambda: len(server.seen.over) == 3)
    assert all(summary.is_dropped and summary.status == 499 for summary in server.seen.over)


def test_a_slow_head_and_a_slow_body_are_cut_off(start: Start) -> None:
    """A byte now and then holds no connection: 408, and it is closed."""
    server = start(read_seconds=0.5)
    host, port = server.url.removeprefix("http://").split(":")
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    body = b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    for beginning in (b"", head, head + body, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(beginning)
            if beginning.endswith(b"\r\n\r\n") and b"healthz" in beginning:
                assert b"200 OK" in connection.recv(4096)
                connection.sendall(b"GET ")
            answer, is_open, turns = b"", True, 0
            while is_open and (turns := turns + 1) <= TURNS:
                try:
                    connection.sendall(b"x")
                    connection.settimeout(0.1)
                    more = connection.recv(4096)
                    answer, is_open = answer + more, bool(more)
                except TimeoutError:
                    continue
                except OSError:
                    is_open = False
            assert not is_open
            assert b"408" in answer or not beginning
    assert server.chat(tools=[WEATHER]).status_code == 200


def test_a_body_behind_its_answer_holds_no_connection(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is refused before the body has come: a slow one is cut off, a whole one is followed by
    the next request, or by the end of the silence between two."""
    monkeypatch.setattr("callmemaybe.server.serving._IDLE_SECONDS", 1)
    server = start(read_seconds=0.5, keys=("sesame",))
    host, port = server.url.removeprefix("http://").split(":")
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n".encode()
    for late in (b"x", b"x" * 100):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            _ask(connection, head, b"missing_api_key")
            connection.sendall(late)
            if len(late) == 100:
                _ask(connection, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b'"ok"')
                _ask(connection, head, b"missing_api_key")
                connection.sendall(late)
            rest = connection.recv(4096)
            while more := connection.recv(4096):
                rest += more
            assert b"HTTP" not in rest


def _ask(connection: socket.socket, request: bytes, answer: bytes) -> None:
    connection.sendall(request)
    got = b""
    while answer not in got:
        more = connection.recv(4096)
        assert more, got
        got += more


def test_a_silent_stream_sends_comments() -> None:
    """Nobody between the client and the server takes a slow answer for a dead connection."""

    async def events() -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        await asyncio.sleep(0.2)
        yield b"data: 2\n\n"

    async def read() -> list[bytes]:
        return [event async for event in with_comments(events(), 0.01)]

    found = asyncio.run(read())
    assert [event for event in found if event.startswith(b"data")] == [
        b"data: 1\n\n",
        b"data: 2\n\n",
    ]
    assert found[0] == b"data: 1\n\n"
    assert found[1].startswith(b":")
    assert all(event.endswith(b"\n\n") for event in found)
