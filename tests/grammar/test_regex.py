"""Regular expressions: they match what Python's engine matches, anchors and look-aheads included."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from callmemaybe.errors import GrammarError
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import regex
from callmemaybe.grammar.automata.tree import machine_of
from callmemaybe.grammar.characters import utf8
from callmemaybe.grammar.nodes import Node
from callmemaybe.grammar.regex import matching

TEXTS = ["".join(letters) for length in range(5) for letters in product("abc", repeat=length)]


def is_in(node: Node, text: str) -> bool:
    """Whether a text is in the language of a regular node."""
    machine = machine_of(node)
    state = machine.walk(machine.start, text.encode())
    return state >= 0 and machine.is_accepting(state)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    quantifier = st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?"])
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, quantifier).map(lambda two: f"(?:{two[0]}){two[1]}"),
        inner.map(lambda one: f"(?={one})"),
        inner.map(lambda one: f"(?!{one})"),
    )


patterns = st.recursive(
    st.sampled_from(["a", "b", "[ab]", ".", "^", "$", "[^a]", "\\w", "c"]), _larger, max_leaves=7
)


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(patterns, st.booleans())
def test_languages_are_those_of_a_backtracking_engine(pattern: str, search: bool) -> None:
    """Law: a text is in the language iff Python's engine finds a match (of the whole text)."""
    try:
        node = matching(pattern, utf8, search=search)
    except GrammarError:
        assume(False)
    engine = re.compile(pattern.replace("$", r"\Z"))
    for text in TEXTS:
        expected = engine.search(text) if search else engine.fullmatch(text)
        assert is_in(node, text) is bool(expected), text


CASES = ["".join(letters) for length in range(4) for letters in product("aBkK\n", repeat=length)]


def _modified(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    modifiers = st.sampled_from(["i", "s", "is", "-i", "-s", "i-s", "s-i", "-is", ""])
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(modifiers, inner).map(lambda two: f"(?{two[0]}:{two[1]})"),
        inner.map(lambda one: f"(?:{one}){{1}}?"),
    )


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.recursive(
        st.sampled_from(["a", "b", "K", "[^k]", ".", "[j-l]", "\\x42", "\\S"]),
        _modified,
        max_leaves=6,
    )
)
def test_modifiers_are_those_of_a_backtracking_engine(pattern: str) -> None:
    """Law: in a group with modifiers, letters have any case and dots match line ends, or do not."""
    node = matching(pattern, utf8, search=False)
    engine = re.compile(pattern)
    for text in CASES:
        assert is_in(node, text) is bool(engine.fullmatch(text)), text


def test_any_case_is_that_of_unicode() -> None:
    """Law: two letters are one iff the simple folding of Unicode makes them one, in and outside classes."""
    for letters in ("sSſ", "kK\u212a", "σςΣ", "ßẞ", "åÅ\u212b", "ꭰᎠ", "\U00010400\U00010428"):
        for one, other in product(letters, letters):
            assert is_in(matching(f"(?i:{one})", utf8, search=False), other), (one, other)
            assert is_in(matching(f"(?i:[{one}_])", utf8, search=False), other), (one, other)
            assert not is_in(matching(f"(?i:[^{one}])", utf8, search=False), other), (one, other)
    for one, other in ("ßs", "iİ", "ıi", "1!"):
        assert not is_in(matching(f"(?i:{one})", utf8, search=False), other), (one, other)
    assert is_in(matching(r"(?i:\p{Lu})", utf8, search=False), "a")
    assert not is_in(matching(r"(?i:\W)", utf8, search=False), "s")


@st.composite
def bounded(draw: st.DrawFn) -> str:
    """Return a pattern with word boundaries between its pieces."""
    pieces = draw(st.lists(st.tuples(
        st.sampled_from(["", "", "\\b", "\\B"]),
        st.sampled_from(["a", "b", " ", "[ab]", "[^a]", ".", "\\w", "\\W", "(?:a|b)", "(?:ab| )"]),
        st.sampled_from(["", "", "*", "+", "?"]),
    ), min_size=1, max_size=3))  # fmt: skip
    edges = draw(st.tuples(st.sampled_from(["", "^"]), st.sampled_from(["", "\\b", "\\B", "$"])))
    return edges[0] + "".join(map("".join, pieces)) + edges[1]


SPACED = ["".join(letters) for length in range(1, 5) for letters in product("ab -", repeat=length)]


def assert_reads_alike(pattern: str, *, search: bool) -> None:
    """Compare a pattern that is not refused with Python's engine, on texts of words and spaces."""
    try:
        node = matching(pattern, utf8, search=search)
    except GrammarError:
        assume(False)
    engine = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    for text in SPACED[::3]:
        expected = engine.search(text) if search else engine.fullmatch(text)
        assert is_in(node, text) is bool(expected), text


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(bounded(), st.booleans())
@example(r"\bab\b", True)
@example(r"^(?=.*\bab\b)[ab -]+$", True)
@example(r"\ba|b\b", True)
@example(r"(?:a|\bb)b", True)
def test_boundaries_are_those_of_a_backtracking_engine(pattern: str, search: bool) -> None:
    """Law: a pattern with boundaries is exact, or refused where it is not known what stands beside."""
    assert_reads_alike(pattern, search=search)


_dense = st.recursive(
    st.sampled_from(
        ["\\b", "\\b", "\\B", "^", "$", "a", "-", " ", "[ab]", "[^a]", ".", "\\w", "\\W"]
    ),
    _larger,
    max_leaves=6,
)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(_dense.filter(lambda pattern: "b" in pattern.lower()), st.booleans())
@example(r"b\B\B", True)
@example(r"(?!\b-)-", True)
@example(r"(?!\b[-.])[-.]", True)
@example(r"(?=a)(?:\bab|-)", True)
@example(r"(?:^|^)\ba", True)
def test_boundaries_see_what_stands_in_the_text(pattern: str, search: bool) -> None:
    """Law: beside each other, beside anchors and in look-aheads boundaries are exact, or refused."""
    assert_reads_alike(pattern, search=search)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        (r"^\b\b", ["ab", "a"], ["-a", "", "\na"]),
        (r"b\B\B", ["ba-", "bb"], ["b", "b-"]),
        (r"a\b\Bb?", [], ["a", "ab", "a-"]),
        (r"-\B\b", [], ["- a", "-a", "-"]),
        (r"^\B\b", [], ["\na", "a", "-"]),
        (r"(?!\b-)-", ["-", "a--", "--"], ["a-", "a-a"]),
        (r"(?!\b[-.])[-.]", ["-", "."], ["a-", "a."]),
        (r"(?=.*\bab\b)(?=.*\bba\b)", ["ab ba", "- ba\tab"], ["abba", "ab", "ab\nba"]),
        (r"(?=a)\bab", ["ab", "- ab"], ["aab", "-"]),
        (r"\b(?:\b|b)a", ["a", "ba", "-a"], ["", "bba"]),
    ],
)
def test_boundaries_beside_each_other(pattern: str, inside: list[str], outside: list[str]) -> None:
    """Law: no boundary reads what another one put in its place, and none in a look-ahead reads ahead."""
    node = matching(pattern, utf8, search=True)
    for text in inside + outside:
        found = re.search(pattern, text, re.ASCII) is not None
        assert found is (text in inside), text
        assert is_in(node, text) is found, text


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        (r"\d", "09", "a٠"),  # ECMA-262: ASCII digits only
        (r"\D", "a٠", "7"),
        (r"\s", " \t\n\u00a0\ufeff\u2003", "a\u180e"),
        (r"\w", "aZ_9", "é-"),
        (r".", "aé🙂", "\n\r\u2028\u2029"),
        (r"[\d-x]", "5-x", "y"),
        (r"[^]", "a\n", ""),
        (r"\u00e9|\x41|\u{1F642}|\ud83d\ude00|\cJ|\0", "éA🙂😀\n\0", "e"),
        (r"\p{Lu}", "AÉ", "aé1"),
        (r"\P{L}", "1 ", "aß"),
        (r"\p{Script=Greek}", "αΩ", "aб"),
        (r"\p{sc=Grek}|\p{Script=Old_Italic}", "α𐌀", "aб"),
        (r"\p{sc=Hira}", "あ", "ー"),
        (r"\p{scx=Hira}", "あー", "ア"),
        (r"\P{Script_Extensions=Latin}", "α1", "aé"),
        (r"[\p{Script_Extensions=Common}x]", "1x", "ー"),
        (r"\p{General_Category=Decimal_Number}", "7٣", "a½"),
        (r"[\w.\-/]", "a.-/", "!"),
        (r"a{|{}", "", "a"),
    ],
)
def test_classes_are_those_of_ecma_262(pattern: str, inside: str, outside: str) -> None:
    """Law: character classes and escapes mean what ECMA-262 says, over code points."""
    node = matching(pattern, utf8, search=False)
    for char in inside:
        assert is_in(node, char), char
    for char in outside:
        assert not is_in(node, char), char


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(a", "missing )"),
        ("a)", "unmatched )"),
        ("*a", "nothing to repeat"),
        ("a**", "nothing to repeat"),
        ("a{1,3}?{1,3}", "nothing to repeat"),
        ("a{1}{2}", "nothing to repeat"),
        ("a{1}+", "nothing to repeat"),
        ("(?m:a)", "this kind of group"),
        ("(?-:a)", "this kind of group"),
        ("(?i", "this kind of group"),
        ("[z-a]", "range out of order"),
        ("[a", "unexpected end"),
        ("a{3,2}", "out of order"),
        ("a{,2}", "not portable"),
        (r"(a)\1", "back-references"),
        (r"(?<=a)b", "look-behind"),
        (r"(\bword )+", r"\b is only supported where"),
        (r"[a-]?\b[a-]", r"\b is only supported where"),
        (r"\p{sc=Klingon}", "Unicode property"),
        (r"\A", "different engines"),
        (r"\u12", "hexadecimal"),
        (r"\p{Nonsense}", "Unicode property"),
        ("(" * 100 + ")" * 100, "nested"),
        ("((a{1000}){1000}){1000}", "unroll"),
        ("(a(?=b))+", "look-ahead"),
    ],
)
def test_what_is_wrong_or_unsupported_is_refused(pattern: str, problem: str) -> None:
    """Law: a mistake, and what an automaton cannot do, is an error that says what and where."""
    with pytest.raises(GrammarError, match=re.escape(problem)):
        regex(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("(a*)*b", "a" * 2000 + "b"), ("(x+x+)+y", "x" * 2000 + "y"), ("(a|aa)+$", "a" * 2000)],
)
def test_no_pattern_is_catastrophic(pattern: str, text: str) -> None:
    """Law: reading takes time in proportion to the text, whatever the pattern."""
    automaton = compile_grammar(regex(pattern))
    state = automaton.walk(automaton.start, text.encode())
    assert automaton.is_accepting(state)


def test_the_whole_text_must_match() -> None:
    """Law: regex() is a full match, as re.fullmatch."""
    automaton: Any = compile_grammar(regex("[0-9]+|x"))
    assert automaton.is_accepting(automaton.walk(automaton.start, b"123"))
    assert automaton.walk(automaton.start, b"a1") < 0
