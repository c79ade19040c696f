"""JSON Schema, case by case: what a keyword lets through, how it is written, what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import json_schema, json_schema_node
from callmemaybe.grammar.grammar import Grammar, alt, lit, seq
from callmemaybe.grammar.json_schema import DeferredCheck
from callmemaybe.grammar.json_schema.entry import in_schema_order
from callmemaybe.grammar.json_schema.keywords import ANNOTATIONS, KEYWORDS, REFUSED


def is_in(schema: Any, text: str, **options: Any) -> bool:
    """Whether a text is in the language of a schema."""
    automaton = compile_grammar(json_schema(schema, **options))
    state = automaton.walk(automaton.start, text.encode("utf-8", "surrogatepass"))
    return state >= 0 and automaton.is_accepting(state)


STRING = {"type": "string"}
TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["value"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/node",
}
CASES: list[tuple[str, Any, list[str], list[str]]] = [
    ("string", STRING, ['"a"', '""', '"é🙂"', r'"\u00fC\/\b\"\\"', r'"\ud83d\ude42"', '"\x7f"'],
     ['"', "a", '"\n"', '"\x1f"', r'"\ud83d"', r'"\ude42"', r'"\ud83d\u0041"', r'"\x"', '"\ud800"']),
    ("length counts characters", {"type": "string", "minLength": 2, "maxLength": 2},
     ['"ab"', '"é🙂"', r'"\ud83d\ude42\n"'], ['"a"', '"abc"', r'"\ud83d\ude42"', r'"🙂"']),
    ("pattern is a search", {"type": "string", "pattern": "b+"},
     ['"abba"', '"b"'], ['"a"', '""']),
    ("pattern escapes as json.dumps", {"type": "string", "pattern": '^["\\\\\\n\\u0001]$'},
     [r'"\""', r'"\\"', r'"\n"', r'"\u0001"'], ['"a"', r'"\u0002"', r'"n"']),
    ("pattern with length", {"type": "string", "pattern": "^a*$", "maxLength": 3, "minLength": 1},
     ['"a"', '"aaa"'], ['""', '"aaaa"', '"ab"']),
    ("two patterns", {"allOf": [{"type": "string", "pattern": "a"}, {"pattern": "^.{2}$"}]},
     ['"ab"', '"ca"'], ['"a"', '"bb"', '"abc"']),
    ("password", {"type": "string", "pattern": "^(?=.*[A-Z])(?=.*\\d)[^ ]{4,}$"},
     ['"aB3x"'], ['"ab3x"', '"aBcx"', '"B3"', '"aB3 x"']),
    ("format", {"type": "string", "format": "date"},
     ['"2024-02-29"', '"1999-12-31"'], ['"2023-02-29"', '"2024-13-01"', '"x"']),
    ("unknown format", {"type": "string", "format": "colour"}, ['"red"'], ["1"]),
    ("integer", {"type": "integer"}, ["0", "-0", "-7", "9" * 30], ["01", "1.5", "+1", '"1"', "1e2"]),
    ("number", {"type": "number"}, ["1", "1.50", "-0.0", "1e+16", "2E-7"], [".5", "1.", "01", "NaN"]),
    ("bounds", {"type": "integer", "minimum": -3, "exclusiveMaximum": 12},
     ["-3", "0", "11"], ["-4", "12", "100"]),
    ("draft 4 bounds", {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1},
     ["0.001", "1", "1.0", "1e-05"], ["0", "-1", "1.01", "0.0"]),
    ("multiples", {"type": "number", "multipleOf": 0.01}, ["1.25", "3", "-0.07"], ["1.255"]),
    ("enum", {"enum": ["a", 'q"', 1, 2.5, None, True, [1, "x"], {"k": "v"}]},
     ['"a"', r'"q\""', "1", "1.0", "2.5", "null", "true", '[1, "x"]', '{"k": "v"}'],
     ['"b"', "2", "false", "[]", '{"k": "w"}']),
    ("enum of a type", {"type": "string", "enum": ["a", 1]}, ['"a"'], ["1"]),
    ("const", {"const": {"a": [1, {}]}}, ['{"a": [1, {}]}'], ['{"a": [1]}']),
    ("boolean and null", {"type": ["boolean", "null"]}, ["true", "false", "null"], ["0", '""']),
    ("anything", {}, ["1", '{"a": [null, {"b": {}}]}', '"x"', "[]"], ["{'a': 1}", "[1,]", ""]),
    ("true", True, ["1", "{}"], ["nul"]),
    ("optional and required", {"type": "object", "properties": {"a": STRING, "b": STRING, "c": STRING},
      "required": ["b"], "additionalProperties": False},
     ['{"b": ""}', '{"a": "", "b": ""}', '{"b": "", "c": ""}', '{"a": "", "b": "", "c": ""}'],
     ["{}", '{"a": ""}', '{"b": "", "a": ""}', '{"b": "", "b": ""}', '{"b": "", "d": ""}']),
    ("all optional", {"properties": {"a": STRING, "b": STRING}, "additionalProperties": False},
     ["{}", '{"a": ""}', '{"b": ""}', '{"a": "", "b": ""}', "3"], ['{, "b": ""}', '{"a": "",}']),
    ("open", {"type": "object", "properties": {"a": STRING}},
     ["{}", '{"a": ""}', '{"a": "", "x": 1, "y": []}', '{"x": 1}'],
     ['{"a": 1}', '{"x": 1, "a": ""}', r'{"\u0061": 1}', r'{"a": "", "a": 1}']),
    ("typed extras", {"type": "object", "additionalProperties": {"type": "integer"}},
     ["{}", '{"x": 1, "y": 2}'], ['{"x": "1"}']),
    ("required, not listed", {"type": "object", "required": ["z"]},
     ['{"z": 1}', '{"z": 1, "y": 2}'], ["{}", '{"y": 2}']),
    ("odd names", {"type": "object", "properties": {'q"\n': {}, "é/~": {}}, "required": ['q"\n', "é/~"]},
     [r'{"q\"\n": 1, "é/~": 2}'], [r'{"q\"\n": 1}']),
    ("pattern properties", {"type": "object", "patternProperties": {"^i": {"type": "integer"}, "s$": STRING},
      "additionalProperties": False},
     ['{"i": 1}', '{"xs": ""}', "{}"], ['{"i": ""}', '{"is": 1}', '{"is": ""}', '{"y": 1}']),
    ("property names", {"type": "object", "propertyNames": {"maxLength": 2}},
     ['{"ab": 1}', "{}"], ['{"abc": 1}']),
    ("counted members", {"type": "object", "properties": {"a": {}, "b": {}, "c": {}},
      "additionalProperties": False, "minProperties": 2, "maxProperties": 2},
     ['{"a": 1, "c": 1}', '{"a": 1, "b": 1}', '{"b": 1, "c": 1}'],
     ["{}", '{"a": 1}', '{"a": 1, "b": 1, "c": 1}']),
    ("dependent", {"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}},
     ['{"a": 1, "b": 2}', '{"b": 2}', "{}"], ['{"a": 1}']),
    ("array", {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
     ["[1]", "[1, 2, 3]"], ["[]", "[1, 2, 3, 4]", '["a"]', "[1 2]"]),
    ("tuple", {"type": "array", "prefixItems": [STRING, {"type": "integer"}], "items": False},
     ["[]", '["a"]', '["a", 1]'], ['["a", 1, 2]', '["a", "b"]', "[1]"]),
    ("draft 4 tuple", {"type": "array", "items": [STRING], "additionalItems": {"type": "null"}, "minItems": 2},
     ['["a", null]', '["a", null, null]'], ['["a"]', '["a", "b"]']),
    ("contains", {"type": "array", "contains": {"type": "integer"}, "maxContains": 1},
     ["[1]", '["a", 1]', '[1, "a"]'], ["[]", '["a"]', "[1, 2]"]),
    ("unique among few", {"type": "array", "items": {"enum": ["a", "b", 1]}, "uniqueItems": True, "minItems": 2},
     ['["a", "b"]', '[1, "a", "b"]', '["b", 1.0]'], ['["a"]', '["a", "a"]', '[1, 1.0]', "[]"]),
    ("unique words but one", {"type": "array", "uniqueItems": True,
      "items": {"type": ["boolean", "null"], "not": {"const": None}}},
     ["[]", "[true]", "[false, true]"], ["[null]", "[true, true]", "[true, null]"]),
    ("unique words that both name", {"type": "array", "uniqueItems": True,
      "items": {"allOf": [{"type": "boolean"}, {"not": {"const": False}}]}}, ["[]", "[true]"], ["[false]"]),
    ("many patterns for keys", {"type": "object", "additionalProperties": {"type": "null"},
      "patternProperties": {**{f"^{c}-": {"type": "integer"} for c in "abcdefgh"}, "-$": {"minimum": 5}}},
     ['{"a-x": 1, "h-": 5, "x": null}', '{"-": null}', "{}"],
     ['{"a-x": "1"}', '{"h-": 4}', '{"x": 1}', '{"-": 4}']),
    ("unevaluated members", {"type": "object", "allOf": [{"properties": {"a": {}}}],
      "anyOf": [{"required": ["b"], "properties": {"b": {}}}, {"required": ["c"], "properties": {"c": {}}}],
      "unevaluatedProperties": False},
     ['{"a": 1, "b": 2}', '{"c": 2}', '{"b": 1, "c": 2}'], ["{}", '{"a": 1}', '{"b": 1, "d": 2}']),
    ("unevaluated items", {"prefixItems": [STRING], "contains": {"type": "null"}, "unevaluatedItems": {"type": "integer"}},
     ['["a", 1, null]', '["a", null]'], ['["a", 1]', '["a", null, true]']),
    ("dynamic reference", {"$id": "http://x.example/list", "$ref": "#/$defs/list", "$defs": {
        "list": {"$id": "generic", "items": {"$dynamicRef": "#T"}, "$defs": {"T": {"$dynamicAnchor": "T"}}},
        "T": {"$dynamicAnchor": "T", "type": "integer"}}}, ["[1, 2]"], ['["a"]']),
    ("recursive reference", {"$id": "http://x.example/strict", "$recursiveAnchor": True, "$ref": "tree", "required": ["n"],
      "$defs": {"tree": {"$id": "tree", "$recursiveAnchor": True, "type": "object",
        "properties": {"n": {"type": "integer"}, "sub": {"type": "array", "items": {"$recursiveRef": "#"}}}}}},
     ['{"n": 1}', '{"n": 1, "sub": [{"n": 2, "sub": []}]}'], ["{}", '{"n": 1, "sub": [{}]}', '{"n": 1, "sub": [1]}']),
    ("recursive reference without an anchor", {"$id": "http://x.example/loose", "$ref": "tree", "required": ["n"],
      "$defs": {"tree": {"$id": "tree", "type": "object",
        "properties": {"n": {"type": "integer"}, "sub": {"type": "array", "items": {"$recursiveRef": "#"}}}}}},
     ['{"n": 1, "sub": [{}]}'], ["{}", '{"n": 1, "sub": [1]}']),
    ("recursive reference to a root without a name", {"$recursiveAnchor": True, "type": "object",
      "properties": {"n": {"type": "integer"}, "in": {"$recursiveRef": "#"}}, "required": ["n"]},
     ['{"n": 1, "in": {"n": 2}}'], ['{"n": 1, "in": {}}']),
    ("keywords that an older draft does not know", {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
      "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}, "unevaluatedProperties": False},
     ['{"a": 1}', "{}"], ["1"]),
    ("host names of draft 6", {"$schema": "http://json-schema.org/draft-06/schema#", "type": "string", "format": "hostname"},
     ['"a--b.c"', '"xn--x"'], ['"-a"', '"a-"', '""', '"a_b"']),
    ("host names today", {"type": "string", "format": "hostname"}, ['"a-b.c"'], ['"ab--b.c"']),
    ("formats of draft 3", {"$schema": "http://json-schema.org/draft-03/schema#", "items": [
        {"type": "string", "format": "color"}, {"type": "string", "format": "host-name"},
        {"type": "string", "format": "ip-address"}, {"type": "string", "format": "time"}], "type": "array"},
     ['["#fff", "a.b", "10.0.0.1", "08:30:06"]', '["red"]'], ['["puce"]', '["#ffff"]', '["red", "a_b"]',
      '["red", "a", "256.1.1.1"]', '["red", "a", "1.1.1.1", "08:30:06Z"]']),
    ("anyOf with siblings", {"type": "object", "properties": {"k": STRING}, "required": ["k"],
      "anyOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"properties": {"b": STRING}, "required": ["b"]}]},
     ['{"k": "", "a": 1}', '{"k": "", "b": ""}'], ['{"k": ""}', '{"a": 1}']),
    ("oneOf by a constant", {"oneOf": [
        {"type": "object", "properties": {"k": {"const": n}, "v": {"type": t}}, "required": ["k", "v"]}
        for n, t in (("int", "integer"), ("str", "string"))]},
     ['{"k": "int", "v": 1}', '{"k": "str", "v": ""}'], ['{"k": "int", "v": ""}']),
    ("oneOf that overlaps", {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 5}]},
     ["3", "5.5"], ["7", "2.5", "1e+16"]),
    ("allOf", {"allOf": [{"type": ["integer", "string"], "minimum": 2}, {"maximum": 3, "maxLength": 1}]},
     ["2", "3", '"a"'], ["1", "4", '"ab"', "null"]),
    ("not", {"not": {"type": "object", "required": ["a"]}},
     ["1", "{}", '{"b": 1}', '"a"'], ['{"a": 1}', '{"b": 2, "a": 1}']),
    ("not enum", {"type": "string", "not": {"enum": ["a", "b"]}}, ['"c"', '""'], ['"a"']),
    ("if", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}},
      "if": {"properties": {"a": {"minimum": 5}}, "required": ["a"]}, "then": {"required": ["b"]}},
     ['{"a": 4}', '{"a": 5, "b": 1}', "{}"], ['{"a": 5}']),
    ("recursion", TREE, ['{"value": 1}', '{"value": 1, "children": [{"value": 2, "children": []}]}'],
     ['{"value": 1, "children": [{}]}']),
    ("reference with siblings", {"$defs": {"a": {"type": "integer"}}, "$ref": "#/$defs/a", "minimum": 3},
     ["3"], ["2", '"a"']),
    ("draft 7 reference", {"$schema": "http://json-schema.org/draft-07/schema#",
      "definitions": {"a": {"type": "integer"}}, "$ref": "#/definitions/a", "minimum": 3}, ["2"], ['"a"']),
    ("no URI as id", {"$id": "http://[x", "$defs": {"a": {"$id": "b#c", "type": "null"}}, "properties": {
        "a": {"$ref": "#/$defs/a"}}}, ['{"a": null}'], ['{"a": 1}']),
    ("anchor and id", {"$id": "http://x.example/root", "$defs": {"a": {"$id": "inner", "$defs": {
      "b": {"$anchor": "here", "type": "null"}}}}, "$ref": "inner#here"}, ["null"], ["1"]),
    ("BFCL", {"type": "dict", "properties": {"a": {"type": "float"}, "b": {"type": "tuple",
      "items": {"type": "any"}}}, "required": ["a"]}, ['{"a": 1.5, "b": [1, "x"]}'], ['{"a": "x"}']),
    ("OpenAPI", {"type": "string", "nullable": True, "x-order": 3, "example": "e"}, ["null", '"a"'], ["1"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "inside", "outside"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_texts(schema: Any, inside: list[str], outside: list[str]) -> None:
    """Law: exactly the texts of valid values are in the language."""
    for text in inside:
        assert is_in(schema, text), text
    for text in outside:
        assert not is_in(schema, text), text


def test_keys_in_any_order_are_no_matter_of_words() -> None:
    """Law: with keys in any order, items that differ are masked too, but for objects and arrays."""
    few = {"type": "array", "items": {"enum": ["a", 1, None]}, "uniqueItems": True}
    for text, expected in (('["a", 1]', True), ("[null]", True), ("[1, 1]", False), ("[2]", False)):
        assert is_in(few, text, order="any") is expected
    for value in ({"a": 1, "b": 2}, [{"a": 1}]):
        schema = {**few, "items": {"enum": [value, 1]}}
        assert is_in(schema, json.dumps([value, 1]))
        with pytest.raises(UnsupportedSchema, match="uniqueItems is not supported"):
            json_schema(schema, order="any")


def test_patterns_that_overlap_in_many_ways_are_left() -> None:
    """Law: past the limit on classes of keys the rest is masked, and what they need is checked."""
    patterns = {letter: {"type": "string"} for letter in "abcdefg"}
    schema = {
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "patternProperties": patterns,
        "propertyNames": {"maxLength": 3},
        "additionalProperties": False,
    }
    with pytest.raises(UnsupportedSchema, match="more than 64 ways") as caught:
        json_schema(schema)
    checks: list[DeferredCheck] = []
    automaton = compile_grammar(json_schema(schema, checks=checks))
    assert [check.pointer for check in checks] == [caught.value.pointer]
    for text, expected in (
        ('{"ab": "c", "h": [1]}', True),
        ('{"x": ""}', False),
        ('{"abcd": ""}', False),
    ):
        state = automaton.walk(automaton.start, text.encode())
        assert (state >= 0 and automaton.is_accepting(state)) is expected


def test_styles() -> None:
    """Law: spaced and compact have one spacing each; flexible has any, but never endless."""
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {}}, "b": {}}}
    spaced, compact = '{"a": [1, 2], "b": {}}', '{"a":[1,2],"b":{}}'
    indented = json.dumps({"a": [1, 2], "b": {"c": []}}, indent=4)
    for style, inside in (
        ("spaced", {spaced}),
        ("compact", {compact}),
        ("flexible", {spaced, compact, indented}),
    ):
        for text in (spaced, compact, indented):
            assert is_in(schema, text, style=style) is (text in inside)
    assert not is_in(schema, "{" + " " * 1000 + "}", style="flexible")
    assert not is_in(schema, "{\n\n}", style="flexible")


def test_tools_may_close_objects() -> None:
    """Law: additional=False closes objects that list properties and do not say, and only those."""
    closed = {
        "type": "object",
        "properties": {
            "a": {"type": "object"},
            "b": {"properties": {}, "additionalProperties": True},
        },
    }
    assert not is_in(closed, '{"x": 1}', additional=False)
    assert is_in(closed, '{"a": {"x": 1}, "b": {"x": 1}}', additional=False)
    assert is_in(closed, '{"x": 1}')


def test_schemas_can_be_embedded() -> None:
    """Law: the nodes of several schemas live in one grammar, their rules kept apart by a prefix."""
    first, rules = json_schema_node(TREE, prefix="first")
    second, more = json_schema_node(
        {**TREE, "$defs": {"node": {"items": {"$ref": "#/$defs/node"}}}}, prefix="second"
    )
    grammar = Grammar(alt(seq(lit("1"), first), seq(lit("2"), second)), {**rules, **more})
    automaton = compile_grammar(grammar)
    for text, inside in (('1{"value": 1}', True), ("2[[[]]]", True), ("1[]", False)):
        state = automaton.walk(automaton.start, text.encode())
        assert (state >= 0 and automaton.is_accepting(state)) is inside


def test_references_may_point_at_schemas_handed_in() -> None:
    """Law: a remote schema is used when it is given, and never fetched."""
    schema = {"$ref": "http://x.example/point#/$defs/x"}
    remotes = {"http://x.example/point": {"$defs": {"x": {"type": "integer"}}}}
    assert is_in(schema, "3", remotes=remotes)
    with pytest.raises(UnsupportedSchema, match="fetched"):
        json_schema(schema)


REFUSALS: list[tuple[Any, str, str]] = [
    ({"type": "strin"}, "/type", "is no type"),
    ({"properties": {"a/b": {"type": "array", "uniqueItems": True}}}, "/properties/a~1b/uniqueItems", "uniqueItems"),
    ({"properties": {"a": {"not": {"unevaluatedProperties": False}}}}, "/properties/a/not/unevaluatedProperties", "negating"),
    ({"pattern": r"(a)\1"}, "/pattern", "back-references"),
    ({"patternProperties": {"(": {}}}, "/patternProperties", "missing"),
    ({"minLength": -1}, "/minLength", "from 0 up"),
    ({"prefixItems": [{"$ref": "#/prefixItems/01"}, {"type": "null"}]}, "/prefixItems/0/$ref", "not in the schema"),
    ({"maxItems": 1.5}, "/maxItems", "whole number"),
    ({"minimum": "3"}, "/minimum", "a number is expected"),
    ({"minimum": float("nan")}, "/minimum", "finite"),
    ({"multipleOf": 0}, "/multipleOf", "above 0"),
    ({"enum": "a"}, "/enum", "list of values"),
    ({"required": True}, "/required", "list of names"),
    ({"properties": []}, "/properties", "an object is expected"),
    ({"allOf": []}, "/allOf", "at least one"),
    ({"items": 3}, "/items", "must be an object"),
    ({"$ref": "#/$defs/none"}, "/$ref", "not in the schema"),
    ({"$id": "http://x.example/a", "$ref": "//[x"}, "/$ref", "not in the schema"),
    ({"$ref": "http://[x#a"}, "/$ref", "not in the schema"),
    ({"$dynamicRef": "http://[x#a"}, "/$dynamicRef", "not in the schema"),
    ({"$ref": "#"}, "", "leads back to itself"),
    ({"extends": {}}, "/extends", "allOf"),
    ({"$recursiveRef": "#/$defs/a"}, "/$recursiveRef", "only #"),
    (3, "", "must be an object"),
    (False, "", "no value"),
    ({"type": "integer", "minimum": 3, "maximum": 2}, "", "no value"),
    ({"properties": {"a": {"$ref": "#"}}, "required": ["a"], "type": "object"}, "", "no value"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "pointer", "message"), REFUSALS)
def test_refusals_name_the_place(schema: Any, pointer: str, message: str) -> None:
    """Law: what is malformed, unsupported or impossible is refused with its JSON pointer."""
    with pytest.raises(UnsupportedSchema, match=message) as caught:
        json_schema(schema)
    assert caught.value.pointer == pointer


def test_every_keyword_is_one_thing() -> None:
    """Law: a keyword is exact, an annotation or refused; the three lists do not overlap."""
    assert not KEYWORDS.keys() & ANNOTATIONS
    assert not REFUSED.keys() & (KEYWORDS.keys() | ANNOTATIONS)


def test_values_can_be_put_in_schema_order() -> None:
    """Law: in_schema_order sorts the keys of every object as the grammar wants them."""
    schema = {
        "properties": {"b": {"items": {"properties": {"y": {}, "x": {}}}}, "a": {}},
        "anyOf": [{"required": ["d"], "properties": {"d": {}, "c": {}}}, {"required": ["c"]}],
    }
    value = {"z": 1, "c": 2, "d": 3, "a": 4, "b": [{"x": 1, "y": 2}]}
    ordered = in_schema_order(schema, value)
    assert json.dumps(ordered) == '{"b": [{"y": 2, "x": 1}], "a": 4, "d": 3, "c": 2, "z": 1}'
    assert not is_in(schema, json.dumps(value))
    assert is_in(schema, json.dumps(ordered))


def _nested(depth: int, wrap: Any) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = wrap(schema)
    return schema


HOSTILE: list[tuple[str, Any, str | None]] = [
    ("100,000 values", {"enum": [f"value-{i}" for i in range(100_000)]}, '"value-77777"'),
    ("1,000 objects deep", _nested(1000, lambda s: {"properties": {"a": s}, "required": ["a"], "type": "object"}),
     '{"a": ' * 1000 + '""' + "}" * 1000),
    ("1,000 arrays deep", _nested(1000, lambda s: {"type": "array", "items": s}), "[" * 1000 + "]" * 1000),
    ("1,000 allOf deep", _nested(1000, lambda s: {"allOf": [s]}), '"x"'),
    ("1,000 anyOf deep", _nested(1000, lambda s: {"anyOf": [s, {"type": "null"}]}), "null"),
    ("1,000 not deep", _nested(1000, lambda s: {"not": s}), '"x"'),
    ("1,000 oneOf deep", _nested(1000, lambda s: {"oneOf": [s, {"type": "null"}]}), None),
    ("2^60 references", {"$defs": {"d60": STRING, **{f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2}
      for i in range(60)}}, "$ref": "#/$defs/d0"}, '"x"'),
    ("2^60 options", {"$defs": {"d60": STRING, **{f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2}
      for i in range(60)}}, "$ref": "#/$defs/d0"}, None),
    ("3^24 options", {"allOf": [{"anyOf": [{"required": [f"{c}{i}"]} for c in "abc"]} for i in range(24)],
      "type": "object"}, None),
    ("2,000 optional properties", {"type": "object", "properties": {f"p{i}": STRING for i in range(2000)}},
     '{"p3": "", "p1999": "", "x": 1}'),
    ("catastrophic pattern", {"type": "string", "pattern": "^(a|a)*(b|a){0,300}c$"}, '"' + "a" * 500 + 'c"'),
    ("exponential automaton", {"type": "string", "pattern": "(a|b)*a(a|b){60}$"}, '"' + "a" * 80 + '"'),
    ("a million characters", {"type": "string", "maxLength": 10**6}, '"abc"'),
    ("a billion items", {"type": "array", "maxItems": 10**9}, "[1]"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "text"), [c[1:] for c in HOSTILE], ids=[c[0] for c in HOSTILE])
def test_hostile_schemas_end(schema: Any, text: str | None) -> None:
    """Law: whatever the schema, it soon ends in a right automaton or in a clear error."""
    start = time.process_time()
    if text is None:
        with pytest.raises(UnsupportedSchema):
            json_schema(schema)
    else:
        assert is_in(schema, text)
    assert time.process_time() - start < 10


def test_the_package_and_the_function_json_schema_do_not_hide_each_other() -> None:
    """Law: callmemaybe.grammar.json_schema is the function, whatever of the package is imported first."""
    code = (
        "import callmemaybe.grammar.json_schema.emit, callmemaybe.grammar.json_schema.certificate\n"
        "from importlib import import_module\n"
        "from callmemaybe.grammar import json_schema, regex\n"
        "import_module('callmemaybe.grammar.json_schema.objects')\n"
        "import callmemaybe.grammar as room\n"
        "assert room.json_schema is json_schema and callable(json_schema), json_schema\n"
        "from callmemaybe.grammar import json_schema as again\n"
        "assert again({'type': 'null'}).root and again is json_schema\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
