"""Hard features one at a time, and states in which little or much is allowed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

Texts = Any
Item = tuple[str, str, dict[str, Any]]
WORDS = ("alpha", "bravo", "delta", "gamma", "omega", "sigma", "theta", "kappa", "lambda", "zeta")


def stress_cases(texts: Texts) -> Iterator[Callable[[bool], Item]]:
    """Yield the cases; each says what the worker gets, given whether calls are framed."""
    for name, schema, value in schemas():
        text = json.dumps(value, ensure_ascii=False)
        yield _one(name, {"schema": schema}, texts(text))
    for count in (60, 1000):
        yield _call_of_many(count, texts)


def _one(name: str, language: dict[str, Any], ids: list[int]) -> Callable[[bool], Item]:
    return lambda _: (name, "replay", {"language": language, "ids": ids})


def _call_of_many(count: int, texts: Texts) -> Callable[[bool], Item]:
    tools = [_tool(number) for number in range(count)]
    arguments = {"name": "Ada Lovelace", "count": 3, "unit": "bravo", "tags": ["a", "b"]}
    call = json.dumps({"name": tools[count // 2]["name"], "arguments": arguments})

    def item(framed: bool) -> Item:
        ids = texts.call(call, framed)
        return f"{count:,} tools", "replay", {"language": {"tools": tools}, "ids": ids}

    return item


def _tool(number: int) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "name": {"type": "string", "description": f"Who, for {number}."},
        "count": {"type": "integer"},
        "unit": {"type": "string", "enum": ["alpha", "bravo", f"unit {number}"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        f"option_{number}": {"type": "number"},
    }
    schema = {"type": "object", "properties": properties, "required": ["name", "count"]}
    name = f"{WORDS[number % 10]}_{WORDS[number // 10 % 10]}_{number}"
    return {"name": name, "description": f"Does {number}.", "parameters": schema}


def schemas() -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, schema, an instance) of every case that is one JSON value."""
    text = "The quick brown fox jumps over the lazy dog, and then again. " * 8
    yield "maxLength 512", {"type": "string", "maxLength": 512}, text[:480]
    yield "maxLength 60", {"type": "string", "maxLength": 60}, text[:58]
    for count in (1000, 100_000):
        chosen = random.Random(count)
        words = sorted({"".join(chosen.choices("abcdefghij ", k=12)) for _ in range(count)})
        yield f"enum of {count:,}", {"enum": words}, words[count // 3]
    free = {"city": "Zürich", "days": [1, 2.5, None, True], "more": {"a": {"b": "c"}}}
    yield "free-form object", {"type": "object"}, free
    tree: dict[str, Any] = {
        "$defs": {"node": {
            "type": "object",
            "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
            "required": ["value"], "additionalProperties": False,
        }},
        "$ref": "#/$defs/node",
    }  # fmt: skip
    value: dict[str, Any] = {"value": 0}
    for depth in range(1, 60):
        value = {"value": depth, "next": value}
    yield "recursion, 60 deep", tree, value
    yield (
        "pattern, e-mail",
        _pattern(r"^[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,6}$"),
        "ada.l@example.org",
    )
    yield "pattern, exponential", _pattern(r"^[ab]*a[ab]{12}$"), "abba" * 3 + "a" + "b" * 12
    yield "pattern, any word", _pattern(r"^(\w+ )*\w+\.$"), "a small house in the big wood."
    both = {**_pattern(r"^[A-Z][a-z]+( [A-Z][a-z]+)*$"), "minLength": 8, "maxLength": 40}
    yield "pattern and lengths", both, "Ada Lovelace Of London"
    yield "integer interval", {"type": "integer", "minimum": -37, "maximum": 123_456}, 98_765
    wide = {f"field_{n}": {"type": "string"} for n in range(200)}
    yield "200 optional members", {"properties": wide, "additionalProperties": False}, {
        f"field_{n}": "x" for n in range(0, 200, 7)
    }  # fmt: skip
    union = {"anyOf": [
        {"type": "object", "properties": {"kind": {"const": w}, w: {"type": "string"}},
         "required": ["kind"], "additionalProperties": False}
        for w in WORDS
    ]}  # fmt: skip
    yield "union of objects", union, {"kind": "theta", "theta": "x"}


def _pattern(source: str) -> dict[str, str]:
    return {"type": "string", "pattern": source}


def select_cases(texts: Texts) -> Iterator[Item]:
    """Yield states in which few, some, half and nearly all tokens are allowed."""
    names = {"enum": ["north", "south", "east", "west"]}
    words = {"enum": [f"{a} {b}" for a in WORDS for b in WORDS]}
    half = {"type": "string", "pattern": "^[A-Za-z0-9 _.,'-]*$"}
    for name, schema, begun in (
        ("one of four words", names, '"'),
        ("one of a hundred words", words, '"'),
        ("a number", {"type": "number"}, ""),
        ("plain text only", half, '"A'),
        ("inside a string", {"type": "string"}, '"A'),
    ):
        yield name, "select", {"schema": schema, "ids": texts(begun) if begun else [], "times": 25}
