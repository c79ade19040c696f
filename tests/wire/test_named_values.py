"""Values that a request must name: which are named, against an obvious oracle, and what a call may then say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmemaybe import Caller, load_model
from callmemaybe.wire.named_values import is_named, lacks_a_name, named_values

DEVICES = ["Bedroom Lamp", "Kitchen Countertop", "Ceiling Fan", "TV", "Living Room Lamp"]
AREAS = ["Bedroom", "Kitchen", "Living Room"]


def listed(values: list[str], ground: str = "prompt") -> dict[str, Any]:
    """Return the schema of one of these values, which the request must name."""
    return {"type": "string", "enum": values, "x-ground": ground}


HOME = {"device": listed(DEVICES), "area": listed(AREAS)}


@pytest.mark.parametrize(
    ("request_", "devices", "areas"),
    [
        ("turn the bedroom lamp off", ["Bedroom Lamp"], []),
        ("Lights in the KITCHEN, please", [], ["Kitchen"]),
        ("the countertop please", ["Kitchen Countertop"], []),
        ("a lamp in the living room", ["Living Room Lamp"], []),
        ("any lamp", ["Bedroom Lamp", "Living Room Lamp"], []),
        ("the lamp of the kitchen", [], ["Kitchen"]),
        ("cieling fan", ["Ceiling Fan"], []),
        ("the TV and the ceiling fan", ["TV", "Ceiling Fan"], []),
        ("bedroom lamp and kitchen", ["Bedroom Lamp"], ["Kitchen"]),
        ("order a pizza", [], []),
        ("", [], []),
    ],
)
def test_what_is_named(request_: str, devices: list[str], areas: list[str]) -> None:
    """Whole values in any order and but for a letter; parts where the rest is a place; nothing within a longer value."""
    assert named_values(HOME, request_) == {"device": devices, "area": areas}


WORDS = st.sampled_from(["alpha", "bravo", "charlie", "delta", "echo"])
TEXTS = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)


@given(st.lists(TEXTS, min_size=1, max_size=6, unique=True), st.lists(WORDS, max_size=6))
def test_a_value_is_named_iff_its_words_are_there(values: list[str], words: list[str]) -> None:
    """Of one parameter: all of its words, and no longer value has them, too."""
    found = named_values({"one": listed(values)}, " ".join(words))["one"]
    there = [value for value in values if set(value.split()) <= set(words)]
    longest = [
        value for value in there
        if not any(set(value.split()) < set(other.split()) for other in there)
    ]  # fmt: skip
    assert sorted(found) == sorted(longest)[: len(found)]
    assert len(found) == min(len(longest), 6)


def test_other_schemas_are_left_alone() -> None:
    """Lists of numbers, free texts, and lists that need no name."""
    assert not is_named({"enum": ["a"]})
    assert not is_named({"enum": [1], "x-ground": "prompt"})
    assert not is_named({"type": "string", "x-ground": "prompt"})
    assert named_values({"a": {"enum": ["a"]}}, "a") == {}
    assert not lacks_a_name(
        {"properties": {"a": listed(["a"], "prompt-or-free")}, "required": ["a"]}, ""
    )


TOOLS: list[dict[str, Any]] = [
    {
        "name": "turn_on",
        "description": "Turn on a device or the lights of a room",
        "parameters": {"type": "object", "properties": HOME, "required": []},
    },
    {
        "name": "unlock",
        "description": "Unlock a door",
        "parameters": {"type": "object", "properties": {"door": listed(["Front Door"])}, "required": ["door"]},
    },
]  # fmt: skip


def test_calls_name_only_what_the_request_names() -> None:
    """An optional parameter is left out; a function that must name something is no choice beside others."""
    caller = Caller(load_model("nano"), TOOLS, no_call=True)
    lamp = caller.call("Turn on the bedroom lamp").call
    assert lamp is not None
    assert lamp.parsed == {"device": "Bedroom Lamp"}
    room = caller.call("Turn on the lights of the kitchen").call
    assert room is not None
    assert room.parsed == {"area": "Kitchen"}
    safe = caller.call("Unlock the safe")
    assert "unlock" not in safe.distribution
    assert safe.call is None or safe.call.name == "turn_on"


def test_where_no_function_is_left_the_reason_is_said() -> None:
    """And where a call must be made, any value will do."""
    assert Caller(load_model("nano"), TOOLS[1:], no_call=True).call("Unlock the safe").remarks == (
        "unlock needs a value for 'door', and the request has none",
    )
    must = Caller(load_model("nano"), TOOLS[1:]).call("Unlock the safe").call
    assert must is not None
    assert must.parsed == {"door": "Front Door"}
