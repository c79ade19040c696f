"""The commands ``models`` and ``formats``: what can be run here, and how models write calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from callmemaybe.cli.completion import format_names
from callmemaybe.cli.process import printable
from callmemaybe.tools import ToolCall, ToolSpec


class EnginePackage(NamedTuple):
    """A package that runs models: the files it runs, and the extra that installs it."""

    package: str
    runs: str
    extra: str | None


class PublishedModel(NamedTuple):
    """A published model: its name here, its size on disk, the kind of files that it is run from."""

    name: str
    gigabytes: float
    runs: str

    @property
    def command(self) -> str:
        """The command that downloads exactly this variant."""
        return f"callmemaybe models pull {self.name}"


ENGINES = (
    EnginePackage("onnxruntime", ".onnx", None),
    EnginePackage("llama-cpp-python", ".gguf", "gguf"),
    EnginePackage("transformers", ".safetensors", "torch"),
    EnginePackage("httpx2", "http(s)://host/v1#model", "remote"),
)
# Sizes follow from the shape (28 layers, 1,024 wide, 151,936 tokens) and the bits of each form; the
# 4-bit ONNX file is the larger for its embedding, which stays in float32 there.
KNOWN = (
    PublishedModel("onnx-community/Qwen3-0.6B-ONNX:q4", 0.9, ".onnx"),
    PublishedModel("onnx-community/Qwen3-0.6B-ONNX:q4f16", 0.6, ".onnx"),
    PublishedModel("onnx-community/Qwen3-0.6B-ONNX:fp32", 2.4, ".onnx"),
    PublishedModel("Qwen/Qwen3-0.6B-GGUF:Q8_0", 0.64, ".gguf"),
    PublishedModel("Qwen/Qwen3-0.6B:bf16", 1.5, ".safetensors"),
)


Cache = Annotated[
    Path | None, typer.Option(help="Folder of downloaded models (default: the hub's cache).")
]
models = typer.Typer()


@models.callback(invoke_without_command=True)
def list_models(
    context: typer.Context,
    cache: Cache = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the installed and the downloaded models, and how to download more."""
    if context.invoked_subcommand is not None:
        return
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


@models.command()
def pull(
    name: Annotated[
        str, typer.Argument(help='The model, as --model names it: "org/name:variant".')
    ],
    cache: Cache = None,
) -> None:
    """Download the files of a model that --model NAME reads, and no other variant's."""
    from callmemaybe.models import fetch

    if name == "nano":
        typer.echo("nano is part of the package")
        return
    typer.echo(f"{printable(name)} is in {fetch(name, cache=cache)}")


def _embedded() -> dict[str, Any]:
    folder = Path(str(files("callmemaybe"))) / "data" / "nano"
    size = sum(path.stat().st_size for path in folder.glob("*") if path.is_file())
    return {"name": "nano", "bytes": size, "runs": ".onnx"}


def _engine(engine: EnginePackage) -> dict[str, Any]:
    try:
        found: str | None = version(engine.package)
    except PackageNotFoundError:
        found = None
    install = f"pip install 'callmemaybe[{engine.extra}]'" if engine.extra else None
    return {"package": engine.package, "version": found, "runs": engine.runs, "install": install}


def _cached(cache: Path | None) -> Iterator[dict[str, Any]]:
    """Yield the variants of downloaded repositories that are complete."""
    import huggingface_hub

    from callmemaybe.models import variants_in

    try:
        cached = huggingface_hub.scan_cache_dir(cache)
    except (huggingface_hub.CacheNotFound, ValueError):
        return
    for repository in sorted(cached.repos, key=lambda one: one.repo_id):
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


def formats(
    name: Annotated[
        str | None,
        typer.Argument(
            autocompletion=format_names,
            help="Show this format (a name, or the path of a .py or .toml file) with a whole turn.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list.")] = False,
) -> None:
    """List the wire formats, each with an example; or show one with its whole prompt."""
    from callmemaybe.generation.config import find_format
    from callmemaybe.wire import formats as registry

    if name is not None:
        found = find_format(name)
        messages = [{"role": "user", "content": "What is the weather in Paris?"}]
        typer.echo(as_text(found.prompt(messages, [TOOL])))
        typer.echo(as_text(found.render([CALL], tools=[TOOL])))
        return
    every = [registry.get(one) for one in registry.names()]
    if as_json:
        rows = [
            {"name": one.name, "summary": one.summary, "parallel": one.is_parallel,
             "ids": one.has_ids, "thinking": one.has_thinking,
             "example": as_text(one.render([CALL], tools=[TOOL]))}
            for one in every
        ]  # fmt: skip
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    for one in every:
        typer.echo(f"{one.name}: {one.summary}")
        example = as_text(one.render([CALL], tools=[TOOL]))
        typer.echo("".join(f"    {line}\n" for line in example.splitlines()))


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.add_typer(models, name="models")
    app.command()(formats)


TOOL = ToolSpec(
    "get_weather",
    "The weather in a city",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)
CALL = ToolCall("get_weather", '{"city": "Paris", "days": 2}', "call12345")


def as_text(parts: tuple[object, ...]) -> str:
    """Return a prompt or an answer as text, control tokens as their text."""
    return "".join(
        part if isinstance(part, str) else str(getattr(part, "text", "")) for part in parts
    )
