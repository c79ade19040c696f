"""The network one pass at a time, over a cache that is written in place: what is exported.

Training sees segments side by side; here everything is read off the ids (see `reading`). So a pass needs
the ids, their positions and the cache, and rewinding, forking, batching are exact.

All caches are addressed by position; columns after a row's end are never read. Names are written as
text: the chance of a name's next token is the sum of the chances of the tools whose names begin with what
was written. A pass is many small products, so what counts is how many operators it takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from callmemaybe.tuning.network.model import (
    ALIKE,
    COMPARED,
    POINTER_HEAD,
    POINTERS,
    SUMMARY,
    VOTE_HEAD,
    VOTES,
    WEIGHTS,
    Nano,
    norm,
    unit,
)
from callmemaybe.tuning.token_forms import FORMS
from training.export.onnx_operators import (
    Conditional,
    GatherND,
    NonZeroIndices,
    PickColumns,
    RotaryEmbedding,
    RowNumbers,
    ScaledRMSNorm,
    ScatterND,
    SkipRMSNorm,
    reduce_any,
    reshape,
)
from training.export.token_features import COLUMNS, RUNNING, FeatureReader, TokenFeatures, heights

MOST = 64  # tools that are distinguished; any further ones share the last place
FAR = -1e9
EVEN = 1e-18  # what any base has at least; training grants every token 1e-9


class CacheSpec(NamedTuple):
    """One cache: its sizes without the batch, None for the length."""

    sizes: tuple[int | None, ...]
    dtype: torch.dtype = torch.float32

    def empty(self, batch: int, length: int) -> Tensor:
        sizes = (length if size is None else size for size in self.sizes)
        return torch.zeros(batch, *sizes, dtype=self.dtype)


def caches(model: Nano) -> dict[str, CacheSpec]:
    """The caches by name."""
    s = model.shape
    found = {
        "ids": CacheSpec((None,), torch.long),
        "running": CacheSpec((None, RUNNING), torch.long),
        "columns": CacheSpec((COLUMNS, None), torch.long),
    }
    for number in range(s.layers + s.deep):
        for kind in ("key", "value"):
            found[f"{kind}.{number}"] = CacheSpec((s.kv_heads, None, s.head))
    votes = CacheSpec((VOTES, None, VOTE_HEAD))
    return found | {
        "vote_key": votes,
        "vote_value": votes,
        "votes": CacheSpec((VOTES, None, MOST)),
        "weigh": CacheSpec((VOTES, None, WEIGHTS * 32)),
        "state": CacheSpec((None, s.width)),
        "pointer": CacheSpec((POINTERS, None, POINTER_HEAD)),
        "choice": CacheSpec((None, MOST + 1)),
    }


class CachedNano(nn.Module):
    """`forward(input_ids, position_ids, keep, *caches) -> (log-probabilities, *caches)`."""

    def __init__(
        self, model: Nano, controls: Mapping[str, int], newline: int, *, none_bias: float = 0.0
    ) -> None:
        """`none_bias` is added to the log-odds of calling nothing."""
        super().__init__()
        self.model, self.controls = model, dict(controls)
        self.names = list(caches(model))
        self.reader = FeatureReader(model, controls, newline)
        s, h = model.shape, model.pointer
        self.none_bias = nn.Parameter(torch.tensor([none_bias]))
        with torch.no_grad():
            self.table = nn.Parameter(model.table().float())
            self.fused = nn.ParameterList()
            self.gains = nn.ParameterList()
            for layer in model.layers:
                qkv = torch.cat((layer.q.weight, layer.k.weight, layer.v.weight))
                gate = torch.cat((layer.gate.weight, layer.up.weight))
                self.fused.append(nn.Parameter((qkv * layer.before.weight).T.clone()))
                self.fused.append(nn.Parameter((gate * layer.after.weight).T.clone()))
                q = layer.q_gain.weight * s.head**-0.5
                self.gains.append(
                    nn.Parameter(
                        torch.cat(
                            (q.expand(s.heads, -1), layer.k_gain.weight.expand(s.kv_heads, -1))
                        )[:, None]
                    )
                )
            deep = list(model.layers)[s.layers :]
            if deep:
                keys = [layer.k.weight * layer.before.weight for layer in deep]
                values = [layer.v.weight * layer.before.weight for layer in deep]
                gains = [layer.k_gain.weight.expand(s.kv_heads, -1) for layer in deep]
                self.beheld = nn.Parameter(torch.cat((*keys, *values)).T.clone())
                self.beheld_gains = nn.Parameter(torch.cat(gains)[:, None].clone())
            final = model.final.weight
            self.to_base = nn.Parameter((h.to_base.weight * final).T.clone())
            self.ask = nn.Parameter((h.q.weight * final).T.clone())
            self.gate = nn.Parameter((torch.cat((h.gate.weight, h.to_form.weight)) * final).T)
            self.gate_bias = nn.Parameter(torch.cat((h.gate.bias, h.to_form.bias)))
            self.back = nn.Parameter(torch.cat([each.weight for each in model.back], 1).T.clone())
            self.base_scale = nn.Parameter(h.scale.abs() / 16)
        self.register_buffer("pair", (model.form * len(self.table) + model.base).int())
        self.register_buffer("none", torch.tensor([controls["<|none|>"]]))
        self.register_buffer("kv_heads", heights(s.kv_heads))
        self.register_buffer("vote_heads", heights(VOTES))
        self.register_buffer("pointer_heads", heights(POINTERS))
        backwards = [[0, ALIKE - n] for n in range(ALIKE)]
        self.register_buffer("backwards", torch.tensor(backwards))
        self.register_buffer("pointer_noughts", torch.zeros(POINTERS, 1, dtype=torch.long))
        self.register_buffer("weighed", torch.eye(WEIGHTS)[:, :, None])
        self.register_buffer("blank", torch.zeros(VOTES, 1, VOTE_HEAD))
        self.register_buffer("eye", torch.eye(MOST))
        self.register_buffer("any_choice", torch.zeros(MOST + 1, dtype=torch.long))
        self.register_buffer("numbers", torch.arange(MOST))
        self.register_buffer("position", torch.tensor([0, 1]))

    # -- the pass ----------------------------------------------------------------------------------

    def forward(
        self, input_ids: Tensor, position_ids: Tensor, keep: Tensor, *past: Tensor
    ) -> tuple[Tensor, ...]:
        m, s = self.model, self.model.shape
        r = self.reader(input_ids, position_ids, dict(zip(self.names, past, strict=True)))
        cache = r.cache
        wide = r.corner + self.kv_heads
        votes = wide if s.kv_heads == VOTES else r.corner + self.vote_heads
        every = self.table[r.bases] + m.forms[r.forms]  # [B, L, 3, width]
        every = every * (r.inside >= self.numbers[:3]).float()[..., None]
        own, before = reshape(every, 0, 0, -1).split((s.width, 2 * s.width), -1)
        if m.wholes is not None:
            own = own + m.meaning(m.wholes(r.sums, r.word, r.word_forms))
        x = own + before @ self.back
        angles = reshape(r.inside, -1, 1).float() * m.frequencies
        turn = (RowNumbers.apply(input_ids), angles.cos(), angles.sin())
        seen = NonZeroIndices.apply(reduce_any(r.seen, 0, 1))  # columns that anything looks at
        unseen = self.unseen(r.seen.index_select(2, seen))
        middle = s.layers // 2
        normed, more = norm(x), None
        for number in range(s.layers):
            if number == middle:
                normed, x = SkipRMSNorm.apply(x, more, s.width)
                x, more = self.cast(x, normed, own, r, votes), None
                normed = norm(x)
            elif more is not None:
                normed, x = SkipRMSNorm.apply(x, more, s.width)
            x, more = self.layer(number, x, normed, turn, (seen, unseen), cache, wide)
        normed, x = SkipRMSNorm.apply(x, more, s.width)
        if s.deep:
            normed, x = self.answer(x, normed, r, turn, seen, cache, wide)
        cache["state"] = ScatterND.apply(cache["state"], r.places, x)
        self.count(normed, r, votes)
        pointer = m.pointer.keys(x, own).transpose(1, 2)
        cache["pointer"] = ScatterND.apply(cache["pointer"], r.corner + self.pointer_heads, pointer)
        return (self.logits(normed, r, keep, seen), *(cache[n] for n in self.names))

    def layer(
        self,
        number: int,
        x: Tensor,
        normed: Tensor,
        turn: tuple[Tensor, Tensor, Tensor],
        sight: tuple[Tensor, Tensor],
        cache: dict[str, Tensor],
        wide: Tensor,
        only: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """x, and its norm -> (x behind attention, what the rest adds to it).

        sight: the columns that are looked at, and what their scores lose [B, 1, group * L, columns];
        only: 1 for places that this layer changes, None for all.
        """
        s, layer = self.model.shape, self.model.layers[number]
        heads = s.heads + s.kv_heads
        every = reshape(normed @ self.fused[2 * number], 0, 0, heads + s.kv_heads, s.head)
        qk, v = every.transpose(1, 2).split((heads, s.kv_heads), 1)
        qk = RotaryEmbedding.apply(
            ScaledRMSNorm.apply(qk, self.gains[number]), *turn, heads, s.turned // 2
        )
        q, k = qk.split((s.heads, s.kv_heads), 1)
        for kind, value in (("key", k), ("value", v)):
            name = f"{kind}.{number}"
            cache[name] = ScatterND.apply(cache[name], wide, value)
        q = reshape(q, 0, s.kv_heads, -1, s.head)
        seen, unseen = sight
        keys, values = (
            cache[f"{kind}.{number}"].index_select(2, seen) for kind in ("key", "value")
        )
        out = (q @ keys.transpose(2, 3) + unseen).softmax(-1) @ values
        out = reshape(reshape(out, 0, s.heads, -1, s.head).transpose(1, 2), 0, 0, -1)
        out = layer.o(out)
        normed, x = SkipRMSNorm.apply(x, out if only is None else out * only, s.width)
        gate, up = (normed @ self.fused[2 * number + 1]).split(s.inner, -1)
        more = layer.down(functional.silu(gate) * up)
        return x, more if only is None else more * only

    def unseen(self, seen: Tensor) -> Tensor:
        """What the scores of a group of heads lose [B, 1, group * L, columns] where nothing is seen [B, L, columns]."""
        s = self.model.shape
        lost = torch.where(seen, 0.0, FAR)[:, None]
        return torch.cat([lost] * (s.heads // s.kv_heads), 2)

    def answer(
        self,
        x: Tensor,
        normed: Tensor,
        r: TokenFeatures,
        turn: tuple[Tensor, Tensor, Tensor],
        seen: Tensor,
        cache: dict[str, Tensor],
        wide: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The layers for answers: x, and its norm -> (the norm of x behind them, x).

        Only rows with an answer's place pass them; of all others they need keys and values, which no layer
        changes, so that one product makes those of all layers.
        """
        s = self.model.shape
        heads = s.deep * s.kv_heads
        every = reshape(normed @ self.beheld, 0, 0, 2 * heads, s.head).transpose(1, 2)
        keys, values = every.split((heads, heads), 1)
        keys = RotaryEmbedding.apply(
            ScaledRMSNorm.apply(keys, self.beheld_gains), *turn, heads, s.turned // 2
        )
        for kind, value in (("key", keys), ("value", values)):
            for number, part in enumerate(value.split(s.kv_heads, 1), s.layers):
                cache[f"{kind}.{number}"] = ScatterND.apply(cache[f"{kind}.{number}"], wide, part)
        at = r.places[..., 1:]
        is_last = at == at.amax(1, keepdim=True)  # so that there is a row
        rows = NonZeroIndices.apply(reduce_any(r.answering | is_last, 0, 2))
        mine = x.index_select(1, rows)
        wide = wide.index_select(2, rows)
        sight = seen, self.unseen(r.seen.index_select(1, rows).index_select(2, seen))
        turn = turn[0].index_select(1, rows), *turn[1:]
        only = r.answering.index_select(1, rows).float()
        normed, more = norm(mine), None
        for number in range(s.layers, s.layers + s.deep):
            if more is not None:
                normed, mine = SkipRMSNorm.apply(mine, more, s.width)
            mine, more = self.layer(number, mine, normed, turn, sight, cache, wide, only)
        within = r.places - r.places[:, :1] * self.position  # [B, L, 2]
        x = ScatterND.apply(x, within.index_select(1, rows), mine + more)
        return norm(x), x

    # -- which tool --------------------------------------------------------------------------------

    def owners(self, r: TokenFeatures) -> Tensor:
        """float [B, T, J]: 1 for the tool that a column belongs to; J is the number of tools."""
        some = self.numbers[: r.tools.clamp(1, MOST)]
        of_tool = r.group[:, 0].clamp(max=MOST)[..., None] == some + 1
        return (of_tool & r.past[:, -1, :, None]).float()

    def cast(
        self, x: Tensor, normed: Tensor, own: Tensor, r: TokenFeatures, wide: Tensor
    ) -> Tensor:
        """As `Votes.cast`: votes of the second reading, and what it and the forms read.

        A column holds what those who hear it compare themselves with: a key in a tool, a query in the
        request.
        """
        v, cache = self.model.votes, r.cache
        listens = reduce_any(r.again | r.form)
        active = reduce_any(r.tool > 0) | listens
        form, again = r.form, r.again
        asks, answers = v.queries(x, own), v.keys(x, own)
        size = (VOTES, VOTE_HEAD)
        plain = self.blank * r.inside[:, None].float()

        def put(name: str, value: Tensor, condition: Tensor, stage: int) -> Tensor:
            value = Conditional.apply(condition, value, plain, stage)
            cache[name] = ScatterND.apply(cache[name], wide, value)
            return cache[name]

        held = torch.where(again[..., None], asks, answers).transpose(1, 2)
        keys = put("vote_key", held, active, 0)
        values = put("vote_value", reshape(v.v(normed), 0, 0, *size).transpose(1, 2), active, 0)
        q = torch.where(form[..., None], answers, asks).transpose(1, 2)
        q = Conditional.apply(active, q, plain, 0)
        heard = (torch.where(form, r.heard, r.group) > 0) & r.past
        scores = q @ keys.transpose(2, 3) + torch.where(heard, 0.0, FAR)[:, None]
        sink = v.elsewhere.view(1, -1, 1, 1) + 0 * scores[..., :1]
        shares = torch.cat((scores, sink), -1).softmax(-1)[..., :-1]
        of_tool = self.owners(r)
        votes = shares @ of_tool[:, None]
        put("votes", votes @ self.eye[: of_tool.shape[2]], listens, 1)
        read = reshape((shares @ values).transpose(1, 2), 0, 0, -1)
        told = torch.where(again, v.o(read), v.told(read)) * (again | form).float()
        return Conditional.apply(listens, x + told, x, 1)

    def count(self, normed: Tensor, r: TokenFeatures, wide: Tensor) -> None:
        """As `Votes.count`, for the places where a name begins: their chances go into the cache."""
        v, cache = self.model.votes, r.cache
        some_again, some_call = reduce_any(r.again), reduce_any(r.is_call)
        weigh = reshape(v.weigh(normed), 0, 0, VOTES, WEIGHTS * 32).transpose(1, 2)
        plain = self.blank * r.inside[:, None].float()
        weigh = Conditional.apply(some_again, weigh, plain, 2)
        cache["weigh"] = ScatterND.apply(cache["weigh"], wide, weigh)
        row, number, _ = torch.nonzero(r.is_call).unbind(-1)  # [n] each
        where = r.places[row, number]
        chances = self.chances(normed[row, number], row, where[:, 1], r)
        kept = cache["choice"][where[:, 0], where[:, 1]]
        chances = Conditional.apply(some_call, chances, kept, 3)
        cache["choice"] = ScatterND.apply(cache["choice"], where, chances)

    def chances(self, y: Tensor, row: Tensor, at: Tensor, r: TokenFeatures) -> Tensor:
        """Chances [n, MOST + 1] of each tool, and of none (last), at the calls y [n, width]."""
        v = self.model.votes
        state, of_tool = r.cache["state"], self.owners(r)
        past = torch.arange(state.shape[1]) <= at[:, None]  # [n, T]
        again = r.heard[:, 0] > 0
        said = NonZeroIndices.apply(reduce_any(again, 0))  # columns of second readings, S of them
        heard = (again[row] & past).index_select(1, said)
        # which words count
        ask = reshape(v.ask(y), 0, VOTES, WEIGHTS, 1, 32) * self.weighed
        weigh = r.cache["weigh"].index_select(2, said)[row]
        weight = reshape(ask, 0, 0, 0, -1) @ weigh.transpose(2, 3) * 32**-0.5
        plain = v.plain(norm(state.index_select(1, said))).transpose(1, 2)
        plain = reshape(plain, 0, VOTES, WEIGHTS, -1)[row]
        weight = (weight + plain + torch.where(heard, 0.0, FAR)[:, None, None]).softmax(-1)
        some = of_tool.shape[2]
        votes = r.cache["votes"][..., :some].index_select(2, said)[row]
        counted = weight @ votes  # [n, VOTES, WEIGHTS, J]
        counted = reshape(counted, 0, VOTES * WEIGHTS, -1).transpose(1, 2)
        lost = (1 - counted.sum(1)).clamp(min=0)
        # whole tools
        group = r.group[:, 0]
        edge = group != torch.cat((group[:, 1:], group[:, -1:]), 1)
        both = torch.cat((of_tool, of_tool * edge[..., None].float()), 2).transpose(1, 2)
        sums = both @ state  # [B, 2 J, width]
        number = of_tool.sum(1)
        mean = sums[:, :some] / number.clamp(min=1)[..., None]
        key = v.sum(torch.cat((norm(mean), norm(sums[:, some:])), -1))
        key = unit(reshape(key, 0, 0, SUMMARY, 64))
        say = unit(reshape(v.say(y), 0, SUMMARY, 64))
        alike = key[row] * say[:, None]
        compared = v.compare(reshape(alike, 0, 0, -1) * COMPARED)
        features = torch.cat((counted, (counted + 0.01).log(), alike.sum(-1)), -1)
        hidden = functional.silu(v.mix(features) + compared)
        mixed = v.direct(features) + v.out(hidden)
        absent = (number == 0)[row]
        tool = torch.where(absent, FAR, mixed[..., 0])
        best = torch.where(absent[..., None], -9.0, torch.cat((features, hidden), -1)).amax(1)
        best, most = best.split((features.shape[-1], hidden.shape[-1]), -1)
        known = torch.cat((best, lost, (lost + 0.01).log(), v.none_say(y), most), -1)
        none = v.none_out(functional.silu(v.none_mix(known))) + self.none_bias
        chances = torch.cat((tool, none), -1).softmax(-1)
        return torch.cat((chances[:, :-1] @ self.eye[:some], chances[:, -1:]), -1)

    # -- the next token ----------------------------------------------------------------------------

    def logits(self, normed: Tensor, r: TokenFeatures, keep: Tensor, columns: Tensor) -> Tensor:
        """Log-probabilities [B, keep, size] of the tokens behind the last rows; `columns`: those seen."""
        h = self.model.pointer
        y = normed[:, -keep:]
        seen, trail, free = (each[:, -keep:] for each in (r.seen, r.trail, ~r.naming))
        gate, form = (y @ self.gate + self.gate_bias).split((1 + 2 * POINTERS, FORMS), -1)
        gate = gate.softmax(-1) * free.float()
        base = functional.linear(y @ self.to_base, self.table) * self.base_scale + h.base_bias
        base = (base.log_softmax(-1) + gate[..., :1].log()).clamp(min=math.log(EVEN))
        written = reshape(form.log_softmax(-1)[..., None] + base[..., None, :], 0, 0, -1)
        nought = torch.zeros_like(y[..., :1], dtype=torch.long)  # [B, keep, 1]
        written = PickColumns.apply(written, self.pair)
        unseen = torch.where(seen.index_select(2, columns), 0.0, FAR)
        scores = self.looks(r, keep, trail, columns) + unseen[:, :, None]
        ways = reshape(gate[..., 1:], 0, 0, 2, POINTERS)
        copies = reshape(ways @ scores.softmax(-1), 0, 0, -1)  # [B, keep, 2 T]
        some = reduce_any(r.naming)
        named = Conditional.apply(some, self.named(r, keep), copies[..., :0], 4)
        ids = reshape(r.copies.index_select(2, columns), 0, 1, -1)
        names = torch.cat((r.next, self.none + nought[:, :1]), -1)
        names = names[..., : some.long() * names.shape[-1]]
        ids = torch.cat((ids, names), -1) + nought
        return self.spread(written, ids, torch.cat((copies, named), -1))

    def looks(self, r: TokenFeatures, keep: Tensor, trail: Tensor, columns: Tensor) -> Tensor:
        """Scores [B, keep, POINTERS, S] of the columns, as places to copy from.

        trail: hashes of the last tokens [B, keep, ALIKE].
        """
        h, cache = self.model.pointer, r.cache
        # Where a copy goes on, it counts how whoever began it looked at where it began.
        kept = r.places[:, -keep:]
        window = torch.cat(((kept[:, :1] - self.backwards).clamp(min=0), kept), 1)
        q = norm(GatherND.apply(cache["state"], window, self.model.shape.width)) @ self.ask
        q = (norm(reshape(q, 0, 0, POINTERS, POINTER_HEAD)) * 0.25).transpose(1, 2)
        looks = q @ cache["pointer"].index_select(2, columns).transpose(2, 3)
        trails = r.trails.index_select(2, columns)[:, None]
        alike = (trails == trail[..., None]).float()  # [B, keep, ALIKE, S]
        back = alike.sum(2).long()  # how far the copy began before the place, 0 for nowhere
        width = columns.shape[0]
        at = torch.cumsum(torch.ones_like(reshape(back, 0, -1)), 1) - 1 + ALIKE * width
        at = (at - reshape(back, 0, -1) * (width + 1)).clamp(min=0)
        begun = torch.gather(reshape(looks, 0, 0, -1), 2, at[:, None] + self.pointer_noughts)
        looks = looks[:, :, ALIKE:]
        begun = begun.view_as(looks).transpose(1, 2) * alike[:, :, :1] * h.begun[:, None]
        return looks.transpose(1, 2) + h.follow @ alike + begun

    def spread(self, written: Tensor, ids: Tensor, chances: Tensor) -> Tensor:
        """`written` [B, keep, size], log-probabilities, where the `chances` of `ids` [B, keep, C] are added.

        A logarithm of every token's chance would take longer than all else that is done per token.
        """
        told = torch.zeros_like(written).scatter_add(2, ids, chances).gather(2, ids)
        told = (written.gather(2, ids).exp() + told).log()
        return written.scatter(2, ids, told)

    def named(self, r: TokenFeatures, keep: Tensor) -> Tensor:
        """Chances [B, keep, T + 1] where a name is written: of what goes on with each column's, and of none."""
        anchor, code, past, naming = (
            each[:, -keep:] for each in (r.anchor, r.code, r.past, r.naming)
        )
        is_first = r.is_call[:, -keep:].float()
        chances = torch.gather(r.cache["choice"], 1, anchor + self.any_choice)
        of = torch.gather(chances, 2, (r.owner - 1).clamp(0, MOST - 1) + torch.zeros_like(anchor))
        tools = of * ((r.before == code) & past).float()
        total = tools.sum(-1, keepdim=True).clamp(min=1e-30)
        tools = tools / (is_first + (1 - is_first) * total)
        return torch.cat((tools, chances[..., -1:] * is_first), -1) * naming.float()
