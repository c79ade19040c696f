"""Random models of exactly the shape of published ones, in every form that an engine reads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from training.export import qwen3_gguf as export_gguf
from training.export import qwen3_onnx as export_onnx
from training.export import qwen3_rows as export_rows
from training.export.qwen3_config import Qwen3Config

#: Published configurations (Qwen/Qwen3-0.6B's config.json), and a small one to try things out.
CONFIGS: dict[str, dict[str, Any]] = {
    "qwen3-0.6b": {
        "vocab_size": 151_936,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 40_960,
        "rope_theta": 1_000_000.0,
    },
    "small": {
        "vocab_size": 151_936,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 8192,
        "rope_theta": 1_000_000.0,
    },
}
COMMON: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_act": "silu",
    "attention_bias": False,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "bos_token_id": 151_643,
    "eos_token_id": 151_645,
    "torch_dtype": "bfloat16",
}
FORMS = ("onnx-int4", "onnx-rows8", "gguf-q4_0", "gguf-q8_0", "safetensors-bf16")


def make(
    shape: str, folder: Path, tokenizer: Path, forms: Iterable[str] = FORMS
) -> dict[str, Path]:
    """Write the forms that are not there yet; return what ``models.load`` takes, by form.

    ``tokenizer`` is a folder with Qwen3's tokenizer.json.
    """
    config = COMMON | CONFIGS[shape]
    paths = {form: folder / shape / form for form in forms}
    found = {
        form: path / "model.gguf" if form.startswith("gguf") else path
        for form, path in paths.items()
    }
    missing = [form for form, path in paths.items() if not (path / "done").exists()]
    if missing:
        tensors = random_tensors(config)
        for form in missing:
            paths[form].mkdir(parents=True, exist_ok=True)
            _write(form, config, tensors, paths[form], tokenizer)
            (paths[form] / "done").touch()
    return found


def random_tensors(config: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Return float32 weights, each row scaled so that activations stay in range."""
    random = np.random.default_rng(seed)
    tensors = {}
    for name, shape in Qwen3Config(config).shapes().items():
        if len(shape) == 1:
            tensors[name] = np.ones(shape, np.float32)
        else:
            weights = random.standard_normal(shape, dtype=np.float32)
            weights *= np.float32(shape[-1] ** -0.5)
            tensors[name] = weights
    return tensors


def _write(form: str, config: dict[str, Any], tensors: Any, path: Path, tokenizer: Path) -> None:
    kind, _, precision = form.partition("-")
    text = (tokenizer / "tokenizer.json").read_text(encoding="utf-8")
    settings = json.loads((tokenizer / "tokenizer_config.json").read_text(encoding="utf-8"))
    if kind == "gguf":
        export_gguf.export(
            config,
            tensors,
            path / "model.gguf",
            kind=precision,  # type: ignore[arg-type]
            tokenizer=text,
            ends={"eos_token_id": config["eos_token_id"]},
            chat_template=settings.get("chat_template"),
        )
        return
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, path / name)
    if form == "onnx-rows8":
        export_rows.export(config, tensors, path)
        return
    if kind == "onnx":
        export_onnx.export(config, tensors, path, layout="genai", precision=precision)  # type: ignore[arg-type]
        return
    import torch
    from safetensors.torch import save_file

    kept = {name: torch.from_numpy(value).to(torch.bfloat16) for name, value in tensors.items()}
    save_file(kept, path / "model.safetensors", metadata={"format": "pt"})
    (path / "config.json").write_text(json.dumps(config, indent=2))
