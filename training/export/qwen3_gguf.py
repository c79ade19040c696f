"""Writes a Qwen3-architecture model as GGUF, from numpy arrays alone (no llama.cpp, no torch).

The layout is that of ggml's ``docs/gguf.md``, version 3; tensor names and metadata are those that
llama.cpp's own converter writes for ``Qwen3ForCausalLM``. ``q8_0`` and ``q4_0`` are ggml's blocks of
32 along the input axis, each with one half-precision scale; norms stay in float32.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from training.export.qwen3_config import Qwen3Config

Kind = Literal["f32", "f16", "q8_0", "q4_0"]
Array = NDArray[Any]

ALIGNMENT = 32
BLOCK = 32
#: ggml's numbers of tensor types, and of files that are mostly of one type.
TYPES: Mapping[str, int] = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8}
FILE_TYPES: Mapping[str, int] = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 7}
NAMES: Mapping[str, str] = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OUTER: Mapping[str, str] = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
_NORMAL, _CONTROL, _USER, _UNUSED = 1, 3, 4, 5


def export(
    config: Mapping[str, Any],
    tensors: Mapping[str, Array],
    path: Path,
    *,
    kind: Kind = "q8_0",
    tokenizer: str | None = None,
    pre: str = "qwen2",
    ends: Mapping[str, int] | None = None,
    chat_template: str | None = None,
) -> Path:
    """Write one file with everything in it.

    ``config`` and ``tensors`` are those of :func:`training.export.qwen3_onnx.export`. ``tokenizer`` is the
    text of a byte-level ``tokenizer.json``, None for made-up tokens; ``pre`` is llama.cpp's name of
    its way to split. ``ends`` are metadata such as ``{"eos_token_id": 3}``.
    Raises ValueError for a configuration or tensors that are not such a model.
    """
    if kind not in get_args(Kind):
        raise ValueError(f"no kind {kind!r}")
    shape = Qwen3Config(config)
    shape.check(tensors)
    held = _metadata(shape, kind) | _tokens(tokenizer, shape.vocab, pre)
    held |= {f"tokenizer.ggml.{name}": value for name, value in (ends or {}).items()}
    if chat_template is not None:
        held["tokenizer.chat_template"] = chat_template
    wanted = [name for name in tensors if not (shape.tied and name == "lm_head.weight")]
    with path.open("wb") as file:
        _write(file, held, [(name, tensors[name]) for name in wanted], kind)
    return path


def _metadata(shape: Qwen3Config, kind: Kind) -> dict[str, Any]:
    numbers = {
        "block_count": shape.layers,
        "context_length": shape.context,
        "embedding_length": shape.hidden,
        "feed_forward_length": shape.inner,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.key_length": shape.head,
        "attention.value_length": shape.head,
        "rope.freq_base": float(shape.theta),
        "attention.layer_norm_rms_epsilon": float(shape.epsilon),
    }
    return {
        "general.architecture": "qwen3",
        "general.name": "random",
        "general.file_type": FILE_TYPES[kind],
        "general.quantization_version": 2,
        **{f"qwen3.{name}": value for name, value in numbers.items()},
    }


def _tokens(tokenizer: str | None, size: int, pre: str) -> dict[str, Any]:
    """Return the tokens in the way of llama.cpp's converter, padded to ``size``."""
    tokens = [f"[PAD{index}]" for index in range(size)]
    kinds = [_UNUSED] * size
    merges: list[str] = []
    if tokenizer is None:
        kinds = [_NORMAL] * size
    else:
        data = json.loads(tokenizer)
        for text, index in data["model"]["vocab"].items():
            tokens[index], kinds[index] = text, _NORMAL
        for entry in data["added_tokens"]:
            tokens[entry["id"]] = entry["content"]
            kinds[entry["id"]] = _CONTROL if entry["special"] else _USER
        merges = [
            merge if isinstance(merge, str) else " ".join(merge)
            for merge in data["model"]["merges"]
        ]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.add_bos_token": False,
    }


def _renamed(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem in OUTER:
        return f"{OUTER[stem]}.weight"
    _, _, layer, inner = stem.split(".", 3)
    return f"blk.{layer}.{NAMES[inner]}.weight"


def _write(
    file: BinaryIO, held: Mapping[str, Any], tensors: list[tuple[str, Array]], kind: Kind
) -> None:
    file.write(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(held)))
    file.writelines(_string(key) + _value(value) for key, value in held.items())
    at = 0
    sizes = []
    for name, array in tensors:
        chosen = kind if array.ndim == 2 else "f32"
        width = {"f32": 4.0, "f16": 2.0, "q8_0": 34 / BLOCK, "q4_0": 18 / BLOCK}[chosen]
        if chosen[0] == "q" and array.shape[-1] % BLOCK:
            raise ValueError(f"{name} has rows of {array.shape[-1]}, not a multiple of {BLOCK}")
        file.write(_string(_renamed(name)) + struct.pack("<I", array.ndim))
        file.write(struct.pack(f"<{array.ndim}Q", *reversed(array.shape)))
        file.write(struct.pack("<IQ", TYPES[chosen], at))
        size = int(array.size * width)
        sizes.append((chosen, size))
        at += size + -size % ALIGNMENT
    file.write(b"\0" * (-file.tell() % ALIGNMENT))
    for (chosen, size), (_, array) in zip(sizes, tensors, strict=True):
        file.writelines(_encoded(np.asarray(array), chosen))
        file.write(b"\0" * (-size % ALIGNMENT))


def _encoded(array: Array, kind: str) -> Iterator[bytes]:
    """Return the bytes of a tensor, some rows at a time."""
    step = max(1, (1 << 22) // array.shape[-1])
    rows = array.reshape(-1, array.shape[-1])
    for start in range(0, len(rows), step):
        part = rows[start : start + step].astype(np.float32)
        if kind == "f32":
            yield part.astype("<f4").tobytes()
        elif kind == "f16":
            yield part.astype("<f2").tobytes()
        else:
            yield (_q8 if kind == "q8_0" else _q4)(part.reshape(-1, BLOCK)).tobytes()


def _q8(blocks: Array) -> Array:
    """ggml's q8_0: a scale and 32 signed bytes."""
    scale = np.abs(blocks).max(axis=1, keepdims=True) / 127
    codes = np.round(blocks * np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0))
    return np.concatenate(
        [scale.astype("<f2").view(np.uint8), codes.astype(np.int8).view(np.uint8)], axis=1
    )


def _q4(blocks: Array) -> Array:
    """ggml's q4_0: a scale and 16 bytes, of which the low halves are the first 16 codes."""
    at = np.abs(blocks).argmax(axis=1)[:, None]
    scale = np.take_along_axis(blocks, at, axis=1) / -8
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
    codes = np.minimum(15, blocks * inverse + 8.5).astype(np.uint8)
    packed = codes[:, :16] | (codes[:, 16:] << 4)
    return np.concatenate([scale.astype("<f2").view(np.uint8), packed], axis=1)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    if isinstance(value, list):
        if not value or isinstance(value[0], str):
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_string, value))
        return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    return struct.pack("<II", 4, value)
