"""From places to all the places they reach without a symbol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from callmemaybe.grammar.automaton import WORN, Automaton
from callmemaybe.grammar.nodes import (
    INFINITE,
    Bytes,
    Chars,
    Choice,
    Control,
    Literal,
    Mark,
    Node,
    Ref,
    Repeat,
    Words,
)
from callmemaybe.grammar.nodes import Sequence as Seq
from callmemaybe.grammar.places import NEVER, History, Never, Place, Rest, Seed
from callmemaybe.grammar.unordered import Pick, Unordered, unfold
from callmemaybe.grammar.wear import fresh

_LEAVES = (Literal, Bytes, Control)


class Closure:
    """Opens nodes down to the leaves where a symbol may fall; interns continuations."""

    def __init__(
        self,
        rules: Mapping[str, Node],
        machine_of: Callable[[Node], Automaton],
        least_of: Callable[[Node], float],
    ) -> None:
        """Take the rules, the machine of a lexeme, and the fewest symbols of a node."""
        self.rules = rules
        self._machine_of = machine_of
        self._least_of = least_of
        #: The lexemes that were entered.
        self.entered: set[Node] = set()
        self._live: dict[Words, Words] = {}
        self._rests: dict[tuple[Node, Rest | None], Rest] = {}
        self._unlimited: dict[tuple[Rest, int], Rest] = {}

    def unlimited(self, rest: Rest | None, depth: int) -> Rest | None:
        """Return a continuation without the upper limits that ``depth`` symbols cannot reach."""
        if rest is None:
            return None
        known = self._unlimited.get((rest, depth))
        if known is None:
            chain: list[Rest] = []
            step: Rest | None = rest
            while step is not None:
                chain.append(step)
                step = step.rest
            for step in reversed(chain):
                known = self._rest(self._without_limit(step.node, depth), known)
            assert known is not None
            self._unlimited[rest, depth] = known
        return known

    def _without_limit(self, node: Node, depth: int) -> Node:
        if not isinstance(node, Repeat) or node.at_most is None:
            return node
        if node.at_most * self._least_of(node.body) <= depth:
            return node
        return Repeat(node.body, node.at_least, None)

    def adopted(self, rest: Rest | None) -> Rest | None:
        """Return the same continuation of another automaton as one of this automaton's own."""
        nodes: list[Node] = []
        while rest is not None:
            nodes.append(rest.node)
            rest = rest.rest
        return self.chain(nodes)

    def chain(self, nodes: Sequence[Node]) -> Rest | None:
        """Return the continuation of these nodes, one after the other."""
        own: Rest | None = None
        for node in reversed(nodes):
            own = self._rest(node, own)
        return own

    def of(
        self, seeds: Iterable[tuple[Seed, History]], offset: int | None
    ) -> tuple[dict[Place, History], History | Never]:
        """Every place the seeds reach without a symbol, and the history of reaching the end."""
        places: dict[Place, History] = {}
        ended = self.close(seeds, offset, places)
        ended = self.leave_lexemes(places, ended, offset)
        return places, ended

    def leave_lexemes(
        self, places: dict[Place, History], ended: History | Never, offset: int | None
    ) -> History | Never:
        """Add the places behind every lexeme that may end here."""
        waiting = [item for item in places.items() if item[0][0].is_machine][::-1]
        while waiting:
            (leaf, position, rest), history = waiting.pop()
            if not leaf.is_machine or not self._machine_of(leaf).is_accepting(position):
                continue
            behind: dict[Place, History] = {}
            reached = self.close([((None, None, rest), history)], offset, behind)
            ended = reached if ended is NEVER else ended
            waiting.extend(item for item in behind.items() if item[0] not in places)
            places.update((place, past) for place, past in behind.items() if place not in places)
        return ended

    def straight(self, rest: Rest | None) -> Place | None:
        """Return the one place behind a continuation where no choice leads there, else None."""
        while rest is not None:
            node, rest = rest.node, rest.rest
            while True:
                kind = type(node)
                if kind is Literal:
                    return node, 0, rest
                if kind is Seq:
                    parts: tuple[Node, ...] = node._fields[0]
                    least = node.least
                    if not parts or (self._least_of(node) if least is None else least) == INFINITE:
                        return None
                    for part in parts[:0:-1]:
                        rest = self._rest(part, rest)
                    node = parts[0]
                    continue
                if kind is Mark:
                    break
                if kind is Control or kind is Bytes:
                    return node, 0, rest
                if kind is Words:
                    live = self._live_words(node)  # type: ignore[arg-type]
                    # The empty word, and a word by itself, are more than a place in words.
                    if len(live.words) < 2 or not live.words[0]:
                        return None
                    return live, (0, len(live.words), 0), rest
                if node.is_machine and self._least_of(node) < INFINITE:
                    node, machine = self._entered(node)
                    if not machine.is_accepting(machine.start):
                        return node, machine.start, rest
                return None
        return None

    def _rest(self, node: Node, rest: Rest | None) -> Rest:
        key = (node, rest)
        found = self._rests.get(key)
        if found is None:
            least = node.least
            if least is None:
                least = self._least_of(node)
            behind = rest.least if rest is not None else 0
            found = self._rests.setdefault(key, Rest(node, rest, int(least) + behind))
        return found

    def close(
        self,
        seeds: Iterable[tuple[Seed, History]],
        offset: int | None,
        places: dict[Place, History],
    ) -> History | Never:
        """Add every place that the seeds reach without a symbol, leftmost first.

        Returns the history with which the end of the grammar is reached, or NEVER. ``offset`` is
        where marks are recorded; None records none.
        """
        ended: History | Never = NEVER
        seen: set[tuple[Node, Rest | None]] = set()
        stack = list(seeds)[::-1]
        while stack:
            (node, position, rest), history = stack.pop()
            if node is None:
                if rest is None:
                    ended = history if ended is NEVER else ended
                    continue
                node, rest = rest.node, rest.rest
            if position is not None:
                self._arrive(node, position, rest, history, places, stack)
                continue
            if isinstance(node, Mark):
                if offset is not None:
                    history = (node.name, node.opens, offset, history)
                stack.append(((None, None, rest), history))
                continue
            if (node, rest) in seen:
                continue
            least = node.least
            if (self._least_of(node) if least is None else least) == INFINITE:
                continue
            seen.add((node, rest))
            self._enter(node, rest, history, places, stack)
        return ended

    def _enter(
        self,
        node: Node,
        rest: Rest | None,
        history: History,
        places: dict[Place, History],
        stack: list[tuple[Seed, History]],
    ) -> None:
        """Open a node that was reached; pushes in reverse, so that the first option is first."""
        if isinstance(node, _LEAVES):
            places.setdefault((node, 0, rest), history)
        elif isinstance(node, Seq):
            for part in reversed(node.parts[1:]):
                rest = self._rest(part, rest)
            stack.append(((node.parts[0] if node.parts else None, None, rest), history))
        elif isinstance(node, Choice):
            stack.extend(((option, None, rest), history) for option in reversed(node.options))
        elif isinstance(node, Chars):
            stack.append(((node.spelled, None, rest), history))
        elif isinstance(node, Ref):
            stack.append(((self.rules[node.name], None, rest), history))
        elif isinstance(node, Repeat):
            self._enter_repeat(node, rest, history, stack)
        elif isinstance(node, Unordered):
            ways = unfold(node, self._least_of)
            stack.extend(((way, None, rest), history) for way in reversed(ways))
        elif isinstance(node, Words):
            live = node if isinstance(node, Pick) else self._live_words(node)
            self._arrive(live, (0, len(live.words), 0), rest, history, places, stack)
        else:
            node, machine = self._entered(node)
            self._arrive(node, machine.start, rest, history, places, stack)

    def _entered(self, node: Node) -> tuple[Node, Automaton]:
        """Return the lexeme to be entered in place of one, and its automaton."""
        if WORN.count:
            node = fresh(node)
        self.entered.add(node)
        return node, node.machine or self._machine_of(node)

    def _live_words(self, node: Words) -> Words:
        """Without the words whose continuation has no finite string."""
        found = self._live.get(node)
        if found is None:
            pairs = list(zip(node.words, node.then, strict=False))
            live = [(w, n) for w, n in pairs if self._least_of(n) < INFINITE]
            same = len(live) == len(pairs)
            found = node if same else Words(tuple(w for w, _ in live), tuple(n for _, n in live))
            self._live[node] = found
        return found

    def _enter_repeat(
        self,
        node: Repeat,
        rest: Rest | None,
        history: History,
        stack: list[tuple[Seed, History]],
    ) -> None:
        body, least, most = node.body, node.at_least, node.at_most
        if least == 0 or self._least_of(body) == 0:
            stack.append(((None, None, rest), history))
        if most != 1:
            again = Repeat(body, max(least - 1, 0), None if most is None else most - 1)
            rest = self._rest(again, rest)
        stack.append(((body, None, rest), history))

    def _arrive(
        self,
        node: Node,
        position: Any,
        rest: Rest | None,
        history: History,
        places: dict[Place, History],
        stack: list[tuple[Seed, History]],
    ) -> None:
        """Add the place inside a leaf, or go on behind the leaf if that is its end."""
        if isinstance(node, Words):
            low, high, depth = position
            if high - low == 1:
                rest = self._rest(node.then[low], rest) if node.then else rest
                word = node.words[low]
                if depth == len(word):
                    stack.append(((None, None, rest), history))
                else:
                    places.setdefault((Literal(word), depth, rest), history)
                return
            if len(node.words[low]) == depth:
                after = self._rest(node.then[low], rest) if node.then else rest
                stack.append(((None, None, after), history))
                self._arrive(node, (low + 1, high, depth), rest, history, places, stack)
                return
        elif node.is_machine and self._machine_of(node).is_final(position):
            stack.append(((None, None, rest), history))
            return
        places.setdefault((node, position, rest), history)
