"""Languages of JSON numbers: intervals of integers and decimals, digit by digit, of any size.

Numbers are written as integers, as decimals such as ``-12.50``, and in the scientific form ``1.5e-07`` of
Python's repr (one digit from 1 to 9 before the point, a sign and at least two digits in the exponent).
Without bounds every form of RFC 8259 is allowed. All bounds are exact for all of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from callmemaybe.grammar.nodes import (
    EMPTY,
    NOTHING,
    Intersection,
    Node,
    alt,
    byte_range,
    lexeme,
    lit,
    many,
    opt,
    repeat,
    seq,
    some,
)

DIGIT = byte_range(48, 57)
NONZERO = byte_range(49, 57)
_ZEROS = many(lit("0"))
_POINT = lit(".")
_ANY_FRACTION = opt(seq(_POINT, some(DIGIT)))
# Three digits: no float exceeds 1e308, and a model cannot loop in an exponent.
_ANY_EXPONENT = opt(seq(alt(lit("e"), lit("E")), opt(alt(lit("+"), lit("-"))), repeat(DIGIT, 1, 3)))
_NATURAL = alt(lit("0"), seq(NONZERO, many(DIGIT)))

ANY_INTEGER = lexeme(seq(opt(lit("-")), _NATURAL))
ANY_NUMBER = lexeme(seq(opt(lit("-")), _NATURAL, _ANY_FRACTION, _ANY_EXPONENT))


@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers between two finite decimals; None means unbounded."""

    low: Fraction | None = None
    high: Fraction | None = None
    low_open: bool = False
    high_open: bool = False

    def __and__(self, other: Interval) -> Interval:
        """Return the intersection."""
        low, low_open = _tighter((self.low, self.low_open), (other.low, other.low_open), lower=True)
        high, high_open = _tighter(
            (self.high, self.high_open), (other.high, other.high_open), lower=False
        )
        return Interval(low, high, low_open, high_open)

    def __contains__(self, value: Fraction | int) -> bool:
        if self.low is not None and (value < self.low or (self.low_open and value == self.low)):
            return False
        return self.high is None or not (
            value > self.high or (self.high_open and value == self.high)
        )

    @property
    def is_empty(self) -> bool:
        """Whether no number is inside."""
        if self.low is None or self.high is None:
            return False
        return self.low > self.high or (self.low == self.high and (self.low_open or self.high_open))


UNLIMITED = Interval()
_Bound = tuple[Fraction | None, bool]


def _tighter(one: _Bound, other: _Bound, *, lower: bool) -> _Bound:
    if one[0] is None:
        return other
    if other[0] is None:
        return one
    if one[0] == other[0]:
        return one[0], one[1] or other[1]
    return one if (one[0] > other[0]) is lower else other


# -- integers -------------------------------------------------------------------------------


def integer_bounds(interval: Interval) -> tuple[int | None, int | None]:
    """Return the smallest and the largest integer in an interval, None where it is unbounded."""
    low = high = None
    if interval.low is not None:
        low = -(-interval.low.numerator // interval.low.denominator)
        low += interval.low_open and low == interval.low
    if interval.high is not None:
        high = interval.high.numerator // interval.high.denominator
        high -= interval.high_open and high == interval.high
    return low, high


@lru_cache(maxsize=1024)
def integers(interval: Interval) -> Node:
    """Return the integer literals in an interval (-0 included where 0 is)."""
    if interval == UNLIMITED:
        return ANY_INTEGER
    low, high = integer_bounds(interval)
    negative = NOTHING
    if low is None or low < 0 or (low == 0 and (high is None or high >= 0)):
        nearest = 0 if high is None or high >= 0 else -high
        negative = seq(lit("-"), naturals(nearest, None if low is None else -low))
    positive = NOTHING if high is not None and high < 0 else naturals(max(low or 0, 0), high)
    return lexeme(alt(positive, negative))


def naturals(low: int, high: int | None) -> Node:
    """Return the decimal numerals from ``low`` (>= 0) to ``high``, without leading zeros."""
    if high is not None and high < low:
        return NOTHING
    first = decimal_digits(low)
    if high is None:
        longer = seq(NONZERO, repeat(DIGIT, len(first), None))
        return alt(_same_length(first, None), longer)
    last = decimal_digits(high)
    if len(first) == len(last):
        return _same_length(first, last)
    between = NOTHING
    if len(last) - len(first) > 1:
        between = seq(NONZERO, repeat(DIGIT, len(first), len(last) - 2))
    shortest_of_last = "1" + "0" * (len(last) - 1)
    return alt(_same_length(first, None), between, _same_length(shortest_of_last, last))


def decimal_digits(number: int) -> str:
    """Return the digits of a non-negative integer of any length."""
    # str(int) refuses more than 4,300 digits (CVE-2020-10735).
    if number.bit_length() < 13_000:
        return str(number)
    half = number.bit_length() * 3 // 20
    head, tail = divmod(number, 10**half)
    return decimal_digits(head) + decimal_digits(tail).rjust(half, "0")


def _same_length(low: str, high: str | None) -> Node:
    """Return the digit strings as long as ``low``, from it up to ``high`` (None: all nines)."""
    if high is None:
        return _from(low)
    if low > high:
        return NOTHING
    shared = next((i for i, (a, b) in enumerate(zip(low, high, strict=True)) if a != b), len(low))
    if shared == len(low):
        return lit(low)
    a, b, left = ord(low[shared]), ord(high[shared]), len(low) - shared - 1
    middle = seq(byte_range(a + 1, b - 1), repeat(DIGIT, left, left)) if b - a > 1 else NOTHING
    return seq(
        lit(low[:shared]),
        alt(
            seq(lit(low[shared]), _from(low[shared + 1 :])),
            middle,
            seq(lit(high[shared]), _up_to(high[shared + 1 :])),
        ),
    )


def _from(low: str) -> Node:
    node = EMPTY
    for left, digit in enumerate(reversed(low)):
        above = seq(byte_range(ord(digit) + 1, 57), repeat(DIGIT, left, left))
        node = alt(seq(lit(digit), node), above if digit < "9" else NOTHING)
        if low[len(low) - left - 1 :].strip("0") == "":
            node = repeat(DIGIT, left + 1, left + 1)
    return node


def _up_to(high: str) -> Node:
    node = EMPTY
    for left, digit in enumerate(reversed(high)):
        subschemas = seq(byte_range(48, ord(digit) - 1), repeat(DIGIT, left, left))
        node = alt(seq(lit(digit), node), subschemas if digit > "0" else NOTHING)
        if high[len(high) - left - 1 :].strip("9") == "":
            node = repeat(DIGIT, left + 1, left + 1)
    return node


# -- decimals -------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def decimals(interval: Interval) -> Node:
    """Return every number in an interval, as integer, decimal and in scientific form."""
    if interval == UNLIMITED:
        return ANY_NUMBER
    if interval.is_empty:
        return NOTHING
    positive = negative = NOTHING
    if interval.high is None or interval.high >= 0:
        positive = _magnitudes(interval & Interval(Fraction(0)))
    mirrored = Interval(
        None if interval.high is None else -interval.high,
        None if interval.low is None else -interval.low,
        interval.high_open,
        interval.low_open,
    )
    if mirrored.high is None or mirrored.high >= 0:
        negative = seq(lit("-"), _magnitudes(mirrored & Interval(Fraction(0))))
    return lexeme(alt(positive, negative))


def _magnitudes(interval: Interval) -> Node:
    """Return the unsigned numbers of an interval from 0 up."""
    if interval.is_empty:
        return NOTHING
    if interval.low == 0 and interval.high is None:
        if not interval.low_open:
            return seq(_NATURAL, _ANY_FRACTION, _ANY_EXPONENT)
        more = seq(_ANY_FRACTION, _ANY_EXPONENT)
        fraction = seq(_POINT, _ZEROS, NONZERO, many(DIGIT), _ANY_EXPONENT)
        return alt(seq(NONZERO, many(DIGIT), more), seq(lit("0"), fraction))
    return alt(_without_exponent(interval), _scientific(interval))


def _split(value: Fraction) -> tuple[int, str]:
    """Return the integer part and the digits after the point (without trailing zeros)."""
    integer_bounds, rest = divmod(value.numerator, value.denominator)
    digits = []
    while rest:
        digit, rest = divmod(rest * 10, value.denominator)
        digits.append(str(digit))
    return integer_bounds, "".join(digits)


def _without_exponent(interval: Interval) -> Node:
    """Return the unsigned numbers of an interval without exponents."""
    assert interval.low is not None
    low, low_digits = _split(interval.low)
    if interval.high is None:
        onward = seq(naturals(low + 1, None), _ANY_FRACTION)
        return alt(seq(_numeral(low), _fraction_from(low_digits, interval.low_open)), onward)
    high, high_digits = _split(interval.high)
    above = _fraction_from(low_digits, interval.low_open)
    subschemas = _fraction_up_to(high_digits, interval.high_open)
    if low == high:
        return seq(_numeral(low), _overlap(above, subschemas))
    return alt(
        seq(_numeral(low), above),
        seq(naturals(low + 1, high - 1), _ANY_FRACTION),
        seq(_numeral(high), subschemas),
    )


def _overlap(above: Node, subschemas: Node) -> Node:
    if above is _ANY_FRACTION:
        return subschemas
    if subschemas is NOTHING or above is NOTHING:
        return NOTHING
    return Intersection(lexeme(above), lexeme(subschemas))


def _numeral(number: int) -> Node:
    return lit(decimal_digits(number))


def _fraction_from(digits: str, above: bool) -> Node:
    """Return fractions (or nothing) worth at least, or more than, 0.digits."""
    more = seq(_ZEROS, NONZERO, many(DIGIT))
    if not digits:
        return seq(_POINT, more) if above else _ANY_FRACTION
    node = more if above else many(DIGIT)
    for digit in reversed(digits):
        larger = seq(byte_range(ord(digit) + 1, 57), many(DIGIT)) if digit < "9" else NOTHING
        node = alt(seq(lit(digit), node), larger)
    return seq(_POINT, node)


def _fraction_up_to(digits: str, subschemas: bool) -> Node:
    """Return fractions (or nothing) worth at most, or less than, 0.digits."""
    if not digits:
        return NOTHING if subschemas else opt(seq(_POINT, some(lit("0"))))
    node = NOTHING if subschemas else _ZEROS
    for place, digit in enumerate(reversed(digits), 1):
        smaller = seq(byte_range(48, ord(digit) - 1), many(DIGIT)) if digit > "0" else NOTHING
        ended = EMPTY if place < len(digits) else NOTHING
        node = alt(ended, seq(lit(digit), node), smaller)
    return opt(seq(_POINT, node))


def _scientific(interval: Interval) -> Node:
    """Return d.ddde+dd within an interval of positive numbers.

    The mantissa comes first, so it is split where it decides which exponents are still possible.
    """
    low = _normal(interval.low)
    high = _normal(interval.high)
    cuts = sorted({mantissa for mantissa, _ in filter(None, (low, high))} | {Fraction(1)})
    options = []
    for cut, onward in zip(cuts, [*cuts[1:], Fraction(10)], strict=True):
        for mantissas in (Interval(cut, cut), Interval(cut, onward, True, True)):
            exponents = _exponents(mantissas, low, high, interval)
            if exponents is not NOTHING:
                options.append(seq(_without_exponent(mantissas), lit("e"), exponents))
    return alt(*options)


def _normal(value: Fraction | None) -> tuple[Fraction, int] | None:
    """Return (mantissa from 1 to below 10, exponent) of a positive number."""
    if value is None or value == 0:
        return None
    exponent = len(decimal_digits(value.numerator)) - len(decimal_digits(value.denominator))
    mantissa = value / Fraction(10) ** exponent
    if mantissa < 1:
        return mantissa * 10, exponent - 1
    return (mantissa / 10, exponent + 1) if mantissa >= 10 else (mantissa, exponent)


def _exponents(
    mantissas: Interval,
    low: tuple[Fraction, int] | None,
    high: tuple[Fraction, int] | None,
    interval: Interval,
) -> Node:
    """Return the exponents that keep every one of the mantissas within the interval."""
    at_least: int | None = None
    at_most: int | None = None
    inside = mantissas.low if mantissas.low == mantissas.high else None
    assert mantissas.low is not None
    if low is not None:
        above = mantissas.low > low[0] or (
            mantissas.low == low[0] and (inside is None or not interval.low_open)
        )
        at_least = low[1] if above else low[1] + 1
    if high is not None:
        subschemas = mantissas.low < high[0] or (inside == high[0] and not interval.high_open)
        at_most = high[1] if subschemas else high[1] - 1
    elif interval.high is not None:
        return NOTHING  # the upper bound is 0
    return _signed(at_least, at_most)


def _signed(at_least: int | None, at_most: int | None) -> Node:
    """Return exponents with a sign and at least two digits, within the limits."""
    plus = minus = NOTHING
    if at_most is None or at_most >= 0:
        plus = seq(lit("+"), _padded(max(at_least or 0, 0), at_most))
    if at_least is None or at_least < 0:
        nearest = 1 if at_most is None or at_most >= 0 else -at_most
        minus = seq(lit("-"), _padded(nearest, None if at_least is None else -at_least))
    return alt(plus, minus)


def _padded(low: int, high: int | None) -> Node:
    high = 999 if high is None else high
    short = NOTHING
    if low <= 9:
        short = seq(lit("0"), naturals(low, min(high, 9)))
    return alt(short, naturals(max(low, 10), high))
