"""Names in Unicode against the `idna` library, in both directions, and their lengths in punycode."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import zip_longest

import idna
import pytest
from callmemaybe.wire.spelling import respelled
from hypothesis import example, given, settings
from hypothesis import strategies as st

from callmemaybe.errors import GrammarError
from callmemaybe.grammar import Grammar, json_schema
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.automaton import DEAD, Automaton
from callmemaybe.grammar.export import to_ebnf, to_gbnf, to_lark
from callmemaybe.grammar.labels import BEYOND, MANY, kind_of, weight
from callmemaybe.grammar.nodes import EMPTY, NOTHING, Names
from callmemaybe.grammar.schema import Check
from callmemaybe.grammar.schema.certificate import certificate
from callmemaybe.grammar.schema.formats import format_node
from callmemaybe.grammar.tree import machine_of

NARROW = machine_of(Names(EMPTY, NOTHING, False, False, False))
WIDE = machine_of(Names(EMPTY, NOTHING, False, True, False))
MAIL = machine_of(Names(EMPTY, NOTHING, False, False, True))
RIGHT = {"R", "AL", "AN"}
#: Characters that have something to do with each other: contexts, digits, marks, directions.
FAMILIES = (
    "abl-0AZxn", "al\u00b7l\u00e9\u00fc", "aoe\u1eb9\u0301\u0323\u0316\u0302\u00e2", "\u03b1\u0375\u03b2s\u1f00\u0342",
    "\u05d0\u05f3\u05f4\u05b0\u05b40-1a", "\u0628\u064a\u200c\u0627\u0660\u06f0\u0651\u064b1-",
    "\u0915\u094d\u200c\u200d\u0937\u093c\u0928", "\u30fb\u3041\u30ab\u4e08\u3099a-", "\u1820\u200c\u1821\u18a9\u30fb\u5b57",
    "\U0001e922\U00020000\U00010a00\u0e01\u0e48\ud55c\ua9c0", "\u0b92\u0bd7\u0bc6\u0bbe\u0ba4\u0bcd",
    "\u00df\u03c2\u0f0b\u3007\u0640\u07fa\u302e\u2060 _\u00c4\u1680",
)  # fmt: skip


def is_in(machine: Automaton, name: str) -> bool:
    """Whether an automaton accepts a name."""
    state = machine.walk(machine.start, name.encode())
    return state != DEAD and machine.is_accepting(state)


def is_name(name: str, dots: str = "[.\u3002\uff0e\uff61]") -> bool:
    """Whether `idna` takes a text for a name, each label of which is in ASCII or in Unicode."""
    labels = re.split(dots, name)
    encoded = []
    for label in labels:
        try:
            # Capitals are only in labels of ASCII the same as small letters.
            encoded.append(idna.alabel(label.lower() if label.isascii() else label))
            if any(unicodedata.bidirectional(c) in RIGHT for c in name):
                idna.check_bidi(label, check_ltr=True)
        except idna.IDNAError:
            return False
    return len(b".".join(encoded)) <= 253 and not any(x.lower()[:4] == "xn--" for x in labels)


@st.composite
def names(draw: st.DrawFn) -> str:
    """Draw names of labels from one family each, valid ones and others."""
    labels = draw(st.lists(st.sampled_from(FAMILIES), min_size=1, max_size=3))
    texts = [draw(st.text(st.sampled_from(family), min_size=1, max_size=5)) for family in labels]
    return draw(st.sampled_from(".\u3002")).join(texts)


#: What composes with some letter of ASCII, directly behind one: where little is to be told apart, none of
#: it may come behind any of them.
RARE = re.compile("[0-9a-z][\u0300-\u0338]")


@settings(max_examples=600, deadline=None)
@given(names())
@example("l\u00b7l.a\u05d0")
@example("0a.\u05d0")
@example("\u00e2\u0323")
@example("\u1eb9\u0301")
@example("m\u0300")
def test_names_are_what_the_library_takes_for_names(name: str) -> None:
    """Law: a short name is in the language, narrow or wide, exactly if `idna` takes it for one."""
    expected = is_name(name)
    assert is_in(WIDE, name) is expected
    if RARE.search(name):
        assert expected or not is_in(NARROW, name)
    else:
        assert is_in(NARROW, name) is expected


@settings(max_examples=300, deadline=None)
@given(names())
def test_what_is_written_in_punycode_is_in_the_wide_language_only(name: str) -> None:
    """Law: with labels in punycode, every valid name is left to be checked, and never masked as valid."""
    try:
        encoded = idna.encode(name).decode()
    except idna.IDNAError:
        return
    has_punycode = "xn--" in encoded
    assert is_in(WIDE, encoded)
    assert is_in(NARROW, encoded) is not has_punycode
    assert is_in(WIDE, encoded.upper())


@settings(max_examples=200, deadline=None)
@given(names())
def test_domains_of_addresses_need_no_normal_form(name: str) -> None:
    """Law: the domain of an address is a name whose form C is one, with "." between its labels."""
    composed = unicodedata.normalize("NFC", name)
    if is_name(composed, r"[.]") and not RARE.search(composed):
        assert is_in(MAIL, composed)
    if is_in(MAIL, name):
        assert all(is_in(MAIL, part) for part in name.split("."))
        assert not any(dot in name for dot in "\u3002\uff0e\uff61")


def test_labels_in_unicode_take_at_most_63_octets_in_punycode() -> None:
    """Law: the bound on a label's octets is never more than 2 too low: 61 of it are 63 at most.

    The worst labels jump to and fro between the ends of a row, of the plane, of all planes.
    """
    ends = {
        0x4: "\u0430\u04ff\u0431\u04fd", MANY: "\u00e0\ud7a3\u4e00\u0430\uabf9",
        BEYOND: "\u00e0\U0003134a\u4e00\U00020000\U0001e922", 0: "\u00e0\u00f0\u00ff",
    }  # fmt: skip
    for row, letters in ends.items():
        for far in range(1, 18):
            for plain in range(40):
                if weight(plain, far, row) > 61:
                    break
                for text in _jumping(letters, far, "a" * plain):
                    octets = len(text.encode("punycode")) + 4
                    assert octets <= 63, (text, octets)


def _jumping(letters: str, far: int, plain: str) -> Iterator[str]:
    """Arrange letters around those of ASCII in ways that punycode finds hard."""
    turns = "".join(letters[i % len(letters)] for i in range(far))
    spread = "".join(chr(c) for c in _spread(letters, far))
    for chosen in (turns, spread, spread[::-1]):
        half = len(chosen) // 2
        mixed = "".join(a + b for a, b in zip_longest(chosen[:half], chosen[half:], fillvalue=""))
        for text in (chosen, mixed):
            yield from (plain + text, text + plain, text[::2] + plain + text[1::2])


def _spread(letters: str, count: int) -> list[int]:
    low, high = ord(min(letters)), ord(max(letters))
    return [low + (high - low) * i // max(count - 1, 1) for i in range(count)]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from((NARROW, WIDE, MAIL)), st.data())
def test_every_beginning_leads_to_a_name_in_so_many_bytes(
    machine: Automaton, data: st.DataObject
) -> None:
    """Law: no state is a dead end, `distance` is how far the end is, and edges agree with steps."""
    state = machine.start
    for _ in range(data.draw(st.integers(1, 90))):
        edges = machine.edges(state)
        if not edges:
            break
        mask, target = edges[data.draw(st.integers(0, len(edges) - 1))]
        assert machine.step(state, mask.bit_length() - 1) == target
        state = target
    while not machine.is_accepting(state):
        left = machine.distance(state)
        state = min((target for _, target in machine.edges(state)), key=machine.distance)
        assert machine.distance(state) == left - 1


def test_names_are_as_long_as_they_may_be() -> None:
    """Law: labels have up to 63 octets and names up to 253, whatever they are written in."""
    for machine in (NARROW, WIDE, MAIL):
        for label in ("a" * 63, "a-" * 31 + "a", "\u4e2d" * 10, "\u044f" * 16):
            assert is_in(machine, label)
            assert is_in(machine, ".".join([label] * 3))
        assert not is_in(machine, "a" * 64)
        assert is_in(machine, ".".join(["a" * 49] * 5 + ["a" * 3]))
        assert not is_in(machine, ".".join(["a" * 49] * 5 + ["a" * 4]))
    assert not is_in(NARROW, "\u044f" * 60)
    assert not is_in(WIDE, "\u044f" * 60)
    assert is_in(WIDE, "\u044f" * 59)
    assert not is_in(WIDE, "xn--" + "a" * 60)


def test_every_character_that_may_stand_in_a_name_is_there() -> None:
    """Law: a letter alone is a name exactly if `idna` takes it for one, as far as this Python knows it."""
    for code in (*range(0x80, 0x3100), *range(0x4DF0, 0x4E10), *range(0xA000, 0xD800, 7)):
        char = chr(code)
        if unicodedata.category(char) != "Cn":
            assert is_in(NARROW, char) is is_name(char), hex(code)
            assert (kind_of(code) is not None) or not is_name(char)


@pytest.mark.parametrize("name", ["hostname", "idn-hostname"])
def test_what_is_left_to_be_checked_is_said(name: str) -> None:
    """Law: with a list of checks nothing valid is left out, and the check is listed; else it is masked."""
    schema = {"type": "object", "properties": {"host": {"type": "string", "format": name}}}
    checks: list[Check] = []
    wide = compile_grammar(json_schema(schema, checks=checks))
    narrow = compile_grammar(json_schema(schema))
    assert [check.pointer for check in checks] == ["/properties/host/format"]
    text = b'{"host": "xn--bcher-kva.example"}'
    assert wide.walk(wide.start, text) >= 0
    assert narrow.walk(narrow.start, text) == DEAD
    rows = [row for row in certificate(schema).keywords if row.keyword == "format"]
    assert [row.how for row in rows] == ["checked"]


def test_addresses_are_spelled_in_any_quotes() -> None:
    """Law: in another notation only what comes before the domain is spelled in another way."""
    node = format_node("idn-email")
    assert node is not None
    for quote, spelled in (("'", "o\\'k"), ('"', "o'k"), ("", "o'k")):
        machine = machine_of(respelled(node, quote))
        assert is_in(machine, f"{spelled}@\u4f8b\u3048.example")
        assert is_in(machine, f"{spelled}@[127.0.0.1]")
        assert not is_in(machine, f"{spelled}@\u4f8b\u3048.")


@pytest.mark.parametrize("export", [to_gbnf, to_ebnf, to_lark])
def test_names_are_not_exported(export: Callable[[Grammar], str]) -> None:
    """Law: names in Unicode are refused by every notation, at once and with the reason."""
    with pytest.raises(GrammarError, match="names of hosts"):
        export(json_schema({"type": "string", "format": "idn-email"}))


def test_what_is_not_a_name_is_left_to_be_checked_too() -> None:
    """Law: what may be no name ("xn--") is in the language of what is none, if values are checked."""
    schema = {"type": "string", "not": {"format": "hostname"}}
    checks: list[Check] = []
    automaton = compile_grammar(json_schema(schema, checks=checks))
    assert checks
    for text in (b'"xn--x"', b'"a_b"', b'"xn--bcher-kva"'):
        state = automaton.walk(automaton.start, text)
        assert state >= 0
        assert automaton.is_accepting(state)
