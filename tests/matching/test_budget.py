"""Every budget closes: what is masked is exactly what would overrun it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.errors import VocabularyError
from callmemaybe.grammar import Automaton, json_schema
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.grammar import Control, Grammar, alt, lit, many, opt, repeat, seq
from callmemaybe.matching import Matcher
from callmemaybe.testing.vocabularies import ByteVocabulary
from callmemaybe.vocabulary import Vocabulary, bitmask
from tests.matching.grammars import (
    GRAMMARS,
    LETTERS,
    STRING,
    automata,
    automaton,
    random_walk,
    slow_allowed,
)
from tests.vocabulary.samples import vocabulary

SMALL = ["bytes", "crossing", "toy"]
seeds = st.integers(0, 10_000)


def at(machine: Automaton, words: Vocabulary, ids: list[int]) -> Matcher:
    matcher = Matcher(machine, words)
    assert matcher.try_accept(ids) == len(ids)
    return matcher


def cannot_end(matcher: Matcher) -> bool:
    """Whether the grammar uses the end token for itself here, so that nothing says "the end"."""
    return matcher.is_accepting and "<|end|>" in matcher.automaton.controls(matcher.state)


@given(automata(), st.sampled_from(SMALL), seeds)
@settings(max_examples=60, deadline=None)
def test_remaining_is_consistent(machine: Automaton, name: str, seed: int) -> None:
    """Some allowed token lowers it by exactly one, down to 0; it never exceeds the bytes left."""
    words = vocabulary(name)
    for ids, state in random_walk(machine, words, seed, 8):
        matcher = at(machine, words, ids)
        left = matcher.remaining
        if state >= 0:
            assert left <= machine.min_remaining(state) + 1
            assert left or matcher.is_terminated or cannot_end(matcher)
        while left:
            after = [
                at(machine, words, [*matcher.ids, i])
                for i in slow_allowed(machine, words, matcher.state)
            ]
            matcher = min(after, key=lambda m: m.remaining)
            left -= 1
            assert any(m.remaining == left for m in after)
            matcher = next(m for m in after if m.remaining == left)
        assert matcher.is_terminated or cannot_end(matcher)


@given(automata(), st.sampled_from(SMALL), seeds, st.booleans())
@settings(max_examples=100, deadline=None)
def test_mask_within_budget(machine: Automaton, name: str, seed: int, free: bool) -> None:
    """A budget allows exactly the tokens that leave enough of it; some, if it was enough; ends free or not."""
    words = vocabulary(name)
    words = words.with_free_ends() if free else words
    for ids, _ in random_walk(machine, words, seed, 8):
        matcher = at(machine, words, ids)
        allowed = slow_allowed(machine, words, matcher.state)
        needs = {i: at(machine, words, [*ids, i]).remaining for i in allowed}
        left = matcher.remaining
        for budget in {0, 1, 2, left - 1, left, left + 1, left + 3, 40, 10_000}:
            expected = sorted(i for i, need in needs.items() if 1 + need <= budget)
            assert matcher.allowed(budget).tolist() == expected
            assert bitmask.to_ids(matcher.mask(budget)).tolist() == expected
            assert matcher.count_allowed(budget) == len(expected)
            assert matcher.fits(budget) == (left <= budget)
            assert expected or budget < left or left == 0
        if needs and max(needs.values()) < 5_000:
            assert matcher.mask(10_000) is matcher.mask()


@pytest.mark.parametrize("name", ["toy", "nano", "smollm2", "qwen3"])
@pytest.mark.parametrize("grammar", ["tools", "any", "keys"])
@pytest.mark.parametrize("free", [False, True])
def test_every_budget_closes(name: str, grammar: str, free: bool) -> None:
    """An output that only looks at the mask, and likes long ways, ends within its budget."""
    words = vocabulary(name)
    words = words.with_free_ends() if free else words
    machine = automaton(grammar)
    least = Matcher(machine, words).remaining
    for budget in (least, least + 1, least + 7, least + 20):
        matcher = Matcher(machine, words)
        for spent in range(budget):
            if matcher.is_terminated:
                break
            allowed = matcher.allowed_set(budget - spent).to_ids()
            matcher.accept(int(allowed[(spent * 7919) % len(allowed)]))
        assert matcher.is_terminated or (matcher.is_accepting and (free or not words.ends))


def test_ends_count_as_tokens() -> None:
    """An output that could go on needs the end token; a final one, or without end tokens, does not."""
    either = Grammar(seq(lit("a"), opt(lit("b"))))
    words = vocabulary("bytes")
    matcher = Matcher(automaton_of(either), words)
    assert matcher.remaining == 2
    matcher.accept(ord("a"))
    assert matcher.remaining == 1
    assert matcher.allowed(1).tolist() == [ord("b"), words.controls["<|end|>"]]
    matcher.accept(ord("b"))
    assert matcher.remaining == 0
    for some in (ByteVocabulary(), words.with_free_ends()):
        endless = Matcher(automaton_of(either), some)
        assert endless.remaining == 1
        endless.accept(ord("a"))
        assert endless.remaining == 0


def test_control_tokens_count_one() -> None:
    """A control token is one token, however long its text."""
    grammar = Grammar(alt(seq(Control("<a>"), lit("ab"), Control("<b>")), lit("12345")))
    assert Matcher(automaton_of(grammar), vocabulary("bytes")).remaining == 4
    assert Matcher(automaton_of(grammar), vocabulary("crossing")).remaining == 3


def test_long_tokens_count_one() -> None:
    """With one token per byte the bytes are counted; longer tokens lower the count."""
    machine = automaton_of(Grammar(seq(lit('{"a": '), LETTERS, lit("}"))))
    assert Matcher(machine, vocabulary("bytes")).remaining == machine.min_remaining(0) == 12
    assert Matcher(machine, vocabulary("crossing")).remaining < 12


def test_budget_below_the_shortest() -> None:
    """A budget that is too small leaves nothing, and says so beforehand."""
    matcher = Matcher(automaton_of(Grammar(repeat(lit("a"), 3, None))), vocabulary("bytes"))
    assert matcher.remaining == 4
    assert not matcher.fits(3)
    assert matcher.fits(4)
    assert not matcher.mask(3).any()


def test_infinite_remaining() -> None:
    """A language whose shortest strings the vocabulary cannot spell has no count."""
    matcher = Matcher(automaton_of(Grammar(lit("ax"))), Vocabulary([b"a", b"b"]))
    with pytest.raises(VocabularyError, match="lacks bytes"):
        _ = matcher.remaining
    assert not matcher.fits(1000)


def test_no_budget_reaches_an_end_that_cannot_be_spelled() -> None:
    """A way on whose end the vocabulary lacks is in no budget, however often it is asked for."""
    machine = automaton_of(Grammar(alt(lit("a"), lit("b"), lit("cx"), lit("dyd"))))
    matcher = Matcher(machine, Vocabulary([b"a", b"b", b"c", b"d", b"y"]))
    assert matcher.allowed().tolist() == [0, 1, 2, 3]
    for budget in (1, 3, 3, 100, 1, 3):
        assert matcher.allowed(budget).tolist() == ([0, 1, 3] if budget > 1 else [0, 1])


def test_keys_in_any_order() -> None:
    """Of n keys in any order one order is counted, not the 2^n sets of them; any may come, and it closes."""
    words = vocabulary("toy")

    def start(count: int, text: bytes) -> Matcher:
        names = [f"k{number:02}" for number in range(count)]
        schema = {
            "type": "object",
            "properties": {name: {"type": "boolean"} for name in names},
            "required": names,
            "additionalProperties": False,
        }
        machine = automaton_of(json_schema(schema, order="any"))
        return at(machine, words, words.encode(text))

    long = start(40, b'{"k07": true, "k')
    assert 40 < long.remaining <= long.automaton.min_remaining(long.state)
    for text in (b"", b'{"k02": true, "k0'):
        matcher = start(4, text)
        left = matcher.remaining
        assert matcher.fits(left)
        assert not matcher.fits(left - 1)
        while left:
            allowed = matcher.allowed(left)
            matcher.accept(int(allowed[(left * 7919) % len(allowed)]))
            assert matcher.remaining < left
            left = matcher.remaining
        assert matcher.is_terminated


def test_deep_and_long() -> None:
    """Long literals and deep nesting neither recurse nor take long."""
    machine = automaton_of(Grammar(seq(lit("x" * 5000), many(STRING))))
    assert Matcher(machine, vocabulary("bytes")).remaining == 5001
    nested = Matcher(automaton("any"), vocabulary("bytes"))
    assert nested.try_accept(b"[" * 2000) == 2000
    assert nested.remaining == 2000
    assert set(GRAMMARS) >= {"any"}
