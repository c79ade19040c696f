"""The tokens of a vocabulary as a prefix tree in flat arrays, built level by level with numpy.

Nodes are numbered breadth first, so the children of a node are consecutive (sorted by byte), and so
are the children of consecutive nodes. Every node has the range of the sorted tokens that begin with
it. So one tree serves a walk along a few bytes as well as vectorised steps over whole levels.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]

_SLOTS = 1 << 16
#: Nodes whose next bytes are cached.
_NEXT_BYTES_CACHE_SIZE = 4096
#: Bit for "this long or longer" in the table of prefix lengths.
_LONGEST = 63


def _last_three(one: Any, two: Any, three: Any) -> Any:
    """Return the slot of three bytes (ints or arrays of them)."""
    return (one * 7919 + two * 257 + three * 41) % _SLOTS


class Trie:
    """A prefix tree over (token, id) pairs; node 0 is the root.

    ``order``  int32[tokens]   the ids, sorted by their bytes
    ``byte``   uint8[nodes]    the last byte of the node's prefix (0 at the root)
    ``parent`` intp[nodes]     the node above (0 at the root)
    ``first``  int32[nodes+1]  the children of node n are ``first[n]`` to ``first[n+1]``
    ``low``, ``high`` int32[nodes]  the tokens that begin with node n are ``order[low[n]:high[n]]``
    ``own``    int32[nodes]    how many of them end at n; they are the first ones
    ``starts`` the first node of every level; a node's level is the length of its prefix

    ``bytes_``, ``first_``, ``order_``, ``own_``, ``low_`` and ``high_`` are the same data in the
    form that plain Python reads fastest.
    """

    __slots__ = (
        "_lengths",
        "_next_bytes",
        "_node_of_id",
        "_texts",
        "_tokens",
        "_wide_byte",
        "byte",
        "bytes_",
        "first",
        "first_",
        "high",
        "high_",
        "low",
        "low_",
        "order",
        "order_",
        "own",
        "own_",
        "parent",
        "starts",
    )  # fmt: skip

    #: The arrays of :meth:`arrays`, and the type of each.
    ARRAYS: Mapping[str, type[np.generic]] = {
        "order": np.int32, "byte": np.uint8, "parent": np.intp, "first": np.int32, "low": np.int32,
        "high": np.int32, "own": np.int32, "starts": np.int64,
        "node_of_id": np.intp, "lengths": np.uint64,
    }  # fmt: skip

    def __init__(
        self,
        tokens: Sequence[bytes],
        ids: Sequence[int] | None = None,
        *,
        arrays: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> None:
        """Build the tree of all non-empty ``tokens``; ``ids`` defaults to their positions.

        ``arrays`` is the result of :meth:`arrays` for the same tokens; with it nothing is built.
        """
        self._tokens = tokens
        self._texts: list[bytes] | None = None
        self._next_bytes: dict[int, int] = {}
        self._lengths: npt.NDArray[np.uint64] | None = None
        self._wide_byte: npt.NDArray[np.intp] | None = None
        self._node_of_id: npt.NDArray[np.intp] | None = None
        if arrays is None:
            named = range(len(tokens)) if ids is None else ids
            pairs = sorted(
                (token, name) for token, name in zip(tokens, named, strict=True) if token
            )
            self.order: Int32 = np.array([name for _, name in pairs], np.int32)
            self._texts = [token for token, _ in pairs]
            self._build(self._texts)
        else:
            for name in ("order", "byte", "parent", "first", "low", "high", "own"):
                setattr(self, name, arrays[name])
            self.starts = arrays["starts"].tolist()
            self._node_of_id, self._lengths = arrays["node_of_id"], arrays["lengths"]
        self.bytes_ = self.byte.tobytes()
        self.first_ = self.first.data
        self.own_ = self.own.data
        self.order_ = self.order.data
        self.low_ = self.low.data
        self.high_ = self.high.data

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the tree as flat arrays, from which it can be made again."""
        return {name: np.asarray(getattr(self, name), kind) for name, kind in self.ARRAYS.items()}

    def _build(self, ordered: list[bytes]) -> None:
        lengths = np.fromiter(map(len, ordered), np.int64, len(ordered))
        text = np.frombuffer(b"".join(ordered), np.uint8)
        starts = np.cumsum(lengths) - lengths
        deepest = int(lengths.max(initial=0))
        node_of = np.zeros(len(ordered), np.int64)
        active = np.arange(len(ordered))
        levels: list[tuple[npt.NDArray[Any], ...]] = [
            (np.zeros(1, np.uint8), np.zeros(1), np.array([len(ordered)]), np.zeros(1))
        ]
        parents: list[npt.NDArray[Any]] = []
        self.starts = [0, 1]
        total = 1
        for depth in range(deepest):
            active = active[lengths[active] > depth]
            here, above = text[starts[active] + depth], node_of[active]
            fresh = np.ones(len(active), np.bool_)
            fresh[1:] = (here[1:] != here[:-1]) | (above[1:] != above[:-1])
            heads = np.flatnonzero(fresh)
            node_of[active] = total + np.cumsum(fresh) - 1
            low = active[heads]
            sizes = np.diff(heads, append=len(active))
            own = np.add.reduceat((lengths[active] == depth + 1).astype(np.int64), heads)
            levels.append((here[heads], low, low + sizes, own))
            parents.append(above[heads])
            total += len(heads)
            self.starts.append(total)
        self.byte = np.concatenate([level[0] for level in levels])
        self.low, self.high, self.own = (
            np.concatenate([level[column] for level in levels]).astype(np.int32)
            for column in (1, 2, 3)
        )
        self.parent: npt.NDArray[np.intp] = np.concatenate([[0], *parents]).astype(np.intp)
        children = np.bincount(self.parent[1:], minlength=total)
        self.first: Int32 = np.concatenate([[1], 1 + np.cumsum(children)]).astype(np.int32)

    def texts(self, low: int, high: int) -> list[bytes]:
        """Return the tokens ``order[low:high]``."""
        if self._texts is None:
            return list(map(self._tokens.__getitem__, self.order_[low:high]))
        return self._texts[low:high]

    @property
    def wide_byte(self) -> npt.NDArray[np.intp]:
        """``byte`` as indices, computed on first use."""
        if self._wide_byte is None:
            self._wide_byte = self.byte.astype(np.intp)
        return self._wide_byte

    @property
    def node_of_id(self) -> npt.NDArray[np.intp]:
        """The node of every token up to the highest id; 0 for ids that are not in the tree."""
        if self._node_of_id is None:
            holders = np.flatnonzero(self.own)
            found = np.zeros(int(self.order.max()) + 1, np.intp)
            found[self.ids_of(holders)] = np.repeat(holders, self.own[holders])
            self._node_of_id = found
        return self._node_of_id

    def child(self, node: int, byte: int) -> int:
        """Return the node behind ``node`` and one byte, or -1."""
        return self.bytes_.find(byte, self.first_[node], self.first_[node + 1])

    def children_of(
        self, nodes: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int32]]:
        """Return the children of nodes, one node's after the other's, and how many each has."""
        begins = self.first[nodes]
        counts = self.first[nodes + 1] - begins
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        return np.repeat(begins - (ends - counts), counts) + np.arange(total), counts

    def next_bytes(self, node: int) -> int:
        """Return the bytes that can follow a node, as a 256-bit set; cached for some nodes."""
        found = self._next_bytes.get(node)
        if found is None:
            found = 0
            for byte in self.bytes_[self.first_[node] : self.first_[node + 1]]:
                found |= 1 << byte
            if len(self._next_bytes) >= _NEXT_BYTES_CACHE_SIZE:
                self._next_bytes.clear()
            self._next_bytes[node] = found
        return found

    def depth(self, node: int) -> int:
        """Return the length of the node's prefix."""
        return bisect_right(self.starts, node) - 1

    def suffix_lengths(self, data: bytes) -> Iterator[int]:
        """Yield, ascending, each length at which the end of ``data`` may be a proper prefix of tokens.

        All lengths at which it is one are among them, and few others, which :meth:`find` excludes: a
        table of the last three bytes of all proper prefixes serves as a filter.
        """
        lengths = int(self.lengths[_last_three(*data[-3:])]) if len(data) > 2 else 0
        yield from range(1, min(2, len(data)) + 1)
        for length in range(3, min(len(data), _LONGEST - 1) + 1):
            if lengths >> length & 1:
                yield length
        if lengths >> _LONGEST:
            yield from range(_LONGEST, len(data) + 1)

    @property
    def lengths(self) -> npt.NDArray[np.uint64]:
        """For each hash of three last bytes, the set of prefix lengths as bits."""
        if self._lengths is None:
            self._lengths = self._tabulate()
        return self._lengths

    def _tabulate(self) -> npt.NDArray[np.uint64]:
        inner = np.flatnonzero(np.diff(self.first))
        levels = np.searchsorted(self.starts, inner, side="right") - 1
        inner, levels = inner[levels > 2], np.minimum(levels[levels > 2], _LONGEST)
        above = self.parent[inner]
        slots = _last_three(
            *(self.byte[nodes].astype(np.int64) for nodes in (self.parent[above], above, inner))
        )
        table = np.zeros(_SLOTS, np.uint64)
        np.bitwise_or.at(table, slots, np.left_shift(np.uint64(1), levels.astype(np.uint64)))
        return table

    def find(self, data: bytes, node: int = 0) -> int:
        """Return the node behind ``node`` and ``data``, or -1 when no token begins so."""
        for byte in data:
            node = self.child(node, byte)
            if node < 0:
                return -1
        return node

    def ids_at(self, node: int) -> Int32:
        """Return the ids of the tokens that are exactly this node's prefix."""
        low = int(self.low[node])
        return self.order[low : low + int(self.own[node])]

    def ids_below(self, node: int) -> Int32:
        """Return the ids of all tokens that begin with this node's prefix."""
        return self.order[self.low[node] : self.high[node]]

    def ids_of(self, nodes: npt.NDArray[np.integer]) -> Int32:
        """Return the ids of the tokens that end at any of ``nodes``, in the nodes' order."""
        counts = self.own[nodes]
        if not len(nodes) or counts.min() == counts.max() == 1:
            alone: Int32 = self.order[self.low[nodes]]
            return alone
        ends = np.cumsum(counts)
        offsets = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
        found: Int32 = self.order[np.repeat(self.low[nodes], counts) + offsets]
        return found
