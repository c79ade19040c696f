"""Accuracy on fixed sets of requests, given the truth before each choice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from callmemaybe.tuning.network.batch_tensors import to_tensors
from callmemaybe.tuning.network.model import Nano
from callmemaybe.tuning.network.precision import compute_dtype
from callmemaybe.tuning.network.scoring import likeliest
from callmemaybe.tuning.packing import Encoder, TokenBatch, stack
from training.checkpoint import TrainingState, new_model
from training.data.foreign import SHARES
from training.data.mixture import BlockMaker
from training.data.packing import BatchLimits, draw_row
from training.files import atomic_write
from training.nn.growth import grow_weights
from training.progress import log
from training.recipe import Recipe

SIZES = range(4, 13)
PARTS = ("function", "domain", "dev")
LATER = ("pointer.begun",)  # parts that write something before they are trained
CASES = 380  # of each held-out part, while a run is trained
LIMITS = BatchLimits(8, 12, 200, 320)


def fixed_set(maker: BlockMaker, encoder: Encoder, seed: str, cases: int) -> list[TokenBatch]:
    """Draw the same batches every time, with 4 to 12 functions per list where a part has them."""
    rng = Random(seed)
    per_batch = LIMITS.blocks * LIMITS.pairs
    return [
        stack(
            [draw_row(maker, encoder, rng, LIMITS, rng.choice(SIZES)) for _ in range(LIMITS.blocks)]
        )
        for _ in range(-(-cases // per_batch))
    ]


def count(
    batch: TokenBatch, right_token: np.ndarray, called: np.ndarray, tally: Counter[str]
) -> None:
    """Add the cases of a batch to a tally of `what/right` and `what/all`."""
    right_call = called == batch.call_right
    none = batch.row_tools.shape[1]
    pairs = [placed for row in batch.rows for placed in row.pairs]
    for index, placed in enumerate(pairs):
        at = batch.call_pair == index
        named = bool(right_call[at].all())
        if not placed.pair.calls:
            tally["none/all"] += 1
            tally["none/right"] += named
            continue
        refused = called[at][0] == none
        for key, value in (("false refusal", refused), ("name", named)):
            tally[f"{key}/all"] += 1
            tally[f"{key}/right"] += bool(value)
        own = batch.graded_pair == index
        exact = named and bool(right_token[own].all())
        tally["exact/all"] += 1
        tally["exact/right"] += exact
        if placed.pair.tag in SHARES:  # of another language
            for key, value in (("name", named), ("exact", exact)):
                tally[f"{placed.pair.tag} {key}/all"] += 1
                tally[f"{placed.pair.tag} {key}/right"] += value
        tally["arguments/all"] += 1
        tally["arguments/right"] += bool(right_token[own].all())
        for number, kind in enumerate(placed.kinds, 1):
            mine = own & (batch.graded_argument == number)
            tally[f"{kind}/all"] += 1
            tally[f"{kind}/right"] += bool(right_token[mine].all())


def evaluate(model: Nano, batches: list[TokenBatch]) -> dict[str, Any]:
    """Shares by what was asked, with the number of cases."""
    was = model.training
    model.eval()
    tally: Counter[str] = Counter()
    for batch in batches:
        device = model.embedding.device
        p = to_tensors(batch, device)
        half = compute_dtype(device.type) is torch.bfloat16
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=half):
            x, own, odds = model(p)
            best = likeliest(model, x, own, p)
        right = (best == p.ids[p.graded + 1]).cpu().numpy()
        chosen = odds.argmax(-1).cpu().numpy()
        count(batch, right, chosen, tally)
    model.train(was)
    names = sorted(key[:-4] for key in tally if key.endswith("/all"))
    return {
        n: {
            "share": round(tally[f"{n}/right"] / max(1, tally[f"{n}/all"]), 4),
            "cases": tally[f"{n}/all"],
        }
        for n in names
    }


def brief(scores: dict[str, Any]) -> str:
    """One line."""
    return " ".join(f"{name} {100 * item['share']:.1f}" for name, item in scores.items())


def score_checkpoints(
    recipe: Recipe, checkpoints: Sequence[Path], cases: int, words_from: float
) -> Iterator[dict[str, Any]]:
    """Yield counts and scores by part of each checkpoint; see `training.learning_curve`."""
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
        model.load_state_dict(grow_weights(state["average"], fresh))
        with torch.no_grad():  # a checkpoint is scored with what it knew of words
            model.meaning.weight[:, state["average"]["meaning.weight"].shape[1] :] = 0
        model.wholes = wholes if elapsed > 60 * words_from else None
        scores = {part: evaluate(model, batches) for part, batches in sets.items()}
        minutes = round(elapsed / 60)
        yield {"minutes": minutes, "requests": requests, "tokens": tokens, "scores": scores}


class Evaluation:
    """Scores of the averaged weights on held-out sets, collected in `history.json`."""

    def __init__(self, state: TrainingState, parts: tuple[str, ...], *, resumed: bool) -> None:
        self.state, self.file = state, state.recipe.out / "history.json"
        self.sets = {
            part: fixed_set(state.recipe.maker(part), state.encoder, f"look:{part}", CASES)
            for part in parts
        }
        self.history = read_history(self.file, state.pairs) if resumed else []

    def run(self) -> None:
        """Score, print and write."""
        model = self.state.model
        current = {name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict(self.state.average)
        for part, batches in self.sets.items():
            scores = evaluate(model, batches)
            self.history.append({"pairs": self.state.pairs, "part": part, "scores": scores})
            log(self.state, f"-- {part}: {brief(scores)}")
        model.load_state_dict(current)
        with atomic_write(self.file) as file:
            file.write_text(json.dumps(self.history), "utf-8")


def read_history(file: Path, pairs: int) -> list[dict[str, Any]]:
    """The scores of the first `pairs` requests of a run; none where the file cannot be read."""
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return []
    return [one for one in found if one["pairs"] <= pairs]
