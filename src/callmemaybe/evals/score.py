"""The score of one answer: whether the function, each argument, and the whole are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from callmemaybe.evals.case import Case, ExpectedCall
from callmemaybe.evals.compare import RULES
from callmemaybe.evals.record import EvalRecord
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


def score_record(case: Case, record: EvalRecord) -> Score:
    """Score a recorded answer: its call, or all of its calls where the case wants all that it expects."""
    return score_all(case, record.calls) if case.wants_all else score(case, record.call)


def score_all(case: Case, calls: Sequence[ToolCall]) -> Score:
    """Score several calls: each must be one of those expected, each of these once, in any order.

    ``name`` says whether the right functions were called, each as often as expected.
    """
    wanted = Counter(one.name for one in case.expected if one is not None)
    name = Counter(call.name for call in calls) == wanted
    return Score(called=bool(calls), name=name, exact=name and _match(case, calls, case.expected))


def _match(case: Case, calls: Sequence[ToolCall], expected: Sequence[ExpectedCall | None]) -> bool:
    """Whether calls and expected ones can be paired so that each pair is right."""
    if not calls:
        return not expected
    for place, one in enumerate(expected):
        if one is not None and one.name == calls[0].name and _score(case, calls[0], one).exact:
            rest = [*expected[:place], *expected[place + 1 :]]
            if _match(case, calls[1:], rest):
                return True
    return False


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
