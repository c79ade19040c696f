"""Formats at their edges; the official suite (ratchets/) has the rest."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import json_schema


def is_in(name: str, text: str) -> bool:
    """Whether a text has a format."""
    automaton = compile_grammar(json_schema({"type": "string", "format": name}))
    state = automaton.walk(automaton.start, json.dumps(text, ensure_ascii=False).encode())
    return state >= 0 and automaton.is_accepting(state)


def test_leap_seconds_come_where_the_day_ends_in_utc() -> None:
    """Law: 23:59:60 UTC is accepted in the time of every offset of whole quarters, and nowhere else."""
    last = datetime(2016, 12, 31, 23, 59, tzinfo=UTC)
    for quarters in range(-95, 96):
        there = last.astimezone(timezone(timedelta(minutes=15 * quarters)))
        offset = f"{there:%z}"
        for hour, minute in ((there.hour, there.minute), (there.hour, 0), (11, there.minute)):
            text = f"{hour:02}:{minute:02}:60{offset[:3]}:{offset[3:5]}"
            expected = (hour, minute) == (there.hour, there.minute)
            assert is_in("time", text) is expected, text
            assert is_in("date-time", f"2016-12-31T{text}") is expected, text


@pytest.mark.parametrize(
    "pattern",
    [
        "(?<name>x)",
        "(?<=a+)b",
        "(?!y)z|[]",
        "[^]",
        r"\cA",
        r"^(a|(b|[a-z-]{2,})*)\u00e9$",
        r"x(?<n>a)\k<n>+|y",
        r"^(?<Y>\d)-\k<Y>$",
    ],
)
def test_expressions_of_ecma_262_are_a_format(pattern: str) -> None:
    """Law: what ECMA-262 reads as a regular expression is one, deep nesting and most references aside."""
    assert is_in("regex", pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?P<n>x)",
        "(?i)a",
        r"\a",
        "^(abc]",
        "(?<n>a)(?<n>b)",
        "(?<=a)*",
        "a**",
        r"(?<n>a)\k<m>",
        r"\k<n>",
        r"(?<nm>a)\k<n>",
    ],
)
def test_what_it_cannot_read_is_none(pattern: str) -> None:
    """Law: nothing is accepted that an engine of ECMA-262 refuses."""
    assert not is_in("regex", pattern)
