"""The embedded model among many functions: what is called, and how long it takes.

    python benchmarks/many.py [--cases 120] [--offered 200] [--output ANSWERS.json]

Requests to held-out functions and domains, which neither training nor tuning saw, with as many functions of both
offered; a new model and caller, the first call, then all others, then all once more. One core, one thread. The
answers can be written, so that two versions are compared request by request.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from masks import machine
from nano import held_out

from callmemaybe import models
from callmemaybe.caller import Caller
from callmemaybe.evals.case import Case
from callmemaybe.evals.score import Score, score
from callmemaybe.evals.statistics import percentile
from callmemaybe.tools import ToolSpec

DRAWN = 2400


def crowd(count: int, offered: int) -> tuple[list[Case], list[ToolSpec]]:
    """Return so many requests, half of each part, and the functions to offer: theirs, then others."""
    drawn = [held_out(part, DRAWN) for part in ("function", "domain")]
    cases = [case for part in drawn for case in part[:: 2 * DRAWN // count]]
    wanted = [case.tool(one.name) for case in cases for one in case.expected if one is not None]
    by_name: dict[str, ToolSpec] = {}
    for tool in [*wanted, *(tool for part in drawn for case in part for tool in case.tools)]:
        by_name.setdefault(tool.name, tool)
    tools = list(by_name.values())[:offered]
    Random(0).shuffle(tools)
    return cases, tools


def main() -> None:
    """Measure, print a summary, write everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--cases", type=int, default=120)
    parser.add_argument("--offered", type=int, default=200)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    cases, tools = crowd(options.cases, options.offered)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    started = time.perf_counter()
    model = models.load("nano", threads=1)
    loaded = time.perf_counter()
    caller = Caller(model, tools, no_call=True)
    made = time.perf_counter()
    answers, seconds, cpu, scores = ask(caller, cases)
    results: dict[str, Any] = {
        "machine": machine(),
        "offered": len(tools),
        "calls": len(cases),
        "load_ms": round(1000 * (loaded - started)),
        "caller_ms": round(1000 * (made - loaded)),
        "first_ms": round(1000 * seconds[0]),
        "first_cpu_ms": round(1000 * cpu[0]),
        **timed("", seconds[1:], cpu[1:]),
        **timed("again_", *ask(caller, cases)[1:3]),
        "name": sum(one.name for one in scores),
        "exact": sum(one.exact for one in scores),
    }
    print(json.dumps(results))
    if options.output:
        results["answers"] = answers
        text = json.dumps(results, indent=1, ensure_ascii=False)
        options.output.write_text(text + "\n", "utf-8")


def timed(what: str, seconds: Sequence[float], cpu: Sequence[float]) -> dict[str, float]:
    """Return the median of the calls' milliseconds, and the mean of the processor's."""
    return {
        f"{what}ms_p50": round(1000 * (percentile(seconds, 0.5) or 0), 1),
        f"{what}cpu_ms": round(1000 * sum(cpu) / len(cpu), 1),
    }


def ask(
    caller: Caller, cases: Sequence[Case]
) -> tuple[list[Any], list[float], list[float], list[Score]]:
    """Return the answers, the seconds and the processor's seconds of each call, and their scores."""
    answers: list[Any] = []
    seconds, cpu, scores = [], [], []
    for case in cases:
        before, began = time.process_time(), time.perf_counter()
        result = caller.call(case.prompt)
        seconds.append(time.perf_counter() - began)
        cpu.append(time.process_time() - before)
        call = result.call
        answers.append([case.id, case.prompt, call and call.name, call and call.arguments])
        scores.append(score(case, call))
    return answers, seconds, cpu, scores


if __name__ == "__main__":
    main()
