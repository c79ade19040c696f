"""How far the embedded model's confidence can be believed: the probability that a whole answer is right, and how often it was.

    python benchmarks/confidence.py [--model nano] [--data ../shared/data] [--cases 400]
        [--output benchmarks/results/confidence.json]

The sets are those of `benchmarks/nano.py`. The fit (`python -m training.confidence --write`) saw none of these requests, and nothing of
the leaderboard.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from masks import machine
from nano import ROOT, sets, write

from callmemaybe import models
from callmemaybe.evals.report import judge
from callmemaybe.evals.runner import EvalRunner
from callmemaybe.evals.statistics import calibration

#: What one may want of a call before it is made.
LEAST = (0.5, 0.7, 0.9, 0.95)
HEAD = """# How far confidence can be believed

This page is written by `docs/generate.py` from `benchmarks/results/confidence.json`, which
`benchmarks/confidence.py` measures; do not edit it by hand.

`CallResult.confidence` is the probability that the whole answer is right: function and all arguments, or rightly no call. It is a logistic regression
over what is known of an answer, fitted for each release on held-out requests (`python -m training.confidence --write`), none of which is measured here. *ECE* is the
mean gap between what is stated and what came true, in ten bins; *by name* is that of the model's own probability of the function.

{sets}

It holds for requests like those that it was fitted on. Of BFCL, whose functions are described and required otherwise, nothing was used for the fit. Irrelevance
has only requests that no function fits, so each call is wrong there, and every one that is made with some confidence counts as a gap.

## What a least confidence buys

Calls that are made with `--min-confidence` (`DecodingConfig.min_confidence`), in percent of the answers with a call, and how many of them are right:

{least}

## Reliability

What was stated of answers, in tenths, and how many of them were right, in percent (and how many there were):

{bins}

{cpu}, Python {python}, {system}, commit {commit}.
"""


def measure(runner: EvalRunner, cases: Any) -> dict[str, Any]:
    """Return how often answers were right, and what was stated."""
    judged = judge(cases, {record.id: record for record in runner.records(cases)})
    told = [(record, found) for _, record, found in judged if record.confidence is not None]
    whole = [(float(record.confidence or 0), found.exact) for record, found in told]
    calls = [(float(record.confidence or 0), found.exact) for record, found in told if found.called]
    return {
        "cases": len(whole),
        "right": sum(right for _, right in whole) / len(whole),
        "stated": sum(chance for chance, _ in whole) / len(whole),
        "by_name": calibration([(r.probability, f.exact) for r, f in told if r.probability is not None])["ece"],
        "least": {
            str(least): [len(made), sum(made)]
            for least in (0.0, *LEAST)
            for made in [[right for chance, right in calls if chance >= least]]
        },
        **{key: value for key, value in calibration(whole).items() if key != "cases"},
    }  # fmt: skip


def page(results: dict[str, Any]) -> str:
    """Return the page of the documentation that tells these results."""
    found = results["sets"].items()
    rows = ["| set | answers | right | stated | ECE | by name |", "|---|---|---|---|---|---|"]
    rows += [
        f"| {name} | {one['cases']} | {100 * one['right']:.1f} | {100 * one['stated']:.1f} | {one['ece']:.3f} | {one['by_name']:.3f} |"
        for name, one in found
    ]
    least = [
        f"| set | all | {' | '.join(f'at least {one}' for one in LEAST)} |",
        "|---|" + "---|" * (len(LEAST) + 1),
    ]
    for name, one in found:
        whole = one["least"]["0.0"][0] or 1
        cells = [
            f"{100 * made / whole:.0f}: {100 * right / made:.1f}" if made else "0"
            for made, right in one["least"].values()
        ]
        least.append(f"| {name} | {' | '.join(cells)} |")
    tenths = range(10)
    bins = [f"| set | {' | '.join(f'{t / 10:.1f}' for t in tenths)} |", "|---|" + "---|" * 10]
    for name, one in found:
        by_place = {round(10 * each["from"]): each for each in one["bins"]}
        cells = [
            f"{100 * by_place[t]['right'] / by_place[t]['of']:.0f} ({by_place[t]['of']})"
            if t in by_place
            else ""
            for t in tenths
        ]
        bins.append(f"| {name} | {' | '.join(cells)} |")
    return HEAD.format(
        sets="\n".join(rows), least="\n".join(least), bins="\n".join(bins), **results["machine"]
    )  # fmt: skip


def main() -> None:
    """Measure every set, write and print the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--model", default="nano")
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data")
    parser.add_argument("--cases", type=int, default=400, help="of each set at most")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/confidence.json")
    arguments = parser.parse_args()
    runner = EvalRunner(models.load(arguments.model, threads=1))
    results: dict[str, Any] = {"machine": machine(), "sets": {}}
    for name, cases in sets(arguments.data, arguments.cases):
        started = time.perf_counter()
        results["sets"][name] = measure(runner, cases)
        print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
        write(arguments.output, results)
    print(page(results))


if __name__ == "__main__":
    main()
