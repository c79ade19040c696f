"""Held-out figures: greedy decoding with the forced tokens supplied.

If every token the decoder chooses is the likeliest one while the truth is fed, greedy decoding
writes exactly the truth, so a single pass measures exact calls. Names compete only with what is
offered, token by token as under the grammar; values compete with the whole vocabulary, which is
stricter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

import numpy as np
import torch

from training.pieces.mixture import Block, BlockMaker
from training.pieces.model import Nano, Sight, sight
from training.pieces.packing import CHOICES, Batch, Encoder, fill_row, stack
from training.pieces.rendering import (
    ARGS,
    CALL,
    CONTROL_TOKENS,
    END,
    NONE,
    Choice,
    escape,
)

NAMING = (Choice.NAME, Choice.CONTROL)


def fixed_set(
    maker: BlockMaker,
    encoder: Encoder,
    seed: str,
    cases: int,
    *,
    sizes: Iterable[int] = range(4, 13),
) -> list[Batch]:
    """Blocks of 4 to 12 tools, few pairs each, always the same ones."""
    rng = Random(seed)
    options = list(sizes)
    rows = []
    while sum(len(row.block.pairs) for row in rows) < cases:
        rows.append(
            fill_row(maker, encoder, rng, (2048, 2, 512), pairs=12, size=rng.choice(options))
        )
    rows.sort(key=lambda row: len(row.tools))
    return [stack(rows[start : start + 4], 512) for start in range(0, len(rows), 4)]


def inputs(batch: Batch) -> tuple[torch.Tensor, torch.Tensor, Sight]:
    """The arguments of the model for a batch."""
    ids, positions = torch.tensor(batch.ids).long(), torch.tensor(batch.positions).long()
    return ids, positions, sight(torch.tensor(batch.segments), batch.tools, batch.bin)


@torch.no_grad()
def predictions(model: Nano, encoder: Encoder, batch: Batch) -> np.ndarray:
    """The likeliest token at each place, given the truth before it. [rows, length]; 0 where forced."""
    with torch.autocast("cpu", torch.bfloat16):
        hidden = model(*inputs(batch))
    rows, places = np.nonzero(batch.choices)
    logits = model.logits(hidden[rows, places - 1].float())
    control = [encoder.control(token) for token in CONTROL_TOKENS]
    names = [offered(encoder, block) for block in batch.blocks]
    for number, (row, place) in enumerate(zip(rows, places, strict=True)):
        allowed = ways_on(encoder, names[row], batch, row, place)
        if allowed:
            keep = logits[number, allowed].clone()
            logits[number] = -torch.inf
            logits[number, allowed] = keep
        else:
            logits[number, control] = -torch.inf
    result = np.zeros_like(batch.ids)
    result[rows, places] = logits.argmax(-1).numpy()
    return result


def offered(encoder: Encoder, block: Block) -> list[tuple[int, ...]]:
    """What may be written where a function is chosen: names with the token that ends them, none."""
    ends = encoder.control(ARGS)
    names = [(*encoder.text(escape(tool["name"])), ends) for tool in block.tools]
    return [*names, (encoder.control(NONE),)]


def ways_on(
    encoder: Encoder, names: list[tuple[int, ...]], batch: Batch, row: int, place: int
) -> list[int]:
    """The tokens the grammar leaves where a function is chosen; empty inside arguments."""
    name, control, stop = (CHOICES.index(c) for c in (Choice.NAME, Choice.CONTROL, Choice.STOP))
    choices = batch.choices[row]
    start = place
    while choices[start - 1] == name:
        start -= 1
    if choices[place] in (name, control) or (choices[place] == stop and start < place):
        written = tuple(batch.ids[row, start:place].tolist())
        return sorted({n[len(written)] for n in names if n[: len(written)] == written})
    if choices[place] == stop:
        return [encoder.control(END), encoder.control(CALL)]
    return []


def count(batch: Batch, predicted: np.ndarray, tally: Counter[str]) -> None:
    """Add the cases of a batch to a tally of `what/right` and `what/all`."""
    for row, block in enumerate(batch.blocks):
        right = (predicted[row] == batch.ids[row]) | (batch.choices[row] == 0)
        for number, pair in enumerate(block.pairs, 1):
            places = np.nonzero(batch.segments[row] == number)[0]
            chosen = batch.choices[row, places]
            control = places[np.isin(chosen, [CHOICES.index(c) for c in NAMING])]
            named = bool(right[control].all())
            if not pair.calls:
                tally["none/all"] += 1
                tally["none/right"] += named
                continue
            tally["name/all"] += 1
            tally["name/right"] += named
            tally["exact/all"] += 1
            tally["exact/right"] += bool(right[places].all())
            for argument in np.unique(batch.arguments[row, places]):
                if argument:
                    kind = batch.kinds[row][argument - 1]
                    own = places[batch.arguments[row, places] == argument]
                    tally[f"{kind}/all"] += 1
                    tally[f"{kind}/right"] += bool(right[own].all())


def refusals(batch: Batch, predicted: np.ndarray, encoder: Encoder, tally: Counter[str]) -> None:
    """Requests that do fit a tool but were refused."""
    none = encoder.control(NONE)
    name = batch.choices == CHOICES.index(Choice.NAME)
    fits = name & ~np.roll(name, 1, axis=1)
    tally["false refusal/right"] += int((fits & (predicted == none)).sum())
    tally["false refusal/all"] += int(fits.sum())


def evaluate(model: Nano, encoder: Encoder, batches: list[Batch]) -> dict[str, Any]:
    """Shares by what was asked, with the number of cases."""
    was = model.training
    model.eval()
    tally: Counter[str] = Counter()
    for batch in batches:
        predicted = predictions(model, encoder, batch)
        count(batch, predicted, tally)
        refusals(batch, predicted, encoder, tally)
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
