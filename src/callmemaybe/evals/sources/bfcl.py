"""The Berkeley Function Calling Leaderboard v4: its single turns in JSON and Python's types, one call, several or none.

The folder has ``BFCL_v4_<category>.json``, and ``possible_answer/`` with those that want certain calls. Tags are the categories;
arguments are compared by the leaderboard's rules. ``live_relevance`` wants a call, and does not say which. Java and JavaScript, whose
values are texts in these languages, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from callmemaybe.evals.case import Case, ExpectedCall
from callmemaybe.evals.sources import read_lines
from callmemaybe.tools import ToolSpec

#: Categories whose requests want one call, several calls, none, and any.
ONE = ("simple_python", "multiple", "live_simple", "live_multiple")
SEVERAL = ("parallel", "parallel_multiple", "live_parallel", "live_parallel_multiple")
NONE = ("irrelevance", "live_irrelevance")
ANY = ("live_relevance",)
CATEGORIES = (*ONE, *SEVERAL, *NONE, *ANY)
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
    rows = list(read_lines(folder / name))
    if category in NONE:
        return [_case(row, category, (None,)) for row in rows]
    if category in ANY:
        return [
            _case(row, category, [ExpectedCall(f["name"], {}) for f in row["function"]], "any")
            for row in rows
        ]
    answers = {
        row["id"]: _expected(row["ground_truth"], 1 if category in ONE else None)
        for row in read_lines(folder / "possible_answer" / name)
    }
    # A case whose answer is missing is an error: it does not say that calling nothing is right.
    return [_case(row, category, answers[row["id"]]) for row in rows]


def _expected(truth: Any, most: int | None) -> list[ExpectedCall]:
    found = []
    for one in truth[:most]:
        ((function, arguments),) = one.items()
        if not all(isinstance(possible, list) for possible in arguments.values()):
            raise ValueError(f"an argument of {function!r} is no list of possible values")
        found.append(ExpectedCall(function, arguments))
    if not found:
        raise ValueError("a request without possible answers")
    return found


def _case(
    row: Mapping[str, Any],
    category: str,
    expected: Sequence[ExpectedCall | None],
    compare: str = "bfcl",
) -> Case:
    (messages,) = row["question"]
    return Case(
        row["id"],
        tuple(_tool(function) for function in row["function"]),
        "\n".join(message["content"] for message in messages),
        tuple(expected),
        (category,),
        compare,
        wants_all=category in SEVERAL,
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
