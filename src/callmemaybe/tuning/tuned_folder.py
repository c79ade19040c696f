"""The folder of a tuned model: loaded wherever ``nano`` is, with a card that says what it is worth."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from callmemaybe.errors import WriteError

MANIFEST, CARD, REPORT = "manifest.json", "MODEL_CARD.md", "tuning.json"
#: What stays as it is in the model that was tuned.
_KEPT = ("tokenizer.json", "config.json", "generation_config.json", "confidence.json", "weights.json")  # fmt: skip


def write_folder(
    source: Path, target: Path, write_graph: Callable[[Path], None], about: Mapping[str, Any]
) -> None:
    """Write the folder, complete or not at all, in place of one that :func:`write_folder` wrote before.

    Raises WriteError.
    """
    part = target.with_name(f"{target.name}.new")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for name in _KEPT:
            if (source / name).is_file():
                shutil.copyfile(source / name, part / name)
        write_graph(part / "model.onnx")
        (part / MANIFEST).write_text(_json(_manifest(source, part, about)), "utf-8")
        if target.exists():
            shutil.rmtree(target)
        part.rename(target)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise WriteError(f"{target}: {error.strerror or error}") from error


def add_report(target: Path, report: Mapping[str, Any]) -> None:
    """Write what was measured beside the model, for programs and for people. Raises WriteError."""
    try:
        (target / REPORT).write_text(_json(report), "utf-8")
        (target / CARD).write_text(card(report), "utf-8")
    except OSError as error:
        raise WriteError(f"{target}: {error.strerror or error}") from error


def is_complete(folder: Path) -> bool:
    """Whether a folder has a tokenizer and a manifest that names the graph, as a model that can be tuned has."""
    try:
        table = json.loads((folder / MANIFEST).read_text("utf-8"))
        return (
            bool(table["files"]["model.onnx"]["sha256"]) and (folder / "tokenizer.json").is_file()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def is_tuned(folder: Path) -> bool:
    """Whether a folder holds what :func:`write_folder` writes."""
    try:
        return "tuned_from" in json.loads((folder / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError):
        return False


def _manifest(source: Path, part: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    table = json.loads((source / MANIFEST).read_text("utf-8"))
    kept = {
        key: table[key]
        for key in ("format", "architecture", "precision", "sources")
        if key in table
    }
    return {
        "name": part.name.removesuffix(".new"),
        "tuned_from": {"name": table.get("name"), "model.onnx": table["files"]["model.onnx"]["sha256"]},
        **kept,
        **about,
        "files": {
            path.name: {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "bytes": path.stat().st_size}
            for path in sorted(part.iterdir())
        },
    }  # fmt: skip


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def percent(share: Mapping[str, Any] | None) -> str:
    """Write a share with its interval: "81.2 (74\u201387)"; a dash where nothing was counted."""
    if not share or not share["of"]:
        return "\u2013"
    low, high = share["low"], share["high"]
    return f"{100 * share['share']:.1f} ({100 * low:.0f}\u2013{100 * high:.0f})"


def card(report: Mapping[str, Any]) -> str:
    """Return the model card, in Markdown."""
    own = report["own"]
    made = "sentences made up from the definitions, as no examples were held out"
    kind = made if own["made_up"] else "the user's own sentences that were held out"
    rows = [
        f"| {name} | {cases} | {before} | {after} |"
        for name, cases, before, after in figures_table(report)
    ]
    by_tool = [
        f"| {name} | {each['cases']} | {percent(each['before'])} | {percent(each['after'])} |"
        for name, each in own["by_tool"].items()
    ]
    by_argument = [
        f"| {name} | {each['cases']} | {percent(each['before'])} | {percent(each['after'])} |"
        for name, each in own["by_argument"].items()
    ]
    head = "| | requests | before | after |\n|---|---|---|---|\n"
    return (
        f"# {report['name']}\n\n"
        f"The embedded model of callmemaybe, trained further on {report['tools']} functions with {report['examples']} examples: "
        f"{report['steps']} steps, {report['minutes']:.1f} minutes of processor time, seed {report['seed']}. "
        f"Measured on {kind}, and on functions that neither it nor the embedded model was trained on. Percent of requests answered "
        "rightly, with 95% intervals (Wilson).\n\n"
        + head + "\n".join(rows)
        + "\n\n## By function\n\n" + head + "\n".join(by_tool)
        + "\n\n## By argument, where the function is right\n\n" + head + "\n".join(by_argument)
        + ("" if own["made_up"] else "\n\nThe weights are those of the look at which most of these requests were right, so a little of the gain is luck.")
        + (f"\n\n{report['too_long']} examples were too long to be trained on." if report["too_long"] else "")
        + "\n\nThe probability of a whole call (`confidence`) was fitted for the embedded model; it was not fitted anew.\n"
    )  # fmt: skip


def figures_table(report: Mapping[str, Any]) -> list[tuple[str, int, str, str]]:
    """Return rows of what was measured, how many requests, and percent before and after."""
    own, general = report["own"], report["general"]
    kind = "made-up requests" if own["made_up"] else "own requests"
    return [
        (f"{kind}: all right", own["cases"], *_sides(own, "right")),
        (f"{kind}: right function", own["cases"], *_sides(own, "name")),
        ("other functions: all right", general["cases"], *_sides(general, "right")),
    ]


def _sides(found: Mapping[str, Any], figure: str) -> tuple[str, str]:
    return percent(found["before"][figure]), percent(found["after"][figure])
