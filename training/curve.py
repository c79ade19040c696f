"""Held-out accuracy by the number of training functions: what would more of them buy?

    python -m training.curve [--run training/runs/nano-2.toml] [--shares 0.08 0.3 1]
        [--requests 12000] [--output training/curve.json]

Trains one short run for each share of the training functions, all on the same number of requests, with
the same tokenizer and word vectors, and scores it on functions and domains that no run has seen.
Every finished run is kept in the output, so an interrupted command goes on where it was; what is finished leaves no
checkpoint, so without the output all is trained anew. A chart is drawn to `docs/pictures/nano-functions.svg` where
matplotlib is at hand.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from training import recipe as recipes
from training.loop import Run
from training.recipe import ROOT, Recipe
from training.scoring import evaluate, fixed_set

PARTS = ("function", "domain")
CASES = 760
SHOWN = ("name", "exact", "arguments", "none")


def smaller(recipe: Recipe, share: float, requests: int, name: str = "share") -> Recipe:
    """The same recipe with a share of its functions and so many requests, in a folder of its own."""
    out = f"{recipe.table['out']}-{name}-{share:g}-{requests}"
    training = {**recipe.table["training"], "share": share, "requests": requests}
    made = replace(recipe, table={**recipe.table, "out": out, "training": training})
    made.out.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "lexicon.npy", "wholes.npz"):
        shutil.copyfile(recipe.out / name, made.out / name)
    return made


def point(recipe: Recipe) -> dict[str, Any]:
    """Train, and score the averaged weights."""
    run = Run(recipe, resume=recipe.out.joinpath("checkpoint.pt").is_file())
    run.train(judged=False)
    run.model.load_state_dict(run.average)
    talk = recipe.dialogues("train")
    return {
        "share": recipe.table["training"]["share"],
        "functions": len(recipe.functions("train")) + len(talk.tools if talk else ()),
        "requests": run.pairs,
        "finished": not run.stopped,
        "scores": {
            part: evaluate(
                run.model, fixed_set(recipe.maker(part), run.encoder, f"curve:{part}", CASES)
            )
            for part in PARTS
        },
    }


def draw(points: list[dict[str, Any]], path: Path) -> None:
    """Draw name and exact calls over the number of functions, which grows by factors."""
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        return
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    points = sorted(points, key=lambda one: one["functions"])
    for part, line in zip(PARTS, ("-", "--"), strict=True):
        for score, colour in (("name", "#2b6cb0"), ("exact", "#c05621")):
            axes.plot(
                [one["functions"] for one in points],
                [100 * one["scores"][part][score]["share"] for one in points],
                line,
                color=colour,
                marker="o",
                label=f"{score}, held-out {part}s",
            )
    axes.set_xscale("log")
    axes.set_xlabel("functions in training")
    axes.set_ylabel("right, %")
    axes.set_ylim(0, 100)
    axes.grid(alpha=0.3)
    axes.legend()
    axes.set_title(f"{points[-1]['requests']:,} requests each")
    figure.savefig(path)


def known(file: Path, recipe: Recipe, requests: int) -> list[dict[str, Any]]:
    """What an output holds already; raises SystemExit where runs of more or fewer requests stand in it."""
    if not file.is_file():
        return []
    found: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))
    plan = recipe.table["training"]
    step = plan["blocks"] * plan["pairs"]  # that it is enough is found one step later
    for one in found:
        if not requests <= one["requests"] <= requests + 2 * step:
            raise SystemExit(
                f"{file} holds runs of {one['requests']:,} requests, which cannot be compared with "
                f"{requests:,}: name another --output, or ask for as many"
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--run", type=Path, default=ROOT / "training/runs/nano-2.toml")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.08, 0.3, 1.0])
    parser.add_argument("--requests", type=int, default=12_000)
    parser.add_argument("--output", type=Path, default=ROOT / "training/curve.json")
    options = parser.parse_args()
    recipe = recipes.load(options.run)
    points = known(options.output, recipe, options.requests)
    for share in options.shares:
        if any(one["share"] == share for one in points):
            continue
        run = smaller(recipe, share, options.requests)
        made = point(run)
        if not made["finished"]:
            break
        points.append(made)
        options.output.write_text(json.dumps(points, indent=1) + "\n", "utf-8")
        (run.out / "checkpoint.pt").unlink(missing_ok=True)
        told = {part: {n: made["scores"][part][n]["share"] for n in SHOWN} for part in PARTS}
        print(made["functions"], "functions:", json.dumps(told), flush=True)
    draw(points, ROOT / "docs/pictures/nano-functions.svg")


if __name__ == "__main__":
    main()
