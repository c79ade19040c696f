"""The chat interface: exact request_models, order of deltas, limits, forms of an answer."""

from __future__ import annotations

import gzip
import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from callmemaybe.server import request_models
from callmemaybe.server.chat import ROUTE
from callmemaybe.server.common import check_history
from callmemaybe.server.http_errors import ApiError
from callmemaybe.tools import ToolCall
from tests.server.conftest import BERN, PARIS, PING, USER, WEATHER, Start, calling

HEAD = {"id", "object", "created", "model", "system_fingerprint", "service_tier", "choices"}
USAGE = {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details",
         "completion_tokens_details"}  # fmt: skip


def fold(chunks: list[dict[str, Any]], index: int = 0) -> dict[str, Any]:
    """Join the deltas of a choice, as a client does."""
    text: str | None = None
    calls: list[dict[str, Any]] = []
    finish = None
    for chunk in chunks:
        for choice in chunk["choices"]:
            if choice["index"] != index:
                continue
            delta = choice["delta"]
            if delta.get("content") is not None:
                text = (text or "") + delta["content"]
            for call in delta.get("tool_calls", []):
                if "id" in call:
                    assert call["index"] == len(calls)
                    assert call["function"]["arguments"] == ""
                    calls.append({"name": call["function"]["name"], "arguments": ""})
                else:
                    assert set(call) == {"index", "function"}
                    calls[call["index"]]["arguments"] += call["function"]["arguments"]
            assert finish is None, "nothing comes behind the finish reason"
            finish = choice["finish_reason"]
    return {"content": text, "calls": calls, "finish": finish}


def test_a_call_has_the_shape_of_the_api(start: Start) -> None:
    """Every member that OpenAI's clients know is there, and no other."""
    answer = start().chat(tools=[WEATHER]).json()
    assert set(answer) == HEAD | {"usage"}
    assert answer["object"] == "chat.completion"
    assert answer["id"].startswith("chatcmpl-")
    assert set(answer["usage"]) == USAGE
    assert answer["usage"]["total_tokens"] == (
        answer["usage"]["prompt_tokens"] + answer["usage"]["completion_tokens"]
    )
    (choice,) = answer["choices"]
    assert set(choice) == {"index", "message", "logprobs", "finish_reason"}
    assert (choice["finish_reason"], choice["logprobs"]) == ("tool_calls", None)
    message = choice["message"]
    assert (message["role"], message["content"], message["refusal"]) == ("assistant", None, None)
    (call,) = message["tool_calls"]
    assert call["type"] == "function"
    assert call["id"].startswith("call_")
    assert call["function"] == {"name": "get_weather", "arguments": '{"city": "Paris"}'}


def test_the_deltas_of_a_call_come_in_order(start: Start) -> None:
    """Role first, then the call's id and name with no arguments, then these; then the reason."""
    chunks = start().chunks(tools=[WEATHER], stream_options={"include_usage": True})
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    assert chunks[0]["choices"][0]["delta"] == {
        "role": "assistant", "content": None, "refusal": None,
    }  # fmt: skip
    (first,) = chunks[1]["choices"][0]["delta"]["tool_calls"]
    assert first["function"] == {"name": "get_weather", "arguments": ""}
    assert (first["index"], first["type"]) == (0, "function")
    assert chunks[-2]["choices"][0]["delta"] == {}
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["choices"] == []
    assert set(chunks[-1]["usage"]) == USAGE
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert json.loads(fold(chunks)["calls"][0]["arguments"]) == {"city": "Paris"}


def test_usage_comes_only_where_it_is_asked_for(start: Start) -> None:
    """Without stream_options no chunk has a usage."""
    assert not any("usage" in chunk for chunk in start().chunks(tools=[WEATHER]))


@pytest.mark.parametrize("wish", [calling(PARIS), calling(PARIS, BERN), ("Grüße 🌍\n",), ("",)])
def test_a_stream_and_a_whole_say_the_same(start: Start, wish: Any) -> None:
    """The deltas joined are the message."""
    server = start(wish)
    message = server.chat(tools=[WEATHER]).json()["choices"][0]
    folded = fold(server.chunks(tools=[WEATHER]))
    assert folded["finish"] == message["finish_reason"]
    assert (folded["content"] or None) == (message["message"]["content"] or None)
    told = [call["function"] for call in message["message"].get("tool_calls", [])]
    assert folded["calls"] == told


def test_parallel_calls_have_indices_and_ids_of_their_own(start: Start) -> None:
    """Several calls of one turn are told apart; with parallel_tool_calls false there is one."""
    server = start(calling(PARIS, BERN))
    calls = server.chat(tools=[WEATHER]).json()["choices"][0]["message"]["tool_calls"]
    assert [json.loads(call["function"]["arguments"])["city"] for call in calls] == [
        "Paris",
        "Bern",
    ]
    assert len({call["id"] for call in calls}) == 2
    one = server.chat(tools=[WEATHER], parallel_tool_calls=False).json()
    assert len(one["choices"][0]["message"]["tool_calls"]) == 1


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("none", []),
        ("required", ["get_weather"]),
        ({"type": "function", "function": {"name": "ping"}}, ["ping"]),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
            {"type": "function", "function": {"name": "ping"}}]}}, ["ping"]),
    ],
)  # fmt: skip
def test_the_choice_of_a_tool_is_kept(start: Start, choice: Any, names: list[str]) -> None:
    """Whatever the model would rather say."""
    answer = start().chat(
        tools=[WEATHER, PING], tool_choice=choice, parallel_tool_calls=False, max_tokens=200
    ).json()  # fmt: skip
    message = answer["choices"][0]["message"]
    assert [call["function"]["name"] for call in message.get("tool_calls", [])] == names


def test_what_is_cut_off_is_never_a_call(start: Start) -> None:
    """Too few tokens give the reason "length" and no call; in a stream nothing of one."""
    server = start(calling(ToolCall("get_weather", '{"city": "Paris is a city", "days": 12}')))
    finishes = []
    for most in range(1, 60, 2):
        choice = server.chat(tools=[WEATHER], max_tokens=most).json()["choices"][0]
        folded = fold(server.chunks(tools=[WEATHER], max_completion_tokens=most))
        assert folded["finish"] == choice["finish_reason"]
        finishes.append(choice["finish_reason"])
        if choice["finish_reason"] == "tool_calls":
            assert json.loads(folded["calls"][0]["arguments"])["days"] == 12
            continue
        assert "tool_calls" not in choice["message"]
        assert folded["calls"] == []
    assert set(finishes) == {"length", "tool_calls"}
    assert finishes == sorted(finishes), "more tokens never make it worse"


def test_text_that_is_cut_off_says_so(start: Start) -> None:
    """An answer in text of so many tokens (the one that ends it among them), and the reason."""
    answer = start(("Hello, this is a long answer",)).chat(max_tokens=5).json()
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["choices"][0]["message"]["content"] in {"Hell", "Hello"}
    assert answer["usage"]["completion_tokens"] == 5


@pytest.mark.parametrize("stop", ["long", ["xyz", "long"], ["a long", "long"]])
def test_text_ends_where_it_is_to_stop(start: Start, stop: Any) -> None:
    """The stop and what follows is not told, in streams neither; the reason is "stop"."""
    server = start(("This is a long answer",))
    choice = server.chat(stop=stop).json()["choices"][0]
    assert choice["message"]["content"] in {"This is a ", "This is "}
    assert choice["finish_reason"] == "stop"
    assert fold(server.chunks(stop=stop))["content"] == choice["message"]["content"]


def test_choices_are_as_many_as_asked_for(start: Start) -> None:
    """Each with its index, whole and streamed; the prompt is counted once."""
    server = start()
    one = server.chat(tools=[WEATHER]).json()["usage"]
    answer = server.chat(tools=[WEATHER], n=3).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert answer["usage"]["prompt_tokens"] == one["prompt_tokens"]
    assert answer["usage"]["completion_tokens"] == 3 * one["completion_tokens"]
    chunks = server.chunks(tools=[WEATHER], n=3)
    assert all(fold(chunks, index)["finish"] == "tool_calls" for index in range(3))


def test_equal_seeds_give_equal_answers(start: Start) -> None:
    """With a temperature, and for each choice another; negative seeds will do."""
    server = start()
    for seed in (7, -(2**40)):
        found = []
        for _ in range(2):
            answer = server.chat(seed=seed, temperature=2, max_tokens=12, n=2,
                                 messages=[{"role": "user", "content": "?"}]).json()  # fmt: skip
            found.append([choice["message"]["content"] for choice in answer["choices"]])
        assert found[0] == found[1]


def test_probabilities_of_tokens_are_told(start: Start) -> None:
    """One entry for each token of the text, whose bytes joined are the text; so in streams."""
    server = start(("Grüße",))
    answer = server.chat(logprobs=True, top_logprobs=3).json()["choices"][0]
    content = answer["logprobs"]["content"]
    assert b"".join(bytes(one["bytes"]) for one in content).decode() == "Grüße"
    assert all(one["logprob"] <= 0 and len(one["top_logprobs"]) == 3 for one in content)
    chunks = server.chunks(logprobs=True, top_logprobs=3)
    told = [one for chunk in chunks for choice in chunk["choices"]
            for one in (choice["logprobs"] or {"content": []})["content"]]  # fmt: skip
    assert told == content


@pytest.mark.parametrize(
    ("form", "wish", "text"),
    [
        ({"type": "text"}, "Hi", "Hi"),
        ({"type": "json_object"}, '{"a": 1}', '{"a": 1}'),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": {
            "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
            "additionalProperties": False}}}, '{"n": 12}', '{"n": 12}'),
        ({"type": "regex", "regex": "[a-c]{3}-[0-9]"}, "abc-7", "abc-7"),
        ({"type": "grammar", "grammar": 'start: "yes" | "no" " thanks"'}, "no thanks",
         "no thanks"),
    ],
)  # fmt: skip
def test_the_form_of_an_answer_is_kept(start: Start, form: Any, wish: str, text: str) -> None:
    """What fits is said as the model likes; the law of the form holds for a hostile model, too."""
    message = start((wish,)).chat(response_format=form).json()["choices"][0]["message"]
    assert message["content"] == text


def test_a_key_that_comes_twice_is_an_error(start: Start) -> None:
    """Told whole, such an answer is a 500 with its code; a stream tells the code in place of its end."""
    server = start(('{"a": 1, "a": 2}',))
    form = {"type": "json_object"}
    whole = server.chat(response_format=form)
    assert (whole.status_code, whole.json()["error"]["code"]) == (500, "repeated_key")
    lines = server.chat(stream=True, response_format=form).text.split("\n\n")
    *told, last = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert last["error"]["code"] == "repeated_key"
    assert fold(told)["finish"] is None
    events = server.events(text={"format": form})
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["code"] == "repeated_key"


def test_what_no_grammar_says_is_checked_before_it_is_told(start: Start) -> None:
    """A call, or an answer, that its schema forbids is an error; nothing of a call was streamed."""
    tags = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    schema = {"type": "object", "properties": {"tags": tags}, "required": ["tags"],
              "additionalProperties": False}  # fmt: skip
    tool = {"type": "function", "function": {"name": "tag", "parameters": schema}}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    wrong, right = '{"tags": [1, 1]}', '{"tags": [1, 2]}'
    for asked, bad, good in (
        ({"tools": [tool]}, calling(ToolCall("tag", wrong)), calling(ToolCall("tag", right))),
        ({"response_format": form}, (wrong,), (right,)),
    ):
        assert start(good).chat(**asked).status_code == 200
        server = start(bad)
        whole = server.chat(**asked)
        assert (whole.status_code, whole.json()["error"]["code"]) == (400, "unmet_schema")
        assert "[1,1] has non-unique elements" in whole.json()["error"]["message"]
        lines = server.chat(stream=True, **asked).text.split("\n\n")
        *told, last = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
        assert last["error"]["code"] == "unmet_schema"
        found = fold(told)
        assert found["finish"] is None
        assert found["calls"] == []


def test_a_form_and_tools_are_one_language(start: Start) -> None:
    """With tools, an answer is a call or fits the form."""
    form = {"type": "regex", "regex": "(yes|no)"}
    called = start().chat(tools=[WEATHER], response_format=form).json()["choices"][0]
    assert called["finish_reason"] == "tool_calls"
    said = start(("yes",)).chat(tools=[WEATHER], response_format=form).json()["choices"][0]
    assert (said["finish_reason"], said["message"]["content"]) == ("stop", "yes")


def test_a_conversation_goes_on(start: Start) -> None:
    """The results of calls reach the model, which then answers."""
    server = start(calling(PARIS), ("It rains.",))
    message = server.chat(tools=[WEATHER]).json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "rain"}
    answer = server.chat(tools=[WEATHER], messages=[*USER, message, result]).json()
    assert answer["choices"][0]["message"]["content"] == "It rains."


@pytest.mark.parametrize(
    ("message", "call", "function"),
    [
        # openai's parse, and its stream helper, whose calls keep their number
        ({"content": None, "parsed": None, "refusal": None},
         {"index": 0}, {"parsed_arguments": {"city": "Paris"}}),
        # LiteLLM
        ({"provider_specific_fields": {"refusal": None}, "annotations": []}, {}, {}),
        # what dumps of types that this server does not know have besides
        ({"reasoning_content": None, "audio": None}, {"caller": None}, {"extra": None}),
    ],
)  # fmt: skip
def test_what_clients_make_of_an_answer_may_be_sent_back(
    start: Start, message: dict[str, Any], call: dict[str, Any], function: dict[str, Any]
) -> None:
    """It says nothing that the text beside it does not say, so the prompt is the same."""
    server = start(calling(PARIS), ("It rains.",))

    def ask(message: dict[str, Any], call: dict[str, Any], function: dict[str, Any]) -> Any:
        made = {"id": "call_1", "type": "function",
                "function": {"name": PARIS.name, "arguments": PARIS.arguments, **function},
                **call}  # fmt: skip
        return server.chat(tools=[WEATHER], messages=[
            *USER, {"role": "assistant", "tool_calls": [made], **message},
            {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
        ])  # fmt: skip

    plain, echoed = ask({}, {}, {}), ask(message, call, function)
    assert echoed.status_code == 200, echoed.text
    assert echoed.json()["choices"] == plain.json()["choices"]
    assert echoed.json()["usage"]["prompt_tokens"] == plain.json()["usage"]["prompt_tokens"]
    refused = ask({"mood": "glad"}, {}, {})
    assert refused.status_code == 400  # what says something is not left out in silence
    assert refused.json()["error"]["param"] == "messages[1].mood"


def test_steps_are_told_to_who_asks(start: Start) -> None:
    """The extension tells every step, and at the end the distribution over the functions."""
    chunks = start().chunks(tools=[WEATHER, PING], callmemaybe={"steps": True})
    told = [chunk["callmemaybe"] for chunk in chunks if "callmemaybe" in chunk]
    steps = [step for one in told for step in one.get("steps", ())]
    written = b"".join(bytes.fromhex(step["hex"]) for step in steps)
    assert b'{"name": "get_weather", "arguments": {"city": "Paris"}}' in written
    assert {step["kind"] for step in steps} >= {"forced", "chosen"}
    end = told[-1]["end"]
    assert {name for name, _ in end["distribution"]} == {"get_weather", "ping", None}
    assert sum(step["passes"] for step in steps) == end["passes"]


def test_of_many_mistakes_only_the_first_is_made_out(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body has room for a million; to list them took the event loop seconds, and all others with it."""
    counts: list[int] = []
    told = request_models.validation_error

    def count(error: ValidationError, data: Any) -> ApiError:
        counts.append(error.error_count())
        return told(error, data)

    monkeypatch.setattr(request_models, "validation_error", count)
    server = start()
    wrong: list[Any] = [0] * 1000
    good = {"model": "talker", "messages": USER}
    for path, body, param in (
        (ROUTE, {**good, "messages": wrong}, "messages[0]"),
        (ROUTE, {**good, "tools": wrong}, "tools[0]"),
        (ROUTE, {**good, "messages": [{"role": "user", "content": wrong}]},
         "messages[0].content[0]"),
        ("/v1/responses", {"model": "talker", "input": wrong}, "input[0]"),
    ):  # fmt: skip
        assert server.post(path, body).json()["error"]["param"] == param
    assert len(counts) == 4
    assert max(counts) < 10


#: A form of an answer.
FORM = {"type": "json_schema", "json_schema": {"name": "place", "schema": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
    "additionalProperties": False}}}  # fmt: skip


def test_many_results_out_of_order_keep_nobody_waiting() -> None:
    """Each result finds its call at once, however many there are; a last one is missed by name."""
    count = 30_000
    calls = [{"id": f"c{at}"} for at in range(count)]
    results = [{"role": "tool", "tool_call_id": f"c{at}"} for at in reversed(range(1, count))]
    history = [*USER, {"role": "assistant", "tool_calls": calls}, *results]
    model: Any = SimpleNamespace(is_single_request=False)
    began = time.process_time()
    with pytest.raises(ApiError, match="'c0' has no result"):
        check_history(history, "messages", model)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("more", [{}, {"tools": [WEATHER]}, {"response_format": FORM}])
def test_a_conversation_may_end_with_what_the_model_said(
    start: Start, more: dict[str, Any]
) -> None:
    """The model says something more, in a turn of its own (LangGraph asks for an object behind an answer)."""
    said = ('{"city": "Paris"}',) if "response_format" in more else ("It rains.",)
    server = start(said)
    messages = [*USER, {"role": "assistant", "content": "Rain in Paris."}]
    answer = server.chat(messages=messages, **more)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == said[0]


def test_what_is_encoded_is_refused_by_the_name_of_its_encoding(start: Start) -> None:
    """A body in gzip is no broken text; "identity" says that it is not encoded."""
    server = start()
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    body = json.dumps({"model": "talker", "messages": USER}).encode()
    response = server.client.post(ROUTE, content=gzip.compress(body), headers=headers)
    assert response.status_code == 415
    error = response.json()["error"]
    assert error["code"] == "unsupported_content_encoding"
    assert "gzip" in error["message"]
    headers["content-encoding"] = "identity"
    assert server.client.post(ROUTE, content=body, headers=headers).status_code == 200
