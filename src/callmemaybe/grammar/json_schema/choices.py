"""The open choices of a branch: simplified by known facts, and `oneOf` rewritten.

Alternatives with a discriminator, and `oneOf`, which negates all other options, leave many choices over the
same few facts. Once each fact is in its simplest form, most choices are implied by another one, and little is
left to split.

`oneOf` becomes a union in which overlapping options are negated pairwise. Lists of constants are the most
frequent `oneOf` and may be long; their options are not compared but counted: a value in one option only is
allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from callmemaybe.grammar.json_schema.analysis import InstanceChecker, TypeBounds, may_be_named
from callmemaybe.grammar.json_schema.document import FALSE_SCHEMA, SchemaNode
from callmemaybe.grammar.json_schema.keywords import KEYWORDS, REFUSED
from callmemaybe.grammar.json_schema.shapes import (
    ALL_KINDS,
    ANYTHING,
    ARRAY,
    INTEGER,
    NEVER,
    NUMBER,
    OBJECT,
    AllOf,
    AnyOf,
    Conjunction,
    Enum,
    ExistingMember,
    Fact,
    Formula,
    Kinds,
    Not,
    ObjectFacet,
    OneOf,
    Subschema,
    ValueShape,
    both,
    limits_one_member,
    limits_only_members,
)
from callmemaybe.grammar.json_schema.strings import key_matches
from callmemaybe.grammar.json_schema.values import kind_of


def is_closed(facet: ObjectFacet) -> bool:
    """Whether every key is one of the declared names."""
    return any(
        (FALSE_SCHEMA, True) in others.conjunction and not others.patterns
        for others in facet.others
    )


def place_member(
    facet: ObjectFacet, member: ExistingMember, checker: InstanceChecker
) -> list[ObjectFacet]:
    """Return facets whose union is "this member exists"."""
    names = [
        name
        for name in dict.fromkeys((*facet.properties, *facet.required))
        if may_be_named(member, name, checker) and NEVER[0] not in facet.properties.get(name, ())
    ]
    any_value = member.conjunction == ((FALSE_SCHEMA, False),) or not member.conjunction
    for name in names:
        if any_value and name in facet.required:
            return [ObjectFacet()]
    placed = [ObjectFacet({name: member.conjunction}, (name,)) for name in names]
    return placed if is_closed(facet) else [*placed, ObjectFacet(trailing_members=(member,))]


# The schemas around a formula, innermost first, and those that track what it evaluates: (schema, outer,
# trackers).
SchemaPath = tuple[SchemaNode, Any, tuple[SchemaNode, ...]] | None
SignedFormula = tuple[Formula, bool, SchemaPath]
Alternatives = list[SignedFormula]


class ChoiceSimplifier:
    """Simplifies the choices of a branch by its known facts."""

    def __init__(
        self, is_empty: Callable[[Conjunction, int], bool], checker: InstanceChecker
    ) -> None:
        """Take a test whether a conjunction is certainly empty (up to a depth), and an instance checker."""
        self._is_empty = is_empty
        self._checker = checker

    def simplify(
        self, shape: ValueShape, choices: list[Alternatives]
    ) -> tuple[list[Alternatives], list[Alternatives]]:
        """Return the choices that stay open, and those with one option or none left."""
        kept: list[Alternatives] = []
        settled: list[Alternatives] = []
        for options in choices:
            left = self._open_options(shape, options)
            if left is not None:
                (kept if len(left) > 1 else settled).append(left)
        return (_without_implied(kept) if len(kept) > 1 else kept), settled

    def _open_options(self, shape: ValueShape, options: Alternatives) -> Alternatives | None:
        """Return the undecided options; None if one of them holds anyway."""
        left: Alternatives = []
        for step in self._candidates(shape, options):
            verdict, simplified = self._verdict(shape, step)
            if verdict is True:
                return None
            if verdict is None:
                left.append(simplified)
        return left

    def _candidates(self, shape: ValueShape, options: Alternatives) -> Iterator[SignedFormula]:
        """Yield the options with negated facts about objects resolved, and existing members placed.

        Lazily, because most choices are decided by one of the first options.
        """
        if shape.kinds != OBJECT:
            yield from options
            return
        known = shape.facets.get(OBJECT)
        for step in options:
            formula, holds, path = step
            if not isinstance(formula, Fact) or formula.kinds != OBJECT:
                yield step
                continue
            for facet in (formula.facet,) if holds else formula.facet.complement():
                if known is not None and _asks_only_for_member(facet) and is_closed(known):
                    for one in place_member(known, facet.members[0], self._checker):
                        yield Fact(OBJECT, one), True, path
                else:
                    yield Fact(OBJECT, facet), True, path

    def _verdict(self, shape: ValueShape, step: SignedFormula) -> tuple[bool | None, SignedFormula]:
        """Return True if an option holds, False if it cannot hold, None if that is open.

        Also returns the simplest option that is equivalent in this branch.
        """
        formula, holds, path = step
        if isinstance(formula, Kinds):
            kinds = formula.kinds if holds else ~formula.kinds
            verdict = True if not shape.kinds & ~kinds else None if shape.kinds & kinds else False
            return verdict, step
        if not isinstance(formula, Fact) or not holds:
            return None, step
        if not shape.kinds & formula.kinds:
            return True, step
        if shape.kinds != OBJECT or not limits_one_member(formula.facet):
            return None, step
        known = shape.facets.get(OBJECT) or ObjectFacet()
        verdict, simplified = self._verdict_on_member(known, formula.facet)
        return verdict, step if simplified is formula.facet else (
            Fact(OBJECT, simplified),
            True,
            path,
        )

    def _verdict_on_member(
        self, known: ObjectFacet, wanted: ObjectFacet
    ) -> tuple[bool | None, ObjectFacet]:
        """Decide a fact about one member: it exists and meets a conjunction, or meets it if it exists.

        "It does not exist" is the latter, with a conjunction that nothing meets.
        """
        (name, extra), *_ = wanted.properties.items()
        is_there = name in known.required
        conjunction = known.need_of(name, key_matches)
        if is_never(conjunction) or not self._may_be(known, name):
            return not wanted.required, wanted
        if is_never(extra) or self._is_empty(both(conjunction, extra), 1):
            if wanted.required or is_there:
                return False, wanted
            return None, ObjectFacet({name: NEVER})
        if len(extra) > 1:
            return None, wanted
        if not extra or self._is_empty(both(conjunction, ((extra[0][0], not extra[0][1]),)), 1):
            fits = is_there or not wanted.required
            return True if fits else None, ObjectFacet({name: ANYTHING}, (name,))
        return None, wanted

    def _may_be(self, known: ObjectFacet, name: str) -> bool:
        """Whether a member of this name may exist beside the required ones."""
        if name in known.required:
            return True
        if known.at_most is not None and len(known.required) >= known.at_most:
            return False
        return self._checker.meets(name, known.names)


def _without_implied(choices: list[Alternatives]) -> list[Alternatives]:
    """Drop the choices that contain all options of another one, which implies them."""
    sets = [frozenset(map(_formula_key, options)) for options in choices]
    order = sorted(range(len(sets)), key=lambda index: len(sets[index]))
    kept: list[int] = []
    for index in order:
        if not any(sets[other] <= sets[index] for other in kept):
            kept.append(index)
    return [choices[index] for index in sorted(kept)]


def _formula_key(step: SignedFormula) -> Hashable:
    """Return a key that is equal for formulas that are equivalent in one branch."""
    formula, holds, path = step
    if isinstance(formula, Fact) and limits_one_member(formula.facet):
        (name, conjunction), *_ = formula.facet.properties.items()
        return name, conjunction, bool(formula.facet.required), holds
    return id(formula), holds, path and path[2]


def _asks_only_for_member(facet: Any) -> bool:
    """Whether a facet only asks that a member exists."""
    if not isinstance(facet, ObjectFacet) or len(facet.members) != 1:
        return False
    return not facet.properties and not facet.required and limits_only_members(facet)


def is_never(conjunction: Conjunction) -> bool:
    """Whether a conjunction is certainly met by nothing."""
    return (FALSE_SCHEMA, True) in conjunction


_VALUE_LISTS = frozenset(["const", "enum"])
_VALUE_LISTS_AND_TYPE = _VALUE_LISTS | {"type"}


class _OpenOption(NamedTuple):
    """An option that is no list of values: as written, at the end of its references, with its type bounds."""

    part: Subschema
    schema_node: SchemaNode
    bounds: TypeBounds


@dataclass(slots=True)
class _ConstantGroup:
    """Constants that are compared with the other options together.

    ``written`` are the kinds of number in which an integer of the group may be written.
    """

    written: int
    kinds: int = 0
    values: dict[Any, Any] = field(default_factory=dict)
    #: Constants that are in more than one option.
    repeated: set[Any] = field(default_factory=set)
    schema_node: SchemaNode = field(init=False)

    @property
    def single(self) -> dict[Any, Any]:
        """The constants that are in one option only, by identity."""
        if not self.repeated:
            return self.values
        return {key: value for key, value in self.values.items() if key not in self.repeated}


class OneOfRewriter:
    """Rewrites `oneOf` with `anyOf` and `not`; cached."""

    def __init__(
        self,
        end: Callable[[SchemaNode], SchemaNode],
        parts: Callable[[SchemaNode], list[Formula]],
        type_bounds: Callable[[SchemaNode], TypeBounds],
        may_overlap: Callable[[SchemaNode, SchemaNode], bool],
        charge: Callable[[int, str], None],
    ) -> None:
        """Take functions that follow references, return formulas, and return type bounds.

        ``may_overlap`` decides whether two schemas may hold at once; ``charge`` counts pairs to be compared,
        for a pointer.
        """
        self._follow_references = end
        self._parts = parts
        self._type_bounds = type_bounds
        self._may_overlap = may_overlap
        self._charge = charge
        self._sorted: dict[OneOf, tuple[list[_ConstantGroup], list[_OpenOption]]] = {}
        self._rewritten: dict[OneOf, Formula] = {}

    def formula(self, one: OneOf) -> Formula:
        """Return "exactly one" written with "not"."""
        found = self._rewritten.get(one)
        if found is None:
            found = self._rewritten[one] = self._rewrite(one)
        return found

    def _rewrite(self, one: OneOf) -> Formula:
        # Comparing two options may lead back here with the same schemas; the cached groups end the
        # recursion.
        if one not in self._sorted:
            self._sorted[one] = self._sort(one.parts)
        groups, others = self._sorted[one]
        denied: list[list[Formula]] = [[] for _ in others]
        options: list[Formula] = []
        free: dict[Any, Any] = {}
        kinds = 0
        for group in groups:
            self._charge(len(others), one.pointer)
            against: list[Formula] = []
            for other, its in zip(others, denied, strict=True):
                if group.kinds & other.bounds.kinds and self._may_overlap(
                    group.schema_node, other.schema_node
                ):
                    against.append(Not(other.part))
                    its.append(Not(Enum(group.values, group.kinds)))
            single = group.single
            if single and not against and group.written != INTEGER:
                free |= single
                kinds |= group.kinds
            elif single:
                said = Enum(single, group.kinds)
                options.append(AllOf((Kinds(group.written), said, *against)))
        if free:
            options.append(Enum(free, kinds))
        for index, rivals in enumerate(_overlapping([other.bounds for other in others])):
            self._charge(len(rivals), one.pointer)
            for later in rivals:
                if self._may_overlap(others[index].schema_node, others[later].schema_node):
                    denied[index].append(Not(others[later].part))
                    denied[later].append(Not(others[index].part))
        for other, its in zip(others, denied, strict=True):
            options.append(AllOf((other.part, *its)) if its else other.part)
        return options[0] if len(options) == 1 else AnyOf(tuple(options), one.pointer)

    def _sort(self, parts: tuple[Subschema, ...]) -> tuple[list[_ConstantGroup], list[_OpenOption]]:
        groups: dict[Hashable, _ConstantGroup] = {}
        group_of: dict[Any, _ConstantGroup] = {}
        others: list[_OpenOption] = []
        for part in parts:
            schema_node = self._follow_references(part.schema_node)
            listed = self._listed(schema_node)
            if listed is None:
                others.append(_OpenOption(part, schema_node, self._type_bounds(schema_node)))
                continue
            values, kinds = listed
            for key, value in values.items():
                if key in group_of:
                    group_of[key].repeated.add(key)
                    continue
                kind = kind_of(value)
                written = kinds & NUMBER if kind & NUMBER else kind
                # Negating an array or object takes many cases, so each is compared by itself.
                name: Hashable = key if kind & (ARRAY | OBJECT) else ()
                group = groups.setdefault((written, name), _ConstantGroup(written))
                group.values[key] = value
                group.kinds |= kind
                group_of[key] = group
        for group in groups.values():
            group.schema_node = SchemaNode({"enum": list(group.values.values())}, "")
        return list(groups.values()), others

    def _listed(self, schema_node: SchemaNode) -> tuple[dict[Any, Any], int] | None:
        """Return the values, by identity, of a schema that only lists values, and the kinds it allows.

        None for other schemas.
        """
        if not isinstance(schema_node.value, dict) or _VALUE_LISTS.isdisjoint(schema_node.value):
            return None
        if not all(
            key in _VALUE_LISTS_AND_TYPE
            for key in schema_node.value
            if key in KEYWORDS or key in REFUSED
        ):
            return None
        kinds = ALL_KINDS
        values: dict[Any, Any] | None = None
        for part in self._parts(schema_node):
            if isinstance(part, Kinds):
                kinds &= part.kinds
            elif not isinstance(part, Enum):
                return None
            elif values is None:
                values = dict(part.values)
            else:
                values = {key: value for key, value in values.items() if key in part.values}
        if values is None:
            return None
        return {key: value for key, value in values.items() if kind_of(value) & kinds}, kinds


def _overlapping(options: list[TypeBounds]) -> Iterator[list[int]]:
    """Yield for each option the later ones that may share a value, by kinds and listed values."""
    having: dict[Any, list[int]] = {}
    open_ones: list[int] = []
    for index, bounds in enumerate(options):
        if bounds.values is None:
            open_ones.append(index)
        for key in bounds.values or ():
            having.setdefault(key, []).append(index)
    for index, bounds in enumerate(options):
        if bounds.values is None:
            near = range(index + 1, len(options))
            yield [later for later in near if options[later].kinds & bounds.kinds]
            continue
        met = {later for key in bounds.values for later in having[key]}
        met.update(later for later in open_ones if options[later].kinds & bounds.kinds)
        yield sorted(later for later in met if later > index)
