"""The length of the shortest string of a node and of the shortest completion of an item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from callmemaybe.grammar.automata.divisible import Divisible
from callmemaybe.grammar.automata.items import Item
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.nodes import (
    INFINITE,
    Alternation,
    Bytes,
    CaptureMark,
    Chars,
    Concat,
    Control,
    DfaTable,
    Difference,
    Intersection,
    Lexeme,
    Literal,
    Node,
    Ref,
    Repeat,
    Substrings,
    WordTrie,
    set_min_length,
)
from callmemaybe.grammar.unordered import MemberKeys, RemainingCost, Unordered

_PAIRS = (Intersection, Difference)


class Measured(Protocol):
    """An automaton whose shortest length is known."""

    @property
    def min_length(self) -> float:
        """Symbols of its shortest string."""


def min_length(
    node: Node,
    rule_min_lengths: Mapping[str, float],
    machine: Callable[[Node], Measured],
    memory: dict[Node, float] | None = None,
) -> float:
    """Return the symbols of the shortest string of ``node``, given those of the rules (missing: infinite).

    ``machine`` returns the automaton of nodes whose length a search must find. Iterative (post-order),
    because schemas may nest a thousand levels deep. A length that depends on no rule is stored on the node,
    the others in ``memory`` (valid for these rules only).
    """
    if node.min_length is not None:
        return node.min_length
    open_lengths: dict[Node, float] = {} if memory is None else memory
    if (known := open_lengths.get(node)) is not None:
        return known
    stack = [node]
    while stack:
        current = stack[-1]
        if current.min_length is not None or current in open_lengths:
            stack.pop()
            continue
        children = () if isinstance(current, _PAIRS) else current.children
        # Children of unknown length must be computed first.
        unknown = [child for child in children if child.min_length is None]
        missing = [child for child in unknown if child not in open_lengths]
        if missing:
            stack += missing
            continue
        stack.pop()
        length = _min_length_step(current, open_lengths, rule_min_lengths, machine)
        if unknown or type(current) is Ref:
            open_lengths[current] = length
        else:
            set_min_length(current, length)
    return open_lengths[node] if node in open_lengths else known_min_length(node)


def known_min_length(node: Node) -> float:
    """Return ``node.min_length`` after :func:`min_length` has computed it."""
    if node.min_length is None:
        raise TypeError(f"the length of {node!r} is not known yet")
    return node.min_length


def _min_length_step(
    node: Node,
    known: Mapping[Node, float],
    rules: Mapping[str, float],
    machine: Callable[[Node], Measured],
) -> float:
    def of(child: Node) -> float:
        return child.min_length if child.min_length is not None else known[child]

    kind = type(node)
    if kind is Concat:
        return sum(
            [known[part] if part.min_length is None else part.min_length for part in node.children]
        )
    if kind is Ref:
        return rules.get(node._fields[0], INFINITE)
    match node:
        case Literal():
            return len(node.data)
        case Bytes() | Control():
            return 1
        case CaptureMark():
            return 0
        case Alternation():
            return min((of(o) for o in node.options), default=INFINITE)
        case Repeat():
            return 0 if node.at_least == 0 else of(node.body) * node.at_least
        case Unordered():
            return RemainingCost(node, of).total
        case MemberKeys():
            return min(key_costs(node, of), default=INFINITE)
        case WordTrie():
            then = node.tails
            return min(len(w) + (of(then[i]) if then else 0) for i, w in enumerate(node.words))
        case Lexeme():
            return of(node.body)
        case Chars():
            return of(node.encoded)
        case Intersection() | Difference() | Substrings() | DfaTable() | Divisible():
            return machine(node).min_length
    raise TypeError(f"unknown node {node!r}")


def key_costs(pick: MemberKeys, min_length: Callable[[Node], float]) -> list[float]:
    """Return for each key the symbols of the shortest text of the key and all that follows."""
    cost, values = RemainingCost(pick.unordered, min_length), pick.unordered.members.values
    return [
        len(word) + min_length(values[index]) + cost.after(index)
        for word, index in zip(pick.words, pick.indices, strict=True)
    ]


def min_remaining(
    item: Item, min_length: Callable[[Node], float], machine: Callable[[Node], Automaton]
) -> float:
    """Return the fewest symbols from an item to the end of the grammar."""
    leaf, position, rest = item
    behind: float = rest.min_length if rest else 0
    if isinstance(leaf, Literal):
        return behind + len(leaf.data) - int(position)
    if isinstance(leaf, Bytes | Control):
        return 1 + behind
    if isinstance(leaf, WordTrie):
        low, high, depth = position
        if isinstance(leaf, MemberKeys):
            return behind + min(key_costs(leaf, min_length)[low:high]) - int(depth)
        then = leaf.tails
        if not then:
            nearest: float = min(map(len, leaf.words[low:high]))
        else:
            nearest = min(len(leaf.words[i]) + min_length(then[i]) for i in range(low, high))
        return behind + nearest - int(depth)
    return machine(leaf).min_remaining(position) + behind
