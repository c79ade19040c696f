"""The learning curve of a run: its checkpoints, scored on the same held-out requests.

    python -m training.progress CHECKPOINT... [--run training/runs/nano-2.toml] [--cases 760]
        [--words-from 459] [--output training/progress.json]

What a checkpoint lacks (layers, units and parts that came later) writes nothing, so an early one says what it
said then; words whole were read from one minute of the run on (`--words-from`). Truth is given before each token,
as in `training.evaluate`. A chart is drawn to `docs/pictures/nano-progress.svg` where matplotlib is at hand.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from training import recipe as recipes
from training.loop import new_model
from training.nn.growth import grown
from training.recipe import ROOT, Recipe
from training.scoring import brief, evaluate, fixed_set

PARTS = {"function": "functions", "domain": "domains", "dev": "SGD services"}
LATER = ("pointer.begun",)  # parts that do something before they are trained


def points(
    recipe: Recipe, checkpoints: Sequence[Path], cases: int, words_from: float
) -> Iterator[dict[str, Any]]:
    """Yield what is known of each checkpoint and its scores by part."""
    model, encoder = new_model(recipe)
    fresh = {name: value.clone() for name, value in model.state_dict().items()}
    for name in LATER:
        fresh[name].zero_()
    wholes = model.wholes
    sets = {
        part: fixed_set(recipe.maker(part), encoder, f"progress:{part}", cases) for part in PARTS
    }
    for file in checkpoints:
        state = torch.load(file, map_location="cpu", weights_only=True)
        _, tokens, requests, elapsed = state["counters"]
        model.load_state_dict(grown(state["average"], fresh))
        with torch.no_grad():  # a checkpoint is scored with what it knew of words
            model.meaning.weight[:, state["average"]["meaning.weight"].shape[1] :] = 0
        model.wholes = wholes if elapsed > 60 * words_from else None
        scores = {part: evaluate(model, batches) for part, batches in sets.items()}
        minutes = round(elapsed / 60)
        yield {"minutes": minutes, "requests": requests, "tokens": tokens, "scores": scores}


def draw(found: list[dict[str, Any]], path: Path) -> None:
    """Draw names and exact calls over the requests of training, which grow by factors."""
    try:
        from matplotlib import pyplot as plt
        from matplotlib.ticker import FuncFormatter, MultipleLocator
    except ImportError:
        return
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    requests = [one["requests"] / 1000 for one in found]
    for (part, label), line in zip(PARTS.items(), ("-", "--", ":"), strict=True):
        for score, colour in (("name", "#2b6cb0"), ("exact", "#c05621")):
            shares = [100 * one["scores"][part][score]["share"] for one in found]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("checkpoints", type=Path, nargs="+")
    parser.add_argument("--run", type=Path, default=ROOT / "training/runs/nano-2.toml")
    parser.add_argument("--cases", type=int, default=760, help="of each part")
    parser.add_argument("--words-from", type=float, default=459, help="minute of the run")
    parser.add_argument("--output", type=Path, default=ROOT / "training/progress.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    recipe = recipes.load(options.run)
    for one in points(recipe, options.checkpoints, options.cases, options.words_from):
        found.append(one)
        for part, scores in one["scores"].items():
            print(f"{one['minutes']} min, {one['requests']:,}: {part}: {brief(scores)}", flush=True)
        options.output.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    draw(found, ROOT / "docs/pictures/nano-progress.svg")


if __name__ == "__main__":
    main()
