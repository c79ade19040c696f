"""Analysis of schemas and instances: instance check, type bounds, structural equality.

They decide most questions of the normal form without decomposing a schema: whether a listed constant meets
it, whether two alternatives exclude each other by type or by a discriminator, and whether two schemas are
written alike.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from callmemaybe.grammar.json_schema.document import WITHOUT_VALIDATION, SchemaNode
from callmemaybe.grammar.json_schema.keywords import KEYWORDS, REFUSED, TYPES
from callmemaybe.grammar.json_schema.shapes import (
    ALL_KINDS,
    FALSE,
    NEVER,
    NULL,
    OBJECT,
    TRUE,
    ArrayFacet,
    Conjunction,
    NumberFacet,
    ObjectFacet,
    StringFacet,
    ValueShape,
)
from callmemaybe.grammar.json_schema.strings import contains_text, key_matches
from callmemaybe.grammar.json_schema.values import exact, identity, kind_of


class InstanceChecker:
    """Checks values of the schema itself (enum, const) against shapes, which ``shapes`` returns."""

    def __init__(self, shapes: Callable[[Conjunction], tuple[ValueShape, ...]]) -> None:
        self._shapes = shapes

    def meets(self, value: Any, conjunction: Conjunction) -> bool:
        """Whether a value meets a conjunction."""
        return not conjunction or any(
            self.accepts(shape, value) for shape in self._shapes(conjunction)
        )

    def accepts(self, shape: ValueShape, value: Any, key: Any = None) -> bool:
        """Whether a value has a shape; ``key`` is its identity, if known."""
        kind = kind_of(value)
        if not kind & shape.kinds:
            return False
        if shape.enum is not None or shape.excluded:
            key = identity(value) if key is None else key
            if key in shape.excluded or (shape.enum is not None and key not in shape.enum):
                return False
        for kinds, facet in shape.facets.items():
            if kind & kinds:
                return self._facet_fits(facet, value)
        return True

    def _facet_fits(self, facet: Any, value: Any) -> bool:
        match facet:
            case NumberFacet():
                return _number_fits(facet, value)
            case StringFacet():
                return _string_fits(facet, value)
            case ArrayFacet():
                return self._array_fits(facet, value)
        return self._object_fits(facet, value)

    def _array_fits(self, facet: ArrayFacet, value: list[Any]) -> bool:
        if not facet.at_least <= len(value) or (
            facet.at_most is not None and len(value) > facet.at_most
        ):
            return False
        if facet.unique or facet.not_unique:
            differ = len({identity(item) for item in value}) == len(value)
            if (facet.unique and not differ) or (facet.not_unique and differ):
                return False
        if not all(self.meets(item, facet.item(index)) for index, item in enumerate(value)):
            return False
        for one in facet.contains:
            count = sum(self.meets(item, one.conjunction) for item in value[one.start :])
            if count < one.at_least or (one.at_most is not None and count > one.at_most):
                return False
        return True

    def _object_fits(self, facet: ObjectFacet, value: dict[str, Any]) -> bool:
        if not facet.at_least <= len(value) or (
            facet.at_most is not None and len(value) > facet.at_most
        ):
            return False
        if not all(name in value for name in facet.required):
            return False
        for name, inner in value.items():
            if not self.meets(name, facet.names):
                return False
            if not self.meets(inner, facet.need_of(name, key_matches)):
                return False
        return all(
            any(
                may_be_named(member, name, self) and self.meets(inner, member.conjunction)
                for name, inner in value.items()
            )
            for member in (*facet.members, *facet.trailing_members)
        )


def may_be_named(member: Any, name: str, checker: InstanceChecker) -> bool:
    """Whether a member that must exist may have this name."""
    others = member.enum
    return (
        name not in others.names
        and not any(key_matches(pattern, name) for pattern in others.patterns)
        and (member.pattern is None or key_matches(member.pattern, name))
        and checker.meets(name, member.key)
    )


def _number_fits(facet: NumberFacet, value: float | Decimal) -> bool:
    number = Fraction(value) if isinstance(value, int) else exact(value)
    return (
        number in facet.interval
        and (facet.multiple is None or (number / facet.multiple).denominator == 1)
        and all((number / multiple).denominator != 1 for multiple in facet.not_multiples)
    )


def _string_fits(facet: StringFacet, value: str) -> bool:
    return (
        facet.at_least <= len(value)
        and (facet.at_most is None or len(value) <= facet.at_most)
        and all(contains_text(node, value) for node in facet.within)
        and not any(contains_text(node, value) for node in facet.without)
    )


class TypeBounds(NamedTuple):
    """The kinds a schema allows, and its values if it lists them: kinds by identity.

    ``is_complete``: the schema restricts nothing else.
    """

    kinds: int
    values: dict[Any, int] | None
    is_complete: bool


UNBOUNDED = TypeBounds(ALL_KINDS, None, False)
#: The kinds that have one value each, with its identity.
_WORDS = ((NULL, identity(None)), (TRUE, identity(True)), (FALSE, identity(False)))


class TypeBoundsCache:
    """Computes and caches type bounds."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._known: dict[SchemaNode, TypeBounds] = {}
        self._members: dict[tuple[SchemaNode, str], TypeBounds] = {}

    def is_empty(self, conjunction: Conjunction) -> bool | None:
        """Whether no value meets a conjunction; None if the type bounds do not decide it."""
        kinds, is_complete = ALL_KINDS, True
        values: dict[Any, int] | None = None
        without: set[Any] = set()
        for schema_node, holds in conjunction:
            bounds = self.bounds(schema_node)
            if holds:
                kinds &= bounds.kinds
                is_complete = is_complete and bounds.is_complete
                values = _intersect(values, bounds.values)
            elif not bounds.is_complete:
                is_complete = False
            elif bounds.values is None:
                kinds &= ~bounds.kinds
            else:
                without |= bounds.values.keys()
        if values is not None:
            kinds &= _kinds(kind for key, kind in values.items() if key not in without)
        elif without:
            kinds &= ~_kinds(kind for kind, key in _WORDS if key in without)
        if not kinds or (kinds == OBJECT and self._lacks_member(conjunction)):
            return True
        return False if is_complete else None

    def bounds(self, schema_node: SchemaNode) -> TypeBounds:
        """Return the type bounds of a schema; it allows no other values."""
        bounds = self._known.get(schema_node)
        if bounds is None:
            bounds = self._known[schema_node] = (
                UNBOUNDED
                if schema_node.draft == WITHOUT_VALIDATION
                else _type_bounds(schema_node.value)
            )
        return bounds

    def _lacks_member(self, conjunction: Conjunction) -> bool:
        """Whether a required member cannot exist, as where alternatives have a discriminator."""
        schemas = [
            schema_node for schema_node, holds in conjunction if holds and _has_members(schema_node)
        ]
        if len(schemas) < 2:
            return False
        required: dict[str, None] = {}
        for schema_node in schemas:
            names = schema_node.value.get("required")
            if isinstance(names, list):
                required.update((name, None) for name in names if isinstance(name, str))
        for name in required:
            kinds = ALL_KINDS
            values: dict[Any, int] | None = None
            for schema_node in schemas:
                bounds = self._member(schema_node, name)
                kinds &= bounds.kinds
                values = _intersect(values, bounds.values)
            if not kinds or (values is not None and not kinds & _kinds(values.values())):
                return True
        return False

    def _member(self, schema_node: SchemaNode, name: str) -> TypeBounds:
        known = self._members.get((schema_node, name))
        if known is None:
            listed = schema_node.value["properties"]
            known = _type_bounds(listed[name]) if name in listed else UNBOUNDED
            self._members[schema_node, name] = known
        return known


def _has_members(schema_node: SchemaNode) -> bool:
    schema = schema_node.value
    return (
        schema_node.draft != WITHOUT_VALIDATION
        and isinstance(schema, dict)
        and "$ref" not in schema
        and isinstance(schema.get("properties"), dict)
    )


def _intersect(one: dict[Any, int] | None, other: dict[Any, int] | None) -> dict[Any, int] | None:
    """Return the values of both lists; None is no list."""
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


def _type_bounds(schema: Any) -> TypeBounds:
    if not isinstance(schema, dict):
        return TypeBounds(ALL_KINDS if schema else 0, None, isinstance(schema, bool))
    if not schema.keys().isdisjoint(("$ref", "$schema", "nullable")):
        return UNBOUNDED
    kinds, is_complete = ALL_KINDS, True
    values: dict[Any, int] | None = None
    for keyword, value in schema.items():
        if keyword == "type":
            names = value if isinstance(value, list) else [value]
            if not all(isinstance(name, str) and name in TYPES for name in names):
                return UNBOUNDED
            kinds &= _kinds(TYPES[name] for name in names)
        elif keyword in ("enum", "const"):
            listed = _scalar_kinds(value if keyword == "enum" else [value])
            is_complete = is_complete and listed is not None
            values = _intersect(values, listed)
        elif keyword in KEYWORDS or keyword in REFUSED:
            is_complete = False
    if values is not None:
        values = {key: kind for key, kind in values.items() if kind & kinds}
        kinds = _kinds(values.values())
    return TypeBounds(kinds, values, is_complete)


def _scalar_kinds(values: Any) -> dict[Any, int] | None:
    """Return the kinds of scalar values by identity; None if one is no scalar."""
    if not isinstance(values, list):
        return None
    if not all(value is None or isinstance(value, str | int | float | Decimal) for value in values):
        return None
    try:
        return {identity(value): kind_of(value) for value in values}
    except ValueError:  # a number too long; refused when a value gets there
        return None


#: Annotations with text, and keywords below which their names are data.
_TEXT_ANNOTATIONS = frozenset(["title", "description", "$comment"])
_DATA_KEYWORDS = frozenset(["enum", "const", "dependencies"])


class StructuralEquality:
    """Numbers schemas by structure: equal numbers, the same valid values.

    Alternatives often repeat schemas (`oneOf` of objects that share members); comparing numbers saves
    decomposing both.
    """

    def __init__(self) -> None:
        """Start without numbers."""
        self._numbers: dict[Hashable, int] = {}
        # By id(), with the value itself, so that the id is not reused.
        self._known: dict[tuple[int, bool], tuple[Any, int]] = {}

    def deduplicate(self, conjunction: Conjunction) -> Conjunction:
        """Return a conjunction without duplicates; NEVER if it contradicts itself."""
        kept: dict[Hashable, tuple[SchemaNode, bool]] = {}
        for schema_node, holds in conjunction:
            key = (
                self._number(schema_node.value, False),
                schema_node.base,
                schema_node.draft,
                schema_node.scope,
            )
            if kept.setdefault(key, (schema_node, holds))[1] is not holds:
                return NEVER
        return conjunction if len(kept) == len(conjunction) else tuple(kept.values())

    def equal_schemas(self, schema_nodes: Iterable[SchemaNode]) -> frozenset[int]:
        """Return the id() of the values of some schemas and of all known equal ones."""
        ids = {id(schema_node.value) for schema_node in schema_nodes}
        numbers = {
            n for (known, is_data), (_, n) in self._known.items() if known in ids and not is_data
        }
        twins = {known for (known, is_data), (_, n) in self._known.items() if n in numbers}
        return frozenset(ids | twins)

    def _number(self, value: Any, is_data: bool) -> int:
        if not isinstance(value, dict | list):
            return self._numbers.setdefault((type(value), value), len(self._numbers))
        known = self._known.get((id(value), is_data))
        if known is not None:
            return known[1]
        content: Hashable
        if isinstance(value, list):
            content = ("list", *(self._number(inner, is_data) for inner in value))
        else:
            content = tuple(
                (key, self._number(inner, is_data or key in _DATA_KEYWORDS))
                for key, inner in value.items()
                if is_data or key not in _TEXT_ANNOTATIONS or not isinstance(inner, str)
            )
        number = self._numbers.setdefault(content, len(self._numbers))
        self._known[id(value), is_data] = value, number
        return number
