"""Two slow, obvious readers of grammars, to hold the fast ones to.

`accepts` matches the node tree itself, by sets of positions, without any automaton. `sample` walks an
automaton at random to an accepting end.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from callmemaybe.grammar.automata.divisible import Divisible
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.grammar import (
    Alternation,
    Bytes,
    CaptureMark,
    Chars,
    Concat,
    DfaTable,
    Difference,
    Grammar,
    Intersection,
    Lexeme,
    Literal,
    Node,
    Ref,
    Repeat,
    WordTrie,
    bytes_of,
)


def accepts(grammar: Grammar | Node, text: bytes) -> bool:
    """Whether a text is in the language of a grammar, read off its tree."""
    root, rules = (grammar, {}) if isinstance(grammar, Node) else (grammar.root, grammar.rules)
    return len(text) in _Reader(rules, text).ends(root, 0)


class _Reader:
    def __init__(self, rules: Mapping[str, Node], text: bytes) -> None:
        self._rules = rules
        self._text = text
        self._memory: dict[tuple[Node, int], frozenset[int]] = {}

    def ends(self, node: Node, start: int) -> frozenset[int]:
        """Return where a match of the node that starts at an offset may end."""
        key = (node, start)
        if key not in self._memory:
            self._memory[key] = frozenset(self._ends(node, start))
        return self._memory[key]

    def _ends(self, node: Node, start: int) -> set[int]:
        text = self._text
        match node:
            case Literal():
                return {start + len(node.data)} if text.startswith(node.data, start) else set()
            case Bytes():
                return {start + 1} if start < len(text) and node.mask >> text[start] & 1 else set()
            case Chars():
                return set(self.ends(node.encoded, start))
            case CaptureMark():
                return {start}
            case Ref():
                return set(self.ends(self._rules[node.name], start))
            case Lexeme():
                return set(self.ends(node.body, start))
            case Divisible():
                numeral = re.match(rb"-?(?:0|[1-9][0-9]*)", text[start:])
                ends = range(1, numeral.end() + 1) if numeral else ()
                return {start + end for end in ends if _divides(node, text[start : start + end])}
            case Intersection():
                return set(self.ends(node.left, start) & self.ends(node.right, start))
            case Difference():
                return set(self.ends(node.left, start) - self.ends(node.right, start))
            case Alternation():
                return {end for option in node.options for end in self.ends(option, start)}
            case Concat():
                reached = {start}
                for part in node.parts:
                    reached = {end for at in reached for end in self.ends(part, at)}
                return reached
            case WordTrie():
                found: set[int] = set()
                for index, word in enumerate(node.words):
                    if text.startswith(word, start):
                        end = start + len(word)
                        found |= self.ends(node.tails[index], end) if node.tails else {end}
                return found
            case Repeat():
                return self._repeated(node, start)
            case DfaTable():
                return self._table(node, start)
        raise TypeError(f"unknown node {node!r}")

    def _repeated(self, node: Repeat, start: int) -> set[int]:
        reached, found = {start}, {start} if node.at_least == 0 else set()
        count, seen = 0, set()
        while reached and (node.at_most is None or count < node.at_most):
            reached = {end for at in reached for end in self.ends(node.body, at)}
            count += 1
            if count >= node.at_least:
                if reached <= seen:
                    break
                seen |= reached
                found |= reached
        return found

    def _table(self, node: DfaTable, start: int) -> set[int]:
        state, found = 0, {start} if 0 in node.accepting else set()
        for at in range(start, len(self._text)):
            targets = [t for mask, t in node.rows[state] if mask >> self._text[at] & 1]
            if not targets:
                break
            (state,) = targets
            if state in node.accepting:
                found.add(at + 1)
        return found


def _divides(node: Divisible, digits: bytes) -> bool:
    if digits == b"-":
        return False
    number = int(digits)
    above = node.low is None or number >= node.low
    return above and (node.high is None or number <= node.high) and number % node.step == 0


def sample(automaton: Automaton, dice: random.Random, *, length: int = 60) -> bytes:
    """Return a random text of the language; after ``length`` bytes it takes the shortest way out."""
    state, text = automaton.start, bytearray()
    while True:
        edges = automaton.edges(state)
        if automaton.is_accepting(state) and (
            not edges or len(text) > length or dice.random() < 0.3
        ):
            return bytes(text)
        if len(text) > length:
            nearest = automaton.min_remaining(state) - 1
            edges = tuple(edge for edge in edges if automaton.min_remaining(edge[1]) == nearest)
        mask, state = dice.choice(edges)
        text.append(dice.choice(list(bytes_of(mask))))
