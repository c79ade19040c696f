"""Grammars as text for other engines: the same language, read back by other readers."""

from __future__ import annotations

import re
import time

import pytest

from callmemaybe.errors import GrammarError
from callmemaybe.grammar import json_schema
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.ebnf import ebnf
from callmemaybe.grammar.export import to_ebnf, to_gbnf, to_lark, to_regex
from callmemaybe.grammar.grammar import Control, Grammar, byte_range, lit, seq
from tests.grammar.exports import EVERY, GROUNDED, RECURSIVE, check_language


@pytest.mark.parametrize("name", EVERY)
def test_gbnf_read_back_is_the_same_language(name: str) -> None:
    """ebnf(to_gbnf(g)) has the language of g, also for automata spelled out as rules."""
    back = automaton_of(ebnf(to_gbnf(EVERY[name])))

    def accepts(text: str) -> bool:
        state = back.walk(back.start, text.encode())
        return state >= 0 and back.is_accepting(state)

    check_language(EVERY[name], accepts, rounds=20)


@pytest.mark.parametrize("name", ["plain", "counts of counts", "counts", "marks in sets"])
def test_a_regex_describes_the_same_language(name: str) -> None:
    """to_regex(g) matches the same samples in Python's re (which spells \\x{...} otherwise)."""
    written = to_regex(EVERY[name])
    text = re.sub(r"\\x\{([0-9a-f]+)\}", lambda m: f"\\U{int(m[1], 16):08x}", written)
    check_language(EVERY[name], lambda sample_: re.fullmatch(text, sample_) is not None)


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


def test_a_node_that_stands_in_many_places_is_written_once() -> None:
    """A language whose parts are shared, as that of regular expressions is, is written in linear time."""
    begun = time.process_time()
    assert len(to_gbnf(json_schema({"format": "regex"}))) > 100_000
    assert time.process_time() - begun < 2
