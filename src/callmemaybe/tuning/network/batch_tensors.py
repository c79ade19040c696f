"""A batch of arrays as the tensors that the network reads."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from callmemaybe.tuning.network.attention import AttentionGroup, AttentionGroups
from callmemaybe.tuning.network.model import ALIKE, BatchTensors
from callmemaybe.tuning.network.precision import compute_dtype
from callmemaybe.tuning.packing import TokenBatch, padded

CPU = torch.device("cpu")
TOOL_GROUPS, PAIR_GROUPS = 4, 12  # more groups pad less; below 8 segments each gain nothing


def added(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn a mask of what is seen into what is added to scores."""
    return torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, -torch.inf)


def causal(pad: np.ndarray) -> np.ndarray:
    """Every place sees itself and what stands before it in its segment. bool [B, L, L]."""
    length = pad.shape[1]
    seen = np.tri(length, dtype=bool) & (pad >= 0)[:, None]
    return seen | np.eye(length, dtype=bool)


def trimmed(pad: np.ndarray) -> np.ndarray:
    """Drop columns that no row uses; one always stays."""
    return pad[:, : max(1, (pad >= 0).sum(1).max())]


def cut(pad: np.ndarray, parts: int) -> list[np.ndarray]:
    """Rows in groups of similar length: numbers of the rows."""
    order = np.argsort((pad >= 0).sum(1), kind="stable")
    return [part for part in np.array_split(order, parts) if len(part)]


def where(used: np.ndarray, shape: tuple[int, int], start: int) -> np.ndarray:
    """Flattened places of a pad as in `AttentionGroups`: begin of the row, its length, place in it."""
    _, length = shape
    at = used % length
    return np.stack((start + used - at, np.full_like(used, length), at))


class Collector:
    """Collects windows, and where whose places are in them."""

    def __init__(self, askers: int, places: int, dtype: torch.dtype) -> None:
        self.groups: list[AttentionGroup] = []
        self.flat = np.zeros((3, askers), np.int64)
        self.dtype = dtype
        self.places, self.owner, self.sights = places, [], []  # type: int, list[Any], list[Any]
        self.asked = self.shown = 0

    def add(self, asks: np.ndarray, seen: np.ndarray, mask: np.ndarray) -> None:
        """Add rows: asks [B, L], seen [B, S], -1 beyond the end; mask bool [B, L, S] says who sees what."""
        used = np.nonzero(asks.ravel() >= 0)[0]
        self.flat[:, asks.ravel()[used]] = where(used, asks.shape, self.asked)
        self.asked += asks.size
        found = np.nonzero(seen.ravel() >= 0)[0]
        self.owner.append(seen.ravel()[found])
        self.sights.append(where(found, seen.shape, self.shown))
        self.shown += seen.size
        self.groups.append(
            AttentionGroup(
                torch.from_numpy(np.maximum(asks, 0)),
                torch.from_numpy(np.nonzero(asks.ravel() < 0)[0]),
                torch.from_numpy(np.maximum(seen, 0)),
                added(torch.from_numpy(mask), self.dtype)[:, None],
            )
        )

    def windows(self) -> AttentionGroups:
        owner, sights = np.concatenate(self.owner), np.concatenate(self.sights, 1)
        order = np.argsort(owner, kind="stable")
        starts = np.searchsorted(owner[order], np.arange(self.places + 1))
        return AttentionGroups(
            self.groups,
            torch.from_numpy(self.flat),
            torch.from_numpy(sights[:, order]),
            torch.from_numpy(owner[order]),
            torch.from_numpy(starts),
        )


def windows(
    batch: TokenBatch, called: np.ndarray, answers: np.ndarray, dtype: torch.dtype
) -> tuple[AttentionGroups, AttentionGroups]:
    """What every place sees, and what the places `answers` see; `called` bool [pairs, Lp, Ls]."""
    count = len(batch.ids)
    everyone, answering = Collector(count, count, dtype), Collector(len(answers), count, dtype)
    number = np.full(count, -1, np.int64)
    number[answers] = np.arange(len(answers))
    for part in cut(batch.tool_pad, TOOL_GROUPS):
        pad = trimmed(batch.tool_pad[part])
        everyone.add(pad, pad, causal(pad))
    for part in cut(batch.pair_pad, PAIR_GROUPS):
        pad, seen = trimmed(batch.pair_pad[part]), trimmed(batch.seen_pad[part])
        beside = called[part][:, : pad.shape[1], : seen.shape[1]]
        mask, seen = np.concatenate((causal(pad), beside), -1), np.concatenate((pad, seen), 1)
        everyone.add(pad, seen, mask)
        local = padded([list(np.nonzero((row >= 0) & (number[row] >= 0))[0]) for row in pad])
        rows = np.arange(len(pad))[:, None]
        asks = np.where(local >= 0, number[pad[rows, local]], -1)
        answering.add(asks, seen, mask[rows, np.maximum(local, 0)])
    return everyone.windows(), answering.windows()


def sight(batch: TokenBatch, called: np.ndarray) -> Tensor:
    """What the graded places see: their segment so far, and the tool they call. bool [G, Lp + Ls]."""
    pads = batch.pair_pad[batch.graded_pair]
    local = (pads == batch.graded[:, None]).argmax(1)
    own = (pads >= 0) & (pads <= batch.graded[:, None])
    return torch.from_numpy(np.concatenate((own, called[batch.graded_pair, local]), 1))


def moved(value: Any, device: torch.device) -> Any:
    """The same on a device, through tuples and lists."""
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, list):
        return [moved(one, device) for one in value]
    if isinstance(value, tuple):
        made = [moved(one, device) for one in value]
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    return value


def to_tensors(batch: TokenBatch, device: torch.device = CPU) -> BatchTensors:
    """Build masks and indices, and put them where the network is."""
    made = _to_tensors(batch, compute_dtype(device.type))
    return made if device == CPU else cast("BatchTensors", moved(made, device))


def _to_tensors(batch: TokenBatch, dtype: torch.dtype) -> BatchTensors:
    tool, pair, seen = (
        torch.from_numpy(a) for a in (batch.tool_pad, batch.pair_pad, batch.seen_pad)
    )
    count = len(batch.ids)
    at = np.arange(count)
    before = np.stack([np.where(batch.positions >= n, at - n, count) for n in range(1, ALIKE + 1)])
    called = batch.seen_owner[:, None] == batch.pair_owner[..., None]
    called &= (batch.seen_pad >= 0)[:, None]
    first = np.full(len(batch.pair_pad), count)
    np.minimum.at(first, batch.call_pair, batch.calls)
    answers = np.sort(batch.pair_pad[batch.pair_pad >= first[:, None]])
    answer_pair = np.searchsorted(batch.pair_pad[:, 0], answers, side="right") - 1
    seeing, answering = windows(batch, called, answers, dtype)
    listed = batch.list_pad >= 0
    numbers = torch.from_numpy(batch.list_tool[listed])
    readings = (batch.again_pad >= 0).reshape(len(listed), -1).sum(1)
    rows = torch.from_numpy(batch.row_tools)
    again = torch.from_numpy(batch.again_pad)
    forms = torch.from_numpy(batch.form_pad)
    return BatchTensors(
        torch.from_numpy(batch.ids),
        torch.from_numpy(batch.positions),
        torch.from_numpy(before),
        seeing,
        tool.clamp(min=0),
        tool >= 0,
        pair.clamp(min=0),
        seen.clamp(min=0),
        sight(batch, called),
        again.clamp(min=0),
        again >= 0,
        torch.nonzero(again.view(-1) >= 0)[:, 0],
        again[again >= 0],
        torch.from_numpy(batch.list_pad[listed]),
        torch.nn.functional.one_hot(numbers, rows.shape[1] + 1).float(),
        [(int(mine), int(theirs)) for mine, theirs in zip(readings, listed.sum(1), strict=True)],
        rows.clamp(min=0),
        rows >= 0,
        torch.from_numpy(batch.calls),
        torch.from_numpy(batch.call_pair),
        torch.from_numpy(batch.graded),
        torch.from_numpy(batch.graded_pair),
        torch.from_numpy(batch.graded - first[batch.graded_pair]),
        int((answers - first[answer_pair]).max(initial=0)) + 1,
        forms.clamp(min=0),
        torch.nonzero(forms.view(-1) >= 0)[:, 0],
        torch.from_numpy(batch.marks),
        torch.from_numpy(answers),
        torch.from_numpy(answer_pair),
        torch.from_numpy(answers - first[answer_pair]),
        answering,
        torch.from_numpy(batch.found),
        torch.from_numpy(batch.found_pair),
        torch.from_numpy(batch.found_at),
    )
