"""The learning curve of a run, and its extrapolation.

    python -m training.learning_curve [CHECKPOINT ...] [--run training/runs/nano-2.toml] [--cases 760]
        [--words-from 459] [--curve training/runs/nano-2.progress.json]

Checkpoints are scored on the same held-out requests and written to the file of the curve; without any, the file is read.
Layers, units and parts that a checkpoint lacks write zeros, so an early one answers as it did then; meanings of whole
words count from one minute of the run on (`--words-from`). The truth is given before each token, as in `training.evaluate`.

What is wrong falls as a power of the requests seen in training (Hestness et al., 2017: "Deep learning scaling is
predictable, empirically"). The straight line through the logarithms tells how many requests a goal would take; lines
through fewer of the last points tell how far to trust it. Both charts are drawn to `docs/pictures/` if matplotlib is
installed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from training import recipe as recipes
from training.recipe import ROOT

CURVE = ROOT / "training/runs/nano-2.progress.json"
PARTS = {"function": "held-out functions", "domain": "held-out domains"}
GOALS = {"name": 0.97, "exact": 0.92}
LAST = (9, 7, 5)  # points that a line goes through


class Law(NamedTuple):
    """Share wrong = factor * requests ** -power."""

    factor: float
    power: float

    def wrong(self, requests: float) -> float:
        """The share that is wrong after so many requests."""
        return float(self.factor * requests**-self.power)

    def needed(self, goal: float) -> float:
        """Requests after which `goal`, a share, is right; infinite where the share does not fall."""
        if self.power <= 0:
            return float("inf")
        return float((self.factor / (1 - goal)) ** (1 / self.power))


def fit(requests: Sequence[float], wrong: Sequence[float]) -> Law:
    """The law through two or more points, all above 0: least squares on their logarithms."""
    slope, height = np.polyfit(np.log(requests), np.log(wrong), 1)
    return Law(float(np.exp(height)), float(-slope))


def curve(rows: list[dict[str, Any]], part: str, score: str) -> tuple[list[float], list[float]]:
    """Requests, and the share that is wrong."""
    found = sorted((row["requests"], 1 - row["scores"][part][score]["share"]) for row in rows)
    return [requests for requests, _ in found], [wrong for _, wrong in found]


def laws(rows: list[dict[str, Any]], part: str, score: str) -> Iterator[tuple[int, Law]]:
    """The laws through the last points, with how many these are."""
    requests, wrong = curve(rows, part, score)
    for last in LAST:
        yield last, fit(requests[-last:], wrong[-last:])


def draw_progress(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the shares of right names and exact calls over the requests seen, on a logarithmic axis."""
    try:
        from matplotlib import pyplot as plt
        from matplotlib.ticker import FuncFormatter, MultipleLocator
    except ImportError:
        return
    parts = {"function": "functions", "domain": "domains", "dev": "SGD services"}
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    requests = [one["requests"] / 1000 for one in rows]
    for (part, label), line in zip(parts.items(), ("-", "--", ":"), strict=True):
        for score, colour in (("name", "#2b6cb0"), ("exact", "#c05621")):
            shares = [100 * one["scores"][part][score]["share"] for one in rows]
            axes.plot(requests, shares, line, color=colour, marker="o", label=f"{score}, {label}")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(MultipleLocator(200))
    axes.xaxis.set_minor_locator(MultipleLocator(1e9))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.0f}"))
    axes.set_xlabel("thousand requests in training")
    axes.set_ylabel("right, % (never seen in training)")
    axes.set_ylim(30, 100)
    axes.grid(alpha=0.3)
    axes.legend(ncols=2)
    figure.savefig(path)


def draw_forecast(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw what is wrong over the requests seen, on logarithmic axes, with the laws and the goals."""
    try:
        from matplotlib import pyplot as plt
        from matplotlib.ticker import FixedLocator, FuncFormatter
    except ImportError:
        return
    figure, panels = plt.subplots(1, 2, figsize=(9, 4), sharex=True, layout="constrained")
    for panel, (score, goal) in zip(panels, GOALS.items(), strict=True):
        for (part, label), colour in zip(PARTS.items(), ("#2b6cb0", "#c05621"), strict=True):
            requests, wrong = curve(rows, part, score)
            panel.plot(
                np.array(requests) / 1e6, 100 * np.array(wrong), "o", color=colour, label=label
            )
            ahead = np.geomspace(requests[0], 6e7, 60)
            for _, law in laws(rows, part, score):
                shown = [100 * law.wrong(each) for each in ahead]
                panel.plot(ahead / 1e6, shown, "--", color=colour, alpha=0.4, linewidth=1)
        panel.axhline(100 * (1 - goal), color="#2f855a", linewidth=1, label=f"goal: {goal:.0%}")
        panel.set(xscale="log", yscale="log", xlabel="million requests in training")
        panel.set_ylim(bottom=1.5)
        panel.set_title({"name": "wrong function, %", "exact": "call not exact, %"}[score])
        panel.xaxis.set_major_locator(FixedLocator([0.5, 1, 2, 5, 10, 20, 50]))
        panel.yaxis.set_major_locator(FixedLocator([2, 3, 5, 8, 10, 20, 30, 50]))
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_minor_locator(FixedLocator([]))
            axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        panel.grid(alpha=0.3)
        panel.legend()
    figure.savefig(path)


def read(file: Path) -> list[dict[str, Any]]:
    """The points of a curve; raises SystemExit for a file that holds none."""
    try:
        rows: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))
        if len(curve(rows, "function", "exact")[0]) < 2:
            raise ValueError("fewer than two points")
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise SystemExit(
            f"{file} is no learning curve ({problem!r}); name checkpoints to write one"
        ) from None
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("checkpoints", type=Path, nargs="*")
    parser.add_argument("--run", type=Path, default=recipes.DEFAULT)
    parser.add_argument("--cases", type=int, default=760, help="of each part")
    parser.add_argument("--words-from", type=float, default=459, help="minute of the run")
    parser.add_argument("--curve", type=Path, default=CURVE, help="file of the points")
    options = parser.parse_args()
    if options.checkpoints:
        from training.scoring import (  # needs PyTorch, which the rest does not
            brief,
            score_checkpoints,
        )

        rows = []
        scored = (options.checkpoints, options.cases, options.words_from)
        for one in score_checkpoints(recipes.load(options.run), *scored):
            rows.append(one)
            for part, scores in one["scores"].items():
                about = f"{one['minutes']} min, {one['requests']:,}"
                print(f"{about}: {part}: {brief(scores)}", flush=True)
            options.curve.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    rows = read(options.curve)
    print("score  part                goal  points  power  million requests needed")
    for score, goal in GOALS.items():
        for part, label in PARTS.items():
            for last, law in laws(rows, part, score):
                needed = law.needed(goal) / 1e6
                print(f"{score:6} {label:19} {goal:4.0%}  {last:6}  {law.power:5.2f}  {needed:.1f}")
    draw_progress(rows, ROOT / "docs/pictures/nano-progress.svg")
    draw_forecast(rows, ROOT / "docs/pictures/nano-forecast.svg")


if __name__ == "__main__":
    main()
