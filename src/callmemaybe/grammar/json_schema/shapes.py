"""What a schema says, taken apart: a formula over facts, and the shapes it comes down to.

A *kind* is a type of JSON value, as one bit, so that a set of types is an int; whole numbers and
other numbers are two kinds. A *facet* restricts the values of one kind. A *shape* is a set of kinds
with at most one facet for each and perhaps a list of constants: a conjunction. A whole schema is a
union of shapes (`normalise.py` finds them), and a shape is easy to write as a grammar (`emit.py`).

A *need* is a conjunction of schemas, each as it is or negated, that some value deep inside must
meet. Needs are taken apart only when the value is reached, so recursion ends: there are finitely
many schemas in a document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import gcd
from typing import Any, Protocol

from callmemaybe.grammar.json_schema.document import FALSE_SCHEMA, SchemaNode
from callmemaybe.grammar.json_schema.intervals import UNLIMITED, Interval
from callmemaybe.grammar.nodes import Node

NULL, FALSE, TRUE, INTEGER, FRACTION, STRING, ARRAY, OBJECT = (1 << bit for bit in range(8))
BOOLEAN = FALSE | TRUE
NUMBER = INTEGER | FRACTION
ALL_KINDS = 255

#: Schemas that must hold (True) or must not hold (False), all of them.
Conjunction = tuple[tuple[SchemaNode, bool], ...]
ANYTHING: Conjunction = ()
NEVER: Conjunction = ((FALSE_SCHEMA, True),)


def both(one: Conjunction, other: Conjunction) -> Conjunction:
    """Join two needs."""
    return one + tuple(item for item in other if item not in one) if one and other else one or other


def negated(conjunction: Conjunction) -> Iterator[Conjunction]:
    """Yield needs of which one must be met wherever ``conjunction`` is not."""
    for schema_node, holds in conjunction:
        yield ((schema_node, not holds),)


class Facet(Protocol):
    """What restricts the values of one kind."""

    def __and__(self, other: Any) -> Any:
        """Return the values of both."""

    def complement(self) -> Iterator[Any]:
        """Yield facets that together have every value which this one lacks."""


@dataclass(frozen=True, slots=True)
class NumberFacet:
    """Numbers in an interval that are, and are not, multiples of something."""

    interval: Interval = UNLIMITED
    multiple: Fraction | None = None
    not_multiples: tuple[Fraction, ...] = ()
    #: Whether it must have been said (see ground.py); not said otherwise, so no part of a complement.
    ground: int = 0
    #: Of a keyword about multiples.
    pointer: str = field(default="", compare=False)

    def __and__(self, other: NumberFacet) -> NumberFacet:
        """Return the numbers of both."""
        multiple = self.multiple or other.multiple
        if self.multiple and other.multiple:
            multiple = least_common_multiple(self.multiple, other.multiple)
        return NumberFacet(
            self.interval & other.interval,
            multiple,
            self.not_multiples + other.not_multiples,
            max(self.ground, other.ground),
            self.pointer or other.pointer,
        )

    def complement(self) -> Iterator[NumberFacet]:
        """Yield what lies below, above, and between the multiples."""
        if self.interval.low is not None:
            yield NumberFacet(
                Interval(high=self.interval.low, high_open=not self.interval.low_open)
            )
        if self.interval.high is not None:
            yield NumberFacet(
                Interval(low=self.interval.high, low_open=not self.interval.high_open)
            )
        if self.multiple:
            yield NumberFacet(not_multiples=(self.multiple,), pointer=self.pointer)
        for multiple in self.not_multiples:
            yield NumberFacet(multiple=multiple, pointer=self.pointer)


def least_common_multiple(one: Fraction, other: Fraction) -> Fraction:
    """Return the smallest positive number that both divide."""
    numerator = one.numerator * other.numerator // gcd(one.numerator, other.numerator)
    return Fraction(numerator, gcd(one.denominator, other.denominator))


@dataclass(frozen=True, slots=True)
class StringFacet:
    """Strings of some lengths (in characters) that are in every one and in none of some languages.

    The languages are of JSON strings with their quotes, spelled as json.dumps does.
    """

    at_least: int = 0
    at_most: int | None = None
    within: tuple[Node, ...] = ()
    without: tuple[Node, ...] = ()
    #: Whether it must have been said; as for numbers.
    ground: int = 0
    #: Of a keyword about languages.
    pointer: str = field(default="", compare=False)

    def __and__(self, other: StringFacet) -> StringFacet:
        """Return the strings of both."""
        within = self.within + tuple(n for n in other.within if n not in self.within)
        without = self.without + tuple(n for n in other.without if n not in self.without)
        return StringFacet(
            max(self.at_least, other.at_least),
            tighter_limit(self.at_most, other.at_most),
            within,
            without,
            max(self.ground, other.ground),
            self.pointer or other.pointer,
        )

    def complement(self) -> Iterator[StringFacet]:
        """Yield the shorter, the longer, and those outside each language."""
        if self.at_least:
            yield StringFacet(at_most=self.at_least - 1)
        if self.at_most is not None:
            yield StringFacet(at_least=self.at_most + 1)
        for node in self.within:
            yield StringFacet(without=(node,), pointer=self.pointer)
        for node in self.without:
            yield StringFacet(within=(node,), pointer=self.pointer)


def tighter_limit(one: int | None, other: int | None) -> int | None:
    """Return the smaller of two upper limits, None being no limit."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


@dataclass(frozen=True, slots=True)
class ContainsCount:
    """At least ``at_least`` and at most ``at_most`` of the items from index ``start`` meet a need."""

    conjunction: Conjunction
    at_least: int
    at_most: int | None
    pointer: str
    start: int = 0


@dataclass(frozen=True, slots=True)
class ArrayFacet:
    """Arrays by the needs of their first items and of the rest, their length, what they contain."""

    prefix: tuple[Conjunction, ...] = ()
    rest: Conjunction = ANYTHING
    at_least: int = 0
    at_most: int | None = None
    contains: tuple[ContainsCount, ...] = ()
    #: Pointers of the keywords that ask for items which all differ / do not all differ.
    unique: tuple[str, ...] = ()
    not_unique: tuple[str, ...] = ()
    pointer: str = ""

    def __and__(self, other: ArrayFacet) -> ArrayFacet:
        """Return the arrays of both."""
        length = max(len(self.prefix), len(other.prefix))
        prefix = tuple(both(self.item(i), other.item(i)) for i in range(length))
        return ArrayFacet(
            prefix,
            both(self.rest, other.rest),
            max(self.at_least, other.at_least),
            tighter_limit(self.at_most, other.at_most),
            self.contains + other.contains,
            self.unique + other.unique,
            self.not_unique + other.not_unique,
            self.pointer or other.pointer,
        )

    def item(self, index: int) -> Conjunction:
        """Return what the item at an index needs."""
        return self.prefix[index] if index < len(self.prefix) else self.rest

    def complement(self) -> Iterator[ArrayFacet]:
        """Yield the shorter, the longer, those with a wrong item, and so on for each facet."""
        if self.at_least:
            yield ArrayFacet(at_most=self.at_least - 1)
        if self.at_most is not None:
            yield ArrayFacet(at_least=self.at_most + 1)
        for index, conjunction in enumerate(self.prefix):
            for wrong in negated(conjunction):
                yield ArrayFacet((ANYTHING,) * index + (wrong,), at_least=index + 1)
        for wrong in negated(self.rest):
            start = len(self.prefix)
            yield ArrayFacet(
                at_least=start + 1, contains=(ContainsCount(wrong, 1, None, self.pointer, start),)
            )
        for one in self.contains:
            if one.at_least:
                yield ArrayFacet(contains=(replace(one, at_least=0, at_most=one.at_least - 1),))
            if one.at_most is not None:
                yield ArrayFacet(contains=(replace(one, at_least=one.at_most + 1, at_most=None),))
        if self.unique:
            yield ArrayFacet(not_unique=self.unique)
        if self.not_unique:
            yield ArrayFacet(unique=self.not_unique)


@dataclass(frozen=True, slots=True)
class KeyPattern:
    """A regular expression for keys: its source and its language (JSON strings with quotes)."""

    source: str
    node: Node


@dataclass(frozen=True, slots=True)
class AdditionalMembers:
    """What the members need whose key is none of the names and matches none of the patterns."""

    conjunction: Conjunction
    names: frozenset[str] = frozenset()
    patterns: tuple[KeyPattern, ...] = ()
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class ExistingMember:
    """There is a member that ``enum`` covers and that meets the need."""

    conjunction: Conjunction
    enum: AdditionalMembers
    pattern: KeyPattern | None = None
    key: Conjunction = ANYTHING


@dataclass(frozen=True, slots=True)
class ObjectFacet:
    """Objects by the needs of named members, of those that match patterns, and of all others."""

    properties: Mapping[str, Conjunction] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    patterns: tuple[tuple[KeyPattern, Conjunction], ...] = ()
    others: tuple[AdditionalMembers, ...] = ()
    names: Conjunction = ANYTHING
    at_least: int = 0
    at_most: int | None = None
    #: Members that there must be, somewhere / behind the declared ones.
    members: tuple[ExistingMember, ...] = ()
    trailing_members: tuple[ExistingMember, ...] = ()
    pointer: str = ""
    #: Whether the schema lists properties (perhaps none).
    lists_properties: bool = False

    def __and__(self, other: ObjectFacet) -> ObjectFacet:
        """Return the objects of both; this one's keys come first."""
        properties = dict(self.properties)
        for name, conjunction in other.properties.items():
            properties[name] = both(properties.get(name, ANYTHING), conjunction)
        return ObjectFacet(
            properties,
            (*self.required, *(n for n in other.required if n not in self.required)),
            self.patterns + other.patterns,
            self.others + other.others,
            both(self.names, other.names),
            max(self.at_least, other.at_least),
            tighter_limit(self.at_most, other.at_most),
            self.members + other.members,
            self.trailing_members + other.trailing_members,
            self.pointer or other.pointer,
            self.lists_properties or other.lists_properties,
        )

    def complement(self) -> Iterator[ObjectFacet]:
        """Yield those with a wrong member, without a required one, and so on for each facet."""
        if limits_one_member(self) and self.required:
            # "There, and of this kind" denied is one fact: "if there, then not of this kind".
            ((name, conjunction),) = self.properties.items()
            for wrong in negated(conjunction) if conjunction else (NEVER,):
                yield ObjectFacet(properties={name: wrong})
            return
        for name in self.required:
            yield ObjectFacet(properties={name: NEVER})
        for name, conjunction in self.properties.items():
            for wrong in negated(conjunction):
                yield ObjectFacet(properties={name: wrong}, required=(name,))
        if self.at_least:
            yield ObjectFacet(at_most=self.at_least - 1)
        if self.at_most is not None:
            yield ObjectFacet(at_least=self.at_most + 1)
        everywhere = AdditionalMembers(ANYTHING, pointer=self.pointer)
        for pattern, conjunction in self.patterns:
            for wrong in negated(conjunction):
                yield ObjectFacet(members=(ExistingMember(wrong, everywhere, pattern),))
        for one in self.others:
            for wrong in negated(one.conjunction):
                yield ObjectFacet(members=(ExistingMember(wrong, one),))
        for wrong in negated(self.names):
            yield ObjectFacet(members=(ExistingMember(ANYTHING, everywhere, key=wrong),))

    def need_of(self, name: str, matches: Any) -> Conjunction:
        """Return what the member of this name needs; ``matches(pattern, name)`` decides."""
        conjunction = self.properties.get(name, ANYTHING)
        for pattern, inner in self.patterns:
            if matches(pattern, name):
                conjunction = both(conjunction, inner)
        for one in self.others:
            if name not in one.names and not any(matches(p, name) for p in one.patterns):
                conjunction = both(conjunction, one.conjunction)
        return conjunction


def limits_one_member(facet: Any) -> bool:
    """Whether a facet says nothing but what one member needs, and perhaps that it is there."""
    if not isinstance(facet, ObjectFacet) or len(facet.properties) != 1:
        return False
    return (
        facet.required in ((), tuple(facet.properties))
        and not facet.members
        and limits_only_members(facet)
    )


def limits_only_members(facet: ObjectFacet) -> bool:
    """Whether a facet says nothing but perhaps what members need and which must be there."""
    limits = (
        facet.at_least or facet.at_most is not None or facet.names or facet.patterns or facet.others
    )
    return not (limits or facet.trailing_members or facet.pointer or facet.lists_properties)


@dataclass(slots=True)
class ValueShape:
    """A conjunction: kinds, one facet for each, and perhaps a list of the only values."""

    kinds: int = ALL_KINDS
    facets: dict[int, Any] = field(default_factory=dict)
    #: The only values allowed, by identity (see values.py); None for no such list.
    enum: dict[Any, Any] | None = None
    #: Values that are not allowed, by identity.
    excluded: dict[Any, Any] = field(default_factory=dict)

    def copy(self) -> ValueShape:
        """Return an independent copy."""
        return ValueShape(self.kinds, dict(self.facets), self.enum, self.excluded)


# -- formulas -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kinds:
    """The value is of one of these kinds."""

    kinds: int


@dataclass(frozen=True, slots=True)
class Fact:
    """If the value is of these kinds (the bits of one facet), the facet holds."""

    kinds: int
    facet: Any


@dataclass(frozen=True, slots=True)
class Enum:
    """The value is one of these (by identity); ``kinds`` are theirs."""

    values: Mapping[Any, Any]
    kinds: int


@dataclass(frozen=True, slots=True)
class Subschema:
    """The value meets the schema at a spot."""

    schema_node: SchemaNode
    by_reference: bool = False


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of the parts hold."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of the parts holds."""

    parts: tuple[Formula, ...]
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class OneOf:
    """Exactly one of the parts holds."""

    parts: tuple[Subschema, ...]
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Formula


@dataclass(frozen=True, slots=True)
class Conditional:
    """Always holds; but where it is noted what was evaluated, the part holds or does not."""

    part: Subschema


@dataclass(frozen=True, slots=True)
class Unevaluated:
    """What no schema at this place has evaluated meets a need (`unevaluated.py` sees to it)."""

    pointer: str


@dataclass(frozen=True, slots=True)
class Undecidable:
    """Something that cannot be said, nor denied; left to be checked."""


Formula = (
    Kinds
    | Fact
    | Enum
    | Subschema
    | AllOf
    | AnyOf
    | OneOf
    | Not
    | Conditional
    | Unevaluated
    | Undecidable
)
HOLDS = AllOf(())
FAILS = Kinds(0)
