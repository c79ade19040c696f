"""The command ``models``: what can be run here, what lies in the cache, and what to fetch next."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer


class Engine(NamedTuple):
    """A package that runs models, what it runs, and the extra that installs it."""

    package: str
    runs: str
    extra: str | None


class Known(NamedTuple):
    """A published model that fits: its name here, its size on disk, what the engine is."""

    name: str
    gigabytes: float
    runs: str
    #: What to fetch, as patterns; the rest of such a repository is other variants.
    patterns: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command that fetches exactly this, where there is a network."""
        repository = self.name.partition(":")[0]
        wanted = (*self.patterns, "*.json", "*.jinja")
        return f"hf download {repository} " + " ".join(f'--include "{one}"' for one in wanted)


ENGINES = (
    Engine("onnxruntime", ".onnx", None),
    Engine("llama-cpp-python", ".gguf", "gguf"),
    Engine("transformers", ".safetensors", "torch"),
    Engine("httpx2", "http(s)://host/v1#model", "remote"),
)
# Sizes follow from the shape (28 layers, 1,024 wide, 151,936 tokens) and the bits of each form; the
# 4-bit ONNX file is the larger for its embedding, which stays in float32 there.
KNOWN = (
    Known("onnx-community/Qwen3-0.6B-ONNX:q4", 0.9, ".onnx", ("onnx/model_q4.onnx*",)),
    Known("onnx-community/Qwen3-0.6B-ONNX:q4f16", 0.6, ".onnx", ("onnx/model_q4f16.onnx*",)),
    Known("onnx-community/Qwen3-0.6B-ONNX:fp32", 2.4, ".onnx", ("onnx/model.onnx*",)),
    Known("Qwen/Qwen3-0.6B-GGUF:Q8_0", 0.64, ".gguf", ("*Q8_0.gguf",)),
    Known("Qwen/Qwen3-0.6B:bf16", 1.5, ".safetensors", ("*.safetensors",)),
)


def models(
    cache: Annotated[
        Path | None, typer.Option(help="Where downloads are kept (default: the hub's cache).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the models that are here, those in the cache, and how to fetch more."""
    found = {
        "installed": [_embedded()],
        "cached": list(_cached(cache)),
        "known": [
            {
                "name": one.name,
                "bytes": int(one.gigabytes * 1e9),
                "runs": one.runs,
                "fetch": one.command,
            }
            for one in KNOWN
        ],
        "engines": [_engine(one) for one in ENGINES],
    }
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    _print(found)


def _embedded() -> dict[str, Any]:
    folder = Path(str(files("callmemaybe"))) / "data" / "nano"
    size = sum(path.stat().st_size for path in folder.glob("*") if path.is_file())
    return {"name": "nano", "bytes": size, "runs": ".onnx"}


def _engine(engine: Engine) -> dict[str, Any]:
    try:
        found: str | None = version(engine.package)
    except PackageNotFoundError:
        found = None
    install = f"pip install 'callmemaybe[{engine.extra}]'" if engine.extra else None
    return {"package": engine.package, "version": found, "runs": engine.runs, "install": install}


def _cached(cache: Path | None) -> Iterator[dict[str, Any]]:
    """Yield the variants of cached repositories that can be loaded as they are."""
    import huggingface_hub

    from callmemaybe.models import variants_in

    try:
        held = huggingface_hub.scan_cache_dir(cache)
    except (huggingface_hub.CacheNotFound, ValueError):
        return
    for repository in sorted(held.repos, key=lambda one: one.repo_id):
        if repository.repo_type != "model":
            continue
        for revision in sorted(repository.revisions, key=lambda one: one.commit_hash):
            sizes = {
                file.file_path.relative_to(revision.snapshot_path).as_posix(): file.size_on_disk
                for file in revision.files
            }
            for variant, needed in variants_in(sizes):
                name = f"{repository.repo_id}:{variant}" if variant else repository.repo_id
                if all(one in sizes for one in needed):
                    yield {"name": name, "bytes": sum(sizes[one] for one in needed)}


def _print(found: dict[str, list[dict[str, Any]]]) -> None:
    installed = {engine["runs"]: engine for engine in found["engines"]}
    typer.echo("Here:")
    for model in (*found["installed"], *found["cached"]):
        typer.echo(f"  {model['name']:<44} {_size(model['bytes'])}")
    typer.echo("\nKnown to fit (Qwen3-0.6B in its published forms; sizes are approximate):")
    have = {model["name"].lower() for model in found["cached"]}
    for model in found["known"]:
        if model["name"].lower() in have:
            continue
        engine = installed[model["runs"]]
        needs = "" if engine["version"] else f"   needs {engine['package']}"
        typer.echo(f"  {model['name']:<44} {_size(model['bytes'])}{needs}")
        typer.echo(f"    {model['fetch']}")
    typer.echo("\nEngines:")
    for engine in found["engines"]:
        state = engine["version"] or f"not installed: {engine['install']}"
        typer.echo(f"  {engine['runs']:<26} {engine['package']} {state}")


def _size(count: int) -> str:
    return f"{count / 1e9:5.2f} GB" if count >= 1e8 else f"{count / 1e6:5.1f} MB"


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(models)
