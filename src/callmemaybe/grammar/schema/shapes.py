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

from callmemaybe.grammar.nodes import Node
from callmemaybe.grammar.schema.numbers import EVERYTHING, Interval
from callmemaybe.grammar.schema.references import NOTHING_MEETS, Spot

NULL, FALSE, TRUE, INTEGER, FRACTION, STRING, ARRAY, OBJECT = (1 << bit for bit in range(8))
BOOLEAN = FALSE | TRUE
NUMBER = INTEGER | FRACTION
ALL_KINDS = 255

#: Schemas that must hold (True) or must not hold (False), all of them.
Need = tuple[tuple[Spot, bool], ...]
ANYTHING: Need = ()
NEVER: Need = ((NOTHING_MEETS, True),)


def both(one: Need, other: Need) -> Need:
    """Join two needs."""
    return one + tuple(item for item in other if item not in one) if one and other else one or other


def negated(need: Need) -> Iterator[Need]:
    """Yield needs of which one must be met wherever ``need`` is not."""
    for spot, holds in need:
        yield ((spot, not holds),)


class Facet(Protocol):
    """What restricts the values of one kind."""

    def __and__(self, other: Any) -> Any:
        """Return the values of both."""

    def complement(self) -> Iterator[Any]:
        """Yield facets that together have every value which this one lacks."""


@dataclass(frozen=True, slots=True)
class Number:
    """Numbers in an interval that are, and are not, multiples of something."""

    interval: Interval = EVERYTHING
    multiple: Fraction | None = None
    not_multiples: tuple[Fraction, ...] = ()
    #: Whether it must have been said (see ground.py); not said otherwise, so no part of a complement.
    ground: int = 0
    #: Of a keyword about multiples.
    pointer: str = field(default="", compare=False)

    def __and__(self, other: Number) -> Number:
        """Return the numbers of both."""
        multiple = self.multiple or other.multiple
        if self.multiple and other.multiple:
            multiple = least_common_multiple(self.multiple, other.multiple)
        return Number(
            self.interval & other.interval,
            multiple,
            self.not_multiples + other.not_multiples,
            max(self.ground, other.ground),
            self.pointer or other.pointer,
        )

    def complement(self) -> Iterator[Number]:
        """Yield what lies below, above, and between the multiples."""
        if self.interval.low is not None:
            yield Number(Interval(high=self.interval.low, high_open=not self.interval.low_open))
        if self.interval.high is not None:
            yield Number(Interval(low=self.interval.high, low_open=not self.interval.high_open))
        if self.multiple:
            yield Number(not_multiples=(self.multiple,), pointer=self.pointer)
        for multiple in self.not_multiples:
            yield Number(multiple=multiple, pointer=self.pointer)


def least_common_multiple(one: Fraction, other: Fraction) -> Fraction:
    """Return the smallest positive number that both divide."""
    numerator = one.numerator * other.numerator // gcd(one.numerator, other.numerator)
    return Fraction(numerator, gcd(one.denominator, other.denominator))


@dataclass(frozen=True, slots=True)
class String:
    """Strings of some lengths (in characters) that are in every one and in none of some languages.

    The languages are of JSON strings with their quotes, spelled as json.dumps does.
    """

    least: int = 0
    most: int | None = None
    within: tuple[Node, ...] = ()
    without: tuple[Node, ...] = ()
    #: Whether it must have been said; as for numbers.
    ground: int = 0
    #: Of a keyword about languages.
    pointer: str = field(default="", compare=False)

    def __and__(self, other: String) -> String:
        """Return the strings of both."""
        within = self.within + tuple(n for n in other.within if n not in self.within)
        without = self.without + tuple(n for n in other.without if n not in self.without)
        return String(
            max(self.least, other.least),
            lesser(self.most, other.most),
            within,
            without,
            max(self.ground, other.ground),
            self.pointer or other.pointer,
        )

    def complement(self) -> Iterator[String]:
        """Yield the shorter, the longer, and those outside each language."""
        if self.least:
            yield String(most=self.least - 1)
        if self.most is not None:
            yield String(least=self.most + 1)
        for node in self.within:
            yield String(without=(node,), pointer=self.pointer)
        for node in self.without:
            yield String(within=(node,), pointer=self.pointer)


def lesser(one: int | None, other: int | None) -> int | None:
    """Return the smaller of two upper limits, None being no limit."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


@dataclass(frozen=True, slots=True)
class Contained:
    """At least ``least`` and at most ``most`` of the items from index ``start`` meet a need."""

    need: Need
    least: int
    most: int | None
    pointer: str
    start: int = 0


@dataclass(frozen=True, slots=True)
class Array:
    """Arrays by the needs of their first items and of the rest, their length, what they contain."""

    prefix: tuple[Need, ...] = ()
    rest: Need = ANYTHING
    least: int = 0
    most: int | None = None
    contains: tuple[Contained, ...] = ()
    #: Pointers of the keywords that ask for items which all differ / do not all differ.
    unique: tuple[str, ...] = ()
    not_unique: tuple[str, ...] = ()
    pointer: str = ""

    def __and__(self, other: Array) -> Array:
        """Return the arrays of both."""
        length = max(len(self.prefix), len(other.prefix))
        prefix = tuple(both(self.item(i), other.item(i)) for i in range(length))
        return Array(
            prefix,
            both(self.rest, other.rest),
            max(self.least, other.least),
            lesser(self.most, other.most),
            self.contains + other.contains,
            self.unique + other.unique,
            self.not_unique + other.not_unique,
            self.pointer or other.pointer,
        )

    def item(self, index: int) -> Need:
        """Return what the item at an index needs."""
        return self.prefix[index] if index < len(self.prefix) else self.rest

    def complement(self) -> Iterator[Array]:
        """Yield the shorter, the longer, those with a wrong item, and so on for each facet."""
        if self.least:
            yield Array(most=self.least - 1)
        if self.most is not None:
            yield Array(least=self.most + 1)
        for index, need in enumerate(self.prefix):
            for wrong in negated(need):
                yield Array((ANYTHING,) * index + (wrong,), least=index + 1)
        for wrong in negated(self.rest):
            start = len(self.prefix)
            yield Array(least=start + 1, contains=(Contained(wrong, 1, None, self.pointer, start),))
        for one in self.contains:
            if one.least:
                yield Array(contains=(replace(one, least=0, most=one.least - 1),))
            if one.most is not None:
                yield Array(contains=(replace(one, least=one.most + 1, most=None),))
        if self.unique:
            yield Array(not_unique=self.unique)
        if self.not_unique:
            yield Array(unique=self.not_unique)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression for keys: its source and its language (JSON strings with quotes)."""

    source: str
    node: Node


@dataclass(frozen=True, slots=True)
class Others:
    """What the members need whose key is none of the names and matches none of the patterns."""

    need: Need
    names: frozenset[str] = frozenset()
    patterns: tuple[Pattern, ...] = ()
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """There is a member that ``among`` covers and that meets the need."""

    need: Need
    among: Others
    pattern: Pattern | None = None
    key: Need = ANYTHING


@dataclass(frozen=True, slots=True)
class Object:
    """Objects by the needs of named members, of those that match patterns, and of all others."""

    properties: Mapping[str, Need] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    patterns: tuple[tuple[Pattern, Need], ...] = ()
    others: tuple[Others, ...] = ()
    names: Need = ANYTHING
    least: int = 0
    most: int | None = None
    #: Members that there must be, somewhere / behind the declared ones.
    members: tuple[Member, ...] = ()
    extra: tuple[Member, ...] = ()
    pointer: str = ""
    #: Whether the schema lists properties (perhaps none).
    listed: bool = False

    def __and__(self, other: Object) -> Object:
        """Return the objects of both; this one's keys come first."""
        properties = dict(self.properties)
        for name, need in other.properties.items():
            properties[name] = both(properties.get(name, ANYTHING), need)
        return Object(
            properties,
            (*self.required, *(n for n in other.required if n not in self.required)),
            self.patterns + other.patterns,
            self.others + other.others,
            both(self.names, other.names),
            max(self.least, other.least),
            lesser(self.most, other.most),
            self.members + other.members,
            self.extra + other.extra,
            self.pointer or other.pointer,
            self.listed or other.listed,
        )

    def complement(self) -> Iterator[Object]:
        """Yield those with a wrong member, without a required one, and so on for each facet."""
        if is_about_one_name(self) and self.required:
            # "There, and of this kind" denied is one fact: "if there, then not of this kind".
            ((name, need),) = self.properties.items()
            for wrong in negated(need) if need else (NEVER,):
                yield Object(properties={name: wrong})
            return
        for name in self.required:
            yield Object(properties={name: NEVER})
        for name, need in self.properties.items():
            for wrong in negated(need):
                yield Object(properties={name: wrong}, required=(name,))
        if self.least:
            yield Object(most=self.least - 1)
        if self.most is not None:
            yield Object(least=self.most + 1)
        everywhere = Others(ANYTHING, pointer=self.pointer)
        for pattern, need in self.patterns:
            for wrong in negated(need):
                yield Object(members=(Member(wrong, everywhere, pattern),))
        for one in self.others:
            for wrong in negated(one.need):
                yield Object(members=(Member(wrong, one),))
        for wrong in negated(self.names):
            yield Object(members=(Member(ANYTHING, everywhere, key=wrong),))

    def need_of(self, name: str, matches: Any) -> Need:
        """Return what the member of this name needs; ``matches(pattern, name)`` decides."""
        need = self.properties.get(name, ANYTHING)
        for pattern, inner in self.patterns:
            if matches(pattern, name):
                need = both(need, inner)
        for one in self.others:
            if name not in one.names and not any(matches(p, name) for p in one.patterns):
                need = both(need, one.need)
        return need


def is_about_one_name(facet: Any) -> bool:
    """Whether a facet says nothing but what one member needs, and perhaps that it is there."""
    if not isinstance(facet, Object) or len(facet.properties) != 1:
        return False
    return facet.required in ((), tuple(facet.properties)) and not facet.members and is_bare(facet)


def is_bare(facet: Object) -> bool:
    """Whether a facet says nothing but perhaps what members need and which must be there."""
    limits = facet.least or facet.most is not None or facet.names or facet.patterns or facet.others
    return not (limits or facet.extra or facet.pointer or facet.listed)


@dataclass(slots=True)
class Shape:
    """A conjunction: kinds, one facet for each, and perhaps a list of the only values."""

    kinds: int = ALL_KINDS
    facets: dict[int, Any] = field(default_factory=dict)
    #: The only values allowed, by identity (see values.py); None for no such list.
    among: dict[Any, Any] | None = None
    #: Values that are not allowed, by identity.
    but: dict[Any, Any] = field(default_factory=dict)

    def copy(self) -> Shape:
        """Return an independent copy."""
        return Shape(self.kinds, dict(self.facets), self.among, self.but)


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
class Among:
    """The value is one of these (by identity); ``kinds`` are theirs."""

    values: Mapping[Any, Any]
    kinds: int


@dataclass(frozen=True, slots=True)
class Sub:
    """The value meets the schema at a spot."""

    spot: Spot
    by_reference: bool = False


@dataclass(frozen=True, slots=True)
class Every:
    """All of the parts hold."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one of the parts holds."""

    parts: tuple[Formula, ...]
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class One:
    """Exactly one of the parts holds."""

    parts: tuple[Sub, ...]
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Formula


@dataclass(frozen=True, slots=True)
class Whether:
    """Always holds; but where it is noted what was evaluated, the part holds or does not."""

    part: Sub


@dataclass(frozen=True, slots=True)
class Unevaluated:
    """What no schema at this place has evaluated meets a need (`unevaluated.py` sees to it)."""

    pointer: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that cannot be said, nor denied; left to be checked."""


Formula = Kinds | Fact | Among | Sub | Every | Some | One | Not | Whether | Unevaluated | Unknown
HOLDS = Every(())
FAILS = Kinds(0)
