"""What can be told of a need at a glance: from types and lists of values, without taking it apart.

These tell most alternatives from each other: kinds of values, or a member that says which one it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from callmemaybe.grammar.schema.keywords import EXACT, REFUSED, TYPES
from callmemaybe.grammar.schema.references import BARE, Spot
from callmemaybe.grammar.schema.shapes import ALL_KINDS, FALSE, NULL, OBJECT, TRUE, Need
from callmemaybe.grammar.schema.values import identity, kind_of


class Plain(NamedTuple):
    """The kinds of values of a schema, and its values if it lists them: kinds by identity.

    ``whole``: it says nothing else.
    """

    kinds: int
    values: dict[Any, int] | None
    whole: bool


UNKNOWN = Plain(ALL_KINDS, None, False)
#: The kinds of one value each, with its identity.
_WORDS = ((NULL, identity(None)), (TRUE, identity(True)), (FALSE, identity(False)))


class Glance:
    """Remembers what schemas say at a glance."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._known: dict[Spot, Plain] = {}
        self._members: dict[tuple[Spot, str], Plain] = {}

    def is_empty(self, need: Need) -> bool | None:
        """Whether no value meets a need; None where that takes more than a glance."""
        kinds, whole = ALL_KINDS, True
        values: dict[Any, int] | None = None
        without: set[Any] = set()
        for spot, holds in need:
            plain = self.plain(spot)
            if holds:
                kinds &= plain.kinds
                whole = whole and plain.whole
                values = _common(values, plain.values)
            elif not plain.whole:
                whole = False
            elif plain.values is None:
                kinds &= ~plain.kinds
            else:
                without |= plain.values.keys()
        if values is not None:
            kinds &= _kinds(kind for key, kind in values.items() if key not in without)
        elif without:
            kinds &= ~_kinds(kind for kind, key in _WORDS if key in without)
        if not kinds or (kinds == OBJECT and self._lacks(need)):
            return True
        return False if whole else None

    def plain(self, spot: Spot) -> Plain:
        """Return what a schema says at a glance; it has no value besides."""
        plain = self._known.get(spot)
        if plain is None:
            plain = self._known[spot] = UNKNOWN if spot.draft == BARE else _plain(spot.value)
        return plain

    def _lacks(self, need: Need) -> bool:
        """Whether a member that must be there cannot be, as where alternatives say which they are."""
        schemas = [spot for spot, holds in need if holds and _has_members(spot)]
        if len(schemas) < 2:
            return False
        required: dict[str, None] = {}
        for spot in schemas:
            names = spot.value.get("required")
            if isinstance(names, list):
                required.update((name, None) for name in names if isinstance(name, str))
        for name in required:
            kinds = ALL_KINDS
            values: dict[Any, int] | None = None
            for spot in schemas:
                plain = self._member(spot, name)
                kinds &= plain.kinds
                values = _common(values, plain.values)
            if not kinds or (values is not None and not kinds & _kinds(values.values())):
                return True
        return False

    def _member(self, spot: Spot, name: str) -> Plain:
        known = self._members.get((spot, name))
        if known is None:
            listed = spot.value["properties"]
            known = _plain(listed[name]) if name in listed else UNKNOWN
            self._members[spot, name] = known
        return known


def _has_members(spot: Spot) -> bool:
    schema = spot.value
    return (
        spot.draft != BARE
        and isinstance(schema, dict)
        and "$ref" not in schema
        and isinstance(schema.get("properties"), dict)
    )


def _common(one: dict[Any, int] | None, other: dict[Any, int] | None) -> dict[Any, int] | None:
    """Return the values of two lists, None being no list."""
    if one is None or other is None:
        return other if one is None else one
    if len(other) < len(one):
        one, other = other, one
    return {key: kind for key, kind in one.items() if key in other}


def _kinds(kinds: Iterable[int]) -> int:
    union = 0
    for kind in kinds:
        union |= kind
    return union


def _plain(schema: Any) -> Plain:
    if not isinstance(schema, dict):
        return Plain(ALL_KINDS if schema else 0, None, isinstance(schema, bool))
    if not schema.keys().isdisjoint(("$ref", "$schema", "nullable")):
        return UNKNOWN
    kinds, whole = ALL_KINDS, True
    values: dict[Any, int] | None = None
    for keyword, value in schema.items():
        if keyword == "type":
            names = value if isinstance(value, list) else [value]
            if not all(isinstance(name, str) and name in TYPES for name in names):
                return UNKNOWN
            kinds &= _kinds(TYPES[name] for name in names)
        elif keyword in ("enum", "const"):
            listed = _listed(value if keyword == "enum" else [value])
            whole = whole and listed is not None
            values = _common(values, listed)
        elif keyword in EXACT or keyword in REFUSED:
            whole = False
    if values is not None:
        values = {key: kind for key, kind in values.items() if kind & kinds}
        kinds = _kinds(values.values())
    return Plain(kinds, values, whole)


def _listed(values: Any) -> dict[Any, int] | None:
    """Return the kinds of plain values by identity; None where one is no plain value."""
    if not isinstance(values, list):
        return None
    if not all(value is None or isinstance(value, str | int | float | Decimal) for value in values):
        return None
    try:
        return {identity(value): kind_of(value) for value in values}
    except ValueError:  # a number too long; to be said when a value gets there
        return None
