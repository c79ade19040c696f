"""`unevaluatedProperties` and `unevaluatedItems`: what they go by is read where it stands."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import json_schema

TEXTS = {"$id": "http://b/", "contains": {"$ref": "#/$defs/x"}, "$defs": {"x": {"type": "string"}}}
NULLS = {"$id": "http://c/", "contains": {"$ref": "#/$defs/x"}, "$defs": {"x": {"type": "null"}}}


@pytest.mark.parametrize("rest", [False, {"type": "boolean"}, {"$ref": "#/$defs/x"}])
@pytest.mark.parametrize("parts", [[TEXTS], [TEXTS, NULLS], [{"anyOf": [TEXTS, NULLS]}]])
@pytest.mark.parametrize("own", [True, {"type": "integer"}])
def test_what_contains_refers_to_is_looked_for_where_it_stands(
    own: Any, parts: list[Any], rest: Any
) -> None:
    """Law: beside `contains` of another resource, items are evaluated by what it means there."""
    schema = {"$id": "http://a/", "$defs": {"x": own}, "unevaluatedItems": rest, "allOf": parts}
    automaton = compile_grammar(json_schema(schema))
    validator = jsonschema_rs.Draft202012Validator(schema)
    for value in (
        ["a"],
        [1],
        ["a", 1],
        ["a", True],
        ["a", None],
        [None],
        [None, 1],
        [None, "a", 1],
    ):
        state = automaton.walk(automaton.start, json.dumps(value).encode())
        is_in = state >= 0 and automaton.is_accepting(state)
        assert is_in is validator.is_valid(value), value


@pytest.mark.parametrize(
    ("keyword", "value", "collector"),
    [
        ("properties", 5, "unevaluatedProperties"),
        ("patternProperties", -1, "unevaluatedProperties"),
        ("prefixItems", 5, "unevaluatedItems"),
    ],
)
def test_what_is_malformed_is_refused(keyword: str, value: Any, collector: str) -> None:
    """Law: a malformed keyword beside a collector is refused as it is elsewhere, with its pointer."""
    with pytest.raises(UnsupportedSchema) as caught:
        json_schema({collector: False, keyword: value})
    assert caught.value.pointer == f"/{keyword}"
    with pytest.raises(UnsupportedSchema) as caught:
        json_schema({collector: False, "allOf": [{keyword: value}]})
    assert caught.value.pointer == f"/allOf/0/{keyword}"


def test_what_a_draft_does_not_read_is_not_evaluated() -> None:
    """Law: keywords that a draft does not know, or ignores beside `$ref`, evaluate nothing."""
    older = {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "unevaluatedItems": False,
        "prefixItems": [True],
    }
    automaton = compile_grammar(json_schema({"type": "array", **older}))
    assert automaton.walk(automaton.start, b"[1") < 0
    json_schema({**older, "prefixItems": 5})
    json_schema(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$ref": "#/definitions/x",
            "unevaluatedProperties": False,
            "properties": 5,
            "definitions": {"x": {"type": "object"}},
        }
    )
