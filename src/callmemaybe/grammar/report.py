"""Measures of a language: states, shortest and longest text, and how much of a text is forced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callmemaybe.grammar.automata.tree import TreeAutomaton, machine_of, min_length_of
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.nodes import (
    INFINITE,
    NOTHING,
    Alternation,
    Bytes,
    CaptureMark,
    Chars,
    Concat,
    Control,
    Difference,
    Intersection,
    Lexeme,
    Literal,
    Node,
    Ref,
    Repeat,
    WordTrie,
)
from callmemaybe.grammar.unordered import Unordered

#: States explored of one automaton.
MAX_STATES = 10_000


@dataclass(frozen=True, slots=True)
class AutomatonSize:
    """The states and edges found; ``is_whole``: there are no others."""

    states: int
    edges: int
    is_whole: bool


def size_of(automaton: Automaton, max_states: int = MAX_STATES) -> AutomatonSize:
    """Explore an automaton breadth first, up to ``max_states`` states (recursion has no end of them)."""
    seen = {automaton.start}
    level = [automaton.start]
    edges = 0
    while level:
        following = []
        for state in level:
            targets = [target for _, target in automaton.edges(state)]
            targets += automaton.controls(state).values()
            edges += len(targets)
            for target in targets:
                if target not in seen:
                    if len(seen) == max_states:
                        return AutomatonSize(max_states, edges, False)
                    seen.add(target)
                    following.append(target)
        level = following
    return AutomatonSize(len(seen), edges, True)


@dataclass(frozen=True, slots=True)
class ForcedShare:
    """The symbols of one of the shortest texts, and how many of them had no alternative."""

    symbols: int
    forced: int

    @property
    def share(self) -> float:
        """The share of forced symbols; 1 for the empty text."""
        return self.forced / self.symbols if self.symbols else 1.0


def forced_of(automaton: Automaton) -> ForcedShare:
    """Walk along a shortest text and count the symbols (bytes, control tokens) without an alternative.

    Where several symbols begin a shortest completion, the lowest byte of the first edge is taken.
    """
    state, symbols, forced = automaton.start, 0, 0
    while not automaton.is_accepting(state):
        edges, controls = automaton.edges(state), automaton.controls(state)
        alone = len(edges) + len(controls) == 1 and (not edges or edges[0][0].bit_count() == 1)
        targets = [target for _, target in edges] + list(controls.values())
        state = min(targets, key=automaton.min_remaining)
        symbols += 1
        forced += alone
    return ForcedShare(symbols, forced)


def max_length(root: Node, rules: Mapping[str, Node], lengths: Mapping[str, float]) -> float | None:
    """Return the symbols of the longest text of a node; infinite without a limit.

    None if that would take the exploration of an automaton of more than MAX_STATES states.
    """
    return _MaxLength(rules, lengths).of(root)


class _MaxLength:
    def __init__(self, rules: Mapping[str, Node], lengths: Mapping[str, float]) -> None:
        self._rules = rules
        self._lengths = lengths
        self._known: dict[Node, float | None] = {}

    def of(self, root: Node) -> float | None:
        """Compute with an explicit stack: schemas may nest a thousand levels deep."""
        stack = [(root, False)]
        inside: set[Node] = set()
        while stack:
            node, ready = stack.pop()
            if node in self._known:
                continue
            if ready:
                inside.discard(node)
                self._known[node] = self._step(node)
                continue
            if node in inside:
                continue  # a recursive rule; _step finds no length for it yet
            inside.add(node)
            stack.append((node, True))
            below = (self._rules[node.name],) if isinstance(node, Ref) else self._below(node)
            stack.extend((child, False) for child in below if self._is_live(child))
        return self._known[root]

    @staticmethod
    def _below(node: Node) -> tuple[Node, ...]:
        return () if isinstance(node, Intersection | Difference) else node.children

    def _is_live(self, node: Node) -> bool:
        return min_length_of(node, self._lengths) < INFINITE

    def _at(self, node: Node) -> float | None:
        """Return the known length of a node; infinite for a recursive rule."""
        return self._known.get(node, INFINITE)

    def _step(self, node: Node) -> float | None:
        match node:
            case Literal():
                return len(node.data)
            case Bytes() | Control():
                return 1
            case CaptureMark():
                return 0
            case Ref():
                return self._at(self._rules[node.name])
            case Concat():
                return _total([self._at(part) for part in node.parts])
            case Alternation():
                return _most([self._at(o) for o in node.options if self._is_live(o)])
            case Repeat():
                inner = self._at(node.body) if self._is_live(node.body) else 0
                if inner in (None, 0):
                    return inner
                return INFINITE if node.at_most is None else inner * node.at_most
            case WordTrie():
                then = [self._at(n) if self._is_live(n) else None for n in node.tails]
                if not then:
                    return max(map(len, node.words))
                pairs = zip(node.words, then, node.tails, strict=True)
                return _most([_total([len(w), n]) for w, n, x in pairs if self._is_live(x)])
            case Lexeme():
                return self._at(node.body)
            case Chars():
                return self._at(node.encoded)
            case Unordered():
                return self._unordered(node)
        return _longest_path(machine_of(node))

    def _unordered(self, node: Unordered) -> float | None:
        members = node.members
        comma = self._at(members.comma)
        must: list[float | None] = []
        may: list[float | None] = []
        for index, (key, value) in enumerate(zip(members.keys, members.values, strict=True)):
            if self._is_live(value):
                written = _total([comma, len(key), self._at(value)])
                (must if members.required >> index & 1 else may).append(written)
        if node.last_is_due:
            must.append(_total([comma, self._at(members.last)]))
        if members.extra is not NOTHING:
            if node.at_most is None:
                return INFINITE
            may += [_total([comma, self._at(members.extra)])] * node.at_most
        if None in may or None in must or comma is None:
            return None
        room = len(may) if node.at_most is None else max(node.at_most - len(must), 0)
        best = sorted((length for length in may if length is not None), reverse=True)[:room]
        total = _total([*must, *best])
        return total if total is None else max(total - comma, 0)


def _total(lengths: list[float | None]) -> float | None:
    if INFINITE in lengths:
        return INFINITE
    return None if None in lengths else sum(length or 0 for length in lengths)


def _most(lengths: list[float | None]) -> float | None:
    if INFINITE in lengths:
        return INFINITE
    return None if None in lengths else max((length or 0 for length in lengths), default=0)


def _longest_path(machine: Automaton) -> float | None:
    """Return the longest path of an automaton in which every state leads to an end."""
    if not size_of(machine).is_whole:
        return None
    lengths: dict[int, float] = {}
    inside: set[int] = set()
    stack = [(machine.start, False)]
    while stack:
        state, ready = stack.pop()
        if state in lengths:
            continue
        targets = [target for _, target in machine.edges(state)]
        if ready:
            inside.discard(state)
            lengths[state] = max((lengths.get(t, INFINITE) + 1 for t in targets), default=0)
            continue
        inside.add(state)
        stack.append((state, True))
        if any(target in inside for target in targets):
            return INFINITE
        stack.extend((target, False) for target in targets)
    return lengths[machine.start]


@dataclass(frozen=True, slots=True)
class GrammarReport:
    """The result of :meth:`Grammar.report`. Lengths are in symbols: bytes, and control tokens as one each.

    ``keywords``: one row (pointer, keyword, how, why) for each keyword of the schema; empty for other
    grammars. ``size``: the states of the automaton. ``min_symbols``, ``max_symbols``: symbols of the shortest
    and the longest text; the latter is infinite without a limit, None if it is too expensive to find.
    ``forced``: the symbols of a shortest text that have no alternative.
    """

    keywords: Sequence[tuple[str, str, str, str]]
    size: AutomatonSize
    min_symbols: int
    max_symbols: float | None
    forced: ForcedShare

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON data; "most" is null without a limit, "unknown" if it was not found."""
        max_symbols: int | str | None = "unknown" if self.max_symbols is None else None
        if self.max_symbols is not None and self.max_symbols < INFINITE:
            max_symbols = int(self.max_symbols)
        return {
            "keywords": [
                dict(zip(("pointer", "keyword", "how", "why"), row, strict=True))
                for row in self.keywords
            ],
            "automaton": {
                "states": self.size.states,
                "edges": self.size.edges,
                "complete": self.size.is_whole,
            },
            "bytes": {"fewest": self.min_symbols, "most": max_symbols},
            "forced": {
                "bytes": self.forced.forced,
                "of": self.forced.symbols,
                "share": round(self.forced.share, 4),
            },
        }


def report(
    root: Node,
    rules: Mapping[str, Node],
    lengths: Mapping[str, float],
    keywords: Sequence[tuple[str, str, str, str]],
) -> GrammarReport:
    """Measure the language of a node; ``min_lengths`` are those of the rules."""
    automaton = TreeAutomaton(root, rules, lengths)
    return GrammarReport(
        keywords,
        size_of(automaton),
        int(min_length_of(root, lengths)),
        max_length(root, rules, lengths),
        forced_of(automaton),
    )
