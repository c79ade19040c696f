"""Alternatives among objects: few cases are looked at, and the language is what a validator says."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import json_schema
from callmemaybe.grammar.json_schema import DeferredCheck
from callmemaybe.grammar.json_schema.analysis import TypeBoundsCache
from callmemaybe.grammar.json_schema.document import SchemaDocument, SchemaNode
from callmemaybe.grammar.json_schema.normalise import Normaliser

NAMES = ("kind", "a", "b", "c")
VALUES: tuple[Any, ...] = ("x", "y", 1)
LEAVES: tuple[Any, ...] = (
    {"enum": ["x"]}, {"enum": ["y"]}, {"enum": ["x", "y"]}, {"type": "string"}, {"type": "integer"}, {},
)  # fmt: skip


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    """Draw an object of a few plain members, open or closed."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    names.sort(key=NAMES.index)
    found: dict[str, Any] = {
        "type": "object",
        "properties": {name: draw(st.sampled_from(LEAVES)) for name in names},
        "required": draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=2)),
    }
    if draw(st.booleans()):
        found["additionalProperties"] = False
    return found


def instances(values: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Return every object of the names with one of the values for each."""
    absent = object()
    rows = itertools.product((absent, *values), repeat=len(NAMES))
    return [{k: v for k, v in zip(NAMES, row, strict=True) if v is not absent} for row in rows]


INSTANCES = instances(VALUES)
# Of every kind of value that the leaves tell apart, and with another member than theirs.
KINDS = [found | more for found in instances((*VALUES, "z", None)) for more in ({}, {"d": 1})]


@example(
    "oneOf",
    [{"properties": {"kind": {"enum": ["x", "y"]}}}, {"properties": {"kind": {"type": "string"}}}],
)
@example(
    "oneOf",
    [
        {"type": "object"},
        {"properties": {name: {} for name in NAMES}, "additionalProperties": False},
    ],
)
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["oneOf", "anyOf", "allOf"]), st.lists(objects(), min_size=2, max_size=5))
def test_alternatives_among_objects_are_what_a_validator_says(
    keyword: str, options: list[dict[str, Any]]
) -> None:
    """Law: of all small objects, those that a validator accepts are in the language, no others.

    No others but where something is left to be checked.
    """
    schema = {"properties": {name: {} for name in NAMES}, "type": "object", keyword: options}
    validator = jsonschema_rs.Draft202012Validator(schema)
    valid = [value for value in INSTANCES if validator.is_valid(value)]
    if not valid and not any(map(validator.is_valid, KINDS)):
        with contextlib.suppress(UnsupportedSchema):
            json_schema(schema)  # to be refused as empty, unless something is not supported
            pytest.fail("a schema that no value meets was taken")
        return
    checks: list[DeferredCheck] = []
    automaton = compile_grammar(json_schema(schema, checks=checks))
    accepted = []
    for value in INSTANCES:
        state = automaton.walk(automaton.start, json.dumps(value).encode())
        if state >= 0 and automaton.is_accepting(state):
            accepted.append(value)
    assert [value for value in accepted if not checks or value in valid] == valid


def field(kind: str, names: list[str]) -> dict[str, Any]:
    """Return a closed object that may say of which kind it is, and need not."""
    properties: dict[str, Any] = {"kind": {"enum": [kind]}, "label": {"type": "string"}}
    properties |= {name: {"oneOf": [{"type": "boolean"}, {"type": "string"}]} for name in names}
    return {
        "type": "object",
        "properties": properties,
        "required": ["label"],
        "additionalProperties": False,
    }


def test_kinds_that_share_their_members_take_few_cases() -> None:
    """Law: of n closed objects that differ in a discriminator alone, `oneOf` makes n shapes."""
    names = [f"member {number}" for number in range(12)]
    for count in (4, 16):
        fields = [field(f"kind {number}", names) for number in range(count)]
        schema = {"oneOf": fields}
        checks: list[DeferredCheck] = []
        document = SchemaDocument(schema, checks=checks)
        assert len(Normaliser(document).shapes(((document.root, True),))) == count
        assert not checks


def test_a_schema_is_taken_apart_once_however_many_refer_to_it() -> None:
    """Law: places that do nothing but refer to one schema have the very same shapes."""
    schema = {
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"minimum": 1}, {"type": "null"}]}},
        "properties": {"one": {"$ref": "#/$defs/a"}, "two": {"$ref": "#/$defs/b", "title": "Two"}},
    }
    document = SchemaDocument(schema)
    normaliser = Normaliser(document)
    one, two = (
        normaliser.shapes(((document.child(document.root, "properties", name), True),))
        for name in ("one", "two")
    )
    assert one is two


PLAIN: tuple[Any, ...] = (
    *LEAVES, True, False, {"type": ["string", "null"]}, {"const": "y"}, {"const": 1}, {"type": "null"},
    {"type": "integer", "enum": ["x"]}, {"enum": ["x", 1]}, {"type": "string", "minLength": 2},
    {"type": "string", "nullable": True}, {"enum": ["x"], "const": "y"}, {"type": "number"},
    {"$ref": "#/$defs/x"}, {"title": "x", "enum": ["x", "z"]},
    {"const": 1.0}, {"enum": [1, 2, 0.5]}, {"type": "integer", "enum": [0.5, 2.0, "x"]}, {"const": None},
    {"enum": [True, "x", None]}, {"type": "boolean"}, {"const": []},
)  # fmt: skip
SAMPLES: tuple[Any, ...] = ("x", "y", "z", "long", 1, 2, 3, 0.5, 0.25, None, True, False, [], {})


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLAIN), st.booleans()), min_size=1, max_size=4))
def test_what_is_told_at_a_glance_is_so(parts: list[tuple[Any, bool]]) -> None:
    """Law: what a glance takes for empty no value meets, and for the rest some value is found."""
    empty = TypeBoundsCache().is_empty(
        tuple((SchemaNode(schema, ""), holds) for schema, holds in parts)
    )
    if empty is None:
        return
    validators = [
        (jsonschema_rs.Draft202012Validator(_without_nullable(schema) if schema else schema), holds)
        for schema, holds in parts
        if "$ref" not in str(schema)
    ]
    met = [v for v in SAMPLES if all(one.is_valid(v) is holds for one, holds in validators)]
    assert not (empty and met)
    assert empty or met


@settings(max_examples=100, deadline=None)
@given(st.lists(objects(), min_size=2, max_size=3))
def test_objects_that_exclude_each_other_at_a_glance_do(options: list[dict[str, Any]]) -> None:
    """Law: what a glance at several objects takes for empty no small object meets."""
    empty = TypeBoundsCache().is_empty(tuple((SchemaNode(schema, ""), True) for schema in options))
    validator = jsonschema_rs.Draft202012Validator({"allOf": options})
    assert not (empty and any(map(validator.is_valid, INSTANCES)))


def test_a_discriminator_is_seen_at_a_glance() -> None:
    """Law: objects that must say of which kind they are, each of another, have nothing in common."""
    one, two = (
        {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]}
        for kind in ("a", "b")
    )
    for first, second, expected in ((one, two, True), (one, one, None)):
        need = ((SchemaNode(first, ""), True), (SchemaNode(second, ""), True))
        assert TypeBoundsCache().is_empty(need) is expected


def _without_nullable(schema: Any) -> Any:
    """Return a schema as JSON Schema says it, which knows no `nullable`."""
    if not isinstance(schema, dict) or "nullable" not in schema:
        return schema
    return {"type": [schema["type"], "null"]}
