"""Languages over bytes: trees, front ends that build them, automata that read them.

This room knows no token, no model and no tool. Everything in it is pure: no clock, no randomness,
no file, no thread.
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
