"""Schemas and patterns made to take for ever end soon: in an automaton, or in a clear error.

What is counted is work (states, steps), never seconds.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import json_schema

FAR = [Decimal("1e999999999"), Decimal("-1e-999999999"), 10**100_000, Decimal("7" * 5000)]


def is_in(schema: Any, text: str) -> bool:
    """Whether a text is in the language of a schema."""
    automaton = compile_grammar(json_schema(schema))
    state = automaton.walk(automaton.start, text.encode())
    return state >= 0 and automaton.is_accepting(state)


@pytest.mark.parametrize(
    "keyword", ["minimum", "exclusiveMaximum", "multipleOf", "const", "minItems"]
)
@pytest.mark.parametrize("number", FAR, ids=["huge", "tiny", "integer", "long"])
def test_numbers_that_nobody_could_write_out_are_refused(keyword: str, number: Any) -> None:
    """Law: a number of more digits than Python reads is refused, with the pointer of its keyword."""
    with pytest.raises(UnsupportedSchema, match="digits") as caught:
        json_schema({"properties": {"a": {keyword: number}}})
    assert caught.value.pointer == f"/properties/a/{keyword}"


def test_such_a_number_in_an_enumeration_is_refused() -> None:
    """Law: the same holds for the values of an enumeration."""
    for number in FAR:
        with pytest.raises(UnsupportedSchema, match="digits") as caught:
            json_schema({"enum": [1, {"a": [number]}]})
        assert caught.value.pointer == "/enum"


def test_zero_is_zero_with_any_exponent() -> None:
    """Law: what is refused is the length of a number; 0e999999999 is 0."""
    zero = {
        "type": "integer",
        "minimum": Decimal("0e999999999"),
        "maximum": Decimal("0e-999999999"),
    }
    assert is_in(zero, "0")
    assert not is_in(zero, "1")


def test_long_numbers_are_kept_to_the_last_digit() -> None:
    """Law: a constant is written with all the digits it has in the schema."""
    number = Decimal("0.1234567890123456789012345678901234567")
    assert is_in({"const": number}, str(number))
    assert not is_in({"const": number}, "0.1234567890123456789012345679")
    assert is_in({"const": -(10**4000)}, f"-1{'0' * 4000}")
