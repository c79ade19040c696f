"""What a Qwen3 configuration means: the sizes, and the tensors that must be there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Qwen3Config:
    """The numbers of a Qwen3 configuration, under short names."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        kind = config.get("model_type", "qwen3")
        if kind != "qwen3":
            raise ValueError(f"only the qwen3 architecture is written here, not {kind!r}")
        if config.get("hidden_act", "silu") != "silu" or config.get("attention_bias", False):
            raise ValueError("a Qwen3 model has the silu activation and no attention biases")
        if config.get("rope_scaling") or config.get("use_sliding_window"):
            raise ValueError("scaled rotary positions and sliding windows are not written here")
        self.vocab = int(config["vocab_size"])
        self.hidden = int(config["hidden_size"])
        self.inner = int(config["intermediate_size"])
        self.layers = int(config["num_hidden_layers"])
        self.heads = int(config["num_attention_heads"])
        self.kv_heads = int(config.get("num_key_value_heads", self.heads))
        self.head = int(config.get("head_dim", self.hidden // self.heads))
        self.context = int(config["max_position_embeddings"])
        rope = config.get("rope_parameters") or {}
        self.theta = float(config.get("rope_theta", rope.get("rope_theta", 10_000.0)))
        self.epsilon = float(config.get("rms_norm_eps", 1e-6))
        self.tied = bool(config.get("tie_word_embeddings", False))

    def check(self, tensors: Mapping[str, Array]) -> None:
        expected = self.shapes()
        missing = sorted(expected.keys() - tensors.keys())
        if missing:
            raise ValueError(f"tensors missing: {', '.join(missing[:5])} ({len(missing)} in all)")
        extra = sorted(tensors.keys() - expected.keys() - {"lm_head.weight"})
        if extra:
            raise ValueError(f"tensors of no use to a Qwen3 model: {', '.join(extra[:5])}")
        for name, shape in expected.items():
            if tuple(tensors[name].shape) != shape:
                raise ValueError(f"{name} has shape {tensors[name].shape}, expected {shape}")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor name with its shape."""
        q, kv = self.heads * self.head, self.kv_heads * self.head
        found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (self.vocab, self.hidden)}
        for layer in range(self.layers):
            at = f"model.layers.{layer}."
            found |= {
                f"{at}input_layernorm.weight": (self.hidden,),
                f"{at}post_attention_layernorm.weight": (self.hidden,),
                f"{at}self_attn.q_norm.weight": (self.head,),
                f"{at}self_attn.k_norm.weight": (self.head,),
                f"{at}self_attn.q_proj.weight": (q, self.hidden),
                f"{at}self_attn.k_proj.weight": (kv, self.hidden),
                f"{at}self_attn.v_proj.weight": (kv, self.hidden),
                f"{at}self_attn.o_proj.weight": (self.hidden, q),
                f"{at}mlp.gate_proj.weight": (self.inner, self.hidden),
                f"{at}mlp.up_proj.weight": (self.inner, self.hidden),
                f"{at}mlp.down_proj.weight": (self.hidden, self.inner),
            }
        found["model.norm.weight"] = (self.hidden,)
        if not self.tied:
            found["lm_head.weight"] = (self.vocab, self.hidden)
        return found

    def rotary(self) -> tuple[Array, Array]:
        """Cosine and sine, each ``float32[context, head / 2]``."""
        frequency = self.theta ** (-np.arange(0, self.head, 2, dtype=np.float64) / self.head)
        angle = np.arange(self.context, dtype=np.float64)[:, None] * frequency[None, :]
        return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def genai_config(shape: Qwen3Config, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what onnxruntime-genai reads beside the graph."""
    eos = config.get("eos_token_id")
    pad = config.get("pad_token_id")
    if pad is None:
        pad = eos[0] if isinstance(eos, list) and eos else eos
    decoder = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": "model.onnx",
        "head_size": shape.head,
        "hidden_size": shape.hidden,
        "inputs": {
            "input_ids": "input_ids",
            "attention_mask": "attention_mask",
            "past_key_names": "past_key_values.%d.key",
            "past_value_names": "past_key_values.%d.value",
        },
        "outputs": {
            "logits": "logits",
            "present_key_names": "present.%d.key",
            "present_value_names": "present.%d.value",
        },
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
    }
    return {
        "model": {
            "bos_token_id": config.get("bos_token_id"),
            "context_length": shape.context,
            "decoder": decoder,
            "eos_token_id": eos,
            "pad_token_id": pad,
            "type": "qwen3",
            "vocab_size": shape.vocab,
        },
        "search": {
            "do_sample": False,
            "max_length": shape.context,
            "min_length": 0,
            "num_beams": 1,
            "num_return_sequences": 1,
            "past_present_share_buffer": True,
            "repetition_penalty": 1.0,
            "temperature": 1.0,
            "top_k": 1,
            "top_p": 1.0,
        },
    }
