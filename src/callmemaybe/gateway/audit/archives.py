"""Reading archives: files of rows and audit records that left the ledger, checked against its audit."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.gateway.store import ARCHIVE_KEY, CALL_COLUMNS, LedgerSnapshot, StoreBackend

AuditRow = tuple[str, int, str, str, bytes]


def read_archive_events(ledger: StoreBackend | LedgerSnapshot) -> list[dict[str, Any]]:
    """Return what the audit says of each archive: its file, SHA-256 and the ends of its parts of chains."""
    events = []
    for *_, record, _ in ledger.read_audit(key=ARCHIVE_KEY):
        with contextlib.suppress(ValueError):  # a damaged record, which breaks its chain
            facts = json.loads(record)
            if isinstance(facts, dict) and {"file", "sha256", "ends"} <= facts.keys():
                events.append(facts)
    return events


class ArchiveReader:
    """An archive file, checked against the ledger's audit.

    Raises InputError for a file that cannot be read, that is no archive, or that no ``events`` name.
    """

    def __init__(self, path: Path, events: Sequence[dict[str, Any]]) -> None:
        self._path = path
        try:
            digest = file_digest(path)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
        if digest not in {facts["sha256"] for facts in events}:
            raise InputError(
                "no archive of this ledger, or it was changed since",
                where=str(path),
                hint="compare its SHA-256 with the audit's",
            )

    def rows(self, table: str) -> Iterator[Any]:
        """Yield the rows of one table: a dict each, for "audit" a list of the columns."""
        mark = f'{{"table": "{table}", '.encode()
        opened: Any = gzip.open if self._path.suffix == ".gz" else open
        with opened(self._path, "rb") as file:
            for line in file:
                if line.startswith(mark):
                    yield json.loads(line.decode(errors="surrogatepass"))["row"]

    def calls(self) -> Iterator[dict[str, Any]]:
        """Yield the calls, as the fields of a CallRow."""
        for row in self.rows("calls"):
            yield {name: row[name] for name in CALL_COLUMNS}

    def audit(self) -> Iterator[AuditRow]:
        """Yield the audit rows, ordered by chain and number."""
        for chain, number, key, record, digest in self.rows("audit"):
            yield chain, number, key, record, bytes.fromhex(digest)


def merged_audit(live: Iterable[AuditRow], archives: Iterable[ArchiveReader]) -> Iterator[AuditRow]:
    """Yield the audit rows of the ledger and its archives, ordered by chain and number."""
    parts = [one.audit() for one in archives]
    return heapq.merge(live, *parts, key=lambda row: row[:2]) if parts else iter(live)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
