"""Whether the arguments of a call are the right ones, by rules that go by names.

A rule looks at one call of the right function and says for each argument whether it is right,
arguments that are missing or too many included. It knows no model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.evals.exercise import output
from callmemaybe.evals.leaderboard import leaderboard
from callmemaybe.jsonio.writer import dumps
from callmemaybe.tools import ToolSpec

#: (the function called, the arguments given, those expected) -> which of them are right.
Rule = Callable[[ToolSpec, Mapping[str, Any], Mapping[str, Any]], dict[str, bool]]


def exact(
    _tool: ToolSpec, given: Mapping[str, Any], expected: Mapping[str, Any]
) -> dict[str, bool]:
    """Ask for equal JSON values: 2 equals 2.0, true is no 1, lists are ordered, objects are not."""
    return {
        name: name in given and name in expected and same(given[name], expected[name])
        for name in {**expected, **given}
    }


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; numbers by value, whatever type holds them.

    Infinity and NaN, which Python reads where a published set has them, equal no value.
    """
    try:
        return dumps(one, canonical=True) == dumps(other, canonical=True)
    except InputError:
        return False


def by_output(
    tool: ToolSpec, given: Mapping[str, Any], expected: Mapping[str, Any]
) -> dict[str, bool]:
    """Ask for the same output, for functions that can be run here; else for equal values."""
    verdicts = exact(tool, given, expected)
    if all(verdicts.values()):
        return verdicts
    found = output(tool.name, given)
    is_right = found is not None and found == output(tool.name, expected)
    return dict.fromkeys(verdicts, True) if is_right else verdicts


RULES: Mapping[str, Rule] = {"exact": exact, "output": by_output, "bfcl": leaderboard}
