"""The page of the whole pipeline, drawn from ``results/decode.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HEAD = """# The whole pipeline, measured

This page is written by `docs/generate.py` from `benchmarks/results/decode.json`; do not edit it by hand.

A model of random weights in exactly the shape of Qwen3-0.6B; {tools} functions of the BFCL that all
prompts share; whatever is chosen is steered to the ground truth, so that every contender writes the same
calls and pays for its own passes ([how](../../benchmarks/decode.py)). Measured one after the other on one
core of one machine, {machine}, until {date}, each at the commit its row names; contenders of which one
call takes many seconds have few calls (the results say how many). The first call of each (which computes the prompt's prefix) is not counted, the rest are
medians; calls that share passes are divided by their number. *Rivals*: llama.cpp with its own grammar and
prefix cache; transformers with a cache per call and the mask of llguidance or of outlines (whose index is made once,
before, and not counted), or no mask at all; `naive`, the loop of the exercise's reference implementations, which puts
the whole sequence through for each token (timed for two tokens and multiplied).

![Time per call](../../benchmarks/results/decode.svg)
"""
REFERENCE = "onnx int4"


def page(results: Mapping[str, Any]) -> str:
    """Return the page."""
    contenders: Mapping[str, Mapping[str, Any]] = results["contenders"]
    ours = contenders[REFERENCE]
    rows = []
    for name, row in sorted(contenders.items(), key=lambda item: float(item[1]["ms"])):
        rows.append(
            [
                name,
                f"{row['ms']:,.0f}",
                f"{row['cpu_ms']:,.0f}",
                f"{row['ms'] / ours['ms']:.2f}",
                _number(row.get("passes")),
                _number(row.get("passes_per_token"), 2),
                _number(row.get("fed"), 0),
                _number(row.get("recomputed"), 0),
                f"{row['first_ms']:,.0f}",
                f"{row['peak_mb']:,}",
                f"{row['overhead']:.1%}" if "overhead" in row else "",
                row["commit"],
            ]
        )
    head = [
        "", "ms per call", "processor ms", f"times {REFERENCE}", "passes", "passes per token", "ids fed",
        "prompt ids computed again", "first call, ms", "peak MB", "our overhead", "commit",
    ]  # fmt: skip
    return HEAD.format(**results) + "\n" + _table(head, rows)


def _number(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] + ["--:"] * (len(head) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
