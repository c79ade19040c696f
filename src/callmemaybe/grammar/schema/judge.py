"""Whether a value of the schema itself (from enum or const) meets a need: a small validator."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from callmemaybe.grammar.schema.shapes import (
    Array,
    Need,
    Number,
    Object,
    Shape,
    String,
)
from callmemaybe.grammar.schema.strings import has, matches
from callmemaybe.grammar.schema.values import exact, identity, kind_of


class Judge:
    """Judges values by the shapes of needs, which ``shapes`` finds."""

    def __init__(self, shapes: Callable[[Need], tuple[Shape, ...]]) -> None:
        self._shapes = shapes

    def meets(self, value: Any, need: Need) -> bool:
        """Whether a value meets a need."""
        return not need or any(self.accepts(shape, value) for shape in self._shapes(need))

    def accepts(self, shape: Shape, value: Any, key: Any = None) -> bool:
        """Whether a value has a shape; ``key`` is its identity where that is known."""
        kind = kind_of(value)
        if not kind & shape.kinds:
            return False
        if shape.among is not None or shape.but:
            key = identity(value) if key is None else key
            if key in shape.but or (shape.among is not None and key not in shape.among):
                return False
        for kinds, facet in shape.facets.items():
            if kind & kinds:
                return self._fits(facet, value)
        return True

    def _fits(self, facet: Any, value: Any) -> bool:
        match facet:
            case Number():
                return _number_fits(facet, value)
            case String():
                return _string_fits(facet, value)
            case Array():
                return self._array_fits(facet, value)
        return self._object_fits(facet, value)

    def _array_fits(self, facet: Array, value: list[Any]) -> bool:
        if not facet.least <= len(value) or (facet.most is not None and len(value) > facet.most):
            return False
        if facet.unique or facet.not_unique:
            differ = len({identity(item) for item in value}) == len(value)
            if (facet.unique and not differ) or (facet.not_unique and differ):
                return False
        if not all(self.meets(item, facet.item(index)) for index, item in enumerate(value)):
            return False
        for one in facet.contains:
            count = sum(self.meets(item, one.need) for item in value[one.start :])
            if count < one.least or (one.most is not None and count > one.most):
                return False
        return True

    def _object_fits(self, facet: Object, value: dict[str, Any]) -> bool:
        if not facet.least <= len(value) or (facet.most is not None and len(value) > facet.most):
            return False
        if not all(name in value for name in facet.required):
            return False
        for name, inner in value.items():
            if not self.meets(name, facet.names):
                return False
            if not self.meets(inner, facet.need_of(name, matches)):
                return False
        return all(
            any(
                covers(member, name, self) and self.meets(inner, member.need)
                for name, inner in value.items()
            )
            for member in (*facet.members, *facet.extra)
        )


def covers(member: Any, name: str, judge: Judge) -> bool:
    """Whether a member that must exist may have this name."""
    others = member.among
    return (
        name not in others.names
        and not any(matches(pattern, name) for pattern in others.patterns)
        and (member.pattern is None or matches(member.pattern, name))
        and judge.meets(name, member.key)
    )


def _number_fits(facet: Number, value: float | Decimal) -> bool:
    number = Fraction(value) if isinstance(value, int) else exact(value)
    return (
        number in facet.interval
        and (facet.multiple is None or (number / facet.multiple).denominator == 1)
        and all((number / multiple).denominator != 1 for multiple in facet.not_multiples)
    )


def _string_fits(facet: String, value: str) -> bool:
    return (
        facet.least <= len(value)
        and (facet.most is None or len(value) <= facet.most)
        and all(has(node, value) for node in facet.within)
        and not any(has(node, value) for node in facet.without)
    )
