"""Muon for the matrices, AdamW for the rest (embeddings, norms)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from callmemaybe.tuning.network.precision import compute_dtype


def orthogonalize(updates: Tensor, steps: int = 5) -> Tensor:
    """Newton-Schulz iteration towards the nearest orthogonal matrices (Jordan et al., 2024).

    updates: [count, rows, columns].
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x = updates.to(compute_dtype(updates.device.type))
    wide = x.shape[-2] > x.shape[-1]
    if wide:
        x = x.mT.contiguous()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if wide else x).to(updates.dtype)


MUON = ("layers.", "back.")


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised; matrices of one shape go through together."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
    ) -> None:
        """`weight_decay`: share of a weight that a step takes away, times `lr`."""
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for weight in group["params"]:
                by_shape[weight.shape].append(weight)
            for shape, weights in by_shape.items():
                updates = []
                for weight in weights:
                    state = self.state[weight]
                    if "momentum" not in state:
                        state["momentum"] = torch.zeros_like(weight)
                    average = state["momentum"].lerp_(weight.grad, 1 - group["momentum"])
                    updates.append(weight.grad.lerp(average, group["momentum"]))
                scale = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for weight, update in zip(
                    weights, orthogonalize(torch.stack(updates)), strict=True
                ):
                    weight.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-scale)


def build_optimizers(
    model: nn.Module, lr_muon: float, lr_adam: float, weight_decay: float = 0.01
) -> list[torch.optim.Optimizer]:
    """One optimizer for the matrices of the layers, one for everything else, whose weights do not decay."""
    named = list(model.named_parameters())
    matrices = [p for name, p in named if p.dim() == 2 and any(part in name for part in MUON)]
    others = [p for name, p in named if p.dim() != 2 or not any(part in name for part in MUON)]
    adam = torch.optim.AdamW(others, lr=lr_adam, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    optimizers: list[torch.optim.Optimizer] = [
        Muon(matrices, lr_muon, weight_decay=weight_decay),
        adam,
    ]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["full"] = group["lr"]
    return optimizers
