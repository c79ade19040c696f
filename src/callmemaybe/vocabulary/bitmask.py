"""Sets of token ids as bitmasks: uint32 words, bit ``i & 31`` of word ``i >> 5`` is id ``i``.

The same layout (little-endian words, lowest bit first) as xgrammar and llguidance use, so a mask can
be handed to their kernels as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.uint32]
Ids = npt.NDArray[np.int64]

#: Number of ids up to which setting bits one by one is faster than packing booleans (measured at
#: 151,936 ids).
_FEW = 48


def words(size: int) -> int:
    """Return how many 32-bit words a mask over ``size`` ids has."""
    return (size + 31) // 32


def empty(size: int) -> Mask:
    """Return a new mask over ``size`` ids with no bit set."""
    return np.zeros(words(size), np.uint32)


def from_ids(ids: Iterable[int] | npt.NDArray[np.integer], size: int) -> Mask:
    """Return a new mask over ``size`` ids with the bits of ``ids`` set."""
    mask = empty(size)
    add(mask, ids)
    return mask


def add(mask: Mask, ids: Iterable[int] | npt.NDArray[np.integer]) -> None:
    """Set the bits of ``ids`` in ``mask``, in place."""
    listed = ids if isinstance(ids, np.ndarray) else np.fromiter(ids, np.int64)
    if len(listed) <= _FEW:
        view = mask.data
        for index in listed.tolist():
            view[index >> 5] |= 1 << (index & 31)
        return
    np.bitwise_or(mask, _packed(listed, len(mask)), out=mask)


def remove(mask: Mask, ids: Collection[int]) -> None:
    """Clear the bits of ``ids`` in ``mask``, in place."""
    if len(ids) <= _FEW:
        view = mask.data
        for index in ids:
            view[index >> 5] &= ~(1 << (index & 31)) & 0xFFFF_FFFF
        return
    listed = np.fromiter(ids, np.int64, len(ids))
    np.bitwise_and(mask, ~_packed(listed, len(mask)), out=mask)


def _packed(ids: npt.NDArray[np.integer], words: int) -> Mask:
    chosen = np.zeros(words * 32, np.bool_)
    chosen[ids] = True
    return np.packbits(chosen, bitorder="little").view("<u4")


def to_ids(mask: Mask) -> Ids:
    """Return the ids whose bits are set, ascending."""
    return np.flatnonzero(to_bools(mask))


def to_bools(mask: Mask) -> npt.NDArray[np.bool_]:
    """Return one boolean per bit; a multiple of 32 long, so possibly longer than the vocabulary."""
    raw = mask.astype("<u4", copy=False).view(np.uint8)
    return np.unpackbits(raw, bitorder="little").view(np.bool_)


def count(mask: Mask) -> int:
    """Return how many bits are set."""
    return int.from_bytes(mask.tobytes(), "little").bit_count()


def has(mask: Mask, index: int) -> bool:
    """Whether the bit of id ``index`` is set."""
    return bool(int(mask[index >> 5]) >> (index & 31) & 1)
