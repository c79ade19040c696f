"""Names of hosts, swept character by character, against the sweep that reads every byte."""

from __future__ import annotations

import random

import pytest

from callmemaybe.grammar.automaton import DEAD
from callmemaybe.grammar.names import NameAutomaton
from callmemaybe.grammar.nodes import EMPTY, NOTHING, Names, Node, lexeme, lit
from callmemaybe.grammar.schema.formats import format_node
from callmemaybe.grammar.tree import machine_of
from callmemaybe.matching import hostnames as hosts
from callmemaybe.matching import mask_bulk
from callmemaybe.vocabulary.trie import Trie
from tests.grammar.test_names import FAMILIES


def tree() -> Trie:
    """Return tokens of all families, whole and in halves, with dots and quotes, some no UTF-8 at all."""
    dice = random.Random(7)
    tokens = {bytes([byte]) for byte in range(256)}
    for family in FAMILIES:
        for _ in range(20):
            size = dice.choice([1, 2, 3, 3, 8])
            text = "".join(dice.choices(family + '..\u3002"a', k=size)).encode()
            tokens |= {
                text,
                text[: dice.randrange(1, len(text) + 1)],
                text[dice.randrange(len(text)) :],
            }
    tokens |= {b"a" * size for size in (20, 63, 64, 130)} | {b"a.b" * 40, "\u4e2d".encode() * 12}
    tokens |= {
        b"\xe0\x82\xa9",
        b"\xc1\xa1",
        b"\xf0\x82\x82\xa9",
        b"\xed\xa0\x80",
        b'"]',
        b'a"]',
        b"[1",
        b"[127",
    }
    return Trie(sorted(tokens))


TREE = tree()
NODES = {
    "idn-hostname": format_node("idn-hostname"),
    "wide": Names(lit('"'), NOTHING, True, True, False),
    "idn-email": format_node("idn-email"),
    "bare": Names(EMPTY, NOTHING, False, False, False),
    "bare addresses": Names(lexeme(lit("me@")), lexeme(lit("[1]")), False, False, True),
}
OPENINGS = {
    "idn-hostname": '"',
    "wide": '"',
    "idn-email": '"me@',
    "bare": "",
    "bare addresses": "me@",
}
LONG = [
    "a" * 60,
    "a" * 63,
    "\u4e2d" * 9,
    "\u4e2d" * 10,
    "\u044f" * 15,
    "a" * 40 + "\u044f",
    "b" * 14 + "\u00fc",
]


def beginnings(dice: random.Random) -> list[str]:
    """Return beginnings of names: every length of random ones, and long ones."""
    found = ["", *LONG, *(".".join(["a" * 49] * count) + "." for count in (1, 4))]
    for family in dice.sample(FAMILIES, 3):
        text = "".join(dice.choices(family + ".", k=5))
        found += [text[:1], text[:3], text]
    return found


@pytest.mark.parametrize("which", NODES)
def test_names_are_swept_as_any_automaton_is(which: str) -> None:
    """Law: the same nodes are found in the same states, however long the name is already."""
    node = NODES[which]
    assert isinstance(node, Node)
    machine = machine_of(node)
    assert isinstance(machine, NameAutomaton)
    sweeps, plain = hosts.Sweeps(), mask_bulk.Tables()
    quick = 0
    for text in beginnings(random.Random(which)):
        state = machine.walk(machine.start, (OPENINGS[which] + text).encode())
        if state == DEAD or (name := machine.name_at(state)) is None:
            continue
        found = []
        for tables in (sweeps, plain):
            swept = tables.mask_bulk(TREE, machine, [0], [state])
            found.append(
                sorted(
                    zip(swept.nodes.tolist(), (swept.states[r] for r in swept.rows), strict=True)
                )
            )
        assert found[0] == found[1], text
        kept = hosts.Hostnames(machine, TREE, hosts.Characters(TREE)) if quick < 3 else None
        quick += kept is not None and kept.mask_bulk(0, name) is not None
    assert quick == 3


def test_half_a_character_is_followed_byte_by_byte() -> None:
    """Law: where a token begins within a character, or below a node that is none, nothing is different."""
    machine = machine_of(NODES["bare"])  # type: ignore[arg-type]
    sweeps, plain = hosts.Sweeps(), mask_bulk.Tables()
    for text, start in ((b"\xd0", b""), (b"", b"\xd0"), (b"\xe4\xb8", b""), (b"", b"a")):
        state, node = machine.walk(machine.start, text), TREE.find(start)
        inner = machine.walk(state, start)
        one, other = (
            tables.mask_bulk(TREE, machine, [node], [inner]) for tables in (sweeps, plain)
        )
        pairs = [
            sorted(zip(s.nodes.tolist(), (s.states[r] for r in s.rows), strict=True))
            for s in (one, other)
        ]
        assert pairs[0] == pairs[1]


def test_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: of labels and automata the last few are kept, and what was dropped is found again."""
    monkeypatch.setattr(hosts, "KEPT_LABELS", 1)
    monkeypatch.setattr(hosts, "KEPT_HOSTS", 1)
    sweeps, plain = hosts.Sweeps(), mask_bulk.Tables()
    for _ in range(2):
        for which in ("bare", "wide"):
            machine = machine_of(NODES[which])  # type: ignore[arg-type]
            for text in ("a", "\u4e2d"):
                state = machine.walk(machine.start, (OPENINGS[which] + text).encode())
                one, other = (t.mask_bulk(TREE, machine, [0], [state]) for t in (sweeps, plain))
                assert one.nodes.tolist() == other.nodes.tolist()
