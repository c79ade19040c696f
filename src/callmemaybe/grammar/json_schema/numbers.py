"""Numbers of a facet: an interval, multiples, and excluded values.

Multiples of decimals are an explicit automaton that reads a numeral and tracks its remainder; integers that
one integer divides are the node `Divisible`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, gcd, lcm
from typing import Any, NamedTuple

from callmemaybe.errors import GrammarError
from callmemaybe.grammar.automata.divisible import divisible
from callmemaybe.grammar.automaton import report_progress
from callmemaybe.grammar.json_schema.intervals import (
    ANY_INTEGER,
    ANY_NUMBER,
    DIGIT,
    NONZERO,
    UNLIMITED,
    Interval,
    decimals,
    integer_bounds,
    integers,
)
from callmemaybe.grammar.json_schema.shapes import (
    FRACTION,
    INTEGER,
    NUMBER,
    NumberFacet,
    least_common_multiple,
)
from callmemaybe.grammar.json_schema.values import exact
from callmemaybe.grammar.nodes import (
    NOTHING,
    DfaTable,
    Intersection,
    Node,
    alt,
    lexeme,
    lit,
    many,
    opt,
    seq,
    some,
)

#: States of an automaton of multiples.
MAX_STATES = 50_000
#: As many of them may be spent on the scientific form.
_MAX_SCIENTIFIC = 12_500
#: Steps (see ``automaton.WORK_BUDGET``) that take about as long as one of its states.
STEPS_PER_STATE = 5
#: Digits after the point in the scientific form: as many as the repr of a float has.
_DIGITS = 17


class _Sign(NamedTuple):
    """Nothing but an optional sign."""

    signed: bool


class _IntegerPart(NamedTuple):
    """Digits before the point: their remainder; whether they are 0; whether there is one, not 0."""

    rest: int
    zero: bool
    single: bool


class _FractionPart(NamedTuple):
    """Digits after the point too: how many, and what is known of the number.

    ``plain``, ``scientific``: whether these forms are still possible; ``settled``: whether the plain form is
    a multiple as it is (known once it has all digits a multiple can have); ``ends``: whether the last digit
    is not 0.
    """

    rest: int
    digits: int
    plain: bool
    scientific: bool
    settled: bool
    ends: bool


class _Exponent(NamedTuple):
    """The beginning of an exponent: the least and the largest allowed, its sign, a digit."""

    at_least: int | None
    at_most: int | None
    sign: str = ""
    digit: str = ""


class _ExponentEnd(NamedTuple):
    """Two or three digits of an exponent: whether they are allowed, and whether more may follow."""

    enough: bool
    more: bool


_State = _Sign | _IntegerPart | _FractionPart | _Exponent | _ExponentEnd


@lru_cache(maxsize=256)
def multiples(multiple: Fraction | None, excluded: tuple[Fraction, ...] = ()) -> Node:
    """Return the multiples of a finite decimal (None: all numbers) without those of some others.

    They are written as integers, decimals, and d.ddde+dd (the last digit before the e not 0). Raises
    GrammarError if that takes too many states.
    """
    return _MultiplesReader(multiple, excluded).table()


class _MultiplesReader:
    """An automaton that reads a numeral and tracks its remainder.

    With multiple = modulus / 10**places, the number D * 10**-f (D the digits read, f of them after the point)
    is a multiple if modulus divides D * 10**(places - f); so is D * 10**(e - f) if modulus divides D * 10**(e
    - f + places), unless the exponent is negative: then D would end in zeros.
    """

    def __init__(self, multiple: Fraction | None, excluded: tuple[Fraction, ...]) -> None:
        places = 0
        numbers = [*excluded] if multiple is None else [multiple, *excluded]
        while any((number * 10**places).denominator != 1 for number in numbers):
            places += 1
            if places > 400:
                raise GrammarError("no finite decimal")
        self._places = places
        self._multiple = None if multiple is None else int(multiple * 10**places)
        self._but = [int(number * 10**places) for number in excluded]
        self._modulus = lcm(self._multiple or 1, *self._but)
        if self._modulus > MAX_STATES // (places + 2):
            raise GrammarError("the multiples of this number take too large an automaton")
        self._class_of = _equivalent_remainders(self._modulus)
        is_small = len(set(self._class_of)) * _DIGITS < _MAX_SCIENTIFIC
        self._longest = _DIGITS if is_small else 0

    def table(self) -> Node:
        """Explore every state and return the automaton as a node."""
        order: list[_State] = [_Sign(False)]
        ids: dict[_State, int] = {order[0]: 0}
        rows: list[list[tuple[int, int]]] = []
        for state in order:
            report_progress(STEPS_PER_STATE)
            row: dict[int, int] = {}
            for char, target in self._moves(state):
                at = ids.setdefault(target, len(order))
                if at == len(order):
                    order.append(target)
                row[at] = row.get(at, 0) | 1 << ord(char)
            rows.append([(mask, at) for at, mask in row.items()])
        return _live_table(rows, {ids[state] for state in order if self._accepts(state)})

    def _accepts(self, state: _State) -> bool:
        match state:
            case _IntegerPart(rest):
                return self._is_multiple(rest, 0)
            case _FractionPart(rest, digits, plain):
                return (
                    plain
                    and digits > 0
                    and (
                        state.settled or (digits < self._places and self._is_multiple(rest, digits))
                    )
                )
            case _ExponentEnd(enough):
                return enough
        return False

    def _moves(self, state: _State) -> Iterator[tuple[str, _State]]:
        match state:
            case _Sign(signed):
                if not signed:
                    yield "-", _Sign(True)
                for digit in range(10):
                    yield (
                        str(digit),
                        _IntegerPart(self._next_remainder(0, digit), digit == 0, digit > 0),
                    )
            case _IntegerPart(rest, zero, single):
                if not zero:
                    for digit in range(10):
                        yield (
                            str(digit),
                            _IntegerPart(self._next_remainder(rest, digit), False, False),
                        )
                scientific = single and self._longest > 0
                settled = self._places == 0 and self._is_multiple(rest, 0)
                if scientific or self._places > 0:
                    yield ".", _FractionPart(rest, 0, True, scientific, settled, False)
                elif settled or self._multiple is None:  # the remainder matters no more
                    yield ".", _FractionPart(0, 0, True, False, settled, False)
                if scientific:
                    yield from self._exponent(rest, 0)
            case _FractionPart(rest, digits):
                for digit in range(10):
                    if (after := self._next_fraction(state, digit)) is not None:
                        yield str(digit), after
                if state.scientific and state.ends:
                    yield from self._exponent(rest, digits)
            case _Exponent():
                yield from self._exponent_digits(state)
            case _ExponentEnd(_, more) if more:
                for char in "0123456789":
                    yield char, _ExponentEnd(True, False)

    def _is_multiple(self, rest: int, digits: int) -> bool:
        scaled = rest * int(10 ** max(self._places - digits, 0))
        if self._multiple is not None and scaled % self._multiple:
            return False
        return all(scaled % other for other in self._but)

    def _next_remainder(self, rest: int, digit: int) -> int:
        return self._class_of[(rest * 10 + digit) % self._modulus]

    def _next_fraction(self, state: _FractionPart, digit: int) -> _FractionPart | None:
        """Return the state after one more digit behind the point, if anything can still follow."""
        rest, digits, plain, scientific, settled, _ = state
        beyond = digits >= self._places
        if beyond and digit > 0:
            settled = self._multiple is None  # finer than any multiple
        # Zeros do not turn another number into a multiple.
        plain = plain and (not beyond or settled or self._multiple is None)
        scientific = scientific and digits < self._longest
        if not plain and not scientific:
            return None
        if not beyond or scientific:
            rest = self._next_remainder(rest, digit)
        digits = digits + 1 if scientific else min(digits + 1, max(self._places, 1))
        if not beyond and digits == self._places:
            settled = self._is_multiple(rest, digits)
        if beyond and not scientific:
            rest = 0
        return _FractionPart(rest, digits, plain, scientific, settled, scientific and digit > 0)

    def _exponent(self, rest: int, digits: int) -> Iterator[tuple[str, _State]]:
        """Begin an exponent, if some powers of ten make a multiple of these digits."""
        at_least: int | None = None
        if self._multiple is not None:
            if (power := _power(rest, self._multiple)) is None:
                return
            at_least = digits - self._places + power
        limits = [_power(rest, other) for other in self._but]
        at_most = min(
            (digits - self._places + p - 1 for p in limits if p is not None), default=None
        )
        if at_most is None or at_least is None or at_least <= at_most:
            yield "e", _Exponent(at_least, at_most)

    @staticmethod
    def _exponent_digits(state: _Exponent) -> Iterator[tuple[str, _State]]:
        at_least, at_most, sign, first = state
        if not sign:
            if at_most is None or at_most >= 0:
                yield "+", _Exponent(at_least, at_most, "+")
            if at_least is None or at_least < 0:
                yield "-", _Exponent(at_least, at_most, "-")
            return
        for digit in "0123456789":
            if not first:
                yield digit, _Exponent(at_least, at_most, sign, digit)
                continue
            value = int(sign + first + digit)
            enough = (at_least is None or value >= at_least) and (
                at_most is None or value <= at_most
            )
            more = first != "0" and (at_most if sign == "+" else at_least) is None
            if (enough and (sign, value) != ("-", 0)) or more:
                yield digit, _ExponentEnd(enough, more)


def _power(rest: int, modulus: int) -> int | None:
    """Return the smallest power of ten that makes a remainder a multiple, if any does."""
    missing = modulus // gcd(rest, modulus)
    power = 0
    while 10**power % missing:
        power += 1
        if 2**power > modulus:
            return None
    return power


def _equivalent_remainders(modulus: int) -> list[int]:
    """Return for each remainder the smallest equivalent one (Moore's partition refinement, 1956).

    Remainders with different common divisors with the modulus are not equivalent.
    """
    classes = [gcd(rest, modulus) for rest in range(modulus)]
    count = 0
    while len(set(classes)) > count:
        report_progress(modulus // 4)
        count = len(set(classes))
        if count == modulus:
            return list(range(modulus))
        numbers: dict[tuple[int, ...], int] = {}
        # The remainders that the ten digits lead to stand in a row, or begin anew.
        around = classes * (1 + ceil(10 / modulus))
        following = [tuple(around[at : at + 10]) for at in range(modulus)]
        classes = [
            numbers.setdefault((classes[r], *following[r * 10 % modulus]), r)
            for r in range(modulus)
        ]
    return classes


def _live_table(rows: list[list[tuple[int, int]]], accepting: set[int]) -> Node:
    """Drop states from which nothing is accepted, and renumber the others."""
    sources: list[list[int]] = [[] for _ in rows]
    for state, row in enumerate(rows):
        for _, target in row:
            sources[target].append(state)
    live, waiting = set(accepting), list(accepting)
    while waiting:
        for source in sources[waiting.pop()]:
            if source not in live:
                live.add(source)
                waiting.append(source)
    order = [0, *(state for state in range(1, len(rows)) if state in live)]
    number = {state: index for index, state in enumerate(order)}
    return DfaTable(
        tuple(
            tuple((mask, number[target]) for mask, target in rows[state] if target in live)
            for state in order
        ),
        frozenset(number[state] for state in accepting),
    )


_NATURAL = alt(lit("0"), seq(NONZERO, many(DIGIT)))
#: Numbers that are no integers: a digit other than 0 after the point, or d.de-dd.
_NOT_INTEGER = lexeme(
    seq(
        opt(lit("-")),
        alt(
            seq(_NATURAL, lit("."), many(lit("0")), NONZERO, many(DIGIT)),
            seq(
                NONZERO,
                opt(seq(lit("."), some(DIGIT))),
                lit("e-"),
                many(lit("0")),
                NONZERO,
                many(DIGIT),
            ),
        ),
    )
)


def number_node(kinds: int, facet: NumberFacet | None, excluded: Mapping[Any, Any]) -> Node:
    """Return the numbers that a facet allows: integers, others, or both, by ``kinds``."""
    numbers = tuple(sorted({exact_of(v) for v in excluded.values() if _is_number(v)}))
    if facet is None and not numbers:
        if kinds & NUMBER == INTEGER:
            return ANY_INTEGER
        return ANY_NUMBER if kinds & NUMBER == NUMBER else _NOT_INTEGER
    return _numbers(kinds & NUMBER, facet or NumberFacet(), numbers)


def exact_of(value: float | Decimal) -> Fraction:
    """Return the exact value of a number of the schema."""
    return Fraction(value) if isinstance(value, int) else exact(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


@lru_cache(maxsize=1024)
def _numbers(kinds: int, facet: NumberFacet, excluded: tuple[Fraction, ...]) -> Node:
    write = integers if kinds == INTEGER else decimals
    gaps = [write(interval) for interval in _without(facet.interval, excluded)]
    node = lexeme(alt(*gaps))
    if node is NOTHING:
        return NOTHING
    if kinds == FRACTION:
        node = Intersection(node, _NOT_INTEGER)
    multiple, others = facet.multiple, facet.not_multiples
    if kinds == INTEGER:
        multiple = least_common_multiple(multiple or Fraction(1), Fraction(1))
        others = tuple(least_common_multiple(other, Fraction(1)) for other in others)
    if multiple is not None and any((multiple / other).denominator == 1 for other in others):
        return NOTHING
    if not others and (multiple is None or (multiple == 1 and kinds == INTEGER)):
        return node
    if multiple is not None and kinds == INTEGER and not others:
        found = (integer_bounds(interval) for interval in _without(facet.interval, excluded))
        return lexeme(alt(*(divisible(multiple.numerator, *bounds) for bounds in found)))
    allowed = multiples(multiple, tuple(sorted(set(others))))
    return allowed if node is ANY_NUMBER else Intersection(node, allowed)


def _without(interval: Interval, excluded: tuple[Fraction, ...]) -> list[Interval]:
    """Split an interval at excluded numbers (ascending)."""
    found = []
    for number in excluded:
        if number in interval:
            subschemas = interval & Interval(high=number, high_open=True)
            if not subschemas.is_empty:
                found.append(subschemas)
            interval = interval & Interval(low=number, low_open=True)
    return [*found, interval] if interval == UNLIMITED or not interval.is_empty else found
