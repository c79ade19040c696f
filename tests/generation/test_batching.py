"""However a request is worked on (alone, in a batch, forced, guessed ahead), its call is the same."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from callmemaybe import models
from callmemaybe.caller import Caller, CallResult
from callmemaybe.decoding.batch import DecodeBatch
from callmemaybe.errors import ModelError
from callmemaybe.generation.batching import in_order, on_server
from callmemaybe.models.base import Model
from callmemaybe.models.scripted import ScriptedModel
from tests.decoding.helpers import CHATML, vocabulary
from tests.models.conftest import Maker, tiny  # noqa: F401 - a fixture
from tests.settings import configured
from tests.test_caller import TOOLS

VOCABULARY = vocabulary(CHATML, ("<|im_end|>",))
#: In bytes there is one tokenisation, so that nothing can be spelled otherwise where it is not forced.
BYTES = vocabulary(CHATML, ("<|im_end|>",), more=())
PROMPTS = [
    "What is 40 plus 2?", "weather in Oslo for 3 days", "say 'hello there' twice", "", "ping",
    "add all of 1, 2 and 3", "anything", "Wie wird das Wetter in Zürich?", "add 0.5 and -7", "x" * 90,
]  # fmt: skip


def said(outcome: CallResult) -> tuple[Any, bytes]:
    """What must not depend on how it was worked on."""
    return outcome.call, outcome.text


def asked(model: Model, **options: Any) -> Caller:
    vocab = VOCABULARY if model.size == VOCABULARY.size else BYTES
    return Caller(
        model, TOOLS, format="hermes", vocabulary=vocab, **configured({"max_tokens": 130} | options)
    )


def model_of(kind: str, tiny: Maker, size: int = VOCABULARY.size) -> Model:  # noqa: F811
    if kind == "scripted":
        return ScriptedModel(size, 7)
    return models.load(tiny(kind, vocab_size=size, max_position_embeddings=4000))


WAYS: dict[str, dict[str, Any]] = {
    "nothing forced": {"forcing": False},
    "nothing guessed": {"speculate": False},
    "neither": {"forcing": False, "speculate": False},
}


KINDS = pytest.mark.parametrize("kind", ["scripted", "genai", "optimum", "placed"])


@KINDS
def test_forcing_and_guessing_change_no_answer(kind: str, tiny: Maker) -> None:  # noqa: F811
    """Forced or not, guessed or not: greedy answers are the same (float32, one tokenisation)."""
    model = model_of(kind, tiny, BYTES.size)
    expected = [said(asked(model).call(prompt)) for prompt in PROMPTS[:4]]
    for name, options in WAYS.items():
        caller = asked(model, **options)
        assert [said(caller.call(prompt)) for prompt in PROMPTS[:4]] == expected, name


@KINDS
def test_batches_and_prefixes_change_no_answer(kind: str, tiny: Maker) -> None:  # noqa: F811
    """With a kept prefix or a fresh one, alone or in a batch: greedy answers are the same."""
    model = model_of(kind, tiny)
    caller = asked(model)
    expected = [said(caller.call(prompt)) for prompt in PROMPTS]
    assert [said(asked(model).call(prompt)) for prompt in PROMPTS[:3]] == expected[:3]
    for at_once in (2, 8):
        found = [said(one) for one in caller.call_many(PROMPTS, at_once=at_once)]
        assert found == expected, f"{at_once} at once"


def test_a_batch_takes_fewer_passes() -> None:
    """Eight at a time take about as many passes as the longest of them, not as all together."""
    model = ScriptedModel(VOCABULARY.size, 7)
    caller = asked(model)
    caller.call("warm")
    model.counter.feeds = 0
    list(map(caller.call, PROMPTS))
    alone, model.counter.feeds = model.counter.feeds, 0
    list(caller.call_many(PROMPTS, at_once=len(PROMPTS)))
    assert model.counter.feeds < alone / 2


def test_a_batch_that_is_given_is_used() -> None:
    """A caller over a batch hands its prompts to that one, and leaves it open."""
    with DecodeBatch(ScriptedModel(VOCABULARY.size, 7), 3) as batch:
        expected = [said(asked(batch.model).call(prompt)) for prompt in PROMPTS]
        assert [said(one) for one in asked(batch).call_many(PROMPTS)] == expected
        assert batch.passes
        assert batch.submit(lambda: 1).result(10) == 1


def test_seeds_hold_in_a_batch() -> None:
    """With a seed, answers drawn at random are those that would be drawn alone."""
    caller = asked(ScriptedModel(VOCABULARY.size, 7), temperature=1.0, seed=5)
    expected = [said(caller.call(prompt)) for prompt in PROMPTS]
    assert [said(one) for one in caller.call_many(PROMPTS, at_once=4)] == expected


def test_leaving_stops_what_runs() -> None:
    """Whoever takes no more outcomes waits for no more passes; an error ends the rest."""
    model = ScriptedModel(VOCABULARY.size, 7)
    threads = threading.active_count()
    many = asked(model).call_many(PROMPTS * 50, at_once=3)
    assert next(many).call is not None
    many.close()
    before = model.counter.feeds
    assert threading.active_count() < threads + 20
    assert model.counter.feeds == before
    with pytest.raises(ModelError, match="context"):
        list(asked(ScriptedModel(VOCABULARY.size, 7, context=900), overflow="refuse").call_many(
            ["short", "long " * 900, "short"]
        ))  # fmt: skip


def test_leaving_waits_for_no_server() -> None:
    """Law: what has not begun is dropped, and an answer that is minutes away keeps neither us nor the exit."""
    before = set(threading.enumerate())
    both, answered = threading.Barrier(3), threading.Event()

    def call(prompt: str, _: Any) -> str:
        both.wait(30)
        answered.wait(30)
        return prompt

    with on_server(call, 2) as submit:
        futures = [submit(str(number)) for number in range(6)]
        both.wait(30)
    assert [future.cancelled() for future in futures] == [False] * 2 + [True] * 4
    assert not any(future.done() for future in futures[:2])
    assert {thread.daemon for thread in set(threading.enumerate()) - before} == {True}
    with pytest.raises(RuntimeError, match="after the end"):
        submit("late")
    answered.set()
    assert [future.result(30) for future in futures[:2]] == ["0", "1"]


def test_a_server_gets_so_many_at_a_time() -> None:
    """Never more than asked for, every prompt once, in order; what one raises is told with it."""
    running: list[int] = []
    peak: list[int] = []
    lock = threading.Lock()

    def call(prompt: str, _: Any) -> int:
        with lock:
            running.append(1)
            peak.append(len(running))
        time.sleep(0.002)
        with lock:
            running.pop()
        return 60 // int(prompt)

    numbers = range(1, 60)
    outcomes = in_order(on_server(call, 3), map(str, numbers), 3)
    assert list(outcomes) == [60 // number for number in numbers]
    assert max(peak) <= 3
    with pytest.raises(ZeroDivisionError):
        list(in_order(on_server(call, 3), ["1", "0", "2"], 3))


def test_steps_of_a_batch_reach_their_own_watcher() -> None:
    """Each prompt's watcher sees the steps of that prompt, all of them and in order."""
    caller = asked(ScriptedModel(VOCABULARY.size, 7))
    seen: dict[str, list[bytes]] = {prompt: [] for prompt in PROMPTS}
    with caller.submitting(5) as submit:
        futures = {
            prompt: submit(prompt, lambda step, prompt=prompt: seen[prompt].append(step.data))
            for prompt in PROMPTS
        }
        for prompt, future in futures.items():
            text = future.result().text
            assert b"".join(seen[prompt]) == text


def test_alone_is_the_default_here() -> None:
    """Where nothing is said, a model in this process works on one prompt after the other."""
    model = ScriptedModel(VOCABULARY.size, 7)
    caller = asked(model)
    caller.call("warm")
    model.counter.feeds = 0
    list(map(caller.call, PROMPTS))
    alone, model.counter.feeds = model.counter.feeds, 0
    list(caller.call_many(PROMPTS))
    assert model.counter.feeds == alone
