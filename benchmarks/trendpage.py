"""The dashboard of `trend.py`: each figure over all runs, as one HTML page that needs nothing else."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

STYLE = """
:root{--ink:#1c1e21;--soft:#6b7280;--line:#d9dce1;--good:#1f6feb;--bad:#d1242f;--paper:#fff;color-scheme:light dark}
@media(prefers-color-scheme:dark){
:root{--ink:#e6e7e9;--soft:#9aa1ab;--line:#3a3f47;--good:#7aa7e0;--bad:#ff7b72;--paper:#16181c}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}.soft{color:var(--soft)}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
td,th{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:middle}
tr.bad td{color:var(--bad);font-weight:600}
"""
WIDE, HIGH = 220, 40
#: Runs that a plot shows at most.
SHOWN = 60


def table(run: Mapping[str, Any]) -> str:
    """Return one run for a terminal."""
    lines = [f"{'':36}{'base, ms':>12}{'now, ms':>12}{'now / base':>12}{'usual':>8}"]
    for name, figure in run["figures"].items():
        ratio = statistics.median(figure["ratios"])
        mark = "  REGRESSED" if figure["regressed"] else ""
        lines.append(
            f"{name:36}{figure['base_ms']:12.3f}{figure['ms']:12.3f}{ratio:12.2f}{figure['usual']:8.2f}{mark}"
        )
    return "\n".join([*lines, f"{run['commit']} beside {run['base']}; {run['machine']}"])


def page(history: Sequence[Mapping[str, Any]]) -> str:
    """Return the page of all runs, the newest of which says what regressed."""
    newest = history[-1]
    rows = "\n".join(row(name, figure, history) for name, figure in newest["figures"].items())
    bad = [name for name, figure in newest["figures"].items() if figure["regressed"]]
    said = f"Regressed: {', '.join(bad)}." if bad else "Nothing regressed."
    about = (
        f"{newest['date']}, commit {newest['commit']} beside {newest['base']}; {newest['machine']}. CPU time, one core; both versions in turns. "
        f"{said}"
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Speed over time</title><style>{STYLE}</style>\n<h1>Speed over time</h1>\n<p class=soft>{escape(about)}</p>\n"
        "<div class=scroll><table><tr><th>figure<th>base, ms<th>now, ms<th>now / base<th>usual<th>runs (now / base; the line is 1)</tr>\n"
        f"{rows}\n</table></div>\n</html>\n"
    )


def row(name: str, figure: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> str:
    """Return a figure with its plot."""
    past = [
        statistics.median(run["figures"][name]["ratios"])
        for run in history
        if run["base"] == history[-1]["base"] and name in run["figures"]
    ]
    cells = (
        escape(name), f"{figure['base_ms']:.3f}", f"{figure['ms']:.3f}", f"{past[-1]:.2f}", f"{figure['usual']:.2f}", plot(past[-SHOWN:]),
    )  # fmt: skip
    opened = "<tr class=bad>" if figure["regressed"] else "<tr>"
    return opened + "".join(f"<td>{cell}" for cell in cells) + "</tr>"


def plot(past: Sequence[float]) -> str:
    """Return ratios over runs as a small picture; the grey line is the base."""
    low, high = min(0.8, *past), max(1.2, *past)

    def y(ratio: float) -> float:
        return HIGH - 4 - (HIGH - 8) * (ratio - low) / (high - low)

    step = (WIDE - 12) / max(1, len(past) - 1)
    points = " ".join(f"{6 + step * at:.1f},{y(ratio):.1f}" for at, ratio in enumerate(past))
    last = f'<circle cx="{6 + step * (len(past) - 1):.1f}" cy="{y(past[-1]):.1f}" r="3" fill="var(--good)"/>'
    return (
        f'<svg width="{WIDE}" height="{HIGH}" role="img" aria-label="{len(past)} runs, the last {past[-1]:.2f}">'
        f'<line x1="0" x2="{WIDE}" y1="{y(1):.1f}" y2="{y(1):.1f}" stroke="var(--line)"/>'
        f'<polyline points="{points}" fill="none" stroke="var(--good)" stroke-width="1.5"/>{last}</svg>'
    )
