"""What schemas at one place have evaluated, for `unevaluatedProperties` and `unevaluatedItems`.

A schema with one of these keywords is a *collector*. While a branch of the search goes through the
schemas that hold at its place (itself, and what it applies in place), each adds what it evaluates;
when everything is decided, the rest is known, and the keyword becomes a fact like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from callmemaybe.grammar.schema.at import At
from callmemaybe.grammar.schema.keywords import pattern_node
from callmemaybe.grammar.schema.references import Document, Spot
from callmemaybe.grammar.schema.shapes import (
    ANYTHING,
    ARRAY,
    OBJECT,
    Array,
    Fact,
    Need,
    Object,
    Others,
    Pattern,
)

MEMBERS, ITEMS = "unevaluatedProperties", "unevaluatedItems"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Members by name and by pattern, items by index and by what they contain; or all of them."""

    names: frozenset[str] = frozenset()
    patterns: tuple[Pattern, ...] = ()
    every_member: bool = False
    items: int = 0
    containing: tuple[Any, ...] = ()
    every_item: bool = False

    def __or__(self, other: Evaluated) -> Evaluated:
        """Return what one of the two has evaluated."""
        return Evaluated(
            self.names | other.names,
            self.patterns + other.patterns,
            self.every_member or other.every_member,
            max(self.items, other.items),
            self.containing + other.containing,
            self.every_item or other.every_item,
        )


def is_collector(spot: Spot) -> bool:
    """Whether a schema asks what was evaluated."""
    return MEMBERS in spot.value or ITEMS in spot.value


def evaluated_by(spot: Spot, document: Document) -> Evaluated:
    """Return what the keywords of one schema evaluate, its own two excepted."""
    schema = spot.value
    properties = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    at = At("patternProperties", spot, document)
    prefix, items = schema.get("prefixItems", []), schema.get("items")
    if isinstance(items, list):
        prefix, items = items, schema.get("additionalItems")
    return Evaluated(
        frozenset(properties),
        tuple(Pattern(source, pattern_node(source, at)) for source in patterns),
        "additionalProperties" in schema,
        len(prefix),
        # Only from 2020-12 on does contains count as evaluating.
        (schema["contains"],) if "contains" in schema and spot.draft >= 2020 else (),
        items is not None,
    )


def with_own(evaluated: Evaluated, spot: Spot) -> Evaluated:
    """Add what the two keywords themselves evaluate, for collectors further out."""
    return replace(
        evaluated,
        every_member=evaluated.every_member or MEMBERS in spot.value,
        every_item=evaluated.every_item or ITEMS in spot.value,
    )


def facts(collector: Spot, evaluated: Evaluated, document: Document) -> list[Fact]:
    """Return what the two keywords of a collector say in the end."""
    found = []
    if MEMBERS in collector.value and not evaluated.every_member:
        need: Need = ((document.child(collector, MEMBERS), True),)
        pointer = f"{collector.pointer}/{MEMBERS}"
        others = Others(need, evaluated.names, evaluated.patterns, pointer)
        found.append(Fact(OBJECT, Object(others=(others,), pointer=pointer)))
    if ITEMS in collector.value and not evaluated.every_item:
        spot = document.child(collector, ITEMS)
        if evaluated.containing:
            options = [*evaluated.containing, collector.value[ITEMS]]
            spot = Spot(
                {"anyOf": options}, spot.pointer, collector.base, collector.draft, collector.scope
            )
        skipped = (ANYTHING,) * evaluated.items
        pointer = f"{collector.pointer}/{ITEMS}"
        found.append(Fact(ARRAY, Array(skipped, ((spot, True),), pointer=pointer)))
    return found
