"""JSON Schema: what the grammar allows is valid, and what is valid can be written.

Two validators that know nothing of us decide: jsonschema (Python) and jsonschema-rs (Rust).
"""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import jsonschema
import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import json_schema
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.json_schema import DeferredCheck
from callmemaybe.grammar.json_schema.entry import in_schema_order
from tests.grammar.oracle import accepts, sample
from tests.grammar.schemas import mutated, schemas, values


def patient(examples: int) -> settings:
    """Ask for a number of examples, however long they take."""
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))


def is_in(automaton: Automaton, text: str) -> bool:
    """Whether a text is in the language of an automaton."""
    state = automaton.walk(automaton.start, text.encode())
    return state >= 0 and automaton.is_accepting(state)


class Oracle:
    """Two validators; None where they disagree or where the question is not theirs."""

    def __init__(self, schema: Any) -> None:
        self._python = jsonschema.Draft202012Validator(schema)
        self._rust = jsonschema_rs.Draft202012Validator(schema)

    def is_valid(self, value: Any) -> bool | None:
        """Judge a value."""
        text = json.dumps(value, ensure_ascii=False, default=str)
        if any(char in text for char in "\u2028\u2029") or "\\r" in text:
            return None  # neither knows the line ends of ECMA-262
        try:
            verdict = self._python.is_valid(value)
            return verdict if _is_long(value) or self._rust.is_valid(value) is verdict else None
        except (ArithmeticError, TypeError, RecursionError):
            return None  # numbers beyond what they can divide, references that lead round


def _is_long(value: Any) -> bool:
    """Whether there are decimals in it that no float has."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, Decimal) or any(map(_is_long, inner))


def _exact(text: str) -> Decimal | float:
    number = Decimal(text)
    return float(text) if abs(number) < 10**300 and Decimal(repr(float(text))) == number else number


def _has_whole_float(value: Any) -> bool:
    """Whether json.dumps would write an integer as 1.0: an integer is written as one here."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    whole = isinstance(value, float) and (abs(value) == float("inf") or value == int(value))
    return whole or any(map(_has_whole_float, inner))


def _compiled(schema: Any) -> tuple[Automaton, Oracle]:
    oracle = Oracle(schema)
    assume(oracle.is_valid(1) is not None)
    try:
        return compile_grammar(json_schema(schema)), oracle
    except UnsupportedSchema:
        assume(False)
        raise


@patient(70)
@given(schemas(), st.integers(0, 2**32))
def test_whatever_can_be_written_is_valid(schema: Any, seed: int) -> None:
    """Law: every text of the language is JSON, and its value meets the schema."""
    automaton, oracle = _compiled(schema)
    dice = random.Random(seed)
    for _ in range(6):
        text = sample(automaton, dice)
        value = json.loads(text, parse_float=_exact)
        assert oracle.is_valid(value) is not False, text


_KEYS = ["^a", "^b", "^ab", "^a+$", "b$", "^c", "^ca", "^d", "^[cd]", "^.$", "aa", "^x-", "^y-"]


@patient(40)
@given(
    st.lists(st.sampled_from(_KEYS), min_size=7, max_size=10, unique=True),
    st.sampled_from([False, {"type": "string"}]),
    st.lists(st.text("abcdx-", max_size=3), min_size=5, max_size=5),
)
def test_many_patterns_for_keys(patterns: list[str], others: Any, keys: list[str]) -> None:
    """Law: a member is in the language iff it is valid by every pattern, however many there are."""
    schema = {
        "type": "object",
        "patternProperties": {one: {"minimum": n} for n, one in enumerate(patterns)},
        "additionalProperties": others,
    }
    automaton, oracle = _compiled(schema)
    for key in keys:
        for value in (3, 6, "a"):
            assert is_in(automaton, json.dumps({key: value})) is oracle.is_valid({key: value})


@patient(70)
@given(schemas(), st.lists(values, max_size=6), st.integers(0, 2**32))
def test_what_is_valid_can_be_written_and_nothing_else(
    schema: Any, some: list[Any], seed: int
) -> None:
    """Law: a value, written canonically in schema order, is in the language iff it is valid."""
    automaton, oracle = _compiled(schema)
    dice = random.Random(seed)
    for _ in range(4):
        value = json.loads(sample(automaton, dice), parse_float=_exact)
        if not _is_long(value):
            some += [value, *(mutated(value, dice) for _ in range(4))]
    for value in some:
        valid = None if _has_whole_float(value) else oracle.is_valid(value)
        if valid is not None:
            ordered = in_schema_order(schema, value)
            assert ordered == value
            assert is_in(automaton, json.dumps(ordered, ensure_ascii=False)) is valid, ordered


@patient(40)
@given(schemas(), st.lists(values, min_size=1, max_size=6))
def test_a_schema_refused_as_empty_is_empty(schema: Any, some: list[Any]) -> None:
    """Law: "no value meets this schema" is said only where no value does."""
    oracle = Oracle(schema)
    try:
        json_schema(schema)
    except UnsupportedSchema as error:
        assume("no value" in str(error))
        assert not any(oracle.is_valid(value) for value in some)


@patient(40)
@given(schemas(), st.integers(0, 2**32))
def test_styles_differ_in_spacing_only(schema: Any, seed: int) -> None:
    """Law: a text of one style, respaced, is a text of the others, and flexible has them all."""
    automata = {}
    for style in ("spaced", "compact", "flexible"):
        try:
            automata[style] = compile_grammar(json_schema(schema, style=style))
        except UnsupportedSchema:
            assume(False)
    value = json.loads(sample(automata["flexible"], random.Random(seed)), parse_float=_exact)
    assume(not _is_long(value) and not _has_whole_float(value))
    spaced = json.dumps(value, ensure_ascii=False)
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    indented = json.dumps(value, ensure_ascii=False, indent=2)
    known = is_in(automata["spaced"], spaced)  # not if a key was doubled, or a float is 1e5
    assert is_in(automata["compact"], compact) is known
    for text in (spaced, compact, indented):
        assert is_in(automata["flexible"], text) is known


@patient(40)
@given(schemas(), st.lists(values, max_size=4), st.integers(0, 2**32))
def test_the_automaton_reads_the_tree(schema: Any, some: list[Any], seed: int) -> None:
    """Law: the automaton of a schema's grammar accepts what a plain reading of its tree accepts."""
    automaton, _ = _compiled(schema)
    grammar = json_schema(schema)
    assert accepts(grammar, sample(automaton, random.Random(seed), length=30))
    for value in some:
        text = json.dumps(value, ensure_ascii=False)
        assert accepts(grammar, text.encode()) is is_in(automaton, text)


@patient(40)
@given(schemas(), st.lists(values, min_size=2, max_size=8))
def test_what_is_left_to_be_checked_is_said(schema: Any, some: list[Any]) -> None:
    """Law: with a list of checks every valid value can be written; without any, nothing else."""
    checks: list[DeferredCheck] = []
    oracle = Oracle(schema)
    try:
        automaton = compile_grammar(json_schema(schema, checks=checks))
    except UnsupportedSchema:
        assume(False)
    for value in some:
        if _has_whole_float(value):
            continue
        valid = oracle.is_valid(value)
        text = json.dumps(in_schema_order(schema, value), ensure_ascii=False)
        if valid is not None and (valid or not checks):
            assert is_in(automaton, text) is valid
    if checks:
        with pytest.raises(UnsupportedSchema) as caught:
            json_schema(schema)
        assert caught.value.pointer in {check.pointer for check in checks}


@pytest.mark.parametrize("style", ["", "pretty"])
def test_an_unknown_style_is_refused(style: str) -> None:
    """Law: a style is one of three."""
    with pytest.raises(ValueError, match="spaced"):
        json_schema({}, style=style)
