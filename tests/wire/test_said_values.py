"""Parameters are limited to what a request says, and to nothing that their schema forbids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmemaybe.tools import ToolSpec
from callmemaybe.tools.schemas import validator_for
from callmemaybe.wire.formats import nano
from callmemaybe.wire.said_values import SAID, SaidValues, narrowed_tools

NOW = datetime(2026, 11, 23, 10, 0, tzinfo=UTC)


def _tool(required: bool = True, **properties: Any) -> ToolSpec:
    return ToolSpec(
        "act",
        parameters={
            "type": "object",
            "properties": properties,
            "required": [*properties] if required else [],
        },
    )


def _values(request: str, schema: dict[str, Any], name: str = "x", now: datetime = NOW) -> Any:
    """Return the values left of a parameter; None where it is left alone, [] where there is none."""
    tool, _ = SaidValues.of(request, now).narrow(_tool(**{name: schema}))
    found = tool.parameters["properties"][name]
    if found is schema:
        return None
    return [] if found["enum"] == [None] else found["enum"]


@pytest.mark.parametrize(
    ("request_", "schema", "values"),
    [
        ("wake me at half past six", {"format": "time"}, ["06:30:00Z"]),
        ("wake me at half past six", {"format": "date-time"}, ["2026-11-24T06:30:00Z"]),
        ("tomorrow at 5pm", {"format": "date-time"}, ["2026-11-24T17:00:00Z"]),
        ("tomorrow at 5pm", {"format": "date"}, ["2026-11-24"]),
        ("on Friday", {"format": "date-time"}, ["2026-11-27T00:00:00Z"]),
        ("for an hour and a half", {"format": "duration"}, ["PT1H30M"]),
        ("to bob@example.com or ann@example.com", {"format": "email"}, ["bob@example.com", "ann@example.com"]),
        ("to Friday", {"format": "email"}, []),
        ("on Friday", {"description": "Day, as YYYY-MM-DD"}, ["2026-11-27"]),
        ("on Friday", {"description": "MM/DD/YYYY"}, ["11/27/2026"]),
        ("at 8:30 pm", {"description": "Begin (HH:MM)"}, ["20:30"]),
        ("some day", {"description": "Day, as YYYY-MM-DD"}, None),
        ("on Friday", {"description": "Day"}, None),
        ("on Friday", {"format": "date", "pattern": "^2026"}, None),
        ("on Friday", {"format": "date", "enum": ["2026-11-27"]}, None),
    ],
)  # fmt: skip
def test_texts(request_: str, schema: dict[str, Any], values: list[str] | None) -> None:
    """Formats, and the forms that descriptions ask for, are written from what is said."""
    assert _values(request_, {"type": "string", **schema}) == values


@pytest.mark.parametrize(
    ("request_", "name", "schema", "values"),
    [
        ("two dozen eggs", "count", {"type": "integer"}, [24]),
        ("twenty one and a half degrees", "t", {"type": "number"}, [21.5]),
        ("under 300K", "price", {"type": "number"}, [300_000]),
        ("to 50 degrees", "t", {"type": "number", "maximum": 30}, []),
        ("for 90 seconds", "minutes", {"type": "number"}, [1.5]),
        ("for 90 seconds", "minutes", {"type": "integer"}, []),
        ("for 90 seconds", "seconds", {"type": "integer"}, None),
        ("for two hours", "x", {"type": "integer", "description": "Length in minutes"}, [120]),
        ("at 40%", "level", {"type": "number", "minimum": 0, "maximum": 1}, [0.4]),
        ("at 40%", "level", {"type": "integer", "minimum": 0, "maximum": 100}, None),
        ("7 eggs", "count", {"type": "integer"}, None),
        ("seven eggs", "count", {"type": "integer"}, None),
        ("some eggs", "count", {"type": "integer"}, None),
        ("2.50 and 300K", "price", {"type": "number"}, None),
        ("100 million shares, 50 million dollars", "x", {"type": "number"}, [100_000_000, 50_000_000]),
    ],
)  # fmt: skip
def test_numbers(
    request_: str, name: str, schema: dict[str, Any], values: list[Any] | None
) -> None:
    """A number is written as it is said where a model could not copy it; what is out of range is none."""
    assert _values(request_, schema, name) == values


def test_times_are_those_of_the_clock() -> None:
    """The zone of the clock is that of the request; without one it is UTC."""
    there = NOW.astimezone(timezone(timedelta(hours=2)))
    assert _values("at 5pm", {"type": "string", "format": "date-time"}, now=there) == [
        "2026-11-23T17:00:00+02:00"
    ]
    plain = NOW.replace(tzinfo=None)
    assert _values("at 5pm", {"type": "string", "format": "time"}, now=plain) == ["17:00:00Z"]


def test_what_is_not_said_is_left_out_or_takes_its_default() -> None:
    """Only a required parameter without a default bars its function."""
    day = {"type": "string", "format": "date"}
    said = SaidValues.of("a table for four", NOW)
    optional, why = said.narrow(_tool(required=False, day=day))
    assert optional.parameters["properties"] == {}
    assert why is None
    usual, why = said.narrow(_tool(day={**day, "default": "2026-12-24"}))
    assert usual.parameters["properties"]["day"]["enum"] == ["2026-12-24"]
    assert why is None
    barred, why = said.narrow(_tool(day=day, n={"type": "integer"}))
    assert why == "act needs a date for 'day', and the request has none"
    assert barred.parameters["properties"]["day"] == {"enum": [None]}
    left, why = said.narrow(_tool(day=day), may_refuse=False)
    assert left.parameters["properties"]["day"] is day
    assert why is None


def test_out_of_range_is_said() -> None:
    """The limits, and what the request has instead."""
    schema = {"type": "number", "minimum": 5, "maximum": 30}
    _, why = SaidValues.of("set it to 50 degrees", NOW).narrow(_tool(t=schema))
    assert (
        why
        == "act needs a number that it may be for 't' (at least 5 and at most 30; it says 50), and the request has none"
    )


def test_tools_that_lose_nothing_are_the_same() -> None:
    """So that what is compiled for all requests serves this one, too."""
    tools = [_tool(n={"type": "integer"}), ToolSpec("other")]
    assert narrowed_tools(tools, "seven of them", NOW)[0] is tools


def test_the_form_says_what_a_value_stands_for() -> None:
    """Where the words are not the value, they stand in front of it."""
    tool, _ = SaidValues.of("from 2026-12-01 to Christmas", NOW).narrow(
        _tool(day={"type": "string", "format": "date"})
    )
    assert nano.form(tool) == 'day "2026-12-01"|Christmas "2026-12-25"'
    assert tool.parameters["properties"]["day"][SAID] == ["2026-12-01", "Christmas"]


_SCHEMAS = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={
        "minimum": st.integers(-9, 9),
        "maximum": st.integers(-9, 99),
        "multipleOf": st.integers(1, 4),
    },
)


@given(
    _SCHEMAS,
    st.lists(
        st.sampled_from(
            ["two dozen", "-5", "1.5k", "half past six", "twenty and a half", "7", "0.5"]
        ),
        max_size=4,
    ),
)
def test_values_are_valid_and_distinct(schema: dict[str, Any], said: list[str]) -> None:
    """Whatever is left of a parameter is allowed by its schema."""
    values = _values(" then ".join(said), schema)
    if values:
        validator = validator_for(schema)
        assert len(set(values)) == len(values)
        assert all(validator.is_valid(one) for one in values)
