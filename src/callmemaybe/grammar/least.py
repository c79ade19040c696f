"""How long the shortest string of a node is, from its structure alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.divisible import Divisible
from callmemaybe.grammar.interning import set_least
from callmemaybe.grammar.nodes import (
    INFINITE,
    Both,
    Bytes,
    Chars,
    Choice,
    Control,
    Except,
    Lexeme,
    Literal,
    Mark,
    Names,
    Node,
    Ref,
    Repeat,
    Sequence,
    Substrings,
    Table,
    Words,
)
from callmemaybe.grammar.places import Place
from callmemaybe.grammar.unordered import Cost, Pick, Unordered

_PAIRS = (Both, Except)


class Machine(Protocol):
    """Whatever has searched a node."""

    @property
    def least(self) -> float:
        """Fewest symbols of any string of it."""


def shortest(
    node: Node,
    rule_lengths: Mapping[str, float],
    machine: Callable[[Node], Machine],
    memory: dict[Node, float] | None = None,
) -> float:
    """Fewest symbols of any string of ``node``, given those of the rules (missing: infinite).

    ``machine`` searches the nodes of which the structure alone does not tell. Iterative (post-order), because schemas may nest a thousand levels deep. What does not depend
    on a rule is remembered on the node itself, the rest in ``memory`` (of these rules only).
    """
    if node.least is not None:
        return node.least
    open_lengths: dict[Node, float] = {} if memory is None else memory
    if (known := open_lengths.get(node)) is not None:
        return known
    stack = [node]
    while stack:
        current = stack[-1]
        if current.least is not None or current in open_lengths:
            stack.pop()
            continue
        children = () if isinstance(current, _PAIRS) else current.children
        # Those of unknown length, which are known here or are to be found first.
        unknown = [child for child in children if child.least is None]
        missing = [child for child in unknown if child not in open_lengths]
        if missing:
            stack += missing
            continue
        stack.pop()
        length = _least_step(current, open_lengths, rule_lengths, machine)
        if unknown or type(current) is Ref:
            open_lengths[current] = length
        else:
            set_least(current, length)
    return open_lengths[node] if node in open_lengths else known_least(node)


def known_least(node: Node) -> float:
    """Return ``node.least`` of a node for which :func:`shortest` has found it."""
    if node.least is None:
        raise TypeError(f"the length of {node!r} is not known yet")
    return node.least


def _least_step(
    node: Node,
    known: Mapping[Node, float],
    rules: Mapping[str, float],
    machine: Callable[[Node], Machine],
) -> float:
    def of(child: Node) -> float:
        return child.least if child.least is not None else known[child]

    kind = type(node)
    if kind is Sequence:
        return sum([known[part] if part.least is None else part.least for part in node.children])
    if kind is Ref:
        return rules.get(node._fields[0], INFINITE)
    match node:
        case Literal():
            return len(node.data)
        case Bytes() | Control():
            return 1
        case Mark():
            return 0
        case Choice():
            return min((of(o) for o in node.options), default=INFINITE)
        case Repeat():
            return 0 if node.at_least == 0 else of(node.body) * node.at_least
        case Unordered():
            return Cost(node, of).total
        case Pick():
            return min(costs(node, of), default=INFINITE)
        case Words():
            then = node.then
            return min(len(w) + (of(then[i]) if then else 0) for i, w in enumerate(node.words))
        case Lexeme():
            return of(node.body)
        case Chars():
            return of(node.spelled)
        case Both() | Except() | Substrings() | Table() | Names() | Divisible():
            return machine(node).least
    raise TypeError(f"unknown node {node!r}")


def costs(pick: Pick, least: Callable[[Node], float]) -> list[float]:
    """Return for each key the fewest symbols of it and of all that follows."""
    cost, values = Cost(pick.unfolded, least), pick.unfolded.members.values
    return [
        len(word) + least(values[index]) + cost.after(index)
        for word, index in zip(pick.words, pick.indices, strict=True)
    ]


def way_out(
    place: Place, least: Callable[[Node], float], machine: Callable[[Node], Automaton]
) -> float:
    """Return the fewest symbols from a place to the end of the grammar."""
    leaf, position, rest = place
    behind: float = rest.least if rest else 0
    if isinstance(leaf, Literal):
        return behind + len(leaf.data) - int(position)
    if isinstance(leaf, Bytes | Control):
        return 1 + behind
    if isinstance(leaf, Words):
        low, high, depth = position
        if isinstance(leaf, Pick):
            return behind + min(costs(leaf, least)[low:high]) - int(depth)
        then = leaf.then
        nearest: float = min(
            len(leaf.words[i]) - depth + (least(then[i]) if then else 0) for i in range(low, high)
        )
        return behind + nearest
    return machine(leaf).distance(position) + behind
