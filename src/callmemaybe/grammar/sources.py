"""What lexemes were made of (a pattern, say), so that an error of their automata can name it."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from callmemaybe.grammar.nodes import Node

_SOURCES: WeakKeyDictionary[Node, str] = WeakKeyDictionary()


def made_of(source: str, node: Node) -> Node:
    """Note what a node was made of, and return the node."""
    _SOURCES.setdefault(node, source)
    return node


def source_of(node: Node) -> str:
    """Return what a node was made of; empty if that was not noted."""
    return _SOURCES.get(node, "")
