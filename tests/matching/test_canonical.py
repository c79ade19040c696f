"""Forced tokens are the tokenizer's own, whatever comes later."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.grammar import Automaton
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.grammar import (
    Control,
    Grammar,
    alt,
    byte_range,
    byte_set,
    lexeme,
    lit,
    many,
    opt,
    repeat,
    seq,
    some,
    words,
)
from callmemaybe.matching import Matcher
from callmemaybe.vocabulary import Vocabulary
from tests.matching.grammars import GRAMMARS, STRING, TOOLS, automata, automaton, random_walk
from tests.vocabulary.samples import vocabulary

REAL = ["toy", "nano", "smollm2", "qwen3"]


def replay(machine: Automaton, words_: Vocabulary, text: bytes) -> int:
    """Follow the tokenizer's own encoding of a text; return how many of its tokens were forced."""
    ids = words_.encode(text)
    matcher, at, free = Matcher(machine, words_), 0, 0
    while at < len(ids):
        forced = matcher.forced()
        assert forced == ids[at : at + len(forced)], (
            matcher.text,
            words_.decode(forced),
            [words_.token(i) for i in ids[at : at + len(forced) + 1]],
        )
        matcher.accept(ids[at])
        free += not forced
        at += 1
    return len(ids) - free


def calls(chance: random.Random) -> bytes:
    """Return the text of a random call of the grammar ``tools``."""
    texts = [
        "Paris",
        "a b",
        "Zürich",
        "x",
        "it's",
        "123",
        "a\\b",
        'say "hi"',
        "한국",
        "({[",
        "  ",
        "né",
    ]
    text = " ".join(chance.choices(texts, k=chance.randint(1, 4)))
    number = chance.choice([0, 7, 12, 3.5, -1, 123456789])
    kinds = {
        "get_weather": {"city": text, "days": number},
        "get_time": {"zone": chance.choice(["red", "green", "blue", "bluegreen", "é"])},
        "send": {
            "to": "".join(chance.choices("abcdez", k=chance.randint(3, 5))),
            "text": text[:6],
            "copies": number,
            "red": chance.random() < 0.5,
        },
        "ping": {},
    }
    name = chance.choice(list(kinds))
    return json.dumps({"name": name, "arguments": kinds[name]}, ensure_ascii=False).encode()


@pytest.mark.parametrize("name", REAL)
def test_forced_tokens_of_calls(name: str) -> None:
    """Along the tokenizer's encoding of a call every forced token is the one it has there."""
    words_, machine, chance = vocabulary(name), automaton("tools"), random.Random(name)
    forced = total = 0
    for _ in range(60):
        text = calls(chance)
        forced += replay(machine, words_, text)
        total += len(words_.encode(text))
    assert forced > 0.35 * total


alphabet = st.sampled_from(
    [
        "a",
        "ab",
        "b",
        "é",
        '"',
        '": "',
        ", ",
        " ",
        "  ",
        "\n",
        "1",
        "12",
        "{",
        "}}",
        "'",
        "s",
        "re",
        "日",
    ]
)
texts = st.lists(alphabet, min_size=1, max_size=6).map("".join)


@given(
    st.sampled_from(REAL),
    st.lists(texts, min_size=1, max_size=4, unique=True),
    texts,
    texts,
    st.data(),
)
@settings(max_examples=300, deadline=None)
def test_forced_tokens_of_choices(
    name: str, options: list[str], before: str, after: str, data: st.DataObject
) -> None:
    """The same where literals of all kinds of characters meet choices, at every token boundary."""
    machine = automaton_of(Grammar(seq(lit(before), words(options), lit(after))))
    text = before + data.draw(st.sampled_from(options)) + after
    replay(machine, vocabulary(name), text.encode())


@given(st.sampled_from(REAL), texts, texts, st.data())
@settings(max_examples=150, deadline=None)
def test_forced_tokens_before_free_text(
    name: str, before: str, after: str, data: st.DataObject
) -> None:
    """The same before and after text that is not limited, of letters, spaces, digits, signs."""
    kinds = {
        "letters": some(byte_range(0x61, 0x7A)),
        "spaces": many(byte_set(b" \n")),
        "digits": repeat(byte_range(0x30, 0x39), 0, 4),
        "signs": opt(byte_set(b"'\"{}:,")),
    }
    kind = data.draw(st.sampled_from(sorted(kinds)))
    drawn = {"letters": "abcrs", "spaces": " \n", "digits": "0123", "signs": "'\"{},:"}[kind]
    low, high = {"letters": (1, 9), "spaces": (0, 5), "digits": (0, 4), "signs": (0, 1)}[kind]
    middle = data.draw(st.text(drawn, min_size=low, max_size=high))
    machine = automaton_of(Grammar(seq(lit(before), lexeme(kinds[kind]), lit(after))))
    replay(machine, vocabulary(name), (before + middle + after).encode())


@given(automata(), st.sampled_from(["bytes", "crossing", "toy"]), st.integers(0, 10_000))
@settings(max_examples=80, deadline=None)
def test_forced_tokens_leave_no_other_way(machine: Automaton, name: str, seed: int) -> None:
    """Whatever was emitted: the forced bytes are the only ones the language allows next."""
    words_ = vocabulary(name)
    for ids, _ in random_walk(machine, words_, seed, 8):
        matcher = Matcher(machine, words_)
        matcher.try_accept(ids)
        state = matcher.state
        for index in matcher.forced():
            token = words_.token(index)
            for byte in token:
                assert not machine.is_accepting(state)
                assert not machine.controls(state)
                ((mask, target),) = machine.edges(state)
                assert mask == 1 << byte
                state = target
            if not token:
                assert not machine.edges(state)
                ((text, state),) = machine.controls(state).items()
                assert words_.controls[text] == index


def test_control_tokens_are_forced() -> None:
    """A control token is a boundary: text up to it is forced to its last byte, and goes on behind."""
    words_ = vocabulary("qwen3")
    grammar = Grammar(
        seq(Control("<tool_call>"), lit("\n"), TOOLS, lit("\n"), Control("</tool_call>"))
    )
    matcher = Matcher(automaton_of(grammar), words_)
    ids = words_.encode(b'\n{"name": "ping", "arguments": {}}\n')
    first = matcher.forced()
    assert first == [words_.controls["<tool_call>"], *ids[:4]]
    matcher.try_accept(first)
    matcher.try_accept(ids[4:6])
    assert matcher.forced() == [*ids[6:], words_.controls["</tool_call>"]]
    matcher.try_accept(matcher.forced())
    assert matcher.is_terminated
    assert matcher.forced() == []


def test_half_a_character_is_not_skipped() -> None:
    """A run that ends within a character is not taken for whole: what follows it stays unforced."""
    words_ = vocabulary("bytes")
    matcher = Matcher(automaton_of(Grammar(seq(lit(b"a\xc3"), Control("<a>")))), words_)
    assert matcher.forced() == [ord("a")]
    matcher.accept(ord("a"))
    assert matcher.forced() == []


def test_nothing_is_forced_after_odd_tokens() -> None:
    """If the emitted tokens are not the tokenizer's own at this place, nothing is called canonical."""
    words_ = vocabulary("qwen3")
    machine = automaton_of(
        Grammar(seq(lit("a"), alt(lit("bcdef"), lit("xyz")), lit("get_weather")))
    )
    odd = Matcher(machine, words_)
    odd.try_accept([words_.single_bytes[b] for b in b"abcdefget_w"])
    assert odd.forced() == []
    assert odd.count_allowed() > 0


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_forcing_is_the_same_again(grammar: str) -> None:
    """A second matcher over the same automaton, served from the cache, forces the same."""
    words_ = vocabulary("toy")
    machine, fresh = automaton(grammar), automaton(grammar)
    for ids, _ in random_walk(machine, words_, 5, 10):
        results = []
        for each in (machine, machine, fresh):
            matcher = Matcher(each, words_)
            matcher.try_accept(ids)
            results.append(matcher.forced())
        assert results[0] == results[1] == results[2]


def test_strings_are_not_forced() -> None:
    """Inside a string nothing is forced, and neither is what its last token might swallow."""
    words_ = vocabulary("qwen3")
    matcher = Matcher(automaton_of(Grammar(seq(STRING, lit(", 1")))), words_)
    matcher.try_accept(words_.encode(b'"Paris'))
    assert matcher.forced() == []
