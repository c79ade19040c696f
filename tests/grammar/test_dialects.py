"""What the draft and the vocabularies of a schema make of its keywords."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from jsonschema_specifications import REGISTRY

from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import json_schema
from callmemaybe.grammar.json_schema.certificate import certificate

CORE = "https://json-schema.org/draft/2020-12/vocab/"
WORDS = {f"{CORE}core": True, f"{CORE}applicator": True}
BARE = {"$id": "https://example.com/bare", "$vocabulary": WORDS}
FULL = {"$id": "https://example.com/full", "$vocabulary": {**WORDS, f"{CORE}validation": True}}
REMOTES = {"https://example.com/bare": BARE, "https://example.com/full": FULL}


def is_valid(schema: Any, value: Any, **options: Any) -> bool:
    """Whether a value's text is in the language of a schema."""
    automaton = compile_grammar(json_schema(schema, **options))
    state = automaton.walk(automaton.start, json.dumps(value).encode())
    return state >= 0 and automaton.is_accepting(state)


@pytest.mark.parametrize("dialect", REMOTES)
def test_a_dialect_without_validation_validates_nothing(dialect: str) -> None:
    """Law: without the vocabulary for validation its keywords are annotations; applicators are not."""
    schema = {"$schema": dialect, "properties": {"a": {"minimum": 10}, "b": False}}
    is_bare = dialect.endswith("bare")
    assert is_valid(schema, {"a": 1}, remotes=REMOTES) is is_bare
    assert is_valid(schema, {"a": 10}, remotes=REMOTES)
    assert not is_valid(schema, {"b": 1}, remotes=REMOTES)
    rows = certificate(schema, remotes=REMOTES).keywords
    found = {row.keyword: row for row in rows}
    assert found["minimum"].how == ("annotation" if is_bare else "masked")
    assert bool(found["minimum"].why) is is_bare


VALIDATION = REGISTRY.contents(f"{CORE.replace('vocab', 'meta')}validation")["properties"]
#: Schemas and values, of which each keyword of validation that has a part tells some from others.
ARRAYS = ([], [0], [5], [5, 6], [5, 6, 7], [0, 5, "a"], ["a", "b", "c"])
CASES = [
    ({"contains": {"minimum": 5}, "minContains": 2}, ARRAYS),
    ({"contains": {"minimum": 5}, "maxContains": 1}, ARRAYS),
    ({"contains": {"not": {"prefixItems": [False]}}, "minContains": 0}, ([[]], [[1]], [[1], []], [])),
    ({"contains": False, "minContains": 0, "maxContains": 2}, ARRAYS),
    ({"items": {"not": {"not": False}}, "minItems": 1, "uniqueItems": True}, ARRAYS),
    ({"properties": {"a": False}, "required": ["b"], "maxProperties": 1}, ({}, {"a": 1}, {"b": 1})),
    ({"exclusiveMinimum": 3, "type": "integer", "allOf": [{"enum": [3, 5, 7.5]}]}, (1, 3, 4.5, 5, 7)),
]  # fmt: skip


@pytest.mark.parametrize("dialect", REMOTES)
@pytest.mark.parametrize(("schema", "values"), CASES)
def test_the_vocabulary_is_the_one_of_the_specification(
    schema: dict[str, Any], values: Any, dialect: str
) -> None:
    """Law: without the vocabulary a schema says what it says without the keywords of its metaschema.

    The keywords are those of the published metaschema, and jsonschema says what the rest means.
    """
    is_bare = dialect.endswith("bare")
    oracle = jsonschema.Draft202012Validator(_without(schema, VALIDATION) if is_bare else schema)
    for value in values:
        valid = oracle.is_valid(value)
        ours = is_valid({"$schema": dialect, **schema}, value, remotes=REMOTES)
        assert ours is valid, value
    rows = certificate({"$schema": dialect, **schema}, remotes=REMOTES).keywords
    for row in rows:
        assert not is_bare or row.keyword not in VALIDATION or row.how == "annotation", row


def _without(schema: Any, keywords: Any) -> Any:
    if isinstance(schema, list):
        return [_without(value, keywords) for value in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without(value, keywords) for key, value in schema.items() if key not in keywords}


def test_a_dialect_that_is_not_handed_in_is_the_newest() -> None:
    """Law: of a metaschema that nobody handed in nothing is known, so that everything validates."""
    schema = {"$schema": "https://example.com/bare", "minimum": 10}
    assert not is_valid(schema, 1)


@pytest.mark.parametrize("draft", ["http://json-schema.org/draft-07/schema#",
                                   "https://json-schema.org/draft/2019-09/schema",
                                   "https://json-schema.org/draft/2020-12/schema"])  # fmt: skip
def test_prefix_items_came_with_2020(draft: str) -> None:
    """Law: a schema that declares a draft before 2020-12 has no `prefixItems`, beside `items` neither."""
    schema = {"$schema": draft, "type": "array", "prefixItems": [{"type": "string"}]}
    is_new = "2020" in draft
    assert is_valid(schema, ["a", 2])
    assert is_valid(schema, [1, 2]) is not is_new
    of_integers = {**schema, "items": {"type": "integer"}}
    assert is_valid(of_integers, ["a", 2]) is is_new
    assert is_valid(of_integers, [1, 2]) is not is_new
    rows = {row.keyword: row.how for row in certificate(schema).keywords}
    assert rows["prefixItems"] == ("masked" if is_new else "annotation")


def test_without_validation_alternatives_are_not_told_apart_by_types() -> None:
    """Law: where types say nothing, two alternatives by type are both met, so exactly one never is."""
    one = {"oneOf": [{"type": "string"}, {"type": "number"}]}
    for dialect in REMOTES:
        schema = {"$schema": dialect, "properties": {"a": one}, "additionalProperties": False}
        assert is_valid(schema, {"a": 1}, remotes=REMOTES) is not dialect.endswith("bare")
        assert is_valid(schema, {}, remotes=REMOTES)
