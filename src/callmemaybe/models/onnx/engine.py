"""A loaded graph and how it is run: what kind of cache it has, whether it batches, one pass.

No declaration in an ONNX file promises that writing into the cache in place is right, or that
several sequences may share a pass, and a wrong guess gives wrong logits rather than an error. So the
engine runs a few ids both ways when the graph is loaded, and compares the logits.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from callmemaybe.errors import ModelError
from callmemaybe.models.base import Array, Files
from callmemaybe.models.onnx.graph import Graph, TreeAttention
from callmemaybe.models.onnx.kv_buffer import BoundArrays, BufferPool, KVBuffer
from callmemaybe.models.onnx.onnxruntime import (
    first_line,
    has_fused_attention,
    run_options,
    wrap,
)
from callmemaybe.models.onnx.segments import SegmentLayout, SegmentStates

_LOGITS_BYTES = 64 << 20  # of one chunk
_CHUNK = 512


class OnnxEngine:
    """A loaded graph and how to run it; ``session`` is onnxruntime's."""

    def __init__(
        self,
        session: Any,
        weights: Path,
        files: Files,
        context: int | None,
        share: bool,
    ) -> None:
        self.session, self.weights, self.context = session, weights, context
        self.graph = Graph.read(session, weights)
        self.outputs = (self.graph.logits, *(state.present for state in self.graph.cache))
        self.all_logits = True  # whether the graph gives logits for each position
        self.batches: bool | None = None  # whether a padded batch is right; None: not tried yet
        self.size = 0
        self.kind: Literal["fused", "by_position", "growing"] = "growing"
        self.probe(files, share)
        by_memory = _LOGITS_BYTES // (self.size * np.dtype(self.graph.logits_type).itemsize)
        self.chunk = _CHUNK if self.graph.keep else max(16, min(_CHUNK, by_memory))
        self.segments = self.segment_states(files)
        self.lock = threading.RLock()  # guards pool and common
        self.pool: BufferPool | None = None
        #: A weak reference to the buffer in which short sequences begin; see :mod:`.shared_kv`.
        self.common: Any = None

    def probe(self, files: Files, share: bool) -> None:
        """Run two ids: learn the shape of the logits, and whether writing in place is right."""
        on_cpu = self.session.get_providers()[0] == "CPUExecutionProvider"
        if share and on_cpu and self.graph.by_position:
            self.kind = "by_position"
            try:
                logits = self.append(np.array([[0, 1]]), [0], 2, self.buffer(4), quiet=True)
                self.set_shape(logits)
                if self.agrees(logits):
                    return
            except ModelError:
                pass  # the names of the dimensions were misleading
            self.kind = "growing"
        ids = np.array([[0, 1]])
        logits, _ = self.grow(ids, 0, 2, [wrap(array) for array in self.graph.empty(1, 0)])
        self.set_shape(logits)
        masked = self.graph.mask is not None
        if share and on_cpu and self.all_logits and masked and self.fused(files):
            self.kind = "fused"
            if not self.agrees(logits):
                self.kind = "growing"

    def segment_states(self, files: Files) -> SegmentStates | None:
        """Return what will be kept of segments that see only themselves; None where the graph has none.

        Raises ModelError if what the configuration says of them does not fit the graph.
        """
        about, where = files.config.get("segments"), files.folder / "config.json"
        if about is None or self.kind != "by_position":
            return None
        return SegmentStates(SegmentLayout.read(about, self.graph, where))

    def set_shape(self, logits: Array) -> None:
        """Set width and rows from the logits of two ids."""
        self.size = int(logits.shape[-1])
        self.all_logits = logits.shape[-2] == 2

    @property
    def shares(self) -> bool:
        """Whether the cache is written in place."""
        return self.kind != "growing"

    def fused(self, files: Files) -> bool:
        """Whether the graph has the operator that can append in place."""
        search = files.genai.get("search")
        if isinstance(search, dict) and search.get("past_present_share_buffer"):
            return True
        with (
            self.weights.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            return has_fused_attention(content)

    def agrees(self, expected: Array) -> bool:
        """Whether feeding ids one by one into a buffer with room to spare gives ``expected``."""
        cache = self.buffer(4)
        try:
            rows = [
                self.append(np.array([[token]]), [token], 1, cache, quiet=True) for token in (0, 1)
            ]
        except ModelError:
            return False
        return nearly_equal(rows[-1][0, -1:], expected[0, -1:])

    def may_batch(self) -> bool:
        """Whether several sequences in one pass give the right logits; tried once, then remembered."""
        if self.batches is None:
            if self.kind == "fused":
                self.batches = (
                    self.all_logits and self.graph.bias is not None and self.shared_kv_agrees()
                )
            else:
                self.batches = self.shares and self.graph.batched and self.batch_agrees()
        return self.batches

    def shared_kv_agrees(self) -> bool:
        """Whether two sequences in one buffer give the logits that they give alone."""
        alone = [
            self.append(np.array([ids]), [0], 1, self.buffer(4))[0, -1]
            for ids in ([0, 1], [1, 0, 0])
        ]
        # Of five cells, the first sequence holds the first and the fourth. With no cell in use the
        # operator counts positions by itself, so the first pass is of one sequence.
        mine = np.array([1, 0, 0, 1, 0], bool)
        visible = mine[:, None] == mine[None, :]
        cache = self.buffer(8)
        second = TreeAttention(np.array([0, 1]), visible[1:3, :3])
        third = TreeAttention(np.array([1, 2]), visible[3:])
        try:
            self.append(np.array([[0]]), [0], 1, cache)
            self.append(np.array([[1, 0]]), [1], 1, cache, quiet=True, tree=second)
            found = self.append(np.array([[1, 0]]), [3], 2, cache, quiet=True, tree=third)
        except ModelError:
            return False
        return nearly_equal(found[0, -2:], np.array(alone))

    def batch_agrees(self) -> bool:
        """Whether two sequences of unlike lengths give together what they give alone."""
        prompts, ends = [[0], [1, 0]], np.array([[1], [0]])
        alone = []
        cache = self.graph.empty(2, 4)
        for row, prompt in enumerate(prompts):
            one = KVBuffer([array[row : row + 1] for array in cache], self.graph.axes, wrap)
            for at, token in enumerate(prompt):
                self.append(np.array([[token]]), [at], 1, one)
            other = self.buffer(4)
            for at, token in enumerate([*prompt, *ends[row]]):
                logits = self.append(np.array([[token]]), [at], 1, other)
            alone.append(logits[0])
        try:
            found = self.append(ends, [1, 2], 1, KVBuffer(cache, self.graph.axes, wrap), quiet=True)
        except ModelError:
            return False
        return nearly_equal(found[:, -1:], np.array(alone)[:, -1:])

    def buffer(self, length: int, sequences: int = 1) -> KVBuffer:
        """Return an empty cache with room for so many positions."""
        return KVBuffer(self.graph.empty(sequences, length), self.graph.axes, wrap)

    def empty(self) -> list[Any]:
        """Return the empty cache of a graph whose cache grows."""
        return [wrap(array) for array in self.graph.empty(1, 0)]

    def view(self, array: Array) -> Any:
        """Return the runtime's view of an array; the array must outlive it."""
        return wrap(array)

    def grow(
        self, ids: Array, past: int, keep: int, cache: Sequence[Any]
    ) -> tuple[Array, list[Any]]:
        """Run ``ids[batch, n]``; return the logits and the longer cache."""
        inputs = self.graph.feeds(ids, [past] * len(ids), keep)
        feeds = {name: wrap(value) for name, value in inputs.items()}
        feeds |= {state.past: value for state, value in zip(self.graph.cache, cache, strict=True)}
        try:
            logits, *present = self.session.run_with_ort_values(list(self.outputs), feeds)
        except Exception as error:
            raise ModelError(f"{self.weights} failed to run: {first_line(error)}") from error
        return logits.numpy(), present

    def append(
        self,
        ids: Array,
        past: Sequence[int],
        keep: int,
        cache: KVBuffer | BoundArrays,
        quiet: bool = False,
        tree: TreeAttention | None = None,
    ) -> Array:
        """Run ``ids[batch, n]``, each row behind ``past`` ids of its own in ``cache``; return the logits."""
        bound = cache.bound if isinstance(cache, KVBuffer) else cache
        try:
            binding = bound.bindings.pop()
        except IndexError:  # one binding for each pass that runs at the same time
            binding = self.bind(bound)
        graph = self.graph
        values = bound.values
        alive = []  # the binding does not keep arrays alive
        width = values[0].shape()[graph.cache[0].axis] if self.kind == "by_position" else None
        for name, array in graph.feeds(ids, past, keep, width, tree).items():
            alive.append(wrap(array))
            binding.bind_ortvalue_input(name, alive[-1])
        if self.size and self.all_logits:
            rows = min(ids.shape[1], max(keep, 1)) if graph.keep else ids.shape[1]
            logits = np.empty((len(ids), rows, self.size), graph.logits_type)
            alive.append(wrap(logits))
            binding.bind_ortvalue_output(graph.logits, alive[-1])
        else:
            logits = None
            binding.bind_output(graph.logits)
        try:
            self.session.run_with_iobinding(binding, run_options(quiet))
        except Exception as error:
            raise ModelError(f"{self.weights} failed to run: {first_line(error)}") from error
        found = binding.get_outputs()[0].numpy() if logits is None else logits
        if logits is not None:
            binding.bind_output(graph.logits)  # else it would keep these logits until its next pass
        bound.bindings.append(binding)
        return found

    def bind(self, bound: BoundArrays) -> Any:
        """Return a binding of the cache as input and output; each pass binds the rest."""
        binding = self.session.io_binding()
        binding.bind_output(
            self.graph.logits
        )  # first in the outputs, whatever it is bound to later
        for state, value in zip(self.graph.cache, bound.values, strict=True):
            binding.bind_ortvalue_input(state.past, value)
            binding.bind_ortvalue_output(state.present, value)
        return binding

    def plan(self, count: int, keep: int) -> list[tuple[int, int]]:
        """Split ``count`` ids into (ids, logits wanted) per pass, in order."""
        if not self.all_logits and keep > 1:
            # The graph gives the last position's logits only: feed the ids that need logits one by one.
            return [*self.plan(count - keep + 1, 1), *((1, 1) for _ in range(keep - 1))]
        passes, left = [], count
        while left:
            size = min(self.chunk, left)
            left -= size
            passes.append((size, min(size, max(0, keep - left))))
        return passes


def nearly_equal(left: Array, right: Array) -> bool:
    """Whether logits of two kernels agree: within 2% of the largest."""
    scale = float(np.abs(right).max()) or 1.0
    return bool(np.abs(left.astype(np.float64) - right).max() <= 0.02 * scale)
