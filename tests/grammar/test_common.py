"""The short way from common schemas to nodes gives what the general way gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar.json_schema.document import DynamicScopeNeeded, SchemaDocument
from callmemaybe.grammar.json_schema.emit import Emitter
from callmemaybe.grammar.json_schema.fast_path import FastPath
from callmemaybe.grammar.json_schema.values import STYLES
from callmemaybe.grammar.nodes import Node

from .schemas import NAMES, schemas

_LEAVES = [
    {"type": "string"}, {"type": "integer", "description": "How many."}, {"type": "number"},
    {"type": "boolean"}, {"type": ["string", "null"]}, {"type": "string", "enum": ["a", "é"]},
    {"type": "integer", "enum": [1, 2]}, {"enum": [1, "a", None, True]}, {"const": 1.5},
    {"type": "integer", "minimum": 1, "maximum": 20}, {"type": "string", "maxLength": 3},
    {"type": "string", "format": "date"}, {"type": "string", "pattern": "^a+$", "default": "a"},
    {"type": "string", "enum": []}, {"type": "integer", "minimum": 3, "maximum": 2},
    {"type": "float"}, {"type": "string", "nullable": True}, {"type": "string", "enum": ["\ud800"]},
]  # fmt: skip
_MORE = ["additionalProperties", "minItems", "maxItems", "description", "$schema"]


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(st.sampled_from([*NAMES, "name", "\ud800"]), inner, max_size=4)
    return st.fixed_dictionaries(
        {"type": st.sampled_from(["object", "dict"])},
        optional={
            "properties": properties,
            "required": st.lists(st.sampled_from(NAMES), max_size=2),
            "additionalProperties": st.one_of(st.booleans(), inner),
            "description": st.just("What it is."),
        },
    )


def _arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    counts = st.sampled_from([0, 1, 2, 3, 2.0, True, -1])
    return st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={"items": inner, "minItems": counts, "maxItems": counts},
    )


common = st.recursive(
    st.sampled_from(_LEAVES), lambda inner: st.one_of(_objects(inner), _arrays(inner)), max_leaves=6
)


def _written(schema: Any, style: str, additional: bool, short: bool) -> tuple[Any, dict[str, Node]]:
    document = SchemaDocument(schema)
    emitter = Emitter(document, STYLES[style], "", additional, use_fast_path=short)
    try:
        return emitter.node(((document.root, True),)), emitter.rules
    except (UnsupportedSchema, DynamicScopeNeeded) as error:
        return (type(error), str(error)), {}


@settings(max_examples=150)
@given(
    schema=st.one_of(common, schemas()),
    style=st.sampled_from(list(STYLES)),
    additional=st.booleans(),
)
def test_both_ways_give_the_same_node(schema: Any, style: str, additional: bool) -> None:
    """The node of a schema, or the refusal, is the same with the short way and without it."""
    short, some = _written(schema, style, additional, True)
    general, rules = _written(schema, style, additional, False)
    assert short is general or short == general
    assert some.keys() >= rules.keys()
    assert all(some[name] is rules[name] for name in rules)


@pytest.mark.parametrize("additional", [False, True])
def test_what_tools_have_is_common(additional: bool) -> None:
    """Objects of plain, listed and nested members take the short way from end to end."""
    schema = {
        "type": "object",
        "properties": {f"p{n}": leaf for n, leaf in enumerate(_LEAVES[:13])}
        | {"more": {"type": "array", "items": {"type": "object", "properties": {}}}},
        "required": ["p0"],
    }
    emitter = Emitter(SchemaDocument(schema), STYLES["spaced"], "", additional)

    def general(leaf: Any) -> Node | None:
        assert leaf.get("type") not in ("array", "object")
        return emitter.node(((SchemaDocument(leaf).root, True),))

    found = FastPath(STYLES["spaced"], additional, general, emitter.any_value).node(schema)
    assert found is _written(schema, "spaced", additional, False)[0]
