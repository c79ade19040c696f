"""The network one pass at a time, over a cache that is written in place: what is exported.

Training sees segments side by side; here everything is read off the ids: which tool a place belongs to,
where its segment begins, whether it stands in a name or in arguments, and which tool an answer calls. So
a pass needs the ids, their positions and the cache, and rewinding, forking, batching are exact.

All caches are [batch, length, width] and addressed by position; columns behind a row's end are never
looked at. Names are written as text: the chance of a name's next token is the sum of the chances of the tools
whose names begin with what was written, compared by a hash of the ids so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from training.pieces.model import (
    ALIKE,
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

MOST = 64  # tools that are told apart; those behind share the last place
FAR = -1e9
Put = Callable[[str, Tensor], Tensor]
EVEN = 1e-9  # what any token has


class Only(torch.autograd.Function):
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
        made.setType(value.type())
        return made


def caches(model: Nano) -> dict[str, int]:
    """Names of the caches with their widths (`ids` holds int64, the others float32)."""
    s = model.shape
    widths = {"ids": 0}
    for number in range(s.layers):
        widths |= {f"key.{number}": s.kv_heads * s.head, f"value.{number}": s.kv_heads * s.head}
    return widths | {
        "vote_key": VOTES * VOTE_HEAD,
        "vote_value": VOTES * VOTE_HEAD,
        "votes": VOTES * (MOST + 1),
        "weigh": VOTES * WEIGHTS * 32,
        "plain": VOTES * WEIGHTS,
        "state": s.width,
        "pointer": POINTERS * POINTER_HEAD,
        "choice": MOST + 1,
    }


class Step(nn.Module):
    """`forward(input_ids, position_ids, keep, *caches) -> (log-probabilities, *caches)`."""

    def __init__(self, model: Nano, controls: Mapping[str, int], newline: int) -> None:
        super().__init__()
        self.model, self.controls, self.newline = model, dict(controls), newline
        self.names = list(caches(model))
        random = torch.Generator().manual_seed(1)
        size = len(model.base)
        self.register_buffer("code", torch.randint(1, 1 << 40, (size,), generator=random))
        with torch.no_grad():
            table = model.table().float()
        self.table = nn.Parameter(table)
        self.fused = nn.ParameterList()
        for layer in model.layers:
            qkv = torch.cat((layer.q.weight, layer.k.weight, layer.v.weight)) * layer.before.weight
            gate = torch.cat((layer.gate.weight, layer.up.weight)) * layer.after.weight
            self.fused.extend((nn.Parameter(qkv.T.clone()), nn.Parameter(gate.T.clone())))

    # -- what the ids say --------------------------------------------------------------------------

    def read(self, ids: Tensor, at: Tensor) -> dict[str, Tensor]:
        """ids [B, T] int64; at [B, L]: positions of the new ids. Everything of width T unless said."""
        c = self.controls
        batch, length = ids.shape
        column = torch.arange(length)[None].expand(batch, length)
        is_tool, is_user, is_call = (ids == c[n] for n in ("<|tool|>", "<|user|>", "<|call|>"))
        begins = is_tool | is_user | (column == 0)
        count = torch.cumsum(is_tool.long(), 1)
        user = torch.cumsum(is_user.long(), 1) > 0
        in_tools = (count > 0) & ~user
        start = self.latest(begins)
        anchor = self.latest(begins | is_call)
        inner = begins | is_call | (ids == c["<|args|>"]) | (ids == c["<|end|>"])
        third = self.latest(inner)
        filled = self.latest(inner | (ids == c["<|fill|>"]))
        offset = column - anchor
        code = torch.cumsum(self.code[ids] * offset, 1)
        code = code - torch.gather(code, 1, anchor)
        later = torch.cat((ids[:, 1:], ids[:, -1:]), 1)
        edge = (later == c["<|tool|>"]) | (later == c["<|user|>"])
        spaced = self.model.form[later] >= 3
        named = in_tools & (offset > 0) & (edge | spaced | (later == self.newline))
        again = (torch.cumsum((ids == c["<|again|>"]).long(), 1) > 0) & (
            torch.cumsum(is_call.long(), 1) == 0
        )
        # rows
        place = torch.gather(third, 1, at)
        in_args = torch.gather(ids, 1, place) == c["<|args|>"]
        forms = in_args & (torch.gather(filled, 1, at) == place) & (place != at)
        name = torch.gather(code, 1, (place - 1).clamp(min=0))
        same = (name[:, :, None] == code[:, None]) & named[:, None]
        owner = count * in_tools.long()
        called = (same.long() * owner[:, None]).amax(-1) * in_args.long()
        mine = torch.gather(owner, 1, at)
        own = torch.maximum(called, mine)
        at_anchor = torch.gather(anchor, 1, at)
        naming = (torch.gather(ids, 1, at_anchor) == c["<|call|>"]) & ~in_args
        naming = naming & (torch.gather(ids, 1, place) != c["<|end|>"])
        code_row, offset_row = torch.gather(code, 1, at), torch.gather(offset, 1, at)
        continues = (code_row[:, :, None] == code[:, None]) & (
            offset_row[:, :, None] == offset[:, None]
        )
        past = column[:, None] <= at[:, :, None]
        rereads = torch.gather(again.long(), 1, at) > 0
        alike = (own[:, :, None] == owner[:, None]) & (own > 0)[:, :, None]
        seen = (past & (alike | user[:, None])) | (column[:, None] == at[:, :, None])
        return {
            "position": torch.gather(column - start, 1, at),
            "seen": seen,  # [B, L, T]
            "tools": in_tools & (column <= at[:, -1:]),
            # whom a place hears: the request hears the tools, a form the request
            "heard": (~forms[:, :, None] & in_tools[:, None] | forms[:, :, None] & again[:, None])
            & past,
            "forms": forms,  # [B, L]
            "owner": (owner - 1).clamp(0, MOST - 1),
            "last": in_tools & edge,
            "again": again,
            "rereads": rereads,  # [B, L]
            "readable": again[:, None] & past,  # [B, L, T]
            "naming": naming,  # [B, L]
            "some_reread": rereads.any(),
            "some_listens": (rereads | forms).any(),
            "some_active": ((mine > 0) | rereads | forms).any(),
            "some_call": (at_anchor == at).any(),
            "anchor": at_anchor,  # [B, L]
            "continues": continues & in_tools[:, None],  # [B, L, T]
            "next": torch.where(named, torch.full_like(later, c["<|args|>"]), later),
            "start": start,
        }

    @staticmethod
    def latest(marks: Tensor) -> Tensor:
        """For each column the latest marked one; column 0 is marked. bool [B, T] -> int64 [B, T]."""
        batch, length = marks.shape
        flat = marks.reshape(-1)
        places = torch.nonzero(flat)[:, 0]
        number = torch.cumsum(flat.long(), 0) - 1
        rows = torch.arange(batch)[:, None] * length
        return places[number].view(batch, length) - rows

    # -- the pass ----------------------------------------------------------------------------------

    def forward(
        self, input_ids: Tensor, position_ids: Tensor, keep: Tensor, *past: Tensor
    ) -> tuple[Tensor, ...]:
        m, s = self.model, self.model.shape
        cache = dict(zip(self.names, past, strict=True))
        batch, length = input_ids.shape
        rows = torch.arange(batch)[:, None].expand(batch, length)

        def put(name: str, value: Tensor) -> Tensor:
            cache[name] = cache[name].index_put((rows, position_ids), value)
            return cache[name]

        ids = put("ids", input_ids)
        r = self.read(ids, position_ids)
        own = self.table[m.base[input_ids]] + m.forms[m.form[input_ids]]
        x = own
        for number, each in enumerate(m.back, 1):
            place = (position_ids - number).clamp(min=0)
            before = torch.gather(ids, 1, place)
            vector = self.table[m.base[before]] + m.forms[m.form[before]]
            x = x + each(vector * (r["position"] >= number)[..., None].float())
        angles = r["position"][..., None, None].float() * m.frequencies
        cos, sin = angles.cos(), angles.sin()
        unseen = (~r["seen"])[:, None].float() * FAR
        middle = s.layers // 2
        for number in range(s.layers):
            if number == middle:
                x = self.cast(x, own, r, put)
            x = self.layer(number, x, cos, sin, unseen, put)
        put("state", x)
        put("choice", self.count(x, r, cache, put))
        put("pointer", m.pointer.keys(x, own).flatten(2))
        return (self.logits(x, r, cache, position_ids, keep), *(cache[n] for n in self.names))

    def layer(
        self, number: int, x: Tensor, cos: Tensor, sin: Tensor, unseen: Tensor, put: Put
    ) -> Tensor:
        s, layer = self.model.shape, self.model.layers[number]
        batch, length, _ = x.shape
        group = s.heads // s.kv_heads
        q, k, v = (norm(x) @ self.fused[2 * number]).split(
            (s.heads * s.head, s.kv_heads * s.head, s.kv_heads * s.head), -1
        )
        q = layer.turn(layer.q_gain(q.unflatten(-1, (s.heads, s.head))), cos, sin) * s.head**-0.5
        k = layer.turn(layer.k_gain(k.unflatten(-1, (s.kv_heads, s.head))), cos, sin)
        keys = put(f"key.{number}", k.flatten(2)).unflatten(-1, (s.kv_heads, s.head))
        values = put(f"value.{number}", v).unflatten(-1, (s.kv_heads, s.head))
        q = q.transpose(1, 2).reshape(batch, s.kv_heads, group * length, s.head)
        scores = (q @ keys.permute(0, 2, 3, 1)).view(batch, s.heads, length, -1) + unseen
        shares = scores.softmax(-1).view(batch, s.kv_heads, group * length, -1)
        out = (shares @ values.transpose(1, 2)).view(batch, s.heads, length, s.head)
        x = x + layer.o(out.transpose(1, 2).reshape(batch, length, -1))
        gate, up = (norm(x) @ self.fused[2 * number + 1]).chunk(2, -1)
        return x + layer.down(functional.silu(gate) * up)

    def cast(self, x: Tensor, own: Tensor, r: dict[str, Tensor], put: Put) -> Tensor:
        """As `Votes.cast`: votes of the second reading, and what it and the forms read.

        A column holds what those who hear it compare themselves with: a key in a tool, a query in the
        request.
        """
        v = self.model.votes
        batch, length, _ = x.shape
        active, listens = r["some_active"], r["some_listens"]
        forms, rereads = (r[n][..., None] for n in ("forms", "rereads"))
        asks, answers = v.queries(x, own).flatten(2), v.keys(x, own).flatten(2)
        keys = put("vote_key", Only.apply(active, torch.where(rereads, asks, answers), x, 0))
        keys = keys.unflatten(-1, (VOTES, VOTE_HEAD))
        values = put("vote_value", Only.apply(active, v.v(norm(x)), x, 0))
        values = values.unflatten(-1, (VOTES, VOTE_HEAD))
        q = Only.apply(active, torch.where(forms, answers, asks), x, 0)
        q = q.unflatten(-1, (VOTES, VOTE_HEAD)).transpose(1, 2)
        scores = q @ keys.permute(0, 2, 3, 1) + (~r["heard"])[:, None].float() * FAR
        sink = v.elsewhere.view(1, -1, 1, 1).expand(batch, VOTES, length, 1)
        shares = torch.cat((scores, sink), -1).softmax(-1)
        of_tool = functional.one_hot(r["owner"], MOST).float()  # [B, T, MOST]
        votes = torch.cat((shares[..., :-1] @ of_tool[:, None], shares[..., -1:]), -1)
        votes = votes.transpose(1, 2).flatten(2)
        put("votes", Only.apply(listens, votes, torch.cat((x, x[..., :VOTES]), -1), 1))
        read = (shares[..., :-1] @ values.transpose(1, 2)).transpose(1, 2).flatten(2)
        told = v.o(read) * rereads.float() + v.told(read) * forms.float()
        return Only.apply(listens, x + told, x, 1)

    def count(self, x: Tensor, r: dict[str, Tensor], cache: dict[str, Tensor], put: Put) -> Tensor:
        """As `Votes.count`, for every row: log-odds [B, L, MOST + 1]."""
        v = self.model.votes
        batch, length, _ = x.shape
        y = norm(x)
        some_reread = r["some_reread"]
        keys = put("weigh", Only.apply(some_reread, v.weigh(y), x, 2))
        keys = keys.unflatten(-1, (VOTES * WEIGHTS, 32))
        plain = put("plain", Only.apply(some_reread, v.plain(y), x[..., : VOTES * WEIGHTS], 2))
        ask = v.ask(y).unflatten(-1, (VOTES * WEIGHTS, 32))
        weight = (
            ask.transpose(1, 2) @ keys.permute(0, 2, 3, 1) * 32**-0.5
            + plain.transpose(1, 2)[:, :, None]
        )
        weight = weight + (~r["readable"])[:, None].float() * FAR
        weight = weight.softmax(-1).view(batch, VOTES, WEIGHTS * length, -1)
        votes = cache["votes"].unflatten(-1, (VOTES, MOST + 1)).transpose(1, 2)
        counted = (
            (weight @ votes).view(batch, VOTES * WEIGHTS, length, MOST + 1).permute(0, 2, 3, 1)
        )
        of_tool = functional.one_hot(r["owner"], MOST).float() * r["tools"][..., None].float()
        number = of_tool.sum(1)  # [B, MOST]
        mean = of_tool.transpose(1, 2) @ cache["state"] / number.clamp(min=1)[..., None]
        last = (of_tool * r["last"][..., None].float()).transpose(1, 2) @ cache["state"]
        key = unit(v.sum(torch.cat((norm(mean), norm(last)), -1)).unflatten(-1, (SUMMARY, 64)))
        say = unit(v.say(y).unflatten(-1, (SUMMARY, 64)))
        alike = (say.transpose(1, 2) @ key.permute(0, 2, 3, 1)).permute(0, 2, 3, 1)
        tools = counted[:, :, :-1]
        features = torch.cat((tools, (tools + 0.01).log(), alike), -1)
        mixed = v.direct(features) + v.out(functional.silu(v.mix(features)))
        absent = (number == 0).float()[:, None]
        tool = mixed[..., 0] + absent * FAR
        best = (features * (1 - absent[..., None]) + absent[..., None] * -9.0).amax(2)
        lost = counted[:, :, -1]
        known = torch.cat((best, lost, (lost + 0.01).log(), v.none_say(y)), -1)
        odds = torch.cat((tool, v.none_out(functional.silu(v.none_mix(known)))), -1)
        return Only.apply(r["some_call"], odds, x[..., : MOST + 1], 3)

    def logits(
        self, x: Tensor, r: dict[str, Tensor], cache: dict[str, Tensor], at: Tensor, keep: Tensor
    ) -> Tensor:
        """Log-probabilities [B, keep, size] of the tokens behind the last rows."""
        m, h, ids = self.model, self.model.pointer, cache["ids"]
        x, at = x[:, -keep:], at[:, -keep:]
        seen, naming = (r[n][:, -keep:] for n in ("seen", "naming"))
        continues = r["continues"][:, -keep:]
        y = m.final(x)
        gate = h.gate(y).log_softmax(-1)
        base = functional.linear(h.to_base(y), self.table) * (h.scale.abs() / 16) + h.base_bias
        base = base.log_softmax(-1) + gate[..., :1]
        form = h.to_form(y).log_softmax(-1)
        keys = cache["pointer"].unflatten(-1, (POINTERS, POINTER_HEAD)).permute(0, 2, 3, 1)
        q = h.queries(y).transpose(1, 2)
        column = torch.arange(ids.shape[1])[None]
        bases = m.base[ids]
        scores = (torch.cat((q, q), 2) @ keys)[:, :, : q.shape[2]]  # never one row: same kernel
        inside = column - r["start"]
        alike = torch.ones_like(seen)
        for number in range(ALIKE):
            place = (at - number).clamp(min=0)
            mine = torch.gather(bases, 1, place)
            shifted = torch.cat((bases[:, : number + 1], bases[:, : -number - 1]), 1)
            same = (shifted[:, None] == mine[:, :, None]) & (inside > number)[:, None]
            alike = alike & same & (torch.gather(inside, 1, at) >= number)[:, :, None]
            scores = scores + h.follow[:, number : number + 1, None] * alike[:, None].float()
        scores = scores + (~seen)[:, None].float() * FAR
        shares = scores.softmax(-1)  # [B, POINTERS, keep, T]
        ways = gate[..., 1:].exp().unflatten(-1, (2, POINTERS)).permute(0, 2, 3, 1)  # B 2 P keep
        exact, bare = (shares[:, None] * ways[..., None]).sum(2).unbind(1)  # [B, keep, T]
        written = (base[..., m.base] + form[..., m.form]).exp()
        spread = written.scatter_add(2, ids[:, None].expand_as(exact), exact)
        spread = spread.scatter_add(2, m.bare[ids][:, None].expand_as(bare), bare)
        named = self.named(r, cache["choice"], at, continues, spread)
        spread = Only.apply(naming.any(), torch.where(naming[..., None], named, spread), spread, 4)
        return (spread + EVEN).log()

    def named(
        self, r: dict[str, Tensor], choice: Tensor, at: Tensor, continues: Tensor, like: Tensor
    ) -> Tensor:
        """Chances of the next token where a name is written: given what is written of it."""
        anchor = r["anchor"][:, -at.shape[1] :]
        chances = torch.gather(choice, 1, anchor[..., None].expand(-1, -1, MOST + 1)).softmax(-1)
        of = chances[..., :-1].gather(2, r["owner"][:, None].expand(-1, at.shape[1], -1))
        first = (anchor == at)[..., None].float()
        tools = of * continues.float()
        total = tools.sum(-1, keepdim=True).clamp(min=1e-30)
        tools = tools / (first + (1 - first) * total)
        spread = (like * 0).scatter_add(2, r["next"][:, None].expand_as(tools), tools)
        none = torch.full_like(anchor[..., None], self.controls["<|none|>"])
        return spread.scatter_add(2, none, chances[..., -1:] * first)
