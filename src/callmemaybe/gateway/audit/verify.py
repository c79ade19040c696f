"""Verification of a whole ledger: its chains against their anchors, its answers against the audit."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from callmemaybe.errors import InputError
from callmemaybe.gateway.audit.archives import ArchiveReader, merged_audit, read_archive_events
from callmemaybe.gateway.audit.chain import ChainHead, verify_chains
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.gateway.store import CallRow, StoreBackend

# Audit records are searched as text, not parsed: the gateway wrote them, and there may be millions.
_ANSWER = '"answer": "'
_BEGIN = '{"chain": "'
_RECONCILED = '{"event": "reconcile", '


@dataclass(frozen=True)
class LedgerReport:
    """The result of a verification: heads of the chains, number of calls compared, everything wrong."""

    heads: dict[str, ChainHead]
    calls: int
    breaks: tuple[str, ...]
    archived: int = 0
    """Audit records that are in archives which were not given."""

    @property
    def records(self) -> int:
        """The number of audit records."""
        return sum(head.length for head in self.heads.values()) - self.archived


def verify_ledger(
    backend: StoreBackend, anchors: Iterable[ChainHead] = (), archives: Iterable[Path] = ()
) -> LedgerReport:
    """Recompute every chain, and compare every answer in the ledger with its audit record.

    The answers are read first, so that each has its audit record when the audit is read. ``archives`` are files
    of :mod:`callmemaybe.gateway.archive`: what is in one that is not given is taken for archived as the audit
    says. Raises InputError for a file that the audit does not know.
    """
    events = read_archive_events(backend)
    files = [ArchiveReader(path, events) for path in archives]
    ends = [
        ChainHead(chain, number, bytes.fromhex(digest))
        for facts in events
        for chain, (number, digest) in facts["ends"].items()
    ]
    rows = backend.read_calls(run=None, limit=2**31)
    rows += [CallRow(**row) for file in files for row in file.calls()]
    answers = {row.key: _digest(row.content) for row in rows if row.content is not None}
    unknown = [row.key for row in rows if row.state == CallState.UNKNOWN.value]
    count = len(rows)
    del rows
    reconciled = {key for key in unknown if backend.read_reconciliation(key) is not None}
    audited: dict[str, set[str]] = {}
    audited_reconciliations: dict[str, set[str]] = {}

    def collect_digests() -> Iterator[tuple[str, int, str, str, bytes]]:
        for row in merged_audit(backend.read_audit(), files):
            next(seen)
            is_reconciliation = row[3].startswith(_RECONCILED)
            digests = (
                audited_reconciliations.setdefault(row[2], set()) if is_reconciliation else None
            )
            place = row[3].rfind(_ANSWER)
            if place >= 0:
                start = place + len(_ANSWER)
                digests = audited.setdefault(row[2], set()) if digests is None else digests
                digests.add(row[3][start : start + 64])
            yield row

    seen = itertools.count()
    heads, breaks = verify_chains(collect_digests(), anchors, ends)
    found = [str(one) for one in breaks]
    for key, digest in answers.items():
        if digest not in audited.get(key, set()):
            found.append(f"call {key}: its answer is not the one in the audit")
    for key in sorted(reconciled | audited_reconciliations.keys()):
        stored, digests = backend.read_reconciliation(key), audited_reconciliations.get(key)
        # The records of earlier versions hold no digest.
        if digests is None or stored is None or (digests and _digest(stored[1]) not in digests):
            found.append(f"call {key}: what was found out about it is not what the audit says")
    unseen = sum(head.length for head in heads.values()) - next(seen)
    return LedgerReport(heads, count, tuple(found), max(0, unseen))


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def file_anchor(path: Path) -> Callable[[ChainHead], None]:
    """Return an anchor for ``open_ledger`` that appends each head to a file and syncs it.

    Put the file where the ledger's administrator cannot write. The anchor raises OSError if a head cannot be
    written completely.
    """

    def append(head: ChainHead) -> None:
        text = json.dumps({"chain": head.chain, "length": head.length, "hash": head.hash.hex()})
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            line = text.encode() + b"\n"
            if _ends_in_partial_line(path):
                line = b"\n" + line
            if os.write(handle, line) < len(line):
                raise OSError(errno.ENOSPC, "only a part of the anchor was written", str(path))
            os.fsync(handle)
        finally:
            os.close(handle)

    return append


def _ends_in_partial_line(path: Path) -> bool:
    """Whether the last line was cut off, by a full disk or a power failure."""
    # The file may be empty or not readable.
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) not in {b"", b"\n"}
    return False


def read_anchors(path: Path) -> list[ChainHead]:
    """Read the heads that :func:`file_anchor` wrote; raises InputError with the line of anything else.

    A line that was cut off is skipped.
    """
    heads = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"cannot be read: {why}", where=str(path)) from None
    for number, line in enumerate(lines, 1):
        if not line.endswith("}") and (line.startswith(_BEGIN) or _BEGIN.startswith(line)):
            continue
        try:
            value = json.loads(line)
            head = ChainHead(value["chain"], int(value["length"]), bytes.fromhex(value["hash"]))
        except (ValueError, KeyError, TypeError):
            raise InputError("this is no anchor", where=f"{path}:{number}") from None
        heads.append(head)
    return heads
