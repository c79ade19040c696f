"""How often a model is right before and after it was tuned: in use, with its grammar, on the same requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from callmemaybe import models
from callmemaybe.evals.case import Case, ExpectedCall
from callmemaybe.evals.report import Judged, figures, judge
from callmemaybe.evals.runner import EvalRunner, EvalSettings
from callmemaybe.evals.statistics import Proportion
from callmemaybe.jsonio import loads
from callmemaybe.tools import ToolSpec
from callmemaybe.tuning.examples import Example
from callmemaybe.tuning.rehearsal import TRAIN, read_rehearsal
from callmemaybe.tuning.rendering import to_json


def own_cases(tools: Sequence[ToolSpec], examples: Sequence[Example]) -> list[Case]:
    """Return examples as cases, all functions offered."""
    offered = tuple(tools)
    return [
        Case(
            f"own-{number}", offered, example.prompt,
            tuple(ExpectedCall(call.name, call.arguments) for call in example.calls) or (None,),
            wants_all=len(example.calls) > 1,
        )
        for number, example in enumerate(examples)
    ]  # fmt: skip


def general_cases(most: int) -> list[Case]:
    """Return requests for functions that training held out, for no call or one."""
    found: list[Case] = []
    numbers = count()
    for each in read_rehearsal():
        if each.part == TRAIN:
            continue
        offered = tuple(ToolSpec.from_json(tool) for tool in each.block.tools)
        for pair in each.pairs:
            if len(pair.calls) < 2:
                calls = [
                    ExpectedCall(offered[index].name, loads(to_json(arguments)))
                    for index, arguments in pair.calls
                ]
                found.append(Case(f"general-{next(numbers)}", offered, pair.prompt, tuple(calls) or (None,)))  # fmt: skip
    return found[:: max(1, len(found) // most)][:most]


def judged(model: str | Path, cases: Sequence[Case], say: Callable[[int], None]) -> list[Judged]:
    """Run a model on the cases; ``say`` is told how many are done."""
    runner = EvalRunner(models.load(str(model), threads=1), EvalSettings())
    records = {}
    for number, case in enumerate(cases, start=1):
        records[case.id] = runner.run(case)
        say(number)
    return judge(cases, records)


def compared(before: Sequence[Judged], after: Sequence[Judged]) -> dict[str, Any]:
    """Return the figures of two models on the same cases."""
    return {"cases": len(before), "before": figures(before), "after": figures(after)}


def by_tool(before: Sequence[Judged], after: Sequence[Judged]) -> dict[str, Any]:
    """Return how often requests for each function are answered rightly."""
    return _grouped(before, after, lambda one: [(_wanted(one), one[1].failure is None and one[2].exact)])  # fmt: skip


def by_argument(before: Sequence[Judged], after: Sequence[Judged]) -> dict[str, Any]:
    """Return how often each argument is right, where the function is."""
    return _grouped(before, after, lambda one: [
        (f"{_wanted(one)}.{name}", right) for name, right in one[2].arguments.items()
    ])  # fmt: skip


def _grouped(before: Sequence[Judged], after: Sequence[Judged], parts: Any) -> dict[str, Any]:
    found: Mapping[str, tuple[list[bool], list[bool]]] = defaultdict(lambda: ([], []))
    for side, judgements in enumerate((before, after)):
        for one in judgements:
            for name, right in parts(one):
                found[name][side].append(right)
    return {
        name: {
            "cases": max(map(len, sides)),
            "before": Proportion.count(sides[0]).as_json(),
            "after": Proportion.count(sides[1]).as_json(),
        }
        for name, sides in sorted(found.items())
    }


def _wanted(one: Judged) -> str:
    names = [expected.name for expected in one[0].expected if expected is not None]
    return " and ".join(names) or "(no function)"
