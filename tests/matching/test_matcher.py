"""The matcher allows exactly what the language and the vocabulary allow together."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.errors import DecodingError, VocabularyError
from callmemaybe.grammar import Automaton
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.grammar import Control, Grammar, byte_set, capture, lit, many, opt, seq
from callmemaybe.matching import Matcher
from callmemaybe.testing.vocabularies import ByteVocabulary
from callmemaybe.vocabulary import Vocabulary, bitmask
from tests.matching.grammars import (
    GRAMMARS,
    STRING,
    automata,
    automaton,
    random_walk,
    slow_allowed,
)
from tests.vocabulary.samples import vocabulary

SMALL = ["bytes", "crossing", "toy"]
seeds = st.integers(0, 10_000)


def check_state(matcher: Matcher, words: Vocabulary) -> None:
    """Every face of the allowed set is the brute force's set; it is empty only at the very end."""
    machine, state = matcher.automaton, matcher.state
    expected = sorted(slow_allowed(machine, words, state))
    mask = matcher.mask()
    assert matcher.mask() is mask
    assert mask.dtype == np.uint32
    assert len(mask) == -(-words.size // 32)
    assert not mask.flags.writeable
    assert bitmask.to_ids(mask).tolist() == expected
    assert matcher.allowed().tolist() == expected
    assert matcher.allowed().dtype == np.int64
    assert matcher.count_allowed() == len(expected)
    assert expected or matcher.is_terminated or (matcher.is_accepting and not words.ends)
    picked = expected[:: max(1, len(expected) // 5)]
    assert all(matcher.allowed_set().has(i) and matcher.is_allowed(i) for i in picked)
    refused = [i for i in range(0, words.size, max(1, words.size // 50)) if i not in set(expected)]
    assert not any(matcher.allowed_set().has(i) or matcher.is_allowed(i) for i in refused)
    logits = np.random.default_rng(state + 1).standard_normal(words.size).astype(np.float32)
    best = max(expected, key=lambda i: logits[i]) if expected else -1
    assert matcher.argmax_allowed(logits) == best


@given(automata(), st.sampled_from(SMALL), seeds)
@settings(max_examples=120, deadline=None)
def test_mask_is_brute_force(machine: Automaton, name: str, seed: int) -> None:
    """Along random outputs of random grammars the mask is what trying every id gives."""
    words = vocabulary(name)
    for ids, state in random_walk(machine, words, seed, 12):
        matcher = Matcher(machine, words)
        assert matcher.try_accept(ids) == len(ids)
        assert matcher.state == state
        check_state(matcher, words)


@pytest.mark.parametrize("grammar", GRAMMARS)
@pytest.mark.parametrize("name", ["toy", "nano", "smollm2"])
def test_mask_on_tools(name: str, grammar: str) -> None:
    """The same on grammars of tool calls and free JSON, with larger vocabularies."""
    words = vocabulary(name)
    if grammar == "marked" and "<|end|>" not in words.controls:
        return
    machine = automaton(grammar)
    seen = set()
    for seed in range(3 if name == "smollm2" or grammar == "long" else 10):
        for ids, state in random_walk(machine, words, seed, 12):
            if state in seen or (name == "smollm2" and len(seen) > 12):
                continue
            seen.add(state)
            matcher = Matcher(machine, words)
            assert matcher.try_accept(ids) == len(ids)
            check_state(matcher, words)


def test_mask_with_a_large_vocabulary() -> None:
    """The same with 151,936 ids: at the start, in a string, after it, in a literal, in free JSON."""
    words = vocabulary("qwen3")
    for grammar, texts in {
        "tools": [b"", b'{"name": "get_weather", "arguments": {"city": "Par', b'{"name": "s'],
        "any": [b"", b'{"a": "x"'],
        "keys": [b'{"city": "', b'{"days": 1, "d'],
    }.items():
        machine = automaton(grammar)
        for text in texts:
            matcher = Matcher(machine, words)
            assert matcher.try_accept(words.encode(text)) == len(words.encode(text))
            check_state(matcher, words)


@given(automata(), st.sampled_from(SMALL), seeds, st.data())
@settings(max_examples=60, deadline=None)
def test_rollback_and_fork(machine: Automaton, name: str, seed: int, data: st.DataObject) -> None:
    """Taking tokens back restores exactly what was there; a fork goes its own way."""
    words = vocabulary(name)
    *_, (ids, _) = random_walk(machine, words, seed, 10)
    matcher, trail = Matcher(machine, words), []
    for index in ids:
        trail.append(faces(matcher))
        matcher.accept(index)
    trail.append(faces(matcher))
    back = data.draw(st.integers(0, len(ids)))
    fork = matcher.fork()
    matcher.rollback(back)
    assert faces(matcher) == trail[len(ids) - back]
    assert faces(fork) == trail[-1]
    assert matcher.try_accept(ids[len(ids) - back :]) == back
    assert faces(matcher) == faces(fork)
    for wrong in (-1, len(ids) + 1):
        with pytest.raises(DecodingError, match="take back"):
            matcher.rollback(wrong)
    assert faces(matcher) == trail[-1]


def faces(matcher: Matcher) -> tuple[object, ...]:
    return (
        matcher.state,
        matcher.ids,
        matcher.text,
        tuple(matcher.symbols),
        matcher.mask().tobytes(),
        matcher.is_accepting,
        matcher.is_terminated,
        tuple(matcher.forced()),
        matcher.remaining,
        tuple(matcher.captures()),
    )


def test_tokens_across_boundaries() -> None:
    """Tokens that split a character, cross a quote or span several JSON tokens are used as such."""
    words = vocabulary("crossing")
    of = {token: i for i, token in enumerate(words.tokens) if token}
    matcher = Matcher(automaton_of(Grammar(seq(lit('{"a": '), STRING, lit(', "b": 1}}')))), words)
    for token in (b"{", b'"a', b'": "', b"\xc3\xa9\xc3", b"\xa9a", b'",', b" ", b'"', b"b", b'":'):
        assert matcher.allowed_set().has(of[token])
        matcher.accept(of[token])
    assert not matcher.allowed_set().has(of[b'": "'])
    assert matcher.try_accept([of[b" "], of[b"1}"], of[b"}"]]) == 3
    assert matcher.is_terminated
    assert matcher.text == '{"a": "ééa", "b": 1}}'.encode()


def test_an_end_token_is_no_part_of_the_answer() -> None:
    """What ends an answer is none of its symbols; where the grammar names it, it is one."""
    words = vocabulary("bytes")
    end = words.controls["<|end|>"]
    free = Matcher(automaton_of(Grammar(many(lit("x")))), words)
    assert free.try_accept([*b"xx", end]) == 3
    assert (free.ids, free.symbols) == ((*b"xx", end), [*b"xx"])
    named = Matcher(automaton_of(Grammar(seq(lit("x"), Control("<|end|>")))), words)
    assert named.try_accept([*b"x", end]) == 2
    assert named.symbols == [*b"x", "<|end|>"]


def test_control_token_is_not_its_text() -> None:
    """Where a grammar wants a control token its text is refused, and the other way round."""
    words = vocabulary("bytes")
    named = Matcher(automaton_of(Grammar(seq(Control("<a>"), lit("x")))), words)
    assert named.allowed().tolist() == [words.controls["<a>"]]
    assert named.try_accept(b"<a>") == 0
    named.accept(words.controls["<a>"])
    assert (named.text, named.symbols) == (b"", ["<a>"])
    spelt = Matcher(automaton_of(Grammar(lit("<a>"))), words)
    assert spelt.try_accept([words.controls["<a>"]]) == 0
    assert spelt.try_accept(b"<a>") == 3
    string = Matcher(automaton_of(Grammar(STRING)), words)
    assert string.try_accept(b'"<a><|end|>') == 11
    assert not set(string.allowed().tolist()) & set(words.controls.values())


def test_missing_control_token() -> None:
    """A grammar that names a control token which the vocabulary lacks says which one."""
    with pytest.raises(VocabularyError, match="<tool_call>"):
        Matcher(automaton_of(Grammar(Control("<tool_call>"))), vocabulary("bytes")).mask()


def test_missing_byte() -> None:
    """A language that the vocabulary cannot spell says which bytes are missing."""
    matcher = Matcher(automaton_of(Grammar(seq(lit("a"), byte_set(b"xy")))), Vocabulary([b"a"]))
    matcher.accept(0)
    with pytest.raises(VocabularyError, match=r"b'x'-b'y'"):
        matcher.mask()


def test_ends() -> None:
    """End tokens are allowed exactly where the output may stop; one ends it for good."""
    words = vocabulary("bytes")
    end = words.controls["<|end|>"]
    matcher = Matcher(automaton_of(Grammar(seq(lit("a"), opt(lit("b"))))), words)
    assert not matcher.allowed_set().has(end)
    matcher.accept(ord("a"))
    assert matcher.allowed().tolist() == [ord("b"), end]
    assert (matcher.is_accepting, matcher.is_terminated) == (True, False)
    fork = matcher.fork()
    matcher.accept(end)
    assert (matcher.is_accepting, matcher.is_terminated, matcher.state) == (True, True, -1)
    assert not matcher.mask().any()
    assert matcher.forced() == []
    assert matcher.remaining == 0
    assert matcher.try_accept([end]) == 0
    with pytest.raises(DecodingError, match="has ended"):
        matcher.accept(ord("b"))
    matcher.rollback(1)
    assert faces(matcher) == faces(fork)
    fork.accept(ord("b"))
    assert fork.is_terminated
    assert fork.allowed().tolist() == [end]


def test_end_token_named_by_the_grammar() -> None:
    """An end token that the grammar names is the grammar's: the output ends where the grammar does."""
    words = vocabulary("bytes")
    end = words.controls["<|end|>"]
    matcher = Matcher(automaton_of(Grammar(seq(many(lit("a")), Control("<|end|>")))), words)
    assert matcher.allowed().tolist() == [ord("a"), end]
    matcher.accept(end)
    assert matcher.state >= 0
    assert matcher.is_terminated


def test_refusals_name_token_and_bytes() -> None:
    """A refused token leaves everything as it was and says what was expected."""
    words = vocabulary("bytes")
    matcher = Matcher(automaton_of(Grammar(seq(lit("a"), opt(Control("<b>"))))), words)
    before = faces(matcher)
    for index in (ord("x"), words.controls["<a>"], -1, words.size, 10**9):
        with pytest.raises(DecodingError, match=f"{index}"):
            matcher.accept(index)
        assert matcher.try_accept([index]) == 0
    assert faces(matcher) == before
    with pytest.raises(DecodingError, match=r"120 \(b'x'\).* expected b'a'"):
        matcher.accept(ord("x"))
    matcher.accept(ord("a"))
    with pytest.raises(DecodingError, match=r"after b'a': expected <b> or the end"):
        matcher.accept(ord("x"))


def test_captures() -> None:
    """Captures count bytes and control tokens as the grammar does; an end token is no symbol."""
    words = vocabulary("bytes")
    grammar = Grammar(seq(Control("<a>"), capture("name", many(lit("b"))), opt(lit("c"))))
    matcher = Matcher(automaton_of(grammar), words)
    matcher.try_accept([words.controls["<a>"], *b"bbc"])
    expected = [("name", 1, 3)]
    assert [tuple(c) for c in matcher.captures()] == expected
    matcher.accept(words.controls["<|end|>"])
    assert [tuple(c) for c in matcher.captures()] == expected


def test_equal_states_share_masks() -> None:
    """Matchers over one automaton get the same mask object; strings of other grammars share it too."""
    words = vocabulary("toy")
    one, two = (automaton_of(Grammar(seq(lit(t), STRING, lit("}")))) for t in ("{", "[{"))
    masks_ = []
    for machine, start in ((one, b'{"a'), (one, b'{"abc'), (two, b'[{"b')):
        matcher = Matcher(machine, words)
        matcher.try_accept(words.encode(start))
        masks_.append(matcher.mask())
    assert masks_[0] is masks_[1] is masks_[2]


def test_nothing_keeps_an_automaton() -> None:
    """What was learnt about an automaton goes with it."""
    machine = automaton("any")
    matcher = Matcher(machine, vocabulary("bytes"))
    matcher.try_accept(b'{"a": [1, "x"]}')
    matcher.mask(budget=3)
    gone = weakref.ref(machine)
    del machine, matcher
    gc.collect()
    assert gone() is None


def test_empty_tokens_are_never_allowed() -> None:
    """An id without bytes and without a name is allowed nowhere, nor is an unused one."""
    words = ByteVocabulary(["<a>"], size=270)
    for grammar in GRAMMARS:
        if grammar == "marked":
            continue
        matcher = Matcher(automaton(grammar), words)
        assert matcher.allowed().max() < 256
        assert matcher.try_accept([256]) == matcher.try_accept([269]) == 0
