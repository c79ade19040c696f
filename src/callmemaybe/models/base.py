"""The interface of models (a Model opens Sessions) and what engines share. Knows no engine."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from callmemaybe.errors import ModelError

Logits = NDArray[np.float32]
Array = NDArray[Any]
#: The KV cache of a session as arrays, to be stored.
KVSnapshot = tuple[NDArray[Any], ...]

#: What a pass costs by itself, in rows (measured: 2 to 5).
_PASS_COST = 3.0
#: Bytes of logits of branches that are in memory at a time.
_LOGITS_BYTES = 64 << 20


class Session(Protocol):
    """One sequence of ids inside a model, which can be extended, cut and forked.

    A session is used by one thread at a time; sessions of one model are independent of each other
    and may run in parallel.
    """

    @property
    def length(self) -> int:
        """How many ids the session holds."""
        ...

    @property
    def size(self) -> int:
        """Width of the logits; ids are below it."""
        ...

    @property
    def memory(self) -> int:
        """About how many bytes of keys and values the session uses; 0 where that is not known.

        Unused capacity counts, and so does memory that is shared with forks.
        """
        return 0

    @property
    def copied(self) -> int | None:
        """How many ids were copied from what other sessions have read, and cost no pass; None where none ever are.

        A prompt of such ids is as quickly put together again as a common beginning is found.
        """
        return None

    def trim(self) -> None:
        """Release unused capacity; the session is otherwise unchanged."""
        return  # a body: without one it would be abstract

    def feed(self, ids: Sequence[int], keep: int = 1) -> Logits:
        """Append ids; return ``float32[keep, size]``, the logits after each of the last ``keep``.

        ``keep`` is between 0 and ``len(ids)``. The caller may change the array.
        Raises ModelError for no ids, an id outside ``range(size)``, a ``keep`` out of range, or
        more ids than the model can hold; the session is then unchanged.
        """
        ...

    def rewind(self, n: int) -> None:
        """Forget the last ``n`` ids, as if they had never been fed.

        Raises ModelError if the session holds fewer.
        """
        ...

    def fork(self) -> Self:
        """Return an independent session that holds the same ids."""
        ...

    def branches(self, paths: Sequence[Sequence[int]]) -> list[Logits]:
        """Return, for each path, ``float32[len(path), size]``: the logits after each of its ids.

        Equals ``fork().feed(path, keep=len(path))`` for each path; the session is unchanged. This
        default feeds common prefixes once, path after path; engines may share passes.
        """
        return feed_trie(self.fork(), paths)

    def snapshot(self) -> KVSnapshot | None:
        """Return the KV cache for :meth:`restore`; None where an engine cannot export it.

        The arrays may be views: do not change them, and use them before the session is fed again.
        """
        return None

    def restore(self, length: int, snapshot: KVSnapshot) -> bool:
        """Fill an empty session with the ``length`` ids whose KV cache ``snapshot`` is.

        Returns False, and stays empty, if the snapshot cannot be from this model.
        """
        del length, snapshot
        return False

    def feed_batch(self, feeds: Sequence[Feed]) -> list[Logits | ModelError]:
        """Feed several sessions of this one's model, in as few passes as the engine can.

        Equals ``feed`` on each: the result is its return value, or the ModelError that it would raise
        for that session alone. No session may be in the list twice. This default feeds one after
        another; engines may share passes.
        """
        return feed_each(feeds)


class Feed(NamedTuple):
    """The arguments of one session's :meth:`Session.feed`, as part of a batch."""

    session: Session
    ids: Sequence[int]
    keep: int = 1


@dataclass(frozen=True, eq=False)
class CheckedFeed:
    """A feed whose ids were checked, and its index in the batch that it came in."""

    index: int
    session: Any
    ids: NDArray[np.int64]
    keep: int


class Model(Protocol):
    """A frozen network with the files that belong to it."""

    @property
    def name(self) -> str:
        """How the model is called in messages and results."""
        ...

    @property
    def size(self) -> int:
        """Width of the logits; ids are below it."""
        ...

    @property
    def context(self) -> int | None:
        """The most ids one session can hold, where known."""
        ...

    @property
    def files(self) -> Files:
        """The tokenizer, template and configuration beside the weights."""
        ...

    def open(self) -> Session:
        """Return an empty session."""
        ...


class ModelBackend(Protocol):
    """The type of a module's ``MODEL``: loads one kind of weight files."""

    @property
    def suffix(self) -> str:
        """The ending of the weight files it loads, such as ``.onnx``."""
        ...

    def load(
        self,
        weights: Path,
        folder: Path,
        *,
        name: str,
        threads: int | None,
        providers: Sequence[str] | None,
    ) -> Model:
        """Load a weight file that belongs to ``folder``; raise ModelError if that cannot be."""
        ...


@dataclass(frozen=True)
class Files:
    """The files beside a model's weights: tokenizer, configuration, chat template.

    Each is read when it is first needed; a broken file raises ModelError then.
    """

    folder: Path

    @property
    def tokenizer(self) -> Path | None:
        """Path of ``tokenizer.json``, if there is one."""
        path = self.folder / "tokenizer.json"
        return path if path.is_file() else None

    @property
    def vocabulary(self) -> Path | None:
        """The path to read the vocabulary from, if there is one."""
        return self.folder if self.tokenizer is not None else None

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """``config.json``, or empty."""
        return self.read("config.json")

    @cached_property
    def generation(self) -> Mapping[str, Any]:
        """``generation_config.json``, or empty."""
        return self.read("generation_config.json")

    @cached_property
    def tokenizer_config(self) -> Mapping[str, Any]:
        """``tokenizer_config.json``, or empty."""
        return self.read("tokenizer_config.json")

    @cached_property
    def genai(self) -> Mapping[str, Any]:
        """``genai_config.json`` of onnxruntime-genai, or empty."""
        return self.read("genai_config.json")

    @property
    def ends(self) -> frozenset[int]:
        """Ids that end a turn, from the first file that names any."""
        genai = _object(self.genai.get("model"))
        for source in (self.generation, genai, self.config):
            found = source.get("eos_token_id")
            ids = [found] if isinstance(found, int) else found
            if isinstance(ids, list) and ids:
                return frozenset(end for end in ids if isinstance(end, int))
        return frozenset()

    @property
    def context(self) -> int | None:
        """The longest sequence the model was made for, where a configuration says so."""
        genai = _object(self.genai.get("model"))
        text = _object(self.config.get("text_config"))
        for source, key in (
            (genai, "context_length"),
            (self.config, "max_position_embeddings"),
            (text, "max_position_embeddings"),
            (self.config, "n_positions"),
        ):
            if isinstance(source.get(key), int):
                return int(source[key])
        return None

    @property
    def chat_template(self) -> str | None:
        """The Jinja text of the chat template, from its own file or the tokenizer's configuration.

        Where several are named, ``tool_use`` goes before ``default``.
        """
        path = self.folder / "chat_template.jinja"
        try:
            if path.is_file():
                return path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ModelError(f"{path} cannot be read: {error}; fetch the file again") from error
        found = self.tokenizer_config.get("chat_template")
        if isinstance(found, list):
            items = map(_object, found)
            named = {str(item.get("name")): item.get("template") for item in items}
            found = named.get("tool_use", named.get("default"))
        return found if isinstance(found, str) else None

    def read(self, name: str) -> Mapping[str, Any]:
        """Return a JSON object of the folder, empty if there is no such file."""
        path = self.folder / name
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, RecursionError, ValueError) as error:
            raise ModelError(f"{path} cannot be read: {error}") from error
        if not isinstance(value, dict):
            raise ModelError(f"{path} does not hold a JSON object")
        return value


def _object(value: Any) -> Mapping[str, Any]:
    """Return ``value`` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def feed_trie(session: Session, paths: Sequence[Sequence[int]]) -> list[Logits]:
    """Score ``paths`` by feeding them as a trie, depth first, into ``session``, which is changed.

    One feed per leaf of the trie; ids that paths have in common are fed once.
    """
    found: list[Logits | None] = [None] * len(paths)
    order = sorted(range(len(paths)), key=lambda index: tuple(paths[index]))
    here: tuple[int, ...] = ()
    rows: list[Logits] = []  # the logits after each id of `here`
    # Backwards, a path comes before its own prefixes, which are then read off its rows.
    for index in reversed(order):
        path = tuple(paths[index])
        shared = common_prefix_length(here, path)
        if shared < len(path):
            session.rewind(len(here) - shared)
            rows[shared:] = session.feed(path[shared:], keep=len(path) - shared)
            here = path
        found[index] = np.array(rows[: len(path)], np.float32).reshape(-1, session.size)
    return [logits for logits in found if logits is not None]


def feed_forks(
    session: Session, paths: Sequence[Sequence[int]], context: int | None, most: int | None = None
) -> list[Logits]:
    """Score ``paths`` with a fork for each that is no prefix of another, fed as a batch.

    The common prefix of all is fed once. ``most`` limits the forks at a time. Raises ModelError for a
    path that cannot be fed, before any is.
    """
    leaves = maximal_paths(paths)
    for leaf in leaves:
        check_feed(leaf, 0, session.size, None if context is None else context - session.length)
    if len(leaves) < 2:
        return feed_trie(session.fork(), paths)
    stem = leaves[0][: common_prefix_length(leaves[0], leaves[-1])]
    first = np.zeros((0, session.size), np.float32)
    if stem:
        session = session.fork()
        first = session.feed(stem, len(stem))
    longest = max(map(len, leaves)) - len(stem)
    at_once = max(1, _LOGITS_BYTES // (4 * longest * session.size))
    at_once = min(at_once, most or at_once)
    found: dict[tuple[int, ...], Logits] = {}
    for at in range(0, len(leaves), at_once):
        some = leaves[at : at + at_once]
        ends = [leaf[len(stem) :] for leaf in some]
        rows = session.feed_batch([Feed(session.fork(), end, len(end)) for end in ends])
        for leaf, row in zip(some, rows, strict=True):
            if isinstance(row, ModelError):
                raise row
            found[leaf] = np.concatenate([first, row])
    # Sorted, the first leaf that is not before a path begins with it.
    return [
        found[leaves[bisect_left(leaves, tuple(path))] if path else leaves[0]][: len(path)].copy()
        for path in paths
    ]


def feed_each(feeds: Sequence[Feed]) -> list[Logits | ModelError]:
    """Feed sessions one after another; an error is a result."""
    found: list[Logits | ModelError] = []
    for session, ids, keep in feeds:
        try:
            found.append(session.feed(ids, keep))
        except ModelError as error:
            found.append(error)
    return found


def padded_runs(counts: Sequence[int], most: int) -> list[int]:
    """Divide ``counts`` (ascending) into runs padded to their longest, cheapest in all.

    A run of several has at most ``most`` rows. Returns the sizes of the runs.
    """
    best: list[tuple[float, list[int]]] = [(0.0, [])]
    for end in range(1, len(counts) + 1):
        ways = []
        for start in range(end):
            rows = (end - start) * counts[end - 1]
            if end - start == 1 or rows <= most:
                cost, sizes = best[start]
                ways.append((cost + _PASS_COST + rows, [*sizes, end - start]))
        best.append(min(ways))
    return best[-1][1]


def common_prefix_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    count = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        count += 1
    return count


def check_feed(ids: Sequence[int], keep: int, size: int, room: int | None) -> NDArray[np.int64]:
    """Return ids as an array after the checks that every session makes; raise ModelError otherwise.

    ``room`` is how many ids the session can still hold, None for no limit.
    """
    array = np.asarray(ids)
    if array.ndim != 1 or array.size == 0:
        raise ModelError("a session was fed no ids; feed at least one")
    if array.dtype.kind not in "iu":
        raise ModelError(f"ids must be integers, not {array.dtype}")
    lowest, highest = int(array.min()), int(array.max())
    if lowest < 0 or highest >= size:
        wrong = lowest if lowest < 0 else highest
        raise ModelError(f"id {wrong} is not one of the model's {size} ids")
    if not 0 <= keep <= array.size:
        raise ModelError(f"keep={keep} logits asked for, but {array.size} ids fed")
    if room is not None and array.size > room:
        raise ModelError(
            f"the model's context is full: {array.size} more ids do not fit into the {room} left; "
            "shorten the prompt or use a model with a longer context"
        )
    return array.astype(np.int64, copy=False)


def checked_feeds(
    feeds: Sequence[Feed], size: int, context: int | None
) -> tuple[list[CheckedFeed], list[Any]]:
    """Check the ids of all feeds (see :func:`check_feed`).

    Return the feeds that passed, and a list as long as ``feeds`` with the ModelErrors of the others in
    their places and None elsewhere.
    """
    checked: list[CheckedFeed] = []
    results: list[Any] = [None] * len(feeds)
    for index, (session, ids, keep) in enumerate(feeds):
        room = None if context is None else context - session.length
        try:
            array = check_feed(ids, keep, size, room)
            checked.append(CheckedFeed(index, session, array, keep))
        except ModelError as error:
            results[index] = error
    return checked, results


def check_rewind(n: int, length: int) -> None:
    """Raise ModelError unless ``n`` of ``length`` ids can be forgotten."""
    if not 0 <= n <= length:
        raise ModelError(f"cannot forget {n} of {length} ids")


def maximal_paths(paths: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the distinct paths that are no prefix of another, sorted."""
    order = sorted({tuple(path) for path in paths if path})
    return [
        path
        for path, after in zip_longest(order, order[1:], fillvalue=())
        if after[: len(path)] != path
    ]


def need_extra(what: str, extra: str, error: ImportError) -> ModelError:
    """Return the error for an engine whose package is not installed."""
    return ModelError(
        f"{what} need a package that is not installed ({error.name or error}); "
        f"install it with `pip install 'callmemaybe[{extra}]'`"
    )
