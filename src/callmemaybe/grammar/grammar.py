"""A grammar: a root node and the rules it refers to, validated once and then immutable.

The nodes and the functions that build them (``nodes.py``) are part of this module's face.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Sequence_
from types import MappingProxyType

from callmemaybe.errors import GrammarError
from callmemaybe.grammar.nodes import (
    ALL_BYTES,
    EMPTY,
    INFINITE,
    NOTHING,
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
from callmemaybe.grammar.report import Report, report
from callmemaybe.grammar.tree import least_of

__all__ = [
    "ALL_BYTES",
    "EMPTY",
    "INFINITE",
    "NOTHING",
    "Both",
    "Bytes",
    "Chars",
    "Choice",
    "Control",
    "Except",
    "Grammar",
    "Lexeme",
    "Literal",
    "Mark",
    "Names",
    "Node",
    "Ref",
    "Repeat",
    "Sequence",
    "Substrings",
    "Table",
    "Words",
    "alt",
    "byte_range",
    "byte_set",
    "bytes_of",
    "capture",
    "from_mask",
    "least_of",
    "lexeme",
    "lit",
    "many",
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

    Raises GrammarError for a reference to a missing rule, a rule that can call itself without
    consuming anything (left recursion), and a language without any string.
    """

    __slots__ = ("_keywords", "lengths", "root", "rules")

    root: Node
    rules: Mapping[str, Node]
    lengths: Mapping[str, float]
    """Fewest symbols of each rule."""

    def __init__(
        self,
        root: Node,
        rules: Mapping[str, Node] | None = None,
        *,
        keywords: Callable[[], Sequence_[tuple[str, str, str, str]]] | None = None,
    ) -> None:
        """Take ``root`` and the rules it reaches (others are dropped).

        ``keywords`` says what became of the schema this was made of, if the report is asked for.
        """
        self._keywords = keywords
        self.root = root
        if least_of(root, {}) < INFINITE and root.least is not None:
            self.rules, self.lengths = _NO_RULES, _NO_LENGTHS
            return
        reached = _reachable(root, rules or {})
        self.rules = MappingProxyType(reached)
        self.lengths = MappingProxyType(_least_lengths(reached))
        _refuse_left_recursion(reached, self.lengths)
        if self.least(root) == INFINITE:
            raise GrammarError(
                "the grammar allows no finite string", hint="check for rules without an end"
            )

    def least(self, node: Node) -> float:
        """Fewest symbols of any string of ``node``; infinite for the empty language."""
        return least_of(node, self.lengths)

    def report(self) -> Report:
        """Measure the language, and say what became of every keyword of the schema."""
        keywords = self._keywords() if self._keywords is not None else ()
        return report(self.root, self.rules, self.lengths, keywords)

    def __repr__(self) -> str:
        return f"Grammar({self.root!r}, rules={dict(self.rules)!r})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Grammar) and (self.root is other.root) and self.rules == other.rules
        )

    def __hash__(self) -> int:
        return hash((self.root, tuple(sorted((k, id(v)) for k, v in self.rules.items()))))


# A node that knows its length depends on no rule.
_NO_RULES: Mapping[str, Node] = MappingProxyType({})
_NO_LENGTHS: Mapping[str, float] = MappingProxyType({})


def _reachable(root: Node, rules: Mapping[str, Node]) -> dict[str, Node]:
    reached: dict[str, Node] = {}
    seen: set[Node] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node.least is not None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, Ref) and node.name not in reached:
            if node.name not in rules:
                raise GrammarError(f"rule {node.name!r} is used but not defined")
            reached[node.name] = rules[node.name]
            stack.append(rules[node.name])
        stack.extend(node.children)
    return reached


def _least_lengths(rules: Mapping[str, Node]) -> dict[str, float]:
    lengths = dict.fromkeys(rules, INFINITE)
    users: dict[str, list[str]] = {name: [] for name in rules}
    for user, node in rules.items():
        for name in _refs(node):
            users[name].append(user)
    # Those that others refer to were mostly reached behind these, so they come first.
    waiting = dict.fromkeys(rules)
    while waiting:
        name, _ = waiting.popitem()
        value = least_of(rules[name], lengths)
        if value < lengths[name]:
            lengths[name] = value
            waiting.update(dict.fromkeys(users[name]))
    return lengths


def _refs(node: Node) -> set[str]:
    """Return the names of the rules that a node refers to."""
    found: set[str] = set()
    seen: set[Node] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if type(current) is Ref:
            found.add(current.name)
        elif current.least is None and current not in seen:
            seen.add(current)
            stack.extend(current.children)
    return found


def _refuse_left_recursion(rules: Mapping[str, Node], lengths: Mapping[str, float]) -> None:
    """Refuse a rule that reaches itself before any symbol: it would be expanded for ever."""
    first: dict[str, set[str]] = {
        name: set(_leading_refs(node, lengths)) for name, node in rules.items()
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


def _leading_refs(node: Node, lengths: Mapping[str, float]) -> Iterator[str]:
    stack, seen = [node], set()
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        if isinstance(current, Ref):
            yield current.name
        elif isinstance(current, Sequence):
            for part in current.parts:
                stack.append(part)
                if least_of(part, lengths) > 0:
                    break
        elif isinstance(current, Choice | Repeat | Lexeme):
            stack.extend(current.children)
        elif isinstance(current, Words) and current.then and b"" in current.words:
            stack.append(current.then[current.words.index(b"")])
