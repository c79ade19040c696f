"""Checks a whole ledger: its chains against themselves and the anchors, its answers against the audit."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from callmemaybe.errors import InputError
from callmemaybe.gateway.chain import Head, verify
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.gateway.store import Backend

_ANSWER = '"answer": "'
_BEGIN = '{"chain": "'
_RECONCILED = '{"event": "reconcile", '


@dataclass(frozen=True)
class Report:
    """What was found: the chains' heads, how many calls were compared, and everything wrong."""

    heads: dict[str, Head]
    calls: int
    breaks: tuple[str, ...]

    @property
    def records(self) -> int:
        """How many audit records there are."""
        return sum(head.length for head in self.heads.values())


def examine(backend: Backend, anchors: Iterable[Head] = ()) -> Report:
    """Recompute every chain, and compare every answer in the ledger with its audit record.

    The answers are read first: what is recorded meanwhile has its audit record by then.
    """
    rows = backend.calls(run=None, limit=2**31)
    answers = {row.key: _digest(row.content) for row in rows if row.content is not None}
    unknown = [row.key for row in rows if row.state == CallState.UNKNOWN.value]
    count = len(rows)
    del rows
    found_out = {key for key in unknown if backend.look_reconciled(key) is not None}
    told: dict[str, set[str]] = {}
    settled: dict[str, set[str]] = {}

    def watched() -> Iterator[tuple[str, int, str, str, bytes]]:
        for row in backend.audit():
            later = row[3].startswith(_RECONCILED)
            digests = settled.setdefault(row[2], set()) if later else None
            place = row[3].rfind(_ANSWER)
            if place >= 0:
                start = place + len(_ANSWER)
                digests = told.setdefault(row[2], set()) if digests is None else digests
                digests.add(row[3][start : start + 64])
            yield row

    heads, breaks = verify(watched(), anchors)
    found = [str(one) for one in breaks]
    for key, digest in answers.items():
        if digest not in told.get(key, set()):
            found.append(f"call {key}: its answer is not the one in the audit")
    for key in sorted(found_out | settled.keys()):
        stands, digests = backend.look_reconciled(key), settled.get(key)
        # The records of earlier versions hold no digest.
        if digests is None or stands is None or (digests and _digest(stands[1]) not in digests):
            found.append(f"call {key}: what was found out about it is not what the audit says")
    return Report(heads, count, tuple(found))


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def file_anchor(path: Path) -> Callable[[Head], None]:
    """Return an anchor that appends heads to a file, synced; put it out of the ledger's reach.

    What it returns raises OSError where a head cannot be noted, or not in full.
    """

    def note(head: Head) -> None:
        text = json.dumps({"chain": head.chain, "length": head.length, "hash": head.hash.hex()})
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            line = text.encode() + b"\n"
            if _ends_within_a_line(path):
                line = b"\n" + line
            if os.write(handle, line) < len(line):
                raise OSError(errno.ENOSPC, "only a part of the anchor was written", str(path))
            os.fsync(handle)
        finally:
            os.close(handle)

    return note


def _ends_within_a_line(path: Path) -> bool:
    """Whether the last note was cut off: by a full disk, or by a machine that lost its power."""
    # It may be empty, or not be ours to read.
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) not in {b"", b"\n"}
    return False


def read_anchors(path: Path) -> list[Head]:
    """Read the heads that file_anchor() wrote; raises InputError with the line that is none.

    The beginning of a line is one that could not be written to its end, and notes nothing.
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
            head = Head(value["chain"], int(value["length"]), bytes.fromhex(value["hash"]))
        except (ValueError, KeyError, TypeError):
            raise InputError("this is no anchor", where=f"{path}:{number}") from None
        heads.append(head)
    return heads
