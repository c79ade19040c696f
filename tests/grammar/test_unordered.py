"""Members in any order: the same values as in schema order, however their keys are arranged."""

from __future__ import annotations

import json
import random
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmemaybe.errors import GrammarError, UnsupportedSchema
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import json_schema
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.export import MAX_UNORDERED_MEMBERS, to_gbnf
from tests.grammar.oracle import sample
from tests.grammar.schemas import schemas, values
from tests.grammar.test_schema_laws import Oracle, _has_whole_float, is_in, patient

KEYS = "abcd"
CLOSED = {
    "type": "object",
    "properties": {key: {"type": "integer", "minimum": 0, "maximum": 9} for key in KEYS},
    "additionalProperties": False,
}


def shuffled(value: Any, dice: random.Random) -> Any:
    """Return the value with the keys of every object in some order."""
    if isinstance(value, list):
        return [shuffled(item, dice) for item in value]
    if not isinstance(value, dict):
        return value
    names = list(value)
    dice.shuffle(names)
    return {name: shuffled(value[name], dice) for name in names}


def shortest(automaton: Automaton) -> int:
    """Search the automaton breadth first for its shortest text."""
    level, seen, steps = {automaton.start}, {automaton.start}, 0
    while not any(map(automaton.is_accepting, level)):
        level = {t for state in level for _, t in automaton.edges(state)} - seen
        seen |= level
        steps += 1
    return steps


@patient(60)
@given(schemas(), st.lists(values, max_size=6), st.integers(0, 2**32))
def test_any_order_has_the_valid_values_in_any_order(
    schema: Any, some: list[Any], seed: int
) -> None:
    """Law: with order="any" a value is in the language iff it is valid, whatever its keys' order."""
    try:
        automaton = compile_grammar(json_schema(schema, order="any"))
    except UnsupportedSchema:
        return
    oracle, dice = Oracle(schema), random.Random(seed)
    for value in some:
        valid = None if _has_whole_float(value) else oracle.is_valid(value)
        if valid is not None:
            text = json.dumps(shuffled(value, dice), ensure_ascii=False)
            # A member that a negation asks for comes behind all that are not declared.
            assert is_in(automaton, text) in {valid, valid and "not" in json.dumps(schema)}


@patient(60)
@given(
    st.sets(st.sampled_from(KEYS)), st.integers(0, 4), st.none() | st.integers(0, 4), st.booleans()
)
def test_every_set_and_order_of_members(
    required: set[str], least: int, most: int | None, is_open: bool
) -> None:
    """Law: exactly the arrangements of members within the limits are written; the length is right."""
    schema = {**CLOSED, "required": sorted(required), "minProperties": least}
    schema |= {} if most is None else {"maxProperties": most}
    if is_open:
        schema["additionalProperties"] = {"const": 0}
    names = [*KEYS, "other"]
    wanted = {
        json.dumps(dict.fromkeys(chosen, 0))
        for count in range(len(names) + 1)
        for chosen in permutations(names, count)
        if required <= set(chosen)
        and (is_open or "other" not in chosen)
        and least <= count <= (count if most is None else most)
    }
    try:
        automaton = compile_grammar(json_schema(schema, order="any", checks=[]))
    except UnsupportedSchema:
        assert not wanted
        return
    every = {
        json.dumps(dict.fromkeys(chosen, 0))
        for count in range(len(names) + 1)
        for chosen in permutations(names, count)
    }
    found = {text for text in every if is_in(automaton, text)}
    assert wanted <= found
    if not is_open:
        assert found == wanted
    assert automaton.min_remaining(automaton.start) == shortest(automaton)


def test_a_declared_key_comes_once() -> None:
    """Law: no text has a declared key twice, even where other keys are open."""
    schema = {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]}
    automaton = compile_grammar(json_schema(schema, order="any"))
    dice = random.Random(7)
    for _ in range(200):
        pairs = json.loads(sample(automaton, dice), object_pairs_hook=list)
        written = [key for key, _ in pairs]
        assert written.count("a") == 1
        assert written.count("b") <= 1
    assert not is_in(automaton, '{"a": 1, "b": 2, "a": 3}')


def test_constants_come_in_any_order_too() -> None:
    """Law: an object of an enumeration may be written in any order."""
    automaton = compile_grammar(
        json_schema({"enum": [{"x": 1, "y": {"z": 2, "w": 3}}, []]}, order="any")
    )
    assert is_in(automaton, '{"y": {"w": 3, "z": 2}, "x": 1}')
    assert is_in(automaton, "[]")
    assert not is_in(automaton, '{"x": 1}')


def test_many_members_cost_what_is_visited() -> None:
    """Law: two hundred members in any order are read without building the 2^200 sets of them."""
    names = [f"name{index}" for index in range(200)]
    schema = {"properties": {key: {"type": "boolean"} for key in names}, "required": names}
    automaton = compile_grammar(json_schema(schema, order="any", additional=False))
    value = dict.fromkeys(sorted(names, key=lambda name: name[::-1]), True)
    assert is_in(automaton, json.dumps(value)) is True
    value.popitem()
    assert is_in(automaton, json.dumps(value)) is False


def test_export_says_where_it_ends() -> None:
    """Law: a few members in any order are exported as rules, very many are refused by name."""
    assert "members" in to_gbnf(json_schema(CLOSED, order="any"))
    many = {"properties": {f"p{i}": {} for i in range(MAX_UNORDERED_MEMBERS + 1)}}
    with pytest.raises(GrammarError, match="any order"):
        to_gbnf(json_schema({"type": "object", **many}, order="any"))


def test_an_unknown_order_is_refused() -> None:
    """Law: the order is one of two."""
    with pytest.raises(ValueError, match="schema, any"):
        json_schema({}, order="alphabetical")
