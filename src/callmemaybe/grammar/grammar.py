"""A grammar: a root node and the rules it refers to, validated once and then immutable.

This module also re-exports the nodes and the functions that build them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from callmemaybe.errors import GrammarError
from callmemaybe.grammar.automata.tree import min_length_of
from callmemaybe.grammar.nodes import (
    ALL_BYTES,
    EMPTY,
    INFINITE,
    NOTHING,
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
    alt,
    byte_range,
    byte_set,
    bytes_of,
    capture,
    from_mask,
    lexeme,
    lit,
    many,
    opt,
    repeat,
    seq,
    some,
    substring_of,
    words,
    words_then,
)
from callmemaybe.grammar.report import GrammarReport, report

__all__ = [
    "ALL_BYTES",
    "EMPTY",
    "INFINITE",
    "NOTHING",
    "Alternation",
    "Bytes",
    "CaptureMark",
    "Chars",
    "Concat",
    "Control",
    "DfaTable",
    "Difference",
    "Grammar",
    "Intersection",
    "Lexeme",
    "Literal",
    "Node",
    "Ref",
    "Repeat",
    "Substrings",
    "WordTrie",
    "alt",
    "byte_range",
    "byte_set",
    "bytes_of",
    "capture",
    "from_mask",
    "lexeme",
    "lit",
    "many",
    "min_length_of",
    "opt",
    "repeat",
    "seq",
    "some",
    "substring_of",
    "words",
    "words_then",
]


class Grammar:
    """A root node and the rules it refers to; validated once, then immutable.

    Raises GrammarError for a reference to a missing rule, a rule that can call itself without consuming
    anything (left recursion), and a language without any string.
    """

    __slots__ = ("_keywords", "min_lengths", "root", "rules")

    root: Node
    rules: Mapping[str, Node]
    min_lengths: Mapping[str, float]
    """Fewest symbols of each rule."""

    def __init__(
        self,
        root: Node,
        rules: Mapping[str, Node] | None = None,
        *,
        keywords: Callable[[], Sequence[tuple[str, str, str, str]]] | None = None,
    ) -> None:
        """Take ``root`` and the rules it reaches (others are dropped).

        ``keywords`` returns the treatment of each keyword of the schema, for the report.
        """
        self._keywords = keywords
        self.root = root
        if min_length_of(root, {}) < INFINITE and root.min_length is not None:
            self.rules, self.min_lengths = _NO_RULES, _NO_LENGTHS
            return
        reached = _reachable(root, rules or {})
        self.rules = MappingProxyType(reached)
        self.min_lengths = MappingProxyType(_min_lengths(reached))
        _refuse_left_recursion(reached, self.min_lengths)
        if self.min_length(root) == INFINITE:
            raise GrammarError(
                "the grammar allows no finite string", hint="check for rules without an end"
            )

    def min_length(self, node: Node) -> float:
        """Return the symbols of the shortest string of ``node``; infinite for the empty language."""
        return min_length_of(node, self.min_lengths)

    def report(self) -> GrammarReport:
        """Measure the language, and list how every keyword of the schema was treated."""
        keywords = self._keywords() if self._keywords is not None else ()
        return report(self.root, self.rules, self.min_lengths, keywords)

    def __repr__(self) -> str:
        return f"Grammar({self.root!r}, rules={dict(self.rules)!r})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Grammar) and (self.root is other.root) and self.rules == other.rules
        )

    def __hash__(self) -> int:
        return hash((self.root, tuple(sorted((k, id(v)) for k, v in self.rules.items()))))


# A node whose length is known depends on no rule.
_NO_RULES: Mapping[str, Node] = MappingProxyType({})
_NO_LENGTHS: Mapping[str, float] = MappingProxyType({})


def _reachable(root: Node, rules: Mapping[str, Node]) -> dict[str, Node]:
    reached: dict[str, Node] = {}
    seen: set[Node] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node.min_length is not None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, Ref) and node.name not in reached:
            if node.name not in rules:
                raise GrammarError(f"rule {node.name!r} is used but not defined")
            reached[node.name] = rules[node.name]
            stack.append(rules[node.name])
        stack.extend(node.children)
    return reached


def _min_lengths(rules: Mapping[str, Node]) -> dict[str, float]:
    min_lengths = dict.fromkeys(rules, INFINITE)
    users: dict[str, list[str]] = {name: [] for name in rules}
    for user, node in rules.items():
        for name in _refs(node):
            users[name].append(user)
    # Later rules were mostly reached from earlier ones, so the last come first.
    waiting = dict.fromkeys(rules)
    while waiting:
        name, _ = waiting.popitem()
        value = min_length_of(rules[name], min_lengths)
        if value < min_lengths[name]:
            min_lengths[name] = value
            waiting.update(dict.fromkeys(users[name]))
    return min_lengths


def _refs(node: Node) -> set[str]:
    """Return the names of the rules that a node refers to."""
    found: set[str] = set()
    seen: set[Node] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if type(current) is Ref:
            found.add(current.name)
        elif current.min_length is None and current not in seen:
            seen.add(current)
            stack.extend(current.children)
    return found


def _refuse_left_recursion(rules: Mapping[str, Node], min_lengths: Mapping[str, float]) -> None:
    """Refuse a rule that reaches itself before any symbol: its expansion would not end."""
    first: dict[str, set[str]] = {
        name: set(_leading_refs(node, min_lengths)) for name, node in rules.items()
    }
    done: set[str] = set()
    for origin, leading in first.items():
        path: dict[str, Iterator[str]] = {origin: iter(leading)}
        while path:
            name, onward = next(reversed(path.items()))
            target = next(onward, None)
            if target is None:
                done.add(name)
                del path[name]
            elif target in path:
                raise GrammarError(
                    f"rule {target!r} can call itself without consuming anything (left recursion)",
                    hint="write the repetition with * or +",
                )
            elif target not in done:
                path[target] = iter(first[target])


def _leading_refs(node: Node, min_lengths: Mapping[str, float]) -> Iterator[str]:
    stack, seen = [node], set()
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        if isinstance(current, Ref):
            yield current.name
        elif isinstance(current, Concat):
            for part in current.parts:
                stack.append(part)
                if min_length_of(part, min_lengths) > 0:
                    break
        elif isinstance(current, Alternation | Repeat | Lexeme):
            stack.extend(current.children)
        elif isinstance(current, WordTrie) and current.tails and b"" in current.words:
            stack.append(current.tails[current.words.index(b"")])
