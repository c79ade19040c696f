"""Ship a run: `python -m training.export --run training/runs/nano-1.toml`.

Quantises the weights of `out/hf` to ONNX, measures the run on the held-out sets, and fills
`src/callmemaybe/data/nano` with model, tokenizer, config, card and manifest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from training.export_onnx import Layout, Precision, export
from training.pieces import recipe as recipes
from training.pieces.card import card
from training.pieces.recipe import ROOT, Recipe

TARGET = ROOT / "src/callmemaybe/data/nano"
SOURCES = [
    {
        "name": "training/tasks and training/pieces/synthetic.py of this repository",
        "licence": "as the repository",
    },
    {
        "name": "Schema-Guided Dialogue, train split (google-research-datasets)",
        "licence": "CC BY-SA 4.0",
    },
]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def commit() -> str:
    """The commit the recipe and the task files are at."""
    done = subprocess.run(
        ["git", "log", "-1", "--format=%H", "--", "training"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def manifest(recipe: Recipe, report: dict[str, Any], precision: str) -> dict[str, Any]:
    """Where the files come from and what they should hash to."""
    files = sorted(p for p in TARGET.rglob("*") if p.is_file() and p.name != "manifest.json")
    return {
        "name": recipe.table["name"],
        "format": "nano",
        "architecture": "Qwen3ForCausalLM",
        "precision": precision,
        "training_commit": commit(),
        "recipe": str(recipe.path.resolve().relative_to(ROOT)),
        "seed": recipe.seed,
        "steps": report["steps"],
        "tokens": report["tokens"],
        "started_from": recipe.table["training"].get("before"),
        "finished": report["finished"],
        "training_functions": len(recipe.functions("train")),
        "held_out": report["scores"],
        "sources": SOURCES,
        "files": {
            str(p.relative_to(TARGET)): {"sha256": digest(p), "bytes": p.stat().st_size}
            for p in files
        },
    }


def fill(recipe: Recipe, layout: Layout, precision: Precision) -> None:
    """Write the whole folder."""
    source = recipe.out / "hf"
    config = json.loads((source / "config.json").read_text("utf-8"))
    tensors: dict[str, np.ndarray[Any, Any]] = load_file(source / "model.safetensors")
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    export(config, tensors, TARGET, layout=layout, precision=precision)
    for name in ("config.json", "generation_config.json", "tokenizer.json"):
        shutil.copyfile(source / name, TARGET / name)
    report = json.loads((recipe.out / "report.json").read_text("utf-8"))
    parameters = sum(int(tensor.size) for tensor in tensors.values())
    text = card(recipe, report, parameters=parameters, precision=precision)
    (TARGET / "MODEL_CARD.md").write_text(text, "utf-8")
    table = manifest(recipe, report, precision)
    (TARGET / "manifest.json").write_text(json.dumps(table, indent=2) + "\n", "utf-8")
    total = sum(entry["bytes"] for entry in table["files"].values())
    print(f"{TARGET.relative_to(ROOT)}: {total / 1e6:.2f} MB, {parameters / 1e6:.2f}M parameters")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--run", type=Path, default=ROOT / "training/runs/nano-1.toml")
    parser.add_argument("--layout", default="genai")
    parser.add_argument("--precision", default="int8")
    arguments = parser.parse_args()
    fill(recipes.load(arguments.run), arguments.layout, arguments.precision)


if __name__ == "__main__":
    main()
