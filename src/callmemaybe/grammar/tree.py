"""The automaton of a grammar tree, by derivatives with explicit continuations.

A state is the set of places in the grammar where the next symbol may fall, each with what must
follow it (its continuation). Places and continuations are interned. Determinisation is the subset
construction of Rabin and Scott (1959) over such places, done lazily; context-free rules simply make
continuations that grow, so nesting has no limit.

A *lexeme* (a JSON string, a number, a pattern) is an automaton of its own, shared by every grammar
that contains it: a place inside it is (lexeme, its state, continuation).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from callmemaybe.errors import GrammarError
from callmemaybe.grammar.automaton import DEAD, NO_CONTROLS, NO_EDGES, Automaton, Captured, Edges
from callmemaybe.grammar.grammar import (
    INFINITE,
    Both,
    Bytes,
    Choice,
    Control,
    Except,
    Grammar,
    Lexeme,
    Literal,
    Mark,
    Node,
    Ref,
    Repeat,
    Words,
    least_of,
)
from callmemaybe.grammar.grammar import Sequence as Seq
from callmemaybe.grammar.product import ProductAutomaton


class _Rest:
    """A continuation: this node, then the rest. Interned per automaton."""

    __slots__ = ("least", "node", "rest")

    def __init__(self, node: Node, rest: _Rest | None, least: int) -> None:
        self.node = node
        self.rest = rest
        self.least = least


# A place: (leaf node, position in it, continuation). Position is an offset in a Literal, a range
# (low, high, depth) of Words, a machine's state in a lexeme, 0 elsewhere.
_Place = tuple[Node, Any, _Rest | None]
# A history of captures, newest first: (name, opens, offset, older).
_History = tuple[Any, ...] | None


class _State:
    __slots__ = ("accepting", "after", "controls", "distance", "edges", "places")

    def __init__(self, places: tuple[_Place, ...], accepting: bool) -> None:
        self.places = places
        self.accepting = accepting
        self.edges: Edges | None = None
        self.controls: Mapping[str, int] | None = None
        self.distance: int | None = None
        self.after: int | None = None


class TreeAutomaton(Automaton):
    """The automaton of a grammar (or of one regular node, through :func:`machine_of`)."""

    def __init__(self, root: Node, rules: Mapping[str, Node], lengths: Mapping[str, float]) -> None:
        """Prepare the start state of ``root``; ``lengths`` are the rules' fewest symbols."""
        self._rules = rules
        self._lengths = lengths
        self._live: dict[Words, Words] = {}
        self._rests: dict[tuple[Node, _Rest | None], _Rest] = {}
        self._ids: dict[tuple[tuple[_Place, ...], bool], int] = {}
        self._next_id = count()
        self._states: dict[int, _State] = {}
        self._root: _Seed = (root, None, None)
        self.least = least_of(root, lengths)
        self.start = self._state([self._root])

    # -- the contract -----------------------------------------------------------------------

    def is_accepting(self, state: int) -> bool:
        """Whether what was read so far is in the language."""
        return self._states[state].accepting

    def edges(self, state: int) -> Edges:
        """Return disjoint (byte set, target) pairs in order of first appearance."""
        found = self._states[state]
        if found.edges is None:
            self._expand(found)
        return found.edges  # type: ignore[return-value]

    def controls(self, state: int) -> Mapping[str, int]:
        """Return the control tokens allowed here, by text, with their targets."""
        found = self._states[state]
        if found.controls is None:
            self._expand(found)
        return found.controls  # type: ignore[return-value]

    def distance(self, state: int) -> int:
        """Fewest further symbols to an accepting end; from structure, without any search."""
        found = self._states[state]
        if found.distance is None:
            shortest = 0 if found.accepting else min(map(self._place_distance, found.places))
            found.distance = int(shortest)
        return found.distance

    def walk(self, state: int, data: bytes) -> int:
        """Return the state after all of ``data``, or -1; jumps over literals in one move."""
        at, end = 0, len(data)
        while at < end and state >= 0:
            places = self._states[state].places
            if len(places) == 1 and isinstance(places[0][0], Literal):
                leaf, offset, rest = places[0]
                left = leaf.data[offset : offset + end - at]  # type: ignore[attr-defined]
                if not data.startswith(left, at):
                    return DEAD
                at += len(left)
                state = self._state([_after_literal(leaf, offset + len(left), rest)])
            else:
                state = self.step(state, data[at])
                at += 1
        return state

    def forced(self, state: int) -> tuple[bytes, int]:
        """Return the longest run of bytes that must come next, and the state after it."""
        run = b""
        seen = {state}
        while True:
            found = self._states[state]
            if (
                len(found.places) == 1
                and not found.accepting
                and isinstance(found.places[0][0], Literal)
            ):
                leaf, offset, rest = found.places[0]
                piece = leaf.data[offset:]  # type: ignore[attr-defined]
                target = self._state([(None, None, rest)])
            else:
                piece, target = super().forced(state)
            if not piece or target in seen:
                return run, state
            run += piece
            seen.add(target)
            state = target

    def inside(self, state: int) -> tuple[Automaton, int, int] | None:
        """Return (machine, q, after) if this state is nothing but "inside one lexeme at q"."""
        found = self._states[state]
        if len(found.places) != 1:
            return None
        leaf, position, rest = found.places[0]
        if not isinstance(leaf, _MACHINES):
            return None
        if found.after is None:
            found.after = self._state([(None, None, rest)])
        return machine_of(leaf), position, found.after

    def captures(self, symbols: Sequence[int | str]) -> list[Captured]:
        """Return the captures of what was read, in order of opening.

        ``symbols`` are bytes (ints) and control texts (str). Where the grammar is ambiguous, the
        first option and the longest repetition win (as in a backtracking regex engine). Offsets
        count symbols. Raises GrammarError if the symbols are not a prefix of the language.
        """
        places, ended = self._closure([(self._root, None)], 0)
        for offset, symbol in enumerate(symbols, 1):
            moved = [
                (seed, history)
                for place, history in places.items()
                for mask, seed in self._moves(place)
                if _takes(mask, symbol)
            ]
            places, ended = self._closure(moved, offset)
            if not places and ended is _NEVER:
                raise GrammarError(
                    f"symbol {offset - 1} of the text is not in the grammar's language"
                )
        return _captures_of(next(iter(places.values())) if ended is _NEVER else ended)

    # -- construction -----------------------------------------------------------------------

    def _state(self, seeds: Iterable[_Seed]) -> int:
        """Intern the state that the seeds close to."""
        places: dict[_Place, _History] = {}
        ended = self._close([(seed, None) for seed in seeds], None, places)
        accepting = self._leave_lexemes(dict(places), ended, None) is not _NEVER
        key = (tuple(places), accepting)
        found = self._ids.get(key)
        if found is None:
            fresh = next(self._next_id)
            self._states[fresh] = _State(*key)
            found = self._ids.setdefault(key, fresh)
        return found

    def _closure(
        self, seeds: Iterable[tuple[_Seed, _History]], offset: int | None
    ) -> tuple[dict[_Place, _History], _History | _Never]:
        """Every place the seeds reach without a symbol, and the history of reaching the end."""
        places: dict[_Place, _History] = {}
        ended = self._close(seeds, offset, places)
        ended = self._leave_lexemes(places, ended, offset)
        return places, ended

    def _leave_lexemes(
        self, places: dict[_Place, _History], ended: _History | _Never, offset: int | None
    ) -> _History | _Never:
        """Add the places behind every lexeme that may end here."""
        waiting = list(places.items())[::-1]
        while waiting:
            (leaf, position, rest), history = waiting.pop()
            if not isinstance(leaf, _MACHINES) or not machine_of(leaf).is_accepting(position):
                continue
            behind: dict[_Place, _History] = {}
            reached = self._close([((None, None, rest), history)], offset, behind)
            ended = reached if ended is _NEVER else ended
            waiting.extend(item for item in behind.items() if item[0] not in places)
            places.update((place, past) for place, past in behind.items() if place not in places)
        return ended

    def _rest(self, node: Node, rest: _Rest | None) -> _Rest:
        key = (node, rest)
        found = self._rests.get(key)
        if found is None:
            least = int(least_of(node, self._lengths)) + (rest.least if rest else 0)
            found = self._rests.setdefault(key, _Rest(node, rest, least))
        return found

    def _close(
        self,
        seeds: Iterable[tuple[_Seed, _History]],
        offset: int | None,
        places: dict[_Place, _History],
    ) -> _History | _Never:
        """Add every place that the seeds reach without a symbol, leftmost first.

        Returns the history with which the end of the grammar is reached, or _NEVER. ``offset`` is
        where marks are recorded; None records none.
        """
        ended: _History | _Never = _NEVER
        seen: set[tuple[Node, _Rest | None]] = set()
        stack = list(seeds)[::-1]
        while stack:
            (node, position, rest), history = stack.pop()
            if node is None:
                if rest is None:
                    ended = history if ended is _NEVER else ended
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
            if (node, rest) in seen or least_of(node, self._lengths) == INFINITE:
                continue
            seen.add((node, rest))
            self._enter(node, rest, history, places, stack)
        return ended

    def _enter(
        self,
        node: Node,
        rest: _Rest | None,
        history: _History,
        places: dict[_Place, _History],
        stack: list[tuple[_Seed, _History]],
    ) -> None:
        """Open a node that was reached; pushes in reverse, so that the first option is first."""
        if isinstance(node, Literal | Bytes | Control):
            places.setdefault((node, 0, rest), history)
        elif isinstance(node, Seq):
            for part in reversed(node.parts[1:]):
                rest = self._rest(part, rest)
            stack.append(((node.parts[0] if node.parts else None, None, rest), history))
        elif isinstance(node, Choice):
            stack.extend(((option, None, rest), history) for option in reversed(node.options))
        elif isinstance(node, Ref):
            stack.append(((self._rules[node.name], None, rest), history))
        elif isinstance(node, Repeat):
            self._enter_repeat(node, rest, history, stack)
        elif isinstance(node, Words):
            live = self._live_words(node)
            self._arrive(live, (0, len(live.words), 0), rest, history, places, stack)
        else:
            self._arrive(node, machine_of(node).start, rest, history, places, stack)

    def _live_words(self, node: Words) -> Words:
        """Without the words whose continuation has no finite string."""
        found = self._live.get(node)
        if found is None:
            pairs = list(zip(node.words, node.then, strict=False))
            live = [(w, n) for w, n in pairs if least_of(n, self._lengths) < INFINITE]
            same = len(live) == len(pairs)
            found = node if same else Words(tuple(w for w, _ in live), tuple(n for _, n in live))
            self._live[node] = found
        return found

    def _enter_repeat(
        self,
        node: Repeat,
        rest: _Rest | None,
        history: _History,
        stack: list[tuple[_Seed, _History]],
    ) -> None:
        body, least, most = node.body, node.at_least, node.at_most
        if least == 0 or least_of(body, self._lengths) == 0:
            stack.append(((None, None, rest), history))
        if most != 1:
            again = Repeat(body, max(least - 1, 0), None if most is None else most - 1)
            rest = self._rest(again, rest)
        stack.append(((body, None, rest), history))

    def _arrive(
        self,
        node: Node,
        position: Any,
        rest: _Rest | None,
        history: _History,
        places: dict[_Place, _History],
        stack: list[tuple[_Seed, _History]],
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
        elif isinstance(node, _MACHINES) and machine_of(node).is_final(position):
            stack.append(((None, None, rest), history))
            return
        places.setdefault((node, position, rest), history)

    # -- moving -----------------------------------------------------------------------------

    def _moves(self, place: _Place) -> Iterator[tuple[int | str, _Seed]]:
        """Yield (byte set or control text, what is reached) for one place."""
        leaf, position, rest = place
        if isinstance(leaf, Literal):
            yield 1 << leaf.data[position], _after_literal(leaf, position + 1, rest)
        elif isinstance(leaf, Bytes):
            yield leaf.mask, (None, None, rest)
        elif isinstance(leaf, Control):
            yield leaf.text, (None, None, rest)
        elif isinstance(leaf, Words):
            low, high, depth = position
            words = leaf.words
            while low < high:
                byte = words[low][depth]
                end = bisect_right(words, byte, low, high, key=lambda word: word[depth])
                yield 1 << byte, (leaf, (low, end, depth + 1), rest)
                low = end
        else:
            for mask, target in machine_of(leaf).edges(position):
                yield mask, (leaf, target, rest)

    def _expand(self, state: _State) -> None:
        """Compute the edges: split the byte sets of all places into disjoint ones."""
        controls: dict[str, list[_Seed]] = {}
        regions: list[tuple[int, list[_Seed]]] = []
        taken = 0
        places: dict[_Place, _History] = dict.fromkeys(state.places)
        self._leave_lexemes(places, _NEVER, None)
        for place in places:
            for mask, seed in self._moves(place):
                if isinstance(mask, str):
                    controls.setdefault(mask, []).append(seed)
                elif not mask & taken:
                    regions.append((mask, [seed]))
                    taken |= mask
                else:
                    regions = _refine(regions, mask, mask & ~taken, seed)
                    taken |= mask
        edges: dict[int, int] = {}
        for mask, seeds in regions:
            target = self._state(seeds)
            edges[target] = edges.get(target, 0) | mask
        state.controls = {
            text: self._state(seeds) for text, seeds in controls.items()
        } or NO_CONTROLS
        state.edges = tuple((mask, target) for target, mask in edges.items()) or NO_EDGES

    def _place_distance(self, place: _Place) -> float:
        leaf, position, rest = place
        behind: float = rest.least if rest else 0
        if isinstance(leaf, Literal):
            return behind + len(leaf.data) - int(position)
        if isinstance(leaf, Bytes | Control):
            return 1 + behind
        if isinstance(leaf, Words):
            low, high, depth = position
            then = leaf.then
            nearest: float = min(
                len(leaf.words[i]) - depth + (least_of(then[i], self._lengths) if then else 0)
                for i in range(low, high)
            )
            return behind + nearest
        return machine_of(leaf).distance(position) + behind


_MACHINES = Lexeme | Both | Except
# What a move leads to: a node to enter (position None), a place, or (None, None, rest).
_Seed = tuple[Node | None, Any, _Rest | None]


class _Never:
    """The end was not reached (None is a history: no captures)."""


_NEVER = _Never()


def _after_literal(leaf: Node, offset: int, rest: _Rest | None) -> _Seed:
    return (leaf, offset, rest) if offset < len(leaf.data) else (None, None, rest)  # type: ignore[attr-defined]


def _takes(mask: int | str, symbol: int | str) -> bool:
    if isinstance(symbol, str) or isinstance(mask, str):
        return mask == symbol
    return bool(mask >> symbol & 1)


def _refine(
    regions: list[tuple[int, list[_Seed]]], mask: int, fresh: int, seed: _Seed
) -> list[tuple[int, list[_Seed]]]:
    """Split the regions so that ``mask`` is a union of some of them, and add ``seed`` to those."""
    split: list[tuple[int, list[_Seed]]] = []
    for region, seeds in regions:
        common = region & mask
        if not common:
            split.append((region, seeds))
        elif common == region:
            seeds.append(seed)
            split.append((region, seeds))
        else:
            split.append((common, [*seeds, seed]))
            split.append((region & ~mask, seeds))
    if fresh:
        split.append((fresh, [seed]))
    return split


def _captures_of(history: _History | _Never) -> list[Captured]:
    events: list[tuple[str, bool, int]] = []
    while isinstance(history, tuple):
        name, opens, offset, history = history
        events.append((name, opens, offset))
    found: list[Captured] = []
    open_at: dict[str, list[int]] = {}
    for name, opens, offset in reversed(events):
        if opens:
            open_at.setdefault(name, []).append(len(found))
            found.append(Captured(name, offset, None))
        elif open_at.get(name):
            index = open_at[name].pop()
            found[index] = found[index]._replace(end=offset)
    return found


def machine_of(node: Node) -> Automaton:
    """Return the shared automaton of a regular node (a lexeme, an intersection, a difference).

    It is kept on the node, and equal nodes are one object, so all grammars share it.
    """
    if node.machine is None:
        machine: Automaton
        if isinstance(node, Both | Except):
            machine = ProductAutomaton(
                machine_of(node.left), machine_of(node.right), subtract=isinstance(node, Except)
            )
        else:
            body = node.body if isinstance(node, Lexeme) else node
            if isinstance(body, _MACHINES):
                machine = machine_of(body)
            else:
                machine = TreeAutomaton(body, {}, {})
        object.__setattr__(node, "machine", machine)
    return node.machine  # type: ignore[no-any-return]


def automaton_of(grammar: Grammar) -> TreeAutomaton:
    """Return a new automaton of a grammar."""
    return TreeAutomaton(grammar.root, grammar.rules, grammar.lengths)
