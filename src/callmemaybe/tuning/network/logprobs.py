"""The chance of one token each: what a loss needs, without the chances of all the others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class ChosenLogprob(torch.autograd.Function):
    """log_softmax(logits * scale + bias)[n, picked[n]], in float32.

    logits [G, bases], scale [], bias [bases], picked int64 [G] -> [G].
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, scale: Tensor, bias: Tensor, picked: Tensor) -> Tensor:
        scores = logits.to(bias.dtype).mul(scale).add_(bias)
        chances = torch.log_softmax(scores, -1)
        ctx.save_for_backward(logits, scale, chances, picked)
        return chances.gather(1, picked[:, None])[:, 0]

    @staticmethod
    def backward(ctx: Any, by: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # type: ignore[override]
        logits, scale, chances, picked = ctx.saved_tensors
        by = by[:, None]
        lost = chances.exp().mul_(-by).scatter_add_(1, picked[:, None], by)
        by_bias = lost.sum(0)
        by_scale = (lost * logits).sum()
        return lost.mul_(scale).to(logits.dtype), by_scale, by_bias, None


@torch.no_grad()
def match_length(written: Tensor, shown: Tensor, rows: Tensor) -> Tensor:
    """How many tokens before each place shown are those just written, counted from the last.

    written: [ALIKE, G], -1 where nothing was; shown: [ALIKE, pairs, S]; rows: int64 [G], the pair of each
    -> int64 [G, S].
    """
    alike = torch.ones(len(rows), shown.shape[2], dtype=torch.bool, device=rows.device)
    count = torch.zeros_like(alike, dtype=torch.int64)
    for before, behind in zip(written[:, :, None], shown, strict=True):
        alike &= (behind.index_select(0, rows) == before) & (before >= 0)
        count += alike
    return count
