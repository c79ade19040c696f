"""What is written is read back: every digit and letter, in one style, at any depth."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.errors import InputError
from callmemaybe.jsonio import RawNumber, dumps, dumps_result, dumps_string, loads, read, rewrite

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=15,
)  # fmt: skip
NUMBER: dict[str, Any] = {"type": "number"}


def read_and_write(text: str, schema: dict[str, Any] | None = None) -> str:
    return dumps(read(text, source="x", number=RawNumber, max_depth=None).value, schema=schema)


@pytest.mark.parametrize(
    ("text", "schema", "written"),
    [
        ("3", NUMBER, "3.0"),
        ("-0", NUMBER, "-0.0"),
        ("0.10", NUMBER, "0.10"),
        ("1e400", NUMBER, "1e400"),
        ("1E5", NUMBER, "1E5"),
        ("12345678901234567890123", NUMBER, "12345678901234567890123.0"),
        ("3", {"type": "integer"}, "3"),
        ("9" * 6000, {"type": "integer"}, "9" * 6000),
        ("3", {"type": ["number", "null"]}, "3.0"),
        ("3", {"type": ["number", "integer"]}, "3"),
        ("3", {"type": "float"}, "3.0"),
        ("3", {"type": ["number", "any"]}, "3"),
        ("3", {}, "3"),
        ("3", {"anyOf": [{"type": "string"}, NUMBER]}, "3.0"),
        ("3", {"anyOf": [{"type": "integer"}, NUMBER]}, "3"),
        ("3", {"enum": [3], "type": "number"}, "3.0"),
        ('{"a":1,"b":[2,3],"c":{"d":4}}',
         {"properties": {"a": {"type": "integer"}, "b": {"items": NUMBER},
                         "c": {"additionalProperties": NUMBER}}},
         '{"a": 1, "b": [2.0, 3.0], "c": {"d": 4.0}}'),
        ("[1,2,3]", {"prefixItems": [NUMBER, {"type": "integer"}], "items": NUMBER}, "[1.0, 2, 3.0]"),
        ("[1,2,3]", {"items": [NUMBER], "additionalItems": {"type": "integer"}}, "[1.0, 2, 3]"),
        ('{"x1":1,"y":1}', {"patternProperties": {"^x": NUMBER}}, '{"x1": 1.0, "y": 1}'),
        ('{"v":1,"next":{"v":2}}',
         {"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"v": NUMBER, "next": {"$ref": "#/$defs/n"}}}}},
         '{"v": 1.0, "next": {"v": 2.0}}'),
        ("1", {"$ref": "#"}, "1"),
        ("[]", {}, "[]"),
        ("{}", {}, "{}"),
        ("[true,false,null]", {}, "[true, false, null]"),
    ],
)  # fmt: skip
def test_declared_numbers_are_floats(text: str, schema: dict[str, Any], written: str) -> None:
    """Digits are only ever added to, and only where the schema says number and not integer."""
    assert read_and_write(text, schema) == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('quote " backslash \\ slash /', r'"quote \" backslash \\ slash /"'),
        ("line\nfeed\ttab\x00", r'"line\nfeed\ttab\u0000"'),
        ("Zürich 東京 🙂 \u2028", '"Zürich 東京 🙂 \u2028"'),
        ("\ud800", r'"\ud800"'),
    ],
)
def test_strings_are_exact(text: str, written: str) -> None:
    """Only what must be escaped is; what UTF-8 cannot carry survives as an escape."""
    assert dumps_string(text) == written
    assert json.loads(written) == text
    written.encode()


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_without_schema_it_writes_as_json_dumps(value: object) -> None:
    """Reading and writing again gives what json.dumps would have written."""
    text = json.dumps(value, ensure_ascii=False)
    assert read_and_write(text) == text


def test_depth_is_no_danger() -> None:
    """A value of any depth can be written."""
    text = "[" * 50_000 + "1" + "]" * 50_000
    assert read_and_write(text) == text


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=80)
@given(value=VALUES, compact=st.booleans())
def test_what_is_written_is_read_back(value: Any, compact: bool) -> None:
    """loads(dumps(x)) is x, in both styles, and rewriting a text changes no value in it."""
    text = dumps(value, compact=compact)
    assert loads(text) == value
    assert loads(rewrite(text, compact=not compact)) == value
    assert rewrite(rewrite(text, compact=not compact), compact=compact) == text


@settings(max_examples=50)
@given(value=VALUES)
def test_the_style_is_that_of_the_standard_library(value: Any) -> None:
    """Without decimals and half pairs the text is that of json.dumps, letter by letter."""
    text = dumps(value)
    if "." not in text and "\\ud" not in text and "E" not in text:
        assert text == json.dumps(json.loads(text), ensure_ascii=False)


@settings(max_examples=100, deadline=None)
@given(value=VALUES, compact=st.booleans())
def test_the_c_encoder_writes_what_the_slow_one_does(value: Any, compact: bool) -> None:
    """A conversion that is never needed makes the encoder in Python write the same value."""
    assert dumps(value, compact=compact) == dumps(value, compact=compact, default=repr)


@pytest.mark.parametrize(
    "value", [float("nan"), [float("inf")], Decimal("NaN"), [Decimal("-Infinity")]]
)
def test_a_number_that_is_not_finite_is_refused(value: Any) -> None:
    """JSON has no such number, however it is written."""
    for canonical in (False, True):
        with pytest.raises(InputError, match="no infinity"):
            dumps(value, canonical=canonical)


def test_a_value_that_contains_itself_is_refused() -> None:
    """Its text would not end; the same value twice side by side is written twice."""
    value: list[Any] = []
    value.append({"a": value})
    with pytest.raises(InputError, match="contains itself"):
        dumps(value)
    twin = [1]
    assert dumps([twin, {"a": twin}, ()]) == '[[1], {"a": [1]}, []]'


@settings(max_examples=80, deadline=None)
@given(JSON)
def test_a_result_is_written_as_it_is(value: Any) -> None:
    """Every JSON value that a function returns is read back equal."""
    assert json.loads(dumps_result(value, max_depth=64)) == value


@pytest.mark.parametrize("value", [float("nan"), "\ud800", [[[]]], object()])
def test_a_result_that_json_cannot_carry_is_refused(value: Any) -> None:
    """Nothing is written that would be read back as something else."""
    with pytest.raises(InputError):
        dumps_result(value, max_depth=2)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_depth_has_no_limit(opening: str, closing: str) -> None:
    """Nesting of any depth is read and written."""
    text = opening * 20_000 + "[]" + closing * 20_000
    value = loads(text)
    assert dumps(value, compact=True) == text
    depth = 0
    while value:
        value = value["a"] if isinstance(value, dict) else value[0]
        depth += 1
    assert depth == 20_000
