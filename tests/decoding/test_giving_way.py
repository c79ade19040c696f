"""Tasks that compute for long give way: counted in steps of automata, so no law here depends on time."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.decoding import batch as batch_module
from callmemaybe.decoding.batch import STEPS_PER_TURN, DecodeBatch
from callmemaybe.decoding.decoder import Decoder
from callmemaybe.decoding.sampler import Sampler
from callmemaybe.errors import GrammarError
from callmemaybe.grammar import Grammar, automaton, json_schema, regex
from callmemaybe.grammar import automaton as automaton_module
from callmemaybe.grammar.automaton import CHECK_INTERVAL, Automaton
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.matching import Matcher
from callmemaybe.models.scripted import ScriptedModel
from tests.decoding.test_decoder import PIECED

#: What a turn may take at most: the turn, and the steps between two looks at it.
MOST = STEPS_PER_TURN + CHECK_INTERVAL + 60


def machine() -> Automaton:
    """Return the automaton of a pattern with a million states, of 40 places at most."""
    made = automaton_of(regex("(a|b)*a(a|b){18}"))
    inside = made.inside_lexeme(made.start)
    assert inside is not None
    return inside[0]


def reading(made: Automaton, steps: int, seed: int = 0) -> Callable[[], int]:
    """Return work that reads on until an automaton has taken so many steps."""
    dice = random.Random(seed)

    def work() -> int:
        state = made.start
        while made.steps < steps:
            state = made.walk(state, bytes(dice.choices(b"ab", k=2)))
        return made.steps

    return work


def begun_together(
    batch: DecodeBatch, *works: Callable[[], object]
) -> list[batch_module.DecodeTask[object]]:
    """Submit work that begins only once all of it is there."""
    gate = threading.Event()
    batch.submit(lambda: gate.wait(20))
    tasks = [batch.submit(work) for work in works]
    gate.set()
    return tasks


def test_steps_are_told_to_whoever_paces_and_to_nobody_else() -> None:
    """Law: what is told adds up to what was spent, but for the last stride; outside nothing is told."""
    told: list[int] = []
    with automaton.progress_reported_to(told.append):
        first = machine()
        reading(first, 5000)()
    assert abs(sum(told) - first.steps) <= CHECK_INTERVAL + 10
    assert max(told) <= CHECK_INTERVAL + 60
    count = len(told)
    reading(machine(), 5000)()
    assert len(told) == count


def test_whoever_asks_for_passes_waits_for_one_turn_at_a_time() -> None:
    """Law: while n passes are made for others, all that compute take n + 1 turns together."""
    heavy = [machine() for _ in range(3)]
    rounds = 30
    taken: list[int] = []

    def polite() -> None:
        session = batch.open()
        for _ in range(rounds):
            session.feed([1])
            taken.append(sum(one.steps for one in heavy))

    batch = DecodeBatch(ScriptedModel(20), 8)
    before = sum(one.steps for one in heavy)
    enough = 2 * rounds * MOST
    works = [reading(one, enough, seed) for seed, one in enumerate(heavy)]
    *computing, asking = begun_together(batch, *works, polite)
    asking.result(60)
    # Each of those that compute may have had its first turn before anything was asked.
    allowed = [before + (rounds_ + 1 + len(heavy)) * MOST for rounds_ in range(rounds)]
    assert all(steps <= most for steps, most in zip(taken, allowed, strict=True))
    assert not any(task.done() for task in computing)
    assert [task.result(60) >= enough for task in computing] == [True] * 3
    batch.close()


def test_those_that_compute_take_turns() -> None:
    """Law: none of them is ahead of another by more than two turns."""
    heavy = [machine() for _ in range(3)]
    ahead: list[int] = []

    def watched(made: Automaton, seed: int) -> Callable[[], None]:
        def work() -> None:
            dice, state = random.Random(seed), made.start
            while made.steps < 20 * STEPS_PER_TURN:
                state = made.walk(state, bytes(dice.choices(b"ab", k=2)))
                spent = [one.steps for one in heavy]
                ahead.append(max(spent) - min(spent))

        return work

    with DecodeBatch(ScriptedModel(20), 8) as batch:
        tasks = begun_together(batch, *(watched(one, i) for i, one in enumerate(heavy)))
        for task in tasks:
            task.result(60)
    assert max(ahead) <= 2 * MOST


def test_a_task_that_is_cancelled_ends_within_its_turn() -> None:
    """Law: cancelling ends work that never asks for a pass; what it made so far stays usable."""
    heavy = machine()
    seen: list[int] = []
    batch = DecodeBatch(ScriptedModel(20), 4)

    def cancelling() -> None:
        batch.open().feed([1])
        assert computing.cancel()
        seen.append(heavy.steps)

    work = reading(heavy, 10**6)
    computing, asking = begun_together(batch, work, cancelling)
    asking.result(60)
    with pytest.raises(CancelledError):
        computing.result(60)
    assert heavy.steps <= seen[0] + MOST
    assert heavy.walk(heavy.start, b"ab" * 30) >= 0
    batch.close()


def test_the_limit_holds_where_turns_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: a language that takes too much work is an error in its own task alone."""
    monkeypatch.setattr(automaton_module, "WORK_BUDGET", 3000)
    with DecodeBatch(ScriptedModel(20), 4) as batch:
        works = (reading(machine(), 10**6), lambda: int(batch.open().feed([1]).argmax()))
        hostile, other = begun_together(batch, *works)
        with pytest.raises(GrammarError, match="more than 3,000 steps"):
            hostile.result(60)
        assert other.result(60) == int(batch.model.open().feed([1]).argmax())


SCHEMAS = (
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "string", "pattern": "^(a|b)*a(a|b){4}$", "maxLength": 12},
    {"anyOf": [{"type": "array", "items": {"enum": ["a", "ab", 1]}}, {"type": "string"}]},
)


@settings(max_examples=8, deadline=None)
@given(
    schema=st.sampled_from(SCHEMAS),
    seeds=st.lists(st.integers(0, 99), min_size=2, max_size=5),
)  # fmt: skip
def test_giving_way_anywhere_changes_nothing(schema: object, seeds: list[int]) -> None:
    """Law: tasks that share an automaton, and give way at every step of it, decode as each alone."""

    def decode(model: object, grammar: Grammar, seed: int) -> Callable[[], tuple[int, ...]]:
        def work() -> tuple[int, ...]:
            matcher = Matcher(shared or automaton_of(grammar), PIECED)
            decoder = Decoder(model.open(), matcher, Sampler(), [65, seed], 40)  # type: ignore[attr-defined]
            for _ in decoder.steps():
                pass
            return decoder.matcher.ids

        return work

    grammar = json_schema(schema)
    model = ScriptedModel(PIECED.size, 5)
    shared = None
    alone = [decode(model, grammar, seed)() for seed in seeds]
    shared = automaton_of(grammar)
    with pytest.MonkeyPatch.context() as patch, DecodeBatch(model, 4) as batch:
        patch.setattr(batch_module, "STEPS_PER_TURN", 1)
        patch.setattr(automaton_module, "CHECK_INTERVAL", 0)
        tasks = [batch.submit(decode(batch, grammar, seed)) for seed in seeds]
        assert [task.result(60) for task in tasks] == alone
