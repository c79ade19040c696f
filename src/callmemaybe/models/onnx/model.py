"""ONNX models through onnxruntime: what a graph asks for is read from the graph, not its name.

Three kinds of graph are driven, told apart by trying (see :meth:`OnnxEngine.probe`):

* *fused*: attention is one operator (GroupQueryAttention) that appends to the buffer it reads
  from; the cache is bound once, nothing is copied per token, rewinding is free.
* *placed*: the graph writes each id's share of the cache at the id's position (ScatterND,
  TensorScatter); bound once as well, and sequences of any lengths go through together.
* *grown*: the cache goes in and comes out longer, whatever the operators; works for any decoder
  with a cache, at the price of one copy of the cache per pass.

Either way long inputs go through in chunks, because most exports return logits for every position
and 151,936 floats a position add up.
"""

from __future__ import annotations

import glob
import mmap
import threading
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from callmemaybe.errors import ModelError
from callmemaybe.models.base import Files, Session
from callmemaybe.models.onnx.engine import close
from callmemaybe.models.onnx.graph import Graph, TreeAttention
from callmemaybe.models.onnx.graph_rewrite import rewrite
from callmemaybe.models.onnx.kv_buffer import BoundArrays, BufferPool, KVBuffer
from callmemaybe.models.onnx.sessions import ByPositionSession, GrowingSession
from callmemaybe.models.onnx.shared_kv import SharedKVSession

Array = NDArray[Any]

_LOGITS_BYTES = 64 << 20  # of one chunk
_CHUNK = 512
_BATCH_BYTES = 256 << 20  # of the repeated cache of one batched pass
_SMALL = 64 << 20  # bytes of weights below which a second thread costs more than it brings
# Ids of one sequence from which on it goes through alone, in large models and in small ones: there
# attention and operators weigh more than weights, and those of eight sequences cost eight times.
_NARROW = (12, 4)
_SAMPLES, _SAMPLE = 64, 16 << 10  # what is read of a weight file to know it again
_EXTERNAL = "session.model_external_initializers_file_folder_path"
_QUIET = 4  # onnxruntime's "fatal": a probe that fails is no news to the user


class OnnxBackend:
    """Serves ``.onnx`` files."""

    suffix = ".onnx"

    def load(
        self,
        weights: Path,
        folder: Path,
        *,
        name: str,
        threads: int | None = None,
        providers: Sequence[str] | None = None,
    ) -> OnnxModel:
        """Load the graph and check that it is a decoder with a cache that can be driven."""
        return OnnxModel(weights, folder, name=name, threads=threads, providers=providers)


MODEL = OnnxBackend()


class OnnxModel:
    """A decoder in an ONNX file, with the files beside it.

    ``threads`` is the number of threads inside an operator (default: one for weights below
    64 MiB, else one per physical core). ``providers`` are onnxruntime's execution providers,
    default the CPU. Raises ModelError if the file is not such a decoder.
    """

    def __init__(
        self,
        weights: Path,
        folder: Path,
        *,
        name: str | None = None,
        threads: int | None = None,
        providers: Sequence[str] | None = None,
        share: bool = True,
    ) -> None:
        self.name = name or str(weights)
        self.files = Files(folder)
        self.context = self.files.context
        self._engine = OnnxEngine(
            _start(weights, threads, providers, share), weights, self.files, self.context, share
        )

    @property
    def size(self) -> int:
        """Width of the logits; ids are below it."""
        return self._engine.size

    @property
    def shares(self) -> bool:
        """Whether attention appends to the cache in place."""
        return self._engine.shares

    @cached_property
    def fingerprint(self) -> str:
        """What tells these weights, run by this version of the runtime, from any others."""
        return f"onnx {ort.__version__} {_digest(self._engine.weights)}"

    def limit_chunks(self, most: int) -> None:
        """Feed no more than ``most`` ids per pass (the default bounds memory)."""
        self._engine.chunk = most

    def open(self) -> Session:
        """Return an empty session."""
        if self._engine.kind == "fused":
            return SharedKVSession(self._engine)
        return ByPositionSession(self._engine) if self.shares else GrowingSession(self._engine)

    @property
    def batches(self) -> bool:
        """Whether sessions that are fed together go through in one pass."""
        return self._engine.may_batch()


def _start(
    weights: Path, threads: int | None, providers: Sequence[str] | None, share: bool
) -> ort.InferenceSession:
    if threads is None:
        threads = 1 if _bytes(weights) < _SMALL else 0
    chosen = list(providers or ["CPUExecutionProvider"])
    missing = [name for name in chosen if name not in ort.get_available_providers()]
    if missing:
        raise ModelError(
            f"this onnxruntime has no {missing[0]}; it has {', '.join(ort.get_available_providers())}"
        )
    more = _rewritten(weights) if share and chosen[0] == "CPUExecutionProvider" else None
    if more is not None:
        try:
            return _start_rewritten(more, weights, _settings(threads), chosen)
        except Exception:
            more = None  # this version of the operator cannot; the file as it is may well do
    try:
        return ort.InferenceSession(str(weights), _settings(threads), providers=chosen)
    except Exception as error:
        raise ModelError(f"{weights} cannot be loaded: {_first_line(error)}") from error


def _settings(threads: int) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    return options


def _start_rewritten(
    graph: bytes, weights: Path, options: ort.SessionOptions, providers: Sequence[str]
) -> ort.InferenceSession:
    """Start a graph that has no file of its own with the data beside ``weights``."""
    beside = [path for path in _files(weights) if path != weights and path.stat().st_size]
    if not any(path.is_symlink() for path in beside):
        options.add_session_config_entry(_EXTERNAL, str(weights.parent.resolve()))
        return ort.InferenceSession(graph, options, providers=providers)
    # Links lead out of the folder, as in the hub's cache; onnxruntime follows none, but takes bytes.
    held = [np.memmap(path, np.uint8, "r") for path in beside]
    names, sizes = [path.name for path in beside], [len(data) for data in held]
    options.add_external_initializers_from_files_in_memory(names, held, sizes)
    session = ort.InferenceSession(graph, options, providers=providers)
    del held  # it is read until here, and copied
    return session


def _has_fused_attention(content: mmap.mmap) -> bool:
    return content.find(b"GroupQueryAttention") >= 0


def _rewritten(weights: Path) -> bytes | None:
    """Return the model with the inputs that exporters leave out; None where there is nothing to do."""
    try:
        with (
            weights.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            if not _has_fused_attention(content):
                return None
            with memoryview(content) as whole:
                pieces = rewrite(whole)
                found = None if pieces is None else b"".join(pieces)
                for piece in pieces or ():
                    if isinstance(piece, memoryview):
                        piece.release()
                return found
    except (OSError, ValueError):
        return None  # onnxruntime says better what is wrong


def _files(weights: Path) -> list[Path]:
    """Return a weight file and its external data, sorted."""
    beside = weights.parent.glob(f"{glob.escape(weights.name)}*")
    return sorted(path for path in beside if path.is_file())


def _bytes(weights: Path) -> int:
    """Size of a weight file with its external data."""
    return sum(path.stat().st_size for path in _files(weights))


def _digest(weights: Path) -> str:
    """Tell weight files apart by their sizes, times, and a sample of their content."""
    digest = sha256()
    for path in _files(weights):
        about = path.stat()
        digest.update(f"{path.name} {about.st_size} {about.st_mtime_ns}".encode())
        with path.open("rb") as file:
            for at in range(_SAMPLES):
                file.seek(at * max(0, about.st_size - _SAMPLE) // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE))
    return digest.hexdigest()


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0][:400]


class OnnxEngine:
    """A loaded graph and how to run it; without state of its own but the pool of a batch."""

    def __init__(
        self,
        session: ort.InferenceSession,
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
        self.kind: Literal["fused", "placed", "grown"] = "grown"
        self.probe(files, share)
        by_memory = _LOGITS_BYTES // (self.size * np.dtype(self.graph.logits_type).itemsize)
        self.chunk = _CHUNK if self.graph.keep else max(16, min(_CHUNK, by_memory))
        self.most_shared_ids = _NARROW[_bytes(weights) < _SMALL]
        self.lock = threading.RLock()  # over what follows
        self.pool: BufferPool | None = None
        self.common: Any = None

    def probe(self, files: Files, share: bool) -> None:
        """Run two ids: learn the shape of the logits, and whether writing in place is right."""
        on_cpu = self.session.get_providers()[0] == "CPUExecutionProvider"
        if share and on_cpu and self.graph.placed:
            self.kind = "placed"
            try:
                logits = self.append(np.array([[0, 1]]), [0], 2, self.buffer(4), quiet=True)
                self.learn(logits)
                if self.agrees(logits):
                    return
            except ModelError:
                pass  # the dimensions' names promised too much
            self.kind = "grown"
        ids = np.array([[0, 1]])
        logits, _ = self.grow(ids, 0, 2, [wrap(array) for array in self.graph.empty(1, 0)])
        self.learn(logits)
        masked = self.graph.mask is not None
        if share and on_cpu and self.all_logits and masked and self.fused(files):
            self.kind = "fused"
            if not self.agrees(logits):
                self.kind = "grown"

    def learn(self, logits: Array) -> None:
        """Note what the logits of two ids tell."""
        self.size = int(logits.shape[-1])
        self.all_logits = logits.shape[-2] == 2

    @property
    def shares(self) -> bool:
        """Whether the cache is written in place."""
        return self.kind != "grown"

    def fused(self, files: Files) -> bool:
        """Whether the graph has the operator that can append in place."""
        search = files.genai.get("search")
        if isinstance(search, dict) and search.get("past_present_share_buffer"):
            return True
        with (
            self.weights.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            return _has_fused_attention(content)

    def agrees(self, expected: Array) -> bool:
        """Whether feeding ids one by one into a buffer with room to spare gives ``expected``."""
        cache = self.buffer(4)
        try:
            rows = [
                self.append(np.array([[token]]), [token], 1, cache, quiet=True) for token in (0, 1)
            ]
        except ModelError:
            return False
        return close(rows[-1][0, -1:], expected[0, -1:])

    def may_batch(self) -> bool:
        """Whether sequences go through together and come out right; tried once."""
        if self.batches is None:
            if self.kind == "fused":
                self.batches = (
                    self.all_logits and self.graph.bias is not None and self.shared_kv_agrees()
                )
            else:
                self.batches = self.shares and self.graph.batched and self.batch_agrees()
        return self.batches

    def shared_kv_agrees(self) -> bool:
        """Whether two sequences woven into one buffer give what they give alone."""
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
        return close(found[0, -2:], np.array(alone))

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
        return close(found[:, -1:], np.array(alone)[:, -1:])

    def buffer(self, length: int, sequences: int = 1) -> KVBuffer:
        """Return an empty cache with room for so many positions."""
        return KVBuffer(self.graph.empty(sequences, length), self.graph.axes, wrap)

    def empty(self) -> list[ort.OrtValue]:
        """Return the cache of a grown session that holds nothing."""
        return [wrap(array) for array in self.graph.empty(1, 0)]

    def view(self, array: Array) -> ort.OrtValue:
        """View an array's memory as onnxruntime sees it; the array must live as long."""
        return wrap(array)

    def grow(
        self, ids: Array, past: int, keep: int, cache: Sequence[ort.OrtValue], quiet: bool = False
    ) -> tuple[Array, list[ort.OrtValue]]:
        """Run ``ids[batch, n]``; return the logits and the longer cache."""
        inputs = self.graph.feeds(ids, [past] * len(ids), keep)
        feeds = {name: wrap(value) for name, value in inputs.items()}
        feeds |= {state.past: value for state, value in zip(self.graph.cache, cache, strict=True)}
        try:
            logits, *present = self.session.run_with_ort_values(
                list(self.outputs), feeds, _options(quiet)
            )
        except Exception as error:
            raise ModelError(f"{self.weights} failed to run: {_first_line(error)}") from error
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
        """Run ``ids[batch, n]``, writing into ``cache`` behind ``past`` each; return the logits."""
        bound = cache.bound if isinstance(cache, KVBuffer) else cache
        try:
            binding = bound.bindings.pop()
        except IndexError:  # as many as passes that run at the same time
            binding = self.bind(bound)
        graph = self.graph
        values = bound.values
        held = []  # the binding does not keep arrays alive
        width = values[0].shape()[graph.cache[0].axis] if self.kind == "placed" else None
        for name, array in graph.feeds(ids, past, keep, width, tree).items():
            held.append(wrap(array))
            binding.bind_ortvalue_input(name, held[-1])
        if self.size and self.all_logits:
            rows = min(ids.shape[1], max(keep, 1)) if graph.keep else ids.shape[1]
            logits = np.empty((len(ids), rows, self.size), graph.logits_type)
            held.append(wrap(logits))
            binding.bind_ortvalue_output(graph.logits, held[-1])
        else:
            logits = None
            binding.bind_output(graph.logits)
        try:
            self.session.run_with_iobinding(binding, _options(quiet))
        except Exception as error:
            raise ModelError(f"{self.weights} failed to run: {_first_line(error)}") from error
        found = binding.get_outputs()[0].numpy() if logits is None else logits
        bound.bindings.append(binding)
        return found

    def bind(self, bound: BoundArrays) -> Any:
        """Return a binding of a cache, in and out; the rest is bound pass by pass."""
        binding = self.session.io_binding()
        binding.bind_output(self.graph.logits)  # the first, whatever it is bound to later
        for state, value in zip(self.graph.cache, bound.values, strict=True):
            binding.bind_ortvalue_input(state.past, value)
            binding.bind_ortvalue_output(state.present, value)
        return binding

    def batch(self, length: int, width: int) -> int:
        """How many paths of ``width`` ids may go through at once behind ``length - width``."""
        row = width * self.size * np.dtype(self.graph.logits_type).itemsize
        return min(_LOGITS_BYTES // row, _BATCH_BYTES // (length * self.graph.cache_bytes()))

    def plan(self, count: int, keep: int) -> list[tuple[int, int]]:
        """Split ``count`` ids into (ids, rows kept) per pass, in order."""
        if not self.all_logits and keep > 1:
            # The graph shows the last position only: those wanted are fed one by one.
            return [*self.plan(count - keep + 1, 1), *((1, 1) for _ in range(keep - 1))]
        passes, left = [], count
        while left:
            size = min(self.chunk, left)
            left -= size
            passes.append((size, min(size, max(0, keep - left))))
        return passes


def wrap(array: Array) -> ort.OrtValue:
    """View an array's memory as onnxruntime sees it; the array must live as long."""
    return ort.OrtValue.ortvalue_from_numpy(array)


def _options(quiet: bool) -> ort.RunOptions | None:
    if not quiet:
        return None  # the session's own; looking up an option costs as much as a small operator
    options = ort.RunOptions()
    options.log_severity_level = _QUIET
    return options
