"""Schemas made to hurt a server: each as the JSON text of a function's parameters, or of a list of functions.

Texts, since some nest deeper than Python's own writer goes, or say what Python cannot (a key twice, NaN).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

HUGE = 10**9


def _property(value: Any, **around: Any) -> str:
    """Return the text of parameters with one required property ``v``."""
    return json.dumps(
        {"type": "object", "properties": {"v": value}, "required": ["v"], **around}, default=str
    )


def _raw(text: str) -> str:
    return f'{{"type": "object", "properties": {{"v": {text}}}, "required": ["v"]}}'


def _text(pattern: str, **more: Any) -> str:
    return _property({"type": "string", "pattern": pattern, **more})


def _nested(before: str, after: str, count: int, inside: str = '{"type": "string"}') -> str:
    return _raw(before * count + inside + after * count)


def _bomb(count: int, join: Callable[[dict[str, str]], Any]) -> str:
    """Return parameters whose definitions each use the one before them through ``join``."""
    definitions: dict[str, Any] = {"n0": {"type": "string"}}
    for number in range(1, count):
        definitions[f"n{number}"] = join({"$ref": f"#/$defs/n{number - 1}"})
    return _property({"$ref": f"#/$defs/n{count - 1}"}, **{"$defs": definitions})


def _choice(keyword: str, number: int) -> dict[str, Any]:
    left, right = f"a{number}", f"b{number}"
    return {keyword: [{"required": [left], "properties": {left: {"const": 1}}},
                      {"required": [right], "properties": {right: {"const": 2}}}]}  # fmt: skip


def _when(number: int) -> dict[str, Any]:
    name = f"k{number}"
    return {"if": {"properties": {name: {"const": 1}}, "required": [name]},
            "then": {"required": [f"m{number}"]}}  # fmt: skip


def _strings(count: int, prefix: str = "k") -> dict[str, Any]:
    return {f"{prefix}{number}": {"type": "string"} for number in range(count)}


def _names(count: int) -> list[str]:
    return [f"k{number}" for number in range(count)]


def _function(name: str, parameters: str) -> str:
    return f'{{"type": "function", "function": {{"name": {json.dumps(name)}, "parameters": {parameters}}}}}'


def _functions(count: int, parameters: str) -> str:
    return "[" + ",".join(_function(f"f{number}", parameters) for number in range(count)) + "]"


_ANY = '{"type": "object", "properties": {}}'
#: By name, a function that returns the text of a function's parameters.
SCHEMAS: dict[str, Callable[[], str]] = {
    # nesting
    "objects in objects, 1,000 deep": lambda: _nested('{"properties":{"a":', "}}", 1000),
    "arrays in arrays, 100,000 deep": lambda: _nested('{"items":', "}", 100_000),
    "not in not, 30,000 deep": lambda: _nested('{"not":', "}", 30_000),
    "anyOf in anyOf, 10,000 deep": lambda: _nested('{"anyOf":[', "]}", 10_000),
    "a constant 100,000 deep": lambda: _raw('{"const":' + "[" * 100_000 + "]" * 100_000 + "}"),
    "not in not, 50 deep": lambda: _nested('{"not":', "}", 50),
    "objects in objects, 25 deep": lambda: _nested('{"properties":{"a":', '},"required":["a"]}', 25),
    # references
    "a reference to itself": lambda: '{"$ref": "#"}',
    "a loop of references": lambda: _property(
        {"$ref": "#/$defs/a"}, **{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    ),
    "allOf of itself": lambda: '{"allOf": [{"$ref": "#"}, {"$ref": "#"}]}',
    "anyOf of itself": lambda: '{"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}',
    "not itself": lambda: '{"not": {"$ref": "#"}}',
    "endless required recursion": lambda: (
        '{"type": "object", "properties": {"v": {"$ref": "#"}}, "required": ["v"]}'
    ),
    "a bomb of 400 doublings in objects": lambda: _bomb(
        400, lambda last: {"type": "object", "properties": {"a": last, "b": last}, "required": ["a", "b"]}
    ),
    "a bomb of 40 doublings in allOf": lambda: _bomb(40, lambda last: {"allOf": [last, last]}),
    "a bomb of 200 doublings in anyOf": lambda: _bomb(
        200, lambda last: {"anyOf": [last, {"type": "array", "items": last}]}
    ),
    "a bomb of 30 doublings in oneOf": lambda: _bomb(
        30, lambda last: {"oneOf": [last, {"type": "array", "items": last}]}
    ),
    "a chain of 20,000 references": lambda: _bomb(20_000, lambda last: last),
    "9,000 references side by side": lambda: _property({"anyOf": [
        {"$ref": f"#/$defs/n{n}"} for n in range(9000)]}, **{"$defs": {f"n{n}": {"const": n} for n in range(9000)}}),
    "a reference to another host": lambda: _property({"$ref": "http://127.0.0.1:9/s.json"}),
    "a reference to a file": lambda: _property({"$ref": "file:///etc/passwd"}),
    "a reference to nothing": lambda: _property({"$ref": "#/$defs/nowhere"}),
    "a dialect on another host": lambda: _property(
        {"type": "string"}, **{"$schema": "http://127.0.0.1:9/dialect"}
    ),
    "dynamic references through 60 resources": lambda: _property({"$ref": "d0"}, **{
        "$id": "http://e/r", "$defs": {f"d{n}": {
            "$id": f"d{n}", "$dynamicAnchor": "node",
            "properties": {"a": {"$ref": f"d{(5 * n + 3) % 60}"}, "c": {"$dynamicRef": "#node"}},
        } for n in range(60)}}),
    # products
    "allOf of 200 anyOf": lambda: _property({"allOf": [_choice("anyOf", n) for n in range(200)]}),
    "allOf of 20 oneOf": lambda: _property({"allOf": [_choice("oneOf", n) for n in range(20)]}),
    "oneOf of 300 overlapping": lambda: _property(
        {"oneOf": [{"type": "integer", "multipleOf": n + 1} for n in range(300)]}
    ),
    "anyOf of 5,000 objects": lambda: _property(
        {"anyOf": [{"properties": {f"k{n}": {"const": n}}, "required": [f"k{n}"]} for n in range(5000)]}
    ),
    "30 times if and then": lambda: _property({"allOf": [_when(n) for n in range(30)]}),
    "60 dependentRequired": lambda: _property({
        "type": "object", "properties": _strings(60),
        "dependentRequired": {f"k{n}": [f"k{(n * 7 + 1) % 60}"] for n in range(60)}}),
    "20 dependentSchemas": lambda: _property({
        "type": "object", "properties": _strings(20),
        "dependentSchemas": {f"k{n}": {"required": [f"m{n}"], "minProperties": n} for n in range(20)}}),
    "unevaluatedProperties behind 15 anyOf": lambda: _property({
        "allOf": [{"anyOf": [{"properties": _strings(1, f"k{n}")}, {"properties": _strings(1, f"l{n}")}]}
                  for n in range(15)], "unevaluatedProperties": False}),
    "unevaluatedItems behind 10 anyOf": lambda: _property({
        "type": "array", "allOf": [{"anyOf": [{"prefixItems": [{}] * n}, {"contains": {"const": n}}]}
                                   for n in range(1, 11)], "unevaluatedItems": False}),
    # sizes
    "minItems 10^9": lambda: _property({"type": "array", "minItems": HUGE}),
    "minItems 20,000 of arrays": lambda: _property(
        {"type": "array", "minItems": 20_000, "items": {"type": "array", "minItems": 20_000}}
    ),
    "minItems 15,000": lambda: _property({"type": "array", "items": {"type": "integer"}, "minItems": 15_000}),
    "maxItems 10^12": lambda: _property({"type": "array", "items": {"type": "string"}, "maxItems": 10**12}),
    "200 items that all differ": lambda: _property(
        {"type": "array", "items": {"enum": list(range(200))}, "uniqueItems": True, "minItems": 200}
    ),
    "50 to 60 items that contain": lambda: _property(
        {"type": "array", "items": {"type": "string"}, "contains": {"pattern": "^.*a.{18}$"},
         "minContains": 50, "maxContains": 60}),
    "minLength 10^9": lambda: _property({"type": "string", "minLength": HUGE}),
    "minLength 15,000": lambda: _property({"type": "string", "minLength": 15_000}),
    "maxLength 10^18": lambda: _property({"type": "string", "maxLength": 10**18}),
    "maxLength 10^6 of a pattern": lambda: _text("^[a-z ]*[0-9]$", maxLength=10**6),
    "minProperties 10^6": lambda: _property({"type": "object", "minProperties": 10**6}),
    "minProperties 5,000": lambda: _property({"type": "object", "minProperties": 5000}),
    "20,000 properties": lambda: _property({"type": "object", "properties": _strings(20_000)}),
    "20,000 required properties": lambda: _property(
        {"type": "object", "properties": _strings(20_000), "required": _names(20_000)}
    ),
    "20,000 required names": lambda: _property({"type": "object", "required": _names(20_000)}),
    "2,000 required names": lambda: _property({"type": "object", "required": _names(2000)}),
    "one value of 100,000": lambda: _property({"enum": [f"value {n}" for n in range(100_000)]}),
    "one number of 100,000": lambda: _property({"enum": list(range(0, 700_000, 7))}),
    "one object of 20,000": lambda: _property({"enum": [{"a": n, "b": [n]} for n in range(20_000)]}),
    "a constant of 1 MB": lambda: _property({"const": "x" * 10**6}),
    "an enumeration of 1 MB in one value": lambda: _property({"enum": ["a", "x" * 10**6]}),
    "a property whose name has 1 MB": lambda: _property({"properties": {"n" * 10**6: {}}}),
    "a description of 3 MB": lambda: _property({"type": "string", "description": "word " * 600_000}),
    "a body of 6 MB": lambda: _property({"type": "string", "description": "word " * 1_200_000}),
    # numbers
    "integers up to 10^300": lambda: _property({"type": "integer", "minimum": -10**300, "maximum": 10**300}),
    "a number of 100,000 digits": lambda: _raw('{"type": "integer", "minimum": ' + "9" * 100_000 + "}"),
    "numbers above 1e308": lambda: _raw('{"type": "number", "minimum": 1e308, "maximum": 1.7e308}'),
    "a limit of 1e999999999": lambda: _raw('{"type": "number", "maximum": 1e999999999}'),
    "multipleOf 1e-300": lambda: _raw('{"type": "number", "multipleOf": 1e-300}'),
    "multipleOf 999999937": lambda: _property({"type": "integer", "multipleOf": 999_999_937}),
    "multipleOf 99991 within limits": lambda: _property(
        {"type": "integer", "multipleOf": 99_991, "minimum": 12_345, "maximum": 10**15}
    ),
    "multiples of five large primes": lambda: _property(
        {"type": "integer", "allOf": [{"multipleOf": n} for n in (997, 991, 983, 977, 971)]}
    ),
    "multiples without other multiples": lambda: _property(
        {"type": "number", "allOf": [{"anyOf": [{"multipleOf": n}, {"not": {"multipleOf": n + 2}}]} for n in (33, 12, 77, 44)],
         "not": {"multipleOf": 8}}),
    "multipleOf 0": lambda: _property({"type": "integer", "multipleOf": 0}),
    "NaN": lambda: _raw('{"type": "number", "minimum": NaN}'),
    "Infinity": lambda: _raw('{"type": "number", "maximum": Infinity}'),
    # patterns
    "pattern (a+)+": lambda: _text("^(a+)+$"),
    "pattern ((a*)*)*b": lambda: _text("^((a*)*)*b$"),
    "pattern a.{20}": lambda: _text("^.*a.{20}$"),
    "pattern a.{200}": lambda: _text("^.*a.{200}$"),
    "pattern with repetitions of repetitions": lambda: _text("^((a{100}b?){100}){100}$"),
    "pattern of counted alternatives": lambda: _text("^((a|b){1,90}c?){1,90}$"),
    "pattern of 2,000 alternatives": lambda: _text("|".join("a" * n for n in range(1, 2000))),
    "pattern of 100,000 letters": lambda: _text("^" + "a" * 100_000 + "$"),
    "pattern of 10,000 letters": lambda: _text("^" + "a" * 10_000 + "$"),
    "pattern of 3,000,000 letters": lambda: _text("a" * 3_000_000),
    "pattern of Unicode classes": lambda: _text("^[\\p{L}\\p{N}]{1,5000}$"),
    "pattern of 2,000 Unicode classes": lambda: _text("[\\p{L}\\p{N}]" * 2000),
    "pattern with four lookaheads": lambda: _text("^(?=.*a)(?=.*b)(?=.*c)(?=.*d).{8,}$"),
    "pattern with hard lookaheads": lambda: _text(
        "^(?=.*a.{9}$)(?=.*b.{11}$)(?=.*c.{13}$)(?!.*d.{7}$)[a-d]*$"
    ),
    "pattern with a lookbehind": lambda: _text("^.*(?<=ab{3,9})c+$"),
    "pattern with a back-reference": lambda: _text(r"^(a+)\1$"),
    "pattern with a named back-reference": lambda: _text(r"^(?<x>a+)-\k<x>$"),
    "pattern with 5,000 groups": lambda: _text("(" * 5000 + "a" + ")" * 5000),
    "pattern that is none": lambda: _text("^(a"),
    "sixteen patterns at once": lambda: _property(
        {"type": "string", "allOf": [{"pattern": f"^(.*{c}.{{8}})"} for c in "abcdefghijklmnop"]}
    ),
    "not a hard pattern": lambda: _property({"type": "string", "not": {"pattern": "^.*a.{18}$"}}),
    "not a back-reference": lambda: _property({"type": "string", "not": {"pattern": r"^(a+)\1$"}}),
    "40 patternProperties": lambda: _property({
        "type": "object", "patternProperties": {
            f"^.*{chr(97 + n % 26)}.{{{n}}}$": {"type": "string"} for n in range(40)}}),
    "patternProperties with a back-reference": lambda: _property(
        {"type": "object", "patternProperties": {r"^(a+)\1$": {"type": "string"}}}
    ),
    "hard propertyNames": lambda: _property({
        "type": "object", "propertyNames": {"pattern": "^.*a.{100}$"}, "minProperties": 1,
        "additionalProperties": {"type": "string"}}),
    "40 hard patterns": lambda: _property({
        "type": "object", "properties": {f"k{n}": {"type": "string", "pattern": f"^.*a.{{{n + 9}}}$"}
                                         for n in range(40)}, "required": _names(40)}),
    # formats, Unicode, names
    "a recursive format": lambda: _property(
        {"type": "object", "properties": {"v": {"$ref": "#"}, "t": {"type": "string", "format": "date-time"}},
         "format": "regex", "required": ["t"]}),
    "an unknown format": lambda: _property({"type": "string", "format": "no such format"}),
    "all formats at once": lambda: _property({"type": "string", "allOf": [
        {"format": one} for one in ("date-time", "email", "uri", "uuid", "ipv6", "hostname", "iri")]}),
    "lone surrogates": lambda: _raw('{"enum": ["\\ud800", "\\udfff"]}'),
    "names of odd characters": lambda: _property({"properties": {
        "": {}, "\u0000": {}, "\u202e": {}, "\U0010ffff": {}, '"\\/~#%': {}, "<|end|>": {}, "__proto__": {}}}),
    "emoji in a pattern": lambda: _text("^(\U0001f469\u200d\U0001f4bb|\u00e9|e\u0301){1,300}$"),
    "400,000 empty schemas": lambda: _property({"anyOf": [{}] * 400_000}),
    "a key twice": lambda: '{"type": "object", "properties": {"v": {"type": "string"}}, "properties": {}}',
    # wrong types
    "properties that are a list": lambda: '{"type": "object", "properties": [1, 2]}',
    "required that is a text": lambda: '{"type": "object", "properties": {}, "required": "v"}',
    "a type that is a number": lambda: _property({"type": 7}),
    "a type that does not exist": lambda: _property({"type": "text"}),
    "an enumeration that is an object": lambda: _property({"enum": {"a": 1}}),
    "an empty enumeration": lambda: _property({"enum": []}),
    "items that are a text": lambda: _property({"type": "array", "items": "string"}),
    "a pattern that is a number": lambda: _property({"type": "string", "pattern": 5}),
    "minItems that is a text": lambda: _property({"type": "array", "minItems": "many"}),
    "minLength below 0": lambda: _property({"type": "string", "minLength": -1}),
    "allOf that is an object": lambda: _property({"allOf": {"type": "string"}}),
    "a reference that is a number": lambda: _property({"$ref": 3}),
    "contradictions": lambda: _property({"type": "string", "minLength": 9, "maxLength": 3}),
    "parameters that are a list": lambda: "[]",
    "parameters that are a text": lambda: '"object"',
    "parameters that are false": lambda: "false",
    "parameters of a text": lambda: '{"type": "string"}',
}  # fmt: skip
#: By name, a function that returns the text of a list of functions.
TOOL_LISTS: dict[str, Callable[[], str]] = {
    "10,000 functions": lambda: "[" + ",".join(_function(f"f{n}", _ANY) for n in range(10_000)) + "]",
    "500 functions": lambda: "[" + ",".join(_function(f"f{n}", _text("^a.{9}$")) for n in range(500)) + "]",
    "100 functions with hard patterns": lambda: "["
    + ",".join(_function(f"f{n}", _text(f"^.*a.{{{n}}}$")) for n in range(100))
    + "]",
    "60 functions of 1,000 references": lambda: _functions(60, _bomb(1000, lambda last: last)),
    "60 functions, oneOf of 60 overlapping": lambda: _functions(60, _property(
        {"oneOf": [{"type": "integer", "multipleOf": n + 1} for n in range(60)]})),
    "60 functions of 30 times if": lambda: _functions(60, SCHEMAS["30 times if and then"]()),
    "60 functions with counted patterns": lambda: _functions(60, _text("^(a|b.{3}c){5,40}$")),
    "500 functions of 1,000 empty schemas": lambda: _functions(500, _property({"anyOf": [{}] * 1000})),
    "a name of odd characters": lambda: "[" + _function("\u202e<|end|>\u0000", _ANY) + "]",
    "an empty name": lambda: f"[{_function('', _ANY)}]",
    "a name of 1 MB": lambda: f"[{_function('f' * 10**6, _ANY)}]",
    "a name twice": lambda: f"[{_function('f', _ANY)},{_function('f', _ANY)}]",
    "functions that are numbers": lambda: "[1, null]",
}  # fmt: skip


def tools_text(name: str) -> str:
    """Return the text of the functions of a case."""
    if name in TOOL_LISTS:
        return TOOL_LISTS[name]()
    return f"[{_function('f', SCHEMAS[name]())}]"


#: Cases that come by the other interfaces, too.
ELSEWHERE = (
    "20,000 required names", "pattern a.{200}", "one value of 100,000", "pattern with a back-reference", "not in not, 30,000 deep",
    "a bomb of 40 doublings in allOf", "minItems 10^9", "NaN", "lone surrogates", "10,000 functions", "30 times if and then",
)  # fmt: skip
_MESSAGE = '"messages": [{"role": "user", "content": "do it with aaa and 42"}]'


def bodies(name: str, model: str) -> Iterator[tuple[str, str]]:
    """Yield addresses and bodies: the case as functions, and as the form of an answer if it is one schema."""
    tools = tools_text(name)
    begin = f'{{"model": "{model}", "max_tokens": 64, '
    yield (
        "/v1/chat/completions",
        f'{begin}{_MESSAGE}, "tools": {tools}, "tool_choice": "required"}}',
    )
    if name in SCHEMAS:
        schema = SCHEMAS[name]()
        yield (
            "/v1/chat/completions",
            (
                f'{begin}{_MESSAGE}, "response_format": {{"type": "json_schema", "json_schema": '
                f'{{"name": "answer", "schema": {schema}}}}}}}'
            ),
        )
    if name not in ELSEWHERE:
        return
    if name in SCHEMAS:
        text = f'{{"type": "function", "name": "f", "parameters": {schema}}}'
        yield (
            "/v1/responses",
            f'{{"model": "{model}", "input": "do it", "tools": [{text}], "tool_choice": "required"}}',
        )
        text = f'{{"name": "f", "input_schema": {schema}}}'
        yield (
            "/v1/messages",
            f'{begin}{_MESSAGE}, "tools": [{text}], "tool_choice": {{"type": "any"}}}}',
        )
    yield (
        "/v1/chat/completions",
        (f'{begin}{_MESSAGE}, "stream": true, "tools": {tools}, "tool_choice": "required"}}'),
    )
