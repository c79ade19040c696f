"""Measure a run on the held-out sets: `python -m training.evaluate --run R [--cases N]`.

Writes `report.json` to the run's folder; `training.export` puts it into card and manifest.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from training import recipe as recipes
from training.checkpoint import load_trained
from training.export.model_card import score_table
from training.scoring import evaluate, fixed_set


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--run", type=Path, default=recipes.DEFAULT)
    parser.add_argument("--cases", type=int, default=1200)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    recipe = recipes.load(arguments.run)
    model, encoder, report = load_trained(recipe)
    report["scores"] = {
        part: evaluate(
            model,
            fixed_set(
                recipe.maker(part, {"tasks": 1.0} if part == "train" else None),
                encoder,
                f"report:{part}",
                arguments.cases,
            ),
        )
        for part in ("train", "function", "domain", "dev", "foreign")
    }
    (recipe.out / "report.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    print(score_table(report["scores"]))


if __name__ == "__main__":
    main()
