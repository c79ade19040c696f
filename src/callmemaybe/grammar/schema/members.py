"""Where a member may stand that an object must have (what the negation of an object asks for)."""

from __future__ import annotations

from callmemaybe.grammar.schema.judge import Judge, covers
from callmemaybe.grammar.schema.references import NOTHING_MEETS
from callmemaybe.grammar.schema.shapes import NEVER, Member, Object


def is_closed(facet: Object) -> bool:
    """Whether every key is one of the declared names."""
    return any(
        (NOTHING_MEETS, True) in others.need and not others.patterns for others in facet.others
    )


def resolve_member(facet: Object, member: Member, judge: Judge) -> list[Object]:
    """Return facets of which one must hold so that the member exists."""
    names = [
        name
        for name in dict.fromkeys((*facet.properties, *facet.required))
        if covers(member, name, judge) and NEVER[0] not in facet.properties.get(name, ())
    ]
    anything = member.need == ((NOTHING_MEETS, False),) or not member.need
    for name in names:
        if anything and name in facet.required:
            return [Object()]
    placed = [Object({name: member.need}, (name,)) for name in names]
    return placed if is_closed(facet) else [*placed, Object(extra=(member,))]
