"""What an ONNX decoder takes and gives, read from its own declarations. Runs nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from callmemaybe.errors import ModelError

Array = NDArray[Any]

_DTYPES: Mapping[str, type[np.generic]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}
_PAST = re.compile(r"past(?:_key_values)?[._](?:(\d+)[._](key|value)|(key|value)[._](\d+))")
_PRESENT = re.compile(r"present(?:_key_values)?[._](?:(\d+)[._](key|value)|(key|value)[._](\d+))")
_PLAIN_INPUTS = frozenset({"input_ids", "attention_mask", "position_ids", "num_logits_to_keep"})


@dataclass(frozen=True)
class Graph:
    """What a graph takes and gives: the names, element types and shapes that matter."""

    ids: type[np.generic]
    mask: type[np.generic] | None
    positions: type[np.generic] | None
    keep: bool  # takes num_logits_to_keep
    past: tuple[str, ...]
    present: tuple[str, ...]
    logits: str
    logits_type: type[np.generic]
    cache_type: type[np.generic]
    cache_shapes: tuple[tuple[int, int], ...]  # (heads, width) of each past

    @classmethod
    def read(cls, session: Any, where: Path) -> Graph:
        """Read the graph's own declarations; raise ModelError for one that cannot be driven."""
        inputs = {node.name: node for node in session.get_inputs()}
        outputs = {node.name: node for node in session.get_outputs()}
        past = _numbered(inputs, _PAST)
        present = _numbered(outputs, _PRESENT)
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
        nodes = [inputs[name] for name in past.values()]
        types = {_dtype(node, where) for node in nodes}
        if len(types) != 1:
            raise ModelError(f"{where}: cache tensors of several element types")
        for name in ("attention_mask", "position_ids"):
            if name in inputs and len(inputs[name].shape) != 2:
                raise ModelError(f"{where}: {name} of shape {inputs[name].shape} is not supported")
        return cls(
            ids=_dtype(inputs["input_ids"], where),
            mask=_optional(inputs, "attention_mask", where),
            positions=_optional(inputs, "position_ids", where),
            keep="num_logits_to_keep" in inputs,
            past=tuple(past.values()),
            present=tuple(present[key] for key in past),
            logits="logits",
            logits_type=_dtype(outputs["logits"], where),
            cache_type=types.pop(),
            cache_shapes=tuple(_cache_shape(node, where) for node in nodes),
        )

    def feeds(self, ids: Array, past: int, keep: int) -> dict[str, Array]:
        """All inputs but the cache, for ids ``[batch, n]`` that follow ``past`` others."""
        batch, count = ids.shape
        feeds: dict[str, Array] = {"input_ids": np.ascontiguousarray(ids, self.ids)}
        if self.mask is not None:
            feeds["attention_mask"] = np.ones((batch, past + count), self.mask)
        if self.positions is not None:
            row = np.arange(past, past + count, dtype=self.positions)
            feeds["position_ids"] = np.ascontiguousarray(np.broadcast_to(row, (batch, count)))
        if self.keep:
            # Zero would mean "all" to graphs that slice [-n:].
            feeds["num_logits_to_keep"] = np.array(max(keep, 1), np.int64)
        return feeds

    def empty(self, batch: int, length: int) -> list[Array]:
        """Cache arrays of zeros, ``[batch, heads, length, width]`` each."""
        return [
            np.zeros((batch, heads, length, width), self.cache_type)
            for heads, width in self.cache_shapes
        ]

    def cache_bytes(self) -> int:
        """Bytes of cache per position."""
        each = np.dtype(self.cache_type).itemsize
        return each * sum(heads * width for heads, width in self.cache_shapes)


def _numbered(nodes: Mapping[str, Any], pattern: re.Pattern[str]) -> dict[tuple[int, str], str]:
    """Cache tensors by (layer, kind), in the order of the graph."""
    found: dict[tuple[int, str], str] = {}
    for name in nodes:
        match = pattern.fullmatch(name)
        if match:
            layer, kind, other_kind, other_layer = match.groups()
            found[int(layer or other_layer), kind or other_kind] = name
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


def _cache_shape(node: Any, where: Path) -> tuple[int, int]:
    shape = node.shape
    if len(shape) != 4 or not isinstance(shape[1], int) or not isinstance(shape[3], int):
        raise ModelError(f"{where}: {node.name} of shape {shape} is no key-value cache known here")
    return shape[1], shape[3]
