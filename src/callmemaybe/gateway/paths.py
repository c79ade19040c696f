"""Opens files below one folder and nowhere else, for tools that take file names from a model."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal

from callmemaybe.errors import NotExecuted

_FLAGS = {
    "r": os.O_RDONLY,
    "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "a": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
}


def open_below(root: Path, name: str, mode: Literal["r", "w", "a"] = "r") -> IO[Any]:
    """Open the UTF-8 text file ``name`` below ``root``: no ``..``, no absolute path, no symbolic link.

    Each part is opened relative to the folder before it, so nothing can be exchanged between check and
    use. Raises NotExecuted for a name that leads elsewhere, OSError otherwise.
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith(("/", "\\")) or "\0" in name or ".." in parts:
        raise NotExecuted(f"{name!r} does not stay below its folder")
    if os.name == "nt":  # pragma: no cover - Windows has no openat
        raise NotExecuted("not available on this system")
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            inner = os.open(part, flags, dir_fd=folder)
            os.close(folder)
            folder = inner
        flags = _FLAGS[mode] | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        handle = os.open(parts[-1], flags, 0o600, dir_fd=folder)
    except OSError as error:
        if error.errno in {40, 20}:  # ELOOP, ENOTDIR: a link is on the path
            raise NotExecuted(f"{name!r} leads through a link") from error
        raise
    finally:
        os.close(folder)
    return os.fdopen(handle, mode, encoding="utf-8")
