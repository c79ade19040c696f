"""The network: a small transformer in which choosing and copying are parts of their own.

A transformer of a few million parameters needs billions of tokens to find out by itself how to look up
a tool and how to copy from the request. Both are known operations, so they are built in, and
training only learns what they should look for:

* **Segments.** A tool is read on its own, from position 0: its states do not depend on the list
  it stands in. The request sees itself; an answer sees the request and the tool it calls.
* **Votes.** Every token of the request spreads one vote over all tokens of all tools and an "elsewhere"
  (a softmax: what many tools say is shared among them and counts little, as in tf-idf). `<|call|>`
  adds the votes up by tool, weighing the request's tokens by attention, compares the whole request with whole
  tools, number by number, and chooses. Nothing in it knows how many tools there are, or in which order.
* **Form.** Before an argument is written, the called tool's parameters are read once more, by places that
  see the request (the votes' similarity in the other direction): what is not mentioned can be left out, what
  is meant can be pointed at.
* **Answers read on.** Behind the last layer that all places pass, answers pass a few more, which look at the
  finished states of request and tool: what is asked of them takes more hops than reading does, and
  they are few.
* **Pointer.** The next token of an argument is a mixture of a softmax over bases and forms, and of
  copies: attention over what may be repeated, with a head start for places that follow what was
  just written (pointer-generator: See et al., 2017; induction: Olsson et al., 2022). Where several places
  follow it, the choice that was made where the copy began counts on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from callmemaybe.tuning.network.attention import (
    AttentionGroups,
    HeadRows,
    SegmentAttention,
    VoteAttention,
    by_head,
)
from callmemaybe.tuning.network.logprobs import ChosenLogprob, match_length
from callmemaybe.tuning.network.norms import (
    RMSNormFunction,
    RotaryNormFunction,
    Rotation,
    rotations,
)
from callmemaybe.tuning.network.precision import compute_dtype
from callmemaybe.tuning.network.whole_words import MOST_PIECES, WholeWords, suffix_hashes
from callmemaybe.tuning.token_forms import FORMS

VOTES, VOTE_HEAD = 4, 64
WEIGHTS = 2  # weighings of the request per head of votes
SUMMARY = 4  # comparisons of whole tools with the whole request
COMPARED = 16.0  # brings the products of two unit vectors' numbers to the size of other features
POINTERS, POINTER_HEAD = 2, 64
ALIKE = 12  # tokens before a place that are compared with those just written
ELSEWHERE = 7.0
GAIN = 14.0


@dataclass(frozen=True, slots=True)
class NanoConfig:
    """Sizes of a model."""

    bases: int
    layers: int = 4
    deep: int = 0  # more layers, for answers alone
    width: int = 256
    heads: int = 8
    kv_heads: int = 4
    head: int = 32
    inner: int = 640
    lexicon: int = 96
    theta: float = 2_000.0

    @property
    def turned(self) -> int:
        """Dimensions of a head that rotary positions turn; the others compare regardless of place."""
        return self.head // 2


class BatchTensors(NamedTuple):
    """A batch as tensors; names as in `packing.TokenBatch`; pads are clamped to 0 and come with a mask."""

    ids: Tensor
    positions: Tensor
    before: Tensor  # int64 [ALIKE, N]: the place n + 1 back; N where the segment had not begun
    windows: AttentionGroups  # what every place sees
    tool_pad: Tensor
    tool_used: Tensor  # bool [tools, Lt]
    pair_pad: Tensor
    seen_pad: Tensor
    sight: Tensor  # bool [G, Lp + Ls]: what the graded places see
    again_pad: Tensor
    again_mask: Tensor  # bool [pairs, Lr]
    again_flat: Tensor
    again: Tensor  # int64 [A]: those places alone
    listed: Tensor  # int64 [B]: places of the tools, list by list
    list_tool: Tensor  # float [B, J + 1]: 1 at the tool's number in its list
    list_sizes: list[tuple[int, int]]  # of each list: how many of A, how many of B
    row_tools: Tensor
    row_mask: Tensor
    calls: Tensor
    call_pair: Tensor
    graded: Tensor
    graded_pair: Tensor
    graded_slot: Tensor  # number of the place within its answer
    slots: int  # most places of an answer
    form_pad: Tensor  # int64 [pairs, Lf]: places that read the called tool's parameters again
    form_flat: Tensor
    marks: Tensor
    answers: Tensor  # int64 [answers]: places from a <|call|> on
    answer_pair: Tensor
    answer_slot: Tensor  # number of the place within its answer
    answer_windows: AttentionGroups  # what answers see
    found: Tensor  # int64 [F]: places of forms where the line of a parameter ends
    found_pair: Tensor
    found_at: Tensor  # bool [F, Lr]: where in the second reading the parameter's value begins


def take(x: Tensor, places: Tensor) -> Tensor:
    """x[places], by way of index_select, whose gradient is quicker."""
    return x.index_select(0, places.flatten()).view(*places.shape, *x.shape[1:])


class OnnxRMSNorm(torch.autograd.Function):
    """RMSNorm as the one operator that onnxruntime has for it."""

    @staticmethod
    def forward(_ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)

    @staticmethod
    def symbolic(g: Any, x: Any, weight: Any) -> Any:
        made = g.op("SimplifiedLayerNormalization", x, weight, axis_i=-1, epsilon_f=1e-6)
        made.setType(x.type())
        return made


def norm(x: Tensor) -> Tensor:
    """RMSNorm without a weight."""
    if torch.onnx.is_in_onnx_export():
        return OnnxRMSNorm.apply(x, torch.ones(int(x.shape[-1])))
    return cast("Tensor", RMSNormFunction.apply(x, None))


def unit(x: Tensor) -> Tensor:
    """X at length 1."""
    if torch.onnx.is_in_onnx_export():
        return norm(x) * float(x.shape[-1]) ** -0.5
    return functional.normalize(x, dim=-1)


class Norm(nn.Module):
    """RMSNorm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        if torch.onnx.is_in_onnx_export():
            return OnnxRMSNorm.apply(x, self.weight)
        return cast("Tensor", RMSNormFunction.apply(x, self.weight))


def linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)


class Layer(nn.Module):
    """Attention within segments, then SwiGLU; pre-norm."""

    def __init__(self, shape: NanoConfig) -> None:
        super().__init__()
        self.shape = s = shape
        self.before, self.after = Norm(s.width), Norm(s.width)
        self.q, self.k = linear(s.width, s.heads * s.head), linear(s.width, s.kv_heads * s.head)
        self.v, self.o = linear(s.width, s.kv_heads * s.head), linear(s.heads * s.head, s.width)
        self.gate, self.up = linear(s.width, s.inner), linear(s.width, s.inner)
        self.down = linear(s.inner, s.width)
        self.q_gain, self.k_gain = Norm(s.head), Norm(s.head)

    def queries(self, x: Tensor, turn: Rotation) -> Tensor:
        """x: [Q, width], normalised -> [Q, heads, head]."""
        q = self.q(x).unflatten(-1, (-1, self.shape.head))
        return cast(
            "Tensor",
            RotaryNormFunction.apply(q, self.q_gain.weight, *turn.times(q.shape[-1] ** -0.5)),
        )

    def memory(self, x: Tensor, turn: Rotation) -> tuple[Tensor, Tensor]:
        """x: [N, width], normalised -> keys and values [N, kv heads, head]."""
        split = (-1, self.shape.head)
        k = self.k(x).unflatten(-1, split)
        return RotaryNormFunction.apply(k, self.k_gain.weight, *turn), self.v(x).unflatten(
            -1, split
        )

    def forward(self, x: Tensor, turn: Rotation, sight: HeadRows) -> Tensor:
        y = self.before(x)
        return self.rest(x, self.attend(self.queries(y, turn), *self.memory(y, turn), sight))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, sight: HeadRows) -> Tensor:
        """q: [Q, heads, head]; k, v: [N, kv heads, head] -> [Q, heads * head]."""
        out = SegmentAttention.apply(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), sight)
        return out.view(len(q), -1)

    def rest(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + self.o(attended)
        y = self.after(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    def answer(self, x: Tensor, turn: Rotation, answers: Tensor, sight: HeadRows) -> Tensor:
        """As `forward`, for answers alone; other places stay as they are."""
        y = self.before(x)
        mine = Rotation(*(take(each, answers) for each in turn))
        read = self.attend(self.queries(take(y, answers), mine), *self.memory(y, turn), sight)
        read = self.rest(take(x, answers), read)
        return x.index_copy(0, answers, read.to(x.dtype))


class ToolVotes(nn.Module):
    """Which tool is meant: tokens of the request vote, and `<|call|>` adds up the votes."""

    def __init__(self, shape: NanoConfig) -> None:
        super().__init__()
        width, size = shape.width, VOTES * VOTE_HEAD
        self.q, self.k = linear(2 * width, size), linear(2 * width, size)
        self.v, self.o = linear(width, size), linear(size, width)
        self.told = linear(size, width)
        self.gain = nn.Parameter(torch.full((VOTES,), GAIN))
        self.elsewhere = nn.Parameter(torch.full((VOTES,), ELSEWHERE))
        heads = VOTES * WEIGHTS
        self.ask, self.weigh = linear(width, heads * 32), linear(width, heads * 32)
        self.plain = linear(width, heads)
        self.say, self.sum = linear(width, SUMMARY * 64), linear(2 * width, SUMMARY * 64)
        features = 2 * heads + SUMMARY
        self.mix, self.out = nn.Linear(features, 32), nn.Linear(32, 1)
        self.compare = linear(SUMMARY * 64, 32)
        self.direct = nn.Linear(features, 1)
        known = features + 2 * heads + 32  # and behind it the best that comparing found
        self.none_mix, self.none_out = nn.Linear(known + 32, 32), nn.Linear(32, 1)
        self.none_say = linear(width, 32)
        with torch.no_grad():
            self.k.weight.copy_(self.q.weight)
            half = self.q.weight.shape[0] // 2
            self.q.weight[:half, :width] = 0  # half of the heads compare the words as they are
            self.k.weight[:half, :width] = 0
            self.direct.weight.zero_()
            self.direct.weight[:, heads : 2 * heads] = 2.0 / heads
            self.out.weight.zero_()
            self.compare.weight.zero_()
            self.none_mix.weight[:, known:] = 0
            self.none_out.weight.zero_()

    def heads(self, x: Tensor, size: int) -> Tensor:
        return x.view(*x.shape[:-1], -1, size)

    def keys(self, x: Tensor, first: Tensor) -> Tensor:
        """x, first: [N, width] -> [N, heads, head], of length 1."""
        both = torch.cat((norm(x), norm(first)), -1)
        return unit(self.heads(self.k(both), VOTE_HEAD))

    def queries(self, x: Tensor, first: Tensor) -> Tensor:
        both = torch.cat((norm(x), norm(first)), -1)
        q = unit(self.heads(self.q(both), VOTE_HEAD))
        return q * self.gain[:, None].to(q.dtype)

    def vote(self, x: Tensor, first: Tensor, p: BatchTensors) -> tuple[Tensor, Tensor]:
        """Return the votes of the second reading [pairs, Lr, heads, J + 1] (the last: elsewhere),
        and what they read, added to x.
        """
        again, listed = p.again, p.listed
        q = self.queries(take(x, again), take(first, again))
        told = take(x, listed)
        k = self.keys(told, take(first, listed))
        v = self.heads(self.v(norm(told)), VOTE_HEAD)
        read, votes = VoteAttention.apply(q, k, v, self.elsewhere, p.list_tool, p.list_sizes)
        added = torch.cat((self.o(read.flatten(1)), self.read_request(x, first, self.pad(q, p), p)))
        places = torch.cat((again, p.form_pad.view(-1)[p.form_flat]))
        return self.pad(votes, p), x.index_add(0, places, added.to(x.dtype))

    def pad(self, x: Tensor, p: BatchTensors) -> Tensor:
        """Of the second reading's places [A, ...] to [pairs, Lr, ...]."""
        pad = x.new_zeros(p.again_pad.numel(), *x.shape[1:])
        return pad.index_copy(0, p.again_flat, x).view(*p.again_pad.shape, *x.shape[1:])

    def read_request(self, x: Tensor, first: Tensor, q: Tensor, p: BatchTensors) -> Tensor:
        """What the places of forms read of the request, by the votes' similarity in the other direction.

        q: queries of the request [pairs, Lr, heads, head] -> [places of forms, width].
        """
        k = self.keys(take(x, p.form_pad), take(first, p.form_pad)).transpose(1, 2)
        v = self.heads(self.v(norm(take(x, p.again_pad))), VOTE_HEAD).transpose(1, 2)
        scores = (k @ q.permute(0, 2, 3, 1)).float()  # [pairs, heads, Lf, Lr]
        scores = scores.masked_fill(~p.again_mask[:, None, None], -torch.inf)
        sink = self.elsewhere.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        shares = torch.cat((scores, sink), -1).softmax(-1)[..., :-1]
        read = (shares.to(v.dtype) @ v).transpose(1, 2).flatten(2)
        return self.told(read).view(-1, x.shape[-1])[p.form_flat]

    def log_odds(self, x: Tensor, votes: Tensor, p: BatchTensors) -> Tensor:
        """Log-odds [calls, J + 1] of each tool of the list, and of none (last)."""
        said = take(x, p.again_pad)
        keys = self.heads(self.weigh(norm(said)), 32)  # [pairs, Lr, heads * WEIGHTS, 32]
        weight = self.plain(norm(said)).float()[p.call_pair]
        asked = norm(take(x, p.calls))
        ask = self.heads(self.ask(asked), 32)
        weight = weight + torch.einsum("chd,crhd->crh", ask, keys[p.call_pair]).float() * 32**-0.5
        weight = weight.masked_fill(~p.again_mask[p.call_pair][..., None], -torch.inf).softmax(1)
        weight = weight.view(*weight.shape[:2], VOTES, WEIGHTS)
        counted = torch.einsum("crhw,crhj->cjhw", weight, votes[p.call_pair]).flatten(2)
        # whole tools against the whole request
        tools = take(x, p.tool_pad)
        inside = p.tool_used[..., None]
        mean = (tools * inside).sum(1) / inside.sum(1)
        last = tools.gather(1, (inside.sum(1, keepdim=True) - 1).expand(-1, 1, x.shape[-1]))[:, 0]
        key = functional.normalize(
            self.heads(self.sum(torch.cat((norm(mean), norm(last)), -1)), 64), dim=-1
        )
        say = functional.normalize(self.heads(self.say(asked), 64), dim=-1)
        per_row = len(p.again_pad) // len(p.list_sizes)
        key = key[p.row_tools][p.call_pair // per_row]  # [calls, J, SUMMARY, 64]
        alike = say[:, None] * key
        compared = self.compare(alike.flatten(2) * COMPARED).float()
        alike = alike.float().sum(-1)
        features = torch.cat((counted[:, :-1], (counted[:, :-1] + 0.01).log(), alike), -1)
        hidden = functional.silu(self.mix(features) + compared)
        mixed = self.direct(features) + self.out(hidden)
        there = p.row_mask[p.call_pair // per_row]
        tool = mixed[..., 0].masked_fill(~there, -torch.inf)
        best = torch.cat((features, hidden), -1).masked_fill(~there[..., None], -9.0).amax(1)
        best, most = best.split((features.shape[-1], hidden.shape[-1]), -1)
        lost = counted[:, -1]
        known = (best, lost, (lost + 0.01).log(), self.none_say(asked).float(), most)
        known = torch.cat(known, -1)
        none = self.none_out(functional.silu(self.none_mix(known)))
        return torch.cat((tool, none), -1)


class Pointer(nn.Module):
    """The next token of an argument: chosen from the vocabulary, or copied."""

    def __init__(self, shape: NanoConfig) -> None:
        super().__init__()
        width, size = shape.width, POINTERS * POINTER_HEAD
        self.q, self.k = linear(width, size), linear(2 * width, size)
        self.follow = nn.Parameter(torch.tensor([[4.0, *[2.0] * (ALIKE - 1)], [1.0] * ALIKE]))
        self.begun = nn.Parameter(torch.full((POINTERS,), 0.2))
        self.gate = nn.Linear(width, 1 + 2 * POINTERS)
        self.to_base, self.to_form = linear(width, width), nn.Linear(width, FORMS)
        self.base_bias = nn.Parameter(torch.zeros(shape.bases))
        self.scale = nn.Parameter(torch.tensor(4.0))

    def queries(self, x: Tensor) -> Tensor:
        return norm(self.q(x).view(*x.shape[:-1], POINTERS, POINTER_HEAD)) * 0.25

    def keys(self, x: Tensor, first: Tensor) -> Tensor:
        k = self.k(torch.cat((norm(x), norm(first)), -1))
        return norm(k.view(*x.shape[:-1], POINTERS, POINTER_HEAD))


class Nano(nn.Module):
    """The whole model."""

    def __init__(
        self,
        shape: NanoConfig,
        lexicon: Tensor,
        base: Tensor,
        form: Tensor,
        bare: Tensor,
        dtype: torch.dtype | None = None,
        wholes: WholeWords | None = None,
    ) -> None:
        """`lexicon` [bases, lexicon]; `base`, `form`, `bare`: tables of `tokenizer.forms`; `dtype` of the
        states, `compute_dtype` if None; `wholes`: the meanings of words that are cut.
        """
        super().__init__()
        self.wholes = wholes
        self.shape, self.dtype = shape, dtype
        # Share of the words of a step that training knows by their meaning alone.
        self.word_dropout = 0.0
        width = shape.width
        self.embedding = nn.Parameter(torch.randn(shape.bases, width) * 0.7)
        self.forms = nn.Parameter(torch.randn(FORMS, width) * 0.2)
        self.meaning = linear(shape.lexicon, width)
        self.back = nn.ModuleList([linear(width, width), linear(width, width)])
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers + shape.deep))
        self.votes, self.pointer = ToolVotes(shape), Pointer(shape)
        self.final = Norm(width)
        # Only training asks these: is this part of the form meant? Where is what it wants?
        self.meant, self.find = nn.Linear(width, 1), linear(width, POINTERS * POINTER_HEAD)
        for name, value in (("lexicon", lexicon), ("base", base), ("form", form), ("bare", bare)):
            self.register_buffer(name, value)
        half = shape.turned // 2
        self.register_buffer("frequencies", shape.theta ** (-torch.arange(half) / half), False)
        self.initialize()

    def initialize(self) -> None:
        """Initialise: what writes to the residual stream starts at zero."""
        with torch.no_grad():
            self.meaning.weight.copy_(
                nn.init.orthogonal_(torch.empty(self.shape.width, self.shape.lexicon)) * 11.0
            )
            for layer in self.layers:
                layer.o.weight.zero_()
                layer.down.weight.zero_()
            self.votes.o.weight.zero_()
            self.votes.told.weight.zero_()
            for each in self.back:
                each.weight.mul_(0.3)

    def table(self) -> Tensor:
        """One vector per base."""
        return self.embedding + self.meaning(self.lexicon)

    def input_table(self) -> Tensor:
        """As `table`; in training some words, others at each step, are represented by their meaning alone.

        What is learnt by heart hangs on the words themselves (word dropout by type: Gal and Ghahramani, 2016).
        """
        if not (self.training and self.word_dropout):
            return self.table()
        means = self.lexicon.any(1)
        known = ~means | (torch.rand(len(means), device=means.device) >= self.word_dropout)
        return self.embedding * known[:, None] + self.meaning(self.lexicon)

    def embed(self, p: BatchTensors) -> tuple[Tensor, Tensor]:
        """Embeddings [N, width] of the tokens, and of the tokens with what their words mean."""
        own = take(self.input_table(), self.base[p.ids]) + take(self.forms, self.form[p.ids])
        dtype = self.dtype or compute_dtype(own.device.type)
        if self.wholes is None:
            return own.to(dtype), own.to(dtype)
        at = torch.arange(len(p.ids), device=p.ids.device)
        before = torch.stack((at, *p.before[: MOST_PIECES - 1]), -1)
        ids = p.ids[before * (before < len(p.ids))]
        bases = self.base[ids]
        whole = self.meaning(self.wholes(suffix_hashes(bases), bases, self.form[ids]))
        return own.to(dtype), (own + whole).to(dtype)

    def forward(self, p: BatchTensors) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states [N, width], the embeddings [N, width] and the log-odds of the calls."""
        x, own, odds, _ = self.read(p)
        return x, own, odds

    def read(self, p: BatchTensors) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """As `forward`; and the states that the last layer looks at [N, width]."""
        token, own = self.embed(p)
        first = torch.cat((token, token.new_zeros(1, token.shape[-1])))
        x = own
        for each, place in zip(self.back, p.before[:2], strict=True):
            x = x + each(take(first, place))
        turn = rotations(p.positions[:, None] * self.frequencies, self.shape.head, x.dtype)
        heads = self.shape.heads, self.shape.kv_heads
        sight, answering = by_head(p.windows, *heads), by_head(p.answer_windows, *heads)
        middle, every = self.shape.layers // 2, self.shape.layers
        for layer in self.layers[:middle]:
            x = layer(x, turn, sight)
        votes, x = self.votes.vote(x, own, p)
        for layer in self.layers[middle:every]:
            x = layer(x, turn, sight)
        last = x
        for layer in self.layers[every:]:
            last, x = x, layer.answer(x, turn, p.answers, answering)
        return x, own, self.votes.log_odds(x, votes, p), last

    def token_logprobs(self, x: Tensor, own: Tensor, p: BatchTensors, targets: Tensor) -> Tensor:
        """Log-probabilities [G] of the tokens `targets` after the places `p.graded`.

        As the sum over `mixture_parts`, computed for `targets` alone.
        """
        y, h = self.final(take(x, p.graded)), self.pointer
        gate = h.gate(y).float().log_softmax(-1)
        base, form = self.base[targets], self.form[targets]
        written = gate[:, 0] + ChosenLogprob.apply(*self.bases(y), base)
        written = written + h.to_form(y).float().log_softmax(-1).gather(1, form[:, None])[:, 0]
        shares, ids = self.copy_shares(x, own, p)
        right = torch.stack((ids == targets[:, None], self.bare[ids] == targets[:, None]), 1)
        # way by way: with and without its space; [G, 2, POINTERS]
        found = torch.stack([(shares * each[:, None]).sum(-1) for each in right.unbind(1)], 1)
        hits = (gate[:, 1:].exp() * found.flatten(1)).sum(-1)
        return (written.exp() + hits + 1e-9).log()

    def meant_log_odds(self, last: Tensor, p: BatchTensors) -> Tensor:
        """Log-odds [M] that what the marks of forms stand at is meant.

        Asked of the states `last` that the last layer looks at, so that answers know it in time.
        """
        return self.meant(norm(take(last, p.marks)))[:, 0].float()

    def found_logprobs(self, last: Tensor, x: Tensor, own: Tensor, p: BatchTensors) -> Tensor:
        """Log-probabilities [F] that the ends of a form's lines know in time where their values begin."""
        q = norm(self.by_pointer(self.find(norm(take(last, p.found))))).flatten(1)
        said = p.again_mask[p.found_pair]  # [F, Lr]
        keys = take(self.pointer.keys(take(x, p.again_pad), take(own, p.again_pad)), p.found_pair)
        scores = torch.einsum("fd,frd->fr", q, keys.flatten(2)).float() * 0.25
        assert scores.shape == said.shape
        scores = scores.masked_fill(~said, -torch.inf)
        return (scores.softmax(-1) * p.found_at).sum(-1).add(1e-9).log()

    @staticmethod
    def by_pointer(x: Tensor) -> Tensor:
        return x.unflatten(-1, (POINTERS, POINTER_HEAD))

    def bases(self, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Likeness [G, bases] of what is to be written, and the scale and the bias of its softmax."""
        h = self.pointer
        likeness = functional.linear(h.to_base(y), self.table().to(y.dtype))
        return likeness, h.scale.abs() / 16, h.base_bias

    def mixture_parts(
        self, x: Tensor, own: Tensor, p: BatchTensors
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return log-probabilities of bases (gate included) [G, bases] and forms [G, FORMS], weights of
        copies [G, 2, POINTERS, S] (as it stands, without its space), and ids [G, S].
        """
        y, h = self.final(take(x, p.graded)), self.pointer
        gate = h.gate(y).float().log_softmax(-1)
        likeness, scale, bias = self.bases(y)
        base = (likeness.float() * scale + bias).log_softmax(-1) + gate[:, :1]
        form = h.to_form(y).float().log_softmax(-1)
        shares, ids = self.copy_shares(x, own, p)
        ways = gate[:, 1:].exp().view(-1, 2, POINTERS, 1)
        return base, form, ways * shares[:, None], ids

    def copy_shares(self, x: Tensor, own: Tensor, p: BatchTensors) -> tuple[Tensor, Tensor]:
        """Shares [G, POINTERS, S] of what may be copied after the graded places, and its ids [G, S]."""
        h = self.pointer
        places = torch.cat((p.pair_pad, p.seen_pad), 1)  # [pairs, S]
        keys = take(h.keys(x, own).flatten(1), places)
        q = h.queries(self.final(take(x, p.answers))).flatten(1)
        slots = q.new_zeros(len(places), p.slots, q.shape[-1])
        slots = slots.index_put((p.answer_pair, p.answer_slot), q)
        looks = torch.einsum("pahd,pshd->phas", self.by_pointer(slots), self.by_pointer(keys))
        scores = looks.transpose(1, 2)[p.graded_pair, p.graded_slot].float()
        bases = torch.cat((self.base[p.ids], p.ids.new_full((1,), -1)))
        written = torch.stack((bases[p.graded], *(bases[each[p.graded]] for each in p.before[:-1])))
        alike = match_length(written, bases[p.before[:, places]], p.graded_pair)
        starts = functional.pad(h.follow.cumsum(1), (1, 0))  # [POINTERS, ALIKE + 1]
        starts = [take(each, alike) for each in starts]
        scores = scores + torch.stack(starts, 1) + self.continuation_gains(looks, alike, p)
        shares = scores.masked_fill(~p.sight[:, None], -torch.inf).softmax(-1)
        return shares, p.ids[places][p.graded_pair]

    def continuation_gains(self, looks: Tensor, alike: Tensor, p: BatchTensors) -> Tensor:
        """What places gain by how the answer looked at them when it began to copy them [G, POINTERS, S].

        looks: scores [pairs, POINTERS, slots, S]; alike [G, S]: how far behind that is, 0 for nowhere.
        """
        row, column = torch.nonzero(alike * p.sight, as_tuple=True)
        back = alike[row, column]
        slot = (p.graded_slot[row] - back).clamp(min=0)
        looked = looks[p.graded_pair[row], :, slot, column - back].float()  # [copies, POINTERS]
        gains = looked.new_zeros(*alike.shape, POINTERS)
        gains = gains.index_put((row, column), looked * self.pointer.begun)
        return gains.transpose(1, 2)
