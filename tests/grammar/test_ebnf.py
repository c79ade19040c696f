"""Grammars as text: both notations give the language they describe, and mistakes name their line."""

from __future__ import annotations

import pytest

from callmemaybe.errors import GrammarError
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.ebnf import ebnf
from callmemaybe.grammar.grammar import Grammar


def accepts(grammar: Grammar, text: str) -> bool:
    """Whether the whole of ``text`` is in the language."""
    automaton = automaton_of(grammar)
    state = automaton.walk(automaton.start, text.encode())
    return state >= 0 and automaton.is_accepting(state)


ARITHMETIC_GBNF = r"""
# sums and products
root ::= expr "\n"
expr ::= term (ws [-+*/] ws term)*   # repeated
term ::= num | "(" ws expr ws ")" |
   "x" [a-zé]{2,3}
num  ::= [0-9]+ ("." [0-9]{1,2})?
ws   ::= " "?
"""

ARITHMETIC_LARK = r"""
start: expr
?expr: expr "+" term -> add      // left-recursive, as people write it
     | expr "-" term -> sub
     | term
term: NUMBER | "sin"i "(" expr ")" | /[a-z]+\d?/ | "A".."F" ["!"] | item ~ 2..3
item: "<"
%import common.NUMBER
%import common.WS
%ignore WS
"""


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("1 + 2\n", True), ("(1.25*xab)\n", True), ("xabé\n", True), ("((1))\n", True),
        ("1.333\n", False), ("x\n", False), ("1 +\n", False), ("1  + 2\n", False), ("1", False),
    ],
)  # fmt: skip
def test_gbnf(text: str, *, good: bool) -> None:
    """Classes, counts, groups, comments and alternatives that go on on the next line."""
    assert accepts(ebnf(ARITHMETIC_GBNF), text) is good


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("1+2", True), ("1 + 2 - 3.5e2", True), ("SiN( 1+  x9 )", True), (" 1", True), ("<<<", True),
        ("B !", True), ("<", False), ("1++2", False), ("", False), ("G", False),
    ],
)  # fmt: skip
def test_lark(text: str, *, good: bool) -> None:
    """Left recursion, regexes, ranges, counts, case-insensitive text, imports and %ignore."""
    assert accepts(ebnf(ARITHMETIC_LARK), text) is good


def test_control_tokens_have_a_spelling() -> None:
    """<name> is the control token of that text, not its characters."""
    automaton = automaton_of(ebnf('root ::= <tool_call> "a" </tool_call>'))
    assert set(automaton.controls(automaton.start)) == {"<tool_call>"}
    assert automaton.walk(automaton.start, b"<tool_call>") == -1


def test_the_start_rule() -> None:
    """GBNF starts at root, Lark at start, others at the first rule; or where the caller says."""
    text = 'other: "x"\nstart: "y"'
    assert accepts(ebnf(text), "y")
    assert accepts(ebnf(text, start="other"), "x")
    assert accepts(ebnf('first: "x"\nsecond: "y"'), "x")
    with pytest.raises(GrammarError, match="nowhere"):
        ebnf(text, start="nowhere")


def test_escapes_are_read() -> None:
    r"""\n \t \" \\ \xHH \uHHHH \UHHHHHHHH in strings and classes."""
    grammar = ebnf(r'root ::= "\"\\\n\x41\u00e9\U0001F600" [\]\\\U0001F600-\U0001F601]')
    assert accepts(grammar, '"\\\nAé😀😁')
    assert accepts(grammar, '"\\\nAé😀]')


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "no rule"),
        ('root ::= "ok"\nnext ::= "a', 2, "unexpected"),
        ('start: "a"\n\nb: ( "a"', 3, "never closed"),
        ('start: "a"\nstart: "b"', 2, "twice"),
        ('root ::= "a"{3,2}', 1, "backwards"),
        ('start: "a"\n  | "b"~20001', 2, "more than 20,000"),
        ('root ::= "a"{1,1000000000000}', 1, "more than 20,000"),
        ('start: "a"\nb: "b"~' + "9" * 4400, 2, "more than 20,000"),
        ("root ::= [z-a]", 1, "out of order"),
        (r'root ::= "\ud800"', 1, "no character"),
        ('start: "b".."a"', 1, "range"),
        ("start: /a(/", 1, "missing"),
        ("start: /a/m", 1, "flags"),
        ('start: "a"i.."z"', 1, "no flag"),
        (r'start: "\q"', 1, "no escape"),
        ('start: "a"\n  | %json {"type": }', 2, "JSON Schema is expected"),
        ('start: %json {"a": 1}\nb: %json {}\nc: ~', 3, "unexpected"),
        ('start: "a"{,}', 1, "no count"),
        ('start: "a"\n%import common.NOPE', 2, "NOPE"),
        ('start: "a"\n%declare X', 2, "%declare"),
        ("start: " + "(" * 5000, 1, "nest"),
        ('start "a"', 1, "expected"),
    ],
)
def test_mistakes_name_their_line(text: str, line: int, message: str) -> None:
    """Every mistake is one GrammarError that says in which line and what."""
    with pytest.raises(GrammarError, match=message) as caught:
        ebnf(text)
    assert caught.value.line == line


def test_counts_go_up_to_the_bound() -> None:
    """A count at the bound is read, however it is spelt."""
    grammar = ebnf('start: "a"~000000020000')
    assert accepts(grammar, "a" * 20_000)
    assert not accepts(grammar, "a" * 19_999)


def test_indirect_left_recursion_is_refused() -> None:
    """Only direct left recursion is rewritten; the rest would never end."""
    with pytest.raises(GrammarError, match="left recursion"):
        ebnf('start: a\na: b "x" | "y"\nb: a "z"')


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("start: /a.[k-m]/is", ["a.k", "A\nL", "a\rM", "A😀\u212a"], ["ab", "b.k", "a..k"]),
        ("start: /straße|σ/iu", ["STRAẞE", "Straße", "ς", "Σ"], ["strasse"]),
        ("start: /[^a]/i", ["b", "É"], ["a", "A"]),
        ('start: "a"{2} "b"{,1} "c"{1,} ("d" | "e"){0,2}', ["aac", "aabccde"], ["aabb", "ac", "aacddd"]),
        ("start: C_COMMENT\n%import common (C_COMMENT, SH_COMMENT)", ["/* a **/", "/***/"], ["/* */ */", "/*/"]),
        ("start: N\n%import common (\n  INT,\n  WS\n)\n%import common.SIGNED_INT -> N", ["-12", "3"], ["+", ""]),
    ],
)  # fmt: skip
def test_flags_counts_and_imports_of_lark(text: str, inside: list[str], outside: list[str]) -> None:
    """Flags of patterns, counts in braces and lists of imports mean what Lark and llguidance give them."""
    grammar = ebnf(text)
    assert [one for one in inside if not accepts(grammar, one)] == []
    assert [one for one in outside if accepts(grammar, one)] == []


def test_a_json_schema_stands_in_a_grammar() -> None:
    """``%json`` is a JSON text by that schema, whatever braces and line ends the schema has."""
    grammar = ebnf("""start: "call " NAME " " args ("; " args)*
NAME: /[a-z]+/
args: %json {
    "type": "object", "properties": {"}": {"enum": ["{\\n", 7]}, "of": {"$ref": "#/$defs/n"}}, "required": ["}"],
    "additionalProperties": false, "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}
}
""")
    assert accepts(grammar, 'call f {"}": 7}')
    assert accepts(grammar, r'call f {"}": "{\n", "of": [[], [[]]]}; {"}": 7}')
    assert not accepts(grammar, 'call f {"}": 8}')
    assert not accepts(grammar, "call f {}")


@pytest.mark.parametrize(
    "text", ['root ::= "a\ud800"', 'start: "a\udfffb"i', 'start: "\ud800".."z"']
)
def test_half_of_a_surrogate_pair_is_no_character(text: str) -> None:
    """A grammar that came as JSON may hold one; it is refused with its line, since no text has it."""
    with pytest.raises(GrammarError, match="line 1: half of a surrogate pair"):
        ebnf(text)


@pytest.mark.parametrize(
    "text", ["start: INT\n%import common (", "start: INT\n%import common (\n  INT,\n\n"]
)
def test_a_list_of_imports_ends(text: str) -> None:
    """One that is not closed is refused with its line, and is not read forever."""
    with pytest.raises(GrammarError, match="line 2: the names of %import are not closed"):
        ebnf(text)
