"""The page and the picture of what tuning is worth: benchmarks/results/tune.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PICTURE = Path(__file__).parent / "results" / "tune.svg"
COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#8250df", "#bf8700", "#57606a")

HEAD = """# What tuning on your own functions is worth

This page is written by `docs/generate.py` from `benchmarks/results/tune.json`, which `python -m benchmarks.tune` measures; do not edit it by hand.
How to tune: [tune the embedded model](../how-to/tune.md).

The functions are intents of HWU64 (requests to a home robot) and SNIPS, which the embedded model was never trained on; their slots are optional texts to
copy. Of each function the given number of sentences are examples, and others measure, in use, with grammars. *Nearest*: the answer of the example with the most similar words
(TF-IDF), its values exchanged for those between the same words. *Forgotten*: requests for functions that no training saw, before and after. Percent of requests answered
rightly, all of the call, with Wilson's 95% intervals. One thread.

{table}
*Fewer errors*: by what share the wrong answers became fewer.

![Whole calls right, over minutes of training](../../benchmarks/results/tune.svg)

By function, with {examples} examples of each of {functions} ({set}):

{by_function}
What is right in these corpora is what their annotators marked, and they did not always agree ("plug" or "plug socket", "repeat" as a setting or not at all); a part of the
errors cannot be learnt.

{machines} The rows were measured while nano still read parameters in their schema's order; it reads them by name now.
"""


def percent(found: Mapping[str, Any]) -> str:
    """Write a share with its interval."""
    return f"{100 * found['share']:.1f} ({100 * found['low']:.0f}–{100 * found['high']:.0f})"


def _row(row: Mapping[str, Any]) -> str:
    before, after = row["before"]["exact"], row["after"]["exact"]
    fewer = 1 - (1 - after["share"]) / (1 - before["share"])
    names = (
        f"{100 * row['before']['name']['share']:.0f} → {100 * row['after']['name']['share']:.0f}"
    )
    general = [100 * row["general"][side]["right"]["share"] for side in ("before", "after")]
    nearest = percent(row["nearest"]["exact"]) if "nearest" in row else "–"
    cells = (
        row["set"], row["functions"], row["examples"], row["measured"], percent(before), nearest, percent(after), f"{100 * fewer:.0f}%", names,
        f"{general[0]:.1f} → {general[1]:.1f}", f"{row['cpu_minutes']:.1f}",
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |\n"


def _by_function(row: Mapping[str, Any]) -> str:
    lines = [
        f"| {name} | {one['cases']} | {percent(one['before'])} | {percent(one['after'])} |\n"
        for name, one in row["by_tool"].items()
    ]
    return "| function | requests | before | after |\n|---|---|---|---|\n" + "".join(lines)


def page(results: Mapping[str, Any]) -> str:
    """Return the page."""
    rows: Sequence[Mapping[str, Any]] = results["rows"]
    titles = "set | functions | examples of each | requests | nano | nearest | tuned | fewer errors | right function | forgotten | CPU minutes"
    table = f"| {titles} |\n|{'---|' * 11}\n" + "".join(map(_row, rows))
    shown = max(rows, key=lambda row: (row["set"] == "hwu64-10", row["examples"]))
    machines = "\n".join(dict.fromkeys(_machine(row["machine"]) for row in rows))
    return HEAD.format(
        table=table, by_function=_by_function(shown), machines=machines, examples=shown["examples"], functions=shown["functions"], set=shown["set"],
    )  # fmt: skip


def _machine(found: Mapping[str, Any]) -> str:
    return f"{found['cpu']}, Python {found['python']}, {found['system']}, commit {found['commit']}."


def draw(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a plot of accuracy (of at most 96 requests, without a grammar) over minutes, as SVG."""
    wide, high, left, top = 640, 320, 48, 16
    most = max(point["seconds"] for row in rows for point in row["curve"]) / 60

    def at(point: Mapping[str, float]) -> str:
        x = left + (wide - left - 150) * (point["seconds"] / 60) / most
        return f"{x:.1f},{top + (high - top - 40) * (1 - point['own']):.1f}"

    marks: list[str] = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = top + (high - top - 40) * (1 - share)
        marks.append(
            f'<line x1="{left}" x2="{wide - 150}" y1="{y:.1f}" y2="{y:.1f}" stroke="#8884"/>'
        )
        marks.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    for minute in range(0, int(most) + 1, max(1, int(most) // 5)):
        x = left + (wide - left - 150) * minute / most
        marks.append(f'<text x="{x:.1f}" y="{high - 22}" text-anchor="middle">{minute}</text>')
    marks.append(f'<text x="{left}" y="{high - 4}">minutes of processor time</text>')
    for number, row in enumerate(rows):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(map(at, row["curve"]))
        label = f"{row['set']}, {row['examples']}"
        marks.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        marks.append(
            f'<text x="{wide - 140}" y="{top + 14 + 18 * number}" fill="{colour}">{label}</text>'
        )
    return _svg(wide, high, marks)


def _svg(wide: int, high: int, marks: Iterable[str]) -> str:
    style = "font-family:system-ui,sans-serif;font-size:12px;fill:#57606a"
    title = "<title>Whole calls right over minutes of training, by set and examples of each function</title>"
    body = "\n".join(marks)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" style="{style}">{title}\n{body}\n</svg>\n'
