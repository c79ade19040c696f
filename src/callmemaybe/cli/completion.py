"""What a shell may complete: names of models, of wire formats and of tools.

It is asked at each key, so nothing heavy is imported, no code of a tools file is run, and nothing is fetched.
"""

from __future__ import annotations

import os
from pathlib import Path

import typer


def model_names(incomplete: str) -> list[str]:
    """Return the models that are here without a download and begin with ``incomplete``: the embedded one, those in the hub's cache."""
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    try:
        folders = sorted(one.name for one in cache.iterdir())
    except OSError:
        folders = []
    prefix = "models--"
    cached = (
        one.removeprefix(prefix).replace("--", "/", 1) for one in folders if one.startswith(prefix)
    )
    return [name for name in ("nano", *cached) if name.startswith(incomplete)]


def tool_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of tools that begin with ``incomplete``, of the JSON and YAML files that --tools names."""
    from callmemaybe.errors import CallMeMaybeError
    from callmemaybe.sources import load_tools

    found: list[str] = []
    for source in context.params.get("tools") or ():
        path = Path(source)
        if path.suffix.lower() not in {".json", ".yaml", ".yml"} or not path.is_file():
            continue
        try:
            with load_tools(source) as loaded:
                found += [spec.name for spec in loaded.specs]
        except CallMeMaybeError:
            continue
    return [name for name in found if name.startswith(incomplete)]


def format_names(incomplete: str) -> list[str]:
    """Return the wire formats whose names begin with ``incomplete``."""
    from callmemaybe.wire import formats

    return [name for name in sorted(formats.names()) if name.startswith(incomplete)]
