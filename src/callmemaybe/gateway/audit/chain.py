"""The audit log as a hash chain: the hash of each record covers the hash of the record before it.

There is one chain per writing process. Recomputing a chain finds a record that was changed, dropped or
reordered. A chain whose end was cut off is found only up to its last anchor, a head that was stored
elsewhere. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

#: The hash before the first record of a chain.
GENESIS = hashlib.sha256(b"callmemaybe audit chain 1").digest()


@dataclass(frozen=True)
class ChainHead:
    """The end of a chain: the number of records and the hash of the last one."""

    chain: str
    length: int = 0
    hash: bytes = GENESIS


@dataclass(frozen=True)
class ChainBreak:
    """A place where a chain is broken, and why."""

    chain: str
    at: int
    why: str

    def __str__(self) -> str:
        return f"chain {self.chain}, record {self.at}: {self.why}"


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text that a record stands for, 64 hexadecimal digits."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def record_hash(previous: bytes, chain: str, number: int, key: str, record: str) -> bytes:
    """Return the hash of a record: SHA-256 over the previous hash and the record's columns.

    ``chain`` and ``key`` are hexadecimal ids, so line breaks separate the parts without ambiguity.
    """
    return hashlib.sha256(
        previous + f"{chain}\n{number}\n{key}\n{record}".encode(errors="surrogatepass")
    ).digest()


def verify_chains(
    rows: Iterable[tuple[str, int, str, str, bytes]],
    anchors: Iterable[ChainHead] = (),
    archived: Iterable[ChainHead] = (),
) -> tuple[dict[str, ChainHead], list[ChainBreak]]:
    """Recompute chains from rows (chain, number, key, record, hash), ordered by chain and number.

    Returns the head of each chain, and every break. An anchor that no record matches is a break too.
    ``archived`` are heads up to which chains were archived: rows before one of them may be missing.
    """
    sha256 = hashlib.sha256  # record_hash() inlined: this loop runs once per audit record
    anchored: dict[str, dict[int, bytes]] = {}
    for anchor in anchors:
        anchored.setdefault(anchor.chain, {})[anchor.length] = anchor.hash
    moved: dict[str, dict[int, bytes]] = {}
    heads: dict[str, ChainHead] = {}
    for head in archived:
        moved.setdefault(head.chain, {})[head.length] = head.hash
        heads[head.chain] = max(heads.get(head.chain, head), head, key=lambda one: one.length)
    breaks: list[ChainBreak] = []
    current, number, previous = "", 0, GENESIS
    marks: dict[int, bytes] = {}
    for chain, at, key, record, stored in rows:
        if chain != current:
            if current:
                heads[current] = ChainHead(current, number, previous)
            current, number, previous = chain, 0, GENESIS
            marks = anchored.get(chain, {})
        number += 1
        if at != number:
            start = moved.get(chain, {}).get(at - 1) if at > number else None
            if start is None:
                breaks.append(ChainBreak(chain, number, f"missing; the next record there is {at}"))
            else:
                previous = start
            number = at
        expected = sha256(
            previous + f"{chain}\n{at}\n{key}\n{record}".encode(errors="surrogatepass")
        ).digest()
        previous = stored
        if expected != stored:
            breaks.append(ChainBreak(chain, at, "the record was changed, or what it follows was"))
        if marks and marks.get(at, stored) != stored:
            breaks.append(ChainBreak(chain, at, "the anchor noted another hash"))
    if current:
        heads[current] = ChainHead(current, number, previous)
    for chain, lengths in anchored.items():
        end = heads[chain].length if chain in heads else 0
        if max(lengths) > end:
            breaks.append(
                ChainBreak(chain, end + 1, f"cut off: the anchor saw {max(lengths)} records")
            )
    return heads, breaks
