"""The multiples of an integer between two bounds, as an automaton that is never built as a whole.

A state is the value read so far, reduced to the smallest value with the same continuations: the same
remainder, number of digits and side of each bound. Which digits may follow, and how many are needed to the
end, is arithmetic (the next multiple in a range). A large modulus therefore costs only the visited states.
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from callmemaybe.errors import GrammarError
from callmemaybe.grammar.automaton import Automaton, Edges
from callmemaybe.grammar.nodes import FIELD, INFINITE, Node

#: States on all shortest completions: a matcher with a token budget visits all of them.
MAX_STATES = 20_000


class Divisible(Node):
    """The decimal integers from ``low`` to ``high`` (None: unbounded) that ``step`` divides.

    Without leading zeros; ``-0`` is included where 0 is.
    """

    __slots__ = ()
    is_machine = True

    #: At least 1.
    step: int = FIELD[0]
    low: int | None = FIELD[1]
    high: int | None = FIELD[2]


def divisible(step: int, low: int | None, high: int | None) -> Node:
    """Return the integers from ``low`` to ``high`` that ``step`` divides.

    Raises GrammarError if their shortest completions visit too many states.
    """
    for minimum, maximum in (
        (low, high),
        (None if high is None else -high, None if low is None else -low),
    ):
        first = -(-max(minimum or 0, 0) // step) * step
        last = 10 ** len(str(first)) - 1
        found = (last if maximum is None else min(last, maximum)) // step - first // step + 1
        states = sum(min(10**size, step, max(found, 0)) for size in range(len(str(first))))
        if states > MAX_STATES:
            raise GrammarError("the multiples of this number take too large an automaton")
    return Divisible(step, low, high)


class _Prefix(NamedTuple):
    """The input so far: a sign, and the value of the digits.

    ``is_unbounded``: every continuation is within the bounds, so ``value`` is only the remainder.
    """

    negative: bool = False
    digits: bool = False
    value: int = 0
    is_unbounded: bool = False


class DivisibleAutomaton(Automaton):
    """An optional sign and digits; see the node ``Divisible``."""

    def __init__(self, node: Divisible) -> None:
        """Start with nothing read."""
        self._step = node.step
        low, high = node.low, node.high
        #: By sign: the smallest and the largest (None: unbounded) magnitude; None if there is none.
        self._bounds: dict[bool, tuple[int, int | None] | None] = {
            False: None if high is not None and high < 0 else (max(low or 0, 0), high),
            True: None if low is not None and low > 0 else (
                max(-high if high is not None else 0, 0), None if low is None else -low,
            ),
        }  # fmt: skip
        self._states: dict[int, _Prefix] = {}
        self._next_id = count()
        self._ids: dict[_Prefix, int] = {}
        self._edges: dict[int, Edges] = {}
        self._min_digits_cache: dict[_Prefix, float] = {}
        self.min_length = self._min_digits(_Prefix())
        self.start = self._intern(_Prefix())

    def is_accepting(self, state: int) -> bool:
        """Whether the input so far is one of the integers."""
        return self._min_digits(self._states[state]) == 0

    def min_remaining(self, state: int) -> int:
        """Return the fewest further digits to one of the integers."""
        return int(self._min_digits(self._states[state]))

    def edges(self, state: int) -> Edges:
        """Return (byte set, target) pairs."""
        found = self._edges.get(state)
        if found is None:
            masks: dict[int, int] = {}
            for byte, target in self._moves(self._states[state]):
                if self._min_digits(target) < INFINITE:
                    number = self._intern(target)
                    masks[number] = masks.get(number, 0) | 1 << byte
            found = self._edges[state] = tuple((mask, target) for target, mask in masks.items())
        return found

    def _intern(self, prefix: _Prefix) -> int:
        number = self._ids.get(prefix)
        if number is None:
            self.steps += 1
            if self.steps > self.next_check:
                self.check_budget()
            fresh = next(self._next_id)  # two threads may be here at once
            self._states[fresh] = prefix
            number = self._ids.setdefault(prefix, fresh)
        return number

    def _moves(self, prefix: _Prefix) -> list[tuple[int, _Prefix]]:
        """Return the bytes that may follow, with their targets."""
        if prefix.digits and not prefix.value and not prefix.is_unbounded:
            return []  # no leading zeros
        first = [] if prefix.digits or prefix.negative else [(0x2D, _Prefix(negative=True))]
        return first + [(0x30 + digit, self._append(prefix, digit)) for digit in range(10)]

    def _append(self, prefix: _Prefix, digit: int) -> _Prefix:
        value = prefix.value * 10 + digit
        bounds = self._bounds[prefix.negative]
        is_unbounded = prefix.is_unbounded or bool(
            value and bounds and bounds[1] is None and value >= bounds[0]
        )
        if is_unbounded:
            value %= self._step
        elif value and bounds is not None:
            value = self._representative(value, bounds)
        return _Prefix(prefix.negative, True, value, is_unbounded)

    def _representative(self, value: int, bounds: tuple[int, int | None]) -> int:
        """Return the smallest value with the same continuations."""
        size = len(str(value))
        minimum = int(10 ** (size - 1))
        for bound in bounds:
            if bound is not None and (longer := len(str(bound)) - size) >= 0:
                begun = bound // 10**longer
                if begun == value:
                    return value
                if begun < value:
                    minimum = max(minimum, begun + 1)
        return minimum + (value - minimum) % self._step

    def _min_digits(self, prefix: _Prefix) -> float:
        """Return the fewest digits from a prefix to a multiple within the bounds."""
        found = self._min_digits_cache.get(prefix)
        if found is None:
            if prefix.digits:
                found = self._more_digits(prefix)
            else:
                found = 1 + min(
                    (self._min_digits(after) for _, after in self._moves(prefix)), default=INFINITE
                )
            self._min_digits_cache[prefix] = found
        return found

    def _more_digits(self, prefix: _Prefix) -> float:
        bounds = self._bounds[prefix.negative]
        if bounds is None:
            return INFINITE
        low, high = (0, None) if prefix.is_unbounded else bounds
        minimum, size, digits = prefix.value, 1, 0
        # After `digits` more digits: the `size` numbers from `minimum` on.
        while high is None or minimum <= high:
            first = -(-max(minimum, low) // self._step) * self._step
            last = minimum + size - 1
            if first <= (last if high is None else min(last, high)):
                return digits
            if not prefix.value and not prefix.is_unbounded:
                break
            minimum, size, digits = minimum * 10, size * 10, digits + 1
        return INFINITE
