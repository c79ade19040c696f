"""The Berkeley Function Calling Leaderboard v4: single turns, one call or none.

The folder has ``BFCL_v4_{simple_python,multiple,irrelevance}.json`` and ``possible_answer/`` with
the first two. Tags are the categories; arguments are compared by the leaderboard's rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from callmemaybe.evals.case import Case, ExpectedCall
from callmemaybe.evals.sources import read_lines
from callmemaybe.tools import ToolSpec

CATEGORIES = ("simple_python", "multiple", "irrelevance")
#: The leaderboard's names of types, where JSON Schema has another.
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
_KEPT = ("type", "description", "enum", "required", "properties", "items", "additionalProperties")


def bfcl(folder: Path) -> list[Case]:
    """Return the cases of all categories that are there (at least one must be)."""
    found = [name for name in CATEGORIES if (folder / f"BFCL_v4_{name}.json").is_file()]
    if not found:
        raise FileNotFoundError(2, "no BFCL_v4_*.json is there", str(folder))
    return [case for category in found for case in _category(folder, category)]


def _category(folder: Path, category: str) -> list[Case]:
    name = f"BFCL_v4_{category}.json"
    if category == "irrelevance":
        return [_case(row, category, None) for row in read_lines(folder / name)]
    rows = read_lines(folder / "possible_answer" / name)
    answers = {row["id"]: _expected(row["ground_truth"]) for row in rows}
    # A case whose answer is missing is an error: it does not say that calling nothing is right.
    return [_case(row, category, answers[row["id"]]) for row in read_lines(folder / name)]


def _expected(truth: Any) -> ExpectedCall:
    ((function, arguments),) = truth[0].items()
    if not all(isinstance(possible, list) for possible in arguments.values()):
        raise ValueError(f"an argument of {function!r} is no list of possible values")
    return ExpectedCall(function, arguments)


def _case(row: Mapping[str, Any], category: str, expected: ExpectedCall | None) -> Case:
    (messages,) = row["question"]
    return Case(
        row["id"],
        tuple(_tool(function) for function in row["function"]),
        "\n".join(message["content"] for message in messages),
        (expected,),
        (category,),
        "bfcl",
    )


def _tool(function: Mapping[str, Any]) -> ToolSpec:
    return ToolSpec(function["name"], function["description"], schema(function["parameters"]))


def schema(value: Any) -> Any:
    """Translate a schema with Python's names of types; "any" states no type, defaults go."""
    if not isinstance(value, Mapping):
        return value
    found: dict[str, Any] = {}
    for key in (key for key in _KEPT if key in value):
        inner = value[key]
        if key == "properties":
            found[key] = {name: schema(one) for name, one in inner.items()}
        elif key == "type":
            if inner != "any":
                found[key] = _TYPES.get(inner, inner)
        elif key in ("items", "additionalProperties"):
            found[key] = schema(inner)
        else:
            found[key] = inner
    return found


SOURCE = bfcl
