"""The laws of a model's sessions, for authors of engines.

A law is a function that takes the model and raises AssertionError if the model breaks it:

>>> from callmemaybe.models.scripted import ScriptedModel
>>> for law in LAWS.values():
...     law(Subject(ScriptedModel(size=20, context=64)))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from callmemaybe.errors import ModelError
from callmemaybe.models.base import Feed, Logits, Model, Session


@dataclass(frozen=True)
class ModelUnderTest:
    """A model to be checked, and how exact its arithmetic is.

    ``tolerance`` bounds the difference of logits that should be equal, relative to the largest logit:
    0 for exact models, about 1e-4 in float32, more in half precision, most where activations are
    quantised together. ``longest`` is the most ids that a law may feed.
    """

    model: Model
    tolerance: float = 0.0
    longest: int = 60
    seed: int = 0
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", np.random.default_rng(self.seed))

    def ids(self, count: int) -> list[int]:
        """Return random ids."""
        return [int(token) for token in self.random.integers(0, self.model.size, count)]

    def fresh(self, ids: list[int], keep: int) -> Logits:
        """Return the last ``keep`` rows of logits of a new session that is fed all ids at once."""
        return self.model.open().feed(ids, keep=keep)

    def same(self, found: Logits, expected: Logits, what: str) -> None:
        """Raise AssertionError unless ``found`` equals ``expected`` within the tolerance."""
        assert found.dtype == np.float32, f"{what}: logits are {found.dtype}, not float32"
        assert found.shape == expected.shape, f"{what}: {found.shape} is not {expected.shape}"
        if expected.size:
            allowed = self.tolerance * float(np.abs(expected).max())
            worst = float(np.abs(found - expected).max())
            assert worst <= allowed, f"{what}: off by {worst:.3g}, {allowed:.3g} allowed"


def feeding_is_associative(subject: ModelUnderTest) -> None:
    """Check that feeding at once, one by one, or in any pieces gives the same logits."""
    ids = subject.ids(subject.longest)
    expected = subject.fresh(ids, len(ids))
    assert expected.shape == (len(ids), subject.model.size)
    session = subject.model.open()
    rows = [session.feed([token]) for token in ids]
    subject.same(np.concatenate(rows), expected, "one by one")
    session, at = subject.model.open(), 0
    while at < len(ids):
        count = int(subject.random.integers(1, len(ids) - at + 1))
        part = session.feed(ids[at : at + count], keep=count)
        subject.same(part, expected[at : at + count], f"ids {at} to {at + count}")
        at += count
        assert session.length == at


def keep_returns_the_last_rows(subject: ModelUnderTest) -> None:
    """Check that ``keep`` only decides how many of the last rows are returned."""
    ids = subject.ids(subject.longest // 2)
    expected = subject.fresh(ids, len(ids))
    for keep in {0, 1, 2, len(ids) // 2, len(ids)}:
        session = subject.model.open()
        subject.same(session.feed(ids, keep=keep), expected[len(ids) - keep :], f"keep={keep}")
        assert session.length == len(ids)
        subject.same(session.feed([ids[0]]), subject.fresh([*ids, ids[0]], 1), "the id after")


def logits_are_copies(subject: ModelUnderTest) -> None:
    """Check that the caller may overwrite logits, and that later feeds do not change them."""
    ids = subject.ids(6)
    session = subject.model.open()
    first = session.feed(ids[:3], keep=3)
    copy = first.copy()
    second = session.feed(ids[3:], keep=3)
    assert np.array_equal(first, copy)
    expected = subject.fresh(ids, 3)
    subject.same(second, expected, "before writing")
    first[:], second[:] = 7, 7
    session.rewind(3)
    subject.same(session.feed(ids[3:], keep=3), expected, "after writing")


def rewind_undoes_feeding(subject: ModelUnderTest) -> None:
    """Check that after ``rewind(n)`` a session behaves as if the last n ids had never been fed."""
    ids, other = subject.ids(subject.longest // 2), subject.ids(5)
    session = subject.model.open()
    session.feed(ids)
    for forgotten in (0, 1, len(ids) // 3, 0):
        session.rewind(forgotten)
        ids = ids[: len(ids) - forgotten]
        assert session.length == len(ids)
        expected = subject.fresh(ids + other, len(other))
        subject.same(session.feed(other, keep=len(other)), expected, f"{forgotten} forgotten")
        session.rewind(len(other))
    session.rewind(len(ids))
    subject.same(session.feed(other), subject.fresh(other, 1), "all forgotten")


def forks_are_independent(subject: ModelUnderTest) -> None:
    """Check that feeding or rewinding a fork does not change the session it was forked from."""
    stem, ours, theirs = (subject.ids(count) for count in (8, 6, 4))
    one = subject.model.open()
    one.feed(stem)
    two = one.fork()
    assert two.length == one.length == len(stem)
    expected = subject.fresh(stem + ours, len(ours)), subject.fresh(stem + theirs, len(theirs))
    for turn in range(2):
        subject.same(one.feed(ours, keep=len(ours)), expected[0], f"the first, turn {turn}")
        subject.same(two.feed(theirs, keep=len(theirs)), expected[1], f"the second, turn {turn}")
        one.rewind(len(ours))
        two.rewind(len(theirs))
    one.rewind(3)
    one.feed(ours)
    subject.same(two.feed(theirs, keep=len(theirs)), expected[1], "after the first went back")
    del one, two
    empty = subject.model.open().fork()
    subject.same(empty.feed(stem), subject.fresh(stem, 1), "a fork of nothing")


def branches_are_forks(subject: ModelUnderTest) -> None:
    """Check that ``branches`` gives what forks give, and leaves the session alone."""
    stem, shared = subject.ids(9), subject.ids(3)
    a, b, c, d = subject.ids(4)
    sets: list[list[list[int]]] = [
        [],
        [[]],
        [[a]],
        [[a], [b], [c], [d]],
        [shared, [*shared, a], [*shared, b, c], [*shared, b, d], shared, []],
        [[a, b], [b], [c, a, d, b], [a, c], [d]],
    ]
    session = subject.model.open()
    session.feed(stem)
    for paths in sets:
        found = session.branches(paths)
        assert session.length == len(stem)
        assert len(found) == len(paths)
        for path, logits in zip(paths, found, strict=True):
            expected = np.zeros((0, subject.model.size), np.float32)
            if path:
                expected = session.fork().feed(path, keep=len(path))
            subject.same(logits, expected, f"path {path} of {paths}")
    subject.same(session.feed(shared), subject.fresh(stem + shared, 1), "the session afterwards")
    start = subject.model.open().branches([[a], [b, c], [d]])
    subject.same(start[1], subject.fresh([b, c], 2), "from an empty session")


def only_the_current_ids_matter(subject: ModelUnderTest) -> None:
    """Check that after any feeds, rewinds and forks only the ids of the session matter."""
    pool: list[tuple[Session, list[int]]] = [(subject.model.open(), [])]
    for _ in range(40):
        index = int(subject.random.integers(len(pool)))
        session, ids = pool[index]
        action = subject.random.random()
        if action < 0.2 and len(pool) < 5:
            pool.append((session.fork(), list(ids)))
        elif action < 0.3 and len(pool) > 1:
            del pool[index], session
        elif action < 0.5 or len(ids) > subject.longest - 8:
            count = int(subject.random.integers(0, len(ids) + 1))
            session.rewind(count)
            del ids[len(ids) - count :]
        else:
            new = subject.ids(int(subject.random.integers(1, 8)))
            ids += new
            found = session.feed(new, keep=len(new))
            subject.same(found, subject.fresh(ids, len(new)), f"after {len(ids)} ids")
    for session, ids in pool:
        assert session.length == len(ids)


def batched_feeds_equal_single_feeds(subject: ModelUnderTest) -> None:
    """Check that sessions fed in one pass, joining and leaving, get what each would get alone."""
    stem = subject.ids(subject.longest // 3)
    base = subject.model.open()
    base.feed(stem)
    pool: list[tuple[Session, list[int]]] = [(base.fork(), list(stem)) for _ in range(3)]
    pool.append((subject.model.open(), []))
    for turn in range(8):
        parts = [subject.ids(int(subject.random.choice([1, 1, 1, 2, 5]))) for _ in pool]
        keeps = [int(subject.random.integers(0, len(part) + 1)) for part in parts]
        feeds = [
            Feed(session, part, keep)
            for (session, _), part, keep in zip(pool, parts, keeps, strict=True)
        ]
        order = subject.random.permutation(len(feeds)).tolist()
        found = pool[0][0].feed_batch([feeds[index] for index in order])
        for index, logits in zip(order, found, strict=True):
            session, ids = pool[index]
            ids += parts[index]
            assert not isinstance(logits, ModelError), logits
            assert session.length == len(ids)
            expected = subject.fresh(ids, keeps[index])
            subject.same(logits, expected, f"turn {turn}, session {index} of {len(pool)}")
        if turn % 3 == 0:
            session, ids = pool[int(subject.random.integers(len(pool)))]
            pool.append((session.fork(), list(ids)))
        if turn % 3 == 1:
            del pool[int(subject.random.integers(len(pool)))]
        for session, ids in pool:
            # Some go back; whoever would grow too long starts anew.
            least = max(0, len(ids) - subject.longest + 8)
            count = max(least, int(subject.random.choice([0, 0, 1, 3])))
            session.rewind(min(count, len(ids)))
            del ids[max(0, len(ids) - count) :]
    subject.same(base.feed(stem[:3]), subject.fresh(stem + stem[:3], 1), "the stem afterwards")
    size = subject.model.size
    wrong = [Feed(base, [0]), Feed(pool[0][0], [size]), Feed(pool[1][0], [1], 2)]
    before = [feed.session.length for feed in wrong]
    right, *errors = base.feed_batch(wrong)
    assert not isinstance(right, ModelError)
    assert all(isinstance(error, ModelError) for error in errors)
    assert [feed.session.length for feed in wrong] == [before[0] + 1, *before[1:]]


def errors_change_nothing(subject: ModelUnderTest) -> None:
    """Check that a wrong argument raises ModelError and does not change the session."""
    ids = subject.ids(5)
    size, context = subject.model.size, subject.model.context
    session = subject.model.open()
    session.feed(ids)
    mistakes: list[Callable[[], object]] = [
        lambda: session.feed([]),
        lambda: session.feed([], keep=0),
        lambda: session.feed([size]),
        lambda: session.feed([0, -1]),
        lambda: session.feed([0], keep=2),
        lambda: session.feed([0], keep=-1),
        lambda: session.rewind(6),
        lambda: session.rewind(-1),
        lambda: session.branches([[0], [1], [2], [size]]),
    ]
    if context is not None:
        mistakes += [
            lambda: session.feed([0] * (context - 4)),
            lambda: session.branches([[0] * (context - 4), [1], [2]]),
        ]
    for number, mistake in enumerate(mistakes):
        try:
            mistake()
        except ModelError:
            assert session.length == len(ids), f"mistake {number} moved the session"
        else:
            raise AssertionError(f"mistake {number} raised nothing")
    subject.same(session.feed([1]), subject.fresh([*ids, 1], 1), "after the mistakes")


LAWS: Mapping[str, Callable[[ModelUnderTest], None]] = {
    law.__name__: law
    for law in (
        feeding_is_associative,
        keep_returns_the_last_rows,
        logits_are_copies,
        rewind_undoes_feeding,
        forks_are_independent,
        branches_are_forks,
        only_the_current_ids_matter,
        batched_feeds_equal_single_feeds,
        errors_change_nothing,
    )
}
