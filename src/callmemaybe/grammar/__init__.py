"""Languages over bytes: how they are written down, compiled and exported.

The problem: before each token, a decoder must know which bytes can still lead to a complete output. A
`Grammar` is a tree of immutable, hash-consed nodes (`nodes.py`) with named rules; front ends build it from a
JSON Schema (`json_schema/`), a regular expression (`regex.py`) or a grammar in GBNF or Lark (`ebnf.py`).
`compile` turns it into an `Automaton`: a deterministic automaton over bytes and control tokens whose states
are interned integers and are built only when they are visited (`automata/`).

The room is pure: no clock, no randomness, no file, no thread. It does not know tokens, vocabularies, models,
wire formats or tools.
"""

from callmemaybe.grammar.automaton import Automaton, Captured
from callmemaybe.grammar.compile import compile  # noqa: A004 - the name of the contract, as re.compile
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.grammar.json_schema import GroundingSource, json_schema, json_schema_node
from callmemaybe.grammar.regex import regex

__all__ = [
    "Automaton",
    "Captured",
    "Grammar",
    "GroundingSource",
    "compile",
    "json_schema",
    "json_schema_node",
    "regex",
]
