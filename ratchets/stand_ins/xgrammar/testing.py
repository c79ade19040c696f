"""Stands in for xgrammar.testing: whether a grammar accepts a string."""

from __future__ import annotations

from typing import Any

from xgrammar import ASKED, Grammar, GrammarMatcher, GrammarText
from xgrammar import __getattr__ as missing


def _is_grammar_accept_string(grammar: Any, text: str | bytes, **options: Any) -> bool:
    if not isinstance(grammar, Grammar):
        grammar = Grammar.from_ebnf(grammar)
    ASKED["language"] += 1
    automaton = grammar.automaton
    data = text.encode() if isinstance(text, str) else text
    state = automaton.walk(automaton.start, data)
    accepted = state >= 0 and automaton.is_accepting(state)
    if options.get("require_termination", True) is False:
        accepted = state >= 0
    return accepted


def _get_matcher_from_grammar(grammar: Any, **options: Any) -> GrammarMatcher:
    if not isinstance(grammar, Grammar):
        grammar = Grammar.from_ebnf(grammar)
    return GrammarMatcher(grammar, terminate_without_stop_token=True)


def _text_of(grammar: Grammar) -> GrammarText:
    text = GrammarText("a grammar")
    text.automaton = grammar.automaton
    return text


def _json_schema_to_ebnf(schema: Any, **options: Any) -> GrammarText:
    return _text_of(Grammar.from_json_schema(schema, **options))


def _regex_to_ebnf(pattern: str, **options: Any) -> GrammarText:
    return _text_of(Grammar.from_regex(pattern))


def __getattr__(name: str) -> Any:
    return missing(name)
