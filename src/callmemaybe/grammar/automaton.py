"""The interface of a deterministic automaton over bytes and control tokens, with its budget of work.

States are interned integers: equal situations are one state, however they were reached. What is computed for
a state (its edges here, its token mask in `matching`) is therefore computed once. States are expanded lazily,
and no state is a dead end: what cannot reach an accepting state is dropped when it arises.

Automata grow while they are read, so hostile grammars are limited here: each automaton counts its steps,
raises an error beyond `WORK_BUDGET`, and reports progress so that a scheduler can interrupt it. Steps are
counted, not seconds: results do not depend on the machine.
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
    """Call ``reported`` with the number of steps since its last call, while in this context.

    It is called between two steps and may block; an exception from it ends the work, and the states finished
    so far remain. The callback holds for the current thread or task only.
    """
    before = _CALLBACK.set(reported)
    try:
        yield
    finally:
        _CALLBACK.reset(before)


def report_progress(steps: int) -> None:
    """Pass a number of finished steps to the current callback, if there is one."""
    reported = _CALLBACK.get()
    if reported is not None:
        reported(steps)


@contextmanager
def steps_limited(most: int, exceeded: Callable[[], Exception]) -> Iterator[Callable[[], int]]:
    """Raise ``exceeded()`` once more than ``most`` steps are reported in this context, and at each step after that.

    The steps are passed on to the callback around this context, which may interrupt the work as well. The context's
    value returns how many were reported so far.
    """
    outer, left = _CALLBACK.get(), most

    def count_down(steps: int) -> None:
        nonlocal left
        left -= steps
        if left < 0:
            raise exceeded()
        if outer is not None:
            outer(steps)

    with progress_reported_to(count_down):
        yield lambda: most - left


DEAD = -1
#: The steps that one automaton may take, over all its users. A step is one item stored in a new state (or
#: eight items moved): some microseconds and some hundred bytes. States are built while decoding, so a
#: hostile pattern reaches the limit then; a regular language with fewer states never does.
WORK_BUDGET = 120_000
#: Steps between two looks at the budget and two reports of progress.
CHECK_INTERVAL = 64
#: A text, and what :meth:`Automaton.after_branch` needs to continue behind it.
Branch = tuple[bytes, Any]
Edges = tuple[tuple[int, int], ...]
_NEXT_SERIAL = count()
NO_EDGES: Edges = ()
NO_CONTROLS: Mapping[str, int] = {}


#: How the message of an exceeded budget begins; other grammar errors begin differently.
BUDGET_EXCEEDED = "reading this takes an automaton of more than"


class Captured(NamedTuple):
    """One capture: its name, and its start and end in symbols; ``end`` is None while it is open."""

    name: str
    start: int
    end: int | None


class _Renewals:
    """Counts the automata that have used half of their budget, so that nobody searches while there is none."""

    count = 0


RENEWALS = _Renewals()


class Automaton:
    """The interface of all automata. States are ints: ``start`` is the first, -1 is dead.

    Expansion is lazy and idempotent, so threads may share an automaton: two threads that expand the same
    state at once do the same work twice and keep one result.
    """

    _serial = -1
    start: int
    #: Steps taken, steps reported, and the number of steps at which to check the budget next.
    steps = reported = next_check = 0
    #: The value of RENEWALS.count at the last search of the dependencies, and what the search found.
    _is_counted = False
    _renewals_seen, _dependency_needs_renewal = 0, False
    #: The pattern this was made from, named in errors.
    source = ""
    min_length: float
    """Fewest symbols of any accepted string (infinite if there is none)."""

    @property
    def serial(self) -> int:
        """A number unique to this automaton, assigned on first use."""
        if self._serial < 0:
            self._serial = next(_NEXT_SERIAL)
        return self._serial

    @property
    def needs_renewal(self) -> bool:
        """Whether this automaton or one it depends on has used half of its budget: a new one should be made."""
        if self.steps > WORK_BUDGET // 2:
            return True
        if self._renewals_seen < RENEWALS.count:
            self._renewals_seen = RENEWALS.count
            self._dependency_needs_renewal = any(one.needs_renewal for one in self.dependencies())
        return self._dependency_needs_renewal

    def dependencies(self) -> Iterable[Automaton]:
        """Return the automata that this one has used so far."""
        return ()

    def check_budget(self) -> None:
        """Check the budget and report the steps since the last check; to be called beyond ``next_check``.

        Raises GrammarError if the budget is exceeded, and whatever the progress callback raises.
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
        """Return (set of bytes as a 256-bit integer, target) pairs; the sets are disjoint."""
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
        """Whether the input so far is in the language."""
        raise NotImplementedError

    def min_remaining(self, state: int) -> int:
        """Return the fewest further symbols (bytes or control tokens) to an accepting state."""
        raise NotImplementedError

    def shortest_edges(self, state: int) -> Edges:
        """Return the edges that begin a shortest completion: all of them, or some that are as good."""
        left = self.min_remaining(state) - 1
        return tuple(edge for edge in self.edges(state) if self.min_remaining(edge[1]) == left)

    def is_final(self, state: int) -> bool:
        """Whether this state accepts and has no successor."""
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
        """Follow ``data[at:]`` to the first accepting state; return that state and the offset behind it."""
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
        """Return (machine, q, after) if this state is exactly "inside one lexeme, at its state q".

        When the lexeme ends, matching continues in state ``after``.
        """
        return None

    def alternatives(self, state: int) -> tuple[int, ...]:
        """Return states whose union allows the same as this one, each simpler where possible."""
        return (state,)

    def branches(self, state: int, most: int) -> Sequence[Branch] | None:  # noqa: ARG002 - as above
        """Return the possible continuations as texts, and as lexemes (with an empty text).

        Together they allow the same bytes as the state; control tokens are not included. None if the state
        has other items, or more than ``most`` branches.
        """
        return None

    def after_branch(self, onward: Any) -> int:
        """Return the state behind the text of a branch, given the second part of the branch."""
        raise NotImplementedError

    def enter_branch(self, onward: Any) -> tuple[Automaton, int, int]:
        """Return what :meth:`inside_lexeme` does for a branch with an empty text: (machine, q, after)."""
        raise NotImplementedError

    def is_branching(self, state: int) -> bool:  # noqa: ARG002 - the contract's argument
        """Whether anything besides a single branch may follow: control tokens, the end."""
        return True

    def alias(self, state: int) -> tuple[Automaton, int]:
        """Return the simplest (automaton, state) that behaves exactly like this state."""
        return self, state

    def relaxed(self, state: int, depth: int) -> tuple[Automaton, int]:  # noqa: ARG002 - the contract's argument
        """Return an (automaton, state) with the same next ``depth`` bytes, which many states share.

        The shortest completions are the same too, and so is which of the next states accept.
        """
        return self, state

    def as_counted(self, state: int) -> Any:  # noqa: ARG002 - the contract's argument
        """Return this state as a ``counting.CountedState``, if it is one."""
        return None

    @property
    def is_unbounded(self) -> bool:
        """Whether every incomplete text has completions of every sufficient length."""
        return False

    def as_exclusion(self, state: int, most: int) -> tuple[Automaton, int, list[bytes]] | None:  # noqa: ARG002
        """Return (machine, q, texts) if this state is state q of another machine without some texts.

        Completions exist before and beside the texts; there are at most ``most`` of them.
        """
        return None

    def captures(self, symbols: Sequence[int | str]) -> list[Captured]:  # noqa: ARG002 - the contract's argument
        """Return the captures of the input, in order of opening; offsets count symbols."""
        return []
