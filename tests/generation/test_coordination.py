"""Lists in a request, and parts that only say what is different: which texts are asked about."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmemaybe.generation.coordination import MOST_CARRIED, carried, coordinations, one_by_one


def apart(text: str, /, **arguments: Any) -> list[str]:
    """The texts of a request whose call had these arguments."""
    lists = coordinations(text, arguments)
    return one_by_one(text, lists) if lists else []


@pytest.mark.parametrize("value", ["Paris", "Rome", "Paris, New York", "Paris, New York and Rome"])
def test_a_list_is_found_from_any_of_its_things(value: str) -> None:
    """Whichever of them the model took, alone or with others, each is asked about by itself."""
    found = apart("Rain in Paris, New York and Rome?", city=value)
    assert found == ["Rain in Paris?", "Rain in New York?", "Rain in Rome?"]


@pytest.mark.parametrize(
    ("text", "arguments", "wanted"),
    [
        (
            "play songs of Sade and Maroon 5 for 20 and 15 minutes respectively",
            {"artist": "Sade", "minutes": 20},
            ["play songs of Sade for 20 minutes", "play songs of Maroon 5 for 15 minutes"],
        ),
        (
            "lift of six reps at 209 kg and at 108 kg",
            {"load": 108, "reps": 6},
            ["lift of six reps at 209 kg", "lift of six reps at 108 kg"],
        ),
        (
            "Rain in Paris, France and in Rome, Italy?",
            {"city": "Paris, France"},
            ["Rain in Paris, France?", "Rain in Rome, Italy?"],
        ),
        (
            "Rain in Boston, MA and San Francisco, CA?",
            {"city": "Boston, MA"},
            ["Rain in Boston, MA?", "Rain in San Francisco, CA?"],
        ),
        (
            "send 'hello' and 'bye now' to Bob",
            {"text": "hello", "to": "Bob"},
            ["send 'hello' to Bob", "send 'bye now' to Bob"],
        ),
    ],
)
def test_lists_of_one_length_belong_together(
    text: str, arguments: dict[str, Any], wanted: list[str]
) -> None:
    """The first thing of one goes with the first of the other, and units, states and countries with their things."""
    assert apart(text, **arguments) == wanted


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("between 3 and 5 apples", {"low": 3, "high": 5}),
        ("the mean of 3, 4 and 5", {"numbers": [3, 4, 5]}),
        ("the sum of 3 and 5", {"values": [3, 5], "first": 3}),
        ("rain in Paris", {"city": "Paris"}),
        ("rain in Paris", {"city": "Oslo"}),
        ("", {"city": ""}),
    ],
)
def test_values_that_one_call_holds_are_no_list(text: str, arguments: dict[str, Any]) -> None:
    """Where the call has the other things, too, in another parameter or in a list, nothing is taken apart."""
    assert apart(text, **arguments) == []


@pytest.mark.parametrize(
    ("left", "right", "values", "wanted"),
    [
        ("the area for radius 5", "for radius 7", ["5"], "the area for radius 7"),
        ("the area for radius 5", "another one for radius 7", ["5"], "the area for radius 7"),
        ("the factorial of 5", "10", ["5"], "the factorial of 10"),
    ],
)
def test_a_part_takes_the_beginning_of_the_part_before(
    left: str, right: str, values: list[str], wanted: str
) -> None:
    """It begins where the part before has the same word, or a value of the same kind."""
    assert wanted in [before + rest for before, rest in carried(left, right, values)]


@given(st.text(max_size=60), st.text(max_size=60), st.lists(st.text(max_size=8), max_size=3))
def test_any_text_is_taken(left: str, right: str, values: list[str]) -> None:
    """Whatever a request says, few texts are asked about, and nothing fails."""
    assert len(list(carried(left, right, values))) <= MOST_CARRIED
    text = f"{left} and {right}"
    for lists in [coordinations(text, dict(enumerate(values)))]:  # type: ignore[arg-type]
        assert not lists or len(one_by_one(text, lists)) == len(lists[0].items)
