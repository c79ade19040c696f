"""What a training step minimises: the choice of a function, the tokens of its arguments, and two auxiliary questions."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch.nn import functional

from callmemaybe.tuning.network.batch_tensors import to_tensors
from callmemaybe.tuning.network.model import Nano
from callmemaybe.tuning.network.precision import compute_dtype
from callmemaybe.tuning.packing import CHOICES, TokenBatch
from callmemaybe.tuning.rendering import ChoiceKind

# Weights of the terms, where a token of a value counts 1.
MEANT_WEIGHT = 0.5  # whether an optional name or a value of a form is meant
FOUND_WEIGHT = 0.5  # where in the request the value of a form's line begins
STOP_WEIGHT = 0.5  # a token that may end the answer
BOOLEAN_WEIGHT = 3.0  # true and false: one token, and nothing to copy it from


def token_weights(batch: TokenBatch) -> np.ndarray:
    """The weight of each graded token. float64 [G]."""
    kinds = [placed.kinds for row in batch.rows for placed in row.pairs]
    boolean = [
        argument > 0 and kinds[pair][argument - 1] == "boolean"
        for pair, argument in zip(batch.graded_pair, batch.graded_argument, strict=True)
    ]
    weight = np.where(batch.graded_kind == CHOICES.index(ChoiceKind.STOP), STOP_WEIGHT, 1.0)
    return np.where(boolean, BOOLEAN_WEIGHT, weight)


def as_drawn(odds: torch.Tensor, excess: float) -> torch.Tensor:
    """Log-odds [calls, J + 1] of the tools and of none (last) where none is likelier by `excess` than in use.

    Training draws requests that fit no tool more often than they occur. Adding the excess outside of the network makes it
    learn the odds of use (logit adjustment: Menon et al., 2021).
    """
    return torch.cat((odds[:, :-1], odds[:, -1:] + excess), 1) if excess else odds


def compute_loss(
    model: Nano, batch: TokenBatch, device: torch.device, *, choice_weight: float, excess: float
) -> tuple[torch.Tensor, dict[str, float]]:
    """Return the loss of a batch, and its terms with the shares of right choices for the log."""
    p = to_tensors(batch, device)
    here = partial(torch.as_tensor, device=device)
    dtype = compute_dtype(device.type)
    with torch.autocast(device.type, torch.bfloat16, enabled=dtype is torch.bfloat16):
        x, own, odds, last = model.read(p)
        likely = model.token_logprobs(x, own, p, p.ids[p.graded + 1])
        found = -model.found_logprobs(last, x, own, p).sum()
        meaning = model.meant_log_odds(last, p)
    odds = as_drawn(odds, excess)
    choice = functional.cross_entropy(odds, here(batch.call_right))
    pairs = len(batch.pair_pad)
    values = -(likely * here(token_weights(batch))).sum() / pairs
    meant = functional.binary_cross_entropy_with_logits(
        meaning, here(batch.marks_true).float(), reduction="sum"
    )
    loss = choice_weight * choice + values
    loss = loss + (MEANT_WEIGHT * meant + FOUND_WEIGHT * found) / pairs
    right = odds.detach().argmax(-1).cpu().numpy() == batch.call_right
    none = batch.call_right == batch.row_tools.shape[1]
    sure = (likely.detach() > np.log(0.5)).cpu().numpy()
    value = batch.graded_argument > 0
    return loss, {
        "choice": choice.item(),
        "values": values.item(),
        "meant": meant.item() / max(1, len(batch.marks)),
        "found": found.item() / max(1, len(batch.found)),
        "name": float(right[~none].mean()),
        "none": float(right[none].mean()) if none.any() else 1.0,
        "token": float(sure[value].mean()),
        "other": float(sure[~value].mean()),
    }
