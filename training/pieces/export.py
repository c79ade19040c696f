"""The Hugging Face folder of a model: what every backend and exporter starts from."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors.torch import save_file

from training.pieces.model import Nano
from training.pieces.packing import Encoder
from training.pieces.rendering import END, PAD


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


def save_hf(model: Nano, encoder: Encoder, out: Path) -> Path:
    """Write config, weights, tokenizer and generation settings to `out/hf`."""
    folder = out / "hf"
    folder.mkdir(parents=True, exist_ok=True)
    end, pad = encoder.control(END), encoder.control(PAD)
    tensors = {name: weight.detach().contiguous() for name, weight in model.named_parameters()}
    part = folder / "model.part"
    save_file(tensors, part, metadata={"format": "pt"})
    part.replace(folder / "model.safetensors")
    write_json(folder / "config.json", model.shape.config(end=end, pad=pad))
    write_json(
        folder / "generation_config.json",
        {"do_sample": False, "eos_token_id": end, "pad_token_id": pad},
    )
    (folder / "tokenizer.json").write_bytes((out / "tokenizer.json").read_bytes())
    return folder
