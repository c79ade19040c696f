"""Ship a run: `python -m training.export --run training/runs/nano-2.toml`.

Writes the averaged weights as an ONNX graph with integer weights, with tokenizer, config, card and
manifest, to `src/callmemaybe/data/nano`. The scores are those of `training.evaluate`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from training import recipe as recipes
from training.data.packing import Encoder, Limits, draw_batch
from training.data.rendering import CONTROL_TOKENS, END, PAD, TOOLS
from training.export import onnx_graph
from training.export.model_card import card
from training.loop import new_model
from training.nn.model import Nano
from training.recipe import ROOT, Recipe

TARGET = ROOT / "src/callmemaybe/data/nano"
CONTEXT = 8192
LISTS, PAIRS = 32, 4
SOURCES = [
    {
        "name": "training/tasks and training/data/generators/synthetic.py of this repository",
        "licence": "as the repository",
    },
    {
        "name": "Schema-Guided Dialogue, train split (google-research-datasets)",
        "licence": "CC BY-SA 4.0",
    },
    {
        "name": "WordNet 3.0 (Princeton University): co-occurrence of words in synsets",
        "licence": "WordNet 3.0 licence",
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


def load(recipe: Recipe) -> tuple[Nano, Encoder, dict[str, Any]]:
    """The averaged weights of the last checkpoint, and what it counted."""
    state = torch.load(recipe.out / "checkpoint.pt", weights_only=True)
    model, encoder = new_model(recipe)
    model.load_state_dict(state["average"])
    step, tokens, pairs, elapsed = state["counters"]
    counted = {"steps": step, "tokens": tokens, "pairs": pairs, "minutes": round(elapsed / 60, 1)}
    counted["finished"] = elapsed >= 60 * recipe.table["training"]["minutes"]
    counted["mean_of"] = state.get("mean_of", [])
    return model.float().eval(), encoder, counted


def samples(recipe: Recipe, encoder: Encoder) -> Iterator[list[int]]:
    """Tools with a request and its answer, as in training: some of each of `LISTS` lists of tools."""
    maker, limits = recipe.maker("train"), Limits(1, PAIRS, 150, 280)
    tools = encoder.control(TOOLS)
    for number in range(LISTS):
        row = draw_batch(maker, encoder, f"{recipe.seed} export {number}", limits).rows[0]
        listed = [tools, *(each for tool in row.tools for each in tool)]
        yield from (listed + placed.ids for placed in row.pairs)


def manifest(recipe: Recipe, report: dict[str, Any], target: Path) -> dict[str, Any]:
    """Where the files come from and what they should hash to."""
    files = sorted(p for p in target.rglob("*") if p.is_file() and p.name != "manifest.json")
    return {
        "name": recipe.table["name"],
        "format": "nano",
        "architecture": "NanoForToolCalling",
        "precision": "int8",
        "training_commit": commit(),
        "recipe": recipe.shown,
        "seed": recipe.seed,
        "steps": report["steps"],
        "tokens": report["tokens"],
        "requests": report["pairs"],
        "minutes": report["minutes"],
        "finished": report["finished"],
        **({"mean_of_minutes": report["mean_of"]} if report["mean_of"] else {}),
        "training_functions": len(recipe.functions("train")),
        "held_out": report.get("scores", {}),
        "sources": SOURCES,
        "files": {
            str(p.relative_to(target)): {"sha256": digest(p), "bytes": p.stat().st_size}
            for p in files
        },
    }


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


def scored(report: dict[str, Any], file: Path) -> dict[str, Any]:
    """What a checkpoint counted, with its scores if `training.evaluate` has written some.

    Raises SystemExit if they are those of another checkpoint.
    """
    if not file.is_file():
        return report
    told = json.loads(file.read_text("utf-8"))
    if any(told.get(key) != report[key] for key in ("steps", "tokens", "pairs", "mean_of")):
        raise SystemExit(
            f"{file} tells of another checkpoint (minute {told.get('minutes')}, not {report['minutes']}): "
            "measure this one with python -m training.evaluate, or remove the file"
        )
    return {**report, "scores": told["scores"]}


def export(recipe: Recipe, target: Path, bits: int) -> None:
    """Put the shipped files in the place of those in `target`, once all are written.

    Raises SystemExit if the folder holds something else.
    """
    target = target.resolve()
    if target.exists() and not (target / "manifest.json").is_file() and any(target.iterdir()):
        raise SystemExit(f"{target} holds no exported model: name a folder that is new or empty")
    part = target.with_name(f"part-{target.name}")
    shutil.rmtree(part, ignore_errors=True)
    try:
        size = fill(recipe, part, bits)
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    print(f"{target}: {size}")


def fill(recipe: Recipe, target: Path, bits: int) -> str:
    """Write the whole folder, which is new, and say how much it is."""
    model, encoder, report = load(recipe)
    report = scored(report, recipe.out / "report.json")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    target.mkdir(parents=True)
    controls = {text: encoder.control(text) for text in CONTROL_TOKENS}
    newline, model_file = encoder.text("\n")[0], target / "model.onnx"
    said = samples(recipe, encoder)
    onnx_graph.write(model, controls, newline, model_file, bits=bits, samples=said)
    shutil.copyfile(recipe.out / "tokenizer.json", target / "tokenizer.json")
    config = {
        "architectures": ["NanoForToolCalling"],
        "model_type": "callmemaybe_nano",
        "vocab_size": len(model.base),
        "hidden_size": model.shape.width,
        "num_hidden_layers": model.shape.layers + model.shape.deep,
        "max_position_embeddings": CONTEXT,
        "eos_token_id": controls[END],
        "pad_token_id": controls[PAD],
    }
    write_json(target / "config.json", config)
    settings = {"do_sample": False, "eos_token_id": controls[END], "pad_token_id": controls[PAD]}
    write_json(target / "generation_config.json", settings)
    if "scores" in report:
        text = card(recipe, report, parameters=parameters, vocabulary=len(model.base))
        (target / "MODEL_CARD.md").write_text(text, "utf-8")
    table = manifest(recipe, report, target)
    write_json(target / "manifest.json", table)
    total = sum(entry["bytes"] for entry in table["files"].values())
    return f"{total / 1e6:.2f} MB, {parameters / 1e6:.2f}M parameters"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--run", type=Path, default=ROOT / "training/runs/nano-2.toml")
    parser.add_argument("--out", type=Path, default=TARGET)
    parser.add_argument("--bits", type=int, default=8, choices=(8, 32))
    arguments = parser.parse_args()
    export(recipes.load(arguments.run), arguments.out, arguments.bits)


if __name__ == "__main__":
    main()
