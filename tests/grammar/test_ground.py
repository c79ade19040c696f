"""Grounding: what a value may be when it must occur in what was said."""

from __future__ import annotations

import json
import random
import unicodedata
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar import GroundingSource, json_schema
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.json_schema.grounding import numbers_in
from tests.grammar.oracle import sample
from tests.grammar.test_schema_laws import is_in, patient

TEXT = 'Weather in New York, "tomorrow", for 3 days \u660e\u5929\u5317\u4eac'
SAID: dict[str, Any] = {"type": "string", "x-ground": "prompt"}


def allows(schema: Any, value: Any, said: GroundingSource | str = TEXT) -> bool:
    """Whether a value is in the language of a schema, given what was said."""
    try:
        automaton = compile_grammar(json_schema(schema, ground=said, additional=False))
    except UnsupportedSchema:
        return False
    return is_in(automaton, json.dumps(value, ensure_ascii=False))


def cut(text: str, place: int) -> bool:
    """Whether a substring may begin or end at a place: not inside a word, but of uncased letters."""
    around = text[max(place - 1, 0) : place + 1]
    kinds = [unicodedata.category(char) for char in around]
    if place in (0, len(text)):
        return True
    if any(kind[0] == "M" for kind in kinds):
        return False
    return not (around[0].isalnum() and around[1].isalnum()) or "Lo" in kinds


@patient(60)
@given(
    st.text(alphabet='ab1 "\\\n\u00e9\u0301\u660e\U0001f642.', max_size=12),
    st.text(alphabet='ab1 "\\\n\u00e9\u0301\u660e\U0001f642.', max_size=4),
)
def test_a_grounded_string_is_a_part_of_the_text(text: str, value: str) -> None:
    """Law: exactly the substrings that neither start nor end within a word or in space are allowed."""
    wanted = any(
        text[start:end] == value and cut(text, start) and cut(text, end)
        for start in range(len(text))
        for end in range(start + 1, len(text) + 1)
        if not text[start].isspace() and not text[end - 1].isspace()
    )
    assert allows(SAID, value, text) is wanted


@patient(60)
@given(st.integers(0, 2**32), st.sampled_from([{}, {"maxLength": 5}, {"pattern": "o"}]))
def test_grounding_joins_the_other_keywords(seed: int, more: dict[str, Any]) -> None:
    """Law: a grounded string is in the text and meets everything else its schema says."""
    schema = {**SAID, **more}
    dice = random.Random(seed)
    value = json.loads(sample(compile_grammar(json_schema(schema, ground=TEXT)), dice))
    assert value in TEXT
    assert len(value) <= more.get("maxLength", len(value))
    assert "o" in value or "pattern" not in more


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("from 3 to 12", [3, 12]),
        ("-3.5 degrees", ["3.5", "-3.5"]),
        ("1,234.50 EUR", ["1234.50"]),
        ("1.234 or 1,5", ["1.234", 1234, "1.5"]),
        ("on 2024-05-01", [2024, 5, 1]),
        ("1 000 000 people", [1, 0, 1000000]),
        ("2e3 and .5", [2000, "0.5"]),
        ("version 10.0.0.1", []),
        ("\u0663 apples", [3]),
        ("1e999999999999", []),
        ("9" * 5_000, []),
        (f"-{'9' * 4_400}e3 and 1.{'0' * 5_000}, or 7", [7]),
        ("none", []),
    ],
)
def test_numbers_that_occur(text: str, numbers: list[Any]) -> None:
    """Law: digits are read in each way that they may be meant, and in no other."""
    wanted = {Decimal(number) for number in numbers}
    assert {Decimal(number) for number in numbers_in(text)} == wanted


@patient(40)
@given(st.decimals(-1000, 1000, places=2), st.integers(-(10**20), 10**20))
def test_a_number_that_is_written_is_found(decimal: Decimal, whole: int) -> None:
    """Law: a number written in a text in its plain form may be the value, one beside it may not."""
    text = f"between {decimal} and {whole}."
    schema = {"type": "integer", "x-ground": "prompt"}
    assert allows(schema, whole, text)
    assert allows({**schema, "type": "number"}, float(decimal), text)
    if abs(whole + 1) not in (abs(decimal), abs(whole)):
        assert not allows(schema, whole + 1, text)
    assert allows({**schema, "maximum": whole - 1}, whole, text) is False


LONG = "0.1234567890123456789012345678901"


@pytest.mark.parametrize(
    ("text", "kind", "written"),
    [
        ("pay 12.50", "number", ["12.5", "12.50"]),
        ("pay 1,250.00", "number", ["1250", "1250.0", "1250.00"]),
        ("pay 1250.00", "integer", ["1250"]),
        ("3 or 3.0 or 3.00", "number", ["3", "3.0", "3.00"]),
        ("at 0.00000010", "number", ["0.0000001", "0.00000010"]),
        ("1e3 and 1.50E2", "number", ["1000", "1000.0", "1e3", "150", "150.0"]),
        (f"-{LONG}", "number", [LONG, f"-{LONG}"]),
    ],
)
def test_digits_stay_as_they_were_said(text: str, kind: str, written: list[str]) -> None:
    """A price keeps its zeros, a long number all its digits; the plain form may be written, too."""
    machine = compile_grammar(json_schema({"type": kind, "x-ground": "prompt"}, ground=text))
    texts = {one for value in (text, *written) for one in (value, value.lower())}
    texts |= {"12.500", "1250.000", "3.000", "1E3", "1.5e2", LONG[:30], f"-{LONG[:30]}"}

    def accepts(one: str) -> bool:
        state = machine.walk(machine.start, one.encode())
        return state >= 0 and machine.is_accepting(state)

    assert sorted(filter(accepts, texts)) == sorted(written)


def test_what_was_said_in_words_may_be_handed_in() -> None:
    """Law: further numbers count as said."""
    schema = {"type": "integer", "x-ground": "prompt"}
    assert allows(schema, 12, GroundingSource("a dozen", numbers=(12,)))
    assert not allows(schema, 12, GroundingSource("a dozen"))


def test_where_nothing_fits() -> None:
    """Law: "prompt" then leaves no value, "prompt-or-free" every one the rest of the schema allows."""
    strict = {"type": "integer", "x-ground": "prompt"}
    free = {"type": "integer", "x-ground": "prompt-or-free", "minimum": 0}
    assert not allows(strict, 5, "no number")
    assert allows(free, 5, "no number")
    assert not allows(free, -5, "no number")
    assert not allows(free, 5, "only 4 of them")
    with pytest.raises(UnsupportedSchema, match="no value"):
        json_schema({"type": "string", "x-ground": "prompt"}, ground=" ")
    both = {"type": "object", "properties": {"a": strict, "b": {"type": "boolean"}}}
    assert allows(both, {"b": True}, "no number")
    assert not allows({**both, "required": ["a"]}, {"b": True}, "no number")


def test_everywhere_means_what_is_not_described_otherwise() -> None:
    """Law: with ``everywhere`` strings and numbers are grounded; lists, patterns, keys are not."""
    said = GroundingSource(TEXT, everywhere="prompt")
    properties = {
        "text": {"type": "string"},
        "day": {"type": "string", "format": "date"},
        "unit": {"enum": ["km", "mi"]},
        "sure": {"type": "boolean"},
        "mine": {"type": "string", "x-ground": False},
        "any": {},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    }
    schema = {"type": "object", "properties": properties}
    for value in (
        {"text": "New York", "day": "2024-05-01", "unit": "km", "sure": True},
        {"mine": "Paris", "any": "Paris"},
        {"map": {"Paris": 3}},
    ):
        assert allows(schema, value, said)
    for value in ({"text": "Paris"}, {"map": {"x": 4}}):
        assert not allows(schema, value, said)


def test_the_strictest_holds_where_schemas_meet() -> None:
    """Law: of combined schemas the strictest grounding holds."""
    schema = {"allOf": [{"type": "string", "x-ground": False}, SAID]}
    assert allows(schema, "York")
    assert not allows(schema, "Paris")


def test_grounding_is_never_silently_left_out() -> None:
    """Law: without a text ``x-ground`` is refused with its pointer, and so is an unknown value."""
    with pytest.raises(UnsupportedSchema, match="what was said") as caught:
        json_schema({"properties": {"a": SAID}})
    assert caught.value.pointer == "/properties/a/x-ground"
    with pytest.raises(UnsupportedSchema, match="prompt-or-free"):
        json_schema({"x-ground": "user"}, ground="x")
    with pytest.raises(ValueError, match="everywhere"):
        GroundingSource("x", everywhere="always")
