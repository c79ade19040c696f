"""outlines-core's own tests of languages as a ratchet: those in Rust are read, those in Python run as they are on a stand-in.

``python ratchets/fetch.py --peers`` fetches the tests; nothing of theirs is committed. A case of the Rust is a text that a schema
must have or must not have; how its regular expression is written is not asked. The Python imports ``outlines_core``, which is here
``stand_ins/outlines_core``: vocabularies, indexes and guides on this package's matchers.
"""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llguidance_tests import schema, walk
from peer_tests import judged, outcomes
from rust import Beyond, Env, Reader

from callmemaybe.errors import InputError

HERE = Path(__file__).parent
DESCRIPTION = "outlines-core 0.2.14: schemas and regular expressions, indexes, guides"
RUST = "src/json_schema/mod.rs"
FILES = ("test_guide.py", "test_index.py", "test_json_schema.py")
COMPUTED = "left out: its expectation is computed by the Rust, which is not evaluated here"

#: Words of a case's name, words of how it ended, and what is made of it; the first that fits.
REASONS = (
    (r"(min|max)Digits", r"", "differs: keywords of outlines-core's own (minDigits, maxDigitsFraction ...) are annotations here, as JSON Schema has it for unknown keywords"),
    (r"allOf", r"no value meets", "differs: a bug of outlines-core: it writes the schemas of allOf one behind the other, a text and then a number; no value meets both"),
    (r"customer", r"not valid", "differs: a bug of outlines-core: it leaves out required properties that have no schema of their own"),
    (r"date-time|date_time|dateTime", r"", "differs: formats are exact: dates that exist, leap seconds where they are, addresses and names as their RFCs have them now"),
    (r"format|test_uri", r"", "differs: formats are exact: dates that exist, leap seconds where they are, addresses and names as their RFCs have them now"),
    (r"'1\.3e9'", r"", "differs: a number is any of JSON's: an exponent needs no sign"),
    (r"unconstrained|recursion", r"is valid", "differs: values nest as deep as JSON does, and as a schema refers to itself"),
    (r"notspam|prefixItems", r"is valid", "differs: what a schema does not forbid stays allowed: other properties, other items, fewer items"),
    (r"accepts_tokens", r"", "differs: the token that ends an output is taken at its end"),
    (r"build_regex", r"Difference", "differs: other properties stay allowed, and an expression cannot say which keys they have"),
)  # fmt: skip


class Checks:
    """The functions that judge in outlines-core's tests in Rust."""

    def __init__(self) -> None:
        self.case = ""
        self.found: dict[str, str] = {}

    def functions(self) -> dict[str, Any]:
        """Return the functions by name; each is given its line first."""
        return {
            "regex_from_str": self.regex_from_str,
            "Regex::new": lambda _, given: given,
            "should_match": lambda _, given, text: self._judge(given, text, good=True),
            "should_not_match": lambda _, given, text: self._judge(given, text, good=False),
            "None": None,
            "Some": lambda _, value: value,
        }

    def regex_from_str(self, _: int, text: str, spaces: str | None, depth: int | None) -> str:
        """Return the schema, which stands for its regular expression."""
        if spaces is not None or depth is not None:
            raise Beyond("a pattern of white space, or a depth of recursion")
        return text

    def _put(self, name: str, outcome: str) -> None:
        if self.found.get(name, "passed") == "passed":
            self.found[name] = outcome

    def _judge(self, given: str, text: str, *, good: bool) -> None:
        found = schema(given)
        if isinstance(found, InputError):
            outcome = f"fails: {found}"
        else:
            state = walk(found, text)
            has = state >= 0 and found.is_accepting(state)
            outcome = "passed" if has == good else f"fails: is {'' if has else 'not '}valid"
        name = f"{self.case} {' '.join(text.split())[:200]!r} of {' '.join(given.split())[:300]}"
        self._put(name, outcome)


def from_rust(root: Path) -> dict[str, str]:
    """Return how the checks of the Rust ended."""
    reader = Reader((root / RUST).read_text("utf-8"))
    constants = Reader((root / RUST.replace("mod.rs", "types.rs")).read_text("utf-8")).environment(
        {}
    )
    found: dict[str, str] = {}
    for function in reader.functions.values():
        if function.is_test:
            checks = Checks()
            checks.case = f"{RUST}::{function.name}"
            _run(function.body, constants | reader.environment(checks.functions()), checks)
            found |= checks.found
    return found


def _run(body: Callable[[Env], Any] | None, env: Env, checks: Checks) -> None:
    try:
        if body is None:
            raise Beyond("statements")
        body(env)
    except Beyond:
        checks.found[f"{checks.case} ..."] = COMPUTED


def results(root: Path) -> dict[str, str]:
    """Return "passed", "differs: why", "left out: why" or "fails: how" for each case."""
    folder = root / "tests"
    found = from_rust(root)
    found |= outcomes(folder, [folder / name for name in FILES], stand_ins=[HERE / "stand_ins"])
    return {name: judged(name, outcome, REASONS) for name, outcome in found.items()}


if __name__ == "__main__":
    for name, result in results(Path(sys.argv[1])).items():
        if result.startswith("fails"):
            print(name, "|", result)
