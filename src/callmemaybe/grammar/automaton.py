"""The contract of a deterministic automaton over bytes and control tokens.

States are interned integers: equal situations are one state however they were reached, so whatever
is computed for a state (its edges here, its token mask in ``matching``) is computed once. Expansion
is lazy, and nothing is ever a dead end: what cannot reach an accepting end is dropped when it arises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, NamedTuple, NoReturn

from callmemaybe.errors import GrammarError

ProgressCallback = Callable[[int], None]

_CALLBACK: ContextVar[ProgressCallback | None] = ContextVar("told", default=None)


@contextmanager
def progress_reported_to(reported: ProgressCallback) -> Iterator[None]:
    """Let ``reported`` know, in this context, how many steps were taken since it was last told.

    It is called between two steps and may take its time; what it raises ends the work, of which all
    that is finished is kept.
    """
    before = _CALLBACK.set(reported)
    try:
        yield
    finally:
        _CALLBACK.reset(before)


def report_progress(steps: int) -> None:
    """Say that so many steps were taken."""
    reported = _CALLBACK.get()
    if reported is not None:
        reported(steps)


DEAD = -1
#: The one limit on work: the steps that one automaton may take, over all who share it. A step is a
#: place in the grammar that is kept in a new state (or eight that are moved), some microseconds and some
#: hundred bytes. States are made while decoding, so it is then that a hostile pattern meets the limit;
#: a regular language with fewer states never does, however long it is in use.
WORK_BUDGET = 1_000_000
#: Steps between two looks at the limit; also those that are told of at a time (see ``pace``).
CHECK_INTERVAL = 64
#: A text, and what :meth:`Automaton.after_branch` takes.
Branch = tuple[bytes, Any]
Edges = tuple[tuple[int, int], ...]
_NEXT_SERIAL = count()
NO_EDGES: Edges = ()
NO_CONTROLS: Mapping[str, int] = {}


#: What begins the message of an error whose language is out of bounds, and not beyond grammars.
BUDGET_EXCEEDED = "reading this takes an automaton of more than"


class Captured(NamedTuple):
    """One capture: its name and where it starts and ends, in symbols; ``end`` None while open."""

    name: str
    start: int
    end: int | None


class _Renewals:
    """How many automata have spent half of their work, so that nobody asks while none has."""

    count = 0


RENEWALS = _Renewals()


class Automaton:
    """What every automaton offers; states are ints, 0 is the start, -1 is dead.

    Expansion is lazy and idempotent, so automata may be shared between threads: two threads that
    expand the same state at once do the same work twice and keep one result.
    """

    _serial = -1
    start: int
    #: The steps taken so far, those that were told of, and at how many to look at the limit again.
    steps = reported = next_check = 0
    #: How many automata were worn when it was last looked whether this stands on one, and whether it did.
    _is_counted = False
    _renewals_seen, _dependency_needs_renewal = 0, False
    #: What this was made of, to be named in an error.
    source = ""
    min_length: float
    """Fewest symbols of any accepted string (infinite if there is none)."""

    @property
    def serial(self) -> int:
        """A number that no other automaton has; given when first asked for."""
        if self._serial < 0:
            self._serial = next(_NEXT_SERIAL)
        return self._serial

    @property
    def needs_renewal(self) -> bool:
        """Whether half of the work is spent, here or by what this stands on; a new one serves better."""
        if self.steps > WORK_BUDGET // 2:
            return True
        if self._renewals_seen < RENEWALS.count:
            self._renewals_seen = RENEWALS.count
            self._dependency_needs_renewal = any(one.needs_renewal for one in self.dependencies())
        return self._dependency_needs_renewal

    def dependencies(self) -> Iterable[Automaton]:
        """Return the automata that this one asks, so far."""
        return ()

    def check_budget(self) -> None:
        """Look at the limit, and tell of the steps since the last look. To be called past ``next_check``.

        Raises GrammarError if the work is spent, and what whoever is told raises.
        """
        if self.steps > WORK_BUDGET:
            self._raise_exceeded()
        if self.steps > WORK_BUDGET // 2 and not self._is_counted:
            self._is_counted = True
            RENEWALS.count += 1
        steps, self.reported = self.steps - self.reported, self.steps
        self.next_check = min(self.steps + CHECK_INTERVAL, WORK_BUDGET)
        report_progress(steps)

    def _raise_exceeded(self) -> NoReturn:
        shown = self.source if len(self.source) <= 100 else self.source[:97] + "..."
        raise GrammarError(
            f"{BUDGET_EXCEEDED} {WORK_BUDGET:,} steps",
            where=shown or None,
            hint="use fewer or shorter counted repetitions, alternatives and length limits",
        )

    def edges(self, state: int) -> Edges:
        """Return (set of bytes as a 256-bit int, target) pairs; the sets are disjoint."""
        raise NotImplementedError

    def first_bytes(self, state: int) -> int:
        """Return the bytes that may come next, as a 256-bit set."""
        union = 0
        for mask, _ in self.edges(state):
            union |= mask
        return union

    def controls(self, state: int) -> Mapping[str, int]:  # noqa: ARG002 - for those that have some
        """Return the control tokens allowed here, by text, with their targets; lexemes have none."""
        return NO_CONTROLS

    def is_accepting(self, state: int) -> bool:
        """Whether what was read so far is in the language."""
        raise NotImplementedError

    def min_remaining(self, state: int) -> int:
        """Fewest further symbols (bytes or controls) to an accepting end."""
        raise NotImplementedError

    def shortest_edges(self, state: int) -> Edges:
        """Return edges that lead nearer to an end: all, or some that are as good as all."""
        left = self.min_remaining(state) - 1
        return tuple(edge for edge in self.edges(state) if self.min_remaining(edge[1]) == left)

    def is_final(self, state: int) -> bool:
        """Whether this state accepts and nothing may follow."""
        return self.is_accepting(state) and not self.first_bytes(state) and not self.controls(state)

    def step(self, state: int, byte: int) -> int:
        """Return the state after one byte, or -1."""
        for mask, target in self.edges(state):
            if mask >> byte & 1:
                return target
        return DEAD

    def walk(self, state: int, data: bytes) -> int:
        """Return the state after all of ``data``, or -1."""
        for byte in data:
            if state < 0:
                return DEAD
            state = self.step(state, byte)
        return state

    def walk_to_accepting(self, state: int, data: bytes, at: int) -> tuple[int, int]:
        """Follow ``data[at:]`` to the first accepting state; return the state, and how far it went."""
        while at < len(data):
            state = self.step(state, data[at])
            at += 1
            if state == DEAD or self.is_accepting(state):
                break
        return state, at

    def forced(self, state: int) -> tuple[bytes, int]:
        """Return the longest run of bytes that must come next, and the state after it.

        The run ends before a choice, a control token, an accepting state, or a loop.
        """
        run = bytearray()
        seen = {state}
        while not self.is_accepting(state) and not self.controls(state):
            edges = self.edges(state)
            if len(edges) != 1 or edges[0][0] & (edges[0][0] - 1):
                break
            target = edges[0][1]
            if target in seen:
                break
            run.append(edges[0][0].bit_length() - 1)
            seen.add(target)
            state = target
        return bytes(run), state

    def inside_lexeme(self, state: int) -> tuple[Automaton, int, int] | None:  # noqa: ARG002 - the contract's argument
        """Return (machine, q, after) if this state is nothing but "inside one lexeme at q".

        When the lexeme ends, matching continues in state ``after``.
        """
        return None

    def alternatives(self, state: int) -> tuple[int, ...]:
        """Return states that together allow what this one does, each simpler where that is possible."""
        return (state,)

    def branches(self, state: int, most: int) -> Sequence[Branch] | None:  # noqa: ARG002 - as above
        """Return what bytes may come: texts, and (with an empty text) lexemes this may be inside.

        Together they allow the bytes which the state does; control tokens are not among them. None
        where there is anything else, or more than ``most``.
        """
        return None

    def after_branch(self, onward: Any) -> int:
        """Return the state behind the text of a branch, given what came with it in the branch."""
        raise NotImplementedError

    def enter_branch(self, onward: Any) -> tuple[Automaton, int, int]:
        """Return what :meth:`inside` does for a branch without a text: (machine, q, after)."""
        raise NotImplementedError

    def is_branching(self, state: int) -> bool:  # noqa: ARG002 - the contract's argument
        """Whether there may be more ways on than one branch: control tokens, the end."""
        return True

    def alias(self, state: int) -> tuple[Automaton, int]:
        """Return the simplest (automaton, state) that behaves exactly as this state."""
        return self, state

    def relaxed(self, state: int, depth: int) -> tuple[Automaton, int]:  # noqa: ARG002 - the contract's argument
        """Return an (automaton, state) that allows the same next ``depth`` bytes, and few others have.

        Distances are the same too, and so is whether each of the states on the way accepts.
        """
        return self, state

    def as_counted(self, state: int) -> Any:  # noqa: ARG002 - the contract's argument
        """Return the ``counting.Counted`` that this state is, if it is one."""
        return None

    @property
    def is_unbounded(self) -> bool:
        """Whether every text that is not complete has completions of any length from some on."""
        return False

    def as_exclusion(self, state: int, most: int) -> tuple[Automaton, int, list[bytes]] | None:  # noqa: ARG002
        """Return (machine, q, texts) if this state is that one of another machine without the texts.

        Both live on before and beside the texts, of which there are ``most`` at most.
        """
        return None

    def captures(self, symbols: Sequence[int | str]) -> list[Captured]:  # noqa: ARG002 - the contract's argument
        """Return the captures of what was read, in order of opening; offsets count symbols."""
        return []
