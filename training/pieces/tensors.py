"""A batch as the network wants it."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from training.pieces.model import ALIKE, Answers, Group, Places
from training.pieces.packing import Batch, padded

CPU = torch.device("cpu")


def added(seen: Tensor) -> Tensor:
    """Turn "is seen" into what is added to scores."""
    return torch.zeros(seen.shape, dtype=torch.bfloat16).masked_fill_(~seen, -torch.inf)


def causal(pad: Tensor) -> Tensor:
    """Every place sees itself and what stands before it in its segment. bool [B, L, L]."""
    length = pad.shape[1]
    return torch.ones(length, length, dtype=torch.bool).tril() & (pad >= 0)[:, None]


def cut(pad: np.ndarray, parts: int) -> list[np.ndarray]:
    """Rows in groups of similar length: numbers of the rows."""
    order = np.argsort((pad >= 0).sum(1), kind="stable")
    return [part for part in np.array_split(order, parts) if len(part)]


class Grouper:
    """Collects groups and where their places are."""

    def __init__(self, count: int) -> None:
        self.groups: list[Group] = []
        self.flat = np.zeros(count, np.int64)
        self.answer = np.full(count, -1, np.int64)  # per place: its number among the answers'
        self.answer_flat = np.zeros(count, np.int64)
        self.total = self.total_answers = 0

    def add(self, pad: np.ndarray, seen: np.ndarray | None, called: np.ndarray | None) -> None:
        """Add rows; `called` bool [B, L, S] says which places of `seen` are seen from where."""
        pad = pad[:, : (pad >= 0).sum(1).max()]
        used = np.nonzero(pad.ravel() >= 0)[0]
        places = pad.ravel()[used]
        self.flat[places] = self.total + used
        own = torch.from_numpy(pad)
        mask = causal(own) | torch.eye(pad.shape[1], dtype=torch.bool)
        beside = answers = None
        if seen is not None and called is not None:
            width = max(1, (seen >= 0).sum(1).max())
            beside = torch.from_numpy(seen[:, :width]).clamp(min=0)
            mask = torch.cat((mask, torch.from_numpy(called[:, : pad.shape[1], :width])), -1)
            answers = self.answers(pad, mask)
        back = torch.from_numpy(used)
        self.groups.append(
            Group(
                own.clamp(min=0),
                back,
                torch.from_numpy(places),
                beside,
                added(mask)[:, None],
                answers,
            )
        )
        self.total += pad.size

    def answers(self, pad: np.ndarray, mask: Tensor) -> Answers:
        """What of the rows are answers, and what they see: rows of mask bool [B, L, S]."""
        inside = (pad >= 0) & (self.answer[pad] >= 0)
        local = padded([list(np.nonzero(row)[0]) for row in inside])
        rows = np.arange(len(pad))[:, None]
        numbers = np.where(local >= 0, self.answer[pad[rows, np.maximum(local, 0)]], -1)
        used = np.nonzero(numbers.ravel() >= 0)[0]
        self.answer_flat[numbers.ravel()[used]] = self.total_answers + used
        self.total_answers += numbers.size
        return Answers(
            torch.from_numpy(numbers).clamp(min=0),
            torch.from_numpy(used),
            torch.from_numpy(numbers.ravel()[used]),
            added(mask[torch.from_numpy(rows), torch.from_numpy(local).clamp(min=0)])[:, None],
        )


def sight(batch: Batch, called: np.ndarray) -> Tensor:
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


def places(batch: Batch, device: torch.device = CPU) -> Places:
    """Build masks and indices, and put them where the network is."""
    made = _places(batch)
    return made if device == CPU else cast("Places", moved(made, device))


def _places(batch: Batch) -> Places:
    tool, pair, seen = (
        torch.from_numpy(a) for a in (batch.tool_pad, batch.pair_pad, batch.seen_pad)
    )
    count = len(batch.ids)
    at = np.arange(count)
    before = np.stack([np.where(batch.positions >= n, at - n, count) for n in range(1, ALIKE + 1)])
    called = batch.seen_owner[:, None] == batch.pair_owner[..., None]
    called &= (batch.seen_pad >= 0)[:, None]
    starts = np.searchsorted(batch.graded_pair, np.arange(len(batch.pair_pad)))
    slot = np.arange(len(batch.graded)) - starts[batch.graded_pair]
    grouper = Grouper(count)
    first = np.full(len(batch.pair_pad), count)
    np.minimum.at(first, batch.call_pair, batch.calls)
    answers = np.sort(batch.pair_pad[batch.pair_pad >= first[:, None]])
    grouper.answer[answers] = np.arange(len(answers))
    for part in cut(batch.tool_pad, 2):
        grouper.add(batch.tool_pad[part], None, None)
    for part in cut(batch.pair_pad, 4):
        grouper.add(batch.pair_pad[part], batch.seen_pad[part], called[part])
    lists, numbers = torch.from_numpy(batch.list_pad), torch.from_numpy(batch.list_tool)
    rows = torch.from_numpy(batch.row_tools)
    again = torch.from_numpy(batch.again_pad)
    forms = torch.from_numpy(batch.form_pad)
    return Places(
        torch.from_numpy(batch.ids),
        torch.from_numpy(batch.positions),
        torch.from_numpy(before),
        grouper.groups,
        torch.from_numpy(grouper.flat),
        tool.clamp(min=0),
        tool >= 0,
        pair.clamp(min=0),
        seen.clamp(min=0),
        sight(batch, called),
        again.clamp(min=0),
        again >= 0,
        torch.nonzero(again.view(-1) >= 0)[:, 0],
        lists.clamp(min=0),
        lists >= 0,
        torch.nn.functional.one_hot(numbers.clamp(min=0), rows.shape[1]).float(),
        rows.clamp(min=0),
        rows >= 0,
        torch.from_numpy(batch.calls),
        torch.from_numpy(batch.call_pair),
        torch.from_numpy(batch.graded),
        torch.from_numpy(batch.graded_pair),
        torch.from_numpy(slot),
        int(slot.max(initial=0)) + 1,
        forms.clamp(min=0),
        torch.nonzero(forms.view(-1) >= 0)[:, 0],
        torch.from_numpy(batch.marks),
        torch.from_numpy(answers),
        torch.from_numpy(grouper.answer_flat[: len(answers)]),
        torch.from_numpy(batch.found),
        torch.from_numpy(batch.found_pair),
        torch.from_numpy(batch.found_at),
    )
