"""Lexemes whose automata are worn are replaced where they are entered.

Lexemes are shared by all grammars that contain them, and their automata hang on them for as long as
anybody holds them: a module, a grammar that is kept. One that ran into the limit on work would be of no
use to anybody from then on.
"""

from __future__ import annotations

from typing import Any

from callmemaybe.grammar.interning import Node, forget


def fresh(node: Node) -> Node:
    """Return a lexeme to enter: ``node``, or its equal with a new automaton where its own is worn.

    Whoever is inside the old one goes on there: places name the node they are in.
    """
    while node.machine is not None and node.machine.is_worn:
        forget(node)
        node = type(node)(*map(_entered, node._fields))
    return node


def _entered(field: Any) -> Any:
    return fresh(field) if isinstance(field, Node) and field.is_machine else field
