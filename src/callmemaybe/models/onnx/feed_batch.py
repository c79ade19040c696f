"""Passes over several sessions at once, for graphs that place their cache by position.

A pass costs something by itself (reading the weights) and something for each row of ids. Sequences
of several ids each are padded to the longest; what would pad too much goes through alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from callmemaybe.errors import ModelError
from callmemaybe.models.base import Feed, Logits, check_feed, padded_runs
from callmemaybe.models.onnx.engine import Engine, InPlace
from callmemaybe.models.onnx.kv_buffer import BufferPool, KVBuffer, grown_capacity

Array = NDArray[Any]

_LEAST_SLOTS = 8
#: Bytes of a sequence's cache above which it keeps its buffer: copying them into the pool takes longer
#: than sharing the few passes of a call saves (measured: 250 MB of keys and values, 1,659 ms a call
#: in a batch of eight, 790 alone).
_MOST_MOVED = 32 << 20


class _Share(NamedTuple):
    """One session's ids of a pass, and where its answer belongs."""

    at: int
    session: InPlace
    ids: Array
    keep: int


def feed_batch(engine: Engine, feeds: Sequence[Feed]) -> list[Logits | ModelError]:
    """Feed sessions of ``engine`` in few passes; what fails stands in its place."""
    found: list[Any] = [None] * len(feeds)
    shares = []
    for at, (session, ids, keep) in enumerate(feeds):
        left = None if engine.context is None else engine.context - session.length
        try:
            checked = check_feed(ids, keep, engine.size, left)
        except ModelError as error:
            found[at] = error
        else:
            shares.append(_Share(at, session, checked, keep))  # type: ignore[arg-type]
    with engine.lock:
        for group in _plan(engine, shares):
            before = [share.session.length for share in group]
            try:
                if len(group) == 1:
                    rows = [group[0].session.feed(group[0].ids.tolist(), group[0].keep)]
                else:
                    rows = _padded(engine, group)
            except ModelError as error:
                rows = [error] * len(group)  # type: ignore[list-item]
                for share, length in zip(group, before, strict=True):
                    share.session.reach(length)
            for share, answer in zip(group, rows, strict=True):
                found[share.at] = answer
    return found


def _plan(engine: Engine, shares: list[_Share]) -> list[list[_Share]]:
    """Divide what is to be fed into passes that cost the least together."""
    if len(shares) < 2 or not engine.all_logits or not engine.may_batch():
        return [[share] for share in shares]
    most = _MOST_MOVED // engine.graph.cache_bytes()
    fits = [
        len(share.ids) <= engine.most_shared_ids and share.session.length <= most
        for share in shares
    ]
    alone = [share for share, is_fit in zip(shares, fits, strict=True) if not is_fit]
    shares = [share for share, is_fit in zip(shares, fits, strict=True) if is_fit]
    shares.sort(key=lambda share: len(share.ids))
    if engine.context is not None and shares:
        # What pads a row would lie beyond the context.
        end = engine.context - len(shares[-1].ids)
        alone += [share for share in shares if share.session.length > end]
        shares = [share for share in shares if share.session.length <= end]
    counts = [len(share.ids) for share in shares]
    groups, at = [[share] for share in alone], 0
    for size in padded_runs(counts, engine.chunk) if counts else ():
        groups.append(shares[at : at + size])
        at += size
    return groups


def _padded(engine: Engine, group: Sequence[_Share]) -> list[Logits]:
    """Feed a group in one pass, padded to the last of it; return the kept rows of each."""
    width = len(group[-1].ids)
    firsts = [len(share.ids) - share.keep for share in group]
    rows = _pass(
        engine,
        [share.session for share in group],
        [share.ids for share in group],
        width,
        max(1, width - min(firsts)),
    )
    skipped = width - len(rows[0])
    return [
        logits[first - skipped : len(share.ids) - skipped].astype(np.float32)
        if share.keep
        else np.zeros((0, engine.size), np.float32)
        for share, first, logits in zip(group, firsts, rows, strict=True)
    ]


def _pass(
    engine: Engine,
    sessions: Sequence[InPlace],
    parts: Sequence[Array],
    width: int,
    keep: int,
) -> list[Array]:
    """Run one pass over ``sessions``, each with up to ``width`` ids.

    Returns the logits of each, those of the last ``keep`` columns at least.
    """
    slots = _assign_slots(engine, sessions, width)
    pool = engine.pool
    assert pool is not None
    found: dict[int, Array] = {}
    order = sorted(range(len(sessions)), key=slots.__getitem__)
    for run in _slot_runs(pool, [slots[index] for index in order], width):
        low, high = run[0], run[-1] + 1
        ids = np.zeros((high - low, width), np.int64)
        past = [pool.reach(slot) for slot in range(low, high)]
        for index in order:
            if low <= slots[index] < high:
                ids[slots[index] - low, : len(parts[index])] = parts[index]
                past[slots[index] - low] = sessions[index].length
        logits = engine.append(ids, past, keep, pool.span(low, high))
        for index in order:
            if low <= slots[index] < high:
                found[index] = logits[slots[index] - low]
    for session, part in zip(sessions, parts, strict=True):
        session.reach(session.length + len(part))
    return [found[index] for index in range(len(sessions))]


def _assign_slots(engine: Engine, sessions: Sequence[InPlace], width: int) -> list[int]:
    """See to it that all sessions have slots of one pool that they may write to; return those."""
    longest = max(session.length for session in sessions) + width
    pool = engine.pool
    if pool is None or pool.capacity < longest:
        pool = engine.pool = _pool(engine, longest, pool.slots if pool else _LEAST_SLOTS)
    slots: list[int] = []
    for session in sessions:
        slot = pool.slot(session.cache)
        length = session.length
        if slot is None or not session.cache.may_write(session.reader, length, length + width):
            fresh = pool.take()
            if fresh is None:
                engine.pool = _pool(engine, longest, 2 * pool.slots)
                return _assign_slots(engine, sessions, width)
            session.cache = session.cache.move(session.reader, length, length + width, fresh)
            slot = pool.slot(fresh)
            assert slot is not None
        slots.append(slot)
    return slots


def _pool(engine: Engine, length: int, slots: int) -> BufferPool:
    limit = None if engine.context is None else max(length, engine.context)
    buffer: Callable[[int, int], KVBuffer] = engine.buffer
    capacity = grown_capacity(length, limit, tight=engine.kind == "placed")
    return BufferPool(buffer(capacity, slots).arrays, engine.graph.axes, engine.view)


def _slot_runs(pool: BufferPool, slots: Sequence[int], width: int) -> list[list[int]]:
    """Divide slots (ascending) into runs; a slot between two of a run is fed zeros behind its end."""
    runs: list[list[int]] = [[slots[0]]]
    for slot in slots[1:]:
        between = range(runs[-1][-1] + 1, slot)
        if len(between) < 2 and all(pool.reach(at) + width <= pool.capacity for at in between):
            runs[-1].append(slot)
        else:
            runs.append([slot])
    return runs
