"""The certificate of a schema and the figures of a language."""

from __future__ import annotations

import json
import random
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar import json_schema
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.grammar import INFINITE, Grammar, alt, lit, many, repeat, seq, words
from callmemaybe.grammar.json_schema import DeferredCheck
from callmemaybe.grammar.json_schema.certificate import certificate
from callmemaybe.grammar.report import size_of
from callmemaybe.matching.matcher import shortest_output
from callmemaybe.vocabulary import Vocabulary
from tests.grammar.oracle import sample
from tests.grammar.schemas import schemas
from tests.grammar.test_schema_laws import patient

HOW = {"masked", "annotation", "checked", "refused"}
BYTES = Vocabulary([bytes([byte]) for byte in range(256)], ends=())


def finite_texts(grammar: Grammar) -> set[bytes]:
    """Return every text of a finite language."""
    automaton = automaton_of(grammar)
    found, waiting = set(), deque([(automaton.start, b"")])
    while waiting:
        state, text = waiting.popleft()
        if automaton.is_accepting(state):
            found.add(text)
        for byte in range(256):
            target = automaton.step(state, byte)
            if target >= 0:
                waiting.append((target, text + bytes([byte])))
    return found


def count_keywords(schema: Any) -> int:
    """Count the keywords of the schemas that the generator of random schemas writes."""
    if not isinstance(schema, dict):
        return 0
    total = len(schema)
    for keyword, value in schema.items():
        if keyword in {"enum", "const", "required", "dependentRequired"}:
            continue
        if keyword in {"properties", "patternProperties", "dependentSchemas", "$defs"}:
            total += sum(map(count_keywords, value.values()))
        elif isinstance(value, list):
            total += sum(map(count_keywords, value))
        else:
            total += count_keywords(value)
    return total


@patient(20)
@given(schemas())
def test_every_keyword_has_its_row(schema: Any) -> None:
    """Law: the rows are the schema's keywords; they agree with what json_schema leaves or refuses."""
    schema = json.loads(json.dumps(schema))  # no two places are one object
    found = certificate(schema)
    rows = [row for row in found.keywords if row.keyword]
    assert len(rows) == len({row.pointer for row in rows}) == count_keywords(schema)
    assert {row.how for row in found.keywords} <= HOW
    checks: list[DeferredCheck] = []
    try:
        json_schema(schema, checks=checks)
    except UnsupportedSchema:
        assert found.count("refused")
        assert found.grammar is None
    else:
        assert found.grammar is not None
        assert {row.pointer for row in found.keywords if row.how == "checked"} == {
            check.pointer for check in checks
        }


def test_all_refusals_are_found_at_once() -> None:
    """Law: what is refused is named with its pointer, and the rest is looked at all the same."""
    schema = {
        "extends": {},
        "properties": {"a": {"$ref": "#/nothing"}, "b": {"type": "integer", "title": "B"}},
        "x-mine": 1,
    }
    rows = {row.pointer: row.how for row in certificate(schema).keywords}
    assert rows == {
        "/extends": "refused",
        "/properties": "masked",
        "/x-mine": "annotation",
        "/properties/a/$ref": "refused",
        "/properties/b/type": "masked",
        "/properties/b/title": "annotation",
    }


def test_definitions_may_stand_in_groups() -> None:
    """Law: a group of definitions may name one like a keyword; it is no schema, so nothing is said by it."""
    names = ("format", "type", "pattern", "properties", "additionalProperties", "items", "enum")
    group = {name: {"type": "string"} for name in names}
    schema = {
        "properties": {name: {"$ref": f"#/$defs/group/{name}"} for name in names},
        "$defs": {"group": group},
    }
    made = certificate(schema)
    assert made.grammar is not None
    rows = {row.pointer: row.how for row in made.keywords}
    assert {rows[f"/$defs/group/{name}"] for name in names} == {"annotation"}


@pytest.mark.parametrize(
    "node",
    [
        words(["a", "abc", "abd"]),
        seq(lit("x"), repeat(alt(lit("ab"), lit("c")), 1, 3)),
        seq(lit("only"), alt(lit("1"), lit("22"))),
    ],
)
def test_figures_of_a_finite_language(node: Any) -> None:
    """Law: fewest and most are those of all texts; forced are the places with one way on."""
    grammar = Grammar(node)
    texts = finite_texts(grammar)
    report = grammar.report()
    assert report.min_symbols == min(map(len, texts))
    assert report.max_symbols == max(map(len, texts))
    shortest = [text for text in texts if len(text) == report.min_symbols]
    shares = {
        sum(len({t[i : i + 1] for t in texts if t[:i] == text[:i]}) == 1 for i in range(len(text)))
        for text in shortest
    }
    assert report.forced.forced in shares
    assert report.forced.symbols == report.min_symbols


@patient(20)
@given(schemas(), st.integers(0, 2**32), st.sampled_from(["schema", "any"]))
def test_no_text_is_longer_or_shorter(schema: Any, seed: int, order: str) -> None:
    """Law: every text of a schema is within the lengths that its report gives."""
    try:
        grammar = json_schema(schema, order=order)
    except UnsupportedSchema:
        return
    report = grammar.report()
    dice = random.Random(seed)
    for _ in range(3):
        length = len(sample(automaton_of(grammar), dice, length=30))
        assert report.min_symbols <= length
        assert report.max_symbols is None or length <= report.max_symbols


def test_what_has_no_end_says_so() -> None:
    """Law: without a limit the most is infinite; an automaton that is cut says that it is."""
    assert Grammar(many(lit("ab"))).report().max_symbols == INFINITE
    nested = {
        "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}},
        "$ref": "#/$defs/t",
    }
    report = json_schema(nested).report()
    assert report.max_symbols == INFINITE
    assert not report.size.is_whole
    assert size_of(automaton_of(Grammar(lit("abc")))) == (report.size.__class__(4, 3, True))
    assert json.loads(json.dumps(report.to_json()))["bytes"]["most"] is None


def test_tokens_of_single_bytes_are_bytes() -> None:
    """Law: with one token for each byte, tokens and forced tokens are those of the bytes."""
    schema = {"properties": {"a": {"enum": ["x", "yy"]}}, "required": ["a"], "type": "object"}
    grammar = json_schema(schema, additional=False)
    report = grammar.report()
    tokens = shortest_output(automaton_of(grammar), BYTES)
    assert tokens.tokens == report.min_symbols
    assert tokens.forced <= report.forced.forced
