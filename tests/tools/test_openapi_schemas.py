"""Schemas of OpenAPI documents that refer to themselves, and what is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from callmemaybe.errors import InputError
from callmemaybe.grammar import json_schema
from callmemaybe.sources import load_tools
from callmemaybe.tools import Tool, tools_from
from callmemaybe.tools.openapi import HttpRequest, HttpResponse

COMMENT = {
    "type": "object",
    "required": ["id", "text"],
    "properties": {
        "id": {"type": "string", "readOnly": True},
        "text": {"type": "string"},
        "replies": {"type": "array", "items": {"$ref": "#/components/schemas/Comment"}},
    },
}


async def never(_: HttpRequest) -> HttpResponse:
    raise AssertionError


def document(body: Any, **schemas: Any) -> dict[str, Any]:
    """Return a document with one operation, whose body has a schema."""
    content = {"application/json": {"schema": body}}
    operation = {"operationId": "post", "requestBody": {"required": True, "content": content}}
    return {
        "openapi": "3.1.0",
        "servers": [{"url": "https://api.example/v1"}],
        "paths": {"/x": {"post": operation}},
        "components": {"schemas": schemas},
    }


def to(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def parameters(body: Any, **schemas: Any) -> Any:
    """Return the parameters of the one tool, which must be expressible."""
    made: list[Tool] = tools_from(document(body, **schemas), transport=never)
    json_schema(made[0].spec.schema, additional=False)
    return made[0].spec.parameters


def test_what_refers_to_itself_is_a_definition() -> None:
    """Law: a body's own properties are arguments; where it comes back, it is a reference; read-only ones are nowhere."""
    found = parameters(to("Comment"), Comment=COMMENT)
    reply = {"type": "array", "items": {"$ref": "#/$defs/Comment"}}
    assert found["properties"] == {"text": {"type": "string"}, "replies": reply}
    assert found["required"] == ["text"]
    assert found["$defs"] == {
        "Comment": {"type": "object", "required": ["text"], "properties": found["properties"]}
    }


def test_only_what_refers_to_itself_is_a_definition() -> None:
    """Law: references that end are replaced, above and within those that do not; none leads into the document."""
    schemas = {
        "Page": {"type": "object", "properties": {"first": to("Comment"), "by": to("Person")}},
        "Person": {"type": "object", "properties": {"name": {"type": "string", "nullable": True}}},
        "Comment": {"type": "object", "properties": {"by": to("Person"), "in": to("Thread")}},
        "Thread": {"type": "array", "items": to("Alias")},
        "Alias": to("Comment"),
    }
    person = {"type": "object", "properties": {"name": {"type": ["string", "null"]}}}
    found = parameters(to("Page"), **schemas)
    assert found["properties"] == {"first": {"$ref": "#/$defs/Comment"}, "by": person}
    assert found["$defs"] == {
        "Comment": {"type": "object", "properties": {"by": person, "in": {"$ref": "#/$defs/Thread"}}},
        "Thread": {"type": "array", "items": {"$ref": "#/$defs/Comment"}},
    }  # fmt: skip


def test_definitions_of_one_name_are_told_apart() -> None:
    """Law: names come from the ends of references, without what a reference would have to escape, and never twice."""
    schemas: dict[str, Any] = {
        "a b/ü": {"properties": {"x": {"$ref": "#/components/schemas/a b~1ü"}}},
        "Outer": {"$defs": {"a b/ü": {"items": {"$ref": "#/components/schemas/Outer/$defs/a%20b~1ü"}}}},
    }  # fmt: skip
    body = {
        "type": "object",
        "properties": {
            "one": {"$ref": "#/components/schemas/a b~1ü"},
            "two": {"$ref": "#/components/schemas/Outer/$defs/a%20b~1ü"},
        },
    }
    found = parameters(body, **schemas)
    names = [found["properties"][name]["$ref"] for name in ("one", "two")]
    assert names == ["#/$defs/a_b_1_", "#/$defs/a_20b_1_"]
    assert found["$defs"]["a_b_1_"] == {"properties": {"x": {"$ref": names[0]}}}
    twice = {"Outer": {"$defs": {"N": {"items": {"$ref": "#/components/schemas/Outer/$defs/N"}}}}}
    body["properties"] = {"one": to("N"), "two": {"$ref": "#/components/schemas/Outer/$defs/N"}}
    found = parameters(body, N={"items": to("N")}, **twice)
    assert found["$defs"] == {
        "N": {"items": {"$ref": "#/$defs/N"}},
        "N_2": {"items": {"$ref": "#/$defs/N_2"}},
    }


def test_read_only_properties_are_hidden_through_all_of() -> None:
    """Law: an object and its allOf hide their read-only properties from each other, also where they refer to themselves."""
    base = {"properties": {"id": {"type": "integer", "readOnly": True}, "up": to("Node")}}
    node = {"allOf": [to("Base"), {"type": "object", "required": ["id", "name"], "properties": {"name": {}}}]}  # fmt: skip
    found = parameters(to("Node"), Node=node, Base=base)
    for one in (found["properties"]["body"], found["$defs"]["Node"]):
        first, second = one["allOf"]
        assert first["properties"] == {"up": {"$ref": "#/$defs/Node"}}
        assert second["required"] == ["name"]


def test_the_reference_of_draft_2019_09_is_read() -> None:
    """Law: `$recursiveRef` leads to the innermost definition with `$recursiveAnchor`."""
    both = {
        "$recursiveAnchor": True,
        "type": "object",
        "properties": {"and": {"type": "array", "items": {"$recursiveRef": "#"}}},
    }
    body = {"type": "object", "properties": {"where": to("And")}}
    found = parameters(body, And=both)
    assert found["properties"] == {"where": {"$ref": "#/$defs/And"}}
    items = {"type": "array", "items": {"$ref": "#/$defs/And"}}
    assert found["$defs"] == {"And": {"type": "object", "properties": {"and": items}}}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"allOf": [to("A"), {"type": "object"}]}, r"#/components/schemas/A is a part of itself"),
        (to("A"), "the reference '#/components/schemas/A' cannot be followed"),
    ],
)
def test_a_schema_without_an_end_is_refused(schema: Any, said: str) -> None:
    """Law: what is a part of itself, and a reference to nothing but itself, are said in a sentence."""
    with pytest.raises(InputError, match=said):
        parameters(to("A"), A=schema)


def test_an_operation_that_no_finite_call_meets_is_left_out(tmp_path: Path) -> None:
    """Law: a required property that leads back without an end is no endless call; the line says what to look for."""
    never_ending = {"type": "object", "required": ["next"], "properties": {"next": to("A")}}
    file = tmp_path / "api.json"
    both = document(to("A"), A=never_ending)
    both["paths"]["/y"] = {"get": {"operationId": "get"}}
    file.write_text(json.dumps(both), encoding="utf-8")
    with load_tools(str(file)) as tools:
        assert [tool.name for tool in tools.specs] == ["get"]
        assert "required properties without an end" in str(tools.skipped[0])


def test_what_is_large_is_written_once() -> None:
    """Law: a schema that doubles with each reference stays small; its value is what it would be in place."""
    levels = 40
    schemas: dict[str, Any] = {
        f"L{n}": {"type": "object", "properties": {"a": to(f"L{n + 1}"), "b": to(f"L{n + 1}")}}
        for n in range(levels)
    }
    found = parameters(to("L0"), **schemas, **{f"L{levels}": {"type": "integer"}})
    assert len(str(found)) < 50_000
    assert 1 < len(found["$defs"]) < levels
    checked = Draft202012Validator(found)
    deep: Any = 7
    for _ in range(levels):
        deep = {"a": deep}
    assert checked.is_valid(deep)
    assert not checked.is_valid(json.loads(json.dumps(deep).replace("7", '"7"')))


def test_a_long_circle_of_definitions_is_read() -> None:
    """Law: definitions that lead to each other, one after the other, nest nowhere."""
    count = 3000
    schemas = {
        f"C{n}": {"type": "object", "properties": {"next": to(f"C{(n + 1) % count}")}}
        for n in range(count)
    }
    assert len(parameters(to("C0"), **schemas)["$defs"]) == count
