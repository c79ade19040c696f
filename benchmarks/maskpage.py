"""The page about masks in the reference, from the results of `masks.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

HEAD = """# Masks, measured

This page is written by `docs/generate.py` from `benchmarks/results/masks.json`; do not edit it by hand.
[How to run it again](../how-to/benchmark-masks.md), and [what makes masks fast](../ideas/masks.md).
"""
OURS = "callmemaybe"
Report = dict[str, Any]


def page(report: Report) -> str:
    """Return the whole page."""
    machine = report["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    parts = [
        HEAD,
        (
            f"Commit {machine['commit']}, {machine['cpu']}, Python {machine['python']}, "
            f"numpy {machine['numpy']}; {packages}. All engines in one run on one core, in turn; "
            "CPU time; Qwen's vocabulary, masks 151,936 wide. In brackets: how many times as long "
            "as ours.\n"
        ),
        _setup(report),
    ]
    for section, write in SECTIONS.items():
        if section in report:
            parts.append(write(report[section]))
    return "\n".join(parts)


def _setup(report: Report) -> str:
    rows = [
        (name, f"{row['setup_s']:.2f}", f"{row['setup_mb']:,}", f"{row.get('final_mb') or '-'}")
        for name, row in report["setup"].items()
    ]
    text = (
        "## Vocabulary\n\nFrom a tokenizer's file to the end of a first small request: CPU seconds, "
        "and resident memory that this took. Last: resident memory at the end of the whole run, with "
        "everything imported.\n"
    )
    if memory := report.get("memory"):
        kept = memory["kept"]
        text += (
            f"\nWhere an earlier process has [kept the vocabulary](../ideas/vocabularies.md), ours is "
            f"set up in {kept['setup_s']:.2f} s and {kept['setup_mb']} MB; after {memory['sets']} tool "
            f"sets with a call each such a process holds {kept['final_mb']} MB, everything imported "
            f"({memory['new']['final_mb']} MB where nothing was kept).\n"
        )
    return text + "\n" + _table(("engine", "set-up, s", "MB", "MB at the end"), rows)


def _calls(found: Report) -> str:
    text = (
        "## Tool calls\n\nGround truths of the Berkeley Function Calling Leaderboard, one call to any "
        "of the offered functions, item by item in a random order. Milliseconds for a whole request "
        "without the model: the tools become a grammar, every token that is not forced gets a mask, "
        "every token is accepted. *New tools*: none of the functions was offered before in the run; *again* is the same "
        "request a second time. Of the items some calls break their own schema and must be refused.\n"
    )
    shares = [
        (
            name,
            f"{row['items']:,}",
            f"{row['accepted']:,}",
            f"{row['errors']:,}",
            f"{row['forced'] / max(row['forced'] + row['masks'], 1):.1%}",
        )
        for name, row in found.items()
    ]
    rows = (
        ("whole request, new tools", "whole", 1000, "ms"),
        ("whole request again", "again", 1000, "ms"),
        ("compile + first mask, new tools", "first", 1000, "ms"),
        ("one mask, first seen", "cold", 1, "us"),
        ("one mask, seen before", "known", 1, "us"),
    )
    return "\n".join(
        [
            text,
            _table(("engine", "items", "accepted", "errors", "tokens forced"), shares),
            *(_quantiles(found, *row) for row in rows),
        ]
    )


def _schemas(found: Report) -> str:
    text = (
        "## MaskBench\n\nRandom schemas of the MaskBench sample and their instances, a mask for every "
        "token. *Right* schemas compile and give the right answer on every instance; *lost* ones "
        "crashed the engine or took more than 10 s.\n"
    )
    rows = [
        (
            name,
            f"{row['items']:,}",
            *(f"{row[key] / row['items']:.1%}" for key in ("compiled", "right")),
            *(str(row[key]) for key in ("rejecting", "accepting", "lost")),
        )
        for name, row in found.items()
    ]
    head = ("engine", "schemas", "compiled", "right", "reject a valid instance",
            "accept an invalid one", "lost")  # fmt: skip
    return "\n".join(
        [
            text,
            _table(head, rows),
            _quantiles(found, "compile + first mask", "first", 1000, "ms"),
            _quantiles(found, "one mask", "mask", 1, "us"),
        ]
    )


def _quantiles(found: Report, title: str, key: str, unit: float, name: str) -> str:
    """Return one table: a row for each engine, with its multiple of our figure."""
    ours = found.get(OURS, {}).get(key)
    rows = []
    for engine, row in found.items():
        if key not in row:
            continue
        cells = [engine, f"{row[key]['n']:,}"]
        for part in ("p50", "p90", "p99", "max", "mean"):
            value = row[key][part]
            ratio = f" ({_ratio(value, ours[part])})" if ours and engine != OURS else ""
            cells.append(f"{_number(value / unit)}{ratio}")
        rows.append(tuple(cells))
    head = (f"{title}, {name}", "n", "p50", "p90", "p99", "max", "mean")
    return _table(head, rows)


def _stress(found: Report) -> str:
    text = (
        "## One hard feature at a time\n\nMilliseconds from the schema to the first mask / for a whole "
        "output with all its masks; nothing seen before.\n"
    )
    names = list(found)
    cases = list(dict.fromkeys(case for row in found.values() for case in row))
    rows = [(case, *(_stressed(found[name].get(case)) for name in names)) for case in cases]
    return text + "\n" + _table(("feature", *names), rows)


def _stressed(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    if "error" in row:
        return "over 10 s" if "took more" in row["error"] else "refused"
    wrong = "" if row["accepted"] else " (wrongly refused)"
    return f"{_number(row['first'] / 1000)} / {_number(row['whole'] / 1000)}{wrong}"


def _select(found: Report) -> str:
    text = (
        "## From logits to a token\n\nMicroseconds to choose greedily from 151,936 raw logits where the "
        "mask is known already: with an allowed token on top / with another one on top.\n"
    )
    names = list(found)
    rows = []
    for case in dict.fromkeys(case for row in found.values() for case in row):
        ours = found[OURS][case] if OURS in found else {}
        cells = [f"{case} ({ours.get('allowed', 0):,} allowed)"]
        for name in names:
            row = found[name].get(case)
            ways = ("allowed on top", "other on top")
            fine = row is not None and not row.get("error")
            cells.append(" / ".join(_number(row[way]["p50"]) for way in ways) if fine else "-")
        rows.append(tuple(cells))
    return text + "\n" + _table(("state", *names), rows)


def _lockstep(found: Report) -> str:
    text = (
        "## 64 sequences together\n\nMilliseconds for one step of all 64 (eight tool calls, eight "
        "sequences each), masks seen before: all masks written into one array and every sequence "
        "advanced by one token; and with the masks by reference.\n"
    )
    rows = []
    for name, cases in found.items():
        for row in cases.values():
            cells = [
                f"{_number(row[way]['p50'] / 1000)} / {_number(row[way]['p99'] / 1000)}"
                if row.get(way) else "-"
                for way in ("copied", "shared")
            ]  # fmt: skip
            rows.append((name, *cells))
    return text + "\n" + _table(("engine", "into one array, p50 / p99", "by reference"), rows)


SECTIONS: dict[str, Callable[[Report], str]] = {
    "bfcl": _calls, "maskbench": _schemas, "stress": _stress, "select": _select,
    "lockstep": _lockstep,
}  # fmt: skip


def _number(value: float) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


def _ratio(value: float, ours: float) -> str:
    return f"{_number(value / ours)}x" if ours else "-"


def _table(head: tuple[str, ...], rows: list[Any]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
