"""How ready the embedded model is to call nothing: `python -m training.calibrate [--write]`.

The model weighs "no function fits" against every function offered. A constant on those log-odds trades
requests wrongly refused against requests rightly refused; nothing else changes, neither which function
is preferred nor what is written. This command gives the model requests for held-out functions and domains (drawn
apart from those of the evaluation) and prints the trade-off, and the constant with which at most a given share
of the requests that want a call is refused. With `--write` the constant goes into the graph, and
with what was found into the manifest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from callmemaybe import models
from callmemaybe.caller import Caller
from callmemaybe.evals import sources
from callmemaybe.evals.case import Case
from callmemaybe.generation.result import CallResult
from callmemaybe.models.base import Model
from training import recipe as recipes
from training.cases import cases
from training.recipe import RELEASE, ROOT

NAME = "none_bias"
LEAST = 1e-12  # a chance below is taken for this
FORESEEN = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1)  # false refusals of the table
Margins = NDArray[np.float64]


class RefusalTradeoff(NamedTuple):
    """What one constant does: shares of requests."""

    constant: float
    false_refusals: float
    refused: float


def margin(outcome: CallResult) -> float:
    """Log-odds of calling nothing against the likeliest function."""
    chances = outcome.distribution
    best = max(chance for name, chance in chances.items() if name is not None)
    return float(np.log(max(chances.get(None, 0.0), LEAST)) - np.log(max(best, LEAST)))


def margins(model: Model, asked: Sequence[Case]) -> tuple[Margins, Margins]:
    """Ask all cases; return the margins of those that want a call, and of those that want none."""
    call, none = [], []
    caller, offered = None, ""
    for case in asked:
        if caller is None or case.offered != offered:
            caller, offered = Caller(model, case.tools, no_call=True), case.offered
        (none if case.wants_none else call).append(margin(caller.call(case.prompt)))
    return np.array(call), np.array(none)


def tradeoff(call: Margins, none: Margins, constant: float) -> RefusalTradeoff:
    """Return what becomes of the requests with `constant` added."""
    shares = (float((some + constant > 0).mean()) if len(some) else 0.0 for some in (call, none))
    return RefusalTradeoff(constant, *shares)


def constant_for(call: Margins, most: float) -> float:
    """Return the largest constant with which no more than `most` of these requests are refused.

    It lies halfway to the next request that would be refused, so that a last bit decides nothing.
    """
    ordered = np.sort(call)[::-1]  # the first ones are refused first
    allowed = int(np.floor(most * len(ordered) + 1e-9))
    if allowed >= len(ordered):
        return float(-ordered[-1] + 1)
    above = ordered[allowed - 1] if allowed else ordered[0] + 1
    return float(-(above + ordered[allowed]) / 2)


def held_out(part: str, count: int) -> list[Case]:
    """Requests of a held-out part, drawn apart from those of the evaluation."""
    found = cases(recipes.load(recipes.DEFAULT), part, count, stream="refusals")
    return [Case.from_json(one) for one in found]


def dialogues(data: Path, count: int) -> list[Case]:
    """One-turn requests of SGD's dev split for services not trained on; none if it is not there."""
    if not (data / "sgd").is_dir():
        return []
    found = [c for c in sources.read("sgd", data / "sgd") if {"dev", "unseen"} <= set(c.tags)]
    return sorted(found[:: max(1, len(found) // count)][:count], key=lambda case: case.offered)


def written(folder: Path) -> float:
    """Return the constant that the graph has."""
    return float(numpy_helper.to_array(_tensor(onnx.load(folder / "model.onnx"))).sum())


def write(folder: Path, constant: float, figures: Mapping[str, object]) -> None:
    """Put the constant into the graph, and with what it does into the manifest."""
    path = folder / "model.onnx"
    model = onnx.load(path)
    value = np.array([constant], np.float32)
    _tensor(model).CopyFrom(numpy_helper.from_array(value, NAME))
    path.write_bytes(model.SerializeToString(deterministic=True))
    manifest = folder / "manifest.json"
    if manifest.is_file():
        table = json.loads(manifest.read_text("utf-8"))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        table["files"]["model.onnx"] = {"sha256": digest, "bytes": path.stat().st_size}
        table["refusals"] = {"none_bias": round(constant, 6), **figures}
        manifest.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _tensor(model: onnx.ModelProto) -> onnx.TensorProto:
    found = [tensor for tensor in model.graph.initializer if tensor.name == NAME]
    if not found:
        raise SystemExit(f"the graph has no {NAME}; export it with this version of training.export")
    return found[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--model", type=Path, help="exported model; default: that of the recipe's run"
    )
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data")
    parser.add_argument("--cases", type=int, default=1200, help="of each set")
    parser.add_argument(
        "--most", type=float, default=0.03, help="share that may be falsely refused"
    )
    parser.add_argument("--write", action="store_true", help="into the graph and the manifest")
    arguments = parser.parse_args()
    folder = arguments.model or recipes.load(recipes.DEFAULT).exported
    if arguments.write and folder.resolve() == RELEASE.resolve():
        parser.error(f"{folder} is the shipped model: calibrate an exported one, then release it")
    before = written(folder)
    model = models.load(str(folder), threads=1)
    parts = {
        f"held-out {part}s": margins(model, held_out(part, arguments.cases))
        for part in ("function", "domain")
    }
    call, none = (np.concatenate(some) for some in zip(*parts.values(), strict=True))
    parts["SGD dev, unseen"] = margins(model, dialogues(arguments.data, arguments.cases))
    chosen = constant_for(call, arguments.most)
    print(
        f"{len(call)} requests that want a call, {len(none)} that want none; constant {before:.3f}"
    )
    print("| constant | false refusals | refused | " + " | ".join(parts) + " |")
    print("|---|---|---|" + "---|" * len(parts))
    for constant in (0.0, *(constant_for(call, most) for most in FORESEEN), chosen):
        one = tradeoff(call, none, constant)
        each = (tradeoff(*some, constant) for some in parts.values())
        cells = (f"{100 * t.false_refusals:.1f} / {100 * t.refused:.1f}" for t in each)
        print(
            f"| {before + constant:+.3f} | {100 * one.false_refusals:.1f} | "
            f"{100 * one.refused:.1f} | {' | '.join(cells)} |"
        )
    if arguments.write:
        one = tradeoff(call, none, chosen)
        figures = {
            "false_refusals": one.false_refusals,
            "refused": one.refused,
            "requests": len(call),
        }
        write(folder, before + chosen, {k: round(v, 4) for k, v in figures.items()})
        print(f"wrote {before + chosen:+.3f} into {folder}")


if __name__ == "__main__":
    main()
