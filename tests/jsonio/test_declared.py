"""Written arguments keep every digit; numbers that are declared as such are floats."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.jsonio.declared import write, write_string
from callmemaybe.jsonio.reader import Number, read

NUMBER: dict[str, Any] = {"type": "number"}


def rewrite(text: str, schema: dict[str, Any] | None = None) -> str:
    return write(read(text, source="x", number=Number, max_depth=None).value, schema)


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
    assert rewrite(text, schema) == written


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
    assert write_string(text) == written
    assert json.loads(written) == text
    written.encode()


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text()
        | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=15,
    )
)  # fmt: skip
def test_without_schema_it_writes_as_json_dumps(value: object) -> None:
    """Reading and writing again gives what json.dumps would have written."""
    text = write_safe(json.dumps(value, ensure_ascii=False))
    assert rewrite(text) == text


def write_safe(text: str) -> str:
    """Leave out halves of surrogate pairs, which the reader refuses."""
    return "".join(c for c in text if not "\ud800" <= c <= "\udfff")


def test_depth_is_no_danger() -> None:
    """A value of any depth can be written."""
    text = "[" * 50_000 + "1" + "]" * 50_000
    assert rewrite(text) == text
