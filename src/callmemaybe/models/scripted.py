"""The fake for tests: logits are a pure function of the ids so far; forward passes are counted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from callmemaybe.errors import ModelError
from callmemaybe.models.base import Feed, Files, Logits, Session, check_feed, check_rewind

Script = Callable[[tuple[int, ...]], ArrayLike]


def seeded(size: int, seed: int = 0, scale: float = 3.0) -> Script:
    """Return a script of random but repeatable logits, normal with deviation ``scale``.

    The same ids give the same ``float32[size]`` on every machine and in every process.
    """

    def script(ids: tuple[int, ...]) -> Logits:
        text = np.array([seed, *ids], "<i8").tobytes()
        digest = hashlib.blake2b(text, digest_size=8).digest()
        source = np.random.default_rng(int.from_bytes(digest, "little"))
        return source.standard_normal(size, dtype=np.float32) * np.float32(scale)

    return script


@dataclass
class PassCounter:
    """Counts over all sessions of a model: forward passes (one per feed), and ids fed."""

    feeds: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class ScriptedModel:
    """A model whose logits are ``script(ids so far)``, of shape ``[size]``.

    ``script`` may be a seed. ``counter`` counts over all sessions, forks included.
    """

    size: int
    script: Script | int = 0
    context: int | None = None
    name: str = "scripted"
    folder: Path | None = None
    counter: PassCounter = field(default_factory=PassCounter, compare=False)

    @property
    def files(self) -> Files:
        """The files of ``folder``; a folder that does not exist holds none."""
        return Files(self.folder or Path("scripted-model-without-files"))

    def open(self) -> ScriptedSession:
        """Return an empty session."""
        return ScriptedSession(self)

    def logits(self, ids: tuple[int, ...]) -> Logits:
        """Return ``float32[size]``, the logits after ``ids``."""
        script = seeded(self.size, self.script) if isinstance(self.script, int) else self.script
        found = np.asarray(script(ids), np.float32)
        if found.shape != (self.size,):
            raise ValueError(f"the script gave logits of shape {found.shape}, not ({self.size},)")
        return found


class ScriptedSession(Session):
    """A session whose only state is its ids."""

    def __init__(self, model: ScriptedModel, ids: tuple[int, ...] = ()) -> None:
        self._model = model
        self._ids = ids

    @property
    def ids(self) -> tuple[int, ...]:
        """Everything fed and not rewound."""
        return self._ids

    @property
    def length(self) -> int:
        """How many ids the session holds."""
        return len(self._ids)

    @property
    def size(self) -> int:
        """Width of the logits; ids are below it."""
        return self._model.size

    def feed(self, ids: Sequence[int], keep: int = 1) -> Logits:
        """Append ids; return the logits after each of the last ``keep``."""
        found = self.append(ids, keep)
        self._model.counter.feeds += 1
        return found

    def feed_batch(self, feeds: Sequence[Feed]) -> list[Logits | ModelError]:
        """Feed several sessions, counted as one forward pass."""
        found: list[Logits | ModelError] = []
        for session, ids, keep in feeds:
            assert isinstance(session, ScriptedSession)
            try:
                found.append(session.append(ids, keep))
            except ModelError as error:
                found.append(error)
        self._model.counter.feeds += any(not isinstance(one, ModelError) for one in found)
        return found

    def append(self, ids: Sequence[int], keep: int) -> Logits:
        """Append ids without counting a forward pass."""
        context = self._model.context
        room = None if context is None else context - self.length
        checked = check_feed(ids, keep, self._model.size, room)
        whole = self._ids + tuple(checked.tolist())
        rows = [
            self._model.logits(whole[:end]) for end in range(len(whole) - keep + 1, len(whole) + 1)
        ]
        self._ids = whole
        self._model.counter.tokens += len(checked)
        return np.array(rows, np.float32).reshape(keep, self._model.size)

    def rewind(self, n: int) -> None:
        """Forget the last ``n`` ids."""
        check_rewind(n, self.length)
        self._ids = self._ids[: self.length - n]

    def fork(self) -> ScriptedSession:
        """Return an independent session that holds the same ids."""
        return ScriptedSession(self._model, self._ids)
