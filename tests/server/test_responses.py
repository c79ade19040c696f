"""The responses interface: items, events, and their order."""

from __future__ import annotations

from typing import Any

import pytest

from callmemaybe.tools import ToolCall
from tests.server.conftest import BERN, FLAT_WEATHER, PARIS, Start, calling

CALL = ["response.output_item.added", "response.function_call_arguments.delta",
        "response.function_call_arguments.done", "response.output_item.done"]  # fmt: skip
TEXT = ["response.output_item.added", "response.content_part.added", "response.output_text.delta",
        "response.output_text.done", "response.content_part.done",
        "response.output_item.done"]  # fmt: skip


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """Return the types in order, deltas that follow each other once."""
    found: list[str] = []
    for event in events:
        if not (found and found[-1] == event["type"] and event["type"].endswith(".delta")):
            found.append(event["type"])
    return found


@pytest.mark.parametrize(
    ("wish", "between"),
    [
        (calling(PARIS), CALL),
        (calling(PARIS, BERN), [*CALL, *CALL]),
        (("Hello",), TEXT),
    ],
)
def test_events_come_in_order(start: Start, wish: Any, between: list[str]) -> None:
    """Created, in progress, each item from added to done, completed; numbered without a gap."""
    events = start(wish).events(tools=[FLAT_WEATHER])
    assert kinds(events) == [
        "response.created", "response.in_progress", *between, "response.completed",
    ]  # fmt: skip
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


@pytest.mark.parametrize("wish", [calling(PARIS), calling(PARIS, BERN), ("Grüße 🌍",)])
def test_a_stream_and_a_whole_say_the_same(start: Start, wish: Any) -> None:
    """The deltas joined are the items, and those are in the last event, too."""
    server = start(wish)
    whole = server.respond(tools=[FLAT_WEATHER]).json()
    events = server.events(tools=[FLAT_WEATHER])
    final = events[-1]["response"]
    assert whole["status"] == final["status"] == "completed"
    for one, other in zip(whole["output"], final["output"], strict=True):
        skip = {"id", "call_id"}
        assert {k: v for k, v in one.items() if k not in skip} == {
            k: v for k, v in other.items() if k not in skip
        }
    assert [event["item"] for event in events if event["type"] == CALL[-1]] == final["output"]
    for at, item in enumerate(final["output"]):
        told = "".join(event["delta"] for event in events if event.get("output_index") == at
                       and event["type"].endswith(".delta"))  # fmt: skip
        text = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
        assert told == text


@pytest.mark.parametrize("most", [1, 5, 12, 20, 30])
def test_what_is_cut_off_is_incomplete(start: Start, most: int) -> None:
    """With the reason, and no call in the output; in streams nothing of one."""
    server = start(calling(ToolCall("get_weather", '{"city": "Paris is a city", "days": 12}')))
    whole = server.respond(tools=[FLAT_WEATHER], max_output_tokens=most).json()
    assert whole["status"] == "incomplete"
    assert whole["incomplete_details"] == {"reason": "max_output_tokens"}
    assert all(item["type"] == "message" for item in whole["output"])
    events = server.events(tools=[FLAT_WEATHER], max_output_tokens=most)
    assert events[-1]["type"] == "response.incomplete"
    assert "response.function_call_arguments.done" not in kinds(events)
    assert not any("function_call" in event["type"] for event in events)


def test_a_conversation_goes_on(start: Start) -> None:
    """What came out goes in again, with the results of the calls."""
    server = start(calling(PARIS, BERN), ("It rains in both.",))
    output = server.respond(tools=[FLAT_WEATHER]).json()["output"]
    results = [{"type": "function_call_output", "call_id": item["call_id"], "output": "rain"}
               for item in output]  # fmt: skip
    said = {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]}
    whole = server.respond(tools=[FLAT_WEATHER], input=[said, *output, *results]).json()
    assert whole["output"][0]["content"][0]["text"] == "It rains in both."


@pytest.mark.parametrize(
    ("output", "what"),
    [
        ([], "result"),
        (["call_1", "call_1"], "call_1"),
        (["call_1", "call_9"], "call_9"),
    ],
)
def test_results_belong_to_calls(start: Start, output: list[str], what: str) -> None:
    """A missing, a second and a foreign result are refused, by name."""
    items = [
        {"role": "user", "content": "Weather?"},
        {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"},
        *({"type": "function_call_output", "call_id": one, "output": "x"} for one in output),
    ]
    refused = start().respond(tools=[FLAT_WEATHER], input=items)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "input"
    assert what in refused.json()["error"]["message"]


def test_the_request_is_told_again(start: Start) -> None:
    """What was asked stands in the response, and what was left out, with its default."""
    whole = start().respond(
        tools=[FLAT_WEATHER], metadata={"a": "b"}, temperature=0.5, instructions="Be short.",
        text={"format": {"type": "text"}}, tool_choice={"type": "function", "name": "get_weather"},
    ).json()  # fmt: skip
    assert whole["metadata"] == {"a": "b"}
    assert whole["temperature"] == 0.5
    assert whole["instructions"] == "Be short."
    assert whole["tool_choice"] == {"type": "function", "name": "get_weather"}
    assert whole["tools"][0]["parameters"] == FLAT_WEATHER["parameters"]
    assert (whole["store"], whole["truncation"], whole["object"]) == (False, "disabled", "response")


def test_probabilities_are_told_where_they_are_asked_for(start: Start) -> None:
    """In the part that they belong to."""
    part = start(("Hello",)).respond(
        include=["message.output_text.logprobs"], top_logprobs=2
    ).json()["output"][0]["content"][0]  # fmt: skip
    assert b"".join(bytes(one["bytes"]) for one in part["logprobs"]) == b"Hello"
    assert all(len(one["top_logprobs"]) == 2 for one in part["logprobs"])


def test_errors_name_parameters_of_this_interface(start: Start) -> None:
    """Whatever chats call them, also where the mistake is found farther down."""
    server = start(context=300)
    form = {"type": "json_schema", "name": "x", "schema": {"type": "string", "minLength": 10**9}}
    call = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "1", "output": ""}
    for body, param in (
        ({"text": {"format": form}}, "text.format.schema"),
        ({"input": "a" * 1000}, "input"),
        ({"input": [call, result, result]}, "input"),
    ):
        refused = server.respond(**body)
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == param


def test_items_may_be_sent_back_as_clients_dump_them(start: Start) -> None:
    """With a null for whatever else their types can hold, and with what they parsed."""
    server = start(calling(PARIS), ("It rains.",))
    (call,) = server.respond(tools=[FLAT_WEATHER]).json()["output"]
    call |= {"caller": None, "async_": None, "namespace": None, "parsed_arguments": {"city": "P"}}
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
    items = [{"role": "user", "content": "Weather?"}, call, result]
    answer = server.respond(tools=[FLAT_WEATHER], input=items)
    assert answer.status_code == 200, answer.text
    (message,) = answer.json()["output"]
    assert message["content"][0]["text"] == "It rains."
    message["phase"] = None
    message["content"][0]["parsed"] = None
    items += [message, {"role": "user", "content": "And now?"}]
    assert server.respond(tools=[FLAT_WEATHER], input=items).status_code == 200
