"""Which answers are right, given the truth before each choice (no grammar, no decoding)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from callmemaybe.tuning.network.batch_tensors import to_tensors
from callmemaybe.tuning.network.loss import as_drawn
from callmemaybe.tuning.network.model import BatchTensors, Nano
from callmemaybe.tuning.packing import EncodedBlock, stack


@torch.no_grad()
def likeliest(model: Nano, x: Tensor, own: Tensor, p: BatchTensors) -> Tensor:
    """Return the likeliest next token after each graded place, without a grammar. int64 [G]."""
    base, form, copy, ids = model.mixture_parts(x, own, p)
    size = len(model.base)
    best = torch.empty(len(base), dtype=torch.int64, device=base.device)
    for start in range(0, len(base), 64):
        part = slice(start, start + 64)
        all_tokens = (base[part][:, model.base] + form[part][:, model.form]).exp()
        all_tokens.scatter_add_(1, ids[part], copy[part, 0].sum(1))
        all_tokens.scatter_add_(1, model.bare[ids[part]], copy[part, 1].sum(1))
        best[part] = all_tokens[:, :size].argmax(-1)
    return best


@torch.no_grad()
def right_answers(model: Nano, row: EncodedBlock, excess: float) -> NDArray[np.bool_]:
    """Return for each request of a list whether its functions, and all of its answer, are right. bool [pairs, 2].

    ``excess`` is what the graph adds to the log-odds of calling nothing.
    """
    batch = stack([row])
    p = to_tensors(batch)
    x, own, odds = model(p)
    chosen = as_drawn(odds, excess).argmax(-1).numpy() == batch.call_right
    token = (likeliest(model, x, own, p) == p.ids[p.graded + 1]).numpy()
    found = np.ones((len(row.pairs), 2), bool)
    np.logical_and.at(found[:, 0], batch.call_pair, chosen)
    found[:, 1] = found[:, 0]
    np.logical_and.at(found[:, 1], batch.graded_pair, token)
    return found


def share_right(model: Nano, rows: Sequence[EncodedBlock], excess: float) -> tuple[float, float]:
    """Return the shares of requests whose functions, and whose whole answers, are right."""
    model.eval()
    found = np.concatenate([right_answers(model, row, excess) for row in rows])
    name, exact = found.mean(0)
    return float(name), float(exact)
