"""Train the embedded model: `python -m training.train --run training/runs/nano-2.toml [--resume]`.

The schedule follows the clock, so the rates reach zero at the deadline whatever the speed; a resumed
run goes on with the time it had used. Ctrl-C saves and leaves. A run that is there is gone on with, or moved away:
none begins in its place. A tokenizer is trained first if the run has none.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from training import build_tokenizer, recipe
from training.loop import Run, new_model
from training.optim.data_parallel import Crew, together


def train(crew: Crew, path: Path, resume: bool) -> None:
    """Train in one of the processes of a run."""
    Run(recipe.load(path), resume=resume, crew=crew).train()


def check(file: Path, *, resume: bool) -> None:
    """Refuse to write over the checkpoint of a run, and to go on from one that is not there."""
    if file.exists() and not resume:
        raise SystemExit(f"{file} exists: go on with --resume, or move the run away first")
    if resume and not file.exists():
        raise SystemExit(
            f"{file} is not there: begin without --resume, or python -m training.restore"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--run", type=Path, default=recipe.ROOT / "training/runs/nano-2.toml", help="recipe (TOML)"
    )
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    arguments = parser.parse_args()
    plan = recipe.load(arguments.run)
    check(plan.out / "checkpoint.pt", resume=arguments.resume)
    if not (plan.out / "tokenizer.json").exists():
        build_tokenizer.build(plan)
    new_model(plan)  # so that what words mean is found once, and not by every process
    workers = 1 if torch.cuda.is_available() else plan.table["training"].get("workers", 1)
    together(workers, train, arguments.run, arguments.resume)


if __name__ == "__main__":
    main()
