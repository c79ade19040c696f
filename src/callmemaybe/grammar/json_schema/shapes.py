"""The data of the normal form: formulas over facts, and the shapes they reduce to.

A *kind* is a type of JSON value as one bit, so that a set of types is an int; integers and other numbers are
two kinds. A *facet* restricts the values of one kind. A *shape* is a set of kinds with at most one facet for
each and perhaps a list of constants: a conjunction. A schema is a union of shapes (`normalise.py`), and each
shape is written as a grammar (`emit.py`).

A *conjunction* lists schemas, each as it is or negated, that a value deeper inside must meet. It is expanded
only when the value is reached. Recursion ends because a document has finitely many schemas.
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
    """Join two conjunctions."""
    return one + tuple(item for item in other if item not in one) if one and other else one or other


def negated(conjunction: Conjunction) -> Iterator[Conjunction]:
    """Yield conjunctions whose union is the negation of ``conjunction``."""
    for schema_node, holds in conjunction:
        yield ((schema_node, not holds),)


class Facet(Protocol):
    """Restricts the values of one kind."""

    def __and__(self, other: Any) -> Any:
        """Return the intersection."""

    def complement(self) -> Iterator[Any]:
        """Yield facets whose union is the complement."""


@dataclass(frozen=True, slots=True)
class NumberFacet:
    """Numbers in an interval that are, and are not, multiples of some numbers."""

    interval: Interval = UNLIMITED
    multiple: Fraction | None = None
    not_multiples: tuple[Fraction, ...] = ()
    #: The level of grounding (see grounding.py); it is no part of a complement.
    ground: int = 0
    #: The pointer of a keyword about multiples.
    pointer: str = field(default="", compare=False)

    def __and__(self, other: NumberFacet) -> NumberFacet:
        """Return the intersection."""
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
        """Yield the numbers below, above, and between the multiples."""
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
    """Return the smallest positive number that is a multiple of both."""
    numerator = one.numerator * other.numerator // gcd(one.numerator, other.numerator)
    return Fraction(numerator, gcd(one.denominator, other.denominator))


@dataclass(frozen=True, slots=True)
class StringFacet:
    """Strings of some lengths (in characters) that are in all and in none of some languages.

    The languages are of JSON strings with their quotes, in the form of json.dumps.
    """

    at_least: int = 0
    at_most: int | None = None
    within: tuple[Node, ...] = ()
    without: tuple[Node, ...] = ()
    #: The level of grounding, as for numbers.
    ground: int = 0
    #: The pointer of a keyword about languages.
    pointer: str = field(default="", compare=False)

    def __and__(self, other: StringFacet) -> StringFacet:
        """Return the intersection."""
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
        """Yield the shorter and the longer strings, and those outside each language."""
        if self.at_least:
            yield StringFacet(at_most=self.at_least - 1)
        if self.at_most is not None:
            yield StringFacet(at_least=self.at_most + 1)
        for node in self.within:
            yield StringFacet(without=(node,), pointer=self.pointer)
        for node in self.without:
            yield StringFacet(within=(node,), pointer=self.pointer)


def tighter_limit(one: int | None, other: int | None) -> int | None:
    """Return the smaller of two upper limits; None is no limit."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


@dataclass(frozen=True, slots=True)
class ContainsCount:
    """From ``at_least`` to ``at_most`` of the items from index ``start`` meet a conjunction."""

    conjunction: Conjunction
    at_least: int
    at_most: int | None
    pointer: str
    start: int = 0


@dataclass(frozen=True, slots=True)
class ArrayFacet:
    """Arrays by the conjunctions of their first items and of the rest, their length, what they contain."""

    prefix: tuple[Conjunction, ...] = ()
    rest: Conjunction = ANYTHING
    at_least: int = 0
    at_most: int | None = None
    contains: tuple[ContainsCount, ...] = ()
    #: The pointers of keywords that ask for items which all differ / do not all differ.
    unique: tuple[str, ...] = ()
    not_unique: tuple[str, ...] = ()
    pointer: str = ""

    def __and__(self, other: ArrayFacet) -> ArrayFacet:
        """Return the intersection."""
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
        """Return the conjunction of the item at an index."""
        return self.prefix[index] if index < len(self.prefix) else self.rest

    def complement(self) -> Iterator[ArrayFacet]:
        """Yield the shorter and the longer arrays, those with a wrong item, and so on for each facet."""
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
    """The conjunction of the members whose key is none of the names and matches none of the patterns."""

    conjunction: Conjunction
    names: frozenset[str] = frozenset()
    patterns: tuple[KeyPattern, ...] = ()
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class ExistingMember:
    """Some member that ``enum`` covers exists and meets the conjunction."""

    conjunction: Conjunction
    enum: AdditionalMembers
    pattern: KeyPattern | None = None
    key: Conjunction = ANYTHING


@dataclass(frozen=True, slots=True)
class ObjectFacet:
    """Objects by the conjunctions of named members, of those that match patterns, and of all others."""

    properties: Mapping[str, Conjunction] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    patterns: tuple[tuple[KeyPattern, Conjunction], ...] = ()
    others: tuple[AdditionalMembers, ...] = ()
    names: Conjunction = ANYTHING
    at_least: int = 0
    at_most: int | None = None
    #: Members that must exist, anywhere / behind the declared ones.
    members: tuple[ExistingMember, ...] = ()
    trailing_members: tuple[ExistingMember, ...] = ()
    pointer: str = ""
    #: Whether the schema lists properties (perhaps none).
    lists_properties: bool = False

    def __and__(self, other: ObjectFacet) -> ObjectFacet:
        """Return the intersection; this facet's keys come first."""
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
        """Yield the objects with a wrong member, without a required one, and so on for each facet."""
        if limits_one_member(self) and self.required:
            # The negation of "present and of this kind" is one fact: "if present, then not of this kind".
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
        """Return the conjunction of the member of this name; ``matches(pattern, name)`` decides."""
        conjunction = self.properties.get(name, ANYTHING)
        for pattern, inner in self.patterns:
            if matches(pattern, name):
                conjunction = both(conjunction, inner)
        for one in self.others:
            if name not in one.names and not any(matches(p, name) for p in one.patterns):
                conjunction = both(conjunction, one.conjunction)
        return conjunction


def limits_one_member(facet: Any) -> bool:
    """Whether a facet only restricts one member, and perhaps requires it."""
    if not isinstance(facet, ObjectFacet) or len(facet.properties) != 1:
        return False
    return (
        facet.required in ((), tuple(facet.properties))
        and not facet.members
        and limits_only_members(facet)
    )


def limits_only_members(facet: ObjectFacet) -> bool:
    """Whether a facet only restricts and requires named members."""
    limits = (
        facet.at_least or facet.at_most is not None or facet.names or facet.patterns or facet.others
    )
    return not (limits or facet.trailing_members or facet.pointer or facet.lists_properties)


@dataclass(slots=True)
class ValueShape:
    """A conjunction: kinds, one facet for each, and perhaps a list of the only values."""

    kinds: int = ALL_KINDS
    facets: dict[int, Any] = field(default_factory=dict)
    #: The only values allowed, by identity (see values.py); None for no list.
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
    """If the value is of these kinds (the bits of one facet), it meets the facet."""

    kinds: int
    facet: Any


@dataclass(frozen=True, slots=True)
class Enum:
    """The value is one of these (by identity), whose kinds are ``kinds``."""

    values: Mapping[Any, Any]
    kinds: int


@dataclass(frozen=True, slots=True)
class Subschema:
    """The value meets a schema of the document."""

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
    """Always holds; but where evaluated members are tracked, the part holds or does not."""

    part: Subschema


@dataclass(frozen=True, slots=True)
class Unevaluated:
    """What no schema at this place has evaluated meets the keyword's schema (see ``evaluated_by``)."""

    pointer: str


@dataclass(frozen=True, slots=True)
class Undecidable:
    """A condition that can be neither written nor negated; it is deferred to the validator."""


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
