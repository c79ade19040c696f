"""A key that an object has twice: no automaton can see to it, so a call is checked before it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe._json import repeated_key
from callmemaybe._setting import validate
from callmemaybe.calls import ToolCall
from callmemaybe.errors import DecodingError
from callmemaybe.grammar.schema.certificate import certificate

KEYS = st.sampled_from(["a", "b", 'q":"', "\\", "é", "{}"])


class Pairs(list[tuple[str, Any]]):
    """The members of an object, keys as often as they come."""


def texts(value: Any) -> str:
    """Write a value whose objects are Pairs."""
    if isinstance(value, Pairs):
        members = ", ".join(f"{json.dumps(key)}: {texts(inner)}" for key, inner in value)
        return f"{{{members}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(texts, value))}]"
    return json.dumps(value)


def is_repeated(value: Any) -> bool:
    """Whether some object has a key twice, seen from its members."""
    if isinstance(value, Pairs):
        keys = [key for key, _ in value]
        return len(set(keys)) < len(keys) or any(is_repeated(inner) for _, inner in value)
    return isinstance(value, list) and any(map(is_repeated, value))


values = st.recursive(
    st.one_of(KEYS, st.integers(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(st.tuples(KEYS, inner), max_size=3).map(Pairs)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(values)
def test_a_repeated_key_is_found_wherever_it_is(value: Any) -> None:
    """Law: a key is reported iff some object of the text has it twice, escaped or not."""
    assert (repeated_key(texts(value)) is not None) is is_repeated(value)


def test_keys_are_compared_by_what_they_mean() -> None:
    """Law: one key in two spellings is one key; the same key in two objects is none twice."""
    assert repeated_key('{"a": 1, "\\u0061": 2}') == "a"
    assert repeated_key('{"a": {"a": [{"a": 1}, {"a": 2}]}}') is None
    assert repeated_key('{"a":' * 5000 + "1" + "}" * 5000) is None


def test_a_call_with_a_key_twice_is_never_told() -> None:
    """Law: a call whose arguments have a key twice is an error that names the key."""
    with pytest.raises(DecodingError, match="'x' twice"):
        validate(ToolCall("f", '{"x": 1, "x": 2}', "1"), None)
    validate(ToolCall("f", '{"x": 1, "y": 2}', "1"), None)


def test_the_certificate_says_where_this_may_happen() -> None:
    """Law: what opens an object says that repeated keys are found in the complete value."""
    schema = {"properties": {
        "open": {"type": "object"},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "closed": {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
    }}  # fmt: skip
    told = {
        row.pointer for row in certificate(schema, additional=False).keywords if "twice" in row.why
    }
    assert told == {"/properties/open/type", "/properties/counts/additionalProperties"}
