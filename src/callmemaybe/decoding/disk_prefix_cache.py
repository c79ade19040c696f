"""Prefixes on disk: the key-value cache of a fed prompt prefix, stored for the next process.

A file holds the cache of one session, named after the model and the ids, so that nothing is found for
another model, another version of its files, or another prompt. Files are written as a whole or not at
all and end in a digest of themselves; a file that does not match its digest is ignored and removed.
A cache may always be empty, so errors of the disk are ignored.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Sequence
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from callmemaybe.models.base import KVSnapshot, Model

#: The most bytes that all files of a folder may take together.
MAX_BYTES = 4 << 30
_MAGIC = b"callmemaybe prefix 1\n"
_SUFFIX = ".prefix"
_DIGEST = 32


class DiskPrefixCache:
    """A folder of prefixes; the least recently used is removed first. Several processes may share it.

    Errors of the disk raise nothing.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self._folder, self._max_bytes = Path(folder), max_bytes

    def load(self, model: Model, ids: Sequence[int]) -> KVSnapshot | None:
        """Return what was saved for these ids of this model; None if there is nothing, or it is damaged."""
        path = self._path(model, ids)
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except OSError:
            return None
        found = _unpacked(content)
        with contextlib.suppress(OSError):
            if found is None:
                path.unlink()
            else:
                os.utime(path)  # the last to be removed
        return found

    def save(self, model: Model, ids: Sequence[int], snapshot: KVSnapshot) -> None:
        """Store what a session holds, unless it is larger than the whole cache."""
        path = self._path(model, ids)
        size = sum(array.nbytes for array in snapshot)
        if path is None or size > self._max_bytes:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._make_room(size)
            handle, name = tempfile.mkstemp(dir=self._folder, suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    for piece in _packed(snapshot):
                        file.write(piece)
                Path(name).replace(path)
            except BaseException:
                Path(name).unlink()
                raise

    def _path(self, model: Model, ids: Sequence[int]) -> Path | None:
        fingerprint = getattr(model, "fingerprint", None)
        if fingerprint is None:
            return None
        digest = sha256(fingerprint.encode() + np.asarray(ids, "<i8").tobytes())
        return self._folder / (digest.hexdigest() + _SUFFIX)

    def _make_room(self, size: int) -> None:
        files = []
        for path in self._folder.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(OSError):
                about = path.stat()
                files.append((about.st_mtime_ns, about.st_size, path))
        total = size + sum(one[1] for one in files)
        for _, length, path in sorted(files):
            if total <= self._max_bytes:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                total -= length


def _packed(snapshot: KVSnapshot) -> list[bytes | memoryview]:
    arrays = [np.ascontiguousarray(array) for array in snapshot]
    about = json.dumps([[array.dtype.str, list(array.shape)] for array in arrays]).encode()
    pieces: list[bytes | memoryview] = [_MAGIC, len(about).to_bytes(8, "little"), about]
    pieces += [array.reshape(-1).view(np.uint8).data for array in arrays]
    digest = blake2b(digest_size=_DIGEST)
    for piece in pieces:
        digest.update(piece)
    return [*pieces, digest.digest()]


def _unpacked(content: bytes) -> KVSnapshot | None:
    """Return the arrays of a file; None if it has another format or is damaged."""
    body, digest = memoryview(content)[:-_DIGEST], content[-_DIGEST:]
    if not content.startswith(_MAGIC) or blake2b(body, digest_size=_DIGEST).digest() != digest:
        return None
    at = len(_MAGIC)
    size = int.from_bytes(body[at : at + 8], "little")
    at += 8
    found: list[NDArray[Any]] = []
    about = json.loads(bytes(body[at : at + size]))
    at += size
    for kind, shape in about:
        dtype = np.dtype(kind)
        count = int(np.prod(shape, dtype=np.int64))
        found.append(np.frombuffer(body, dtype, count, at).reshape(shape))
        at += count * dtype.itemsize
    return tuple(found)
