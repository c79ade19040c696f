"""The states of an automaton of places: interned, each worked out when it is first met."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count

from callmemaybe.grammar.automaton import NO_CONTROLS, NO_EDGES, Automaton
from callmemaybe.grammar.closure import Closure
from callmemaybe.grammar.nodes import Control, Literal, Node
from callmemaybe.grammar.places import (
    NEVER,
    History,
    Place,
    Rest,
    Seed,
    State,
    moves,
    split,
)


class States(Automaton):
    """Makes states of what is reached, and the edges between them: the subset construction."""

    def __init__(
        self,
        rules: Mapping[str, Node],
        machine_of: Callable[[Node], Automaton],
        least_of: Callable[[Node], float],
    ) -> None:
        """Take the rules, the machine of a lexeme, and the fewest symbols of a node."""
        #: Those that accept, and the others.
        self._ends: dict[tuple[Place, ...], int] = {}
        self._ids: dict[tuple[Place, ...], int] = {}
        #: The state in which nothing is left.
        self._end: int | None = None
        self._next_id = count()
        self._states: dict[int, State] = {}
        self._machine_of = machine_of
        self._closure = Closure(rules, machine_of, least_of)

    def _state(self, seeds: Sequence[Seed]) -> int:
        """Intern the state that the seeds close to."""
        if len(seeds) == 1:
            leaf, position, rest = seeds[0]
            if leaf is None:
                return self._beyond(rest)
            if position is not None:
                if type(leaf) is Literal:
                    return self._intern(((leaf, position, rest),), False)
                if leaf.is_machine:
                    machine = leaf.machine or self._machine_of(leaf)
                    if not machine.is_accepting(position):
                        return self._intern(((leaf, position, rest),), False)
                    if machine.is_final(position):
                        return self._beyond(rest)
                    if rest is not None and rest.least:
                        return self._intern(((leaf, position, rest),), False)
        return self._closed(seeds)

    def _beyond(self, rest: Rest | None) -> int:
        """Return the state in which nothing but a continuation is left."""
        known = self._end if rest is None else rest.state
        if known is None:
            place = self._closure.straight(rest)
            if place is None:
                known = self._closed([(None, None, rest)])
            else:
                known = self._intern((place,), False)
            if rest is None:
                self._end = known
            else:
                rest.state = known
        return known

    def _closed(self, seeds: Sequence[Seed]) -> int:
        places: dict[Place, History] = {}
        accepting = False
        others = seeds
        if len(seeds) > 1:
            # What is behind something is the same wherever that is.
            others = [seed for seed in seeds if seed[0] is not None]
            for leaf, _, rest in seeds:
                if leaf is None:
                    known = self._states[self._beyond(rest)]
                    places.update(dict.fromkeys(known.places))
                    accepting = accepting or known.accepting
        if others:
            ended = self._closure.close([(seed, None) for seed in others], None, places)
            accepting = accepting or ended is not NEVER
        if not accepting:
            # Behind a lexeme that may be over now the end is near only where nothing must follow.
            for leaf, _, rest in places:
                if leaf.is_machine and (rest is None or not rest.least):
                    reached = self._closure.leave_lexemes(dict(places), NEVER, None)
                    accepting = reached is not NEVER
                    break
        return self._intern(tuple(places), accepting)

    def _intern(self, places: tuple[Place, ...], accepting: bool) -> int:
        ids = self._ends if accepting else self._ids
        found = ids.get(places)
        if found is None:
            self.spent += 1 + len(places)
            if self.spent > self.due:
                self.pause()
            fresh = next(self._next_id)
            self._states[fresh] = State(places, accepting)
            found = ids.setdefault(places, fresh)
        return found

    def _all_places(self, state: State) -> tuple[Place, ...]:
        """Return the places of a state, and those behind every lexeme that may end there."""
        if state.all_places is None:
            reached = state.places
            for leaf, position, _ in state.places:
                if leaf.is_machine and self._machine_of(leaf).is_accepting(position):
                    places: dict[Place, History] = dict.fromkeys(state.places)
                    self._closure.leave_lexemes(places, NEVER, None)
                    reached = tuple(places)
                    break
            state.all_places = reached
        return state.all_places

    def _expand(self, state: State) -> None:
        """Compute the edges: split the byte sets of all places into disjoint ones."""
        places = self._all_places(state)
        self.spent += len(places) >> 3
        if len(places) == 1 and type(places[0][0]) is Control:
            control, _, rest = places[0]
            state.controls = {control._fields[0]: self._beyond(rest)}
            state.edges = NO_EDGES
            return
        regions, controls = split(
            move for place in places for move in moves(place, self._machine_of)
        )
        edges: dict[int, int] = {}
        for mask, seeds in regions:
            target = self._state(seeds)
            edges[target] = edges.get(target, 0) | mask
        state.controls = NO_CONTROLS
        if controls:
            state.controls = {text: self._state(seeds) for text, seeds in controls.items()}
        state.edges = tuple((mask, target) for target, mask in edges.items()) or NO_EDGES
