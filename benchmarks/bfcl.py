"""The Berkeley Function Calling Leaderboard as (tools, call) pairs: its ground truths, replayed.

Each ground-truth call is one item, offered all the functions of its question.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

KINDS = ("simple_python", "multiple", "parallel", "parallel_multiple")
TYPES = {"dict": "object", "float": "number", "tuple": "array"}


class Item(NamedTuple):
    """One call: the functions offered (OpenAI's shape), and the call's name and arguments."""

    name: str
    tools: list[dict[str, Any]]
    function: str
    arguments: dict[str, Any]


def items(folder: Path, limit: int | None = None) -> Iterator[Item]:
    """Yield the items of all single-turn categories in the folder, ``limit`` at most."""
    count = 0
    for kind in KINDS:
        name = f"BFCL_v4_{kind}.json"
        answers = {
            row["id"]: row["ground_truth"] for row in _rows(folder / "possible_answer" / name)
        }
        for row in _rows(folder / name):
            tools = [_tool(function) for function in row["function"]]
            for call in answers[row["id"]]:
                ((function, given),) = call.items()
                schema = next(t["parameters"] for t in tools if t["name"] == function)
                if count == limit:
                    return
                count += 1
                yield Item(row["id"], tools, function, _arguments(given, schema))


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": function["name"],
        "description": function["description"],
        "parameters": _schema(function["parameters"]),
    }


def _schema(schema: Any) -> Any:
    """Translate the leaderboard's Python type names to JSON Schema's; drop "any" and defaults."""
    if isinstance(schema, list):
        return [_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {}
    for key, value in schema.items():
        if key == "properties":
            found[key] = {name: _schema(inner) for name, inner in value.items()}
        elif key == "type" and isinstance(value, str):
            if value != "any":
                found[key] = TYPES.get(value, value)
        elif key in ("items", "additionalProperties", "enum", "required", "description"):
            found[key] = value if key in ("enum", "required", "description") else _schema(value)
    return found


def _arguments(given: dict[str, list[Any]], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the first acceptable value of each argument, in the schema's order."""
    properties = schema.get("properties", {})
    chosen = {}
    for key in [*(k for k in properties if k in given), *(k for k in given if k not in properties)]:
        options = given[key]
        value = options[0] if isinstance(options, list) and options else options
        if isinstance(options, list) and "" in options[:1]:
            continue
        chosen[key] = _value(value, properties.get(key, {}))
    return chosen


def _value(value: Any, schema: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return (
            _arguments(value, schema) if any(isinstance(v, list) for v in value.values()) else value
        )
    if isinstance(value, list):
        return [_value(item, schema.get("items", {})) for item in value]
    return value
