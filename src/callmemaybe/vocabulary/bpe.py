"""Byte-level BPE over flat arrays: the same ids as ``tokenizers``, without its start-up time.

The library takes most of a second, and 90 MB, to read the merges of a large vocabulary. Here they
are sorted arrays that can be mapped from a file; the ids of each word are computed once and cached.
Splitting text into words is not done here (see :mod:`.pretokenizer` and :mod:`.encoders`).

The algorithm is that of ``tokenizers`` (models/bpe/word.rs): of all neighbours that can merge, take
the pair of the lowest rank, and of equals the leftmost.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

#: Size of the cache of words, and the longest word in it; longer ones hardly come again.
WORD_CACHE_SIZE = 8192
LONGEST_CACHED_WORD = 64
#: Size of the cache of pairs of tokens and their ranks.
PAIR_CACHE_SIZE = 16_384
#: Words up to this length are merged by a scan for each merge, longer ones with a heap.
SHORT_WORD = 32
#: The rank of a pair that does not merge.
NO_MERGE = 1 << 31
#: Bits of a position in a word, in the entries of the heap.
_PLACE = 32
_HERE = (1 << _PLACE) - 1

#: The arrays of :func:`merge_tables`: for each left token from ``first[left]`` to ``first[left + 1]`` the
#: right tokens it merges with, ascending, and the rank of each; ``target`` is the token by rank;
#: ``of_byte`` the token of each byte, -1 for none.
ARRAYS: Mapping[str, type[np.generic]] = {
    "first": np.int32, "right": np.int32, "rank": np.int32, "target": np.int32,
    "of_byte": np.int32,
}  # fmt: skip

Splitter = Callable[[str], Iterable[str]]


def alphabet() -> dict[int, int]:
    """Return GPT-2's alphabet: the byte that each character stands for.

    Printable bytes stand for themselves, the others are moved up.
    """
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in kept]
    return {byte: byte for byte in kept} | {0x100 + n: byte for n, byte in enumerate(moved)}


ALPHABET = alphabet()


def merge_tables(
    pieces: Mapping[str, int], pairs: Sequence[str | Sequence[str]]
) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a vocabulary ``pieces`` and its merges, best first.

    A merge is a pair of pieces, or both with a space between. Raises ValueError or KeyError for
    one that is neither, or whose pieces are not in the vocabulary.
    """
    split = [pair.split(" ") if isinstance(pair, str) else pair for pair in pairs]
    left = np.array([pieces[one] for one, _ in split], np.int64)
    right = np.array([pieces[other] for _, other in split], np.int64)
    target = np.array([pieces[one + other] for one, other in split], np.int32)
    # Of equal pairs the last one counts, as in the library's table.
    order = np.lexsort((-np.arange(len(left)), right, left))
    left, right = left[order], right[order]
    kept = np.ones(len(left), np.bool_)
    kept[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
    count = 1 + max(pieces.values(), default=-1)
    counts = np.bincount(left[kept], minlength=count)
    of_byte = np.full(256, -1, np.int32)
    for character, byte in ALPHABET.items():
        of_byte[byte] = pieces.get(chr(character), -1)
    return {
        "first": np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        "right": right[kept].astype(np.int32),
        "rank": order[kept].astype(np.int32),
        "target": target,
        "of_byte": of_byte,
    }


class Bpe:
    """Encodes text; bytes without a token are dropped."""

    def __init__(
        self,
        arrays: Mapping[str, npt.NDArray[Any]],
        split: Splitter,
        whole: Callable[[bytes], int] | None = None,
    ) -> None:
        """Take the arrays of :func:`merge_tables` and a function that splits text into words, in GPT-2's alphabet.

        ``whole`` gives the token that is a whole word, or -1; with it, such words are not merged
        (the setting ``ignore_merges``).
        """
        self._split = split
        self._whole = whole
        self._first = arrays["first"].data
        self._right = arrays["right"].data
        self._rank = arrays["rank"].data
        self._target = arrays["target"].data
        self._of_byte: list[int] = arrays["of_byte"].tolist()
        self._known: dict[str, list[int]] = {}
        self._pairs: dict[tuple[int, int], int] = {}

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""
        known = self._known
        ids: list[int] = []
        for word in self._split(text):
            found = known.get(word)
            ids += self._encode_word(word) if found is None else found
        return ids

    def _encode_word(self, word: str) -> list[int]:
        """Return the ids of a word that is not in the cache, and cache them."""
        data = word.translate(ALPHABET).encode("latin-1")
        index = -1 if self._whole is None else self._whole(data)
        of_byte = self._of_byte
        found = [index]
        if index < 0:
            ids = [of_byte[byte] for byte in data if of_byte[byte] >= 0]
            found = self._merge_short(ids) if len(ids) <= SHORT_WORD else self._merge_long(ids)
        if len(word) <= LONGEST_CACHED_WORD:
            if len(self._known) >= WORD_CACHE_SIZE:
                self._known.clear()
            self._known[word] = found
        return found

    def _rank_of(self, left: int, right: int) -> int:
        """Return the rank at which two tokens merge, or -1."""
        end = self._first[left + 1]
        place = bisect_left(self._right, right, self._first[left], end)
        if place < end and self._right[place] == right:
            return self._rank[place]
        return -1

    def _cache_rank(self, left: int, right: int) -> int:
        """Return the rank at which two tokens merge, or NO_MERGE; caches it."""
        found = self._rank_of(left, right)
        if found < 0:
            found = NO_MERGE
        if len(self._pairs) >= PAIR_CACHE_SIZE:
            self._pairs.clear()
        self._pairs[left, right] = found
        return found

    def _merge_short(self, ids: list[int]) -> list[int]:
        """Merge a short word, as :meth:`_merge_long` does; most of its pairs are in the cache."""
        known, met, target = self._pairs, self._cache_rank, self._target
        ranks = [
            met(*pair) if (rank := known.get(pair)) is None else rank for pair in pairwise(ids)
        ]
        while ranks and (best := min(ranks)) < NO_MERGE:
            at = ranks.index(best)
            merged = ids[at] = target[best]
            del ids[at + 1], ranks[at]
            if at < len(ranks):
                pair = merged, ids[at + 1]
                rank = known.get(pair)
                ranks[at] = met(*pair) if rank is None else rank
            if at:
                pair = ids[at - 1], merged
                rank = known.get(pair)
                ranks[at - 1] = met(*pair) if rank is None else rank
        return ids

    def _merge_long(self, ids: list[int]) -> list[int]:
        """Merge neighbours, best rank first and the leftmost of equals, until none merge.

        A merged token takes the left place of its pair. ``ranks[at]`` is the rank at which the token
        at a place merges with the next; an entry of the heap with another rank is out of date.
        """
        count = len(ids)
        rank_of = self._rank_of
        ranks = [rank_of(ids[at], ids[at + 1]) for at in range(count - 1)]
        heap = [rank << _PLACE | at for at, rank in enumerate(ranks) if rank >= 0]
        if not heap:
            return ids
        ranks.append(-1)
        heapify(heap)
        before, after = list(range(-1, count - 1)), list(range(1, count + 1))
        while heap:
            rank, at = (best := heappop(heap)) >> _PLACE, best & _HERE
            if ranks[at] != rank:
                continue
            gone = after[at]
            ids[at] = self._target[rank]
            onward = after[at] = after[gone]
            ids[gone] = ranks[gone] = ranks[at] = -1
            if onward < count:
                before[onward] = at
                ranks[at] = rank = rank_of(ids[at], ids[onward])
                if rank >= 0:
                    heappush(heap, rank << _PLACE | at)
            previous = before[at]
            if previous >= 0:
                ranks[previous] = rank = rank_of(ids[previous], ids[at])
                if rank >= 0:
                    heappush(heap, rank << _PLACE | previous)
        return [index for index in ids if index >= 0]
