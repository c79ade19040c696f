"""Measure a run on the held-out sets: `python -m training.evaluate --run R [--cases N]`.

Writes `report.json` beside the checkpoint; `training.export` puts it into card and manifest.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from training.pieces import recipe as recipes
from training.pieces import tokenizer
from training.pieces.card import score_table
from training.pieces.evaluate import evaluate, fixed_set
from training.pieces.model import Nano, Shape
from training.pieces.packing import Encoder
from training.pieces.recipe import Recipe


def report(recipe: Recipe, cases: int) -> dict[str, object]:
    """Figures of the last checkpoint, on more cases than training looks at."""
    state = torch.load(recipe.out / "checkpoint.pt", weights_only=True)
    encoder = Encoder(tokenizer.load(recipe.out / "tokenizer.json"))
    model = Nano(Shape(encoder.tokenizer.get_vocab_size(), **recipe.table["model"]))
    model.load_state_dict(state["model"])
    scores = {}
    for part in ("train", "function", "domain", "dev"):
        maker = recipe.maker(part, {"tasks": 1.0} if part == "train" else None)
        batches = fixed_set(maker, encoder, f"report:{part}", cases)
        scores[part] = evaluate(model, encoder, batches)
    step, tokens, elapsed = state["counters"][:3]
    planned = recipe.table["training"]["minutes"]
    return {
        "steps": step,
        "tokens": tokens,
        "minutes": round(elapsed / 60, 1),
        "finished": elapsed >= 60 * planned,
        "scores": scores,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--run", type=Path, default=recipes.ROOT / "training/runs/nano-1.toml")
    parser.add_argument("--cases", type=int, default=1200)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    recipe = recipes.load(arguments.run)
    found = report(recipe, arguments.cases)
    (recipe.out / "report.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(score_table(found["scores"]))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
