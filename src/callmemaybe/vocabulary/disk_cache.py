"""A cache of arrays on disk, shared by processes: one file per key in the user's cache folder.

A file is mapped, not read, so processes share its pages. It is written under another name and then
renamed, so it is complete or absent; a process that has mapped a replaced file keeps the old one. A
damaged or truncated file, one of another key, and a folder that cannot be read or written count as
a miss: nothing here raises an error, the caller computes the arrays again.

The folder is ``callmemaybe`` in the platform's cache folder, or the value of the environment
variable CALLMEMAYBE_CACHE; if that is set but empty, nothing is cached.
"""

from __future__ import annotations

import contextlib
import json
import logging
import mmap
import os
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

ENVIRONMENT_VARIABLE = "CALLMEMAYBE_CACHE"
SUFFIX = ".arrays"
#: The files used last that are kept; older ones are deleted.
MAX_FILES = 16
#: Age in seconds at which the temporary file of a dead writer is deleted.
STALE_SECONDS = 3600

_MAGIC = b"callmemaybe\x00\x01\n\x1a\n"
#: The magic, checksum of all that follows, length of the head, length of the file.
_START = struct.Struct("<16sIIQ")
_ALIGNED = 64

log = logging.getLogger(__name__)


class CacheEntry(NamedTuple):
    """The content of a cache file: JSON values, and named arrays of one dimension."""

    facts: dict[str, Any]
    arrays: Mapping[str, npt.NDArray[Any]]


def folder() -> Path | None:
    """Return the cache folder; None if caching is off."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named is not None:
        return Path(named) if named else None
    try:
        if sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home
        return None
    return base / "callmemaybe"


def load(key: str) -> CacheEntry | None:
    """Return the entry of a key, read-only; None on a miss."""
    place = folder()
    if place is None:
        return None
    path = place / f"{key}{SUFFIX}"
    try:
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        log.info("%s cannot be used: %s", path, error)
        return None
    try:
        found = _parse(content, key)
    except (ValueError, KeyError, TypeError, struct.error) as error:
        log.info("%s is damaged and will be made again: %s", path, error)
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # marks the file as used last
    return found


def save(key: str, entry: CacheEntry) -> None:
    """Store an entry under a key; does nothing where the folder cannot be written."""
    place = folder()
    if place is None:
        return
    temporary = None
    try:
        place.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=place, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            for part in _serialize(key, entry):
                file.write(part)
        os.replace(temporary, place / f"{key}{SUFFIX}")
        _evict(place)
    except OSError as error:
        log.info("%s cannot be written: %s", place, error)
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _serialize(key: str, entry: CacheEntry) -> list[bytes]:
    """Return the content of the file in parts."""
    listed, parts, at = [], [], 0
    for name, array in entry.arrays.items():
        gap = -at % _ALIGNED
        data = np.ascontiguousarray(array).tobytes()
        listed.append([name, array.dtype.str, len(array), at + gap])
        parts += [bytes(gap), data]
        at += gap + len(data)
    head = json.dumps({"key": key, "facts": entry.facts, "arrays": listed}).encode()
    head += b" " * (-(_START.size + len(head)) % _ALIGNED)
    parts.insert(0, head)
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    length = _START.size + sum(map(len, parts))
    return [_START.pack(_MAGIC, checksum, len(head), length), *parts]


def _parse(content: mmap.mmap, key: str) -> CacheEntry:
    """Return the entry in a file; raises ValueError and others if the file is damaged."""
    magic, checksum, size, length = _START.unpack_from(content)
    if magic != _MAGIC or length != len(content):
        raise ValueError("it is cut off, or something else")
    with memoryview(content) as view, view[_START.size :] as rest:
        if zlib.crc32(rest) != checksum:
            raise ValueError("its checksum is wrong")
    head = json.loads(content[_START.size : _START.size + size])
    if head["key"] != key:
        raise ValueError("it was written for another key")
    base = _START.size + size
    arrays = {
        name: np.frombuffer(content, np.dtype(kind), count, base + at)
        for name, kind, count, at in head["arrays"]
    }
    return CacheEntry(head["facts"], arrays)


def _evict(place: Path) -> None:
    """Delete the files used least recently, and temporary files of dead writers."""
    now = time.time()
    aged = []
    for path in place.iterdir():
        if path.suffix not in (SUFFIX, ".part"):
            continue
        with contextlib.suppress(OSError):  # another process was faster
            used = path.stat().st_mtime
            if path.suffix == SUFFIX:
                aged.append((used, path))
            elif now - used > STALE_SECONDS:
                path.unlink()
    for _, path in sorted(aged)[: max(len(aged) - MAX_FILES, 0)]:
        with contextlib.suppress(OSError):
            path.unlink()
