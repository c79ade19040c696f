"""Archives: finished runs leave the ledger for a file, and the audit chains stay verifiable.

A file holds, as JSON lines, the rows of whole runs and the beginnings of audit chains that no run left in
the ledger needs. One transaction writes the file, deletes the rows and appends an audit record with the
file's SHA-256 and the ends of what it took from each chain. The file has a provisional name until then: after a
crash it is in the audit, so it is kept, or it is not, so nothing was deleted and it goes.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.gateway.audit.archives import file_digest, read_archive_events
from callmemaybe.gateway.ledger import Ledger
from callmemaybe.gateway.store import ArchiveRuns, StoreBackend
from callmemaybe.jsonio import dumps

fcntl: Any
try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: one process at a time is up to the caller
    fcntl = None

_PART = ".part"
#: Runs of one file, and so of one transaction.
_RUNS = 2000


@dataclass(frozen=True)
class ArchiveFile:
    """An archive that was written: where it is, and how many runs, calls and audit records went there."""

    path: Path
    runs: int
    calls: int
    records: int


def archive_runs(
    ledger: Ledger, folder: Path, older_than: float, *, compress: bool = False
) -> list[ArchiveFile]:
    """Move runs that ended more than ``older_than`` seconds ago to files in ``folder``; return these.

    A run that waits for a person, or has a call of unknown outcome, stays. An archived run is closed: a
    delivery of it is refused with InputError, whatever it calls; calls with business keys keep their keys, as
    after the retention. Killed at any point, nothing is lost and nothing is there twice. Raises InputError if
    another process archives to this folder, StoreError, and OSError if a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _alone_in(folder) as handle:
        _settle(ledger.backend, folder)
        made: list[ArchiveFile] = []
        while True:
            writer = _FileWriter(folder, compress)
            before = ledger.backend.now() - older_than
            done = ledger.send_and_wait(ArchiveRuns(before, _RUNS, writer.write), 60.0)
            _settle(ledger.backend, folder)
            os.fsync(handle)
            if done is None:
                return made
            made.append(ArchiveFile(folder / done["file"], *(done[k] for k in _COUNTS)))


_COUNTS = ("runs", "calls", "records")


class _FileWriter:
    """Writes the rows of one archive to a file of a provisional name, and syncs it."""

    def __init__(self, folder: Path, compress: bool) -> None:
        self._folder = folder
        self._compress = compress

    def write(self, lines: Iterable[dict[str, Any]]) -> tuple[str, str]:
        """Write ``lines``; return the final name of the file and its SHA-256 (hexadecimal)."""
        path = self._folder / f"{secrets.token_hex(8)}{_PART}"
        with path.open("xb") as file:
            os.fchmod(file.fileno(), 0o600)
            packed = gzip.GzipFile("", "wb", 6, file, 0) if self._compress else None
            out: Any = packed or file
            for line in lines:
                out.write(dumps(line).encode(errors="surrogatepass") + b"\n")
            if packed is not None:
                packed.close()
            file.flush()
            os.fsync(file.fileno())
        _sync(self._folder)
        digest = file_digest(path)
        return f"archive-{digest[:16]}.jsonl{'.gz' if self._compress else ''}", digest


def _settle(backend: StoreBackend, folder: Path) -> None:
    """Give the files that the ledger knows of their names; delete those of transactions that were undone."""
    parts = list(folder.glob(f"*{_PART}"))
    if not parts:
        return
    known = {facts["sha256"]: facts["file"] for facts in read_archive_events(backend)}
    for part in parts:
        name = known.get(file_digest(part))
        if name is None:
            part.unlink()
        else:
            part.replace(folder / name)
    _sync(folder)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(
                    "another process archives to this folder", where=str(folder), hint="wait for it"
                ) from None
        yield handle
    finally:
        os.close(handle)
