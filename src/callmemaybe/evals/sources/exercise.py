"""The public "call me maybe" exercise: functions, prompts, and its grader's corrections.

The folder has ``input/functions_definition.json`` and
``correction/function_calling_corrections.json``. Outputs are compared, as the grader does.
"""

from __future__ import annotations

from pathlib import Path

from callmemaybe.evals.case import Case, ExpectedCall
from callmemaybe.evals.sources import read_json
from callmemaybe.tools import ToolSpec


def exercise(folder: Path) -> list[Case]:
    """Return one case for each correction."""
    listed = read_json(folder / "input" / "functions_definition.json")
    tools = tuple(ToolSpec.from_json(one, f"/{index}") for index, one in enumerate(listed))
    corrections = read_json(folder / "correction" / "function_calling_corrections.json")
    return [
        Case(
            f"exercise-{index}",
            tools,
            one["prompt"],
            (ExpectedCall(one["name"], one["parameters"]),),
            (one["name"],),
            "output",
        )
        for index, one in enumerate(corrections)
    ]


SOURCE = exercise
