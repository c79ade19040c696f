"""The automaton of a grammar tree: lazy determinisation over items with explicit continuations.

A state is the set of items at which the next symbol can be read, each with the continuation that must follow.
Context-free rules make continuations that grow, so nesting has no limit. A lexeme (a JSON string, a number, a
pattern) has an automaton of its own, shared by every grammar that contains it; an item inside it is (lexeme,
its state, continuation).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from typing import Literal as Literal_

from callmemaybe.errors import GrammarError
from callmemaybe.grammar.automata.counting import CountedLexeme, CountedState, is_unbounded
from callmemaybe.grammar.automata.divisible import Divisible, DivisibleAutomaton
from callmemaybe.grammar.automata.finite import SubstringAutomaton, TableAutomaton
from callmemaybe.grammar.automata.items import (
    NO_ITEM,
    UNREACHED,
    CaptureHistory,
    Item,
    ItemSet,
    KernelItem,
    Unreached,
    branches_of,
    captures_of,
    first_bytes_of,
    forced_in_literals,
    forced_in_trie,
    matches_symbol,
    move_in_trie,
    move_on_byte,
    moves,
)
from callmemaybe.grammar.automata.min_length import min_length, min_remaining
from callmemaybe.grammar.automata.product import ProductAutomaton
from callmemaybe.grammar.automata.subset import SubsetAutomaton
from callmemaybe.grammar.automaton import (
    DEAD,
    NO_CONTROLS,
    Automaton,
    Branch,
    Captured,
    Edges,
)
from callmemaybe.grammar.nodes import (
    EMPTY,
    INFINITE,
    Control,
    DfaTable,
    Difference,
    Intersection,
    Lexeme,
    Literal,
    Node,
    Substrings,
    WordTrie,
    renewed,
    source_of,
)
from callmemaybe.grammar.unordered import MemberKeys

#: (items, symbol, offset behind it) -> (items after it, history if the end is reached).
Advance = Callable[
    [Mapping[Item, CaptureHistory], int | str, int],
    tuple[dict[Item, CaptureHistory], CaptureHistory | Unreached],
]
#: (targets with their histories, offset) -> (their closure, history if the end is reached).
Close = Callable[
    [Iterable[tuple[KernelItem, CaptureHistory]], int | None],
    tuple[dict[Item, CaptureHistory], CaptureHistory | Unreached],
]


def advance_with(close: Close, machine_of: Callable[[Node], Automaton]) -> Advance:
    """Return the function that moves items over one symbol; ``close`` computes the closure."""

    def read(
        items: Mapping[Item, CaptureHistory], symbol: int | str, offset: int
    ) -> tuple[dict[Item, CaptureHistory], CaptureHistory | Unreached]:
        move_on_byte = [
            (kernel_item, history)
            for item, history in items.items()
            for mask, kernel_item in moves(item, machine_of)
            if matches_symbol(mask, symbol)
        ]
        return close(move_on_byte, offset)

    return read


class CaptureTrace:
    """An input that was read with its captures; immutable, and sharing its prefix with others."""

    __slots__ = ("_ended", "_length", "_places", "_read")

    def __init__(
        self,
        read: Advance,
        items: Mapping[Item, CaptureHistory],
        end_history: CaptureHistory | Unreached,
        length: int,
    ) -> None:
        """Stand at these items after ``length`` symbols; ``read`` moves them over one more."""
        self._read = read
        self._places = items
        self._ended = end_history
        self._length = length

    def then(self, symbol: int | str) -> CaptureTrace:
        """Return the trace after one more byte (int) or control token (str).

        Raises GrammarError if no string of the language continues so.
        """
        items, end_history = self._read(self._places, symbol, self._length + 1)
        if not items and end_history is UNREACHED:
            raise GrammarError(
                f"symbol {self._length} of the text is not in the grammar's language"
            )
        return CaptureTrace(self._read, items, end_history, self._length + 1)

    def captures(self) -> list[Captured]:
        """Return the captures so far, in order of opening; see TreeAutomaton.captures."""
        end_history = self._ended
        return captures_of(
            next(iter(self._places.values())) if end_history is UNREACHED else end_history
        )


#: From this many items on, their common prefix is computed before single bytes are read.
MANY_ITEMS = 16


class TreeAutomaton(SubsetAutomaton):
    """The automaton of a grammar, or of one regular node (see :func:`machine_of`)."""

    def __init__(self, root: Node, rules: Mapping[str, Node], lengths: Mapping[str, float]) -> None:
        """Prepare the start state of ``root``; ``min_lengths`` are the shortest lengths of the rules."""
        memory: dict[Node, float] = {}
        self._min_length_of = partial(min_length_of, rule_min_lengths=lengths, memory=memory)
        super().__init__(rules, machine_of, self._min_length_of)
        self._root: KernelItem = (root, None, None)
        self._lengths = lengths
        self._relaxed_automaton: TreeAutomaton | None = None
        self._counted_lexeme: CountedLexeme | Literal_[False] | None = False
        self._counted_states: dict[int, CountedState | None] = {}
        self._relaxed_states: dict[tuple[int, int], tuple[Automaton, int]] = {}
        self.min_length = self._min_length_of(root)
        if self.min_length == INFINITE:
            self.start = self._state([self._root])
        else:
            self.start = self._state_after(self._closure.chain([root]))

    def dependencies(self) -> Iterable[Automaton]:
        """Return the automata of the lexemes entered so far, and the relaxed variants of this one."""
        found = [machine_of(leaf) for leaf in tuple(self._closure.entered_lexemes)]
        if self._relaxed_automaton is not None:
            found.append(self._relaxed_automaton)
        if self._counted_lexeme:
            found.append(machine_of(self._counted_lexeme.unlimited))
        return found

    # -- the interface of Automaton ---------------------------------------------------------

    def is_accepting(self, state: int) -> bool:
        """Whether the input so far is in the language."""
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
        controls = found.controls
        if controls is None:
            for item in found.all_items or self._all_items(found):
                if type(item[0]) is Control:
                    self._expand(found)
                    return found.controls  # type: ignore[return-value]
            controls = found.controls = NO_CONTROLS
        return controls

    def is_final(self, state: int) -> bool:
        """Whether this state accepts and has no successor."""
        found = self._states[state]
        return found.accepting and not (found.all_items or self._all_items(found))

    def first_bytes(self, state: int) -> int:
        """Return the bytes that may come next, as a 256-bit set, without expanding the state."""
        found = self._states[state]
        first = found.first
        if first is None:
            first = found.first = self._first_bytes(found)
        return first

    def _first_bytes(self, found: ItemSet) -> int:
        """Compute them; a single literal, and lexemes in a row, are followed in one loop."""
        union = 0
        while found.first is None:
            leaf, position, rest = found.items[0] if len(found.items) == 1 else NO_ITEM
            if type(leaf) is Literal:
                data: bytes = leaf._fields[0]
                return union | 1 << data[position]
            if leaf is None or not leaf.is_machine:
                return union | first_bytes_of(self._all_items(found), machine_of)
            machine = leaf.machine or machine_of(leaf)
            union |= machine.first_bytes(position)
            if not machine.is_accepting(position):
                return union
            if rest is None or not rest.min_length:
                # The lexeme may be repeated, and then it follows itself.
                return first_bytes_of(self._all_items(found), machine_of) | union
            found = self._states[self._state_after(rest)]
        return union | found.first

    def min_remaining(self, state: int) -> int:
        """Return the fewest further symbols to an accepting state, from the structure alone."""
        found = self._states[state]
        if found.min_remaining is None:
            ends = (min_remaining(item, self._min_length_of, machine_of) for item in found.items)
            found.min_remaining = 0 if found.accepting else int(min(ends))
        return found.min_remaining

    def shortest_edges(self, state: int) -> Edges:
        """Return the edges that begin a shortest completion; of keys in any order, only the first."""
        found = super().shortest_edges(state)
        if len(found) > 1:
            for item in self._all_items(self._states[state]):
                # All n! orders are equally short; one of them visits n of the 2^n sets of keys.
                if type(item[0]) is MemberKeys:
                    return found[:1]
        return found

    def step(self, state: int, byte: int) -> int:
        """Return the state after one byte, or -1, without expanding the state."""
        found = self._states[state]
        byte_targets = found.byte_targets
        if byte_targets is None:
            byte_targets = found.byte_targets = {}
        target = byte_targets.get(byte)
        if target is None:
            items = self._all_items(found)
            self.steps += len(items) >> 3
            kernel = [
                kernel_item
                for item in items
                if (kernel_item := move_on_byte(item, byte, machine_of)) is not None
            ]
            target = byte_targets[byte] = self._state(kernel) if kernel else DEAD
        return target

    def walk(self, state: int, data: bytes) -> int:
        """Return the state after all of ``data``, or -1; literals and lexemes are crossed in one move."""
        at, end, states = 0, len(data), self._states
        while at < end and state >= 0:
            items = states[state].items
            if len(items) == 1:
                leaf, position, rest = items[0]
                if type(leaf) is Literal:
                    text: bytes = leaf._fields[0]
                    left = len(text) - position
                    if left <= end - at:
                        if not data.startswith(text[position:] if position else text, at):
                            return DEAD
                        at += left
                        state = self._state_after(rest)
                        continue
                    if not text.startswith(data[at:] if at else data, position):
                        return DEAD
                    return self._intern(((leaf, position + end - at, rest),), False)
                if leaf.is_machine:
                    machine = leaf.machine or machine_of(leaf)
                    if not machine.is_accepting(position):
                        position, at = machine.walk_to_accepting(position, data, at)
                        if position == DEAD:
                            return DEAD
                        state = self._state(((leaf, position, rest),))
                        continue
                    if rest is not None and rest.min_length:
                        # Mostly the next byte either continues the lexeme or follows it, not both.
                        behind, byte = self._state_after(rest), data[at]
                        position = machine.step(position, byte)
                        if position == DEAD:
                            state = behind
                            continue
                        if not self.first_bytes(behind) >> byte & 1:
                            at += 1
                            state = self._state(((leaf, position, rest),))
                            continue
                elif type(leaf) is WordTrie:
                    onward = move_in_trie(leaf, position, data[at:])
                    if onward is not None:
                        return self._state(((leaf, onward, rest),))
            elif len(items) > MANY_ITEMS:
                # The common prefix of thousands of alternatives is one move instead of one for each byte.
                piece, target = self.forced(state)
                if piece and data.startswith(piece, at):
                    at += len(piece)
                    state = target
                    continue
            state = self.step(state, data[at])
            at += 1
        return state

    def walk_to_accepting(self, state: int, data: bytes, at: int) -> tuple[int, int]:
        """Follow ``data[at:]`` to the first accepting state; return that state and the offset behind it."""
        states, step, end = self._states, self.step, len(data)
        while at < end:
            byte_targets = states[state].byte_targets
            target = byte_targets.get(data[at]) if byte_targets is not None else None
            state = step(state, data[at]) if target is None else target
            at += 1
            if state == DEAD or states[state].accepting:
                break
        return state, at

    def forced(self, state: int) -> tuple[bytes, int]:
        """Return the longest run of bytes that must come next, and the state after it."""
        known = self._states[state].forced
        if known is None:
            known = self._states[state].forced = self._forced_run(state)
        return known

    def _forced_run(self, state: int) -> tuple[bytes, int]:
        run, seen = b"", {state}
        while True:
            found = self._states[state]
            leaf, position, rest = found.items[0] if len(found.items) == 1 else NO_ITEM
            if leaf is None or found.accepting:
                piece, target = self._forced_piece(state, found)
            elif type(leaf) is Literal:
                piece, target = leaf._fields[0][position:], self._state_after(rest)
            elif not leaf.is_machine:
                piece, target = self._forced_piece(state, found)
            else:
                machine = leaf.machine or machine_of(leaf)
                if machine.is_accepting(position):
                    # What follows the lexeme may come, too.
                    first = machine.first_bytes(position)
                    if first & (first - 1):
                        return run, state
                    piece, target = self._forced_piece(state, found)
                else:
                    piece, position = machine.forced(position)
                    target = self._state(((leaf, position, rest),)) if piece else state
            if not piece or target in seen:
                return run, state
            run += piece
            seen.add(target)
            state = target

    def _forced_piece(self, state: int, found: ItemSet) -> tuple[bytes, int]:
        """Return a part of the forced run: several bytes at once where the items allow it."""
        if found.accepting:
            return b"", state
        ahead = forced_in_trie(found.items[0]) if len(found.items) == 1 else None
        if ahead is not None:
            return ahead[0], self._state([ahead[1]]) if ahead[0] else state
        first = self.first_bytes(state)
        if first & (first - 1) or not first or self.controls(state):
            return b"", state
        items = self._all_items(found)
        if any(type(leaf) is not Literal for leaf, _, _ in items):
            byte = first.bit_length() - 1
            return bytes([byte]), self.step(state, byte)
        self.steps += len(items) >> 3
        piece, kernel = forced_in_literals(items)
        return piece, self._state(kernel)

    def inside_lexeme(self, state: int) -> tuple[Automaton, int, int] | None:
        """Return (machine, q, after) if this state is exactly "inside one lexeme, at its state q"."""
        found = self._states[state]
        if len(found.items) != 1:
            return None
        leaf, position, rest = found.items[0]
        if not leaf.is_machine:
            return None
        if found.after_lexeme is None:
            found.after_lexeme = self._state_after(rest)
        return *(leaf.machine or machine_of(leaf)).alias(position), found.after_lexeme

    def alternatives(self, state: int) -> tuple[int, ...]:
        """Return one state for each lexeme that this state may be inside, and one for all other items."""
        items = self._states[state].items
        lexemes = [item for item in items if item[0].is_machine]
        if len(items) < 2 or not lexemes:
            return (state,)
        others = [item for item in items if not item[0].is_machine]
        return tuple(
            self._state(kernel) for kernel in ([*([p] for p in lexemes), others]) if kernel
        )

    def branches(self, state: int, most: int) -> Sequence[Branch] | None:
        """Return the possible texts, and the lexemes this state may be inside."""
        return branches_of(self._states[state].items, most)

    def after_branch(self, onward: Any) -> int:
        """Return the state behind the text of a branch."""
        return self._state((onward,))

    def enter_branch(self, onward: Any) -> tuple[Automaton, int, int]:
        """Return what :meth:`inside_lexeme` does for a branch with an empty text: (machine, q, after)."""
        leaf, position, rest = onward
        return *(leaf.machine or machine_of(leaf)).alias(position), self._state_after(rest)

    def is_branching(self, state: int) -> bool:
        """Whether anything besides a single branch may follow: control tokens, the end."""
        found = self._states[state]
        return found.accepting or len(found.items) > 1

    def relaxed(self, state: int, depth: int) -> tuple[Automaton, int]:
        """Return a state without the upper limits of repetitions that ``depth`` bytes cannot reach.

        It belongs to a second automaton, in which all counts beyond the depth are one state.
        """
        key = state, depth
        known = self._relaxed_states.get(key)
        if known is None:
            known = self._relaxed_states[key] = self._find_relaxed(state, depth)
        return known

    def _find_relaxed(self, state: int, depth: int) -> tuple[Automaton, int]:
        items = self._states[state].items
        rests = [self._closure.without_limits(rest, depth) for _, _, rest in items]
        if all(own is rest for own, (_, _, rest) in zip(rests, items, strict=True)):
            return self, state
        if self._relaxed_automaton is None:
            self._relaxed_automaton = TreeAutomaton(
                self._root[0] or EMPTY, self._closure.rules, self._lengths
            )
        other = self._relaxed_automaton
        adopted = tuple(
            (leaf, position, other._closure.adopt(rest))  # noqa: SLF001 - of the same class
            for (leaf, position, _), rest in zip(items, rests, strict=True)
        )
        return other, other._intern(adopted, self._states[state].accepting)  # noqa: SLF001

    def as_counted(self, state: int) -> CountedState | None:
        """Return this state of a limited lexeme as a state of the unlimited one; None if there is none."""
        if self._counted_lexeme is False:
            self._counted_lexeme = CountedLexeme.of(self._root[0], machine_of)
        if self._counted_lexeme is None:
            return None
        if state not in self._counted_states:
            items = self._states[state].items
            self._counted_states[state] = self._counted_lexeme.locate(items, machine_of)
        return self._counted_states[state]

    @property
    def is_unbounded(self) -> bool:
        """Whether this is a literal, any number of one node, and a literal."""
        return is_unbounded(self._root[0])

    def state_of(self, items: Sequence[tuple[Node, Any, Sequence[Node]]]) -> int:
        """Return the non-accepting state of these items, each given with the nodes that follow it."""
        chain = self._closure.chain
        return self._intern(
            tuple((leaf, position, chain(nodes)) for leaf, position, nodes in items), False
        )

    def captures(self, symbols: Sequence[int | str]) -> list[Captured]:
        """Return the captures of the input, in order of opening.

        ``symbols`` are bytes (ints) and control texts (str). In an ambiguous grammar the first option and the
        longest repetition win, as in a backtracking regex engine. Offsets count symbols. Raises GrammarError
        if the symbols are not a prefix of the language.
        """
        trace = self.trace()
        for symbol in symbols:
            trace = trace.then(symbol)
        return trace.captures()

    def trace(self) -> CaptureTrace:
        """Return the trace of the empty input; read on with its ``then``."""
        read = advance_with(self._closure.of, machine_of)
        return CaptureTrace(read, *self._closure.of([(self._root, None)], 0), length=0)


def machine_of(node: Node) -> Automaton:
    """Return the automaton of a regular node; it is stored on the node, so all grammars share it."""
    if node.machine is None:
        machine: Automaton
        if isinstance(node, Intersection | Difference):
            machine = ProductAutomaton(
                machine_of(renewed(node.left)),
                machine_of(renewed(node.right)),
                subtract=isinstance(node, Difference),
            )
        elif isinstance(node, Substrings):
            machine = SubstringAutomaton(node.units, node.starts, node.ends)
        elif isinstance(node, DfaTable):
            machine = TableAutomaton(node.rows, node.accepting)
        elif isinstance(node, Divisible):
            machine = DivisibleAutomaton(node)
        else:
            body = node.body if isinstance(node, Lexeme) else node
            machine = machine_of(renewed(body)) if body.is_machine else TreeAutomaton(body, {}, {})
        machine.source = machine.source or source_of(node)
        object.__setattr__(node, "machine", machine)
    return node.machine  # type: ignore[no-any-return]


def min_length_of(
    node: Node, rule_min_lengths: Mapping[str, float], memory: dict[Node, float] | None = None
) -> float:
    """Return the symbols of the shortest string of ``node``, see :func:`min_length`."""
    return min_length(node, rule_min_lengths, machine_of, memory)
