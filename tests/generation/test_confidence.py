"""How likely a whole answer is right: what it is told from, and what is done with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmemaybe.caller import Caller, load_model
from callmemaybe.errors import InputError, ModelError
from callmemaybe.generation.confidence import (
    CALL_FEATURES,
    NO_CALL_FEATURES,
    CallConfidence,
    LogisticRegression,
    call_features,
    no_call_features,
)
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.tools import ToolCall, ToolSpec, tool_specs


def get_weather(city: str, days: int = 1) -> None:
    """Get the weather in a city."""


def send_message(to: str, text: str) -> None:
    """Send a message to a person."""


TOOLS = tool_specs([get_weather, send_message])
CHANCES = st.floats(0, 1)


def features(request: str, /, **arguments: Any) -> dict[str, float]:
    """What is told of a call of get_weather."""
    call = ToolCall("get_weather", json.dumps(arguments))
    return call_features(request, TOOLS, call, {"get_weather": 0.9, None: 0.1}, [-0.1])


@given(
    st.text(max_size=50),
    st.text(max_size=20),
    CHANCES,
    st.lists(st.floats(max_value=0), max_size=4),
)
def test_every_answer_has_all_features(
    request: str, value: str, chance: float, logprobs: list[float]
) -> None:
    """They are finite numbers, whatever the request, the values and the probabilities are."""
    call = ToolCall("get_weather", json.dumps({"city": value, "days": None, "more": [{"a": 1.5}]}))
    distribution = {"get_weather": chance, None: 1 - chance}
    found = call_features(request, TOOLS, call, distribution, logprobs)
    assert found.keys() >= {*CALL_FEATURES}
    none = no_call_features(request, TOOLS, distribution)
    assert none.keys() == {*NO_CALL_FEATURES}
    assert all(abs(one) < 1e4 for one in (*found.values(), *none.values()))


def test_where_values_come_from() -> None:
    """A value that stands in the request is copied; one from a description, or from nowhere, is not."""
    assert features("weather in Paris", city="Paris")["copied"] == 1
    assert features("weather in Paris", city="Oslo")["invented"] == 1
    assert features("weather in Paris", city="a city")["invented"] == 1
    tool = ToolSpec("f", "", {"type": "object", "properties": {"a": {"type": "string", "description": "City, State"}}})  # fmt: skip
    call = ToolCall("f", '{"a": "City, State"}')
    assert call_features("now", [tool], call, {"f": 1.0}, [])["hinted"] == 1
    assert features("weather for 3 days", days=4)["computed"] == 1
    assert features("weather for 3 days", days=4)["numbers_left"] > 0
    assert features("weather in Paris and", city="Paris and")["odd_ends"] == 1


def test_a_regression_is_what_its_file_says() -> None:
    """The logarithm of the odds is the bias and each feature, shifted, scaled and weighted."""
    value = {"bias": 0.5, "features": {"chance": [0.5, 0.25, 2.0]}}
    found = LogisticRegression.from_json(value, CALL_FEATURES)
    assert found.probability({"chance": 0.5}) == pytest.approx(1 / (1 + 2.718281828**-0.5))
    assert found.probability({"chance": 0.75}) == pytest.approx(1 / (1 + 2.718281828**-2.5))


@pytest.mark.parametrize(
    "value",
    [
        {"call": 1},
        {"call": {"bias": 0, "features": {"no_such": [0, 1, 1]}}, "no_call": {}},
        {"call": {"bias": 0, "features": {"chance": [0, 1]}}, "no_call": {}},
        {"call": {"bias": "x", "features": {}}},
    ],
)
def test_a_file_of_another_form_is_said(value: dict[str, Any]) -> None:
    """A broken file is the model's fault, with what to do; without a file nothing is stated."""
    with pytest.raises(ModelError, match=r"confidence\.json"):
        CallConfidence.from_json(value)
    assert CallConfidence.from_json({}) is None


class Stated:
    """States one probability of every answer."""

    def __init__(self, chance: float) -> None:
        self.chance = chance

    def of(self, *_: Any) -> float:
        return self.chance


def test_calls_that_are_too_unlikely_are_not_made() -> None:
    """Below the least probability there is no call, and the result says so; a call that is as likely is made."""
    caller = Caller(load_model("nano"), TOOLS, decoding=DecodingConfig(min_confidence=0.5))
    for chance, is_made in ((0.5, True), (0.49, False)):
        caller.generator._confidence = Stated(chance)  # type: ignore[attr-defined]
        found = caller.call("What's the weather in Paris?")
        assert (found.call is not None) is is_made
        assert found.confidence == chance
        assert any("0.49, below 0.50" in remark for remark in found.remarks) is not is_made


@pytest.mark.parametrize("least", [-0.1, 1.1, "x", float("nan")])
def test_a_least_probability_is_one(least: Any) -> None:
    """Anything else is the caller's mistake, by name."""
    with pytest.raises(InputError, match="min_confidence"):
        DecodingConfig(min_confidence=least)
