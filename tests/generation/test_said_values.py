"""The embedded model writes the values that a request says, and calls nothing that it does not say enough for."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from callmemaybe import Caller, GroundingConfig, load_model
from callmemaybe.decoding import batch
from callmemaybe.errors import InputError
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.output_grammar import OutputSpec

NOW = datetime(2026, 11, 23, 10, 0, tzinfo=UTC)
ALARM = ToolSpec("set_alarm", "Set an alarm at a time.", {
    "type": "object", "properties": {"time": {"type": "string", "format": "date-time"}}, "required": ["time"]})  # fmt: skip
EGGS = ToolSpec("order_eggs", "Order eggs.", {
    "type": "object", "properties": {"count": {"type": "integer", "minimum": 1}}, "required": ["count"]})  # fmt: skip
HEATING = ToolSpec("set_heating", "Set the temperature of a room.", {
    "type": "object", "properties": {"room": {"type": "string"}, "celsius": {"type": "number", "minimum": 5, "maximum": 30}},
    "required": ["room", "celsius"]})  # fmt: skip
RANGE = (
    "set_heating needs a number that it may be for 'celsius' (at least 5 and at most 30; it says 50), "
    "and the request has none"
)
TOOLS = [ALARM, EGGS, HEATING]


def _caller(**settings: Any) -> Caller:
    return Caller(
        load_model("nano"), TOOLS, no_call=True, grounding=GroundingConfig(now=NOW, **settings)
    )


@pytest.mark.parametrize(
    ("request_", "name", "arguments"),
    [
        ("Wake me tomorrow at 5pm", "set_alarm", {"time": "2026-11-24T17:00:00Z"}),
        ("Set an alarm for half past six", "set_alarm", {"time": "2026-11-24T06:30:00Z"}),
        ("I need two dozen eggs", "order_eggs", {"count": 24}),
        ("Set the kitchen to twenty one and a half degrees", "set_heating", {"room": "kitchen", "celsius": 21.5}),
    ],
)  # fmt: skip
def test_what_is_said_is_written(request_: str, name: str, arguments: dict[str, Any]) -> None:
    """Days, times and numbers in words are those of the request."""
    call = _caller().call(request_).call
    assert call is not None
    assert (call.name, json.loads(call.arguments)) == (name, arguments)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ("Set an alarm", "set_alarm needs a date or a time for 'time', and the request has none"),
        ("Set the kitchen to 50 degrees", RANGE),
    ],
)  # fmt: skip
def test_what_is_not_said_is_not_invented(request_: str, why: str) -> None:
    """The function that fits is not called, and the result says what is missing."""
    result = _caller().call(request_)
    assert result.call is None
    assert result.remarks == (why,)


def test_where_a_call_must_be_made_one_is_made() -> None:
    """A caller without no_call gets a call for each request, as before."""
    caller = Caller(load_model("nano"), TOOLS, grounding=GroundingConfig(now=NOW))
    assert caller.call("Set an alarm").call is not None


def test_reading_can_be_switched_off() -> None:
    """Then the schema alone counts."""
    call = _caller(read_values=False).call("Set the kitchen to 50 degrees").call
    assert call is not None
    assert json.loads(call.arguments)["celsius"] <= 30


def test_turns_of_a_conversation_read_the_last_request() -> None:
    """Streams tell of no call that is not made."""
    generator = LocalGenerator(load_model("nano"), grounding=GroundingConfig(now=NOW))
    messages = [{"role": "user", "content": "Set an alarm"}]
    stream = generator.stream(messages, TOOLS, OutputSpec(no_call=True))
    assert [event for events in stream for event in events] == []
    assert stream.result.calls == ()
    assert stream.result.ended == "stop"
    assert stream.result.remarks == (
        "set_alarm needs a date or a time for 'time', and the request has none",
    )


def test_the_clock_is_a_datetime() -> None:
    """A text would be read by nobody."""
    with pytest.raises(InputError, match="now: a datetime is needed"):
        GroundingConfig(now="2026-11-23")  # type: ignore[arg-type]


def test_requests_with_constraints_of_their_own_share_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Law: whoever lets others run while an automaton is built keeps nothing that they wait for."""
    monkeypatch.setattr(batch, "STEPS_PER_TURN", 1)
    requests = [f"Order {count} eggs" for count in range(1, 9)]
    counts: list[int] = []

    def work() -> None:
        for outcome in _caller().call_many(requests, at_once=8):
            assert outcome.call is not None
            counts.append(json.loads(outcome.call.arguments)["count"])

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(120)
    assert counts == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_language_that_is_not_read_is_refused() -> None:
    """The result says so; where a call must be made, or functions are described in that language, it is made."""
    lights = ToolSpec("turn_on_light", "Turn on the light of a room.", {
        "type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]})  # fmt: skip
    valot = replace(
        lights, name="sytyta_valot", description="Sytyttää valot, jos on pimeä ja kello on paljon."
    )
    text, model = "Sytytä keittiön valot", load_model("nano")
    told = Caller(model, [lights], no_call=True).call(text)
    assert told.call is None
    assert told.remarks == (
        "the request seems to be in Finnish, and the model reads English, French, German and Spanish",
    )
    assert Caller(model, [lights]).call(text).call is not None
    assert Caller(model, [valot], no_call=True).call(text).call is not None


def test_the_opposite_is_not_done() -> None:
    """A function near what is said, but for one word that says the opposite, is not called; the result says why."""
    block = ToolSpec("block_ip", "Block an address.", {
        "type": "object", "properties": {"ip": {"type": "string"}}, "required": ["ip"]})  # fmt: skip
    caller = Caller(load_model("nano"), [block, EGGS], no_call=True)
    assert caller.call("Block 10.0.0.7").call is not None
    told = caller.call("Unblock 10.0.0.7")
    assert told.call is None
    assert told.remarks == (
        "block_ip would block, the opposite of what the request says (unblock)",
    )
