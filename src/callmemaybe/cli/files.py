"""Writes files atomically: a reader sees the old content or the new one, whole."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from callmemaybe.cli.process import discard, stdout_is_closed
from callmemaybe.errors import InputError, WriteError
from callmemaybe.jsonio import dumps
from callmemaybe.sources.texts import is_standard

#: The names that systems have for standard output, and the folders of a process's open files.
_STANDARD_OUTPUT = {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}
_OPEN_FILES = re.compile(r"/dev|/dev/fd|/proc/[^/]+/fd")


def named_output(path: Path) -> Path:
    """Return the path to write to: "-" for the system's names of standard output.

    Standard output may be redirected to a file, which must be neither replaced nor truncated.
    """
    return Path("-") if os.path.abspath(path) in _STANDARD_OUTPUT else path


def is_stream(path: Path) -> bool:
    """Whether ``path`` can only be appended to: an open file, a pipe, a device."""
    return is_standard(path) or _is_special(path)


def check_writable(path: Path, what: str) -> None:
    """Create the folder of ``path`` and check that a file can be written there; raise InputError if not.

    An existing file stays untouched. Raises WriteError where standard output is closed.
    """
    if is_standard(path):
        if stdout_is_closed():
            raise WriteError("standard output: cannot be written: it is closed")
        return
    try:
        if path.is_dir():
            raise InputError(f"{what} would replace a folder", where=str(path), hint="name a file")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "the file is write-protected")
        if _is_special(path):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(path.resolve())
        temporary.open("xb").close()
        temporary.unlink()
    except (OSError, ValueError, RuntimeError) as error:
        is_blocked = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "a file stands where its folder should be" if is_blocked else failure_reason(error)
        raise InputError(
            f"{what} cannot be written: {reason}",
            where=str(path),
            hint="choose another path",
        ) from None


def write_atomically(path: Path, text: str) -> None:
    """Replace the content of ``path``, so that even after a power cut the old or the new one is complete.

    Symbolic links are followed; open files, devices and pipes are appended to; "-" is standard output.
    Raises WriteError.
    """
    if is_standard(path):
        _print(text)
        return
    try:
        data = text.encode()
        if _is_special(path):
            with path.open("ab") as stream:
                stream.write(data)
        else:
            _replace(path.resolve(), data)
    except OSError as error:
        raise WriteError(f"{path}: cannot be written: {failure_reason(error)}") from error


def _print(text: str) -> None:
    """Write to standard output; after a failure the stream is discarded, so that exit cannot fail again."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    except OSError as error:
        with contextlib.suppress(OSError):
            discard(sys.stdout)
        raise WriteError(f"standard output: cannot be written: {failure_reason(error)}") from error


def open_for_append(path: Path) -> IO[bytes]:
    """Open a file whose writes reach the system at once; "-" is standard output. Raises OSError."""
    if is_standard(path):
        sys.stdout.flush()
        return open(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    return path.open("ab", buffering=0)


def append_json(path: Path, value: Any) -> None:
    """Append a JSON value as a line. Raises WriteError."""
    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{dumps(value)}\n")
    except OSError as error:
        raise WriteError(f"{path}: cannot be written: {error.strerror or error}") from error


def same_file(first: Path, second: Path) -> bool:
    """Whether both paths lead to one file, existing or not."""
    return first.resolve() == second.resolve()


def _replace(path: Path, data: bytes) -> None:
    temporary = _temporary(path)
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o7777)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    with contextlib.suppress(OSError), _folder(path.parent) as descriptor:
        # The new name survives a power cut only once its folder is on the disk.
        os.fsync(descriptor)


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _temporary(path: Path) -> Path:
    # A random name: files that killed processes left behind must not collide with it.
    return path.with_name(f".{path.name[:40]}.{secrets.token_hex(8)}.tmp")


def _is_special(path: Path) -> bool:
    if not path.exists() or path.is_dir():
        return False
    is_open = _OPEN_FILES.fullmatch(os.path.dirname(os.path.abspath(path))) is not None
    return is_open or not path.is_file()


def failure_reason(error: Exception) -> str:
    """Return what the system says about a failed operation."""
    return getattr(error, "strerror", None) or str(error)
