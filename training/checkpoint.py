"""Files that are complete, or as they were: a run is killed at any moment, and disks fill up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def complete(file: Path) -> Iterator[Path]:
    """A path beside `file` to write to, which takes its place at the end."""
    part = file.with_name(f"part-{file.name}")
    try:
        yield part
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)  # where the disk is full, it takes the room that is left
        raise
