"""Tools are read from every form people write them in; calls keep their digits."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmemaybe.errors import InputError
from callmemaybe.tools import ToolCall, ToolSpec, check_distinct

SCHEMA = {"type": "object", "properties": {"a": {"type": "number"}}}


def test_the_flat_form_requires_every_parameter() -> None:
    """The exercise's form: each parameter is required, nothing else is allowed."""
    tool = ToolSpec.from_json(
        {
            "name": "add",
            "description": "Add.",
            "parameters": {"a": {"type": "number"}, "b": {"type": "integer"}},
            "returns": {"type": "number"},
        }
    )
    assert tool.parameters == {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert tool.returns == {"type": "number"}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda function: function,
        lambda function: {"type": "function", "function": function},
        lambda function: {"function": function},
        lambda function: {"type": "function", **function},
    ],
    ids=["bare", "wrapped", "wrapped without type", "responses"],
)
def test_openai_definitions_keep_their_schema(wrap: Any) -> None:
    """A JSON Schema is taken as it is, in each of the shapes it comes in."""
    tool = ToolSpec.from_json(wrap({"name": "f", "description": "d", "parameters": SCHEMA}))
    assert tool == ToolSpec("f", "d", SCHEMA)
    assert ToolSpec.from_json(tool.as_openai()) == tool


@pytest.mark.parametrize("key", ["inputSchema", "input_schema"])
def test_others_call_it_input_schema(key: str) -> None:
    """A tool as an MCP server lists it is understood, and one as Anthropic's clients define it."""
    assert ToolSpec.from_json({"name": "f", key: SCHEMA}).parameters == SCHEMA


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": {"type": "string"}},
        {"properties": {"type": "string"}},
        {"type": {"type": "string"}, "properties": {"type": "object"}},
        {"$ref": {"type": "string"}, "anyOf": {"type": "integer"}},
    ],
)
def test_parameters_may_be_called_like_keywords(parameters: dict[str, Any]) -> None:
    """A flat parameter named "type" or "properties" is still a parameter."""
    tool = ToolSpec.from_json({"name": "f", "parameters": parameters})
    assert tool.parameters["properties"] == parameters
    assert tool.parameters["required"] == list(parameters)


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object"},
        {"properties": {"a": {"type": "string"}}},
        {"properties": {}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
        {"anyOf": [{"type": "object"}]},
        {"type": ["object", "null"]},
    ],
)
def test_schemas_are_told_from_the_flat_form(parameters: dict[str, Any]) -> None:
    """What can only be a JSON Schema is one."""
    tool = ToolSpec.from_json({"name": "f", "parameters": parameters})
    assert tool.parameters == parameters
    assert tool.schema["type"] == "object"


@pytest.mark.parametrize(
    "definition",
    [{"name": "f"}, {"name": "f", "parameters": {}}, {"name": "f", "parameters": None}],
)
def test_a_function_may_have_no_parameters(definition: dict[str, Any]) -> None:
    """Nothing said about parameters means that there are none."""
    assert ToolSpec.from_json(definition).parameters["properties"] == {}
    assert ToolSpec("f").parameters["properties"] == {}


@pytest.mark.parametrize(
    ("definition", "where"),
    [
        ([], "/3"),
        ("add", "/3"),
        ({}, "/3"),
        ({"name": ""}, "/3/name"),
        ({"name": 7}, "/3/name"),
        ({"name": "\ud800"}, "/3/name"),
        ({"name": "f", "description": 1}, "/3/description"),
        ({"name": "f", "returns": "number"}, "/3/returns"),
        ({"name": "f", "parameters": []}, "/3/parameters"),
        ({"name": "f", "parameters": {"a": "number"}}, "/3/parameters/a"),
        ({"name": "f", "parameters": {"a/b~": {}}}, "/3/parameters/a~1b~0"),
        ({"name": "f", "parameters": {"type": "string"}}, "/3/parameters/type"),
        ({"type": "function", "function": {"name": ""}}, "/3/function/name"),
        ({"type": "retrieval", "function": {"name": "f"}}, "/3/type"),
    ],
)
def test_errors_point_at_what_is_wrong(definition: object, where: str) -> None:
    """Each error carries the JSON pointer of its cause."""
    with pytest.raises(InputError) as caught:
        ToolSpec.from_json(definition, "/3")
    assert caught.value.where == where


@pytest.mark.parametrize(
    "parameters",
    [
        {"city": {"type": "string"}},
        {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
        {"type": "string"},
    ],
)
def test_parameters_by_name_are_no_schema(parameters: dict[str, Any]) -> None:
    """As a schema they said nothing of the arguments: every call had none, or "a bug" was reported."""
    with pytest.raises(InputError, match=r'tool .f..*"type": "object"'):
        ToolSpec("f", "", parameters)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"properties": {"city": {"type": "string"}}},
        {"additionalProperties": {"type": "string"}},
        {"patternProperties": {"^x": {"type": "string"}}},
        {"type": ["object", "null"]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
        {"not": {"type": "array"}},
        {"x-about": {"for": "us"}},
    ],
)
def test_schemas_of_objects_are_kept(parameters: dict[str, Any]) -> None:
    """Whatever may be meant as a schema is one."""
    assert ToolSpec("f", "", parameters).parameters == parameters


def test_names_are_distinct() -> None:
    """A second tool of the same name is refused, at its place."""
    with pytest.raises(InputError, match="used twice") as caught:
        check_distinct([ToolSpec("a"), ToolSpec("b"), ToolSpec("a")])
    assert caught.value.where == "/2/name"


@given(name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_text_may_name_a_function(name: str) -> None:
    """What JSON can carry is a name."""
    assert ToolSpec.from_json({"name": name}).name == name


def test_arguments_are_never_rounded() -> None:
    """Integers of any size and decimals of any precision come back as they were written."""
    digits = "9" * 5000
    call = ToolCall(
        "f", f'{{"i": {digits}, "d": 0.1000000000000000055511151231257827, "e": 1e400}}'
    )
    assert call.parsed["i"] == 10**5000 - 1
    assert str(call.parsed["d"]) == "0.1000000000000000055511151231257827"
    assert call.parsed["e"] == Decimal("1e400")


@pytest.mark.parametrize("text", ["", "[]", "1", '{"a": NaN}', '{"a": 1', "{'a': 1}", '{"a": 1} x'])
def test_what_is_no_object_is_refused(text: str) -> None:
    """Arguments that are not one JSON object raise an error of ours."""
    with pytest.raises(InputError):
        ToolCall("f", text).parsed  # noqa: B018 - the access is the test
