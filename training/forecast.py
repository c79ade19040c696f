"""What more training would buy: power laws through the learning curve, drawn on to the goals.

    python -m training.forecast [training/progress.json]

Wrong names and calls of what training never saw fall as a power of the requests of training (Hestness et al.,
2017: "Deep learning scaling is predictable, empirically"). The straight line through their logarithms says how many
requests a goal would take, if all went on as it did; lines through fewer of the last points say how far to trust it. A
chart is drawn to `docs/pictures/nano-forecast.svg` where matplotlib is at hand.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
PARTS = {"function": "held-out functions", "domain": "held-out domains"}
GOALS = {"name": 0.97, "exact": 0.92}
LAST = (9, 7, 5)  # points


class Law(NamedTuple):
    """Share wrong = factor * requests ** -power."""

    factor: float
    power: float

    def wrong(self, requests: float) -> float:
        """The share that is wrong after so many requests."""
        return float(self.factor * requests**-self.power)

    def needed(self, goal: float) -> float:
        """Requests after which `goal`, a share, is right; infinite where nothing is gained any more."""
        if self.power <= 0:
            return float("inf")
        return float((self.factor / (1 - goal)) ** (1 / self.power))


def fit(requests: Sequence[float], wrong: Sequence[float]) -> Law:
    """The law through these points: least squares on their logarithms. All must be above 0, two or more."""
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


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw what is wrong over requests, both growing by factors, with the laws and the goals."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("curve", type=Path, nargs="?", default=ROOT / "training/progress.json")
    options = parser.parse_args()
    try:
        rows = json.loads(options.curve.read_text("utf-8"))
        if len(curve(rows, "function", "exact")[0]) < 2:
            raise ValueError("fewer than two points")
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise SystemExit(
            f"{options.curve} is no learning curve ({problem!r}); python -m training.progress writes one"
        ) from None
    print("score  part                goal  points  power  million requests needed")
    for score, goal in GOALS.items():
        for part, label in PARTS.items():
            for last, law in laws(rows, part, score):
                needed = law.needed(goal) / 1e6
                print(f"{score:6} {label:19} {goal:4.0%}  {last:6}  {law.power:5.2f}  {needed:.1f}")
    draw(rows, ROOT / "docs/pictures/nano-forecast.svg")


if __name__ == "__main__":
    main()
