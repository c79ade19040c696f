"""Following a text through a grammar with its captures, one symbol at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from callmemaybe.errors import GrammarError
from callmemaybe.grammar.automaton import Automaton, Captured
from callmemaybe.grammar.nodes import Node
from callmemaybe.grammar.places import (
    NEVER,
    History,
    Never,
    Place,
    Seed,
    captures_of,
    moves,
    takes,
)

#: (places, symbol, offset behind it) -> (places after it, history if the end is reached).
Reading = Callable[
    [Mapping[Place, History], int | str, int], tuple[dict[Place, History], History | Never]
]
#: (what is reached, with its history; offset) -> all places there, history if the end is reached.
Closing = Callable[
    [Iterable[tuple[Seed, History]], int | None], tuple[dict[Place, History], History | Never]
]


def reading(close: Closing, machine_of: Callable[[Node], Automaton]) -> Reading:
    """Return what moves places over one symbol; ``close`` finds all that are reached without any."""

    def read(
        places: Mapping[Place, History], symbol: int | str, offset: int
    ) -> tuple[dict[Place, History], History | Never]:
        moved = [
            (seed, history)
            for place, history in places.items()
            for mask, seed in moves(place, machine_of)
            if takes(mask, symbol)
        ]
        return close(moved, offset)

    return read


class Trace:
    """How a text was read, with the captures in it; immutable, and sharing what was read before."""

    __slots__ = ("_ended", "_length", "_places", "_read")

    def __init__(
        self,
        read: Reading,
        places: Mapping[Place, History],
        ended: History | Never,
        length: int,
    ) -> None:
        """Stand at these places after ``length`` symbols; ``read`` moves them over one more."""
        self._read = read
        self._places = places
        self._ended = ended
        self._length = length

    def then(self, symbol: int | str) -> Trace:
        """Return the trace after one more byte (int) or control token (str).

        Raises GrammarError if no string of the language goes on like that.
        """
        places, ended = self._read(self._places, symbol, self._length + 1)
        if not places and ended is NEVER:
            raise GrammarError(
                f"symbol {self._length} of the text is not in the grammar's language"
            )
        return Trace(self._read, places, ended, self._length + 1)

    def captures(self) -> list[Captured]:
        """Return the captures so far, in order of opening; see TreeAutomaton.captures."""
        ended = self._ended
        return captures_of(next(iter(self._places.values())) if ended is NEVER else ended)
