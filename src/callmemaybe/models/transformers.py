"""PyTorch models through transformers: any causal language model in a folder of safetensors.

The package is not among the core dependencies: ``pip install 'callmemaybe[torch]'``. Runs on a GPU
if there is one (``providers=("cuda:1",)`` names another device), in the precision of the files unless
the name ends in ``:fp32``, ``:fp16`` or ``:bf16``.

The cache of plain attention grows by concatenation, so its tensors are never written to twice and
forks share them. Other caches (sliding windows, recurrent states) cannot be cut at any place: there
a rewind means that the ids before it are fed again, and a fork copies.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from callmemaybe.errors import ModelError
from callmemaybe.models.base import (
    Files,
    Logits,
    Session,
    check_feed,
    check_rewind,
    common,
    leaves_of,
    need_extra,
    walk,
)

PRECISIONS = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_CHUNK = 2048
_LOGITS_BYTES = 64 << 20  # of one padded pass
_PLAIN = "DynamicLayer"


class TransformersBackend:
    """Serves ``.safetensors`` files."""

    suffix = ".safetensors"

    def load(
        self,
        weights: Path,  # noqa: ARG002 - transformers finds all files of a folder itself
        folder: Path,
        *,
        name: str,
        threads: int | None = None,
        providers: Sequence[str] | None = None,
    ) -> TransformersModel:
        """Load the folder's model; ``weights`` is one of its files."""
        precision = PRECISIONS.get(name.rpartition(":")[2])
        return TransformersModel(
            folder,
            name=name,
            threads=threads,
            device=providers[0] if providers else None,
            precision=precision,
        )


MODEL = TransformersBackend()


class TransformersModel:
    """A causal language model in PyTorch, with the files beside it.

    ``device`` is one of PyTorch's (None: the best there is), ``precision`` a type of its tensors
    (None: as in the files), ``threads`` its threads on the CPU, for the whole process.
    Raises ModelError if the extra is not installed or the folder is no such model.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str | None = None,
        threads: int | None = None,
        device: str | None = None,
        precision: str | None = None,
    ) -> None:
        self.name = name or str(folder)
        self.files = Files(folder)
        self.context = self.files.context
        try:
            import torch
            import transformers
        except ImportError as error:
            raise need_extra("PyTorch models", "torch", error) from error
        if threads is not None:
            torch.set_num_threads(threads)
        # Its advice is for those who call it themselves.
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        try:
            self._network = transformers.AutoModelForCausalLM.from_pretrained(
                folder, dtype=precision or "auto", local_files_only=True
            )
            self._network = self._network.to(device or _best(torch)).eval()
        except Exception as error:
            reason = str(error).strip().split("\n", 1)[0][:400]
            raise ModelError(f"{folder} cannot be loaded: {reason}") from error
        self._torch = torch
        self._takes_keep = "logits_to_keep" in inspect.signature(self._network.forward).parameters
        self.size = int(self.run([0], None, 1)[0].shape[-1])

    def open(self) -> TransformersSession:
        """Return an empty session."""
        return TransformersSession(self)

    def run(self, ids: Any, cache: Any, keep: int) -> tuple[Any, Any]:
        """Run ``ids`` (``[n]`` or ``[batch, n]``) behind ``cache``, which may be written to.

        Return the logits ``[batch, keep, size]`` and the cache.
        """
        torch = self._torch
        array = np.atleast_2d(np.asarray(ids, np.int64))
        rows = {"logits_to_keep": max(keep, 1)} if self._takes_keep else {}
        with torch.inference_mode():
            tensor = torch.from_numpy(array).to(self._network.device)
            try:
                found = self._network(
                    input_ids=tensor, past_key_values=cache, use_cache=True, **rows
                )
            except Exception as error:
                reason = str(error).strip().split("\n", 1)[0][:400]
                raise ModelError(f"{self.name} failed to run: {reason}") from error
            logits = found.logits[:, max(0, found.logits.shape[1] - keep) :]
            return logits.float().cpu().numpy(), getattr(found, "past_key_values", None)


def _best(torch: Any) -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


class TransformersSession(Session):
    """A session that holds its ids, and the cache of those the network has seen."""

    def __init__(
        self, model: TransformersModel, ids: Sequence[int] = (), cache: Any = None, seen: int = 0
    ) -> None:
        self._model = model
        self._ids = list(ids)
        self._cache = cache
        # How many of the ids the cache holds; the rest is fed before anything else.
        self._seen = seen

    @property
    def length(self) -> int:
        """How many ids the session holds."""
        return len(self._ids)

    @property
    def size(self) -> int:
        """Width of the logits; ids are below it."""
        return self._model.size

    @property
    def memory(self) -> int:
        """Bytes of keys and values in a cache of plain attention."""
        layers = self._cache.layers if _is_plain(self._cache) else ()
        return int(sum(layer.keys.nbytes + layer.values.nbytes for layer in layers))

    def feed(self, ids: Sequence[int], keep: int = 1) -> Logits:
        """Append ids; return the logits after each of the last ``keep``."""
        model, before = self._model, self.length
        room = None if model.context is None else model.context - before
        new = check_feed(ids, keep, model.size, room).tolist()
        whole = self._ids + new
        kept: list[Logits] = []
        try:
            while self._seen < len(whole):
                end = min(len(whole), self._seen + _CHUNK)
                rows = min(end - self._seen, max(0, keep - (len(whole) - end)))
                logits, cache = model.run(whole[self._seen : end], self._owned(), rows)
                self._cache, self._seen = cache, 0 if cache is None else end
                if rows:
                    kept.append(logits[0, -rows:])
                if cache is None:
                    break
        except BaseException:
            self._cache, self._seen = None, 0
            raise
        self._ids = whole
        return np.concatenate(kept) if kept else np.zeros((0, model.size), np.float32)

    def rewind(self, n: int) -> None:
        """Forget the last ``n`` ids."""
        check_rewind(n, self.length)
        if not n:
            return
        del self._ids[self.length - n :]
        surplus = self._seen - self.length
        if surplus <= 0:
            return
        if self.length and _is_plain(self._cache):
            self._cache = _shared(self._cache)
            self._cache.crop(-surplus)
            self._seen = self.length
        else:
            self._cache, self._seen = None, 0

    def fork(self) -> TransformersSession:
        """Return an independent session that holds the same ids."""
        if self._cache is None:
            return TransformersSession(self._model, self._ids)
        copied = _shared if _is_plain(self._cache) else copy.deepcopy
        return TransformersSession(self._model, self._ids, copied(self._cache), self._seen)

    def branches(self, paths: Sequence[Sequence[int]]) -> list[Logits]:
        """Score all paths in padded passes, where the cache is one that can be repeated."""
        leaves = leaves_of(paths)
        room = None if self._model.context is None else self._model.context - self.length
        for leaf in leaves:
            check_feed(leaf, 0, self.size, room)
        if len(leaves) < 2 or not self.length:
            return walk(self.fork(), paths)
        stem = leaves[0][: common(leaves[0], leaves[-1])]
        session = self.fork()
        first = session.feed(stem, len(stem)) if stem else np.zeros((0, self.size), np.float32)
        cache = session.repeatable
        if cache is None:
            return walk(self.fork(), paths)
        rows = _padded(self._model, cache, [leaf[len(stem) :] for leaf in leaves])
        found = {leaf: np.concatenate([first, row]) for leaf, row in zip(leaves, rows, strict=True)}
        return [
            next(found[leaf][: len(path)].copy() for leaf in leaves if leaf[: len(path)] == path)
            for path in map(tuple, paths)
        ]

    @property
    def repeatable(self) -> Any:
        """The cache of all ids, if it is one whose rows can be repeated; else None."""
        is_whole = self._seen == self.length and _is_plain(self._cache)
        return self._cache if is_whole else None

    def _owned(self) -> Any:
        """Return the cache for a pass that may write to it; another than plain ones is ours alone."""
        return _shared(self._cache) if _is_plain(self._cache) else self._cache


def _padded(model: TransformersModel, held: Any, ends: Sequence[tuple[int, ...]]) -> list[Logits]:
    """Return the logits after each id of each path behind what the cache holds."""
    longest = max(map(len, ends))
    at_once = max(1, _LOGITS_BYTES // (4 * longest * model.size))
    found: list[Logits] = []
    for at in range(0, len(ends), at_once):
        some = ends[at : at + at_once]
        ids = np.zeros((len(some), longest), np.int64)
        for row, path in zip(ids, some, strict=True):
            row[: len(path)] = path
        cache = _shared(held)
        cache.batch_repeat_interleave(len(some))
        logits, _ = model.run(ids, cache, longest)
        found += [row[: len(path)] for row, path in zip(logits, some, strict=True)]
    return found


def _is_plain(cache: Any) -> bool:
    layers: Any = getattr(cache, "layers", None)
    return bool(layers) and all(type(layer).__name__ == _PLAIN for layer in layers)


def _shared(cache: Any) -> Any:
    """Return a cache with the same tensors, whose growth the first one does not see."""
    other = copy.copy(cache)
    other.layers = [copy.copy(layer) for layer in cache.layers]
    return other
