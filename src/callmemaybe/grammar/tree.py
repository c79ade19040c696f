"""The automaton of a grammar tree, by derivatives with explicit continuations.

A state is the set of places in the grammar where the next symbol may fall, each with what must
follow it (its continuation). Places and continuations are interned. Determinisation is the subset
construction of Rabin and Scott (1959) over such places, done lazily; context-free rules simply make
continuations that grow, so nesting has no limit.

A *lexeme* (a JSON string, a number, a pattern) is an automaton of its own, shared by every grammar
that contains it: a place inside it is (lexeme, its state, continuation).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from typing import Literal as Literal_

from callmemaybe.grammar.automaton import (
    DEAD,
    NO_CONTROLS,
    Automaton,
    Branch,
    Captured,
    Edges,
)
from callmemaybe.grammar.counting import Counted, Counting, is_endless
from callmemaybe.grammar.divisible import Divisible, DivisibleAutomaton
from callmemaybe.grammar.least import shortest, way_out
from callmemaybe.grammar.names import NameAutomaton
from callmemaybe.grammar.nodes import (
    EMPTY,
    INFINITE,
    Both,
    Control,
    Except,
    Lexeme,
    Literal,
    Names,
    Node,
    Substrings,
    Table,
    Words,
)
from callmemaybe.grammar.places import (
    NO_PLACE,
    Seed,
    State,
    along_words,
    branches_of,
    first_of,
    forced_by_all,
    forced_in_words,
    moved,
)
from callmemaybe.grammar.product import ProductAutomaton
from callmemaybe.grammar.sources import source_of
from callmemaybe.grammar.states import States
from callmemaybe.grammar.substrings import SubstringAutomaton
from callmemaybe.grammar.table import TableAutomaton
from callmemaybe.grammar.trace import Trace, reading
from callmemaybe.grammar.unordered import Pick
from callmemaybe.grammar.wear import fresh

#: More places than this in a state, and it is worth asking what they have in common.
MANY = 16


class TreeAutomaton(States):
    """The automaton of a grammar (or of one regular node, through :func:`machine_of`)."""

    def __init__(self, root: Node, rules: Mapping[str, Node], lengths: Mapping[str, float]) -> None:
        """Prepare the start state of ``root``; ``lengths`` are the rules' fewest symbols."""
        memory: dict[Node, float] = {}
        self._least_of = partial(least_of, rule_lengths=lengths, memory=memory)
        super().__init__(rules, machine_of, self._least_of)
        self._root: Seed = (root, None, None)
        self._lengths = lengths
        self._twin: TreeAutomaton | None = None
        self._counting: Counting | Literal_[False] | None = False
        self._counted: dict[int, Counted | None] = {}
        self._nearby: dict[tuple[int, int], tuple[Automaton, int]] = {}
        self.least = self._least_of(root)
        if self.least == INFINITE:
            self.start = self._state([self._root])
        else:
            self.start = self._beyond(self._closure.chain([root]))

    def stands_on(self) -> Iterable[Automaton]:
        """Return the automata of the lexemes entered so far, and those beside this one."""
        found = [machine_of(leaf) for leaf in tuple(self._closure.entered)]
        if self._twin is not None:
            found.append(self._twin)
        if self._counting:
            found.append(machine_of(self._counting.unlimited))
        return found

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
        controls = found.controls
        if controls is None:
            for place in found.all_places or self._all_places(found):
                if type(place[0]) is Control:
                    self._expand(found)
                    return found.controls  # type: ignore[return-value]
            controls = found.controls = NO_CONTROLS
        return controls

    def is_final(self, state: int) -> bool:
        """Whether this state accepts and nothing may follow."""
        found = self._states[state]
        return found.accepting and not (found.all_places or self._all_places(found))

    def first_bytes(self, state: int) -> int:
        """Return the bytes that may come next, as a 256-bit set; expands nothing."""
        found = self._states[state]
        first = found.first
        if first is None:
            first = found.first = self._first_bytes(found)
        return first

    def _first_bytes(self, found: State) -> int:
        """Find them out; in front of one text, and inside one lexeme after the other, in one loop."""
        union = 0
        while found.first is None:
            leaf, position, rest = found.places[0] if len(found.places) == 1 else NO_PLACE
            if type(leaf) is Literal:
                data: bytes = leaf._fields[0]
                return union | 1 << data[position]
            if leaf is None or not leaf.is_machine:
                return union | first_of(self._all_places(found), machine_of)
            machine = leaf.machine or machine_of(leaf)
            union |= machine.first_bytes(position)
            if not machine.is_accepting(position):
                return union
            if rest is None or not rest.least:
                # It may be repeated, and so be what is behind itself.
                return first_of(self._all_places(found), machine_of) | union
            found = self._states[self._beyond(rest)]
        return union | found.first

    def distance(self, state: int) -> int:
        """Fewest further symbols to an accepting end; from structure, without any search."""
        found = self._states[state]
        if found.distance is None:
            ends = (way_out(place, self._least_of, machine_of) for place in found.places)
            found.distance = 0 if found.accepting else int(min(ends))
        return found.distance

    def nearer(self, state: int) -> Edges:
        """Return edges that lead nearer to an end: all, or of keys in any order those to one of them."""
        found = super().nearer(state)
        if len(found) > 1:
            for place in self._all_places(self._states[state]):
                # One order is as short as any other of n!, and passes n of the 2^n sets of keys.
                if type(place[0]) is Pick:
                    return found[:1]
        return found

    def step(self, state: int, byte: int) -> int:
        """Return the state after one byte, or -1; expands nothing."""
        found = self._states[state]
        steps = found.steps
        if steps is None:
            steps = found.steps = {}
        target = steps.get(byte)
        if target is None:
            places = self._all_places(found)
            self.spent += len(places) >> 3
            seeds = [
                seed for place in places if (seed := moved(place, byte, machine_of)) is not None
            ]
            target = steps[byte] = self._state(seeds) if seeds else DEAD
        return target

    def walk(self, state: int, data: bytes) -> int:
        """Return the state after all of ``data``, or -1; jumps over literals in one move."""
        at, end, states = 0, len(data), self._states
        while at < end and state >= 0:
            places = states[state].places
            if len(places) == 1:
                leaf, position, rest = places[0]
                if type(leaf) is Literal:
                    text: bytes = leaf._fields[0]
                    left = len(text) - position
                    if left <= end - at:
                        if not data.startswith(text[position:] if position else text, at):
                            return DEAD
                        at += left
                        state = self._beyond(rest)
                        continue
                    if not text.startswith(data[at:] if at else data, position):
                        return DEAD
                    return self._intern(((leaf, position + end - at, rest),), False)
                if leaf.is_machine:
                    machine = leaf.machine or machine_of(leaf)
                    if not machine.is_accepting(position):
                        position, at = machine.walk_inside(position, data, at)
                        if position == DEAD:
                            return DEAD
                        state = self._state(((leaf, position, rest),))
                        continue
                    if rest is not None and rest.least:
                        # Mostly either it goes on or it is over and something else must come.
                        behind, byte = self._beyond(rest), data[at]
                        position = machine.step(position, byte)
                        if position == DEAD:
                            state = behind
                            continue
                        if not self.first_bytes(behind) >> byte & 1:
                            at += 1
                            state = self._state(((leaf, position, rest),))
                            continue
                elif type(leaf) is Words:
                    onward = along_words(leaf, position, data[at:])
                    if onward is not None:
                        return self._state(((leaf, onward, rest),))
            elif len(places) > MANY:
                # What thousands of alternatives have in common is one move, not one for every byte.
                piece, target = self.forced(state)
                if piece and data.startswith(piece, at):
                    at += len(piece)
                    state = target
                    continue
            state = self.step(state, data[at])
            at += 1
        return state

    def walk_inside(self, state: int, data: bytes, at: int) -> tuple[int, int]:
        """Follow ``data[at:]`` to the first accepting state; return the state, and how far it went."""
        states, step, end = self._states, self.step, len(data)
        while at < end:
            steps = states[state].steps
            target = steps.get(data[at]) if steps is not None else None
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
            leaf, position, rest = found.places[0] if len(found.places) == 1 else NO_PLACE
            if leaf is None or found.accepting:
                piece, target = self._forced_piece(state, found)
            elif type(leaf) is Literal:
                piece, target = leaf._fields[0][position:], self._beyond(rest)
            elif not leaf.is_machine:
                piece, target = self._forced_piece(state, found)
            else:
                machine = leaf.machine or machine_of(leaf)
                if machine.is_accepting(position):
                    # What is behind it may come, too.
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

    def _forced_piece(self, state: int, found: State) -> tuple[bytes, int]:
        """Return some of what must come next; in strides where the place itself knows."""
        if found.accepting:
            return b"", state
        ahead = forced_in_words(found.places[0]) if len(found.places) == 1 else None
        if ahead is not None:
            return ahead[0], self._state([ahead[1]]) if ahead[0] else state
        first = self.first_bytes(state)
        if first & (first - 1) or not first or self.controls(state):
            return b"", state
        places = self._all_places(found)
        if any(type(leaf) is not Literal for leaf, _, _ in places):
            byte = first.bit_length() - 1
            return bytes([byte]), self.step(state, byte)
        self.spent += len(places) >> 3
        piece, seeds = forced_by_all(places)
        return piece, self._state(seeds)

    def inside(self, state: int) -> tuple[Automaton, int, int] | None:
        """Return (machine, q, after) if this state is nothing but "inside one lexeme at q"."""
        found = self._states[state]
        if len(found.places) != 1:
            return None
        leaf, position, rest = found.places[0]
        if not leaf.is_machine:
            return None
        if found.after is None:
            found.after = self._beyond(rest)
        return *(leaf.machine or machine_of(leaf)).alias(position), found.after

    def alternatives(self, state: int) -> tuple[int, ...]:
        """Return one state for each lexeme that this state may be inside, and one for all else."""
        places = self._states[state].places
        lexemes = [place for place in places if place[0].is_machine]
        if len(places) < 2 or not lexemes:
            return (state,)
        others = [place for place in places if not place[0].is_machine]
        return tuple(self._state(seeds) for seeds in ([*([p] for p in lexemes), others]) if seeds)

    def branches(self, state: int, most: int) -> Sequence[Branch] | None:
        """Return the texts that may come, and the lexemes this state may be inside."""
        return branches_of(self._states[state].places, most)

    def after(self, onward: Any) -> int:
        """Return the state behind the text of a branch."""
        return self._state((onward,))

    def into(self, onward: Any) -> tuple[Automaton, int, int]:
        """Return what :meth:`inside` does for a branch without a text: (machine, q, after)."""
        leaf, position, rest = onward
        return *(leaf.machine or machine_of(leaf)).alias(position), self._beyond(rest)

    def is_fork(self, state: int) -> bool:
        """Whether there may be more ways on than one branch: control tokens, the end."""
        found = self._states[state]
        return found.accepting or len(found.places) > 1

    def near(self, state: int, depth: int) -> tuple[Automaton, int]:
        """Return a state without those upper limits of repetitions that ``depth`` bytes cannot reach.

        It belongs to a second automaton, so that all counts beyond the depth are one state there.
        """
        key = state, depth
        known = self._nearby.get(key)
        if known is None:
            known = self._nearby[key] = self._near(state, depth)
        return known

    def _near(self, state: int, depth: int) -> tuple[Automaton, int]:
        places = self._states[state].places
        rests = [self._closure.unlimited(rest, depth) for _, _, rest in places]
        if all(fresh is rest for fresh, (_, _, rest) in zip(rests, places, strict=True)):
            return self, state
        if self._twin is None:
            self._twin = TreeAutomaton(self._root[0] or EMPTY, self._closure.rules, self._lengths)
        twin = self._twin
        moved = tuple(
            (leaf, position, twin._closure.adopted(rest))  # noqa: SLF001 - of the same class
            for (leaf, position, _), rest in zip(places, rests, strict=True)
        )
        return twin, twin._intern(moved, self._states[state].accepting)  # noqa: SLF001

    def counted(self, state: int) -> Counted | None:
        """Return what this state of a limited lexeme is in the unlimited one; None if it is neither."""
        if self._counting is False:
            self._counting = Counting.of(self._root[0], machine_of)
        if self._counting is None:
            return None
        if state not in self._counted:
            places = self._states[state].places
            self._counted[state] = self._counting.seen(places, machine_of)
        return self._counted[state]

    @property
    def is_endless(self) -> bool:
        """Whether this is a text, any number of one thing, and a text."""
        return is_endless(self._root[0])

    def state_of(self, places: Sequence[tuple[Node, Any, Sequence[Node]]]) -> int:
        """Return the state of these places, each with the nodes that follow it; it does not accept."""
        chain = self._closure.chain
        return self._intern(
            tuple((leaf, position, chain(nodes)) for leaf, position, nodes in places), False
        )

    def captures(self, symbols: Sequence[int | str]) -> list[Captured]:
        """Return the captures of what was read, in order of opening.

        ``symbols`` are bytes (ints) and control texts (str). Where the grammar is ambiguous, the
        first option and the longest repetition win (as in a backtracking regex engine). Offsets
        count symbols. Raises GrammarError if the symbols are not a prefix of the language.
        """
        trace = self.trace()
        for symbol in symbols:
            trace = trace.then(symbol)
        return trace.captures()

    def trace(self) -> Trace:
        """Return the reading of nothing; its ``then`` reads on, symbol by symbol."""
        read = reading(self._closure.of, machine_of)
        return Trace(read, *self._closure.of([(self._root, None)], 0), length=0)


def machine_of(node: Node) -> Automaton:
    """Return the automaton of a regular node, kept on the node: all grammars share it."""
    if node.machine is None:
        machine: Automaton
        if isinstance(node, Both | Except):
            machine = ProductAutomaton(
                machine_of(fresh(node.left)),
                machine_of(fresh(node.right)),
                subtract=isinstance(node, Except),
            )
        elif isinstance(node, Substrings):
            machine = SubstringAutomaton(node.units, node.starts, node.ends)
        elif isinstance(node, Table):
            machine = TableAutomaton(node.rows, node.accepting)
        elif isinstance(node, Divisible):
            machine = DivisibleAutomaton(node)
        elif isinstance(node, Names):
            machine = NameAutomaton(node, machine_of)
        else:
            body = node.body if isinstance(node, Lexeme) else node
            machine = machine_of(fresh(body)) if body.is_machine else TreeAutomaton(body, {}, {})
        machine.source = machine.source or source_of(node)
        object.__setattr__(node, "machine", machine)
    return node.machine  # type: ignore[no-any-return]


def least_of(
    node: Node, rule_lengths: Mapping[str, float], memory: dict[Node, float] | None = None
) -> float:
    """Fewest symbols of any string of ``node``, see :func:`shortest`."""
    return shortest(node, rule_lengths, machine_of, memory)
