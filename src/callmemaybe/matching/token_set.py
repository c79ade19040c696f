"""Sets of token ids: a sorted array where few are allowed, a bitmask where many are.

Equal sets are one object, so that thousands of automaton states share a few bitmasks.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Hashable, Iterable, Sequence
from math import gcd, inf
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from callmemaybe.vocabulary import bitmask
from callmemaybe.vocabulary.bitmask import Ids, Mask

#: Sets up to this size are stored as ids; gathering so many logits is faster than scanning all.
MAX_LISTED = 1024
#: Where the largest logit is not allowed, the logits are split into so many rows (fewer where the width
#: does not divide) to find the next largest. After so many more tries all allowed ones are gathered.
ARGMAX_ROWS = 32
ARGMAX_TRIES = 6
#: Sets of ids, bitmasks, and bitmasks made from ids that are cached per vocabulary (19 KB a bitmask
#: at 151,936 ids; thousands of them would make fresh ones slow through memory growth).
IDS_CACHE_SIZE = 4096
BITMASK_CACHE_SIZE = 512
CONVERTED_CACHE_SIZE = 256

Logits = npt.NDArray[np.floating]


class TokenSet:
    """One immutable set of token ids, shared by all states that allow the same ids."""

    __slots__ = ("_count", "_is_contested", "ids", "mask")

    def __init__(self, ids: Ids | None, mask: Mask | None, count: int = -1) -> None:
        """Take the ids (ascending) of a small set, or the bitmask of a large one."""
        self.ids = ids
        self.mask = mask
        self._count = count
        #: Whether the largest logit was not in the set at the last call of `argmax`.
        self._is_contested = False

    @property
    def count(self) -> int:
        """How many ids are in the set; counted when first asked for."""
        if self._count < 0:
            self._count = bitmask.count(self.mask) if self.ids is None else len(self.ids)  # type: ignore[arg-type]
        return self._count

    def __bool__(self) -> bool:
        """Whether there is any id in the set (a large set is never empty)."""
        return self.ids is None or len(self.ids) > 0

    def has(self, index: int) -> bool:
        """Whether an id is in the set."""
        if self.ids is None:
            return bitmask.has(self.mask, index)  # type: ignore[arg-type]
        place = int(self.ids.searchsorted(index))
        return place < len(self.ids) and int(self.ids[place]) == index

    def without(self, ids: Collection[int]) -> TokenSet:
        """Return the set without some ids, which need not be in it."""
        if not ids:
            return self
        if self.ids is not None:
            listed = np.fromiter(ids, np.int64, len(ids))
            return TokenSet(frozen(self.ids[~np.isin(self.ids, listed)]), None)
        mask: Mask = self.mask.copy()  # type: ignore[union-attr]
        bitmask.remove(mask, ids)
        return TokenSet(None, frozen(mask))

    def to_ids(self) -> Ids:
        """Return all ids, ascending."""
        return bitmask.to_ids(self.mask) if self.ids is None else self.ids  # type: ignore[arg-type]

    def argmax(self, logits: Logits) -> int:
        """Return the allowed id with the largest logit (the lowest such id); -1 for the empty set.

        ``logits`` is float[size]; NaN counts as largest. A small set is gathered. For a large one
        the overall largest is nearly always allowed, so that is tried first, unless it was not the
        last time.
        """
        if self.ids is not None:
            return int(self.ids[logits[self.ids].argmax()]) if len(self.ids) else -1
        if not self._is_contested:
            best = int(logits.argmax())
            if self.mask.item(best >> 5) >> (best & 31) & 1:  # type: ignore[union-attr]
                return best
        return self._argmax_of_rows(logits)

    def _argmax_of_rows(self, logits: Logits) -> int:
        """Return the same from the maximum of each row of logits, so that the next largest is in one row."""
        words = self.mask.data  # type: ignore[union-attr]
        count = gcd(len(logits), ARGMAX_ROWS)
        width = len(logits) // count
        rows = logits.reshape(count, width)
        # To find the largest is faster than to find where it is.
        values = np.maximum.reduce(rows, 1)
        copies: dict[int, Logits] = {}
        for number in range(ARGMAX_TRIES + count):
            row = int(values.argmax())
            rest = copies.get(row)
            top = int((rows[row] if rest is None else rest).argmax())
            best = row * width + top
            if words[best >> 5] >> (best & 31) & 1:
                self._is_contested = number > 0
                return best
            if values[row] == -inf:
                break
            if rest is None:
                rest = copies[row] = rows[row].copy()
            rest[top] = -inf
            values[row] = np.maximum.reduce(rest)
        self._is_contested = True
        chosen = self.to_ids()
        return int(chosen[logits[chosen].argmax()])


EMPTY = TokenSet(np.zeros(0, np.int64), None, 0)


class TokenSets:
    """All sets of one vocabulary: equal sets are one object, the most recently used ones are cached."""

    def __init__(self, size: int) -> None:
        """Prepare for sets over ``size`` ids."""
        self.size = size
        self._small: OrderedDict[Hashable, TokenSet] = OrderedDict()
        self._large: OrderedDict[Hashable, TokenSet] = OrderedDict()
        self._converted: deque[TokenSet] = deque()
        self._empty = frozen(bitmask.empty(size))

    def union(self, ids: Iterable[int], parts: Sequence[TokenSet] = ()) -> TokenSet:
        """Return the union of single ids and of other sets."""
        listed = tuple(sorted(set(ids)))
        if not parts:
            key: Hashable = listed
        elif len(parts) == 1 and not listed:
            return parts[0]
        else:
            key = (listed, frozenset(parts))
        for cache in (self._small, self._large):
            if (found := cache.get(key)) is not None:
                cache.move_to_end(key)
                return found
        fresh = self._union(listed, parts)
        cache, size = (
            (self._large, BITMASK_CACHE_SIZE)
            if fresh.ids is None
            else (self._small, IDS_CACHE_SIZE)
        )
        cache[key] = fresh
        if len(cache) > size:
            cache.popitem(last=False)
        return fresh

    def from_ids(self, ids: npt.NDArray[np.integer]) -> TokenSet:
        """Return a set of its own (not interned) from an array of ids, in any order."""
        if len(ids) <= MAX_LISTED:
            return TokenSet(frozen(np.array(sorted(set(ids.tolist())), np.int64)), None)
        return TokenSet(None, frozen(bitmask.from_ids(ids, self.size)))

    def _union(self, listed: Sequence[int], parts: Sequence[TokenSet]) -> TokenSet:
        dense = [part.mask for part in parts if part.ids is None and part.mask is not None]
        arrays = [part.ids for part in parts if part.ids is not None]
        ids = np.array(listed, np.int64)
        if arrays:
            ids = np.array(
                sorted({*listed, *(i for array in arrays for i in array.tolist())}), np.int64
            )
        if not dense and len(ids) <= MAX_LISTED:
            return TokenSet(frozen(ids), None, len(ids))
        mask = dense[0].copy() if dense else bitmask.empty(self.size)
        for other in dense[1:]:
            mask |= other
        bitmask.add(mask, ids)
        return TokenSet(None, frozen(mask))

    def mask_of(self, allowed: TokenSet) -> Mask:
        """Return the read-only bitmask; one made from ids is cached, of which there are few at a time."""
        if allowed.mask is None:
            if allowed.ids is None or not len(allowed.ids):
                return self._empty
            allowed.mask = frozen(bitmask.from_ids(allowed.ids, self.size))
            self._converted.append(allowed)
            if len(self._converted) > CONVERTED_CACHE_SIZE:
                self._converted.popleft().mask = None
        return allowed.mask


Array = TypeVar("Array", bound=npt.NDArray[Any])


def frozen(array: Array) -> Array:
    """Return the same array, made read-only."""
    array.flags.writeable = False
    return array
