"""What an ONNX decoder takes and gives, read from the declarations in its file. Runs nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from callmemaybe.errors import ModelError
from callmemaybe.models.base import Array
from callmemaybe.models.onnx.graph_rewrite import BIAS, KEEP, POSITIONS

_DTYPES: Mapping[str, type[np.generic]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}
_PAST = re.compile(r"past(?:_key_values)?[._](.+)")
_PRESENT = re.compile(r"present(?:_key_values)?[._](.+)")
_PLAIN_INPUTS = frozenset({"input_ids", "attention_mask", "position_ids", KEEP, POSITIONS, BIAS})


@dataclass(frozen=True)
class CacheTensor:
    """One tensor of the cache: keys, values, or whatever else a layer keeps per position.

    Axis 0 is the batch, ``axis`` the sequence; ``shape`` has 0 for both.
    """

    past: str
    present: str
    dtype: type[np.generic]
    shape: tuple[int, ...]
    axis: int

    def empty(self, batch: int, length: int) -> Array:
        """Return zeros for so many sequences of so many positions."""
        shape = list(self.shape)
        shape[0], shape[self.axis] = batch, length
        return np.zeros(shape, self.dtype)

    @property
    def width(self) -> int:
        """Bytes per position."""
        fixed = math.prod(size for at, size in enumerate(self.shape) if at not in {0, self.axis})
        return fixed * np.dtype(self.dtype).itemsize


class TreeAttention(NamedTuple):
    """Positions and visibility of the ids of one pass over several sequences in one buffer.

    ``positions`` is ``int64[n]``, ``visible`` is ``bool[n, cells]``: the cells that belong to
    each id's sequence; the ids' own cells are the last ``n``.
    """

    positions: Array
    visible: Array


@dataclass(frozen=True)
class Graph:
    """What a graph takes and gives: the names, element types and shapes that matter."""

    ids: type[np.generic]
    mask: type[np.generic] | None
    positions: type[np.generic] | None
    keep: bool  # takes num_logits_to_keep
    #: Type of the attention bias, where the graph takes one; whether it takes positions for the rotation.
    bias: type[np.generic] | None
    rotates: bool
    cache: tuple[CacheTensor, ...]
    #: Whether the cache comes out as long as it went in, by its declared dimensions: written to at
    #: the positions of the ids rather than appended to.
    by_position: bool
    #: Whether several sequences may go through at once.
    batched: bool
    logits: str
    logits_type: type[np.generic]

    @classmethod
    def read(cls, session: Any, where: Path) -> Graph:
        """Read the graph's own declarations; raise ModelError for one that cannot be driven."""
        inputs = {node.name: node for node in session.get_inputs()}
        outputs = {node.name: node for node in session.get_outputs()}
        past = _matching(inputs, _PAST)
        present = _matching(outputs, _PRESENT)
        strange = sorted(inputs.keys() - _PLAIN_INPUTS - set(past.values()))
        reason = None
        if "input_ids" not in inputs:
            reason = "it does not take input_ids"
        elif "logits" not in outputs:
            reason = "it does not give logits"
        elif not past:
            reason = "it takes no key-value cache (export it with past key values)"
        elif strange:
            reason = f"it asks for {', '.join(strange[:4])}, which this version cannot supply"
        elif past.keys() != present.keys():
            reason = "its cache inputs and outputs do not pair up"
        elif not _free(inputs["input_ids"].shape, 1):
            reason = f"its sequence length is fixed to {inputs['input_ids'].shape[1]}"
        if reason:
            raise ModelError(f"{where} is no decoder that can be driven: {reason}")
        for name in ("attention_mask", "position_ids"):
            if name in inputs and len(inputs[name].shape) != 2:
                raise ModelError(f"{where}: {name} of shape {inputs[name].shape} is not supported")
        return cls(
            ids=_dtype(inputs["input_ids"], where),
            mask=_optional(inputs, "attention_mask", where),
            positions=_optional(inputs, "position_ids", where),
            keep=KEEP in inputs,
            bias=_optional(inputs, BIAS, where),
            rotates=POSITIONS in inputs,
            cache=tuple(
                _state(inputs[name], outputs[present[key]].name, where)
                for key, name in past.items()
            ),
            by_position="position_ids" in inputs
            and all(
                isinstance(length := _length(inputs[name]), str)
                and length == _length(outputs[present[key]])
                for key, name in past.items()
            ),
            batched=_free(inputs["input_ids"].shape, 0),
            logits="logits",
            logits_type=_dtype(outputs["logits"], where),
        )

    def feeds(
        self,
        ids: Array,
        past: Sequence[int],
        keep: int,
        width: int | None = None,
        tree: TreeAttention | None = None,
    ) -> dict[str, Array]:
        """All inputs but the cache, for ids ``[batch, n]`` behind ``past`` others each.

        ``width`` is that of the mask, by default as many as the longest sequence holds then.
        ``tree`` is for ids of several sequences; by default each id follows the one before it.
        """
        count = ids.shape[1]
        feeds: dict[str, Array] = {"input_ids": np.ascontiguousarray(ids, self.ids)}
        starts = np.asarray(past)[:, None]
        if self.mask is not None:
            columns = np.arange(max(past) + count if width is None else width)
            feeds["attention_mask"] = (columns < starts + count).astype(self.mask)
        positions = starts + np.arange(count) if tree is None else tree.positions[None, :]
        if self.positions is not None:
            feeds["position_ids"] = positions.astype(self.positions)
        if self.rotates:
            feeds[POSITIONS] = np.ascontiguousarray(positions, np.int64)
        if self.bias is not None:
            # Only later ids are hidden, and causal attention hides those by itself.
            shape = (1, 1, count, max(past) + count)
            feeds[BIAS] = np.zeros(shape, self.bias) if tree is None else self.attention_bias(tree)
        if self.keep:
            # Zero would mean "all" to graphs that slice [-n:].
            feeds[KEEP] = np.array(max(keep, 1), np.int64)
        return feeds

    def attention_bias(self, tree: TreeAttention) -> Array:
        """Return the bias ``[1, 1, n, cells]`` that hides the cells of other sequences."""
        least = -3e4 if self.bias == np.float16 else -1e9
        return np.where(tree.visible, 0, least).astype(self.bias)[None, None]

    def empty(self, batch: int, length: int) -> list[Array]:
        """Cache arrays of zeros for ``batch`` sequences of ``length`` positions."""
        return [state.empty(batch, length) for state in self.cache]

    def is_cache(self, arrays: Sequence[Array], length: int, context: int | None) -> bool:
        """Whether ``arrays`` are a cache of ``length`` positions that this graph could have made."""
        fits = len(arrays) == len(self.cache) and (context is None or length <= context)
        return fits and all(
            array.shape == state.empty(1, length).shape and array.dtype == state.dtype
            for array, state in zip(arrays, self.cache, strict=True)
        )

    @property
    def axes(self) -> tuple[int, ...]:
        """The sequence axis of each tensor of the cache."""
        return tuple(state.axis for state in self.cache)

    def cache_bytes(self) -> int:
        """Bytes of cache per position."""
        return sum(state.width for state in self.cache)


def _matching(nodes: Mapping[str, Any], pattern: re.Pattern[str]) -> dict[tuple[str, ...], str]:
    """Return cache tensors by their names without "past" and "present", in the order of ``nodes``."""
    found: dict[tuple[str, ...], str] = {}
    for name, node in nodes.items():
        match = pattern.fullmatch(name)
        if match and len(node.shape) > 1:
            found[tuple(sorted(re.split("[._]", match[1])))] = name
    return found


def _dtype(node: Any, where: Path) -> type[np.generic]:
    found = _DTYPES.get(node.type)
    if found is None:
        raise ModelError(f"{where}: {node.name} is a {node.type}, which this version cannot handle")
    return found


def _optional(nodes: Mapping[str, Any], name: str, where: Path) -> type[np.generic] | None:
    return _dtype(nodes[name], where) if name in nodes else None


def _free(shape: Sequence[Any], axis: int) -> bool:
    return len(shape) > axis and not isinstance(shape[axis], int)


def _state(node: Any, present: str, where: Path) -> CacheTensor:
    shape = node.shape
    free = [axis for axis in range(1, len(shape)) if _free(shape, axis)]
    if len(free) != 1:
        raise ModelError(
            f"{where}: {node.name} of shape {shape} is no cache by position; one length must be open"
        )
    fixed = tuple(size if isinstance(size, int) and at else 0 for at, size in enumerate(shape))
    return CacheTensor(node.name, present, _dtype(node, where), fixed, free[0])


def _length(node: Any) -> Any:
    """Return the name of a cache tensor's open length, None if it has none."""
    return next((size for size in node.shape[1:] if not isinstance(size, int)), None)
