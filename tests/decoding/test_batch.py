"""Batches: one pass for all who ask, continuous, cancellable, and never another answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.decoding.batch import DecodeBatch, run_blocking
from callmemaybe.decoding.decoder import Decoder
from callmemaybe.decoding.prefix_cache import PrefixCache
from callmemaybe.decoding.prompt_lookup import PromptLookupDrafter
from callmemaybe.decoding.sampler import Sampler
from callmemaybe.errors import ModelError
from callmemaybe.matching import Matcher
from callmemaybe.models.base import Model, Session
from callmemaybe.models.scripted import ScriptedModel, ScriptedSession
from tests.decoding.test_decoder import LANGUAGE, PIECED, WITH_TEXT

MATCHERS = [Matcher(LANGUAGE, PIECED), Matcher(WITH_TEXT, PIECED)]


@pytest.fixture
def batch() -> Iterator[DecodeBatch]:
    with DecodeBatch(ScriptedModel(PIECED.size), max_tasks=4) as made:
        yield made


def decode(model: Model, prompt: list[int], kind: int) -> Callable[[], tuple[int, ...]]:
    """Return work that decodes one answer."""

    def work() -> tuple[int, ...]:
        decoder = Decoder(
            model.open(),
            MATCHERS[kind % 2].fork(),
            Sampler(1.0, generator=np.random.default_rng(kind)) if kind % 3 else Sampler(),
            prompt,
            60,
            drafter=PromptLookupDrafter("ab 10, 0.5") if kind % 5 else None,
            forcing=kind % 7 > 0,
        )
        for _ in decoder.steps():
            pass
        return decoder.matcher.ids

    return work


@settings(max_examples=12, deadline=None)
@given(
    jobs=st.lists(st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(0, 99)),
                  min_size=1, max_size=12),
    most=st.integers(1, 6),
)  # fmt: skip
def test_a_batch_is_what_each_would_be_alone(jobs: list[tuple[list[int], int]], most: int) -> None:
    """Whatever runs beside it, and however it is decoded, an answer is token for token its own."""
    model = ScriptedModel(PIECED.size, 3)
    alone = [decode(model, prompt, kind)() for prompt, kind in jobs]
    with DecodeBatch(model, most) as batch:
        tasks = [batch.submit(decode(batch, prompt, kind)) for prompt, kind in jobs]
        assert [task.result(20) for task in tasks] == alone


def test_everyone_who_asks_is_fed_in_one_pass() -> None:
    """As many tasks as may run take as many passes as one of them would."""
    model = ScriptedModel(20)

    def work(session: Session, start: int) -> Callable[[], list[float]]:
        return lambda: [float(session.feed([start]).max()) for _ in range(10)]

    batch = DecodeBatch(model, 4)
    gate = threading.Event()
    blocker = batch.submit(lambda: gate.wait(10))  # so that all begin together
    tasks = [batch.submit(work(batch.open(), start)) for start in range(3)]
    gate.set()
    assert blocker.result(10)
    for start, task in enumerate(tasks):
        assert task.result(10) == work(model.open(), start)()
    assert batch.passes <= 12
    assert batch.feeds == 30
    batch.close()


def test_who_waits_enters_when_one_leaves(batch: DecodeBatch) -> None:
    """At most ``most`` tasks run; the next one begins as soon as one ends, not when all have."""
    seen: list[int] = []

    def work(number: int, passes: int) -> Callable[[], None]:
        def run() -> None:
            session = batch.open()
            for _ in range(passes):
                assert batch.running <= 4
                session.feed([number])
                seen.append(number)

        return run

    tasks = [batch.submit(work(number, 40 if number == 0 else 3)) for number in range(12)]
    for task in tasks:
        task.result(10)
    last_of_the_long_one = max(at for at, number in enumerate(seen) if number == 0)
    assert all(seen.index(number) < last_of_the_long_one for number in range(12))


def test_one_task_at_a_time(batch: DecodeBatch) -> None:
    """Between two passes only one task runs, so tasks may share what is not locked."""
    inside: list[int] = []

    def work() -> None:
        session = batch.open()
        for _ in range(20):
            assert not inside
            inside.append(1)
            for _ in range(200):
                pass
            inside.pop()
            session.feed([1])

    for task in [batch.submit(work) for _ in range(8)]:
        task.result(10)


def test_a_task_that_is_cancelled_stops_at_its_next_pass(batch: DecodeBatch) -> None:
    """CancelledError is raised in the work (what it holds is released); others do not notice."""
    released = threading.Event()
    begun = threading.Event()

    def endless() -> None:
        session = batch.open()
        try:
            while True:
                session.feed([1])
                begun.set()
                session.rewind(1)
        finally:
            released.set()

    tasks = [batch.submit(endless) for _ in range(4)]
    waits = batch.submit(endless)
    assert begun.wait(10)
    assert waits.cancel()
    assert waits.cancelled()
    assert batch.waiting == 0
    assert tasks[0].cancel()
    with pytest.raises(CancelledError):
        tasks[0].result(10)
    assert released.wait(10)
    assert not tasks[0].cancel()
    other = batch.submit(decode(batch, [1], 0))
    assert other.result(10) == decode(batch.model, [1], 0)()
    for task in tasks[1:]:
        task.cancel()


def test_what_fails_fails_alone(batch: DecodeBatch) -> None:
    """An error in one task's pass, or in its own work, reaches whoever asks for its result only."""

    def wrong() -> None:
        batch.open().feed([10**6])

    def broken() -> None:
        batch.open().feed([1])
        raise KeyError("mine")

    tasks = [batch.submit(work) for work in (wrong, broken, decode(batch, [1], 4))]
    with pytest.raises(ModelError, match="id 1000000"):
        tasks[0].result(10)
    with pytest.raises(KeyError):
        tasks[1].result(10)
    assert tasks[2].result(10) == decode(batch.model, [1], 4)()


def test_what_fails_before_its_pass_fails_alone(batch: DecodeBatch) -> None:
    """An engine that cannot fork a session says so to whoever needed that; the others go on."""

    class Unforked(ScriptedSession):
        def fork(self) -> ScriptedSession:
            raise ModelError("no session is left")

    assert isinstance(batch.model, ScriptedModel)
    session = batch.share_passes(Unforked(batch.model))
    works = [lambda: session.branches([[1, 2]]), decode(batch, [1], 4)]
    wrong, right = [batch.submit(work) for work in works]
    with pytest.raises(ModelError, match="no session is left"):
        wrong.result(10)
    assert right.result(10) == decode(batch.model, [1], 4)()
    assert batch.submit(decode(batch, [1], 2)).result(10) == decode(batch.model, [1], 2)()


def test_a_prefix_in_common_is_fed_once_and_waited_for() -> None:
    """Tasks that begin together with the same prefix feed it once; no task holds up another."""
    model = ScriptedModel(20)
    with DecodeBatch(model, 6) as batch:
        prefixes = PrefixCache(batch)
        tasks = [
            batch.submit(lambda at=at: prefixes.fork([1, 2, 3, at % 2]).feed([at]).argmax())
            for at in range(6)
        ]
        found = [task.result(10) for task in tasks]
    assert found == [model.open().feed([1, 2, 3, at % 2, at]).argmax() for at in range(6)]
    assert model.counter.tokens - 5 * 6 <= 6 + 2 * 4


def test_sessions_work_outside_tasks_and_between_threads(batch: DecodeBatch) -> None:
    """What is warmed up before any task is what tasks go on with; waiting patiently is allowed."""
    session = batch.open()
    session.feed([1, 2])
    ready = threading.Event()
    first = batch.submit(lambda: run_blocking(lambda: ready.wait(10)))

    def second() -> float:
        ready.set()
        fork = session.fork()
        assert [rows.shape for rows in fork.branches([[1], [2, 3]])] == [
            (1, batch.size),
            (2, batch.size),
        ]
        return float(fork.feed([3]).max())

    assert batch.submit(second).result(10) == float(batch.model.open().feed([1, 2, 3]).max())
    assert first.result(10)
    assert run_blocking(lambda: 7) == 7
    # Waiting within waiting is waiting.
    assert batch.submit(lambda: run_blocking(lambda: run_blocking(lambda: 7))).result(10) == 7
    assert len(batch.submit(lambda: run_blocking(lambda: 1) and batch.open().feed([1])).result(10))


def test_a_task_that_was_cancelled_while_it_waited_ends_there(batch: DecodeBatch) -> None:
    """It tells meanwhile that it keeps nobody waiting; the others go on, and it does not."""
    has_begun, may_go_on, after = threading.Event(), threading.Event(), []

    def waiting() -> None:
        run_blocking(lambda: has_begun.set() or may_go_on.wait(10))
        after.append(1)

    task = batch.submit(waiting)
    assert has_begun.wait(10)
    assert task.lets_others_run
    assert task.cancel()
    may_go_on.set()
    with pytest.raises(CancelledError):
        task.result(10)
    assert not after
    assert not task.lets_others_run
    assert batch.submit(lambda: 7).result(10) == 7


def test_a_closed_batch_takes_nothing_more() -> None:
    """Closing awaits what runs, drops what waits, and refuses what comes."""
    batch = DecodeBatch(ScriptedModel(20), 1)
    gate = threading.Event()
    runs = batch.submit(lambda: gate.wait(10))
    waits = batch.submit(lambda: 1)
    threading.Timer(0.05, gate.set).start()
    batch.close()
    assert runs.done()
    assert waits.cancelled()
    with pytest.raises(ModelError, match="closed"):
        batch.submit(lambda: 1)
    with pytest.raises(ModelError, match="at least 1"):
        DecodeBatch(ScriptedModel(20), 0)
