"""Where the time of one tool call goes whose functions were never seen before, part by part.

    python benchmarks/maskparts.py [--cold] [--items 500]

Ground truths of the Berkeley Function Calling Leaderboard, as in `masks.py`, with this engine alone. Of
each part the median over all requests, by the CPU clock (each reading of which counts, too: four a step),
and how often Python called a function for it. With --cold 32 MB are written between two requests, as a
model does that runs in between.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from masks import Texts, bfcl_cases, unseen
from rivals import Ours

from callmemaybe.grammar import compile as compiled
from callmemaybe.matching import Matcher
from callmemaybe.server.gc_tuning import tune_gc
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.formats.hermes import FORMAT

HERE = Path(__file__).resolve().parent
PARTS = ("tools to nodes", "nodes to an automaton", "first mask", "forcing", "masks", "accepting")
#: Requests before the first that counts, and of how many calls are counted.
WARM, COUNTED = 100, 120
clock = time.process_time_ns


def request(engine: Ours, tools: list[dict[str, Any]], ids: list[int]) -> tuple[list[int], int]:
    """Make one request; return the nanoseconds of each part, and how many steps it took."""
    t0 = clock()
    specs = [ToolSpec(tool["name"], tool["description"], tool["parameters"]) for tool in tools]
    grammar = FORMAT.grammar(specs)
    t1 = clock()
    automaton = compiled(grammar)
    t2 = clock()
    matcher = Matcher(automaton, engine.vocabulary)
    matcher.mask()
    spent = [t1 - t0, t2 - t1, clock() - t2, 0, 0, 0]
    at = steps = 0
    while at < len(ids):
        t0 = clock()
        forced = matcher.forced()
        t1 = clock()
        if not forced:
            matcher.mask()
        t2 = clock()
        taken = matcher.try_accept(forced or ids[at : at + 1])
        spent[5] += clock() - t2
        spent[4] += t2 - t1
        spent[3] += t1 - t0
        steps += 1
        if not taken:
            break
        at += taken
    return spent, steps


def calls(engine: Ours, tools: list[dict[str, Any]], ids: list[int]) -> Counter[str]:
    """Make one request; return how often Python called functions of its own and of C."""
    found: Counter[str] = Counter()
    sys.setprofile(lambda _, event, __: found.update([event]))
    try:
        request(engine, tools, ids)
    finally:
        sys.setprofile(None)
    return found


def main() -> None:
    """Measure, and print the table."""
    options = _options()
    folder = options.data / "tokenizers" / "qwen3"
    engine = Ours(folder)
    cases = bfcl_cases(options.data, Texts(folder))
    fresh = unseen(cases)
    new = [(tools, texts.call(call, True)) for name, tools, call, texts in cases if name in fresh]
    new = new[: WARM + options.items + COUNTED]
    memory = np.zeros(1 << 25, np.uint8)
    request(engine, *new[0])
    tune_gc()
    rows: dict[str, list[float]] = defaultdict(list)
    for number, case in enumerate(new[:-COUNTED]):
        if options.cold:
            memory.fill(number & 255)
        spent, steps = request(engine, *case)
        if number < WARM:
            continue
        for part, nanoseconds in zip(PARTS, spent, strict=True):
            rows[part].append(nanoseconds / 1e3)
        rows["compile and first mask"].append(sum(spent[:3]) / 1e3)
        rows["all"].append(sum(spent) / 1e3)
        rows["steps"].append(steps)
    counted = [calls(engine, *case) for case in new[-COUNTED:]]
    rows["calls of Python"] = [one["call"] for one in counted]
    rows["calls of C"] = [one["c_call"] for one in counted]
    whole = statistics.median(rows["all"])
    print(f"| {len(rows['all'])} requests, the middle one | us | share |\n| --- | --- | --- |")
    for part in (*PARTS, "compile and first mask", "all"):
        middle = statistics.median(rows[part])
        print(f"| {part} | {middle:.0f} | {middle / whole:.0%} |")
    for what in ("steps", "calls of Python", "calls of C"):
        print(f"{what}: {statistics.median(rows[what]):,.0f}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cold", action="store_true", help="write 32 MB between two requests")
    parser.add_argument("--items", type=int, default=400, help="how many requests count")
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data")
    return parser.parse_args()


if __name__ == "__main__":
    main()
