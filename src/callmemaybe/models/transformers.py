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
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from callmemaybe.errors import InputError, ModelError
from callmemaybe.models.base import (
    CheckedFeed,
    Feed,
    Files,
    Logits,
    Session,
    check_feed,
    check_rewind,
    checked_feeds,
    feed_forks,
    need_extra,
    padded_runs,
)

PRECISIONS = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_CHUNK = 2048
_LOGITS_BYTES = 64 << 20  # of one padded pass
_PLAIN = "DynamicLayer"
#: Kinds of models whose pictures are tokens among others, with no state beside the cache.
_SEEING = frozenset(("llava",))
#: The largest picture that is unpacked.
_MOST_PIXELS = 64_000_000


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
        # Its warnings are for those who call it directly.
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        sees = self.files.config.get("model_type") in _SEEING
        kind = (
            transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
        )
        try:
            self._network = kind.from_pretrained(
                folder, dtype=precision or "auto", local_files_only=True
            )
            self._processor = (
                transformers.AutoProcessor.from_pretrained(folder, local_files_only=True)
                if sees
                else None
            )
            self._network = self._network.to(device or _best(torch)).eval()
        except Exception as error:
            reason = str(error).strip().split("\n", 1)[0][:400]
            raise ModelError(f"{folder} cannot be loaded: {reason}") from error
        self._torch = torch
        takes = inspect.signature(self._network.forward).parameters
        self._takes_keep = "logits_to_keep" in takes
        #: Whether sequences of unlike lengths can go through together.
        self.pads = {"attention_mask", "position_ids"} <= takes.keys()
        self.size = int(self.run([0], None, 1)[0].shape[-1])

    def open(self) -> TransformersSession:
        """Return an empty session."""
        return TransformersSession(self)

    @property
    def reads_images(self) -> bool:
        """Whether it reads pictures."""
        return self._processor is not None

    def open_with(self, images: Sequence[bytes]) -> tuple[TransformersSession, list[list[int]]]:
        """Return an empty session for a prompt with these pictures, and the ids that stand for each.

        Raises InputError for what is no picture.
        """
        from PIL import Image

        processor: Any = self._processor
        opened = []
        for data in images:
            try:
                image = Image.open(io.BytesIO(data))
                if image.width * image.height > _MOST_PIXELS:
                    raise ValueError(f"it has more than {_MOST_PIXELS} pixels")
                opened.append(image.convert("RGB"))
            except Exception as error:
                raise InputError(f"a picture cannot be read: {error}", where="messages",
                                 hint="send a PNG or a JPEG") from None  # fmt: skip
        places = [processor(text=processor.image_token, images=[one], add_special_tokens=False)
                  for one in opened]  # fmt: skip
        whole = processor(text=processor.image_token * len(opened), images=opened, return_tensors="pt",
                          add_special_tokens=False)  # fmt: skip
        inputs = {
            name: value.to(self._network.device)
            for name, value in whole.items()
            if name not in ("input_ids", "attention_mask")
        }
        return TransformersSession(self, images=inputs), [one["input_ids"][0] for one in places]

    def run(
        self,
        ids: Any,
        cache: Any,
        keep: int,
        starts: Sequence[int] | None = None,
        images: Mapping[str, Any] | None = None,
    ) -> tuple[Any, Any]:
        """Run ``ids`` (``[n]`` or ``[batch, n]``) behind ``cache``, which may be written to.

        ``images`` are the pictures that ids among them stand for.

        ``starts`` says how many ids of each sequence the cache holds, where they are not as many:
        in its last columns. Return the logits ``[batch, keep, size]`` and the cache.
        """
        torch = self._torch
        array = np.atleast_2d(np.asarray(ids, np.int64))
        rows: dict[str, Any] = {"logits_to_keep": max(keep, 1)} if self._takes_keep else {}
        if starts is not None:
            held = cache.get_seq_length()
            lengths = np.asarray(starts)[:, None]
            count = array.shape[1]
            # Padding behind a sequence at the end of its context has no position of its own.
            last = held + count if self.context is None else self.context - 1
            rows |= {
                name: torch.from_numpy(value).to(self._network.device)
                for name, value in {
                    "attention_mask": (np.arange(held + count) >= held - lengths).astype(np.int64),
                    "position_ids": np.minimum(lengths + np.arange(count), last),
                }.items()
            }
        with torch.inference_mode():
            tensor = torch.from_numpy(array).to(self._network.device)
            try:
                found = self._network(
                    input_ids=tensor,
                    past_key_values=cache,
                    use_cache=True,
                    **rows,
                    **(images or {}),
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
    """A session: its ids, and the cache of those that were fed to the network."""

    def __init__(
        self,
        model: TransformersModel,
        ids: Sequence[int] = (),
        cache: Any = None,
        seen: int = 0,
        images: Mapping[str, Any] | None = None,
    ) -> None:
        self._model = model
        #: Pictures, whose ids are in the first pass; they go with the whole of it.
        self._images = images
        self._pictured = 0
        self._ids = list(ids)
        self.cache = cache
        # How many of the ids are in the cache; the others are fed in the next pass.
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
        layers = self.cache.layers if _is_plain(self.cache) else ()
        return int(sum(layer.keys.nbytes + layer.values.nbytes for layer in layers))

    def feed(self, ids: Sequence[int], keep: int = 1) -> Logits:
        """Append ids; return the logits after each of the last ``keep``."""
        model = self._model
        whole = self._ids + self.check(ids, keep)
        kept: list[Logits] = []
        try:
            while self._seen < len(whole):
                images = self._images if not self._seen else None
                end = len(whole) if images else min(len(whole), self._seen + _CHUNK)
                rows = min(end - self._seen, max(0, keep - (len(whole) - end)))
                logits, cache = model.run(
                    whole[self._seen : end], self._owned(), rows, images=images
                )
                self.cache, self._seen = cache, 0 if cache is None else end
                if rows:
                    kept.append(logits[0, -rows:])
                if cache is None:
                    break
        except BaseException:
            self.cache, self._seen = None, 0
            raise
        if self._images and not self._ids:
            self._pictured = len(whole)
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
        if self.length > self._pictured and _is_plain(self.cache):
            self.cache = _shared(self.cache)
            self.cache.crop(-surplus)
            self._seen = self.length
        else:
            self.cache, self._seen = None, 0

    def fork(self) -> TransformersSession:
        """Return an independent session that holds the same ids."""
        if self.cache is None:
            return TransformersSession(self._model, self._ids, images=self._images)
        copied = _shared if _is_plain(self.cache) else copy.deepcopy
        forked = TransformersSession(
            self._model, self._ids, copied(self.cache), self._seen, self._images
        )
        forked._pictured = self._pictured
        return forked

    def branches(self, paths: Sequence[Sequence[int]]) -> list[Logits]:
        """Score all paths in padded passes, where caches can be joined."""
        return feed_forks(self, paths, self._model.context)

    def feed_batch(self, feeds: Sequence[Feed]) -> list[Logits | ModelError]:
        """Feed several sessions in padded passes; those whose caches cannot be joined are fed alone."""
        checked, results = checked_feeds(feeds, self.size, self._model.context)
        batch: list[CheckedFeed] = []
        for feed in checked:
            if feed.session.can_join:
                batch.append(feed)
                continue
            try:
                results[feed.index] = feed.session.feed(feed.ids, feed.keep)
            except ModelError as error:
                results[feed.index] = error
        batch.sort(key=lambda feed: len(feed.ids))
        most = max(1, _LOGITS_BYTES // (4 * self.size))
        at = 0
        for size in padded_runs([len(feed.ids) for feed in batch], most) if batch else ():
            group, at = batch[at : at + size], at + size
            for feed, logits in zip(group, _padded(self._model, group), strict=True):
                results[feed.index] = logits
        return results

    def check(self, ids: Sequence[int], keep: int) -> list[int]:
        """Return the ids after the checks that every session makes."""
        room = None if self._model.context is None else self._model.context - self.length
        checked: list[int] = check_feed(ids, keep, self.size, room).tolist()
        return checked

    @property
    def can_join(self) -> bool:
        """Whether its cache has all its ids and can be joined with others in a batch."""
        is_whole = 0 < self._seen == self.length and _is_plain(self.cache)
        return self._model.pads and is_whole

    def extend(self, ids: Sequence[int], cache: Any) -> None:
        """Append ids that were fed in a shared pass, and take over the cache with them."""
        self._ids = self._ids + [int(token) for token in ids]
        self.cache, self._seen = cache, self.length

    def _owned(self) -> Any:
        """Return the cache for a pass that may write to it; caches that are not plain have no other user."""
        return _shared(self.cache) if _is_plain(self.cache) else self.cache


def _padded(model: TransformersModel, group: Sequence[CheckedFeed]) -> list[Logits | ModelError]:
    """Feed a group (ascending by ids), padded in front of the caches and behind the ids."""
    if len(group) == 1:
        # A pass of its own copies no caches.
        only = group[0]
        try:
            return [only.session.feed(only.ids, only.keep)]
        except ModelError as error:
            return [error]
    width = len(group[-1].ids)
    firsts = [len(feed.ids) - feed.keep for feed in group]
    keep = max(1, width - min(firsts))
    ids = np.zeros((len(group), width), np.int64)
    for row, feed in zip(ids, group, strict=True):
        row[: len(feed.ids)] = feed.ids
    lengths = [feed.session.length for feed in group]
    longest = max(lengths)
    try:
        logits, cache = model.run(
            ids, _stacked([feed.session.cache for feed in group], longest), keep, lengths
        )
    except ModelError as error:
        return [error] * len(group)
    found: list[Logits | ModelError] = []
    for at, (feed, first) in enumerate(zip(group, firsts, strict=True)):
        part = slice(longest, longest + len(feed.ids))
        feed.session.extend(feed.ids, _grown(feed.session.cache, cache, at, part))
        skipped = width - keep
        end = first + feed.keep - skipped
        found.append(logits[at, end - feed.keep : end].copy() if feed.keep else logits[at, :0])
    return found


def _stacked(caches: Sequence[Any], longest: int) -> Any:
    """Return one cache of all sequences, padded in front to ``longest``."""
    import torch

    found = _shared(caches[0])
    for at, layer in enumerate(found.layers):
        for name in ("keys", "values"):
            parts = [getattr(cache.layers[at], name) for cache in caches]
            fills = [(0, 0, longest - part.shape[-2], 0) for part in parts]
            padded_parts = [
                torch.nn.functional.pad(part, fill) for part, fill in zip(parts, fills, strict=True)
            ]
            setattr(layer, name, torch.cat(padded_parts))
    return found


def _grown(cache: Any, batch: Any, at: int, part: slice) -> Any:
    """Return ``cache`` extended by the columns ``part`` of sequence ``at`` of a batch."""
    import torch

    found = _shared(cache)
    for layer, more in zip(found.layers, batch.layers, strict=True):
        for name in ("keys", "values"):
            new = getattr(more, name)[at : at + 1, :, part]
            setattr(layer, name, torch.cat([getattr(layer, name), new], dim=-2))
    return found


def _is_plain(cache: Any) -> bool:
    layers: Any = getattr(cache, "layers", None)
    return bool(layers) and all(type(layer).__name__ == _PLAIN for layer in layers)


def _shared(cache: Any) -> Any:
    """Return a cache with the same tensors, which can grow without changing the first."""
    other = copy.copy(cache)
    other.layers = [copy.copy(layer) for layer in cache.layers]
    return other
