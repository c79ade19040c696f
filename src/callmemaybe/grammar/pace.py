"""Work told of as it is done, so that whoever works for several requests can give way to the others.

Counted in steps of automata (``automaton.WORK`` says what one is), never by a clock, and kept apart by
context: what is set in one thread or task holds there alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Told = Callable[[int], None]

_TOLD: ContextVar[Told | None] = ContextVar("told", default=None)


@contextmanager
def paced(told: Told) -> Iterator[None]:
    """Let ``told`` know, in this context, how many steps were taken since it was last told.

    It is called between two steps and may take its time; what it raises ends the work, of which all
    that is finished is kept.
    """
    before = _TOLD.set(told)
    try:
        yield
    finally:
        _TOLD.reset(before)


def tell(steps: int) -> None:
    """Say that so many steps were taken."""
    told = _TOLD.get()
    if told is not None:
        told(steps)
