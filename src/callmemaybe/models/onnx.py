"""ONNX models through onnxruntime: what a graph asks for is read from the graph, not its name.

Two kinds of graph are driven, told apart by trying (see :meth:`_Engine.probe`):

* *shared*: attention is one fused operator (GroupQueryAttention) that appends to the buffer it
  reads from; the cache is bound once, nothing is copied per token, rewinding is free.
* *grown*: the cache goes in and comes out longer, whatever the operators; works for any decoder
  with a cache, at the price of one copy of the cache per pass.

Either way long inputs go through in chunks, because most exports return logits for every position
and 151,936 floats a position add up.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from callmemaybe.errors import ModelError
from callmemaybe.models._cache import Reader, Shared
from callmemaybe.models._graph import Graph
from callmemaybe.models.base import (
    Files,
    Logits,
    Session,
    check_feed,
    check_rewind,
    common,
    leaves_of,
    walk,
)

Array = NDArray[Any]

_LOGITS_BYTES = 64 << 20  # of one chunk
_CHUNK = 512
_BATCH_BYTES = 256 << 20  # of the repeated cache of one batched pass
_SMALL = 64 << 20  # bytes of weights below which a second thread costs more than it brings
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
        self._engine = _Engine(
            _start(weights, threads, providers), weights, self.files, self.context, share
        )

    @property
    def size(self) -> int:
        """Width of the logits; ids are below it."""
        return self._engine.size

    @property
    def shares(self) -> bool:
        """Whether attention appends to the cache in place."""
        return self._engine.shares

    def limit_chunks(self, most: int) -> None:
        """Feed no more than ``most`` ids per pass (the default bounds memory)."""
        self._engine.chunk = most

    def open(self) -> Session:
        """Return an empty session."""
        return SharedSession(self._engine) if self.shares else GrownSession(self._engine)


def _start(
    weights: Path, threads: int | None, providers: Sequence[str] | None
) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    if threads is None:
        threads = 1 if _bytes(weights) < _SMALL else 0
    options.intra_op_num_threads = threads
    chosen = list(providers or ["CPUExecutionProvider"])
    missing = [name for name in chosen if name not in ort.get_available_providers()]
    if missing:
        raise ModelError(
            f"this onnxruntime has no {missing[0]}; it has {', '.join(ort.get_available_providers())}"
        )
    try:
        return ort.InferenceSession(str(weights), options, providers=chosen)
    except Exception as error:
        raise ModelError(f"{weights} cannot be loaded: {_first_line(error)}") from error


def _bytes(weights: Path) -> int:
    """Size of a weight file with its external data."""
    beside = weights.parent.glob(f"{weights.name}*")
    return sum(path.stat().st_size for path in beside if path.is_file())


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0][:400]


class _Engine:
    """A loaded graph and how to run it; stateless, so that sessions may use it from any thread."""

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
        self.outputs = (self.graph.logits, *self.graph.present)
        self.every = True  # whether the graph gives logits for each position
        self.batches: bool | None = None  # whether a padded batch is right; None: not tried yet
        self.size = 0
        self.shares = False
        self.probe(files, share)
        by_memory = _LOGITS_BYTES // (self.size * np.dtype(self.graph.logits_type).itemsize)
        self.chunk = _CHUNK if self.graph.keep else max(16, min(_CHUNK, by_memory))

    def probe(self, files: Files, share: bool) -> None:
        """Run two ids: learn the shape of the logits, and whether appending in place is right."""
        ids = np.array([[0, 1]])
        logits, _ = self.grow(ids, 0, 2, [wrap(array) for array in self.graph.empty(1, 0)])
        self.size = int(logits.shape[-1])
        self.every = logits.shape[-2] == 2
        on_cpu = self.session.get_providers()[0] == "CPUExecutionProvider"
        if share and on_cpu and self.every and self.graph.mask is not None and self.fused(files):
            self.shares = self.agrees(logits)

    def fused(self, files: Files) -> bool:
        """Whether the graph has the operator that can append in place."""
        search = files.genai.get("search") or {}
        if search.get("past_present_share_buffer"):
            return True
        with (
            self.weights.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            return content.find(b"GroupQueryAttention") >= 0

    def agrees(self, expected: Array) -> bool:
        """Whether feeding ids one by one into a buffer with room to spare gives ``expected``."""
        cache = Shared(self.graph.empty(1, 4), wrap)
        try:
            rows = [
                self.append(np.array([[token]]), token, 1, cache, quiet=True) for token in (0, 1)
            ]
        except ModelError:
            return False
        return _close(np.concatenate(rows, axis=1)[0], expected[0])

    def grow(
        self, ids: Array, past: int, keep: int, cache: Sequence[ort.OrtValue], quiet: bool = False
    ) -> tuple[Array, list[ort.OrtValue]]:
        """Run ``ids[batch, n]``; return the logits and the longer cache."""
        feeds = {name: wrap(value) for name, value in self.graph.feeds(ids, past, keep).items()}
        feeds |= dict(zip(self.graph.past, cache, strict=True))
        try:
            logits, *present = self.session.run_with_ort_values(
                list(self.outputs), feeds, _options(quiet)
            )
        except Exception as error:
            raise ModelError(f"{self.weights} failed to run: {_first_line(error)}") from error
        return logits.numpy(), present

    def append(self, ids: Array, past: int, keep: int, cache: Shared, quiet: bool = False) -> Array:
        """Run ``ids[1, n]``, writing into ``cache`` behind ``past``; return the logits."""
        graph = self.graph
        binding = self.session.io_binding()
        held = []  # the binding does not keep arrays alive
        for name, array in graph.feeds(ids, past, keep).items():
            held.append(wrap(array))
            binding.bind_ortvalue_input(name, held[-1])
        rows = min(ids.shape[1], max(keep, 1)) if graph.keep else ids.shape[1]
        width = self.size
        logits = np.empty((1, rows, width), graph.logits_type)
        held.append(wrap(logits))
        binding.bind_ortvalue_output(graph.logits, held[-1])
        for before, after, value in zip(graph.past, graph.present, cache.values, strict=True):
            binding.bind_ortvalue_input(before, value)
            binding.bind_ortvalue_output(after, value)
        try:
            self.session.run_with_iobinding(binding, _options(quiet))
        except Exception as error:
            raise ModelError(f"{self.weights} failed to run: {_first_line(error)}") from error
        return logits

    def batch(self, length: int, width: int) -> int:
        """How many paths of ``width`` ids may go through at once behind ``length - width``."""
        row = width * self.size * np.dtype(self.graph.logits_type).itemsize
        return min(_LOGITS_BYTES // row, _BATCH_BYTES // (length * self.graph.cache_bytes()))

    def plan(self, count: int, keep: int) -> list[tuple[int, int]]:
        """Split ``count`` ids into (ids, rows kept) per pass, in order."""
        if not self.every and keep > 1:
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


class _OnnxSession(Session):
    """What both kinds of session have in common: checking, chunking, collecting rows."""

    def __init__(self, engine: _Engine, length: int = 0) -> None:
        self._engine = engine
        self._length = length

    @property
    def length(self) -> int:
        """How many ids the session holds."""
        return self._length

    @property
    def size(self) -> int:
        """Width of the logits; ids are below it."""
        return self._engine.size

    @property
    def memory(self) -> int:
        """Bytes of keys and values that the session's ids take."""
        return self._length * self._engine.graph.cache_bytes()

    def feed(self, ids: Sequence[int], keep: int = 1) -> Logits:
        """Append ids; return the logits after each of the last ``keep``."""
        engine, before = self._engine, self._length
        room = None if engine.context is None else engine.context - before
        array = check_feed(ids, keep, engine.size, room)[None, :]
        kept: list[Array] = []
        at = 0
        try:
            for count, rows in engine.plan(array.shape[1], keep):
                logits = self._pass(array[:, at : at + count], rows)
                at += count
                if rows:
                    kept.append(logits[0, -rows:].astype(np.float32, copy=logits.shape[1] > rows))
        except BaseException:
            self.rewind(self._length - before)
            raise
        if len(kept) == 1:
            return kept[0]
        return np.concatenate(kept) if kept else np.zeros((0, engine.size), np.float32)

    def _pass(self, ids: Array, keep: int) -> Array:
        """Run one chunk ``[1, n]`` and advance; return logits, of which the last rows count."""
        raise NotImplementedError


class SharedSession(_OnnxSession):
    """A session over a graph that appends to its cache in place."""

    def __init__(self, engine: _Engine, length: int = 0, cache: Shared | None = None) -> None:
        super().__init__(engine, length)
        self._cache = cache or Shared(engine.graph.empty(1, 0), wrap)
        self._reader = Reader(length)
        self._cache.join(self._reader)

    def rewind(self, n: int) -> None:
        """Forget the last ``n`` ids: nothing is touched."""
        check_rewind(n, self._length)
        self._length -= n
        self._reader.reach = self._length

    def fork(self) -> SharedSession:
        """Return a session on the same buffer, which is copied when the two disagree."""
        return SharedSession(self._engine, self._length, self._cache)

    def _pass(self, ids: Array, keep: int) -> Array:
        end = self._length + ids.shape[1]
        self._cache = self._cache.claim(self._reader, self._length, end, self._engine.context)
        logits = self._engine.append(ids, self._length, keep, self._cache)
        self._length = end
        return logits


class GrownSession(_OnnxSession):
    """A session over a graph that returns its cache longer than it took it."""

    def __init__(
        self, engine: _Engine, length: int = 0, cache: Sequence[ort.OrtValue] | None = None
    ) -> None:
        super().__init__(engine, length)
        self._cache = cache or [wrap(array) for array in engine.graph.empty(1, 0)]

    def rewind(self, n: int) -> None:
        """Forget the last ``n`` ids; the cache is cut when it is next used."""
        check_rewind(n, self._length)
        self._length -= n

    def fork(self) -> GrownSession:
        """Return a session with the same cache, which no pass ever changes."""
        return GrownSession(self._engine, self._length, self._cache)

    def _pass(self, ids: Array, keep: int) -> Array:
        logits, self._cache = self._engine.grow(ids, self._length, keep, self._trimmed())
        self._length += ids.shape[1]
        return logits

    def _trimmed(self) -> Sequence[ort.OrtValue]:
        if self._cache[0].shape()[2] > self._length:
            self._cache = [
                wrap(np.ascontiguousarray(value.numpy()[:, :, : self._length]))
                for value in self._cache
            ]
        return self._cache

    def branches(self, paths: Sequence[Sequence[int]]) -> list[Logits]:
        """Score all paths in padded batches, where the graph is right about those."""
        engine = self._engine
        leaves = leaves_of(paths)
        room = None if engine.context is None else engine.context - self._length
        for leaf in leaves:
            check_feed(leaf, 0, engine.size, room)
        rows = self._batched(leaves) if len(leaves) > 2 and engine.every else None
        if rows is None:
            return walk(self.fork(), paths)
        return [_read_off(rows, leaves, tuple(path)) for path in paths]

    def _batched(self, leaves: list[tuple[int, ...]]) -> dict[tuple[int, ...], Logits] | None:
        """Return the rows of each leaf, or None if the graph cannot, or memory would not do."""
        engine, session = self._engine, self.fork()
        stem = leaves[0][: common(leaves[0], leaves[-1])]
        ends = [leaf[len(stem) :] for leaf in leaves]
        longest = max(map(len, ends))
        count = engine.batch(session.length + len(stem) + longest, longest)
        if engine.batches is False or count < 2:
            return None
        first = session.feed(stem, len(stem)) if stem else np.zeros((0, engine.size), np.float32)
        try:
            tails = [
                logits
                for at in range(0, len(ends), count)
                for logits in session.batch(ends[at : at + count], longest)
            ]
        except ModelError:
            # GroupQueryAttention continues several sequences only by one id each.
            engine.batches = False
            return None
        if engine.batches is None:
            engine.batches = _close(tails[0], session.fork().feed(ends[0], keep=len(ends[0])))
            if not engine.batches:
                return None
        return {
            leaf: np.concatenate([first, tail]) for leaf, tail in zip(leaves, tails, strict=True)
        }

    def batch(self, paths: Sequence[tuple[int, ...]], width: int) -> list[Logits]:
        """One pass over ``paths`` padded to ``width``, none of them kept."""
        ids = np.zeros((len(paths), width), np.int64)
        for row, path in zip(ids, paths, strict=True):
            row[: len(path)] = path
        cache = [wrap(np.repeat(value.numpy(), len(paths), axis=0)) for value in self._trimmed()]
        logits, _ = self._engine.grow(ids, self._length, width, cache, quiet=True)
        return [
            rows[: len(path)].astype(np.float32) for rows, path in zip(logits, paths, strict=True)
        ]


def _read_off(
    rows: Mapping[tuple[int, ...], Logits], leaves: list[tuple[int, ...]], path: tuple[int, ...]
) -> Logits:
    """Return the rows of a path: those of the first leaf that goes through it."""
    leaf = leaves[bisect_left(leaves, path)] if path else leaves[0]
    return rows[leaf][: len(path)].copy()


def _close(left: Array, right: Array) -> bool:
    """Whether two ways to the same logits agree, as far as different kernels may."""
    scale = float(np.abs(right).max()) or 1.0
    return bool(np.abs(left.astype(np.float64) - right).max() <= 0.02 * scale)
