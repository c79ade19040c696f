"""References to earlier results: only what fits may be referred to, and it is found again."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.errors import InputError
from callmemaybe.tools import (
    ToolCall,
    ToolSpec,
    add_reference_options,
    references,
    references_as_pointers,
    resolve_references,
)

LEAVES: dict[str, Any] = {
    "string": "text", "integer": 3, "number": 2.5, "boolean": True, "null": None, "array": [1],
}  # fmt: skip
KINDS = st.sampled_from(sorted(LEAVES))
TYPES = st.one_of(
    KINDS.map(lambda kind: {"type": kind}),
    st.lists(KINDS, min_size=1, max_size=2, unique=True).map(lambda kinds: {"type": kinds}),
    st.lists(KINDS, min_size=1, max_size=2).map(lambda ks: {"anyOf": [{"type": k} for k in ks]}),
    st.sampled_from([{"enum": ["text", 3]}, {"const": True}, {}]),
)
NAMES = st.sampled_from(["a", "b", "temperature", "x/y", "ä"])
RETURNS = st.recursive(
    KINDS.map(lambda kind: {"type": kind}),
    lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(
        lambda fields: {"type": "object", "properties": fields, "required": sorted(fields)}
    ),
    max_leaves=5,
)


def example(schema: dict[str, Any]) -> Any:
    if schema["type"] == "object":
        return {name: example(inner) for name, inner in schema["properties"].items()}
    return LEAVES[schema["type"]]


def targets(tool: ToolSpec) -> list[str]:
    schema = tool.parameters["properties"]["p"]
    either = schema.get("anyOf", ())
    found = [one for one in either if "$ref" in one.get("properties", {})]
    return found[0]["properties"]["$ref"]["enum"] if found else []


@settings(max_examples=150, deadline=None)
@given(wanted=TYPES, returns=RETURNS)
def test_whatever_may_be_referred_to_fits(wanted: dict[str, Any], returns: dict[str, Any]) -> None:
    """Each reference that is offered is found in a result of that schema, and has a type wanted.

    And nothing that fits is left out: every field whose value the parameter would take is offered,
    as long as the schema says its type and nothing more.
    """
    tool = ToolSpec("f", parameters={"type": "object", "properties": {"p": wanted}})
    offered = ToolSpec("f", parameters=add_reference_options(tool, {"call_1": returns}))
    result = example(returns)
    found = targets(offered)
    by_type = {key: value for key, value in wanted.items() if key not in ("enum", "const")}
    for target in found:
        call = ToolCall("f", json.dumps({"p": {"$ref": target}}), "call_2")
        jsonschema.validate(call.parsed, offered.parameters)
        assert references(call) == [target]
        value = resolve_references(call, {"call_1": json.dumps(result)}).parsed["p"]
        jsonschema.validate(json.loads(json.dumps(value, default=float)), by_type)
    every = list(_paths(returns, "call_1"))
    if wanted == by_type and wanted:
        for path, part in every:
            if jsonschema.Draft202012Validator(wanted).is_valid(example(part)):
                assert path in found or part["type"] == "number"


def _paths(schema: dict[str, Any], path: str, depth: int = 0) -> Any:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        if depth < 3:
            yield from _paths(inner, f"{path}.{name}", depth + 1)


def test_what_may_be_missing_is_not_referred_to() -> None:
    """Optional fields, and names that would read as two, are left out; results unknown go whole."""
    tool = ToolSpec("f", parameters={"type": "object", "properties": {"p": {"type": "string"}}})
    text = {"type": "string"}
    fields = {"sure": text, "maybe": text, "a.b": text}
    returns = {"type": "object", "properties": fields, "required": ["sure", "a.b"]}
    offered = ToolSpec("f", parameters=add_reference_options(tool, {"c": returns, "d": None}))
    assert targets(offered) == ["c.sure", "d"]
    assert add_reference_options(tool, {}) == tool.parameters


@pytest.mark.parametrize(
    ("wanted", "made"),
    [({"type": "float"}, {"type": "number"}), ({"type": "number"}, {"type": "float"}),
     ({"type": "float"}, {"type": "integer"}), ({"type": "array"}, {"type": "tuple"}),
     ({"type": "any"}, {"type": "string"}), ({"type": "string", "nullable": True}, {"type": "null"})],
)  # fmt: skip
def test_types_of_other_dialects_are_known(wanted: dict[str, Any], made: dict[str, Any]) -> None:
    """A type fits under either of its names, and what may be missing takes what is not there."""
    tool = ToolSpec("f", parameters={"type": "object", "properties": {"p": wanted}})
    fields = {"sure": made, "other": {"type": "boolean"}}
    returns = {"type": "dict", "properties": fields, "required": ["sure", "other"]}
    found = targets(ToolSpec("f", parameters=add_reference_options(tool, {"c": returns})))
    assert "c.sure" in found
    assert ("c.other" in found) == (wanted == {"type": "any"})


@pytest.mark.parametrize(
    ("target", "problem"),
    [("b", "there is no result of 'b'"), ("a.z", "the result of 'a' has no 'z'"),
     ("a.x.y", "has no 'x.y'")],
)  # fmt: skip
def test_a_reference_to_nothing_is_named(target: str, problem: str) -> None:
    """With the pointer of the argument."""
    call = ToolCall("f", json.dumps({"p": {"$ref": target}}))
    with pytest.raises(InputError, match=problem) as caught:
        resolve_references(call, {"a": '{"x": 1}'})
    assert caught.value.where == "/arguments/p"


def test_results_that_are_no_json_are_text() -> None:
    """And a call without references stays the very same."""
    call = ToolCall("f", '{"p": {"$ref": "a"}, "q": [1]}')
    assert resolve_references(call, {"a": "sunny, 20"}).parsed == {"p": "sunny, 20", "q": [1]}
    plain = ToolCall("f", '{"p": {"$ref": 1}}')
    assert resolve_references(plain, {}) is plain
    assert references_as_pointers(plain) is plain


def test_a_gateway_reads_references_as_pointers() -> None:
    """The path becomes a JSON pointer, with what it escapes; the rest stays as it was."""
    call = ToolCall("f", '{"p": {"$ref": "a.x/y.z~"}, "q": {"$ref": "a"}, "r": 1}', "c")
    assert references_as_pointers(call).parsed == {
        "p": {"$ref": "a#/x~1y/z~0"},
        "q": {"$ref": "a"},
        "r": 1,
    }
    schema = {"$ref": "#/$defs/a.b"}
    assert references_as_pointers(ToolCall("f", json.dumps({"p": schema}))).parsed == {"p": schema}
