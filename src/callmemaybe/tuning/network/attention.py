"""Attention of all segments at once, with a gradient written by hand.

What autograd makes of "gather, attend, scatter" by groups of segments is a gradient as large as the whole
batch for every group and gather; here every head of a place is one row, gathered once on the way in and
summed once on the way back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class AttentionGroup(NamedTuple):
    """Segments of similar length: who asks, and what each may see. Beyond the end: 0."""

    asks: Tensor  # int64 [B, L]: numbers of those that ask
    void: Tensor  # int64: which of the flattened `asks` are beyond the end
    seen: Tensor  # int64 [B, S]: places
    mask: Tensor  # [B, 1, L, S], added to scores


class AttentionGroups(NamedTuple):
    """All that ask, in groups, and the way back.

    A position among the flattened [B, L] of all groups is given by three numbers: where its row
    begins, how long the row is, and where in the row it is.
    """

    groups: list[AttentionGroup]
    flat: Tensor  # int64 [3, Q]: where every asker is
    sights: Tensor  # int64 [3, R]: where every place is seen, place by place
    owner: Tensor  # int64 [R]: those places
    starts: Tensor  # int64 [N + 1]: where in `sights` each place begins


class HeadRows(NamedTuple):
    """`AttentionGroups` with a row per head ([B, L] becomes [B * heads * L]): what `SegmentAttention` needs."""

    groups: list[AttentionGroup]  # `asks` and `seen` flattened
    flat: Tensor  # int64 [Q * heads]
    sights: Tensor  # int64 [R * kv heads]
    starts: Tensor  # int64 [N * kv heads + 1]


def spread(pad: Tensor, heads: int) -> Tensor:
    """Rows of the heads of places: [B, L] -> [B * heads * L]."""
    numbers = torch.arange(heads, device=pad.device)[:, None]
    return (pad[:, None] * heads + numbers).flatten()


def headed(where: Tensor, heads: int) -> Tensor:
    """Where the heads of places are: int64 [3, R] as in `AttentionGroups` -> [R, heads]."""
    begins, lengths, at = where
    numbers = torch.arange(heads, device=where.device)
    return (begins * heads + at)[:, None] + lengths[:, None] * numbers


def by_head(windows: AttentionGroups, heads: int, kv: int) -> HeadRows:
    """A row per head of everything."""
    groups = []
    for each in windows.groups:
        length = each.asks.shape[1]
        rows = each.void // length
        void = torch.stack((rows * length, torch.full_like(rows, length), each.void % length))
        groups.append(
            AttentionGroup(
                spread(each.asks, heads),
                headed(void, heads).flatten(),
                spread(each.seen, kv),
                each.mask,
            )
        )
    starts, owner = windows.starts, windows.owner
    counts = starts[1:] - starts[:-1]
    numbers = torch.arange(kv, device=starts.device)
    # place by place there, head by head of each place here
    inside = torch.arange(len(owner), device=starts.device) - starts[owner]
    to = (starts[owner] * kv + inside)[:, None] + counts[owner][:, None] * numbers
    sights = headed(windows.sights, kv).flatten()
    begins = (starts[:-1] * kv)[:, None] + counts[:, None] * numbers
    return HeadRows(
        groups,
        headed(windows.flat, heads).flatten(),
        torch.empty_like(sights).index_copy_(0, to.flatten(), sights),
        torch.cat((begins.flatten(), starts[-1:] * kv)),
    )


def summed(rows: Tensor, order: Tensor, starts: Tensor) -> Tensor:
    """Sum of rows[order[starts[n] : starts[n + 1]]] for every n."""
    return functional.embedding_bag(order, rows, starts, mode="sum", include_last_offset=True)


class SegmentAttention(torch.autograd.Function):
    """q: [Q * heads, head]; k, v: [N * kv heads, head] -> [Q * heads, head]."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, heads: HeadRows) -> Tensor:
        kept, outs = [], []
        for group in heads.groups:
            batch, _, length, width = group.mask.shape
            kv = len(group.seen) // (batch * width)
            mine, keys, values = (
                x.index_select(0, rows).view(batch * kv, -1, x.shape[-1])
                for x, rows in ((q, group.asks), (k, group.seen), (v, group.seen))
            )
            scores = torch.bmm(mine, keys.mT)
            scores.view(batch, -1, length, width).add_(group.mask)
            shares = torch.softmax(scores, -1)
            outs.append(torch.bmm(shares, values).flatten(0, 1))
            kept += [mine, keys, values, shares]
        out = torch.cat(outs).index_select(0, heads.flat)
        ctx.save_for_backward(*kept)
        ctx.heads = heads
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # type: ignore[override]
        kept, heads = ctx.saved_tensors, ctx.heads
        askers, keyed, valued = [], [], []
        for number, group in enumerate(heads.groups):
            mine, keys, values, shares = kept[4 * number : 4 * number + 4]
            back = grad.index_select(0, group.asks).index_fill_(0, group.void, 0).view(mine.shape)
            valued.append(torch.bmm(shares.mT, back).flatten(0, 1))
            lost = torch.bmm(back, values.mT)
            lost = torch._softmax_backward_data(lost, shares, -1, shares.dtype)  # noqa: SLF001 (no other name)
            askers.append(torch.bmm(lost, keys).flatten(0, 1))
            keyed.append(torch.bmm(lost.mT, mine).flatten(0, 1))
        return (
            torch.cat(askers).index_select(0, heads.flat),
            summed(torch.cat(keyed), heads.sights, heads.starts),
            summed(torch.cat(valued), heads.sights, heads.starts),
            None,
        )


class VoteAttention(torch.autograd.Function):
    """Votes of the requests' tokens for the tokens of the tools in their list, or for nothing there.

    q [A, heads, d]; k, v [B, heads, d]; sink [heads]; tools [B, J + 1]: 1 at a token's tool, the last for
    none; sizes: how many of A and B belong to each list. Gives what was read [A, heads, d] and the votes
    [A, heads, J + 1]. List by list, so that nothing is padded and no list is masked for another.
    """

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        sink: Tensor,
        tools: Tensor,
        sizes: list[tuple[int, int]],
    ) -> tuple[Tensor, Tensor]:
        kept, outs = [], []
        heads, head = q.shape[1:]
        nothing = k.new_zeros(heads, 1, head)
        none = v.new_zeros(heads, 1, tools.shape[1])
        none[..., -1] = 1
        for mine, keys, values, which in by_list(sizes, q, k, v, tools):
            mine, keys = mine.transpose(0, 1), torch.cat((keys.transpose(0, 1), nothing), 1)
            told = torch.cat((values.transpose(0, 1), which.to(v).expand(heads, -1, -1)), -1)
            told = torch.cat((told, torch.cat((nothing, none), -1)), 1)
            scores = torch.bmm(mine, keys.mT)
            scores[..., -1] = sink[:, None]
            shares = torch.softmax(scores, -1)
            outs.append(torch.bmm(shares, told).transpose(0, 1))
            kept += [mine, keys, told, shares]
        ctx.save_for_backward(*kept)
        ctx.kind = sink.dtype
        read, votes = torch.cat(outs).split((head, tools.shape[1]), -1)
        return read, votes

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, by_read: Tensor, by_votes: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, None, None]:
        kept = ctx.saved_tensors
        head = by_read.shape[-1]
        asked, keyed, valued, sunk, begin = [], [], [], [], 0
        for at in range(0, len(kept), 4):
            mine, keys, told, shares = kept[at : at + 4]
            rows = slice(begin, begin := begin + mine.shape[1])
            back = torch.cat((by_read[rows], by_votes[rows]), -1).transpose(0, 1)
            valued.append(torch.bmm(shares.mT, back[..., :head])[:, :-1].transpose(0, 1))
            lost = torch.bmm(back, told.mT)
            lost = torch._softmax_backward_data(lost, shares, -1, shares.dtype)  # noqa: SLF001
            sunk.append(lost[..., -1].sum(-1, dtype=ctx.kind))
            asked.append(torch.bmm(lost, keys).transpose(0, 1))
            keyed.append(torch.bmm(lost.mT, mine)[:, :-1].transpose(0, 1))
        total = torch.stack(sunk).sum(0)
        return torch.cat(asked), torch.cat(keyed), torch.cat(valued), total, None, None


def by_list(sizes: list[tuple[int, int]], asks: Tensor, *seen: Tensor) -> Iterator[list[Tensor]]:
    """The part of each list: so many of what asks, so many of what is seen."""
    ours, theirs = zip(*sizes, strict=True)
    return map(list, zip(asks.split(ours), *(x.split(theirs) for x in seen), strict=True))
