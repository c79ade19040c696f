"""llguidance's own tests of languages as a ratchet: its Rust files are read, and their checks made on our grammars.

``python ratchets/fetch.py --peers`` fetches the tests; nothing of theirs is committed. A case is a text that a grammar or a
schema must have or must not have, or a grammar that must be read or refused. Recorded traces are checked, too: every token
written must be allowed, those marked must not be, and the end must be an end; which tokens are *forced* depends on the
tokenizer and is not asked. How an error is worded is not asked either.
"""

# ruff: noqa: INP001, D102 - a script, not a package; the names of another's functions

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from peer_tests import judged
from rust import Beyond, Reader, compact

from callmemaybe.errors import InputError
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import json_schema
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.ebnf import ebnf

DESCRIPTION = "llguidance 1.9.1, parser/tests: JSON Schema, Lark and recorded traces"
#: The files about languages; the others are about tokens, masks, stops and Rust's own interfaces.
FILES = (
    "test_json_arrays.rs", "test_json_enum_const.rs", "test_json_objects.rs", "test_json_primitives.rs", "test_json_schema_combinations.rs",
    "test_json_string_format.rs", "test_json_x_guidance.rs", "test_lark.rs", "test_ll.rs",
)  # fmt: skip
FINAL = "FINAL_REJECT:"

#: Words of a case's name, words of how it ended, and what is made of it; the first that fits.
REASONS = (
    (r"parametric", r"", "left out: asks for an extension of Lark's notation: parametric rules"),
    (r"", r"unexpected '[={0&]'|':' is expected after", "left out: asks for an extension of Lark's notation: attributes, captures, %regex, %llguidance, nested grammars, & and ~"),
    (r"token_ranges|numeric_token|syntax_general:(15|16|18|19)|hex_escape", r"", "left out: asks for control tokens, or for tokens by their ids"),
    (r"syntax_general", r"is read", "differs: what Lark or this reader gives a meaning is no error"),
    (r"regex_accepts_but_invalid", r"not valid", "differs: bugs of llguidance, which its tests say are known: dates that do not exist, leap seconds at any minute, hostnames that are too long"),
    (r"x_guidance|outer_skip|test_ll_json", r"", "differs: a JSON text inside a grammar, or a constant, is spaced as json.dumps writes; and a type holds beside an enum"),
    (r"dw_pattern|unicode_escapes|unicode_scalars", r"", "differs: a string is escaped in one way where a pattern or a key is asked for, and in any way of JSON's elsewhere"),
    (r"pattern_properties|min_max_properties|syntax_perc", r"is read", "differs: what llguidance refuses is enforced here"),
)  # fmt: skip


def walk(automaton: Automaton, text: str) -> int:
    """Return the state behind a text; negative where the language has no text that begins so."""
    state = automaton.start
    for byte in text.encode():
        if state < 0:
            break
        state = automaton.step(state, byte)
    return state


@lru_cache(maxsize=64)
def lark(text: str) -> Automaton | InputError:
    """Return the automaton of a grammar, or why it is refused."""
    try:
        return compile_grammar(ebnf(text))
    except InputError as error:
        return error


@lru_cache(maxsize=64)
def schema(text: str) -> Automaton | InputError:
    """Return the automaton of a schema, or why it is refused."""
    try:
        return compile_grammar(json_schema(json.loads(text), style="flexible"))
    except InputError as error:
        return error


class Checks:
    """The functions that judge in llguidance's tests, and how each check of a test ended."""

    def __init__(self) -> None:
        self.case = ""
        self.found: dict[str, str] = {}

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the functions by name; each is given its line first."""
        return {
            "json_schema_check": self.json_schema_check,
            "json_test_many": self.json_test_many,
            "json_err_test": lambda line, one, _: self._refused(line, schema(compact(one))),
            "lark_err_test": lambda line, text, _: self._refused(line, lark(text)),
            "lark_ok": self.lark_ok,
            "lark_str_test": lambda line, text, good, one, _: self._text(
                line, text, one, good=good
            ),
            "lark_str_test_many": self.lark_str_test_many,
            "lark_str_test_many_quiet": self.lark_str_test_many,
            "check_lark_grammar": self.check_lark_grammar,
            "check_lark_json": self.check_lark_json,
            "check_lark_grammar_nested": self._unread("nested grammars"),
            "check_lark_grammar_prompt": self._unread("healing the tokens of a prompt"),
            "check_capture": self._unread("captures"),
        }

    def _put(self, line: int, shown: str, outcome: str) -> None:
        name = f"{self.case}:{line}{f' {shown[:60]!r}' if shown else ''}"
        if self.found.get(name, "passed") == "passed":
            self.found[name] = outcome

    def _unread(self, what: str) -> Callable[..., None]:
        return lambda line, *_: self._put(line, "", f"left out: asks for {what}")

    def _refused(self, line: int, found: Automaton | InputError) -> None:
        self._put(line, "", "passed" if isinstance(found, InputError) else "fails: is read")

    def lark_ok(self, line: int, text: str) -> None:
        found = lark(text)
        self._put(line, "", f"fails: {found}" if isinstance(found, InputError) else "passed")

    def lark_str_test_many(self, line: int, text: str, good: list[str], bad: list[str]) -> None:
        for one in good:
            self._text(line, text, one, good=True)
        for one in bad:
            self._text(line, text, one, good=False)

    def _text(self, line: int, text: str, one: str, *, good: bool) -> None:
        found = lark(text)
        if isinstance(found, InputError):
            self._put(line, one, f"fails: {found}")
            return
        state = walk(found, one.removeprefix(FINAL))
        if good:
            outcome = (
                "passed"
                if state >= 0 and found.is_accepting(state)
                else "fails: is not in the language"
            )
        elif state >= 0 and found.is_accepting(state):
            outcome = "fails: is in the language"
        elif one.startswith(FINAL):
            outcome = "passed" if state >= 0 else "fails: nothing begins so"
        else:
            outcome = "passed" if state < 0 else "fails: the language goes on behind it"
        self._put(line, one, outcome)

    def json_schema_check(self, line: int, one: Any, value: Any, good: bool) -> None:
        self._value(line, one, value, good=good, shown="")

    def _value(self, line: int, one: Any, value: Any, *, good: bool, shown: str) -> None:
        found = schema(compact(one))
        if isinstance(found, InputError):
            self._put(line, shown, f"fails: {found}")
            return
        state = walk(found, compact(value))
        accepted = state >= 0 and found.is_accepting(state)
        self._put(
            line,
            shown,
            "passed"
            if accepted == good
            else f"fails: {compact(value)[:80]} is {'valid' if accepted else 'not valid'}",
        )

    def json_test_many(self, line: int, one: Any, good: list[Any], bad: list[Any]) -> None:
        for value in good:
            self._value(line, one, value, good=True, shown=compact(value))
        for value in bad:
            self._value(line, one, value, good=False, shown=compact(value))

    def check_lark_json(self, line: int, text: str, one: Any, trace: list[str]) -> None:
        self.check_lark_grammar(line, text.replace("@sub", f"%json {compact(one)}"), trace)

    def check_lark_grammar(self, line: int, text: str, trace: list[str]) -> None:
        found = lark(text)
        outcome = f"fails: {found}" if isinstance(found, InputError) else followed(found, trace)
        self._put(line, "", outcome)


def followed(automaton: Automaton, trace: list[str]) -> str:
    """Return how a recorded trace fares: tokens parted by points, some marked as not allowed."""
    text = ""
    for mark, token in re.findall("([‧✖]?)([^‧✖]+)", "‧".join(trace)):
        if "↶" in token:
            return "left out: asks for tokens that are taken back"
        if token == "≺EOS≻":  # noqa: S105
            continue
        if re.fullmatch(r"<\[\d+\]>|<\|.*\|>", token):
            return "left out: asks for control tokens, or for tokens by their ids"
        state = walk(automaton, text + token)
        if mark == "✖":
            if state >= 0:
                return f"fails: {text + token!r} is allowed"
        elif state < 0:
            return f"fails: {text + token!r} is not allowed"
        else:
            text += token
    return (
        "passed" if automaton.is_accepting(walk(automaton, text)) else f"fails: {text!r} is no end"
    )


def results(root: Path) -> dict[str, str]:
    """Return "passed", "differs: why", "left out: why" or "fails: how" for each check."""
    found: dict[str, str] = {}
    for name in FILES:
        reader = Reader((root / "parser" / "tests" / name).read_text("utf-8"))
        for function in reader.functions.values():
            if not function.is_test:
                continue
            checks = Checks()
            checks.case = f"{name}::{function.name}"
            env = reader.environment(checks.functions())
            try:
                if function.body is None:
                    raise Beyond("statements")
                for case, arguments in function.calls(env):
                    checks.case = f"{name}::{case}"
                    function.body(env | arguments)
            except Beyond:
                checks.found[f"{checks.case} ..."] = (
                    "left out: its expectation is computed by the Rust, which is not evaluated here"
                )
            found |= checks.found
    return {case: judged(case, outcome, REASONS) for case, outcome in found.items()}


if __name__ == "__main__":
    for case, result in results(Path(sys.argv[1])).items():
        if result.startswith("fails"):
            print(case, "|", result)
