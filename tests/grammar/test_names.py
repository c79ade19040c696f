"""Names in Unicode against the `idna` library, in both directions, and their lengths in punycode."""

from __future__ import annotations

import re
import unicodedata

import idna
from hypothesis import example, given, settings
from hypothesis import strategies as st

from callmemaybe.grammar.automaton import DEAD, Automaton
from callmemaybe.grammar.nodes import EMPTY, NOTHING, Names
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


@settings(max_examples=1500, deadline=None)
@given(names())
@example("l\u00b7l.a\u05d0")
@example("0a.\u05d0")
@example("\u00e2\u0323")
@example("\u1eb9\u0301")
def test_names_are_what_the_library_takes_for_names(name: str) -> None:
    """Law: a short name is in the language, narrow or wide, exactly if `idna` takes it for one."""
    expected = is_name(name)
    assert is_in(NARROW, name) is expected
    assert is_in(WIDE, name) is expected
