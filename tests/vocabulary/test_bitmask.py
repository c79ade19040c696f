"""Bitmasks are sets of ids."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.vocabulary import bitmask


@given(st.integers(1, 400), st.data())
@settings(max_examples=60, deadline=None)
def test_mask_is_a_set(size: int, data: st.DataObject) -> None:
    """What goes in comes out, counted and ordered, in ceil(size / 32) little-endian words."""
    ids = data.draw(st.sets(st.integers(0, size - 1)))
    mask = bitmask.from_ids(ids, size)
    assert mask.dtype == np.uint32
    assert len(mask) == -(-size // 32)
    assert bitmask.to_ids(mask).tolist() == sorted(ids)
    assert bitmask.count(mask) == len(ids)
    assert [bitmask.has(mask, i) for i in range(size)] == [i in ids for i in range(size)]
    assert int.from_bytes(mask.astype("<u4").tobytes(), "little") == sum(1 << i for i in ids)
