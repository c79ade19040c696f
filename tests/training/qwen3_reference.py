"""A slow, obvious Qwen3 in numpy: the oracle of the exporter and of every session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def tiny_config(**changes: Any) -> dict[str, Any]:
    """Return a Qwen3 configuration small enough to be exported in a blink."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "attention_bias": False,
        "vocab_size": 97,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 128,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": 1,
    } | changes


def random_tensors(config: Mapping[str, Any], seed: int = 0) -> dict[str, Array]:
    """Return weights that make logits vary by a few units, under the Hugging Face names."""
    rng = np.random.default_rng(seed)
    hidden, inner, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * size, config["num_key_value_heads"] * size

    def matrix(rows: int, columns: int) -> Array:
        return (rng.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)

    def gain(width: int) -> Array:
        return (1 + 0.2 * rng.standard_normal(width)).astype(np.float32)

    tensors = {
        "model.embed_tokens.weight": matrix(config["vocab_size"], hidden) * 3,
        "model.norm.weight": gain(hidden),
    }
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        tensors |= {
            f"{at}input_layernorm.weight": gain(hidden),
            f"{at}post_attention_layernorm.weight": gain(hidden),
            f"{at}self_attn.q_norm.weight": gain(size),
            f"{at}self_attn.k_norm.weight": gain(size),
            f"{at}self_attn.q_proj.weight": matrix(q, hidden),
            f"{at}self_attn.k_proj.weight": matrix(kv, hidden),
            f"{at}self_attn.v_proj.weight": matrix(kv, hidden),
            f"{at}self_attn.o_proj.weight": matrix(hidden, q),
            f"{at}mlp.gate_proj.weight": matrix(inner, hidden),
            f"{at}mlp.up_proj.weight": matrix(inner, hidden),
            f"{at}mlp.down_proj.weight": matrix(hidden, inner),
        }
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = matrix(config["vocab_size"], hidden)
    return tensors


def forward(config: Mapping[str, Any], tensors: Mapping[str, Array], ids: Sequence[int]) -> Array:
    """Return logits ``float64[len(ids), vocab_size]``, from the published definition of the model."""
    weights = {name: np.asarray(value, np.float64) for name, value in tensors.items()}
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size, length = config["head_dim"], len(ids)

    def norm(x: Array, gain: Array) -> Array:
        mean = (x * x).mean(-1, keepdims=True)
        return x / np.sqrt(mean + config["rms_norm_eps"]) * gain

    frequency = config["rope_theta"] ** (-np.arange(0, size, 2) / size)
    angle = np.arange(length)[:, None] * np.concatenate([frequency, frequency])[None, :]

    def rotate(x: Array) -> Array:
        left, right = x[..., : size // 2], x[..., size // 2 :]
        turned = np.concatenate([-right, left], axis=-1)
        return x * np.cos(angle)[:, None] + turned * np.sin(angle)[:, None]

    x = weights["model.embed_tokens.weight"][list(ids)]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."

        def linear(y: Array, name: str, at: str = at) -> Array:
            return y @ weights[f"{at}{name}.weight"].T

        h = norm(x, weights[f"{at}input_layernorm.weight"])
        q = linear(h, "self_attn.q_proj").reshape(length, heads, size)
        k = linear(h, "self_attn.k_proj").reshape(length, kv_heads, size)
        v = linear(h, "self_attn.v_proj").reshape(length, kv_heads, size)
        q = rotate(norm(q, weights[f"{at}self_attn.q_norm.weight"]))
        k = rotate(norm(k, weights[f"{at}self_attn.k_norm.weight"]))
        mixed = np.zeros((length, heads, size))
        for head in range(heads):
            kv = head * kv_heads // heads
            for row in range(length):
                scores = k[: row + 1, kv] @ q[row, head] / np.sqrt(size)
                share = np.exp(scores - scores.max())
                mixed[row, head] = (share / share.sum()) @ v[: row + 1, kv]
        x = x + linear(mixed.reshape(length, -1), "self_attn.o_proj")
        h = norm(x, weights[f"{at}post_attention_layernorm.weight"])
        gate = linear(h, "mlp.gate_proj")
        gate = gate / (1 + np.exp(-gate))
        x = x + linear(gate * linear(h, "mlp.up_proj"), "mlp.down_proj")
    x = norm(x, weights["model.norm.weight"])
    head = "model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return np.asarray(x @ weights[head].T)
