"""xgrammar's own tests of languages as a ratchet: they run as they are, on a stand-in for xgrammar.

``python ratchets/fetch.py --peers`` fetches the tests; nothing of theirs is committed. They import ``xgrammar``,
which is here ``stand_ins/xgrammar``: its names on the grammars of this package. What a test asks and the stand-in
lacks (masks on a GPU, tokenizers of the hub, grammars as text) leaves that test out. How an error is worded is
not asked.
"""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import sys
from pathlib import Path

from peer_tests import judged, outcomes

HERE = Path(__file__).parent
DESCRIPTION = "xgrammar 0.2.9, tests/python: regex, JSON Schema, EBNF and Lark"
#: The files about languages; the others are about masks, caches, threads, and text forms of its own.
FILES = (
    "test_regex_converter.py",
    "test_grammar_matcher_regex.py",
    "test_grammar_matcher_ebnf.py",
    "test_grammar_matcher_json.py",
    "test_grammar_matcher_json_schema.py",
    "test_json_schema_converter.py",
    "test_json_schema_direct_converter.py",
    "test_lark.py",
)

#: Words of a test's name, words of how it failed, and what is made of it; the first that fits.
REASONS = (
    (r"lark_(lazy|capture|budget|suffix|max_tokens|dynamic|standalone_lazy|stop_capture|allow_initial|structured_regex|nested|multiple_nested)|ebnf_(lazy|all_three)",
     r"", "left out: asks for an extension of Lark's notation: lazy rules, captures, budgets, suffixes, nested grammars"),
    (r"errors_are_explicit.*(wildcard|token|range-dashes|numeric-range|named-needs|special)", r"DID NOT RAISE", "left out: asks for ids of tokens in a grammar"),
    (r"falls_back|with_length_warns|lark_error_reports|backward_compatible|when_default_type", r"", "left out: asks for warnings, rules or positions of its own"),
    (r"test_date_format|date_time_format|ipv4_format|hostname_format|uri_template", r"", "differs: formats are exact: dates that exist, leap seconds where they are, addresses and names as their RFCs have them now"),
    (r"ascii-only|ascii-folding|not-folded|regex_flags_ebnf", r"", "differs: any case is any case of Unicode, not of ASCII alone"),
    (r"lookahead-ignored|mid-anchors-ignored|word-boundary-error|unicode-property-error|regex_refuse|group_modifiers|null_character", r"", "differs: a part of a pattern means what ECMA-262 says; none is ignored or refused"),
    (r"test_escape", r"escape \\a", "differs: an escape that means different things to different engines is refused"),
    (r"test_lark_(ignore|multiple_ignore|default_disallows)", r"", "differs: ignored text may stand in front too, as in Lark"),
    (r"missing-start|terminal-references-rule|\[priority\]|non-ascii-string-flag|json-in-terminal", r"DID NOT RAISE", "differs: what Lark or this reader gives a meaning is no error"),
    (r"inline_json_schemas|numeric_const|utf8_object_array", r"", "differs: a JSON text inside a grammar, or a constant, is spaced as json.dumps writes; and a type holds beside an enum"),
    (r"any_whitespace|test_json_accept", r"", "differs: between JSON tokens stand at most a line feed and then spaces and tabs, or what a separator says"),
    (r"multiple_of_unsupported|beyond_int32|prefixItems|schema8|object_error_handle", r"", "differs: what xgrammar ignores or refuses is enforced here, or is no contradiction"),
    (r"complex_restrictions|pattern_properties_and_property", r"", "differs: a pattern is searched for, and other properties stay allowed, as JSON Schema has it"),
    (r"pointer_formats", r"", "differs: a string is escaped in one way"),
    (r"array_schema_min_max|type_array_empty", r"", "differs: an empty list of schemas or types is refused, as the metaschema has it"),
)  # fmt: skip


def results(root: Path) -> dict[str, str]:
    """Return "passed", "differs: why", "left out: why" or "fails: how" for each test."""
    folder = root / "tests" / "python"
    found = outcomes(
        folder,
        [folder / name for name in FILES],
        stand_ins=[HERE / "stand_ins"],
        options=["-p", "asked"],
    )
    return {name: judged(name, outcome, REASONS) for name, outcome in found.items()}


if __name__ == "__main__":
    for name, result in results(Path(sys.argv[1])).items():
        if result.startswith("fails"):
            print(name, "|", result)
