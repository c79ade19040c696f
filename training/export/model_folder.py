"""The folder of an exported model: `python -m training.export --run training/runs/nano-2.toml [--release]`.

Writes the averaged weights as an ONNX graph with integer weights, with tokenizer, config, model card and manifest, to
`training/out/<run>/export`, which git ignores. The scores are those of `training.evaluate`. `--release` copies that folder
to `src/callmemaybe/data/nano`: only a model that replaces a release is committed, because every version of the weights
stays in the history (17 MB each).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from callmemaybe.tuning.packing import Encoder
from callmemaybe.tuning.rendering import CONTROL_TOKENS, END, PAD, TOOLS
from training import recipe as recipes
from training.checkpoint import load_trained
from training.data.packing import BatchLimits, draw_batch
from training.export import onnx_graph, weight_places
from training.export.model_card import card
from training.export.token_features import segments
from training.recipe import RELEASE, ROOT, Recipe

CONTEXT = 8192
LISTS, PAIRS = 32, 4
SOURCES = [
    {
        "name": "training/data/sources and training/data/generators of this repository",
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
    """SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def commit() -> str:
    """The last commit that changed anything of `training/`."""
    done = subprocess.run(
        ["git", "log", "-1", "--format=%H", "--", "training"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def samples(recipe: Recipe, encoder: Encoder) -> Iterator[list[int]]:
    """Yield tools with a request and its answer, as in training, to measure activations: `PAIRS` of `LISTS` tool lists."""
    maker, limits = recipe.maker("train"), BatchLimits(1, PAIRS, 150, 280)
    tools = encoder.control(TOOLS)
    for number in range(LISTS):
        row = draw_batch(maker, encoder, f"{recipe.seed} export {number}", limits).rows[0]
        listed = [tools, *(each for tool in row.tools for each in tool)]
        yield from (listed + placed.ids for placed in row.pairs)


def manifest(recipe: Recipe, report: dict[str, Any], target: Path) -> dict[str, Any]:
    """Where the files come from, and their hashes."""
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
    """Add the scores that `training.evaluate` wrote to the counts of a checkpoint.

    Raises SystemExit if they belong to another checkpoint.
    """
    if not file.is_file():
        return report
    scores = json.loads(file.read_text("utf-8"))
    if any(scores.get(key) != report[key] for key in ("steps", "tokens", "pairs", "mean_of")):
        raise SystemExit(
            f"{file} belongs to another checkpoint (minute {scores.get('minutes')}, not {report['minutes']}): "
            "measure this one with python -m training.evaluate, or remove the file"
        )
    return {**report, "scores": scores["scores"]}


def export(recipe: Recipe, target: Path, bits: int) -> None:
    """Write the model folder of a run's checkpoint; raises SystemExit if `target` holds other files."""
    with replaced_folder(target) as part:
        size = fill(recipe, part, bits)
    print(f"{target}: {size}")


def release(source: Path, target: Path = RELEASE) -> None:
    """Replace the shipped model by an exported one, byte for byte.

    Raises SystemExit if `source` is no exported model, or one without scores or whose files its manifest does not describe.
    """
    file = source / "manifest.json"
    if not file.is_file():
        raise SystemExit(f"{source} holds no exported model: run python -m training.export first")
    table = json.loads(file.read_text("utf-8"))
    if not table["held_out"]:
        raise SystemExit(f"{source} has no scores: run python -m training.evaluate, then export")
    for name, entry in table["files"].items():
        if digest(source / name) != entry["sha256"]:
            raise SystemExit(f"{source / name} is not the file that its manifest describes")
    with replaced_folder(target) as part:
        shutil.copytree(source, part)
    print(f"{target}: released; commit it only if it replaces the released model")


@contextmanager
def replaced_folder(target: Path) -> Iterator[Path]:
    """Yield the path of a new folder, which replaces `target` when the block ends without an error.

    Raises SystemExit if `target` holds something else than an exported model.
    """
    target = target.resolve()
    if target.exists() and not (target / "manifest.json").is_file() and any(target.iterdir()):
        raise SystemExit(f"{target} holds no exported model: name a folder that is new or empty")
    part = target.with_name(f"part-{target.name}")
    shutil.rmtree(part, ignore_errors=True)
    try:
        yield part
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def fill(recipe: Recipe, target: Path, bits: int) -> str:
    """Write the files into a new folder; returns its size in words."""
    model, encoder, report = load_trained(recipe)
    report = scored(report, recipe.out / "report.json")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    target.mkdir(parents=True)
    controls = {text: encoder.control(text) for text in CONTROL_TOKENS}
    newline, model_file = encoder.text("\n")[0], target / "model.onnx"
    texts = samples(recipe, encoder)
    onnx_graph.write(model, controls, newline, model_file, bits=bits, samples=texts)
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
        "segments": segments(controls),
    }
    write_json(target / "config.json", config)
    settings = {"do_sample": False, "eos_token_id": controls[END], "pad_token_id": controls[PAD]}
    write_json(target / "generation_config.json", settings)
    if "scores" in report:
        text = card(recipe, report, parameters=parameters, vocabulary=len(model.base))
        (target / "MODEL_CARD.md").write_text(text, "utf-8")
    if bits == 8:
        weight_places.write(model, encoder, target)
    table = manifest(recipe, report, target)
    write_json(target / "manifest.json", table)
    total = sum(entry["bytes"] for entry in table["files"].values())
    return f"{total / 1e6:.2f} MB, {parameters / 1e6:.2f}M parameters"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--run", type=Path, default=recipes.DEFAULT)
    parser.add_argument("--out", type=Path, help="folder to write; default: `export` in the run's")
    parser.add_argument("--bits", type=int, default=8, choices=(8, 32))
    parser.add_argument(
        "--release", action="store_true", help="copy the exported model into the package instead"
    )
    arguments = parser.parse_args()
    recipe = recipes.load(arguments.run)
    folder = arguments.out or recipe.exported
    if arguments.release:
        release(folder)
    elif folder.resolve() == RELEASE.resolve():
        parser.error(f"{folder} is the shipped model: export elsewhere, then use --release")
    else:
        export(recipe, folder, arguments.bits)
