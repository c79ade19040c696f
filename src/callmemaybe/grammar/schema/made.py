"""Schemas that stand in no document: what is left of others when these were taken apart.

The same one each time that the same is meant, for a need is known by its schemas: with a new one each
time, no need of a recursive schema would ever be met again.
"""

from __future__ import annotations

from typing import Any

from callmemaybe.grammar.schema.references import Spot
from callmemaybe.grammar.schema.shapes import (
    ARRAY,
    NEVER,
    OBJECT,
    Array,
    Fact,
    Formula,
    Kinds,
    Need,
    Not,
    Object,
    Others,
    Some,
    Sub,
)
from callmemaybe.grammar.schema.values import identity


class Made:
    """Makes such schemas; remembers them."""

    def __init__(self, opened: dict[Spot, list[Formula]]) -> None:
        """Take where to note what a schema says that cannot be read from its value."""
        self._opened = opened
        self._constants: dict[Any, Spot] = {}
        self._either: dict[tuple[Spot, ...], Spot] = {}

    def either(self, spots: tuple[Spot, ...]) -> Spot:
        """Return a schema that is met where one of these is, each read where it stands."""
        found = self._either.get(spots)
        if found is None:
            # Of a tuple of spots no schema written in a document is taken for the twin.
            found = self._either[spots] = Spot({"anyOf": spots}, spots[-1].pointer)
            self._opened[found] = [Some(tuple(map(Sub, spots)))]
        return found

    def unlike(self, value: dict[str, Any] | list[Any]) -> Formula:
        """Say that a value is not this array or object."""
        if isinstance(value, list):
            prefix = tuple(map(self._constant, value))
            same: Fact = Fact(ARRAY, Array(prefix, least=len(value), most=len(value)))
            return Some((Kinds(~ARRAY), Not(same)))
        properties = {name: self._constant(inner) for name, inner in value.items()}
        others = Others(NEVER, frozenset(properties))
        return Some(
            (Kinds(~OBJECT), Not(Fact(OBJECT, Object(properties, tuple(value), others=(others,)))))
        )

    def _constant(self, value: Any) -> Need:
        key = identity(value)
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = Spot({"const": value}, "")
        return ((found, True),)
