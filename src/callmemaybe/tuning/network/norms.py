"""RMSNorm and rotation with gradients written by hand: few passes, most of them in the states' own type."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

EPSILON = 1e-6


class Rotation(NamedTuple):
    """Rotations of places: what a head is multiplied by, and what its turned part, halves swapped."""

    cos: Tensor  # [N, 1, head]: 1 where nothing is turned
    sin: Tensor  # [N, 1, turned]: the first half negative

    def times(self, scale: float) -> Rotation:
        return Rotation(self.cos * scale, self.sin * scale)


def rotations(angles: Tensor, head: int, kind: torch.dtype) -> Rotation:
    """angles: [N, half of what is turned] -> rotations (RoPE; Su et al., 2021)."""
    cos, sin = angles.cos().to(kind), angles.sin().to(kind)
    rest = cos.new_ones(len(cos), head - 2 * cos.shape[1])
    return Rotation(torch.cat((cos, cos, rest), 1)[:, None], torch.cat((-sin, sin), 1)[:, None])


def swapped(x: Tensor) -> Tensor:
    """The halves of the last dimension exchanged."""
    return torch.cat(x.chunk(2, -1)[::-1], -1)


def normalise(x: Tensor) -> tuple[Tensor, Tensor]:
    """X over its root mean square (in x's type), and one over that (float32 [..., 1])."""
    full = x.float()
    square = torch.linalg.vector_norm(full, dim=-1, keepdim=True).square_()
    rate = square.div_(x.shape[-1]).add_(EPSILON).rsqrt_()
    return (full * rate).to(x.dtype), rate


def back_through(by: Tensor, product: Tensor, shape: Tensor, rate: Tensor) -> Tensor:
    """Gradient of the input of `normalise`; product: by * shape."""
    along = product.sum(-1, keepdim=True, dtype=torch.float32).div_(-shape.shape[-1])
    return torch.addcmul(by, shape, along.to(by.dtype)).mul_(rate.to(by.dtype))


class RMSNormFunction(torch.autograd.Function):
    """RMSNorm of the last dimension, times a weight if there is one (Zhang & Sennrich, 2019)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None) -> Tensor:
        shape, rate = normalise(x)
        ctx.save_for_backward(shape, rate, weight)
        return shape if weight is None else shape * weight.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, by: Tensor) -> tuple[Tensor, Tensor | None]:  # type: ignore[override]
        shape, rate, weight = ctx.saved_tensors
        product = by * shape
        if weight is None:
            return back_through(by, product, shape, rate), None
        own = weight.to(by.dtype)
        by_weight = product.flatten(0, -2).sum(0, dtype=weight.dtype)
        return back_through(by * own, product.mul_(own), shape, rate), by_weight


class RotaryNormFunction(torch.autograd.Function):
    """RMSNorm of heads [N, heads, head] with a weight, turned by their places."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        shape, rate = normalise(x)
        size = sin.shape[-1]
        y = shape * weight.to(x.dtype)
        out = y * cos
        out[..., :size] += swapped(y[..., :size]) * sin  # addcmul_ is five times slower here
        ctx.save_for_backward(shape, rate, weight, cos, sin)
        return out

    @staticmethod
    def backward(ctx: Any, by: Tensor) -> tuple[Tensor, Tensor, None, None]:  # type: ignore[override]
        shape, rate, weight, cos, sin = ctx.saved_tensors
        size = sin.shape[-1]
        back = by * cos
        back[..., :size] += swapped(by[..., :size] * sin)
        own = weight.to(by.dtype)
        product = back * shape
        by_weight = product.flatten(0, -2).sum(0, dtype=weight.dtype)
        return back_through(back.mul_(own), product.mul_(own), shape, rate), by_weight, None, None
