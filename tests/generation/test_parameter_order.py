"""The order in which a schema lists its parameters decides how a call is written, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe import Caller, load_model
from callmemaybe.generation import DecodingConfig
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.generation.parameter_order import SortedTools, in_order_of, sorted_schema
from callmemaybe.models.base import Model
from callmemaybe.retrieval import shown_tools
from callmemaybe.tools import ArgumentsDelta, CallEnded, ToolCall, ToolSpec

names = st.text('abcdé"\\ properties$ref', min_size=1, max_size=6)
plain = st.sampled_from([{"type": "string"}, {"enum": [{"b": 1, "a": 2}]}, True, {}])


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(names, inner, max_size=4)
    return st.one_of(
        st.builds(lambda some: {"type": "object", "properties": some}, properties),
        st.builds(lambda one: {"type": "array", "items": one}, inner),
        st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1, max_size=2)),
    )


schemas = st.recursive(plain, _objects, max_leaves=12)
objects = st.builds(
    lambda some: {"type": "object", "properties": some},
    st.dictionaries(names, schemas, min_size=1, max_size=5),
)


def turned(schema: Any) -> Any:
    """Return a schema with the properties of every object in the opposite order."""
    if isinstance(schema, list):
        return [turned(one) for one in schema]
    if not isinstance(schema, dict) or "enum" in schema:
        return schema
    found = {key: turned(value) for key, value in schema.items()}
    if isinstance(found.get("properties"), dict):
        found["properties"] = dict(reversed(found["properties"].items()))
    return found


@settings(deadline=None)
@given(schema=objects)
def test_sorted_schemas_are_equal_whatever_the_order_was(schema: Any) -> None:
    """Sorting changes the order of properties alone, is the same from any order, and does nothing a second time."""
    found = sorted_schema(schema)
    assert found == schema
    assert json.dumps(found) == json.dumps(sorted_schema(turned(schema)))
    assert sorted_schema(found) is found


values = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.text(max_size=5), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=4)),
    max_leaves=10,
)


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


@settings(deadline=None)
@given(value=st.dictionaries(names, values, max_size=5), schema=objects)
def test_reordering_changes_no_value(value: dict[str, Any], schema: Any) -> None:
    """A call in another order has the same arguments, first those of the schema as it lists them."""
    found = in_order_of(ToolCall("f", _dump(value)), ToolSpec("f", parameters=schema))
    assert json.loads(found.arguments) == value
    known = [name for name in schema["properties"] if name in value]
    assert [*json.loads(found.arguments)][: len(known)] == known
    again = in_order_of(found, ToolSpec("f", parameters=sorted_schema(schema)))
    back = in_order_of(again, ToolSpec("f", parameters=schema))
    assert back.arguments == found.arguments


def test_values_stay_as_they_were_written() -> None:
    """Numbers and escapes are not spelled anew, references are followed, values of no schema keep their order."""
    schema = {
        "type": "object",
        "properties": {"z": {"type": "number"}, "p": {"$ref": "#/$defs/point"}, "a": {}},
        "$defs": {
            "point": {"properties": {"y": {}, "x": {"items": {"$ref": "#/$defs/point"}}}},
            "loop": {"allOf": [{"$ref": "#/$defs/loop"}]},
        },
    }
    text = r'{"a":{"n":1,"m":"\u00e9\""},"p":{"x":[{"x":[],"y":1.0}],"y":-0.50},"z":1e5}'
    found = in_order_of(ToolCall("f", text), ToolSpec("f", parameters=schema))
    spaced = " " + text.replace(":", " : ").replace(",", "\n,\t").replace("[]", "[ ]") + "\n"
    assert in_order_of(ToolCall("f", spaced), ToolSpec("f", parameters=schema)) == found
    assert found.arguments == (
        r'{"z":1e5,"p":{"y":-0.50,"x":[{"y":1.0,"x":[]}]},"a":{"n":1,"m":"\u00e9\""}}'
    )
    loop = {**schema, "properties": {"a": {"$ref": "#/$defs/loop"}, "z": {}, "p": {}}}
    in_order_of(found, ToolSpec("f", parameters=loop))  # ends
    deep = ToolCall("f", '{"a":' + "[" * 5000 + "]" * 5000 + "}")
    assert in_order_of(deep, ToolSpec("f", parameters=schema)) is deep


@pytest.fixture(scope="module")
def nano() -> Model:
    model = load_model("nano")
    assert not isinstance(model, str)
    return model  # type: ignore[return-value]


PROPERTIES: Mapping[str, Any] = {
    "to": {"type": "string", "description": "Who gets it"},
    "amount": {"type": "number", "description": "How much"},
    "currency": {"type": "string", "enum": ["EUR", "USD", "CHF"]},
    "note": {"type": "string", "description": "What it is for"},
}


def pay(*order: str) -> ToolSpec:
    """Return a function whose schema lists its parameters in this order."""
    properties = {name: PROPERTIES[name] for name in order}
    schema = {"type": "object", "properties": properties, "required": ["to", "amount"]}
    return ToolSpec("send_money", "Send money to a person.", schema)


CALENDAR = ToolSpec(
    "add_event", "Put an event into the calendar.",
    {"type": "object", "required": ["title", "day"],
     "properties": {"title": {"type": "string"}, "day": {"type": "string", "format": "date"}}},
)  # fmt: skip
REQUESTS = (
    "send 20 dollars to Ana for lunch",
    'pay O\'Neil 12.50 CHF, "rent" as the note',
    "Give Zoë forty euros",
    "put the dentist into my calendar on 2026-12-03",
)


def test_permuted_parameters_give_an_equal_call(nano: Model) -> None:
    """Whatever order a schema has: the same values, the same probabilities; and the call is in the schema's order."""
    first = None
    for order in list(permutations(PROPERTIES))[::3]:
        caller = Caller(nano, [pay(*order), CALENDAR], decoding=DecodingConfig(beam=2))
        results = [caller.call(request) for request in REQUESTS]
        for one in results:
            assert one.call is not None
            known = order if one.call.name == "send_money" else ("title", "day")
            assert [*one.call.parsed] == [name for name in known if name in one.call.parsed]
        found = [
            (one.call and one.call.canonical, one.confidence, one.logprob, one.distribution,
             one.argument_logprobs)
            for one in results
        ]  # fmt: skip
        first = first or found
        assert found == first


@pytest.mark.parametrize("order", [("amount", "currency", "note", "to"), tuple(PROPERTIES)])
def test_streamed_arguments_are_those_of_the_call(nano: Model, order: tuple[str, ...]) -> None:
    """What is streamed of the arguments joins to what is handed out: held back to the end only where the order differs."""
    generator = LocalGenerator(nano)
    stream = generator.stream([{"role": "user", "content": REQUESTS[0]}], [pay(*order)])
    events = [event for step in stream for event in step]
    deltas = [event.data for event in events if isinstance(event, ArgumentsDelta)]
    (call,) = stream.result.calls
    assert b"".join(deltas).decode() == call.arguments
    assert [*call.parsed] == [name for name in order if name in call.parsed]
    assert (len(deltas) == 1) == (order != tuple(sorted(order)))
    (ended,) = (event for event in events if isinstance(event, CallEnded))
    assert ended.call == call


def test_the_same_tool_is_sorted_once() -> None:
    """Grammars are found by the tools' identity, so a tool is not sorted anew for each request."""
    tools, some = SortedTools(), [pay(*PROPERTIES), CALENDAR]
    (one, other), (again, _) = tools.of(some), tools.of(some)
    assert one is again
    assert one == some[0]
    assert [*one.parameters["properties"]] == sorted(PROPERTIES)
    assert [*other.parameters["properties"]] == ["day", "title"]
    by_name = pay(*sorted(PROPERTIES))
    assert tools.of([by_name])[0] is by_name


def test_a_schema_that_is_too_deep_is_left_to_who_compiles_it() -> None:
    """Sorting is no place to fail."""
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"type": "object", "properties": {"b": schema, "a": {}}}
    tool = ToolSpec("f", parameters=schema)
    assert SortedTools().of([tool])[0] is tool


def test_shown_tools_are_those_that_were_given() -> None:
    """Of equal lists with other orders of parameters, each request is shown its own."""
    others = [ToolSpec(f"other_{n}", f"Thing {n}") for n in range(20)]
    for order in (tuple(PROPERTIES), tuple(reversed(PROPERTIES))):
        shown = shown_tools([pay(*order), *others], "send money", 4)
        assert [*shown[0].parameters["properties"]] == [*order]
