"""Compound requests: how often the server's rule finds all calls of one, and what it costs single requests.

    python benchmarks/compound.py [--data ../shared/data] [--cases 600] [--output benchmarks/results/compound.json]

Requests of one call (held-out functions and domains, SGD, BFCL, Seal-Tools) are answered with the rule and without it;
requests of several (Seal-Tools, BFCL parallel and parallel_multiple, and pairs of held-out requests) likewise. The rule
was made with Seal-Tools' training part and held-out requests; BFCL was measured at the end.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from masks import machine
from nano import held_out, sampled

from callmemaybe import models
from callmemaybe.errors import ModelOutputError
from callmemaybe.evals import sources
from callmemaybe.evals.case import Case, ExpectedCall
from callmemaybe.evals.score import score
from callmemaybe.evals.sources.bfcl import schema
from callmemaybe.generation.compound import Asked, compound_calls
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.generation.result import TurnResult
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.wire.output_grammar import MAX_CALLS, OutputSpec

ROOT = Path(__file__).resolve().parents[1]


class Compound(NamedTuple):
    """A request with all the calls that it wants, and how their arguments are compared."""

    tools: tuple[ToolSpec, ...]
    prompt: str
    expected: tuple[ExpectedCall, ...]
    compare: str


class Answerer:
    """Answers requests with one function list after the other, and counts what the model was asked."""

    def __init__(self) -> None:
        self._generator = LocalGenerator(models.load("nano"))
        self.asked = 0

    def calls(
        self, tools: Sequence[ToolSpec], prompt: str
    ) -> tuple[list[ToolCall], list[ToolCall]]:
        """Return the calls that the model makes of itself, and those with the rule."""
        whole = self._ask(prompt, tools, MAX_CALLS)
        run = compound_calls(prompt, tools, whole)
        try:
            part = next(run)
            while True:
                part = run.send(self._ask(part, tools, 1))
        except StopIteration as ended:
            found: list[Asked] = ended.value
        return [*whole.calls], [call for one in found for call in one.result.calls]

    def _ask(self, text: str, tools: Sequence[ToolSpec], most: int) -> TurnResult:
        self.asked += 1
        spec, messages = OutputSpec(no_call=True, most=most), [{"role": "user", "content": text}]
        try:
            return self._generator.stream(messages, tools, spec).run_to_end()
        except ModelOutputError:  # a failure of the whole request in the server, too
            return TurnResult()


def singles(answerer: Answerer, cases: Sequence[Case]) -> dict[str, Any]:
    """Measure requests of one call or none: right answers without and with the rule."""
    counts: Counter[str] = Counter()
    before = answerer.asked
    for case in cases:
        one, several = answerer.calls(case.tools, case.prompt)
        for name, calls in (("without", one), ("with", several)):
            right = len(calls) <= 1 and _is_right(case, calls[0] if calls else None)
            counts[name] += right
        counts["split"] += len(several) > 1
    return _figures(counts, len(cases), answerer.asked - before)


def _is_right(case: Case, call: ToolCall | None) -> bool:
    if case.wants_none or call is None:
        return case.wants_none and call is None
    return score(case, call).exact


def several(answerer: Answerer, cases: Sequence[Compound]) -> dict[str, Any]:
    """Measure requests of several calls: all functions found, and all calls right."""
    counts: Counter[str] = Counter()
    before = answerer.asked
    for case in cases:
        found = answerer.calls(case.tools, case.prompt)
        wanted = Counter(one.name for one in case.expected)
        for name, calls in zip(("without", "with"), found, strict=True):
            names = Counter(one.name for one in calls)
            counts[f"{name} functions"] += names == wanted
            counts[f"{name} recall"] += sum((names & wanted).values()) / wanted.total()
            counts[f"{name} calls"] += names == wanted and _match(case, calls)
    return _figures(counts, len(cases), answerer.asked - before)


def _match(case: Compound, calls: Sequence[ToolCall]) -> bool:
    """Whether each call is one of those that are wanted, each once."""
    left = list(case.expected)
    for call in calls:
        for one in left:
            alone = Case("", case.tools, case.prompt, (one,), (), case.compare)
            if one.name == call.name and score(alone, call).exact:
                left.remove(one)
                break
        else:
            return False
    return not left


def _figures(counts: Counter[str], cases: int, asked: int) -> dict[str, Any]:
    percent = {name: round(100 * count / cases, 1) for name, count in counts.items()}
    return {"requests": cases, **percent, "asked": round(asked / cases, 2)}


def parallel(folder: Path, category: str) -> list[Compound]:
    """Read a category of the leaderboard whose questions want several calls."""
    name = f"BFCL_v4_{category}.json"
    answers = {row["id"]: row["ground_truth"] for row in _rows(folder / "possible_answer" / name)}
    return [
        Compound(
            tuple(ToolSpec(f["name"], f["description"], schema(f["parameters"])) for f in row["function"]),
            "\n".join(message["content"] for message in row["question"][0]),
            tuple(ExpectedCall(*next(iter(one.items()))) for one in answers[row["id"]]),
            "bfcl",
        )
        for row in _rows(folder / name)
    ]  # fmt: skip


def seal_tools(folder: Path, count: int) -> list[Compound]:
    """Read requests of Seal-Tools for two calls or more, none of which needs another's result."""
    with gzip.open(folder / "tools.jsonl.gz", "rt") as file:
        tools = {one["name"]: one for one in map(json.loads, file)}
    with gzip.open(folder / "train.jsonl.gz", "rt") as file:
        rows = [row for row in map(json.loads, file) if not row["nested"] and row["valid"]]
    rows = [row for row in rows if len(row["calls"]) > 1 and not row["prompt"].startswith("{")]
    return [
        Compound(
            tuple(ToolSpec(n, tools[n]["description"], tools[n]["parameters"]) for n in row["candidates"]),
            row["prompt"],
            tuple(ExpectedCall(one["name"], one["arguments"]) for one in row["calls"]),
            "exact",
        )
        for row in Random(0).sample(rows, min(count, len(rows)))
    ]  # fmt: skip


def pairs(cases: Sequence[Case], count: int) -> Iterator[Compound]:
    """Join two requests to the same functions by "and", "then" or a semicolon."""
    random = Random(1)
    blocks: dict[str, list[Case]] = {}
    for case in cases:
        if case.wants_call and " and " not in case.prompt and "," not in case.prompt:
            blocks.setdefault(case.offered, []).append(case)
    able = [block for block in blocks.values() if len(block) > 1]
    for _ in range(count):
        one, other = random.sample(random.choice(able), 2)
        between = random.choice((" and ", ", then ", "; "))
        text = one.prompt.rstrip(" .!?") + between + other.prompt[0].lower() + other.prompt[1:]
        expected = tuple(case.expected[0] for case in (one, other) if case.expected[0])
        yield Compound(one.tools, text, expected, one.compare)


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--cases", type=int, default=600)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/compound.json")
    given = parser.parse_args()
    answerer, data, count = Answerer(), given.data, given.cases
    functions, domains = held_out("function", count * 2), held_out("domain", count)
    board = sources.read("bfcl", data / "bfcl")
    one_call = {
        "held-out functions": functions[:count],
        "held-out domains": domains,
        "SGD": sampled(sources.read("sgd", data / "sgd"), count),
        **{
            f"BFCL {tag}": [case for case in board if tag in case.tags]
            for tag in ("simple_python", "multiple", "irrelevance")
        },
    }
    compound = {
        "pairs of held-out requests": list(pairs([*functions, *domains], count // 2)),
        "Seal-Tools": seal_tools(data / "seal_tools", count // 2),
        "BFCL parallel": parallel(data / "bfcl", "parallel"),
        "BFCL parallel_multiple": parallel(data / "bfcl", "parallel_multiple"),
    }
    results: dict[str, Any] = {"machine": machine(), "single": {}, "several": {}}
    for name, cases in one_call.items():
        results["single"][name] = singles(answerer, cases)
        print(name, results["single"][name], flush=True)
    for name, requests in compound.items():
        results["several"][name] = several(answerer, requests)
        print(name, results["several"][name], flush=True)
    given.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
