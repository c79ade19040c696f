"""Qwen3's architecture with Hugging Face's tensor names, small enough to train on two cores."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a model."""

    vocabulary: int
    layers: int = 4
    width: int = 256
    heads: int = 4
    kv_heads: int = 2
    head: int = 64
    inner: int = 768
    theta: float = 10_000.0
    context: int = 8192

    def config(self, *, end: int, pad: int) -> dict[str, Any]:
        """The config.json any Qwen3 backend reads."""
        return {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "vocab_size": self.vocabulary,
            "hidden_size": self.width,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head,
            "hidden_act": "silu",
            "max_position_embeddings": self.context,
            "rms_norm_eps": 1e-6,
            "rope_theta": self.theta,
            "rope_scaling": None,
            "attention_bias": False,
            "attention_dropout": 0.0,
            "use_sliding_window": False,
            "sliding_window": None,
            "max_window_layers": self.layers,
            "tie_word_embeddings": True,
            "use_cache": True,
            "initializer_range": 0.02,
            "bos_token_id": None,
            "eos_token_id": end,
            "pad_token_id": pad,
            "torch_dtype": "float32",
        }

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Norm(nn.Module):
    """RMSNorm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), 1e-6)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions, halves as in Hugging Face's code. x: [batch, heads, length, head]."""
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


@dataclass(frozen=True, slots=True)
class Sight:
    """Who sees whom: `tools` places are causal, the rest are bins that see tools and themselves.

    causal: [tools, tools]; mask: [rows, 1, 1, bins, bin, tools + bin], None without bins. Both are
    added to the scores: 0 where seen, -inf where not.
    """

    tools: int
    causal: Tensor
    bin: int = 0
    mask: Tensor | None = None


def added(seen: Tensor) -> Tensor:
    """Turn "is seen" into what is added to scores."""
    return torch.zeros(seen.shape).masked_fill_(~seen, -torch.inf)


def sight(segments: Tensor, tools: int, size: int) -> Sight:
    """Read the masks off the segment numbers. segments: [rows, length]."""
    rows, length = segments.shape
    causal = added(torch.ones(tools, tools, dtype=torch.bool).tril())
    if length == tools:
        return Sight(tools, causal)
    own = segments[:, tools:].reshape(rows, -1, size)
    inside = own[..., None] == own[:, :, None, :]
    inside &= torch.ones(size, size, dtype=torch.bool).tril()
    shared = (segments[:, :tools] == 0)[:, None, None].expand(-1, own.shape[1], size, -1)
    return Sight(tools, causal, size, added(torch.cat((shared, inside), -1))[:, None, None])


def attend(q: Tensor, k: Tensor, v: Tensor, sight: Sight) -> Tensor:
    """Attention in two parts, tool lists and bins.

    q: [rows, heads, length, head]; k, v: [rows, kv heads, length, head]. Written as plain products:
    the CPU's fused attention is three times slower at these sizes, and here the keys of a tool list
    serve all its bins without being copied.
    """
    cut = sight.tools
    rows, heads, length, head = q.shape
    kv = k.shape[1]
    group = heads // kv
    q = q * head**-0.5
    keys, values = k[:, :, :cut], v[:, :, :cut]
    scores = q[:, :, :cut].reshape(rows, kv, group * cut, head) @ keys.mT
    scores = scores.view(rows, kv, group, cut, cut) + sight.causal.to(q.dtype)
    first = scores.softmax(-1).view(rows, kv, group * cut, cut) @ values
    first = first.view(rows, heads, cut, head)
    if sight.mask is None:
        return first
    size, bins = sight.bin, (length - cut) // sight.bin

    def by_bin(x: Tensor) -> Tensor:  # [.., group, bins, size, x] -> [.., bins, group * size, x]
        return x.transpose(2, 3).reshape(rows, kv, bins, -1, x.shape[-1])

    def back(x: Tensor) -> Tensor:
        return x.view(rows, kv, bins, group, size, -1).transpose(2, 3)

    q = q[:, :, cut:].reshape(rows, kv, group, bins, size, head)
    to_tools = q.reshape(rows, kv, -1, head) @ keys.mT
    to_own = by_bin(q) @ k[:, :, cut:].reshape(rows, kv, bins, size, head).mT
    to_tools = to_tools.view(rows, kv, group, bins, size, cut)
    scores = torch.cat((to_tools, back(to_own)), -1) + sight.mask.to(q.dtype)
    shares = scores.softmax(-1)
    from_tools = shares[..., :cut].reshape(rows, kv, -1, cut) @ values
    from_own = by_bin(shares[..., cut:]) @ v[:, :, cut:].reshape(rows, kv, bins, size, head)
    rest = from_tools.view(rows, kv, group, bins, size, head) + back(from_own)
    return torch.cat((first, rest.reshape(rows, heads, length - cut, head)), 2)


class Attention(nn.Module):
    """Grouped-query attention with normalised queries and keys."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.q_proj = nn.Linear(shape.width, shape.heads * shape.head, bias=False)
        self.k_proj = nn.Linear(shape.width, shape.kv_heads * shape.head, bias=False)
        self.v_proj = nn.Linear(shape.width, shape.kv_heads * shape.head, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head, shape.width, bias=False)
        self.q_norm, self.k_norm = Norm(shape.head), Norm(shape.head)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, sight: Sight) -> Tensor:
        rows, length, _ = x.shape
        split = (rows, length, -1, self.shape.head)
        q = rotate(self.q_norm(self.q_proj(x).view(split)).transpose(1, 2), cos, sin)
        k = rotate(self.k_norm(self.k_proj(x).view(split)).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(split).transpose(1, 2)
        with torch.autocast("cpu", enabled=False):
            out = attend(q, k, v.to(q.dtype), sight)
        return self.o_proj(out.transpose(1, 2).reshape(rows, length, -1))


class Feed(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.inner, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.inner, bias=False)
        self.down_proj = nn.Linear(shape.inner, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One pre-norm transformer layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(shape), Feed(shape)
        self.input_layernorm, self.post_attention_layernorm = Norm(shape.width), Norm(shape.width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, sight: Sight) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, sight)
        return x + self.mlp(self.post_attention_layernorm(x))


class Nano(nn.Module):
    """The whole model; `forward` gives hidden states, `logits` the scores of chosen places."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = nn.ModuleDict(
            {
                "embed_tokens": nn.Embedding(shape.vocabulary, shape.width),
                "layers": nn.ModuleList(Layer(shape) for _ in range(shape.layers)),
                "norm": Norm(shape.width),
            }
        )
        frequencies = shape.theta ** (-torch.arange(0, shape.head, 2) / shape.head)
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.start()

    def start(self) -> None:
        """What writes to the residual stream starts at zero; embeddings start large.

        Muon lets the layers write vectors of length ~sqrt(width) within fifty steps. Embeddings of the
        usual 0.02 drown in that and copying does not form; the small final norm keeps the tied logits
        in range instead.
        """
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.5 if "embed" in name else weight.shape[1] ** -0.5)
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.zeros_(weight)
        nn.init.constant_(self.model["norm"].weight, 0.1)

    def forward(self, ids: Tensor, positions: Tensor, sight: Sight) -> Tensor:
        """ids, positions: [rows, length] -> hidden states [rows, length, width]."""
        x = self.model["embed_tokens"](ids)
        angles = positions[:, None, :, None].float() * self.frequencies
        angles = torch.cat((angles, angles), -1)
        kind = torch.bfloat16 if torch.is_autocast_enabled("cpu") else x.dtype
        cos, sin = angles.cos().to(kind), angles.sin().to(kind)
        x = x.to(kind)
        for layer in self.model["layers"]:
            x = layer(x, cos, sin, sight)
        return self.model["norm"](x)

    def logits(self, hidden: Tensor) -> Tensor:
        return functional.linear(hidden, self.model["embed_tokens"].weight)
