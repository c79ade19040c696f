"""Verification of a whole ledger: its chains against their anchors, its answers against the audit."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from callmemaybe.errors import InputError
from callmemaybe.gateway.audit.archives import ArchiveReader, merged_audit, read_archive_events
from callmemaybe.gateway.audit.chain import ChainHead, verify_chains
from callmemaybe.gateway.audit.rebuild import LedgerRebuild
from callmemaybe.gateway.store import ARCHIVED, Approval, CallRow, LedgerSnapshot, StoreBackend

_BEGIN = '{"chain": "'


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
    ledger: StoreBackend | LedgerSnapshot,
    anchors: Iterable[ChainHead] = (),
    archives: Iterable[Path] = (),
) -> LedgerReport:
    """Recompute every chain, rebuild the tables from the records, and compare them with the rows.

    All is read at one moment, while the ledger is in use. ``archives`` are files of :mod:`callmemaybe.gateway.archive`: what is in one that is not given is taken for archived as the audit
    says. Raises InputError for a file that the audit does not know.
    """
    if not isinstance(ledger, LedgerSnapshot):
        with ledger.snapshot() as snapshot:
            return verify_ledger(snapshot, anchors, archives)
    events = read_archive_events(ledger)
    files = [ArchiveReader(path, events) for path in archives]
    ends = [
        ChainHead(chain, number, bytes.fromhex(digest))
        for facts in events
        for chain, (number, digest) in facts["ends"].items()
    ]
    tables = _Tables(ledger, files)
    rebuild, seen = LedgerRebuild(), itertools.count()

    def taken() -> Iterator[tuple[str, int, str, str, bytes]]:
        for row in merged_audit(ledger.read_audit(), files):
            next(seen)
            rebuild.take(row[0], row[2], row[3])
            yield row

    heads, breaks = verify_chains(taken(), anchors, ends)
    found = [str(one) for one in breaks]
    unseen = max(0, sum(head.length for head in heads.values()) - next(seen))
    gone = tables.archived if events else set()
    found += [
        f"run {run!r}: it is marked as archived, and the audit knows of no archive"
        for _, run in sorted(tables.archived - gone)
    ]
    gone -= tables.given
    found += rebuild.wrong_calls(tables.calls.values(), gone)
    found += rebuild.wrong_approvals(tables.approvals, gone)
    found += rebuild.wrong_reconciliations(tables.reconciliations, gone)
    found += rebuild.wrong_runs(tables.runs, complete=not unseen)
    found += rebuild.wrong_turns(tables.turns, gone)
    return LedgerReport(heads, len(tables.calls), tuple(found), unseen)


class _Tables:
    """The rows of a ledger with those of its archives.

    ``archived`` are the runs that left for an archive, ``given`` those whose archive was given.
    """

    def __init__(self, ledger: LedgerSnapshot, files: Sequence[ArchiveReader]) -> None:
        self.runs = list(ledger.rows("runs"))
        self.archived = {
            (row["tenant"], row["run"]) for row in self.runs if row["policy_hash"] == ARCHIVED
        }
        self.given = {(row["tenant"], row["run"]) for file in files for row in file.rows("runs")}
        self.turns = list(ledger.rows("turns"))
        self.approvals = [Approval(**row) for row in ledger.rows("approvals")]
        self.calls = {row["key"]: CallRow(**row) for row in ledger.rows("calls")}
        self.reconciliations = {row["key"]: row for row in ledger.rows("reconciliations")}
        for file in files:  # of a call with a key of its own, the ledger keeps an empty row
            self.turns += file.rows("turns")
            self.approvals += [Approval(**row) for row in file.rows("approvals")]
            self.calls |= {row["key"]: CallRow(**row) for row in file.calls()}
            self.reconciliations |= {row["key"]: row for row in file.rows("reconciliations")}


def file_anchor(path: Path) -> Callable[[ChainHead], None]:
    """Return an anchor for ``open_ledger`` that appends each head to a file and syncs it.

    Put the file where the ledger's administrator cannot write. The anchor raises OSError if a head cannot be
    written completely.
    """

    def append(head: ChainHead) -> None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            line = _line_of(head)
            if _ends_in_partial_line(path):
                line = b"\n" + line
            if os.write(handle, line) < len(line):
                raise OSError(errno.ENOSPC, "only a part of the anchor was written", str(path))
            os.fsync(handle)
        finally:
            os.close(handle)

    return append


def command_anchor(command: Sequence[str], *, timeout: float = 5.0) -> Callable[[ChainHead], None]:
    """Return an anchor for ``open_ledger`` that gives each head, a line of JSON, to a program's standard input.

    The anchor raises OSError if the program cannot be run, fails, or takes more than ``timeout`` seconds.
    """

    def run(head: ChainHead) -> None:
        try:
            subprocess.run(
                list(command), input=_line_of(head), timeout=timeout, check=True,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.SubprocessError as error:
            why = (
                f"exit code {error.returncode}"
                if isinstance(error, subprocess.CalledProcessError)
                else "no end"
            )
            raise OSError(errno.EIO, f"the program failed ({why})", command[0]) from error

    return run


def _line_of(head: ChainHead) -> bytes:
    text = json.dumps({"chain": head.chain, "length": head.length, "hash": head.hash.hex()})
    return text.encode() + b"\n"


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
