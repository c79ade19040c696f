"""Formats at their edges; the official suite (ratchets/) has the rest."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta, timezone

import jsonschema_rs
import pytest

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import json_schema
from callmemaybe.grammar.automata.tree import machine_of
from callmemaybe.grammar.json_schema import DeferredCheck
from callmemaybe.grammar.json_schema.certificate import certificate
from callmemaybe.grammar.json_schema.strings import format_node
from callmemaybe.wire.arg_grammar import respell_strings
from tests.grammar.oracle import sample


def is_in(name: str, text: str) -> bool:
    """Whether a text is in the language of a format."""
    checks: list[DeferredCheck] | None = [] if name.startswith("idn-") else None
    automaton = compile_grammar(json_schema({"type": "string", "format": name}, checks=checks))
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


LABEL = "a" * 63


@pytest.mark.parametrize(
    "text",
    [
        "a" * 64 + "@b.example", "a" * 65 + "@b.example", "." .join(["a" * 31] * 3) + "@b",
        '"' + "a" * 62 + '"@b', '"' + "a" * 63 + '"@b', r'"\"' + "@" * 60 + '"@b', r'"\"' + "@" * 61 + '"@b',
        r'"\\\a"@b', '"a b"@c', "a@b@c", "@b", "a@", f"a@{LABEL}", f"a@{LABEL}a", f"a@{LABEL}.-",
        "a@" + ".".join([LABEL] * 3) + "." + "a" * 61, "a@" + ".".join([LABEL] * 3) + "." + "a" * 62,
        "a" * 64 + "@" + ".".join([LABEL] * 3) + "." + "a" * 61, "a@[127.0.0.1]", "a@[IPv6:::1]", "a@[1]",
    ],
)  # fmt: skip
def test_addresses_are_as_long_as_they_may_be(text: str) -> None:
    """Law: local parts have up to 64 octets and domains up to 253, as an outside validator has it."""
    validator = jsonschema_rs.Draft202012Validator({"format": "email"}, validate_formats=True)
    assert is_in("email", text) is validator.is_valid(text)


def test_octets_are_counted_and_not_characters() -> None:
    """Law: a local part in Unicode has up to 64 octets of UTF-8."""
    assert is_in("idn-email", "\u00e4" * 32 + "@b")
    assert not is_in("idn-email", "\u00e4" * 32 + "a@b")
    assert is_in("idn-email", "\u4e2d" * 21 + "a@b")
    assert not is_in("idn-email", "\u4e2d" * 22 + "@b")


@pytest.mark.parametrize("name", ["email", "hostname"])
@pytest.mark.parametrize("quote", ["'", '"', ""])
def test_texts_with_limits_are_spelled_in_any_quotes(name: str, quote: str) -> None:
    """Law: in another notation there are the same texts, each with what must be escaped escaped."""
    node = format_node(name)
    assert node is not None
    machine, spelled = machine_of(node), machine_of(respell_strings(node, quote))
    dice = random.Random(name + quote)
    for _ in range(12):
        text = json.loads(sample(machine, dice, length=40))
        for one in (text, text * 9, text.replace("a", "'"), text + "."):
            inner = one if not quote else one.replace("\\", "\\\\").replace(quote, "\\" + quote)
            end = spelled.walk(spelled.start, inner.encode())
            assert (end >= 0 and spelled.is_accepting(end)) is is_in(name, one), one


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


@pytest.mark.parametrize("low", "09afzAFZ")
def test_spans_of_letters_and_digits_ascend(low: str) -> None:
    """Law: a span of letters or digits is in a class only if it ascends, and if one of a few is in it."""
    for high in "059aefgzAEFGZ":
        if low.isdigit() is not high.isdigit() or low.islower() is not high.islower():
            continue
        for pattern in (f"[{low}-{high}]", f"x[^\u00e9{low}-{high}_\u4e2d-]+"):
            is_about = any(low <= pivot <= high for pivot in "1359cfmszCFMSZ")
            assert is_in("regex", pattern) is is_about, pattern


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


NAMES = (
    "\u4f8b\u3048.example", "b\u00fccher.example", "xn--bcher-kva.example", "XN--BCHER-KVA.example",
    "a\u3002\uc2e4\ub840.\ud14c\uc2a4\ud2b8", "\u044f" * 50, ".".join(["\u044f" * 16] * 4), "l\u00b7l", "\u3007", "a",
    ".".join(["a" * 49] * 5 + ["a" * 3]), "a" * 63,
)  # fmt: skip
NOT_NAMES = (
    "a b", "-a", "a-", "a..b", "a.", ".", "", "a_b", "a" * 64,
)  # fmt: skip
#: What only the validator finds: IDNA 2008 forbids them.
INVALID_NAMES = (
    "xn--x",
    "\u5b9f\u302e\u4f8b.com",
    "a\u00b7l",
    "\u05d0a.com",
    "\u044f" * 60,
    "\u2603.net",
)


@pytest.mark.parametrize("name", ["idn-hostname", "idn-email"])
def test_names_in_unicode_are_masked_widely_and_validated(name: str) -> None:
    """Law: every valid name is in the language, and the validator refuses the others that are."""
    validator = jsonschema_rs.Draft202012Validator({"format": name}, validate_formats=True)
    local = "o'k@" if name == "idn-email" else ""
    for text in NAMES:
        assert is_in(name, local + text), text
        assert validator.is_valid(local + text), text
    for text in NOT_NAMES:
        assert not is_in(name, local + text), text
        assert not validator.is_valid(local + text), text
    for text in INVALID_NAMES:
        assert is_in(name, local + text), text
        assert not validator.is_valid(local + text), text


@pytest.mark.parametrize("name", ["hostname", "idn-hostname", "idn-email"])
def test_deferred_formats_are_listed_as_checks(name: str) -> None:
    """Law: a format that no mask holds adds one check, and the certificate says so."""
    schema = {"type": "object", "properties": {"host": {"type": "string", "format": name}}}
    checks: list[DeferredCheck] = []
    automaton = compile_grammar(json_schema(schema, checks=checks))
    assert [check.pointer for check in checks] == ["/properties/host/format"]
    local = "a@" if name == "idn-email" else ""
    assert (
        automaton.walk(automaton.start, f'{{"host": "{local}xn--bcher-kva.example"}}'.encode()) >= 0
    )
    rows = [row for row in certificate(schema).keywords if row.keyword == "format"]
    assert [row.how for row in rows] == ["checked"]


def test_without_checks_host_names_are_a_subset_and_names_in_unicode_are_refused() -> None:
    """Law: where nobody validates, no text is accepted that may be wrong."""
    assert not is_in("hostname", "xn--bcher-kva.example")
    assert is_in("hostname", "buecher.example")
    for name in ("idn-hostname", "idn-email"):
        with pytest.raises(UnsupportedSchema, match="IDNA 2008") as caught:
            json_schema({"type": "object", "properties": {"host": {"format": name}}})
        assert caught.value.pointer == "/properties/host/format"


@pytest.mark.parametrize("name", ["hostname", "idn-hostname"])
def test_the_negation_of_a_deferred_format_keeps_every_valid_value(name: str) -> None:
    """Law: a text that may or may not have the format is in the language of what lacks it."""
    schema = {"type": "string", "not": {"format": name}}
    checks: list[DeferredCheck] = []
    automaton = compile_grammar(json_schema(schema, checks=checks))
    assert checks
    for text in (b'"xn--x"', b'"a_b"', b'"xn--bcher-kva"'):
        state = automaton.walk(automaton.start, text)
        assert state >= 0
        assert automaton.is_accepting(state)


def test_an_address_in_unicode_is_respelled_in_any_quotes() -> None:
    """Law: in another notation there are the same addresses, with the quote escaped."""
    node = format_node("idn-email", superset=True)
    assert node is not None
    for quote, spelled in (("'", "o\\'k"), ('"', "o'k"), ("", "o'k")):
        machine = machine_of(respell_strings(node, quote))
        for domain, expected in (
            ("\u4f8b\u3048.example", True),
            ("[127.0.0.1]", True),
            ("a.", False),
        ):
            state = machine.walk(machine.start, f"{spelled}@{domain}".encode())
            assert (state >= 0 and machine.is_accepting(state)) is expected, domain
