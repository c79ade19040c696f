"""Lexemes whose automata are worn are replaced where they are entered.

Lexemes are shared by all grammars that contain them, and their automata hang on them for as long as
anybody holds them: a module, a grammar that is kept. One that ran into the limit on work would be of no
use to anybody from then on.
"""

from __future__ import annotations

from callmemaybe.grammar.interning import Node


def fresh(node: Node) -> Node:
    """Return a lexeme to enter: ``node``, or its equal with a new automaton where its own is worn.

    Whoever is inside the old one goes on there: places name the node they are in.
    """
    while node.machine is not None and node.machine.is_worn:
        fields = tuple(
            fresh(field) if isinstance(field, Node) and field.is_machine else field
            for field in node._fields
        )
        key = (type(node), *fields)
        interned = Node._interned  # noqa: SLF001
        held = interned.get(key)
        if held is not None and held() is node:
            interned.pop(key, None)
        node = type(node)(*fields)
    return node
