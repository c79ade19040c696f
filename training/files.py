"""Files that are complete or unchanged: a run may be killed at any moment, and disks fill up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(file: Path) -> Iterator[Path]:
    """Yield a path beside `file` to write to; it replaces `file` when the block ends without an error."""
    part = file.with_name(f"part-{file.name}")
    try:
        yield part
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)  # on a full disk it would occupy the space that is left
        raise
