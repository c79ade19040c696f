"""Whether retrieval finds the tool: recall on the leaderboard's functions pooled, and what it costs.

    python benchmarks/retrieval.py [--data ../shared/data] [--output benchmarks/results/retrieval.json]

All functions of BFCL's single-turn categories make one index (of functions that share a name, the
first counts; a request counts if the function it means is in the index as it was offered with
it). Recall@k is the share of the functions a request means that are among the k chosen. For
measuring only: how tools are indexed was chosen on the functions of training/data/sources/tasks and on SGD's
development set. Times are CPU times; the large index is the pooled functions over again, under
other names.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from masks import machine

from callmemaybe.evals.sources.bfcl import schema
from callmemaybe.evals.statistics import Proportion
from callmemaybe.retrieval import ToolIndex
from callmemaybe.tools import ToolSpec

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("simple_python", "multiple", "parallel", "parallel_multiple")
CUTS = (1, 4, 8, 16, 32)
LARGE = 10_000

HEAD = """# How well retrieval finds the tool

This page is written by `docs/generate.py` from `benchmarks/results/retrieval.json`, which
`benchmarks/retrieval.py` measures; do not edit it by hand.

All {tools:,} functions of the single-turn categories of the Berkeley Function Calling Leaderboard in one
index. *Recall@k*: the share of the functions that a request means which are among the first k, in
percent, with Wilson's 95% intervals for k = 8.

{table}
Indexing takes {build:.2f} s of CPU time, a search {query:.2f} ms; with {large:,} tools {large_build:.2f} s
and {large_query:.2f} ms. Shown to a model, 8 tools take {shown:,} characters in OpenAI's form, all of
them {all_shown:,}.

{cpu}, Python {python}, {system}, commit {commit}.
"""


class Asked(NamedTuple):
    """A request, and the names of the functions that it means."""

    kind: str
    text: str
    names: frozenset[str]


def pool(folder: Path) -> tuple[list[ToolSpec], list[Asked]]:
    """Return the pooled functions, and the requests that mean some of them."""
    rows = [(kind, *row) for kind in KINDS for row in _rows(folder, kind)]
    tools: dict[str, ToolSpec] = {}
    for row in _read(folder / "BFCL_v4_irrelevance.json"):
        for function in row["function"]:
            tools.setdefault(function["name"], _tool(function))
    for _kind, _text, functions, _names in rows:
        for function in functions:
            tools.setdefault(function["name"], _tool(function))
    asked = [
        Asked(kind, text, names)
        for kind, text, functions, names in rows
        if all(tools[one["name"]] == _tool(one) for one in functions if one["name"] in names)
    ]
    return list(tools.values()), asked


def _rows(folder: Path, kind: str) -> Iterator[tuple[str, list[Any], frozenset[str]]]:
    answers = {
        row["id"]: row["ground_truth"]
        for row in _read(folder / "possible_answer" / f"BFCL_v4_{kind}.json")
    }
    for row in _read(folder / f"BFCL_v4_{kind}.json"):
        (messages,) = row["question"]
        text = "\n".join(message["content"] for message in messages)
        yield text, row["function"], frozenset(name for one in answers[row["id"]] for name in one)


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]


def _tool(function: dict[str, Any]) -> ToolSpec:
    return ToolSpec(function["name"], function["description"], schema(function["parameters"]))


def recall(index: ToolIndex, asked: list[Asked]) -> dict[str, Any]:
    """Return how many of the functions that are meant are found, for each cut."""
    found = dict.fromkeys(CUTS, 0)
    meant = 0
    for one in asked:
        names = [tool.name for tool in index.search(one.text, max(CUTS))]
        meant += len(one.names)
        for cut in CUTS:
            found[cut] += len(one.names & {*names[:cut]})
    low, high = Proportion(found[8], meant).interval
    shares = {str(cut): round(count / meant, 4) for cut, count in found.items()}
    return {
        "requests": len(asked), "meant": meant, "recall": shares,
        "low": round(low, 4), "high": round(high, 4),
    }  # fmt: skip


def cost(tools: list[ToolSpec], asked: list[Asked]) -> dict[str, float]:
    """Return the CPU seconds of indexing, and the median milliseconds of a search."""
    started = time.process_time()
    index = ToolIndex(tools)
    built = time.process_time() - started
    times = []
    for one in asked:
        started = time.process_time()
        index.search(one.text)
        times.append(time.process_time() - started)
    return {"tools": len(tools), "build_s": round(built, 3),
            "query_ms": round(1e3 * float(np.median(times)), 3)}  # fmt: skip


def copies(tools: list[ToolSpec], count: int) -> list[ToolSpec]:
    """Return so many tools: these, over again under other names."""
    rounds = -(-count // len(tools))
    return [
        ToolSpec(f"{tool.name}_{number}", tool.description, tool.parameters)
        for number in range(rounds)
        for tool in tools
    ][:count]


def measure(folder: Path) -> dict[str, Any]:
    """Measure everything."""
    tools, asked = pool(folder)
    index = ToolIndex(tools)
    sets = {kind: recall(index, [a for a in asked if a.kind == kind]) for kind in KINDS}
    sets["all"] = recall(index, asked)
    shown = [len(json.dumps(tool.as_openai())) for tool in tools]
    chosen = {tool.name: size for tool, size in zip(tools, shown, strict=True)}
    eight = [sum(chosen[tool.name] for tool in index.search(one.text)) for one in asked]
    return {
        "machine": machine(),
        "tools": len(tools),
        "sets": sets,
        "cost": cost(tools, asked),
        "large": cost(copies(tools, LARGE), asked[::5]),
        "characters": {"all": sum(shown), "eight": int(np.median(eight))},
    }


def page(results: dict[str, Any]) -> str:
    """Return the page of the documentation that tells these results."""
    lines = [
        "| requests | of them | " + " | ".join(f"@{cut}" for cut in CUTS) + " |",
        "|---" * (2 + len(CUTS)) + "|",
    ]
    for name, one in results["sets"].items():
        cells = [f"{100 * one['recall'][str(cut)]:.1f}" for cut in CUTS]
        cells[CUTS.index(8)] += f" ({100 * one['low']:.0f}–{100 * one['high']:.0f})"
        lines.append(f"| {name} | {one['requests']} | " + " | ".join(cells) + " |")
    here, large = results["cost"], results["large"]
    return HEAD.format(
        table="\n".join(lines) + "\n",
        tools=results["tools"],
        build=here["build_s"],
        query=here["query_ms"],
        large=large["tools"],
        large_build=large["build_s"],
        large_query=large["query_ms"],
        shown=results["characters"]["eight"],
        all_shown=results["characters"]["all"],
        **results["machine"],
    )


def main() -> None:
    """Measure, write the results, print the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/retrieval.json")
    arguments = parser.parse_args()
    results = measure(arguments.data / "bfcl")
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    arguments.output.write_text(text, "utf-8")
    sys.stdout.write(page(results))


if __name__ == "__main__":
    main()
