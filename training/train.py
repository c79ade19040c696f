"""Train the embedded model: `python -m training.train --run training/runs/nano-2.toml [--resume]`.

A resumed run continues at its checkpoint with the time that it had used. Ctrl-C saves and stops. A run whose checkpoint
exists is never started anew in the same folder: resume it, or move it away. Without a tokenizer one is trained first.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from callmemaybe.tuning.network.loss import compute_loss
from callmemaybe.tuning.packing import TokenBatch
from training import build_tokenizer
from training import recipe as recipes
from training.checkpoint import FILE, TrainingState, new_model
from training.data.packing import BatchLimits
from training.data.prefetch import Prefetch
from training.optim.allocator import release_memory
from training.optim.data_parallel import ProcessGroup, run_in_parallel
from training.optim.schedule import Schedule
from training.progress import LossLog, Progress, save_if_possible, stop_on_signals
from training.recipe import Recipe
from training.scoring import Evaluation

CLIP = 20.0  # largest norm of a gradient
RELEASE_STEPS = 150  # steps after which freed memory is returned to the system
HELD_OUT = ("function", "domain", "dev", "foreign")


def train(
    group: ProcessGroup, recipe: Recipe, *, resume: bool = False, evaluated: bool = True
) -> None:
    """Train in one process of a group until the schedule or a signal ends it; the first process saves and evaluates."""
    table = recipe.table["training"]
    torch.set_num_threads(table.get("threads", 1))

    # Model and optimiser.
    state = TrainingState(recipe, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    if resume:
        state.restore()
    schedule = Schedule(table, state.step)
    sync_steps = table.get("sync_steps", 1) if group.size > 1 else 1

    # Data: each process draws batches of its own; held-out sets are the same every time.
    limits = BatchLimits(
        table["blocks"], table["pairs"], table["longest_tool"], table["longest_pair"]
    )
    start = state.step * group.size + group.rank
    maker = recipe.maker("train")
    batches = Prefetch(maker, state.encoder, recipe.seed, limits, start, group.size)
    evaluation = Evaluation(state, HELD_OUT if evaluated and group.is_main else (), resumed=resume)

    # Loop.
    progress = Progress(state, group, schedule, stop_on_signals(state, group, sync_steps))
    report = LossLog(state, table["report_steps"])
    saved = scored = state.seconds
    while not progress.finished:
        batch = batches.get()
        report.add(train_step(state, batch, schedule, recipe.excess))
        progress.add(batch, sync=state.step % sync_steps == 0, steps=sync_steps)
        if state.step % RELEASE_STEPS == 0:
            release_memory()
        if not group.is_main:
            continue
        report.show()
        if state.seconds - saved > 60 * table["checkpoint_minutes"]:
            saved = state.seconds
            save_if_possible(state)
        if state.seconds - scored > 60 * table["evaluate_minutes"]:
            scored = state.seconds
            evaluation.run()
            progress.restart_clock()

    # Evaluation.
    if group.is_main:
        state.save()
        evaluation.run()


def train_step(
    state: TrainingState, batch: TokenBatch, schedule: Schedule, excess: float
) -> dict[str, float]:
    """Take one step; returns the terms of the loss and the shares of right choices."""
    table = schedule.table
    rate = schedule.rate(state.step, state.pairs, state.seconds)
    # In use no word is dropped, so words are dropped less often as the rates fall.
    state.model.word_dropout = rate * table.get("word_dropout", 0.0)
    weight = table.get("choice_weight", 2.0)
    loss, shown = compute_loss(
        state.model, batch, state.device, choice_weight=weight, excess=excess
    )
    loss.backward()
    torch.nn.utils.clip_grad_norm_(state.model.parameters(), CLIP)
    for optimizer in state.optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["full"] * rate
        optimizer.step()
        optimizer.zero_grad()
    state.step += 1
    return shown


def check(file: Path, *, resume: bool) -> None:
    """Refuse to overwrite the checkpoint of a run, and to resume one that does not exist."""
    if file.exists() and not resume:
        raise SystemExit(f"{file} exists: go on with --resume, or move the run away first")
    if resume and not file.exists():
        raise SystemExit(
            f"{file} is not there: begin without --resume, or python -m training.restore"
        )


def run_process(group: ProcessGroup, path: Path, resume: bool) -> None:
    """Train in one of the processes of a run."""
    train(group, recipes.load(path), resume=resume)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--run", type=Path, default=recipes.DEFAULT, help="recipe (TOML)")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    arguments = parser.parse_args()
    recipe = recipes.load(arguments.run)
    check(recipe.out / FILE, resume=arguments.resume)
    if not (recipe.out / "tokenizer.json").exists():
        build_tokenizer.build(recipe)
    new_model(recipe)  # computes the word vectors once, before the processes start
    processes = 1 if torch.cuda.is_available() else recipe.table["training"].get("workers", 1)
    run_in_parallel(processes, run_process, arguments.run, arguments.resume)


if __name__ == "__main__":
    main()
