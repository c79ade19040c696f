"""Grammars as text for other engines: the same language, read back by other readers."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

import pytest

from callmemaybe.errors import GrammarError
from callmemaybe.grammar import characters
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.ebnf import ebnf
from callmemaybe.grammar.export import to_ebnf, to_gbnf, to_lark, to_regex
from callmemaybe.grammar.grammar import (
    Both,
    Control,
    Except,
    Grammar,
    Ref,
    alt,
    byte_range,
    bytes_of,
    capture,
    lexeme,
    lit,
    many,
    opt,
    repeat,
    seq,
    substring_of,
    words,
    words_then,
)

STRING = lexeme(characters.text_of(characters.JSON_CHARACTER))
SHORT = Both(STRING, lexeme(characters.text_of(characters.JSON_CANONICAL_CHARACTER, 1, 3)))
INTEGER = lexeme(
    seq(opt(lit("-")), alt(lit("0"), seq(byte_range(49, 57), many(byte_range(48, 57)))))
)
ARRAY = seq(lit("["), opt(seq(Ref("value"), many(seq(lit(", "), Ref("value"))))), lit("]"))
RULES = {"value": alt(INTEGER, STRING, words(["true", "false"]), ARRAY)}

PLAIN = Grammar(
    seq(
        words_then({"put": seq(lit(" é|x("), INTEGER), "get": many(lit("^]"))}),
        repeat(lit("-/"), 1, 3),
        capture("s", STRING),
    )
)
RECURSIVE = Grammar(seq(lit('{"a": '), Ref("value"), lit(', "b": '), SHORT, lit("}")), RULES)
DIFFERENT = Grammar(seq(Except(STRING, words(['"x"', '"yé"'])), lit(";"), INTEGER))
GROUNDED = Grammar(seq(lit("<"), substring_of("naïve <>?", whole_words=True), lit(">")))
ALL = {"plain": PLAIN, "recursive": RECURSIVE, "different": DIFFERENT, "grounded": GROUNDED}


def sample(automaton: Automaton, rng: Random) -> str:
    """Draw a string of the language, heading for the end after a while."""
    state, data = automaton.start, bytearray()
    while edges := automaton.edges(state):
        if automaton.is_accepting(state) and (len(data) > 30 or rng.random() < 0.5):
            break
        if len(data) > 30:
            edges = tuple(e for e in edges if automaton.distance(e[1]) < automaton.distance(state))
        mask, state = rng.choice(edges)
        data.append(rng.choice(list(bytes_of(mask))))
    return data.decode()


def damaged(text: str, rng: Random) -> str:
    """Change, drop or add one character."""
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(["", "x", '"', "é", "]", "0"]) + text[at + rng.randrange(2) :]


def check_language(grammar: Grammar, accepts: Callable[[str], bool], *, rounds: int = 60) -> None:
    """Compare membership on samples of the language and on damaged ones."""
    rng, automaton = Random(7), automaton_of(grammar)
    good = [sample(automaton, rng) for _ in range(rounds)]
    for text in [*good, *(damaged(text, rng) for text in good)]:
        state = automaton.walk(automaton.start, text.encode())
        assert accepts(text) == (state >= 0 and automaton.is_accepting(state)), text


@pytest.mark.parametrize("name", ALL)
def test_gbnf_read_back_is_the_same_language(name: str) -> None:
    """ebnf(to_gbnf(g)) has the language of g, also for automata spelled out as rules."""
    back = automaton_of(ebnf(to_gbnf(ALL[name])))

    def accepts(text: str) -> bool:
        state = back.walk(back.start, text.encode())
        return state >= 0 and back.is_accepting(state)

    check_language(ALL[name], accepts)


@pytest.mark.parametrize("name", ["plain", "recursive", "different"])
def test_llguidance_reads_our_lark_as_the_same_language(name: str) -> None:
    """to_lark(g) compiles in llguidance and accepts the same samples."""
    llguidance = pytest.importorskip("llguidance", reason="llguidance is not installed")
    tokenizer = llguidance.LLTokenizer("byte")
    compiled = llguidance.LLMatcher.grammar_from_lark(to_lark(ALL[name]))

    def accepts(text: str) -> bool:
        matcher = llguidance.LLMatcher(tokenizer, compiled)
        assert not matcher.get_error()
        data = list(text.encode())
        return matcher.validate_tokens(data) == len(data) and bool(
            matcher.consume_tokens(data) and matcher.is_accepting()
        )

    check_language(ALL[name], accepts)


def test_a_regex_describes_the_same_language() -> None:
    """to_regex(g) matches the same samples in Python's re (which spells \\x{...} otherwise)."""
    text = re.sub(r"\\x\{([0-9a-f]+)\}", lambda m: f"\\U{int(m[1], 16):08x}", to_regex(PLAIN))
    check_language(PLAIN, lambda sample_: re.fullmatch(text, sample_) is not None)


def test_control_tokens_are_named_or_refused() -> None:
    """GBNF and Lark name a control token; notations that cannot refuse it."""
    grammar = Grammar(seq(Control("<tool_call>"), lit("x")))
    assert to_gbnf(grammar) == 'root ::= <tool_call> "x"\n'
    assert to_lark(grammar) == 'start: <tool_call> "x"\n'
    with pytest.raises(GrammarError, match="<tool_call>"):
        to_ebnf(grammar)


def test_what_a_notation_cannot_say_is_refused() -> None:
    """Recursion in a regex, half characters anywhere, substrings in Lark."""
    with pytest.raises(GrammarError, match="recursive"):
        to_regex(RECURSIVE)
    with pytest.raises(GrammarError, match="no whole characters"):
        to_gbnf(Grammar(lit(b"\xc3")))
    with pytest.raises(GrammarError, match="no set of characters"):
        to_lark(Grammar(byte_range(0x80, 0xBF)))
    with pytest.raises(GrammarError, match="substrings"):
        to_lark(GROUNDED)
