"""The audit as a chain of hashes: each record carries the hash of the one before.

One chain per writing process. Changing, dropping or reordering a record inside a chain is found by
recomputing it; cutting its end off is found only up to the last head noted elsewhere (an anchor).
Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

#: What the first record of a chain follows.
GENESIS = hashlib.sha256(b"callmemaybe audit chain 1").digest()


@dataclass(frozen=True)
class Head:
    """The end of a chain: how many records, and the hash of the last."""

    chain: str
    length: int = 0
    hash: bytes = GENESIS


@dataclass(frozen=True)
class Break:
    """Where a chain does not hold, and why."""

    chain: str
    at: int
    why: str

    def __str__(self) -> str:
        return f"chain {self.chain}, record {self.at}: {self.why}"


def link(previous: bytes, chain: str, number: int, key: str, record: str) -> bytes:
    """Return the hash of a record: SHA-256 over the previous hash and all that is stored of it.

    ``chain`` and ``key`` are our own hexadecimal ids, so the line breaks keep the parts apart.
    """
    return hashlib.sha256(
        previous + f"{chain}\n{number}\n{key}\n{record}".encode(errors="surrogatepass")
    ).digest()


def verify(
    rows: Iterable[tuple[str, int, str, str, bytes]], anchors: Iterable[Head] = ()
) -> tuple[dict[str, Head], list[Break]]:
    """Recompute chains from rows (chain, number, key, record, hash), ordered by chain and number.

    Returns the heads found, and every break. An anchor that no record matches is a break too.
    """
    sha256 = hashlib.sha256
    noted: dict[str, dict[int, bytes]] = {}
    for anchor in anchors:
        noted.setdefault(anchor.chain, {})[anchor.length] = anchor.hash
    heads: dict[str, Head] = {}
    breaks: list[Break] = []
    current, number, previous = "", 0, GENESIS
    marks: dict[int, bytes] = {}
    for chain, at, key, record, stored in rows:
        if chain != current:
            if current:
                heads[current] = Head(current, number, previous)
            current, number, previous = chain, 0, GENESIS
            marks = noted.get(chain, {})
        number += 1
        if at != number:
            breaks.append(Break(chain, number, f"missing; the next record there is {at}"))
            number = at
        expected = sha256(
            previous + f"{chain}\n{at}\n{key}\n{record}".encode(errors="surrogatepass")
        ).digest()
        previous = stored
        if expected != stored:
            breaks.append(Break(chain, at, "the record was changed, or what it follows was"))
        if marks and marks.get(at, stored) != stored:
            breaks.append(Break(chain, at, "the anchor noted another hash"))
    if current:
        heads[current] = Head(current, number, previous)
    for chain, lengths in noted.items():
        end = heads[chain].length if chain in heads else 0
        if max(lengths) > end:
            breaks.append(Break(chain, end + 1, f"cut off: the anchor saw {max(lengths)} records"))
    return heads, breaks
