"""A report as one HTML page that needs nothing else: tables, bars with intervals, calibration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from callmemaybe.evals.report import FIGURES

_STYLE = """
:root{--ink:#1c1e21;--soft:#6b7280;--line:#d9dce1;--bar:#3b6fb5;--paper:#fff;color-scheme:light dark}
@media(prefers-color-scheme:dark){
:root{--ink:#e6e7e9;--soft:#9aa1ab;--line:#3a3f47;--bar:#7aa7e0;--paper:#16181c}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
td,th{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--line)}
td.n,th.n{text-align:right}.soft{color:var(--soft)}svg{max-width:100%;height:auto}
.scroll{overflow-x:auto}text{fill:var(--ink);font-size:12px}
"""
_WIDTH, _ROW, _LABEL = 720, 26, 190


def page(report: Mapping[str, Any]) -> str:
    """Return the page of a report (see :func:`evals.report.report`)."""
    title = f"{report.get('model', 'a model')} on {report.get('data', 'cases')}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p class=soft>{escape(_about(report))}</p>",
        "<h2>Figures</h2>",
        _figures(report["figures"]),
        "<p class=soft>Bars are shares, whiskers Wilson's 95% intervals.</p>",
        "<h2>How far its probabilities can be believed</h2>",
        _reliability(report["calibration"]),
    ]
    if report["by_type"]:
        parts += ["<h2>Single arguments by type</h2>", _bars(report["by_type"].items())]
    if report["by_tag"]:
        parts += ["<h2>By tag</h2>", _tags(report["by_tag"])]
    if "comparison" in report:
        parts += ["<h2>Constrained and not</h2>", _beside(report["comparison"])]
    parts += ["<h2>Cost</h2>", _pairs(report["cost"])]
    if report["failures"]:
        listed = {reason: f"{len(ids)} cases" for reason, ids in report["failures"].items()}
        parts += ["<h2>Failures</h2>", _pairs(listed)]
    body = "\n".join(parts)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>\n{body}\n</html>\n"
    )


def _about(report: Mapping[str, Any]) -> str:
    said = {
        key: value
        for key, value in report.items()
        if isinstance(value, str | int | float) and key not in ("model", "data")
    }
    return " · ".join(f"{key} {value}" for key, value in said.items())


def percent(share: Mapping[str, Any]) -> str:
    """Return a share as text, "–" where nothing was counted."""
    return "–" if share["share"] is None else f"{share['share']:.1%}"


def interval(share: Mapping[str, Any]) -> str:
    """Return the interval of a share as text."""
    return "" if share["share"] is None else f"{share['low']:.1%}–{share['high']:.1%}"


def _figures(figures: Mapping[str, Any]) -> str:
    rows = [
        (_words(key), percent(one), interval(one), f"{one['right']} of {one['of']}", FIGURES[key])
        for key, one in figures.items()
        if one["of"]
    ]
    counted = ((_words(key), one) for key, one in figures.items() if one["of"])
    return _bars(counted) + _table(("figure", "share", "95%", "cases", "what it says"), rows)


def _bars(shares: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """Draw one bar with its interval for each share."""
    listed = list(shares)
    room = _WIDTH - _LABEL - 120
    marks = []
    for place, (name, one) in enumerate(listed):
        top = place * _ROW
        middle = top + _ROW / 2
        low, high = (_LABEL + room * one[end] for end in ("low", "high"))
        marks += [
            f'<text x="{_LABEL - 8}" y="{middle + 4}" text-anchor="end">{escape(name)}</text>',
            (
                f'<rect x="{_LABEL}" y="{top + 5}" width="{room * (one["share"] or 0):.1f}" '
                f'height="{_ROW - 10}" rx="2" fill="var(--bar)" opacity=".75"/>'
            ),
            (
                f'<path d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 5}v10M{high:.1f} '
                f'{middle - 5}v10" stroke="var(--ink)" fill="none"/>'
            ),
            f'<text x="{_LABEL + room + 12}" y="{middle + 4}">{percent(one)} of {one["of"]}</text>',
        ]
    return _svg(_WIDTH, max(1, len(listed)) * _ROW, marks)


def _reliability(found: Mapping[str, Any]) -> str:
    """Draw stated probability against what came true; the diagonal is perfect."""
    if not found["cases"]:
        return "<p class=soft>The model states no probabilities.</p>"
    side, edge = 300, 40

    def at(share: float) -> float:
        return side * share

    marks = [
        f'<g transform="translate({edge} 8)">',
        f'<rect width="{side}" height="{side}" fill="none" stroke="var(--line)"/>',
        f'<path d="M0 {side}L{side} 0" stroke="var(--soft)" stroke-dasharray="4 4"/>',
    ]
    for one in found["bins"]:
        x, y = at(one["mean"]), side - at(one["share"])
        radius = 2 + 6 * (one["of"] / found["cases"]) ** 0.5
        marks += [
            (
                f'<path d="M{x:.1f} {side - at(one["low"]):.1f}V{side - at(one["high"]):.1f}" '
                'stroke="var(--ink)"/>'
            ),
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="var(--bar)"/>',
        ]
    marks += [
        f'<text x="{side / 2}" y="{side + 30}" text-anchor="middle">stated probability</text>',
        f'<text x="0" y="{side + 15}">0</text>',
        f'<text x="{side}" y="{side + 15}" text-anchor="end">1</text>',
        (
            f'<text transform="translate(-12 {side / 2}) rotate(-90)" text-anchor="middle">'
            "came true</text></g>"
        ),
    ]
    rows = [
        (f"{one['from']:.1f}–{one['to']:.1f}", f"{one['mean']:.3f}", percent(one), interval(one),
         str(one["of"]))
        for one in found["bins"]
    ]  # fmt: skip
    said = (
        f"<p>Expected calibration error {found['ece']:.3f}, Brier score {found['brier']:.3f}, of "
        f"{found['cases']} stated probabilities of the function chosen (or of none).</p>"
    )
    head = ("stated", "mean", "came true", "95%", "cases")
    return said + _svg(side + edge + 20, side + 50, marks) + _table(head, rows)


def _tags(by_tag: Mapping[str, Any]) -> str:
    keys = ("right", "name", "exact", "no_call_recall", "false_refusals")
    rows = [
        (tag, str(one["right"]["of"]), *(_cell(one[key]) for key in keys))
        for tag, one in by_tag.items()
    ]
    return _table(("tag", "cases", *map(_words, keys)), rows)


def _cell(share: Mapping[str, Any]) -> str:
    return f"{percent(share)} ({interval(share)})" if share["of"] else "–"


def _beside(found: Mapping[str, Any]) -> str:
    names = {"constrained": "constrained", "first": "not, one try", "retried": "not, with retries"}
    rows = [
        (said, *(_cell(found[key][one]) for one in ("valid", "name", "exact")),
         str(found[key]["tokens"]), str(found[key]["tokens_per_valid"] or "–"))
        for key, said in names.items()
    ]  # fmt: skip
    head = ("run", "valid calls", "function", "exact", "tokens", "tokens per valid call")
    rescued = f"<p>Retries made {_cell(found['recovered'])} of the invalid answers valid.</p>"
    problems = {reason: f"{count} times" for reason, count in found["problems"].items()}
    return _table(head, rows) + rescued + (_pairs(problems) if problems else "")


def _pairs(values: Mapping[str, Any]) -> str:
    rows = [(_words(key), "–" if value is None else str(value)) for key, value in values.items()]
    return _table(("", ""), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head) if any(head) else ""
    lines = ("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class=scroll><table><tr>{top}</tr>{''.join(lines)}</table></div>"


def _words(key: str) -> str:
    return key.replace("_", " ")


def _svg(width: int, height: int, marks: Iterable[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">{"".join(marks)}</svg>'
    )
