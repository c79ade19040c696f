"""The score of one answer: whether the function, each argument, and the whole are right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from callmemaybe.evals.case import Case, ExpectedCall
from callmemaybe.evals.compare import RULES
from callmemaybe.tools import ToolCall, ToolSpec


@dataclass(frozen=True)
class Score:
    """Which parts of an answer are right.

    ``name``: the function is right, or rightly none. ``exact``: all of the answer is.
    ``arguments``: which are right (missing and superfluous ones are wrong), with their ``types``;
    empty unless a right function was called.
    """

    called: bool
    name: bool
    exact: bool
    arguments: Mapping[str, bool] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)


def score(case: Case, call: ToolCall | None) -> Score:
    """Score an answer by the expected one that is closest to it."""
    if call is None:
        is_right = None in case.expected
        return Score(called=False, name=is_right, exact=is_right)
    found = [
        _score(case, call, expected)
        for expected in case.expected
        if expected is not None and expected.name == call.name
    ]
    wrong = Score(called=True, name=False, exact=False)
    return max(found, key=lambda one: (one.exact, sum(one.arguments.values())), default=wrong)


def _score(case: Case, call: ToolCall, expected: ExpectedCall) -> Score:
    tool = case.tool(call.name)
    verdicts = RULES[case.compare](tool, call.parsed, expected.arguments)
    types = {name: type_of(tool, name) for name in verdicts}
    return Score(True, True, all(verdicts.values()), verdicts, types)


def type_of(tool: ToolSpec, name: str) -> str:
    """Name the type of a function's argument for tables: "enum", "array of string", "date", ..."""
    properties = tool.schema.get("properties")
    return _type(properties.get(name)) if isinstance(properties, Mapping) else "any"


def _type(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    if "enum" in schema or "const" in schema:
        return "enum"
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return "|".join(map(str, kind))
    if kind == "array":
        return f"array of {_type(schema.get('items'))}"
    return str(schema.get("format", kind)) if kind == "string" else str(kind)
