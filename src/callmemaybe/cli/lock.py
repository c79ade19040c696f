"""One run at a time for each result file, and old results that are kept aside.

The lock is the system's own, on a small file beside the results. It ends with the process that holds it,
however that ends: a file that a killed run left behind keeps nobody out.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from callmemaybe.errors import InputError, WriteError


def lock_path(path: Path) -> Path:
    """Return the path of the lock of a result file; links to one file share it."""
    target = path.resolve()
    return target.with_name(f"{target.name}.lock")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a result file. Raises InputError if another run holds it."""
    lock = lock_path(path)
    while True:
        try:
            file = lock.open("a+", encoding="utf-8")
        except OSError as error:
            raise WriteError(f"{lock}: cannot be written: {error.strerror or error}") from error
        if not _try_lock(file):
            with file:
                holder = _holder(file)
            raise InputError(
                f"another run is writing it{holder}",
                where=str(path),
                hint="wait for it, or name another --output",
            )
        # Whoever held it before may have deleted the very file that was waited for.
        if _is_same(lock, file):
            break
        file.close()
    with file:
        with contextlib.suppress(OSError):  # the disk is full: others are kept out all the same
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        try:
            yield
        finally:
            if sys.platform == "win32":
                file.close()  # an open file cannot be deleted there
            with contextlib.suppress(OSError):
                lock.unlink()


def _holder(file: IO[str]) -> str:
    with contextlib.suppress(OSError, ValueError):
        file.seek(0)
        return f" (process {int(file.read(20))})"
    return ""


def _is_same(path: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except OSError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[str]) -> bool:
        # A byte far beyond the text, which others may read.
        file.seek(1 << 20)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(file: IO[str]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # a file system without locks
        return True


def keep_aside(path: Path, *beside: Path) -> Path:
    """Rename a result file, and the files that belong to it, to names that are free; return the new name."""
    target = path.resolve()
    number = 1
    while (aside := target.with_name(f"{target.stem}.old-{number}{target.suffix}")).exists():
        number += 1
    try:
        target.rename(aside)
        for other in beside:
            if other.exists():
                other.rename(aside.with_name(aside.name + other.name.removeprefix(path.name)))
    except OSError as error:
        raise WriteError(f"{path}: cannot be renamed: {error.strerror or error}") from error
    return aside
