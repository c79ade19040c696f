"""Anthropic's interface: what requests may say, what comes back, and what is refused in its form."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from callmemaybe.models import load
from callmemaybe.server import http, messages
from callmemaybe.server.config import ServerConfig
from callmemaybe.server.http_errors import ApiError
from callmemaybe.server.serving import application
from tests.server.conftest import (
    ANTHROPIC_WEATHER,
    BERN,
    PARIS,
    USER,
    Running,
    Seen,
    Start,
    calling,
    running,
)
from tests.server.test_upstream import CALL, failing, front, saying, upstream

PICTURE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
COUNT = "/v1/messages/count_tokens"


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": [*blocks]}


def called(id_: str = "a", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": "get_weather", "input": arguments}


def result(id_: str = "a", content: Any = "rain", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **more}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def error_of(answer: httpx2.Response) -> tuple[int, str, str]:
    body = answer.json()
    assert body["type"] == "error"
    assert body["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]
    return answer.status_code, body["error"]["type"], body["error"]["message"]


@pytest.fixture(scope="module")
def nano() -> Iterator[Running]:
    config = ServerConfig(port=0)
    seen = Seen()
    served = running(application(load("nano"), config, observers=[seen]), config, None, seen)
    yield served
    served.close()


def prompt_of(start: Start, **body: Any) -> str:
    """Return the prompt that a conversation becomes."""
    server = start(("Yes.",), turn=lambda _: 0)
    taken: list[str] = []
    generator = server.scheduler().generator
    prompt_ids = generator._prompt_ids

    def listening(messages: Any, *others: Any) -> Any:
        taken.append(json.dumps(messages))
        return prompt_ids(messages, *others)

    generator._prompt_ids = listening
    assert server.message(**body).status_code == 200
    return taken[0]


class TestAnswers:
    """What comes back, whole and streamed."""

    def test_a_call(self, shared: Running) -> None:
        """Law: a call is a block with an id and its arguments as an object, and the message says so."""
        found = shared.message(tools=[ANTHROPIC_WEATHER]).json()
        (block,) = found.pop("content")
        usage = found.pop("usage")
        assert (block["type"], block["name"], block["input"]) == (
            "tool_use", "get_weather", {"city": "Paris"},
        )  # fmt: skip
        assert block["id"].startswith("call_")
        assert found.pop("id").startswith("msg_")
        assert found == {
            "type": "message", "role": "assistant", "model": "talker", "stop_reason": "tool_use",
            "stop_sequence": None,
        }  # fmt: skip
        assert usage["output_tokens"] > 0
        read = usage["input_tokens"] + usage["cache_read_input_tokens"]
        assert read == shared.chat(tools=[{"type": "function", "function": {
            "name": "get_weather", "description": "Weather of a city",
            "parameters": ANTHROPIC_WEATHER["input_schema"]}}]).json()["usage"]["prompt_tokens"]  # fmt: skip

    def test_several_calls_and_the_one_of_a_request_that_wants_one(self, start: Start) -> None:
        """Law: parallel calls are blocks side by side; ``disable_parallel_tool_use`` leaves one."""
        server = start(calling(PARIS, BERN))
        both = server.message(tools=[ANTHROPIC_WEATHER]).json()["content"]
        assert [block["input"]["city"] for block in both] == ["Paris", "Bern"]
        alone = {"type": "any", "disable_parallel_tool_use": True}
        one = server.message(tools=[ANTHROPIC_WEATHER], tool_choice=alone).json()
        assert [block["input"]["city"] for block in one["content"]] == ["Paris"]

    def test_a_text_and_the_ways_it_may_end(self, start: Start) -> None:
        """Law: by itself, by a stop sequence (which is named and left out), or by the limit of tokens."""
        server = start(("It rains in Paris.",))
        whole = server.message().json()
        assert (whole["content"], whole["stop_reason"]) == (
            [text("It rains in Paris.")],
            "end_turn",
        )
        stopped = server.message(stop_sequences=["nowhere", " in"]).json()
        assert stopped["content"] == [text("It rains")]
        assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", " in")
        cut = server.message(max_tokens=3).json()
        assert (cut["stop_reason"], cut["stop_sequence"]) == ("max_tokens", None)
        assert "It rains in Paris.".startswith(cut["content"][0]["text"])

    def test_choices(self, start: Start) -> None:
        """Law: none writes a text, a named tool is called, and any calls one, whatever the model likes."""
        server = start(("It rains.",))
        asked = {"tools": [ANTHROPIC_WEATHER], "max_tokens": 200}
        none = server.message(tool_choice={"type": "none"}, **asked).json()
        assert none["content"] == [text("It rains.")]
        for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather"}):
            message = server.message(tool_choice=choice, **asked).json()
            assert {block["type"] for block in message["content"]} <= {"tool_use"}
        unknown = server.message(tool_choice={"type": "tool", "name": "gone"}, **asked)
        assert error_of(unknown)[:2] == (400, "invalid_request_error")

    def test_an_answer_by_a_schema(self, start: Start) -> None:
        """Law: ``output_config.format`` is kept by the grammar."""
        server = start(('{"city": "Paris"}',))
        form = {"type": "json_schema", "schema": {"type": "object", "properties": {"city": {"type": "string"}},
                "required": ["city"], "additionalProperties": False}}  # fmt: skip
        (block,) = server.message(output_config={"format": form}).json()["content"]
        assert json.loads(block["text"]) == {"city": "Paris"}

    def test_the_events_of_a_call(self, shared: Running) -> None:
        """Law: the events are those of the interface, in its order, and add up to the whole message."""
        whole = shared.message(tools=[ANTHROPIC_WEATHER]).json()
        events = shared.message_events(tools=[ANTHROPIC_WEATHER])
        assert [event["type"] for event in events] == [
            "message_start", "content_block_start", "content_block_delta", "content_block_stop",
            "message_delta", "message_stop",
        ]  # fmt: skip
        start, block, delta, stop, end, _ = events
        assert start["message"]["content"] == []
        assert start["message"]["stop_reason"] is None
        read = start["message"]["usage"]
        assert read["input_tokens"] + read["cache_read_input_tokens"] > 0
        assert block["content_block"]["input"] == {}
        assert json.loads(delta["delta"]["partial_json"]) == {"city": "Paris"}
        assert block["index"] == delta["index"] == stop["index"] == 0
        assert end["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
        assert end["usage"]["output_tokens"] == whole["usage"]["output_tokens"]
        assert end["usage"]["cache_read_input_tokens"] == read["cache_read_input_tokens"]

    def test_text_is_streamed_as_it_is_written(self, start: Start) -> None:
        """Law: several deltas in one block, whole characters each."""
        events = start(("Grüße 🌍 aus Bern",)).message_events()
        deltas = [one["delta"]["text"] for one in events if one["type"] == "content_block_delta"]
        assert "".join(deltas) == "Grüße 🌍 aus Bern"
        assert len(deltas) > 3
        assert {one["index"] for one in events if "index" in one} == {0}

    def test_no_budget_makes_a_wrong_call(self, start: Start) -> None:
        """Law: with 1 to 60 tokens, a stream has the calls whole, or nothing of them and says why."""
        server = start(calling(PARIS, BERN))
        seen = set()
        for budget in range(1, 61):
            events = server.message_events(tools=[ANTHROPIC_WEATHER], max_tokens=budget)
            reason = events[-2]["delta"]["stop_reason"]
            seen.add(reason)
            begun = [one for one in events if one["type"] == "content_block_start"]
            calls = [one for one in begun if one["content_block"]["type"] == "tool_use"]
            if reason == "tool_use":
                deltas = [one["delta"] for one in events if one["type"] == "content_block_delta"]
                found = [json.loads(one["partial_json"])["city"] for one in deltas]
                assert (found, len(calls)) == (["Paris", "Bern"], 2)
            else:
                assert (reason, calls) == ("max_tokens", [])
            whole = server.message(tools=[ANTHROPIC_WEATHER], max_tokens=budget).json()
            assert whole["stop_reason"] == reason
            assert sum(one["type"] == "tool_use" for one in whole["content"]) == len(calls)
        assert seen == {"tool_use", "max_tokens"}

    def test_a_silent_stream_pings(self, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        """Law: while nothing is written, a stream of messages sends the interface's own sign of life."""
        monkeypatch.setattr(http, "_SILENCE_SECONDS", 0.01)
        events = start(("It rains.",), slow=0.1).message_events()
        kinds = [event["type"] for event in events]
        assert {"type": "ping"} in events
        assert [kind for kind in kinds if kind != "ping"][-2:] == ["message_delta", "message_stop"]

    def test_a_turn_that_fails_in_the_stream(self, start: Start) -> None:
        """Law: an error behind the first words is an event of its own kind, the last one."""
        server = start(("It rains. " * 60,), slow=0.02, run_seconds=0.5)
        events = server.message_events(max_tokens=600)
        assert events[0]["type"] == "message_start"
        assert (events[-1]["type"], events[-1]["error"]["type"]) == ("error", "timeout_error")


class TestConversations:
    """What requests may hold, and what the model reads of it."""

    def test_results_and_what_is_said_behind_them(self, start: Start) -> None:
        """Law: a result is a message of its own in front of what the user says; blocks are lines."""
        said = prompt_of(
            start,
            system=[text("Be brief."), {**text("Be kind."), "cache_control": {"type": "ephemeral"}}],
            messages=[
                *USER,
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "secret", "signature": "x"},
                    {"type": "redacted_thinking", "data": "secret"},
                    text("I look."), called(city="Paris"), called("b", city="Bern"),
                ]},
                user(result(), result("b", [text("snow"), text("ice")]), text("And"), text("now?")),
            ],
            tools=[{**ANTHROPIC_WEATHER, "type": "custom", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
            metadata={"user_id": "u"}, top_k=5, top_p=0.9, temperature=0, thinking={"type": "disabled"},
        )  # fmt: skip
        found = json.loads(said)
        assert [(one["role"], one["content"]) for one in found] == [
            ("system", "Be brief.\nBe kind."), ("user", "Weather in Paris?"), ("assistant", "I look."),
            ("tool", "rain"), ("tool", "snow\nice"), ("user", "And\nnow?"),
        ]  # fmt: skip
        calls = found[2]["tool_calls"]
        assert [json.loads(one["function"]["arguments"]) for one in calls] == [
            {"city": "Paris"}, {"city": "Bern"},
        ]  # fmt: skip
        assert "secret" not in said

    def test_a_result_that_is_an_error(self, start: Start) -> None:
        """Law: the model is told that a call failed, in the form in which the gateway tells it."""
        history = [*USER, {"role": "assistant", "content": [called()]}, user(result(content="no station", is_error=True))]  # fmt: skip
        found = json.loads(prompt_of(start, messages=history, tools=[ANTHROPIC_WEATHER]))
        assert json.loads(found[-1]["content"]) == {"ok": False, "detail": "no station"}

    def test_an_answer_goes_back_as_it_came(self, start: Start) -> None:
        """Law: whatever the server answers is taken in the next request, what was cut off, too."""
        server = start(calling(PARIS), ("It rains.",))
        first = server.message(tools=[ANTHROPIC_WEATHER]).json()
        done = [*USER, {"role": "assistant", "content": first["content"]},
                user(result(first["content"][0]["id"]))]  # fmt: skip
        second = server.message(messages=done, tools=[ANTHROPIC_WEATHER]).json()
        assert second["content"] == [text("It rains.")]
        cut = server.message(max_tokens=1, tools=[ANTHROPIC_WEATHER]).json()["content"]
        again = [*USER, {"role": "assistant", "content": cut}, *USER]
        assert server.message(messages=again, tools=[ANTHROPIC_WEATHER]).status_code == 200

    def test_pictures(self, shared: Running) -> None:
        """Law: pictures, in results too, go on to a model that reads them, and are refused by others by name."""
        blocks = [text("What is it?"), {"type": "image", "source": PICTURE}]
        status, kind, said = error_of(shared.message(messages=[user(*blocks)]))
        assert (status, kind) == (400, "invalid_request_error")
        assert said.startswith("messages[0].content[1]: The model 'talker' reads text only")
        web = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
        history = [
            user(*blocks), {"role": "assistant", "content": [called()]}, user(result(content=[web])),
        ]  # fmt: skip
        with upstream(saying("A cat.")) as behind, front(behind) as served:
            assert served.message(messages=history).json()["content"] == [text("A cat.")]
        sent = json.dumps(behind.asked[0]["messages"])
        assert "data:image/png;base64,iVBORw0KGgo=" in sent
        assert "https://example.org/a.png" in sent

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"max_tokens": None}, "'max_tokens'"),
            ({"max_tokens": 0}, "'max_tokens'"),
            ({"messages": []}, "'messages'"),
            ({"foo": 1}, "Unknown parameter: 'foo'."),
            ({"container": "x"}, "This server does not support 'container'; leave it out."),
            ({"thread": {"type": "create"}}, "This server stores nothing"),
            ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "This server returns no thoughts"),
            ({"thinking": {"type": "adaptive"}}, "This server returns no thoughts"),
            ({"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]},
             "tools[0].type: The tool 'web_search_20250305' belongs to Anthropic's own service"),
            ({"tools": [{"name": "a"}]}, "Missing required parameter: 'tools[0].input_schema'."),
            ({"tools": [{"name": "a", "input_schema": {"type": "array"}}]}, "the parameters are of type 'array'"),
            ({"tool_choice": {"type": "any"}}, "'tool_choice' is only allowed when 'tools' are given."),
            ({"stop_sequences": [""]}, "stop_sequences[0]"),
            ({"messages": [user({"type": "document", "source": {}})]},
             "messages[0].content[0].type: 'document' is not supported here, only text, image, tool_result."),
            ({"messages": [{"role": "assistant", "content": [called()]}]}, "The call 'a' has no result behind it."),
            ({"messages": [user(result("x"))]}, "a result of the call 'x', which was never made"),
            ({"messages": [*USER, {"role": "assistant", "content": "{"}]}, "does not continue answers"),
            ({"messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]}]},
             "has no message of the user"),
            ({"output_config": {"effort": "high"}}, "does not support 'output_config.effort'"),
            ({"model": "claude"}, "The model 'claude' does not exist here"),
        ],
    )  # fmt: skip
    def test_what_is_refused(self, shared: Running, change: dict[str, Any], said: str) -> None:
        """Law: a sentence in the interface's form says what is wrong, where, and what to do."""
        body = {"model": "talker", "messages": USER, "max_tokens": 60, **change}
        body = {name: value for name, value in body.items() if value is not None}
        status, kind, message = error_of(shared.post("/v1/messages", body))
        assert said in message
        wanted = (404, "not_found_error") if change.get("model") else (400, "invalid_request_error")
        assert (status, kind) == wanted


class TestErrors:
    """Errors that are not about the request's own words."""

    def test_keys(self, start: Start) -> None:
        """Law: the key may be in either header; a wrong or a missing one is an authentication error."""
        server = start(("Yes.",), keys=("sesame",))
        for headers, status in (
            ({"x-api-key": "sesame"}, 200),
            ({"authorization": "Bearer sesame"}, 200),
            ({"authorization": "Bearer wrong", "x-api-key": "sesame"}, 200),
            ({"x-api-key": "wrong"}, 401),
            ({"x-api-key": ""}, 401),
            ({}, 401),
        ):
            body = {"model": "talker", "messages": USER, "max_tokens": 60}
            answer = server.post("/v1/messages", body, headers=headers)
            assert answer.status_code == status, headers
            if status == 401:
                assert error_of(answer)[1] == "authentication_error"

    def test_statuses(self, start: Start) -> None:
        """Law: a large body, a foreign page, a route that there is not, and a method that it has not."""
        server = start(("Yes.",), body_bytes=1000)
        large = server.message(system="x" * 2000)
        assert error_of(large)[:2] == (413, "request_too_large")
        foreign = server.post("/v1/messages", {}, headers={"origin": "https://evil.example"})
        assert error_of(foreign)[:2] == (403, "permission_error")
        assert error_of(server.post("/v1/messages/batches", {}))[:2] == (404, "not_found_error")
        assert error_of(server.client.get("/v1/messages"))[:2] == (405, "invalid_request_error")
        broken = server.client.post(
            "/v1/messages", content=b"{", headers={"content-type": "application/json"}
        )
        assert error_of(broken)[:2] == (400, "invalid_request_error")

    def test_a_full_queue(self, start: Start) -> None:
        """Law: who finds no room is told to come again, and when."""
        server = start(("It rains. " * 20,), slow=0.02, slots=1, queue=1)
        answers: list[httpx2.Response] = []
        threads = [
            threading.Thread(target=lambda: answers.append(server.message())) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        refused = [one for one in answers if one.status_code == 429]
        assert refused
        for one in refused:
            assert error_of(one)[1] == "rate_limit_error"
            assert int(one.headers["retry-after"]) >= 1

    def test_a_server_that_stops(self, start: Start) -> None:
        """Law: it is overloaded, as far as this interface has a word for it."""
        server = start(("Yes.",))
        server.begin_to_stop()
        server.wait_until(lambda: server.scheduler().is_stopping)
        status, kind, _ = error_of(server.message())
        assert (status, kind) == (503, "overloaded_error")

    def test_the_parameter_is_named_once(self) -> None:
        """Law: names of the chat interface become those of this one, in front of a message without them."""
        problem = ApiError(400, "It is too long.", param="stop[0]")
        assert (
            messages.error_body(problem)["error"]["message"] == "stop_sequences[0]: It is too long."
        )
        problem = ApiError(400, "'tools' is empty.", param="tools")
        assert messages.error_body(problem)["error"]["message"] == "'tools' is empty."


class TestCounting:
    """How many tokens a prompt has."""

    def test_it_is_what_an_answer_says(self, shared: Running) -> None:
        """Law: the count is that of the prompt which the same request is answered from."""
        for more in ({}, {"tools": [ANTHROPIC_WEATHER]}, {"system": "Be brief."}):
            body = {"model": "talker", "messages": USER, **more}
            counted = shared.post(COUNT, body).json()
            usage = shared.message(**more).json()["usage"]
            assert counted == {
                "input_tokens": usage["input_tokens"] + usage["cache_read_input_tokens"]
            }

    def test_nothing_is_read(self, start: Start) -> None:
        """Law: counting asks the model nothing, and counts as no tokens in the metrics."""
        server = start()
        assert server.post(COUNT, {"model": "talker", "messages": USER}).status_code == 200
        server.wait_until(lambda: bool(server.seen.over))
        summary = server.seen.over[0]
        assert (summary.prompt_tokens, summary.tokens, summary.finish) == (0, 0, ())

    def test_refusals(self, shared: Running) -> None:
        """Law: it takes what a message takes but how to answer, and refuses the rest in the same form."""
        body = {"model": "talker", "messages": USER}
        assert "max_tokens" in error_of(shared.post(COUNT, {**body, "max_tokens": 4}))[2]
        assert error_of(shared.post(COUNT, {**body, "model": "x"}))[0] == 404

    @pytest.mark.parametrize(
        "said", ["Weather in Paris?", "The weather in Paris and the weather in Oslo?"]
    )
    def test_nano(self, nano: Running, said: str) -> None:
        """Law: the same holds for the embedded model, of several calls as well."""
        asked = {"model": "nano", "system": "Be brief.", "tools": [ANTHROPIC_WEATHER],
                 "messages": [{"role": "user", "content": said}]}  # fmt: skip
        counted = nano.post(COUNT, asked)
        usage = nano.post("/v1/messages", {**asked, "max_tokens": 200}).json()["usage"]
        assert (
            counted.json()["input_tokens"]
            == usage["input_tokens"] + usage["cache_read_input_tokens"]
        )
        assert counted.headers["callmemaybe-unread"] == "instructions"

    def test_nano_of_more_functions_than_it_tells_apart(self, nano: Running) -> None:
        """Law: those that are shown are counted, in an answer as in a count."""
        others = [
            {**ANTHROPIC_WEATHER, "name": f"other_{n}", "description": f"Other {n}"}
            for n in range(100)
        ]
        asked = {"model": "nano", "tools": [*others, ANTHROPIC_WEATHER],
                 "messages": [{"role": "user", "content": "Weather in Paris?"}]}  # fmt: skip
        counted = nano.post(COUNT, asked).json()["input_tokens"]
        usage = nano.post("/v1/messages", {**asked, "max_tokens": 200}).json()["usage"]
        assert counted == usage["input_tokens"] + usage["cache_read_input_tokens"]

    def test_nano_that_is_asked_nothing(self, nano: Running) -> None:
        """Law: what is said without asking the model has a prompt of no tokens."""
        body = {"model": "nano", "messages": [{"role": "user", "content": "Hello"}]}
        assert nano.post(COUNT, body).json() == {"input_tokens": 0}

    def test_a_model_on_another_server(self) -> None:
        """Law: where nobody here can count, that is said; no number is made up."""
        with upstream(saying("Yes.")) as behind, front(behind) as served:
            status, kind, said = error_of(served.post(COUNT, {"model": "talker", "messages": USER}))
        assert (status, kind) == (400, "invalid_request_error")
        assert "is on another server, which does not count tokens" in said
        assert not behind.asked


class TestInFrontOfAnother:
    """A model on another server behind this interface."""

    def test_calls_and_text(self) -> None:
        """Law: a call comes through, whole and streamed, with its usage."""
        with upstream(saying(CALL[:20], CALL[20:])) as behind, front(behind) as served:
            whole = served.message(tools=[ANTHROPIC_WEATHER]).json()
            events = served.message_events(tools=[ANTHROPIC_WEATHER])
        assert whole["content"][0]["input"] == {"city": "Paris"}
        assert (whole["usage"]["input_tokens"], whole["usage"]["output_tokens"]) == (7, 3)
        assert json.loads(events[2]["delta"]["partial_json"]) == {"city": "Paris"}
        assert events[-2]["usage"]["input_tokens"] == 7

    @pytest.mark.parametrize(
        ("reply", "status", "kind"),
        [
            (failing(503, **{"Retry-After": "7"}), 503, "overloaded_error"),
            (failing(500), 502, "api_error"),
            (failing(400, "too long"), 400, "invalid_request_error"),
        ],
    )
    def test_failures(self, reply: Any, status: int, kind: str) -> None:
        """Law: what fails behind has the type that the interface has for it, with the pause asked for."""
        with upstream(reply) as behind, front(behind, pause=0.0, tries=1) as served:
            answer = served.message()
            assert error_of(answer)[:2] == (status, kind)
        if status == 503:
            assert answer.headers["retry-after"] == "7"


class TestNano:
    """The embedded model in this interface."""

    def test_the_loop(self, nano: Running) -> None:
        """Law: a call, then an answer made of its result; a failure is told as one."""
        asked: dict[str, Any] = {"model": "nano", "max_tokens": 200, "tools": [ANTHROPIC_WEATHER]}
        first = nano.post("/v1/messages", {**asked, "messages": USER})
        (block,) = first.json()["content"]
        assert block["input"] == {"city": "Paris"}
        for more, said in (({}, "rain"), ({"is_error": True}, "it failed: rain")):
            done = [
                *USER,
                {"role": "assistant", "content": [block]},
                user(result(block["id"], **more)),
            ]
            answer = nano.post("/v1/messages", {**asked, "messages": done}).json()
            assert (answer["content"], answer["stop_reason"]) == ([text(said)], "end_turn")


def test_an_empty_answer(start: Start) -> None:
    """Law: a stream begins and ends also where the model says nothing, without a block."""
    events = start(("",)).message_events()
    assert [one["type"] for one in events] == ["message_start", "message_delta", "message_stop"]
    assert events[1]["delta"]["stop_reason"] == "end_turn"
