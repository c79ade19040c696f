"""Constants in a schema: labelled ones in `oneOf`, and those of schemas that refer to themselves."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar import Automaton, json_schema
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.automaton import progress_reported_to
from callmemaybe.grammar.json_schema import normalise
from callmemaybe.grammar.json_schema.document import SchemaDocument
from callmemaybe.grammar.json_schema.normalise import Normaliser


def is_in(automaton: Automaton, text: str) -> bool:
    """Whether a text is in the language of an automaton."""
    state = automaton.walk(automaton.start, text.encode())
    return state >= 0 and automaton.is_accepting(state)


MANY = 5000
MIXED = [f"word {number}" if number % 2 else number for number in range(MANY)]


@pytest.mark.parametrize(
    "options",
    [
        [{"const": value, "title": f"Value {value}"} for value in MIXED],
        [{"enum": [value], "type": ["string", "integer"]} for value in MIXED],
        [{"const": value} for value in [*MIXED, 12, "word 13"]],
    ],
    ids=["titled", "typed", "repeated"],
)
def test_labelled_constants_are_not_compared_with_each_other(options: list[Any]) -> None:
    """Law: thousands of constants in a `oneOf` are one list, made in one case, without pairs."""
    document = SchemaDocument({"oneOf": options})
    normaliser = Normaliser(document)
    told: list[int] = []
    with progress_reported_to(told.append):
        shapes = normaliser.shapes(((document.root, True),))
    listed = [key for shape in shapes for key in shape.enum or ()]
    repeated = {12, "word 13"} if len(options) > MANY else set()
    assert sorted(listed, key=str) == sorted(set(MIXED) - repeated, key=str)
    assert sum(told) < MANY // 10
    assert len(normaliser._canonical) < MANY // 10


def test_only_what_stands_in_one_option_is_one_of_them() -> None:
    """Law: a constant of two options is excluded, however each is written."""
    options: list[Any] = [
        {"const": "a", "title": "A"}, {"enum": ["b", "c", "c"]}, {"const": "a"}, {"const": 1},
        {"type": "number", "const": 1.0}, {"const": 2}, {"type": "integer", "const": 3}, {"const": True},
        {"$ref": "#/$defs/b"}, {"const": {"k": [1, 2]}}, {"enum": [{"k": [1.0, 2]}, [4]]}, {"const": None},
    ]  # fmt: skip
    schema = {"oneOf": options, "$defs": {"b": {"const": "b"}}}
    automaton = compile_grammar(json_schema(schema))
    texts = ["a", "b", "c", 1, 2, 3, True, {"k": [1, 2]}, [4], None, "d", 4]
    assert [value for value in texts if is_in(automaton, json.dumps(value))] == [
        "c", 2, 3, True, [4], None,
    ]  # fmt: skip
    assert is_in(automaton, "2.0")
    assert not is_in(automaton, "3.0")  # as {"type": "integer", "const": 3} by itself


PARTS: tuple[Any, ...] = (
    {"const": "a", "title": "A"}, {"const": "b"}, {"enum": ["a", "c"]}, {"const": 1}, {"const": 1.0},
    {"enum": [2, "b", None]}, {"type": "integer", "enum": [1, 2, 0.5]}, {"type": "string"},
    {"type": "string", "minLength": 2}, {"type": "number", "minimum": 2}, {"const": {"k": 1}},
    {"type": "object", "properties": {"k": {"const": 1}}, "required": ["k"]}, {"const": [1]}, True,
    {"type": "array", "maxItems": 1}, {"enum": [[1], [1, 2], {"k": 2}]}, {"$ref": "#/$defs/x"},
    {"const": "b", "minLength": 1}, {"enum": ["a", "c"], "maxLength": 3}, {"not": {"const": "a"}},
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    "a", "b", "c", "dd", 1, 2, 3, 0.5, None, True, {"k": 1}, {"k": 2}, {}, [], [1], [1, 2],
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=5))
def test_one_of_constants_and_others_is_what_a_validator_says(options: list[Any]) -> None:
    """Law: what a validator accepts is in the language of such a `oneOf`, and nothing else."""
    schema = {"oneOf": options, "$defs": {"x": {"enum": ["x", "c"]}}}
    validator = jsonschema_rs.Draft202012Validator(schema)
    valid = [value for value in VALUES if validator.is_valid(value)]
    try:
        automaton = compile_grammar(json_schema(schema))
    except UnsupportedSchema:
        assert not valid
        return
    assert [value for value in VALUES if is_in(automaton, json.dumps(value))] == valid


def test_pairs_of_options_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: options that must be compared are told of, and refused where they are too many."""
    options = [{"type": "string", "pattern": f"^{number}$"} for number in range(30)]
    for number in range(200):
        need = {"kind": {"const": f"k{number}"}}
        options.append({"type": "object", "properties": need, "required": ["kind"]})
    told: list[int] = []
    with progress_reported_to(told.append):
        json_schema({"oneOf": options})
    assert sum(told) > 200 * 199 // 2 // normalise.PAIRS_PER_BRANCH
    monkeypatch.setattr(normalise, "MAX_BRANCHES", 300)
    with pytest.raises(UnsupportedSchema, match="too many cases"):
        json_schema({"oneOf": options[30:]})


RECURSIVE: list[tuple[Any, list[Any]]] = [
    (
        {"type": "object", "properties": {"n": {"$ref": "#", "enum": [{}, {"n": {}}, {"n": 1}]}}},
        [{}, {"n": {}}, {"n": {"n": {}}}, {"n": {"n": 1}}, {"n": {"n": {"n": {}}}}],
    ),
    (
        {"type": "object", "properties": {"n": {"$ref": "#"}}, "not": {"const": {"n": {}}}},
        [{}, {"n": {}}, {"n": {"n": {}}}, {"n": {"n": {"n": {}}}}, {"n": {"m": 1}}],
    ),
    (
        {"type": "array", "items": {"$ref": "#"}, "not": {"const": [[]]}},
        [[], [[]], [[], []], [[[]]], [[[], []]], [[[], []], []], [[[], [[]]]]],
    ),
    (
        {"type": "array", "contains": {"const": 1}, "unevaluatedItems": {"$ref": "#"}},
        [[1], [], [1, [1]], [1, [[1]]], [1, [1, [1]]], [[1]], [1, 2]],
    ),
]


@pytest.mark.parametrize("checks", [None, []])
@pytest.mark.parametrize(("schema", "values"), RECURSIVE, ids=["enum", "object", "array", "items"])
def test_constants_of_recursive_schemas(schema: Any, values: list[Any], checks: Any) -> None:
    """Law: a schema that refers to itself may list or exclude constants with values like itself."""
    automaton = compile_grammar(json_schema(schema, checks=checks))
    validator = jsonschema_rs.Draft202012Validator(schema)
    for value in values:
        assert is_in(automaton, json.dumps(value)) is validator.is_valid(value), value
    assert not checks
