"""What can be told of a need at a glance: from types and lists of texts, without taking it apart.

These tell most alternatives from each other: kinds of values, or a member that says which one it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from callmemaybe.grammar.schema.keywords import EXACT, REFUSED, TYPES
from callmemaybe.grammar.schema.references import BARE, Spot
from callmemaybe.grammar.schema.shapes import ALL_KINDS, OBJECT, STRING, Need


class Plain(NamedTuple):
    """The kinds of values of a schema, its texts if it lists them; ``whole``: it says nothing else."""

    kinds: int
    texts: frozenset[str] | None
    whole: bool


_UNKNOWN = Plain(ALL_KINDS, None, False)


class Glance:
    """Remembers what schemas say at a glance."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._known: dict[Spot, Plain] = {}
        self._members: dict[tuple[Spot, str], Plain] = {}

    def is_empty(self, need: Need) -> bool | None:
        """Whether no value meets a need; None where that takes more than a glance."""
        kinds, whole = ALL_KINDS, True
        texts: frozenset[str] | None = None
        without: set[str] = set()
        for spot, holds in need:
            plain = self._known.get(spot)
            if plain is None:
                plain = self._known[spot] = _UNKNOWN if spot.draft == BARE else _plain(spot.value)
            if holds:
                kinds &= plain.kinds
                whole = whole and plain.whole
                if plain.texts is not None:
                    texts = plain.texts if texts is None else texts & plain.texts
            elif not plain.whole:
                whole = False
            elif plain.texts is None:
                kinds &= ~plain.kinds
            else:
                without |= plain.texts
        if texts is not None and not texts - without:
            kinds &= ~STRING
        if not kinds or (kinds == OBJECT and self._lacks(need)):
            return True
        return False if whole else None

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
            texts: frozenset[str] | None = None
            for spot in schemas:
                plain = self._member(spot, name)
                kinds &= plain.kinds
                if plain.texts is not None:
                    texts = plain.texts if texts is None else texts & plain.texts
            if not kinds or (kinds == STRING and texts is not None and not texts):
                return True
        return False

    def _member(self, spot: Spot, name: str) -> Plain:
        known = self._members.get((spot, name))
        if known is None:
            listed = spot.value["properties"]
            known = _plain(listed[name]) if name in listed else _UNKNOWN
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


def _plain(schema: Any) -> Plain:
    if not isinstance(schema, dict):
        return Plain(ALL_KINDS if schema else 0, None, isinstance(schema, bool))
    if not schema.keys().isdisjoint(("$ref", "$schema", "nullable")):
        return _UNKNOWN
    kinds, texts, whole = ALL_KINDS, None, True
    for keyword, value in schema.items():
        if keyword == "type":
            names = value if isinstance(value, list) else [value]
            if not all(isinstance(name, str) and name in TYPES for name in names):
                return _UNKNOWN
            union = 0
            for name in names:
                union |= TYPES[name]
            kinds &= union
        elif keyword in ("enum", "const"):
            listed = value if keyword == "enum" else [value]
            if not isinstance(listed, list) or not all(type(one) is str for one in listed):
                whole = False
                continue
            kinds &= STRING
            texts = frozenset(listed) if texts is None else texts & frozenset(listed)
        elif keyword in EXACT or keyword in REFUSED:
            whole = False
    return Plain(kinds, texts if kinds & STRING else None, whole)
