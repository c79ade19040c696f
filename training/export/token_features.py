"""Features of token ids for the exported network: segments, tools, names, what a place may attend to.

All of it follows from the ids up to a place, so it is computed for the new ids alone and cached by position:
`running` is what the next place continues from, `columns` what later places compare themselves with.
Names and trails of tokens are compared by hashes of 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from callmemaybe.tuning.network.model import ALIKE, Nano
from callmemaybe.tuning.network.whole_words import MOST_PIECES, powers
from training.export.onnx_operators import ScatterND, reshape

#: Control tokens whose latest place is cached (counted from 1; 0: there was none), in the order of `running`;
#: after them the number of tools and the hash of what was written since a tool, a request or a call began.
MARKS = ("<|tool|>", "<|user|>", "<|again|>", "<|call|>", "<|args|>", "<|end|>", "<|fill|>")
RUNNING = len(MARKS) + 2
#: What is cached of a column: the hash of the name before it (as it stands; in tools; where a name ends), the
#: tool before it, its own tool, whether it is of the second reading, the token that goes on with the name
#: before it, its token with and without the space, and the hashes of the tokens before it.
COLUMNS = 9 + ALIKE
OWNER, GROUP = 3, 4  # which of them are numbers of tools
NO_NAME, NO_END, NO_ARGS, NO_TRAIL, NO_WORD = -1, -2, -3, -4, -5


def segments(controls: Mapping[str, int]) -> dict[str, Any]:
    """What the configuration says of tools: which ids bound them, and which numbers of the cache depend on where one stands.

    A tool sees itself alone, so a session copies the states of one that was read before.
    """
    return {
        "begin": controls["<|tool|>"],
        "ends": [controls["<|tool|>"], controls["<|user|>"]],
        "numbers": {
            "running": {"places": list(range(len(MARKS))), "counts": [len(MARKS)]},
            "columns": {"counts": [OWNER, GROUP]},
        },
    }


class TokenFeatures(NamedTuple):
    """B sequences, L new places, T columns; int64 or bool."""

    cache: dict[str, Tensor]
    corner: Tensor  # [B, 1, L, 3]: sequence, 0, position of the new ids
    places: Tensor  # [B, L, 2]: sequence and position
    inside: Tensor  # [B, L, 1]: position within the segment
    bases: Tensor  # [B, L, 3]: base of the new ids, the one before and the one before that
    forms: Tensor  # [B, L, 3]: their forms
    word: Tensor  # [B, L, MOST_PIECES]: bases of the new ids and of as many before them as a word may have
    word_forms: Tensor  # [B, L, MOST_PIECES]: their forms
    sums: Tensor  # [B, L, MOST_PIECES]: hashes of the last one, two ... bases
    past: Tensor  # [B, L, T]: what is not after a place
    seen: Tensor  # [B, L, T]: what a place may look at
    tool: Tensor  # [B, L, 1]: number of the tool that a place stands in, from 1
    again: Tensor  # [B, L, 1]: place of the second reading
    form: Tensor  # [B, L, 1]: place of a form
    answering: Tensor  # [B, L, 1]: place of an answer
    naming: Tensor  # [B, L, 1]: a name is being written
    is_call: Tensor  # [B, L, 1]
    anchor: Tensor  # [B, L, 1]: where the latest tool, request or call began
    code: Tensor  # [B, L, 1]: hash of what was written since
    trail: Tensor  # [B, L, ALIKE]: hashes of the last tokens
    before: Tensor  # [B, 1, T]: hash of the name before a column, in tools
    owner: Tensor  # [B, 1, T]: tool before a column, from 1; 0 for none
    group: Tensor  # [B, 1, T]: tool of a column, from 1; 0 for the request and answers
    heard: Tensor  # [B, 1, T]: column of the second reading
    next: Tensor  # [B, 1, T]: token that goes on with the name before a column
    copies: Tensor  # [B, 2, T]: token of a column, and without its space
    trails: Tensor  # [B, ALIKE, T]
    tools: Tensor  # []: how many tools there are at most


def heights(count: int) -> Tensor:
    """int64 [count, 1, 3]: what leads from `TokenFeatures.corner` to so many rows or heads."""
    found = torch.zeros(count, 1, 3, dtype=torch.long)
    found[:, 0, 1] = torch.arange(count)
    return found


class FeatureReader(nn.Module):
    """Reads ids; see `TokenFeatures`."""

    def __init__(self, model: Nano, controls: Mapping[str, int], newline: int) -> None:
        super().__init__()
        size = len(model.base)
        random = torch.Generator().manual_seed(1)
        most = max(controls.values()) + 1
        marks = torch.zeros(most + 1, len(MARKS), dtype=torch.long)
        for number, name in enumerate(MARKS):
            marks[controls[name], number] = 1
        ends = model.form >= 3
        ends[[newline, controls["<|tool|>"], controls["<|user|>"]]] = True
        self.most, self.args = most, controls["<|args|>"]
        self.register_buffer("base", model.base)
        self.register_buffer("form", model.form)
        self.register_buffer("bare", model.bare)
        self.register_buffer("code", torch.randint(1, 1 << 40, (size,), generator=random))
        self.register_buffer("marks", marks)
        self.register_buffer("ends", ends)
        self.register_buffer("powers", powers(ALIKE + 1))
        self.register_buffer("depths", torch.arange(ALIKE + 1))
        self.register_buffer("noughts", torch.zeros(RUNNING, dtype=torch.long))
        self.register_buffer("heights", heights(COLUMNS))
        anchors = [name in ("<|tool|>", "<|user|>", "<|call|>") for name in MARKS]
        self.register_buffer("anchors", torch.tensor(anchors).long())

    def forward(self, ids: Tensor, at: Tensor, cache: dict[str, Tensor]) -> TokenFeatures:
        """ids, at: int64 [B, L], the new ids and their positions, which follow one another."""
        ids, at = ids[..., None], at[..., None]
        nought = torch.zeros_like(at)
        row = torch.cumsum(torch.ones_like(at), 0) - 1
        places = torch.cat((row, at), -1)
        corner = torch.cat((row, nought, at), -1)[:, None]
        cache = cache | {"ids": ScatterND.apply(cache["ids"], places, ids[..., 0])}
        running, shifted = self.run(ids, at, cache["running"])
        cache["running"] = ScatterND.apply(cache["running"], places, running)
        tool1, user1, again1, call1, args1, end1, fill1, count, code = running.split(1, -1)
        place1 = at + 1
        start1 = torch.maximum(tool1, user1).clamp(min=1)
        latest = torch.maximum(call1, end1)
        in_args = args1 >= torch.maximum(start1, latest)
        tool = torch.where(user1 > 0, 0, count)
        again = (again1 > 0) & (call1 == 0)
        group = torch.where((tool1 + user1) > 0, tool, -place1)
        # the column before
        _, old_user, _, old_count, old_code = shifted.split((1, 1, len(MARKS) - 2, 1, 1), -1)
        owner = torch.where(old_user > 0, 0, old_count)
        is_ended = (owner > 0) & (old_code != 0) & self.ends[ids]
        inside = place1 - start1
        window, base, hashes, trail, trails = self.tails(cache["ids"], at, inside)
        kept = (
            old_code,
            torch.where(owner > 0, old_code, NO_NAME),
            torch.where(is_ended, old_code, NO_END),
            owner,
            group,
            again.long(),
            torch.where(is_ended, self.args, ids),
            ids,
            self.bare[ids],
            trails,
        )
        raw, before, ended, owners, groups, heard, following, copies, trails = self.keep(
            cache, corner, torch.cat(kept, -1)
        )
        past = torch.arange(cache["ids"].shape[1]) <= at
        name = torch.gather(raw, 2, (args1 - 1).clamp(min=0).transpose(1, 2)).transpose(1, 2)
        called = (torch.where(in_args, name, NO_ARGS) == ended) & past
        called = torch.where(called, owners, 0).amax(-1, keepdim=True)
        return TokenFeatures(
            cache=cache,
            corner=corner,
            places=places,
            inside=inside,
            bases=base[..., :3],
            forms=self.form[window[..., :3]],
            word=base[..., :MOST_PIECES],
            word_forms=self.form[window[..., :MOST_PIECES]],
            sums=hashes[..., :MOST_PIECES],
            past=past,
            seen=((groups == group + called) | (groups == 0)) & past,
            tool=tool,
            again=again,
            form=in_args & (args1 > fill1) & (args1 != place1),
            answering=call1 >= start1,
            naming=call1 > torch.maximum(torch.maximum(start1 - 1, args1), end1),
            is_call=call1 == place1,
            anchor=torch.maximum(start1, call1) - 1,
            code=code,
            trail=trail,
            before=before,
            owner=owners,
            group=groups,
            heard=heard,
            next=following,
            copies=copies,
            trails=trails,
            tools=count.amax(),
        )

    def tails(self, kept: Tensor, at: Tensor, inside: Tensor) -> tuple[Tensor, ...]:
        """Of the new places the last ids, their bases and hashes, [B, L, ALIKE + 1]; and the hashes [B, L, ALIKE] of what
        the next id has before it, and of what this one has (`NO_WORD`, `NO_TRAIL` beyond the segment's begin)."""
        window = reshape((at - self.depths).clamp(min=0), 0, -1)
        window = reshape(torch.gather(kept, 1, window), 0, -1, ALIKE + 1)
        base = self.base[window]
        hashes = torch.cumsum(base * self.powers, 2)
        is_there = inside >= self.depths
        trails = torch.where(is_there[..., 1:], hashes[..., 1:] - base[..., :1], NO_TRAIL)
        trail = torch.where(is_there[..., :-1], hashes[..., :-1] * self.powers[1], NO_WORD)
        return window, base, hashes, trail, trails

    def keep(self, cache: dict[str, Tensor], corner: Tensor, new: Tensor) -> tuple[Tensor, ...]:
        """Append the features of new columns [B, L, COLUMNS]; returns those of all columns, part by part, [B, parts, T]."""
        columns = new.transpose(1, 2)
        cache["columns"] = ScatterND.apply(cache["columns"], corner + self.heights, columns)
        return cache["columns"].split((1,) * 7 + (2, ALIKE), 1)

    def run(self, ids: Tensor, at: Tensor, running: Tensor) -> tuple[Tensor, Tensor]:
        """`running` of the new places, and of those before them [B, L, RUNNING]."""
        marks = self.marks[ids[..., 0].clamp(max=self.most)]  # [B, L, marks]
        first = at[:, :1]
        last = torch.gather(running, 1, (first - 1).clamp(min=0) + self.noughts)
        last = last * (first > 0)  # [B, 1, RUNNING]
        upto = (at >= at.transpose(1, 2)).long()  # [B, L, L]
        mine = ((at + 1) * marks).transpose(1, 2)  # [B, marks, L]
        mine = (mine[:, :, None] * upto[:, None]).amax(-1).transpose(1, 2)
        latest = torch.maximum(mine, last[..., : len(MARKS)])
        count = torch.cumsum(marks[..., :1], 1) + last[..., len(MARKS) : -1]
        anchor = (latest * self.anchors).amax(-1, keepdim=True).clamp(min=1) - 1
        offset = (at.transpose(1, 2) - anchor).clamp(min=0) * upto  # [B, L, L]
        code = offset @ self.code[ids] + (anchor < first) * last[..., -1:]
        found = torch.cat((latest, count, code), -1)
        return found, torch.cat((last, found), 1)[:, :-1]
