"""The texts of numbers of a facet: an interval, multiples, and values that are left out."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from callmemaybe.grammar.divisible import divisible
from callmemaybe.grammar.nodes import (
    NOTHING,
    Both,
    Node,
    alt,
    lexeme,
    lit,
    many,
    opt,
    seq,
    some,
)
from callmemaybe.grammar.schema.multiples import multiples
from callmemaybe.grammar.schema.numbers import (
    ANY_INTEGER,
    ANY_NUMBER,
    DIGIT,
    EVERYTHING,
    NONZERO,
    Interval,
    decimals,
    integers,
    whole,
)
from callmemaybe.grammar.schema.shapes import (
    FRACTION,
    INTEGER,
    NUMBER,
    Number,
    least_common_multiple,
)
from callmemaybe.grammar.schema.values import exact

_WHOLE = alt(lit("0"), seq(NONZERO, many(DIGIT)))
#: Numbers that are not whole: a digit other than 0 after the point, or d.de-dd.
_BROKEN = lexeme(
    seq(
        opt(lit("-")),
        alt(
            seq(_WHOLE, lit("."), many(lit("0")), NONZERO, many(DIGIT)),
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


def number_node(kinds: int, facet: Number | None, but: Mapping[Any, Any]) -> Node:
    """Return the numbers that a facet allows: whole ones, others, or both, by ``kinds``."""
    excluded = tuple(sorted({exact_of(v) for v in but.values() if _is_number(v)})) if but else ()
    if facet is None and not excluded:
        if kinds & NUMBER == INTEGER:
            return ANY_INTEGER
        return ANY_NUMBER if kinds & NUMBER == NUMBER else _BROKEN
    return _numbers(kinds & NUMBER, facet or Number(), excluded)


def exact_of(value: float | Decimal) -> Fraction:
    """Return the exact value of a number of the schema."""
    return Fraction(value) if isinstance(value, int) else exact(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


@lru_cache(maxsize=1024)
def _numbers(kinds: int, facet: Number, excluded: tuple[Fraction, ...]) -> Node:
    write = integers if kinds == INTEGER else decimals
    gaps = [write(interval) for interval in _without(facet.interval, excluded)]
    node = lexeme(alt(*gaps))
    if node is NOTHING:
        return NOTHING
    if kinds == FRACTION:
        node = Both(node, _BROKEN)
    multiple, others = facet.multiple, facet.not_multiples
    if kinds == INTEGER:
        multiple = least_common_multiple(multiple or Fraction(1), Fraction(1))
        others = tuple(least_common_multiple(other, Fraction(1)) for other in others)
    if multiple is not None and any((multiple / other).denominator == 1 for other in others):
        return NOTHING
    if not others and (multiple is None or (multiple == 1 and kinds == INTEGER)):
        return node
    if multiple is not None and kinds == INTEGER and not others:
        found = (whole(interval) for interval in _without(facet.interval, excluded))
        return lexeme(alt(*(divisible(multiple.numerator, *bounds) for bounds in found)))
    allowed = multiples(multiple, tuple(sorted(set(others))))
    return allowed if node is ANY_NUMBER else Both(node, allowed)


def _without(interval: Interval, excluded: tuple[Fraction, ...]) -> list[Interval]:
    """Cut an interval at some numbers (ascending), which are left out."""
    found = []
    for number in excluded:
        if number in interval:
            below = interval & Interval(high=number, high_open=True)
            if not below.is_empty:
                found.append(below)
            interval = interval & Interval(low=number, low_open=True)
    return [*found, interval] if interval == EVERYTHING or not interval.is_empty else found
