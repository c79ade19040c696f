"""GGUF models through llama.cpp (the package llama-cpp-python, which builds it from source).

The package is not among the core dependencies: ``pip install 'callmemaybe[gguf]'``.

A model has one llama.cpp context, whose cells all sessions share: a session is a sequence of it.
So a fork copies nothing (llama.cpp marks its cells as belonging to two sequences), a rewind frees
cells, and several sequences share a pass. When the cells are used up, a context of twice the size
replaces the first.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from callmemaybe.errors import ModelError
from callmemaybe.models.base import (
    Feed,
    Files,
    Logits,
    Session,
    check_feed,
    check_rewind,
    feed_forks,
    need_extra,
)
from callmemaybe.vocabulary import gguf_metadata

_CELLS = 4096  # to begin with
_BATCH = 512  # ids per pass
_SEQUENCES = 64  # sessions of one model at a time
_NO_ROOM = 1  # llama_decode's answer when the cells are used up; nothing has changed then


class GgufBackend:
    """Serves ``.gguf`` files."""

    suffix = ".gguf"

    def load(
        self,
        weights: Path,
        folder: Path,
        *,
        name: str,
        threads: int | None = None,
        providers: Sequence[str] | None = None,  # noqa: ARG002 - llama.cpp has what it was built with
    ) -> GgufModel:
        """Load the file; everything that belongs to the model is in it."""
        return GgufModel(weights, folder, name=name, threads=threads)


MODEL = GgufBackend()


class GgufFiles(Files):
    """The metadata of a GGUF file, under the names of the files that a folder would have."""

    def __init__(self, path: Path, folder: Path) -> None:
        super().__init__(folder)
        object.__setattr__(self, "path", path)
        try:
            object.__setattr__(self, "metadata", gguf_metadata.metadata(path))
        except (OSError, ValueError) as error:
            raise ModelError(f"{path} cannot be read: {error}") from error

    path: Path
    metadata: dict[str, Any]

    @property
    def vocabulary(self) -> Path | None:
        """The file itself, or a tokenizer.json beside it where the file has no byte-level BPE."""
        if self.metadata.get("tokenizer.ggml.model") != "gpt2" and self.tokenizer is not None:
            return self.folder
        return self.path

    @cached_property
    def ends(self) -> frozenset[int]:
        """Ids that end a turn."""
        names = ("eos_token_id", "eot_token_id", "eom_token_id")
        found = (self.metadata.get(f"tokenizer.ggml.{name}") for name in names)
        return frozenset(end for end in found if isinstance(end, int) and end >= 0)

    @property
    def context(self) -> int | None:
        """The longest sequence the model was made for."""
        found = self.metadata.get(f"{self.metadata.get('general.architecture')}.context_length")
        return found if isinstance(found, int) else None

    @property
    def chat_template(self) -> str | None:
        """The Jinja text of the chat template."""
        found = self.metadata.get("tokenizer.chat_template")
        return found if isinstance(found, str) else super().chat_template

    @cached_property
    def tokenizer_config(self) -> dict[str, Any]:
        """The named tokens as a tokenizer_config.json has them."""
        tokens = self.metadata.get("tokenizer.ggml.tokens") or []
        stated = {
            name: self.metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos")
        }
        named = {
            f"{name}_token": tokens[index]
            for name, index in stated.items()
            if isinstance(index, int) and 0 <= index < len(tokens)
        }
        return named | {"add_bos_token": self.metadata.get("tokenizer.ggml.add_bos_token")}


class GgufModel:
    """A decoder in a GGUF file.

    ``threads`` is how many threads a pass uses (default: one per core that this process may use).
    Raises ModelError if the extra is not installed or llama.cpp cannot load the file.
    """

    #: How many sessions may be open at a time.
    most_sessions = _SEQUENCES

    def __init__(
        self,
        weights: Path,
        folder: Path | None = None,
        *,
        name: str | None = None,
        threads: int | None = None,
        cells: int = _CELLS,
    ) -> None:
        self.name = name or str(weights)
        self.files = GgufFiles(weights, folder or weights.parent)
        self.context = self.files.context
        self._engine = _LlamaContext(weights, threads or _cores(), cells)

    @property
    def size(self) -> int:
        """Width of the logits; ids are below it."""
        return self._engine.size

    def open(self) -> GgufSession:
        """Return an empty session. Raises ModelError if too many are open."""
        return GgufSession(self._engine, self.context)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Span(NamedTuple):
    """Ids of one sequence from position ``start``; logits are wanted for the last ``keep``."""

    sequence: int
    start: int
    ids: tuple[int, ...]
    keep: int


class _LlamaContext:
    """llama.cpp's model with its context, which runs one pass at a time."""

    def __init__(self, weights: Path, threads: int, cells: int) -> None:
        try:
            import llama_cpp
        except ImportError as error:
            raise need_extra("GGUF models", "gguf", error) from error
        self._lib = llama_cpp
        self._log = _Log(llama_cpp)
        self._threads, self._cells = threads, cells
        self._lock = threading.RLock()
        self._released: deque[int] = deque()
        llama_cpp.llama_backend_init()
        self._model = llama_cpp.llama_model_load_from_file(
            str(weights).encode(), llama_cpp.llama_model_default_params()
        )
        if not self._model:
            raise ModelError(f"{weights} cannot be loaded: {self._log.last}")
        self._context = self._start(cells)
        self._batch = llama_cpp.llama_batch_init(_BATCH, 0, 1)
        weakref.finalize(
            self, _free, llama_cpp, self._model, self._batch, holder := [self._context]
        )
        self._holder = holder
        vocabulary = llama_cpp.llama_model_get_vocab(self._model)
        self.size = int(llama_cpp.llama_vocab_n_tokens(vocabulary))
        lib = llama_cpp
        heads = lib.llama_model_n_head_kv(self._model)
        width = lib.llama_model_n_embd(self._model) // max(1, lib.llama_model_n_head(self._model))
        #: Keys and values of one id in half precision; heads wider than usual take more.
        self.cell_bytes = int(4 * lib.llama_model_n_layer(self._model) * heads * width)
        self._free = list(range(_SEQUENCES))

    def _start(self, cells: int) -> Any:
        settings = self._lib.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = cells, _BATCH, _BATCH
        settings.n_seq_max, settings.kv_unified, settings.swa_full = _SEQUENCES, True, True
        settings.n_threads = settings.n_threads_batch = self._threads
        settings.no_perf = True
        found = self._lib.llama_init_from_model(self._model, settings)
        if not found:
            raise ModelError(f"llama.cpp cannot hold {cells} ids: {self._log.last}")
        return found

    # -- sequences ----------------------------------------------------------------------------

    def take(self, origin: int | None = None) -> int:
        """Return an unused sequence, with the ids of ``origin`` if given."""
        with self._lock:
            self._sweep()
            if not self._free:
                raise ModelError(f"more than {_SEQUENCES} sessions of one GGUF model are open")
            sequence = self._free.pop()
            if origin is not None:
                self._lib.llama_memory_seq_cp(self._memory, origin, sequence, -1, -1)
            return sequence

    def release(self, sequence: int) -> None:
        """Mark a sequence as free; callable from any thread, also during a pass."""
        self._released.append(sequence)

    def cut(self, sequence: int, start: int) -> bool:
        """Free the cells from position ``start`` on; False where the model cannot do that."""
        with self._lock:
            return bool(self._lib.llama_memory_seq_rm(self._memory, sequence, start, -1))

    @property
    def available(self) -> int:
        """How many more sequences may be taken."""
        with self._lock:
            self._sweep()
            return len(self._free)

    @property
    def _memory(self) -> Any:
        return self._lib.llama_get_memory(self._context)

    def _sweep(self) -> None:
        while self._released:
            sequence = self._released.popleft()
            self._lib.llama_memory_seq_rm(self._memory, sequence, -1, -1)
            self._free.append(sequence)

    # -- passes -------------------------------------------------------------------------------

    def run(self, spans: Sequence[_Span]) -> list[Logits]:
        """Run all spans, as many ids in a pass as fit; return the wanted logits of each."""
        rows = [
            (token, span.start + at, span.sequence, at >= len(span.ids) - span.keep)
            for span in spans
            for at, token in enumerate(span.ids)
        ]
        with self._lock:
            self._sweep()
            kept = [self._pass(rows[at : at + _BATCH]) for at in range(0, len(rows), _BATCH)]
        whole = np.concatenate(kept) if len(kept) > 1 else kept[0]
        found, at = [], 0
        for span in spans:
            found.append(whole[at : at + span.keep])
            at += span.keep
        return found

    def _pass(self, rows: Sequence[tuple[int, int, int, bool]]) -> Logits:
        lib, batch = self._lib, self._batch
        batch.n_tokens = len(rows)
        for at, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[at], batch.pos[at], batch.logits[at] = token, position, wanted
            batch.n_seq_id[at] = 1
            batch.seq_id[at][0] = sequence
        answer = lib.llama_decode(self._context, batch)
        while answer == _NO_ROOM:
            self._grow()
            answer = lib.llama_decode(self._context, batch)
        if answer:
            raise ModelError(f"llama.cpp failed to run ({answer}): {self._log.last}")
        count = sum(row[3] for row in rows)
        if not count:
            return np.zeros((0, self.size), np.float32)
        pointer = lib.llama_get_logits(self._context)
        return np.ctypeslib.as_array(pointer, (count, self.size)).astype(np.float32)

    def _grow(self) -> None:
        """Move all cells into a context of twice the size."""
        lib = self._lib
        larger = self._start(2 * self._cells)
        size = lib.llama_state_get_size(self._context)
        state = np.empty(size, np.uint8)
        pointer = state.ctypes.data_as(lib.ctypes.POINTER(lib.ctypes.c_uint8))
        written = lib.llama_state_get_data(self._context, pointer, size)
        if not written or lib.llama_state_set_data(larger, pointer, written) != written:
            lib.llama_free(larger)
            raise ModelError(f"llama.cpp cannot hold more than {self._cells} ids")
        lib.llama_free(self._context)
        self._context = self._holder[0] = larger
        self._cells *= 2


def _free(lib: Any, model: Any, batch: Any, holder: list[Any]) -> None:
    lib.llama_batch_free(batch)
    lib.llama_free(holder[0])
    lib.llama_model_free(model)


class _Log:
    """Stores llama.cpp's last warning or error instead of printing it to standard error."""

    def __init__(self, lib: Any) -> None:
        lines: deque[str] = deque(maxlen=1)

        @lib.llama_log_callback  # type: ignore[untyped-decorator]
        def listen(level: int, text: bytes, _data: Any) -> None:
            if level in (3, 4) and text.strip():  # warnings and errors
                lines.append(text.decode(errors="replace").strip())

        self._lines, self._listen = lines, listen
        lib.llama_log_set(listen, lib.ctypes.c_void_p(0))
        _CALLBACKS.append(listen)
        del _CALLBACKS[:-_MAX_CALLBACKS]

    @property
    def last(self) -> str:
        return self._lines[-1] if self._lines else "it does not say why"


#: llama.cpp has one log callback per process, which must outlive the model that set it.
_MAX_CALLBACKS = 8
_CALLBACKS: list[Any] = []


class GgufSession(Session):
    """A sequence of the model's context."""

    def __init__(
        self,
        engine: _LlamaContext,
        context: int | None,
        ids: Sequence[int] = (),
        origin: int | None = None,
        seen: int = 0,
    ) -> None:
        self._engine, self._limit = engine, context
        self._ids = list(ids)
        #: How many of the ids are in cells; 0 after a rewind of a model that cannot drop single cells.
        self._seen = seen
        self._sequence = engine.take(origin)
        weakref.finalize(self, engine.release, self._sequence)

    @property
    def length(self) -> int:
        """How many ids the session holds."""
        return len(self._ids)

    @property
    def size(self) -> int:
        """Width of the logits; ids are below it."""
        return self._engine.size

    @property
    def memory(self) -> int:
        """Bytes of the cells that the session's ids take, as if it shared none."""
        return self.length * self._engine.cell_bytes

    def check(self, ids: Sequence[int], keep: int) -> list[int]:
        """Return the ids after the checks that every session makes."""
        room = None if self._limit is None else self._limit - self.length
        return [int(token) for token in check_feed(ids, keep, self.size, room)]

    def claim(self) -> int:
        """Return the sequence, after feeding the ids that are not in its cells."""
        if self._seen < self.length:
            self._engine.run([_Span(self._sequence, 0, tuple(self._ids), 0)])
            self._seen = self.length
        return self._sequence

    def extend(self, ids: Sequence[int]) -> None:
        """Append ids that were fed in a pass."""
        self._ids += ids
        self._seen = self.length

    def feed(self, ids: Sequence[int], keep: int = 1) -> Logits:
        """Append ids; return the logits after each of the last ``keep``."""
        new = self.check(ids, keep)
        start = self.length
        try:
            (found,) = self._engine.run([_Span(self.claim(), start, tuple(new), keep)])
        except BaseException:
            self.forget(start)
            raise
        self.extend(new)
        return found

    def rewind(self, n: int) -> None:
        """Forget the last ``n`` ids."""
        check_rewind(n, self.length)
        if n:
            del self._ids[self.length - n :]
            self.forget(self.length)

    def forget(self, start: int) -> None:
        """Free the cells from position ``start`` on."""
        if self._seen < start:
            return
        if self._engine.cut(self._sequence, start):
            self._seen = start
        else:
            # Recurrent states cannot be cut; the ids are fed again when they are needed.
            self._engine.cut(self._sequence, -1)
            self._seen = 0

    def fork(self) -> GgufSession:
        """Return a session with the same cells."""
        return GgufSession(self._engine, self._limit, self._ids, self._sequence, self._seen)

    def branches(self, paths: Sequence[Sequence[int]]) -> list[Logits]:
        """Score all paths in one pass, each as a sequence of its own."""
        return feed_forks(self, paths, self._limit, max(1, self._engine.available - 1))

    def feed_batch(self, feeds: Sequence[Feed]) -> list[Logits | ModelError]:
        """Feed several sessions in one pass; a common prefix is stored once."""
        found: dict[int, Logits | ModelError] = {}
        spans: dict[int, _Span] = {}
        for at, (session, ids, keep) in enumerate(feeds):
            assert isinstance(session, GgufSession)
            try:
                new = session.check(ids, keep)
                spans[at] = _Span(session.claim(), session.length, tuple(new), keep)
            except ModelError as error:
                found[at] = error
        sessions: dict[int, GgufSession] = {at: feeds[at].session for at in spans}  # type: ignore[misc]
        try:
            rows = self._engine.run(list(spans.values())) if spans else []
        except BaseException as error:
            for at, session in sessions.items():
                session.forget(spans[at].start)
            if not isinstance(error, ModelError):
                raise
            return [found.get(at, error) for at in range(len(feeds))]
        for (at, span), logits in zip(spans.items(), rows, strict=True):
            sessions[at].extend(span.ids)
            found[at] = logits
        return [found[at] for at in range(len(feeds))]
