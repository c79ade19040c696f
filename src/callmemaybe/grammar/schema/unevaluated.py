"""What schemas at one place have evaluated, for `unevaluatedProperties` and `unevaluatedItems`.

A schema with one of these keywords is a *collector*. While a branch of the search goes through the
schemas that hold at its place (itself, and what it applies in place), each adds what it evaluates;
when everything is decided, the rest is known, and the keyword becomes a fact like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from callmemaybe.grammar.schema.at import At, foreign
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
    containing: tuple[Spot, ...] = ()
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
    return (MEMBERS in spot.value or ITEMS in spot.value) and not _only_refers(spot)


def _only_refers(spot: Spot) -> bool:
    """Whether a schema has a reference beside which its draft ignores everything."""
    return spot.draft <= 7 and "$ref" in spot.value


def evaluated_by(spot: Spot, document: Document) -> Evaluated:
    """Return what the keywords of one schema evaluate, its own two excepted.

    Those keywords were read before: what is malformed is refused there, or was set aside.
    """
    if _only_refers(spot):
        return Evaluated()

    def said(keyword: str, default: Any = None) -> Any:
        is_aside = document.aside and At(keyword, spot, document).pointer in document.aside
        return default if is_aside or foreign(keyword, spot) else spot.value.get(keyword, default)

    at = At("patternProperties", spot, document)
    prefix, items = said("prefixItems", []), said("items")
    if isinstance(items, list):
        prefix, items = items, said("additionalItems")
    # Only from 2020-12 on does contains count as evaluating.
    contains = spot.draft >= 2020 and said("contains") is not None
    return Evaluated(
        frozenset(said("properties", {})),
        tuple(Pattern(source, pattern_node(source, at)) for source in said(at.keyword, {})),
        said("additionalProperties") is not None,
        len(prefix),
        (document.child(spot, "contains"),) if contains else (),
        items is not None,
    )


def with_own(evaluated: Evaluated, spot: Spot) -> Evaluated:
    """Add what the two keywords themselves evaluate, for collectors further out."""
    return replace(
        evaluated,
        every_member=evaluated.every_member or MEMBERS in spot.value,
        every_item=evaluated.every_item or ITEMS in spot.value,
    )


def facts(
    collector: Spot,
    evaluated: Evaluated,
    document: Document,
    either: Callable[[tuple[Spot, ...]], Spot],
) -> list[Fact]:
    """Return what the two keywords of a collector say in the end.

    ``either`` returns a schema that is met where one of several is.
    """
    found = []
    if MEMBERS in collector.value and not evaluated.every_member:
        need: Need = ((document.child(collector, MEMBERS), True),)
        pointer = f"{collector.pointer}/{MEMBERS}"
        others = Others(need, evaluated.names, evaluated.patterns, pointer)
        found.append(Fact(OBJECT, Object(others=(others,), pointer=pointer)))
    if ITEMS in collector.value and not evaluated.every_item:
        spot = document.child(collector, ITEMS)
        if evaluated.containing:
            # Each contains is read where it stands: what it refers to depends on that.
            spot = either((*dict.fromkeys(evaluated.containing), spot))
        skipped = (ANYTHING,) * evaluated.items
        pointer = f"{collector.pointer}/{ITEMS}"
        found.append(Fact(ARRAY, Array(skipped, ((spot, True),), pointer=pointer)))
    return found
