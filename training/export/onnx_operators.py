"""Operators that onnxruntime has and PyTorch's exporter would spell in a dozen small ones.

Each computes in PyTorch what its node computes in the graph.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

EPSILON = 1e-6


def unsized(kind: Any, *last: int) -> Any:
    """A tensor's type without sizes but the last ones: the exporter would fix those that it traced."""
    rank = kind.dim()
    return kind if rank is None else kind.with_sizes([None] * (rank - len(last)) + list(last))


class Conditional(torch.autograd.Function):
    """A value that is needed under a condition: in the graph it becomes a branch of an If.

    Those of one condition and stage become one.
    """

    @staticmethod
    def forward(
        _ctx: Any, _condition: Tensor, value: Tensor, _otherwise: Tensor, _stage: int
    ) -> Tensor:
        return value.clone()

    @staticmethod
    def symbolic(g: Any, condition: Any, value: Any, otherwise: Any, stage: int) -> Any:
        made = g.op("nano::Only", condition, value, otherwise, stage_i=stage)
        made.setType(unsized(value.type()))
        return made


class Reshape(torch.autograd.Function):
    """x in another shape, where 0 is the size that x has there, and one size may be -1: the rest."""

    @staticmethod
    def forward(_ctx: Any, x: Tensor, sizes: tuple[int, ...]) -> Tensor:
        found = [size or x.shape[at] for at, size in enumerate(sizes)]
        if -1 in found and not x.numel():  # PyTorch will not guess: the rest of what is not empty
            rest = math.prod(size for size in found if size > 0)
            rest = math.prod(size for size in x.shape if size) // rest if 0 in found else 0
            found[found.index(-1)] = rest
        return x.reshape(found)

    @staticmethod
    def symbolic(g: Any, x: Any, sizes: tuple[int, ...]) -> Any:
        known = sizes if -1 in sizes else (*sizes[:-1], -1)  # the exporter insists on one -1
        made = g.op("Reshape", x, g.op("Constant", value_t=torch.tensor(known)))
        made.setType(x.type().with_sizes([size if size > 0 else None for size in sizes]))
        return made


def reshape(x: Tensor, *sizes: int) -> Tensor:
    """See `Reshape`."""
    return Reshape.apply(x, sizes)


class ReduceAny(torch.autograd.Function):
    """Whether any of x, bool, is true: along the given axes, by default all."""

    @staticmethod
    def forward(_ctx: Any, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        return x.any() if not axes else x.amax(axes)

    @staticmethod
    def symbolic(g: Any, x: Any, axes: tuple[int, ...]) -> Any:
        known = (g.op("Constant", value_t=torch.tensor(axes)),) if axes else ()
        made = g.op("ReduceMax", x, *known, keepdims_i=0)
        made.setType(
            x.type().with_sizes([None] * ((x.type().dim() or 0) - len(axes) if axes else 0))
        )
        return made


def reduce_any(x: Tensor, *axes: int) -> Tensor:
    """See `ReduceAny`."""
    return ReduceAny.apply(x, axes)


class ScatterND(torch.autograd.Function):
    """`buffer` with `values` [..., rest] at `places` [..., r] of its first r axes."""

    @staticmethod
    def forward(_ctx: Any, buffer: Tensor, places: Tensor, values: Tensor) -> Tensor:
        return buffer.index_put(places.unbind(-1), values)

    @staticmethod
    def symbolic(g: Any, buffer: Any, places: Any, values: Any) -> Any:
        made = g.op("ScatterND", buffer, places, values)
        made.setType(unsized(buffer.type()))
        return made


class GatherND(torch.autograd.Function):
    """What stands in `buffer` [B, T, width] at `places` [B, L, 2]: [B, L, width]."""

    @staticmethod
    def forward(_ctx: Any, buffer: Tensor, places: Tensor, _width: int) -> Tensor:
        return buffer[places.unbind(-1)]

    @staticmethod
    def symbolic(g: Any, buffer: Any, places: Any, width: int) -> Any:
        made = g.op("GatherND", buffer, places)
        made.setType(unsized(buffer.type(), width))
        return made


class RotaryEmbedding(torch.autograd.Function):
    """Rotary positions on the first dimensions of x [B, heads, L, head].

    cos, sin: [any, half], half of what is turned; rows [B, L]: which row of them a place takes.
    """

    @staticmethod
    def forward(
        _ctx: Any, x: Tensor, rows: Tensor, cos: Tensor, sin: Tensor, _heads: int, half: int
    ) -> Tensor:
        cos, sin = cos[rows][:, None], sin[rows][:, None]
        a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)

    @staticmethod
    def symbolic(g: Any, x: Any, rows: Any, cos: Any, sin: Any, heads: int, half: int) -> Any:
        made = g.op(
            "com.microsoft::RotaryEmbedding", x, rows, cos, sin,
            num_heads_i=heads, rotary_embedding_dim_i=2 * half,
        )  # fmt: skip
        made.setType(unsized(x.type()))
        return made


class ScaledRMSNorm(torch.autograd.Function):
    """RMSNorm along the last axis, times `gains`."""

    @staticmethod
    def forward(_ctx: Any, x: Tensor, gains: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.shape[-1],), None, EPSILON) * gains

    @staticmethod
    def symbolic(g: Any, x: Any, gains: Any) -> Any:
        made = g.op("SimplifiedLayerNormalization", x, gains, axis_i=-1, epsilon_f=EPSILON)
        made.setType(x.type())
        return made


class PickColumns(torch.autograd.Function):
    """The columns `which` [n] of x [B, L, columns]."""

    @staticmethod
    def forward(_ctx: Any, x: Tensor, which: Tensor) -> Tensor:
        return x[..., which.long()]

    @staticmethod
    def symbolic(g: Any, x: Any, which: Any) -> Any:
        # One by one is quicker than Gather's blocks of one; half as wide indices are quicker to spread.
        lead = g.op("Shape", x, end_i=2)
        size = g.op("Shape", which)
        rows = g.op("Expand", which, g.op("Concat", lead, size, axis_i=0))
        made = g.op("GatherElements", x, rows, axis_i=2)
        made.setType(unsized(x.type()))
        return made


class RowNumbers(torch.autograd.Function):
    """int64, as large as x: 0, 1, 2, ..., row by row."""

    @staticmethod
    def forward(_ctx: Any, x: Tensor) -> Tensor:
        return torch.arange(x.numel()).view(x.shape)

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        first, step = (g.op("Constant", value_t=torch.tensor(n)) for n in (0, 1))
        numbers = g.op("Range", first, g.op("Size", x), step)
        made = g.op("Reshape", numbers, g.op("Shape", x))
        made.setType(x.type())
        return made


class NonZeroIndices(torch.autograd.Function):
    """int64: the places of what is true in x [n]."""

    @staticmethod
    def forward(_ctx: Any, x: Tensor) -> Tensor:
        return torch.nonzero(x)[:, 0]

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        made = g.op("Reshape", g.op("NonZero", x), g.op("Constant", value_t=torch.tensor([-1])))
        made.setType(x.type().with_dtype(torch.long).with_sizes([None]))
        return made


class SkipRMSNorm(torch.autograd.Function):
    """RMSNorm(x + more), without a weight, and x + more."""

    @staticmethod
    def forward(_ctx: Any, x: Tensor, more: Tensor, width: int) -> tuple[Tensor, Tensor]:
        total = x + more
        return functional.rms_norm(total, (width,), None, EPSILON), total

    @staticmethod
    def symbolic(g: Any, x: Any, more: Any, width: int) -> Any:
        ones = g.op("Constant", value_t=torch.ones(width))
        made = g.op(
            "com.microsoft::SkipSimplifiedLayerNormalization", x, more, ones,
            epsilon_f=EPSILON, outputs=4,
        )  # fmt: skip
        made[0].setType(unsized(x.type(), width))
        made[3].setType(unsized(x.type(), width))
        return made[0], made[3]
