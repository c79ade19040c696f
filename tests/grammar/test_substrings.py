"""Grounding: an argument limited to what a text says."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.grammar import Grammar, Node, lit, seq, substring_of

texts = st.text(alphabet='ab"\\é日 1', min_size=1, max_size=9)


def accepts(node: Node, data: bytes) -> bool:
    """Whether the language of ``node`` has ``data``."""
    automaton = automaton_of(Grammar(node))
    state = automaton.walk(automaton.start, data)
    return state >= 0 and automaton.is_accepting(state)


@settings(max_examples=100, deadline=None)
@given(texts, texts)
def test_exactly_the_substrings_are_accepted(text: str, other: str) -> None:
    """substring_of(t) accepts s if and only if s is in t; nothing else, and not the empty string."""
    node = substring_of(text)
    assert accepts(node, other.encode()) == (other in text)
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            assert accepts(node, text[start:end].encode())
    assert not accepts(node, b"")


@settings(max_examples=60, deadline=None)
@given(texts)
def test_inside_a_json_string_it_parses_to_a_substring(text: str) -> None:
    """With JSON's spelling of each character, escapes are never split and distances are exact."""
    spelled = lambda c: json.dumps(c, ensure_ascii=False)[1:-1].encode()  # noqa: E731
    automaton = automaton_of(Grammar(seq(lit('"'), substring_of(text, escape=spelled), lit('"'))))
    reached = [(automaton.start, b"")]
    for state, data in reached:
        if automaton.is_accepting(state):
            assert json.loads(data) in text
            assert automaton.min_remaining(state) == 0
        for mask, target in automaton.edges(state):
            assert automaton.min_remaining(target) >= automaton.min_remaining(state) - 1
            reached.append((target, data + bytes([mask.bit_length() - 1])))
        if not automaton.is_accepting(state):
            targets = [automaton.min_remaining(t) for _, t in automaton.edges(state)]
            assert min(targets) == automaton.min_remaining(state) - 1


def test_whole_words_are_not_cut() -> None:
    """With whole_words a substring starts and ends at the edge of a word."""
    node = substring_of("order 66 for O'Neil", whole_words=True)
    for good in ("order", "66", "order 66", "O'Neil", "Neil", "'", " for "):
        assert accepts(node, good.encode()), good
    for bad in ("rder", "6", "or", "Neil!", "order 6"):
        assert not accepts(node, bad.encode()), bad


def test_a_long_text_costs_only_what_is_visited() -> None:
    """A text of 20,000 characters is walked without building its quadratic set of substrings."""
    text = "the quick brown fox jumps over the lazy dog " * 450
    assert accepts(substring_of(text), text[7:5000].encode())
