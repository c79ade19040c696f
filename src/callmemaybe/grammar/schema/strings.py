"""JSON strings of a facet: any spelling where it does not matter, json.dumps's where it does."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from callmemaybe.grammar.characters import JSON_CANONICAL_CHARACTER, JSON_CHARACTER, text_of
from callmemaybe.grammar.nodes import NOTHING, Both, Except, Node, lexeme, words
from callmemaybe.grammar.schema.shapes import Pattern, String
from callmemaybe.grammar.schema.values import can_be_written, quoted
from callmemaybe.grammar.tree import machine_of

#: Any JSON string / any JSON string spelled as json.dumps(ensure_ascii=False) does.
ANY_STRING = lexeme(text_of(JSON_CHARACTER))
PLAIN_STRING = lexeme(text_of(JSON_CANONICAL_CHARACTER))


@lru_cache(maxsize=256)
def of_length(least: int, most: int | None, character: Node = JSON_CHARACTER) -> Node:
    """Return the JSON strings of some lengths, counted in characters."""
    return lexeme(text_of(character, least, most))


def string_node(facet: String | None, but: Mapping[Any, Any]) -> Node:
    """Return the JSON strings that a facet allows, without some values."""
    if facet is None:
        facet = String()
    excluded = [value for value in but.values() if isinstance(value, str)]
    counted = facet.least > 0 or facet.most is not None
    if not facet.within and not facet.without and not excluded:
        return of_length(facet.least, facet.most) if counted else ANY_STRING
    if facet.most is not None and facet.most < facet.least:
        return NOTHING
    node = PLAIN_STRING
    for index, within in enumerate(facet.within):
        node = Both(node, within) if index else within
    if counted:
        node = Both(node, of_length(facet.least, facet.most, JSON_CANONICAL_CHARACTER))
    for without in facet.without:
        node = Except(node, without)
    return without_words(node, excluded)


def without_words(node: Node, texts: list[str]) -> Node:
    """Return a language of JSON strings (spelled plainly) without some of them."""
    written = [quoted(text) for text in texts if can_be_written(text)]
    return Except(node, lexeme(words(written))) if written else node


def matches(pattern: Pattern, text: str) -> bool:
    """Whether a key matches a pattern."""
    return has(pattern.node, text)


def has(node: Node, text: str) -> bool:
    """Whether a language of JSON strings has a text, spelled plainly."""
    if not can_be_written(text):
        return False
    machine = machine_of(node)
    state = machine.walk(machine.start, quoted(text).encode())
    return state >= 0 and machine.is_accepting(state)
