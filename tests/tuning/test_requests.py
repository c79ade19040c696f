"""Requests that are made up say what their calls hold, and lists of them are always the same."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

import callmemaybe
from callmemaybe.tools import ToolSpec
from callmemaybe.tools.schemas import validator_for
from callmemaybe.tuning.examples import Example, ExampleCall
from callmemaybe.tuning.lists import PAIRS, RequestLists, own_lists, varied
from callmemaybe.tuning.packing import Encoder
from callmemaybe.tuning.requests import RequestWriter, phrases_of, words_of

NANO = Path(callmemaybe.__file__).parent / "data" / "nano"
WEATHER = ToolSpec(
    "get_weather", "Returns the weather of a city.", {
        "type": "object",
        "properties": {
            "city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}, "days": {"type": "integer", "minimum": 1, "maximum": 7},
            "wind": {"type": "boolean"}, "stations": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city"],
    },
)  # fmt: skip
TAXI = ToolSpec("orderTaxi", "Orders a taxi", {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]})  # fmt: skip
PHOTO = ToolSpec("send_photo", "", {"type": "object", "properties": {"data": {"type": "object"}}, "required": ["data"]})  # fmt: skip


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    """The encoder of the embedded model."""
    return Encoder(Tokenizer.from_file(str(NANO / "tokenizer.json")))


@given(st.integers(0, 10_000))
@settings(max_examples=150, deadline=None)
def test_a_made_up_request_is_valid_and_says_its_texts(seed: int) -> None:
    """The call meets its schema; texts and numbers of it stand in the request."""
    made = RequestWriter([WEATHER]).request(WEATHER, Random(seed))
    assert made is not None
    arguments = made.calls[0].arguments
    assert validator_for(WEATHER.schema).is_valid(dict(arguments))
    said = made.prompt.lower()
    assert str(arguments["city"]).lower() in said
    for key in ("unit", "days"):
        assert key not in arguments or str(arguments[key]) in said
    for station in arguments.get("stations", ()):
        assert station.lower() in said


def test_nothing_is_made_up_for_a_value_that_has_no_words() -> None:
    """A function that requires an object has no made-up requests."""
    assert RequestWriter([PHOTO]).request(PHOTO, Random(1)) is None


def test_phrases_come_from_the_name_and_the_description() -> None:
    """Verbs become imperatives, what is asked for is known, and a parameter is not said twice."""
    assert words_of("api.getWeather_forCity2") == ["get", "weather", "for", "city", "2"]
    phrases = phrases_of(WEATHER)
    assert ("weather", True) in phrases
    assert ("get the weather", False) in phrases
    assert not any("city" in phrase for phrase, _ in phrases)
    assert ("order a taxi", False) in phrases_of(TAXI)
    assert phrases_of(ToolSpec("_")) == [("do it", False)]
    odd = {"type": "object", "properties": {"Ω(": {"type": "string"}}}
    assert phrases_of(ToolSpec("m", "Measures it", odd))[0] == ("m", False)


def test_a_list_depends_on_its_number_and_the_seed_alone(encoder: Encoder) -> None:
    """The same number gives the same ids; another number and another seed give others."""
    examples = [Example("cab to Oslo", (ExampleCall("orderTaxi", {"to": "Oslo"}),)), Example("hi")]
    lists = RequestLists([WEATHER, TAXI, PHOTO], examples, encoder, 1)
    again = RequestLists([WEATHER, TAXI, PHOTO], examples, encoder, 1)
    other = RequestLists([WEATHER, TAXI, PHOTO], examples, encoder, 2)

    def ids(source: RequestLists, number: int) -> list[list[int]]:
        return [pair.ids for pair in source.draw(number).pairs]

    assert ids(lists, 3) == ids(again, 3) != ids(other, 3)
    assert ids(lists, 4) != ids(lists, 3)
    assert len(lists.draw(5).pairs) == PAIRS


def test_every_kind_of_request_is_drawn(encoder: Encoder) -> None:
    """Over some lists: examples, made-up requests, and requests that nothing offered fits."""
    examples = [Example(f"cab number {n} to Oslo", (ExampleCall("orderTaxi", {"to": "Oslo"}),)) for n in range(9)]  # fmt: skip
    lists = RequestLists([WEATHER, TAXI], examples, encoder, 0)
    drawn = [(pair.pair, row.block) for row in map(lists.draw, range(30)) for pair in row.pairs]
    called = [block.tools[pair.calls[0][0]]["name"] for pair, block in drawn if pair.calls]
    assert {"get_weather", "orderTaxi"} == {*called}
    own = [pair for pair, _ in drawn if pair.calls and "cab number" in pair.prompt.lower()]
    assert 0.3 < len(own) / called.count("orderTaxi") < 0.95
    assert 0.05 < sum(not pair.calls for pair, _ in drawn) / len(drawn) < 0.35


@given(st.integers(0, 10_000))
@settings(max_examples=150, deadline=None)
def test_a_varied_example_still_says_its_values(seed: int) -> None:
    """Whatever is exchanged or written otherwise, each text of the call stands in the request."""
    values = {("orderTaxi", "to"): ["Oslo", "the Oslo Opera", "O'Neil's", "Bo"]}
    example = Example("A cab to Oslo, please.", (ExampleCall("orderTaxi", {"to": "Oslo"}),))
    made = varied(example, TAXI, values, Random(seed))
    assert made.calls[0].arguments["to"] in made.prompt
    assert made.prompt.lower().startswith("a cab to ")


def test_examples_that_measure_are_not_changed(encoder: Encoder) -> None:
    """What is looked at offers all functions, and holds each example once, as it is."""
    examples = [Example(f"taxi {n}", (ExampleCall("orderTaxi", {"to": str(n)}),)) for n in range(PAIRS + 3)]  # fmt: skip
    rows = list(own_lists([WEATHER, TAXI], examples, encoder))
    assert [pair.pair.prompt for row in rows for pair in row.pairs] == [e.prompt for e in examples]
    assert all(len(row.tools) == 2 for row in rows)


def test_examples_that_are_too_long_are_counted(encoder: Encoder) -> None:
    """A request of thousands of words is not trained on, and is counted; lists are full all the same."""
    long = Example("to Oslo " * 2000, (ExampleCall("orderTaxi", {"to": "Oslo"}),))
    lists = RequestLists([TAXI], [long, long], encoder, 0)
    assert lists.too_long == 2
    assert len(lists.draw(0).pairs) == PAIRS
    assert RequestLists([TAXI], [Example("taxi to Oslo")], encoder, 0).too_long == 0
