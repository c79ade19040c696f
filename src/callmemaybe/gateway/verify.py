"""Checks a whole ledger: its chains against themselves and the anchors, its answers against the audit."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from callmemaybe.errors import InputError
from callmemaybe.gateway.chain import Head, verify
from callmemaybe.gateway.store import Backend

_ANSWER = '"answer": "'


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
    """Recompute every chain, and compare every answer in the ledger with its audit record."""
    told: dict[str, set[str]] = {}

    def watched() -> Iterator[tuple[str, int, str, str, bytes]]:
        for row in backend.audit():
            place = row[3].rfind(_ANSWER)
            if place >= 0:
                start = place + len(_ANSWER)
                told.setdefault(row[2], set()).add(row[3][start : start + 64])
            yield row

    heads, breaks = verify(watched(), anchors)
    found = [str(one) for one in breaks]
    count = 0
    for row in backend.calls(run=None, limit=2**31):
        count += 1
        if row.content is None:
            continue
        if hashlib.sha256(row.content.encode()).hexdigest() not in told.get(row.key, set()):
            found.append(f"call {row.key}: its answer is not the one in the audit")
    return Report(heads, count, tuple(found))


def file_anchor(path: Path) -> Callable[[Head], None]:
    """Return an anchor that appends heads to a file, synced; put it out of the ledger's reach."""

    def note(head: Head) -> None:
        line = json.dumps({"chain": head.chain, "length": head.length, "hash": head.hash.hex()})
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, line.encode() + b"\n")
            os.fsync(handle)
        finally:
            os.close(handle)

    return note


def read_anchors(path: Path) -> list[Head]:
    """Read the heads that file_anchor() wrote; raises InputError with the line that is none."""
    heads = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
            head = Head(value["chain"], int(value["length"]), bytes.fromhex(value["hash"]))
        except (ValueError, KeyError, TypeError):
            raise InputError("this is no anchor", where=f"{path}:{number}") from None
        heads.append(head)
    return heads
