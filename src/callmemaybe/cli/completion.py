"""What a shell may complete: names of models and of wire formats. It is asked at each key, so nothing heavy is imported."""

from __future__ import annotations

import os
from pathlib import Path


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


def format_names(incomplete: str) -> list[str]:
    """Return the wire formats whose names begin with ``incomplete``."""
    from callmemaybe.wire import formats

    return [name for name in sorted(formats.names()) if name.startswith(incomplete)]
