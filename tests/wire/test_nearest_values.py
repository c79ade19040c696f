"""Which of many values a request names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from callmemaybe import Caller, load_model
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.formats import nano
from callmemaybe.wire.nearest_values import MOST, ValueIndex, words_of

WORDS = ["kitchen", "bedroom", "hall", "lamp", "light", "fan", "left", "old", "k", "2"]
VALUES = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join), min_size=1, unique=True
)


@given(VALUES, st.data())
def test_what_is_named_word_for_word_is_found(values: list[str], data: st.DataObject) -> None:
    """Whatever else there is, the longest value that a request holds is among those that it may name."""
    value = data.draw(st.sampled_from(values))
    before, after = data.draw(st.sampled_from(["", "turn on the ", "please "])), " now"
    found = [values[at] for at in ValueIndex(values).named(before + value.upper() + after)]
    assert value in found


@given(VALUES, st.text(max_size=80))
def test_any_request_has_an_answer(values: list[str], request: str) -> None:
    """Positions of the list, none twice; nothing where no word is shared, nor nearly shared."""
    found = ValueIndex(values).named(request)
    assert len(found) == len(set(found))
    assert all(0 <= at < len(values) for at in found)
    said = words_of(request)
    assume(all(len(word) < 3 or not set(word) & set("".join(WORDS)) for word in said))
    assume(not set(said) & set(WORDS))
    assert not found


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("turn on the kitchen ceiling light", ["light.kitchen_ceiling"]),
        ("turn on the kitchne ceiling light", ["light.kitchen_ceiling"]),
        ("kitchen lamp, please", ["kitchenLamp"]),
        ("ring josé o'neil", ["Jose O'Neil"]),
        ("the hall fan and the kitchen lamp", ["hall fan", "kitchenLamp"]),
        ("can you help", []),
        ("", []),
    ],
)
def test_spellings(request_text: str, expected: list[str]) -> None:
    """Identifiers, accents, case, one letter wrong, several values; a common short word is no misspelling."""
    values = [
        "light.kitchen_ceiling",
        "kitchenLamp",
        "Jose O'Neil",
        "hall fan",
        "hall",
        "\u2603",
        "",
    ]
    values = [value for value in values if value != "light.kitchen_ceiling"] + (
        ["light.kitchen_ceiling"] if "ceiling" in request_text else []
    )
    named = ValueIndex(values).named(request_text)
    found = [values[at] for at in named]
    assert found[: len(expected)] == expected
    assert expected or not found


def test_words_in_another_order_are_near() -> None:
    """Where nothing stands word for word, the nearest come first, and few."""
    values = [
        f"{room} {thing}"
        for room in ("hall", "attic", "cellar")
        for thing in ("lamp", "fan", "bell")
    ]
    found = [values[at] for at in ValueIndex(values).named("the lamp in the attic")]
    assert found[0] == "attic lamp"
    assert len(found) <= MOST


def _tool(values: list[Any], name: str = "turn_on", **more: Any) -> ToolSpec:
    parameters = {"type": "object", "properties": {"device": {"enum": values, **more}}}
    return ToolSpec(name, "Turn a device on.", parameters | {"required": ["device"]})


@pytest.mark.parametrize("values", [list(range(100, 400)), [f"lamp {n}" for n in range(300)]])
def test_a_form_shows_what_is_named(values: list[Any]) -> None:
    """Of too many values, the form has the named ones and the prompt their kind; of few, both have all."""
    tool = _tool(values)
    text = "".join(part for part in nano.prefix([tool], None) if isinstance(part, str))
    assert str(values[7]) not in text.split("\n")[-1]
    assert nano.has_many_values(tool)
    assert nano.form(tool, "turn on 107, will you, or lamp 107") in {
        "device 107",
        'device "lamp 107"',
    }
    assert nano.form(tool) == f"device {'any' if isinstance(values[0], int) else 'string'}"
    few = _tool(values[:3])
    assert not nano.has_many_values(few)
    assert nano.form(few, "anything") == nano.form(few)


def test_one_of_a_thousand_is_called() -> None:
    """The embedded model takes the value that is named, also after requests that named others."""
    rooms = [f"{side} {room}" for side in ("north", "south", "east", "west") for room in
             ("attic", "cellar", "kitchen", "nursery", "garage", "porch", "larder", "studio", "library", "shed")]  # fmt: skip
    things = [
        "lamp",
        "heater",
        "fan",
        "speaker",
        "socket",
        "radio",
        "curtain",
        "camera",
        "kettle",
        "bell",
    ]
    values = [f"{room} {thing} {n}" for room in rooms for thing in things for n in (1, 2, 3)][:1000]
    caller = Caller(load_model("nano"), [_tool(values), ToolSpec("get_time", "What time it is.")])
    for value in values[::125]:
        call = caller.call(f"turn on the {value}").call
        assert call is not None
        assert (call.name, json.loads(call.arguments)) == ("turn_on", {"device": value})


def test_a_long_word_takes_no_more_than_its_length() -> None:
    """A value of a million letters, in a schema or a request, is a word among others, and found as it is."""
    long = "x" * 10**6
    index = ValueIndex([long, "kitchen"])
    assert sum(map(len, index._misspelt)) < 2 * len(long)
    assert index.named(f"the kitchan and {long}") == [1, 0]
    assert index.named("y" * 10**6) == []
