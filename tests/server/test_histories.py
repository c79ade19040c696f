"""Conversations as other models and clients leave them behind are taken, not refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callmemaybe.server.earlier_calls import written_arguments
from tests.server.conftest import PARIS, PING, USER, VOCABULARY, WEATHER, Start, calling

FLAT_WEATHER = {"type": "function", **WEATHER["function"]}


def turn(id_: str, arguments: str = PARIS.arguments, **others: Any) -> list[dict[str, Any]]:
    """Return a call of the model with its result."""
    function = {"name": PARIS.name, "arguments": arguments}
    call = {"id": id_, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call], **others},
        {"role": "tool", "tool_call_id": id_, "content": "rain"},
    ]


def test_an_id_may_return_in_a_later_turn(start: Start) -> None:
    """Some models count their calls from 0 in each turn; each result belongs to the call before it."""
    server = start(("It rains.",))
    history = [*USER, *turn("call_0"), *USER, *turn("call_0")]
    assert server.chat(tools=[WEATHER], messages=history).status_code == 200
    items = [
        one
        for _ in range(2)
        for one in (
            {"role": "user", "content": "Weather?"},
            {"type": "function_call", "call_id": "c", "name": PARIS.name, "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "rain"},
        )
    ]
    assert server.respond(tools=[FLAT_WEATHER], input=items).status_code == 200


def test_an_id_stands_for_one_call_of_a_turn(start: Start) -> None:
    """Within a turn nobody could tell whose result it is; nor is a result taken twice."""
    server = start()
    said, result = turn("call_0")
    twice = {**said, "tool_calls": said["tool_calls"] * 2}
    for history, why in (
        ([*USER, twice, result, result], "stands for two calls"),
        ([*USER, said, result, result], "has its result already"),
    ):
        refused = server.chat(tools=[WEATHER], messages=history)
        assert refused.status_code == 400
        assert why in refused.json()["error"]["message"]


@pytest.mark.parametrize("broken", ['{"city": "Pari', r'{"city": "\q"}', "[1]", "Paris", "7"])
def test_arguments_that_are_no_object_are_read_as_text(start: Start, broken: str) -> None:
    """A call of another model may be cut off; its text stays, in an object that every format can write."""
    assert json.loads(written_arguments(broken)) == {"arguments": broken}
    server = start(("It rains.",))
    history = [*USER, *turn("call_0", broken)]
    plain = server.chat(tools=[WEATHER], messages=[*USER, *turn("call_0", "{}")])
    taken = server.chat(tools=[WEATHER], messages=history)
    assert taken.status_code == 200, taken.text
    tokens = [one.json()["usage"]["prompt_tokens"] for one in (plain, taken)]
    assert tokens[0] < tokens[1], "the text is part of the prompt"


@pytest.mark.parametrize("whole", ["", "null", "{}", PARIS.arguments, '{"a":1.50}'])
def test_arguments_that_are_an_object_stay_as_they_are(whole: str) -> None:
    """To the byte: they are quoted, not written anew."""
    assert written_arguments(whole) == whole


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_earlier_thoughts_may_be_sent_back(start: Start, field: str) -> None:
    """They are no part of the prompt: the model thinks anew."""
    server = start(("It rains.",))
    plain, echoed = (
        server.chat(tools=[WEATHER], messages=[*USER, *turn("call_0", **others)])
        for others in ({}, {field: "The user wants to know the weather."})
    )
    assert echoed.status_code == 200, echoed.text
    assert echoed.json()["usage"]["prompt_tokens"] == plain.json()["usage"]["prompt_tokens"]


def test_reasoning_items_and_what_asks_for_them_are_taken(start: Start) -> None:
    """As openai-agents sends them; thoughts are neither returned nor summarized."""
    server = start(calling(PARIS), ("It rains.",))
    thought = {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA", "content": None,
               "summary": [{"type": "summary_text", "text": "The weather."}]}  # fmt: skip
    asked = {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}}
    user = {"role": "user", "content": "Weather in Paris?"}
    plain = server.respond(tools=[FLAT_WEATHER], input=[user])
    whole = server.respond(tools=[FLAT_WEATHER], input=[user, thought], **asked)
    assert whole.status_code == 200, whole.text
    assert [item["type"] for item in whole.json()["output"]] == ["function_call"]
    assert whole.json()["usage"]["input_tokens"] == plain.json()["usage"]["input_tokens"]
    assert whole.json()["reasoning"]["summary"] is None
    refused = server.respond(input=[thought])
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "input"


def test_asking_for_thoughts_asks_for_no_probabilities(start: Start) -> None:
    """Both stand in one list."""
    answer = start(("Hello",)).respond(include=["reasoning.encrypted_content"]).json()
    assert not answer["output"][0]["content"][0]["logprobs"]


@pytest.mark.parametrize("most", [8193, 100_000, 2**31 - 1])
def test_more_tokens_than_there_are_means_all(start: Start, most: int) -> None:
    """Clients ask for the limit of the model that they know; the server gives what it has."""
    server = start(("Hello",))
    for limit in ("max_tokens", "max_completion_tokens"):
        answer = server.chat(**{limit: most}).json()
        assert answer["choices"][0]["finish_reason"] == "stop"
    whole = server.respond(max_output_tokens=most).json()
    assert whole["status"] == "completed"


def test_few_likely_tokens_may_be_asked_for(start: Start) -> None:
    """With the likeliest alone, high temperature changes nothing."""
    server = start()
    plain = server.chat(tools=[WEATHER, PING]).json()["choices"]
    for few in ({"top_k": 1}, {"min_p": 1}):
        drawn = server.chat(tools=[WEATHER, PING], temperature=2, seed=3, **few).json()["choices"]
        names = [one[0]["message"]["tool_calls"][0]["function"]["name"] for one in (plain, drawn)]
        assert names[0] == names[1]
    for all_ in ({"top_k": 0}, {"top_k": -1}, {"min_p": 0}):
        assert server.chat(tools=[WEATHER], temperature=1, seed=3, **all_).status_code == 200
    for wrong in ({"top_k": -2}, {"min_p": 1.5}):
        refused = server.chat(**wrong)
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == next(iter(wrong))


def test_a_bias_and_penalties_act_in_both_interfaces(start: Start) -> None:
    """A letter that is forbidden is not written; neutral values and calls stay as they are."""
    letter = str(VOCABULARY.encode(b"l")[0])
    server = start(("Hello",))
    few: dict[str, Any] = {"logit_bias": {letter: -100}}
    chat = server.chat(max_tokens=8, **few).json()["choices"][0]["message"]["content"]
    item = server.respond(max_output_tokens=8, **few).json()["output"][0]
    assert "l" not in chat + item["content"][0]["text"]
    neutral = {
        "frequency_penalty": 0,
        "presence_penalty": 0,
        "repetition_penalty": 1,
        "logit_bias": {},
    }
    assert server.chat(**neutral).json()["choices"][0]["message"]["content"] == "Hello"
    calling_server = start(calling(PARIS))
    strong = {"frequency_penalty": 2, "presence_penalty": 2, "repetition_penalty": 50}
    made = calling_server.chat(tools=[WEATHER], **strong).json()["choices"][0]["message"]
    assert made["tool_calls"][0]["function"]["arguments"] == PARIS.arguments
    for wrong in ({"top_k": -2}, {"min_p": 1.5}, {"presence_penalty": 3}):
        refused = server.respond(**wrong)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, next(iter(wrong)))
    assert (
        server.respond(top_k=1, temperature=2).json()["output"][0]["content"][0]["text"] == "Hello"
    )


def test_probabilities_of_a_calls_tokens_are_told(start: Start) -> None:
    """With `logprobs` a call has them as a text has, whole and in a stream; without, none."""
    server = start(calling(PARIS))
    choice = server.chat(tools=[WEATHER], logprobs=True, top_logprobs=2).json()["choices"][0]
    told = choice["logprobs"]["content"]
    written = b"".join(bytes(one["bytes"]) for one in told).decode()
    assert '"city": "Paris"' in written
    assert "get_weather" in written
    assert all(one["logprob"] <= 0 for one in told)
    chunks = server.chunks(tools=[WEATHER], logprobs=True, top_logprobs=2)
    streamed = [one for chunk in chunks for some in chunk["choices"]
                for one in (some["logprobs"] or {"content": []})["content"]]  # fmt: skip
    assert streamed == told
    cut = server.chat(tools=[WEATHER], logprobs=True, max_tokens=18).json()["choices"][0]
    assert cut["finish_reason"] == "length"
    assert not cut["logprobs"]["content"]
    assert server.chat(tools=[WEATHER]).json()["choices"][0]["logprobs"] is None
