"""A model that says what it is told, while a real one does the work.

Random weights cost as much time per pass as trained ones but write nonsense. Here every logit comes
from a real forward pass, and then the token that the ground truth has next is made the likeliest. So
real passes are run over realistic text, whatever the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from callmemaybe.errors import ModelError
from callmemaybe.models.base import Feed, Files, Logits, Model, Session
from callmemaybe.vocabulary import Vocabulary

_AHEAD = np.float32(1000.0)


@dataclass
class Truth:
    """What the model shall say, as ids, behind a prompt of so many ids."""

    vocabulary: Vocabulary
    start: int = 0
    ids: tuple[int, ...] = ()
    _next: dict[tuple[int, ...], int] = field(default_factory=dict)

    def aim(self, start: int, ids: Sequence[int]) -> None:
        """Set what is said next, behind the first ``start`` ids of a session."""
        self.start, self.ids, self._next = start, tuple(ids), {}

    def wanted(self, ids: tuple[int, ...]) -> int | None:
        """Return the id that comes next behind all ``ids`` of a session; None for nothing."""
        return self.after(ids[self.start :]) if len(ids) >= self.start else None

    def after(self, said: tuple[int, ...]) -> int | None:
        """Return the id that continues ``said`` towards the truth; None where it has left it."""
        if said == self.ids[: len(said)]:
            return self.ids[len(said)] if len(said) < len(self.ids) else None
        # Spelled in other tokens: go on from the byte where it stands.
        spelled, whole = self._spell(said), self._spell(self.ids)
        if whole[: len(spelled)] != spelled or spelled == whole:
            return None
        rest = whole[len(spelled) :]
        if not isinstance(rest[0], int):
            return self.vocabulary.controls[rest[0]]
        stop = next((at for at, one in enumerate(rest) if not isinstance(one, int)), len(rest))
        return self.vocabulary.encode(bytes(rest[:stop]))[0]

    def _spell(self, ids: tuple[int, ...]) -> list[int | str]:
        found: list[int | str] = []
        for index in ids:
            found += self.vocabulary.token(index) or (self.vocabulary.names[index],)
        return found


class Truths:
    """What the model shall say to each of several prompts, told apart by their ids."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._by_prompt: dict[tuple[int, ...], Truth] = {}

    def add(self, prompt: Sequence[int], answer: Sequence[int]) -> None:
        """Let ``answer`` follow ``prompt``."""
        truth = Truth(self._vocabulary)
        truth.aim(len(prompt), answer)
        self._by_prompt[tuple(prompt)] = truth

    def wanted(self, ids: tuple[int, ...]) -> int | None:
        """Return the id that comes next behind ``ids``; None where there is nothing to say."""
        for prompt, truth in self._by_prompt.items():
            if ids[: len(prompt)] == prompt:
                return truth.wanted(ids)
        return None


@dataclass
class Counter:
    """Forward passes, and ids that went through them."""

    passes: int = 0
    ids: int = 0


class Steered:
    """A model with the logits of ``inner`` (None: none, for counting only), bent to the truth."""

    def __init__(
        self, inner: Model | None, truth: Truth | Truths, size: int, name: str = "steered"
    ) -> None:
        self.inner, self.truth, self.size, self.name = inner, truth, size, name
        self.counter = Counter()
        self.context: int | None = None if inner is None else inner.context
        self.files: Files | None = None if inner is None else inner.files

    def open(self) -> Session:
        """Return an empty session."""
        return _Session(self, None if self.inner is None else self.inner.open(), ())


class _Session(Session):
    def __init__(self, model: Steered, inner: Session | None, ids: tuple[int, ...]) -> None:
        self._model, self._inner, self._ids = model, inner, ids

    @property
    def length(self) -> int:
        return len(self._ids)

    @property
    def size(self) -> int:
        return self._model.size

    def feed(self, ids: Sequence[int], keep: int = 1) -> Logits:
        self._model.counter.passes += 1
        self._model.counter.ids += len(ids)
        found = self._inner.feed(ids, keep) if self._inner else self._blank(keep)
        self._ids += tuple(ids)
        for row, end in zip(
            found, range(len(self._ids) - keep + 1, len(self._ids) + 1), strict=True
        ):
            self._bend(row, self._ids[:end])
        return found

    def _blank(self, rows: int) -> Logits:
        return np.zeros((rows, self.size), np.float32)

    def _bend(self, row: Logits, ids: tuple[int, ...]) -> None:
        wanted = self._model.truth.wanted(ids)
        if wanted is not None:
            row[wanted] = _AHEAD

    def feed_batch(self, feeds: Sequence[Feed]) -> list[Logits | ModelError]:
        """One pass of the inner model over all sessions, each bent to the truth."""
        self._model.counter.passes += 1
        sessions: list[_Session] = [feed.session for feed in feeds]  # type: ignore[misc]
        assert self._inner is not None
        found = self._inner.feed_batch(
            [
                Feed(session._inner, feed.ids, feed.keep)  # type: ignore[arg-type]
                for session, feed in zip(sessions, feeds, strict=True)
            ]
        )
        for session, (_, ids, keep), rows in zip(sessions, feeds, found, strict=True):
            if isinstance(rows, ModelError):
                continue
            self._model.counter.ids += len(ids)
            session._ids += tuple(ids)
            for row, end in zip(
                rows,
                range(len(session._ids) - keep + 1, len(session._ids) + 1),
                strict=True,
            ):
                session._bend(row, session._ids[:end])
        return found

    def rewind(self, n: int) -> None:
        if self._inner:
            self._inner.rewind(n)
        self._ids = self._ids[: len(self._ids) - n]

    def fork(self) -> _Session:
        return _Session(self._model, self._inner and self._inner.fork(), self._ids)

    def branches(self, paths: Sequence[Sequence[int]]) -> list[Logits]:
        self._model.counter.passes += 1
        self._model.counter.ids += sum(map(len, paths))
        found = self._inner.branches(paths) if self._inner else [self._blank(len(p)) for p in paths]
        for rows, path in zip(found, paths, strict=True):
            for at in range(len(path)):
                self._bend(rows[at], self._ids + tuple(path[: at + 1]))
        return found
