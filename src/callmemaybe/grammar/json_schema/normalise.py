"""From formulas to shapes: a conjunction of schemas becomes a union of `ValueShape`.

The method is an analytic tableau: formulas are decomposed one by one; conjunctions stay in the same branch,
disjunctions wait until all facts are known and then split it. A branch is closed as soon as no kind of value
is left. Negation is pushed inwards, so `not`, `oneOf` and `if` need no rules of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from callmemaybe.errors import GrammarError, UnsupportedSchema
from callmemaybe.grammar.automata.tree import min_length_of
from callmemaybe.grammar.automaton import report_progress
from callmemaybe.grammar.json_schema.analysis import (
    UNBOUNDED,
    InstanceChecker,
    StructuralEquality,
    TypeBounds,
    TypeBoundsCache,
)
from callmemaybe.grammar.json_schema.choices import (
    ChoiceSimplifier,
    OneOfRewriter,
    SchemaPath,
    SignedFormula,
    is_closed,
    is_never,
    place_member,
)
from callmemaybe.grammar.json_schema.document import SchemaDocument, SchemaNode
from callmemaybe.grammar.json_schema.keywords import (
    Evaluated,
    asks_for_evaluated,
    evaluated_by,
    formulas,
    is_reference,
    unevaluated_facts,
    with_own_keywords,
)
from callmemaybe.grammar.json_schema.shapes import (
    ARRAY,
    FAILS,
    NEVER,
    NUMBER,
    OBJECT,
    STRING,
    AdditionalMembers,
    AllOf,
    AnyOf,
    ArrayFacet,
    Conditional,
    Conjunction,
    Enum,
    Fact,
    Formula,
    Kinds,
    Not,
    ObjectFacet,
    OneOf,
    Subschema,
    Unevaluated,
    ValueShape,
    limits_one_member,
)
from callmemaybe.grammar.json_schema.strings import key_matches, string_node
from callmemaybe.grammar.json_schema.values import identity, kind_of
from callmemaybe.grammar.nodes import INFINITE


class DerivedSchemas:
    """Makes schemas that are in no document: parts of others.

    Equal parts are one object, since a conjunction is identified by its schemas: with new objects, no
    conjunction of a recursive schema would ever be met again.
    """

    def __init__(self, formulas_of: dict[SchemaNode, list[Formula]]) -> None:
        """Take the table of formulas, for schemas whose formulas do not follow from their value."""
        self._formulas_of = formulas_of
        self._constants: dict[Any, SchemaNode] = {}
        self._any_of_nodes: dict[tuple[SchemaNode, ...], SchemaNode] = {}

    def any_of(self, schema_nodes: tuple[SchemaNode, ...]) -> SchemaNode:
        """Return a schema that is met if one of these is, each at its own place in the document."""
        found = self._any_of_nodes.get(schema_nodes)
        if found is None:
            # A tuple is no JSON value, so no written schema is structurally equal to this one.
            found = self._any_of_nodes[schema_nodes] = SchemaNode(
                {"anyOf": schema_nodes}, schema_nodes[-1].pointer
            )
            self._formulas_of[found] = [AnyOf(tuple(map(Subschema, schema_nodes)))]
        return found

    def differs_from(self, value: dict[str, Any] | list[Any]) -> Formula:
        """Return the formula that a value is not this array or object."""
        if isinstance(value, list):
            prefix = tuple(map(self._constant, value))
            same: Fact = Fact(ARRAY, ArrayFacet(prefix, at_least=len(value), at_most=len(value)))
            return AnyOf((Kinds(~ARRAY), Not(same)))
        properties = {name: self._constant(inner) for name, inner in value.items()}
        others = AdditionalMembers(NEVER, frozenset(properties))
        return AnyOf(
            (
                Kinds(~OBJECT),
                Not(Fact(OBJECT, ObjectFacet(properties, tuple(value), others=(others,)))),
            )
        )

    def _constant(self, value: Any) -> Conjunction:
        key = identity(value)
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = SchemaNode({"const": value}, "")
        return ((found, True),)


#: Branches for a whole schema. Each counts once, and once more for every choice that is still open.
MAX_BRANCHES = 15_000
#: Steps of an automaton that take about as long as one branch (see ``WORK_BUDGET``).
STEPS_PER_BRANCH = 10
#: Formulas of a branch that are applied for one step more.
FORMULAS_PER_STEP = 4
#: Pairs of options that count as one branch; most are told apart by their type bounds.
PAIRS_PER_BRANCH = 32
#: Depth inside a value at which contradictions are searched.
MAX_DEPTH = 4


class _Branch:
    """One branch: its known facts, its formulas to decompose, and its open choices."""

    __slots__ = ("choices", "done", "evaluated", "shape", "todo")

    def __init__(
        self,
        shape: ValueShape,
        todo: list[SignedFormula],
        choices: list[list[SignedFormula]],
        done: set[Any],
        evaluated: dict[SchemaNode, Evaluated],
    ) -> None:
        self.shape = shape
        self.todo = todo
        self.choices = choices
        self.done = done
        self.evaluated = evaluated

    def fork(self, todo: list[SignedFormula], choices: list[list[SignedFormula]]) -> _Branch:
        """Return a copy that continues with these formulas and choices."""
        return _Branch(self.shape.copy(), todo, list(choices), set(self.done), dict(self.evaluated))


class _TooManyBranches(UnsupportedSchema):
    """The limit on branches is exceeded."""

    def __init__(self, pointer: str) -> None:
        what = "combining these schemas takes too many cases"
        hint = "use fewer overlapping anyOf, oneOf, not or if"
        super().__init__(what, pointer=pointer, hint=hint)


class Normaliser:
    """Finds and caches the shapes of conjunctions."""

    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self._shapes: dict[Conjunction, tuple[ValueShape, ...]] = {}
        #: The formulas of every schema that was opened.
        self.formulas_of: dict[SchemaNode, list[Formula]] = {}
        self._empty: dict[Conjunction, bool] = {}
        #: The depth at which no contradiction was found.
        self._looked: dict[Conjunction, int] = {}
        self._canonical: dict[Conjunction, Conjunction] = {}
        self._equality = StructuralEquality()
        self._type_bounds = TypeBoundsCache()
        self._charged = 0
        self._ignores_negation = False
        self.checker = InstanceChecker(self.shapes)
        self._choices = ChoiceSimplifier(self.is_empty, self.checker)
        self._derived = DerivedSchemas(self.formulas_of)
        self._one_of = OneOfRewriter(
            self._follow_references, self._parts, self._bounds_of, self._may_overlap, self._charge
        )
        self._pairs = self._applied = 0

    def shapes(self, conjunction: Conjunction) -> tuple[ValueShape, ...]:
        """Return the shapes whose union is the conjunction."""
        return self._shapes_of(self.canonicalize(conjunction))

    def _shapes_of(self, conjunction: Conjunction) -> tuple[ValueShape, ...]:
        """Return the shapes of a canonical conjunction."""
        if conjunction in self._shapes:
            return self._shapes[conjunction]
        # Checking a constant may need the shapes of this very conjunction. The unfiltered ones serve,
        # since a value must meet all their facets, whether it is listed or not.
        found = self._shapes[conjunction] = tuple(self._search(conjunction))
        try:
            found = tuple(shape for shape in found if self._filter_enum(shape))
        except BaseException:
            del self._shapes[conjunction]
            raise
        self._shapes[conjunction] = found
        return found

    @property
    def visited_schemas(self) -> frozenset[int]:
        """The id() of the schemas that were opened, or are structurally equal to one."""
        return self._equality.equal_schemas(self.formulas_of)

    def canonicalize(self, conjunction: Conjunction) -> Conjunction:
        """Return a conjunction with references followed and duplicates removed."""
        found = self._canonical.get(conjunction)
        if found is None:
            found = tuple(
                (self._follow_references(schema_node), holds) for schema_node, holds in conjunction
            )
            if len(found) > 1:
                found = self._equality.deduplicate(found)
            self._canonical[conjunction] = found
        return found

    def _follow_references(self, schema_node: SchemaNode) -> SchemaNode:
        """Return the end of a chain of references; the schema itself if it does not end."""
        at, met = schema_node, {schema_node}
        while is_reference(at) and not self._document.excluded_keywords:
            try:
                parts = self._parts(at)
            except UnsupportedSchema:  # raised again when a value gets there
                return schema_node
            (part,) = parts
            if not isinstance(part, Subschema) or part.schema_node in met:
                return schema_node
            at = part.schema_node
            met.add(at)
        return at

    def is_empty(self, conjunction: Conjunction, depth: int = MAX_DEPTH) -> bool:
        """Whether it is certain that no value meets a conjunction."""
        return self._is_empty(self.canonicalize(conjunction), depth)

    def _is_empty(self, conjunction: Conjunction, depth: int) -> bool:
        """Decide it for a canonical conjunction."""
        if conjunction in self._empty:
            return self._empty[conjunction]
        if self._looked.get(conjunction, 0) >= depth:
            return False
        type_bounds = (
            None if self._document.excluded_keywords else self._type_bounds.is_empty(conjunction)
        )
        if type_bounds is not None:
            return type_bounds
        self._empty[conjunction] = False  # assumed while it is being decided, as inside itself
        found = all(self._has_no_value(shape, depth) for shape in self._shapes_of(conjunction))
        if found:
            self._empty[conjunction] = True
        elif depth < MAX_DEPTH:
            del self._empty[conjunction]
            self._looked[conjunction] = depth
        return found

    # -- the search -------------------------------------------------------------------------

    def _search(self, conjunction: Conjunction) -> list[ValueShape]:
        """Find the shapes of a conjunction; without its negated schemas if there are too many branches."""
        try:
            return self._all_branches(conjunction)
        except _TooManyBranches as error:
            if self._ignores_negation or not self._document.may_defer:
                raise
            self._document.defer(error.pointer, error.message)
        self._ignores_negation, self._charged = True, 0
        try:
            return self._all_branches(conjunction)
        finally:
            self._ignores_negation = False

    def _all_branches(self, conjunction: Conjunction) -> list[ValueShape]:
        start: list[SignedFormula] = [
            (Subschema(schema_node), holds, None) for schema_node, holds in reversed(conjunction)
        ]
        branches = [_Branch(ValueShape(), start, [], set(), {})]
        found: list[ValueShape] = []
        while branches:
            branch = branches.pop()
            cost = 1 + len(branch.choices)
            self._charged += cost
            report_progress(STEPS_PER_BRANCH * cost)
            if self._charged > MAX_BRANCHES:
                raise _TooManyBranches(conjunction[0][0].pointer if conjunction else "")
            if not self._decompose(branch):
                continue
            if branch.choices:
                branch.choices, settled = self._choices.simplify(branch.shape, branch.choices)
                for options in settled:
                    self._choose(branch, options)
                if branch.todo or not branch.choices:
                    branches.append(branch)
                    continue
                options, *waiting = branch.choices
                # Earlier options are negated in later ones where that is cheap: it decides other choices,
                # and keeps the branches disjoint (as in Davis-Putnam).
                denied: list[SignedFormula] = []
                split = []
                for step in options:
                    formula, holds, path = step
                    split.append(branch.fork([*denied, step], waiting))
                    if isinstance(formula, Fact) and limits_one_member(formula.facet):
                        denied.append((formula, not holds, path))
                branches.extend(reversed(split))
            elif self._is_consistent(branch.shape):
                found.append(branch.shape)
        return found

    def _decompose(self, branch: _Branch) -> bool:
        """Decompose the formulas of a branch up to its next choice; False if the branch is closed."""
        todo, shape = branch.todo, branch.shape
        while True:
            while todo:
                formula, holds, path = todo.pop()
                self._applied += 1
                if self._applied % FORMULAS_PER_STEP == 0:
                    report_progress(1)
                self._apply(branch, formula, holds, path)
                if not shape.kinds:
                    return False
            if branch.choices:
                return True
            # All choices are made: now the evaluated members are known, and then the names at which a
            # member that must exist may be placed.
            if branch.evaluated:
                for collector, evaluated in branch.evaluated.items():
                    found = unevaluated_facts(
                        collector, evaluated, self._document, self._derived.any_of
                    )
                    todo.extend((fact, True, None) for fact in found)
                branch.evaluated = {}
                continue
            facet = shape.facets.get(OBJECT)
            if facet is None or not facet.members or not shape.kinds & OBJECT:
                return True
            member, *others = facet.members
            shape.facets[OBJECT] = replace(facet, members=tuple(others))
            placed = place_member(facet, member, self.checker)
            self._choose(branch, [(Fact(OBJECT, one), True, None) for one in placed])

    def _apply(self, branch: _Branch, formula: Formula, holds: bool, path: SchemaPath) -> None:
        shape = branch.shape
        match formula:
            case Kinds(kinds):
                shape.kinds &= kinds if holds else ~kinds
            case Fact(kinds, facet):
                if not holds:
                    shape.kinds &= kinds
                    options = [Fact(kinds, other) for other in facet.complement()]
                    self._choose(branch, [(option, True, path) for option in options])
                elif shape.kinds & kinds:
                    known = shape.facets.get(kinds)
                    shape.facets[kinds] = facet if known is None else known & facet
            case Enum(values, kinds):
                self._restrict(branch, values, kinds, holds)
            case Subschema():
                self._open(branch, formula, holds, path)
            case AllOf(parts):
                self._conjunction_or_choice(branch, parts, holds, holds, path)
            case AnyOf(parts):
                self._conjunction_or_choice(branch, parts, holds, not holds, path)
            case Not(part):
                # A negated schema evaluates nothing (Core, section 7.7.1.4).
                outer = path and (path[0], path[1], ())
                branch.todo.append((part, not holds, outer))
            case Conditional(part):
                if not holds:
                    shape.kinds = 0
                elif path and path[2]:
                    self._choose(branch, [(part, True, path), (Not(part), True, path)])
            case Unevaluated(pointer):
                if not holds:
                    self._document.defer(pointer, "negating this is not supported")
            case OneOf(parts) if self._ignores_negation:
                if holds:
                    self._conjunction_or_choice(branch, parts, True, False, path)
            case OneOf():
                branch.todo.append((self._one_of.formula(formula), holds, path))

    def _restrict(
        self, branch: _Branch, values: Mapping[Any, Any], kinds: int, holds: bool
    ) -> None:
        shape = branch.shape
        if not holds:
            canonicalize = {key: v for key, v in values.items() if not isinstance(v, dict | list)}
            shape.excluded = {**shape.excluded, **canonicalize}
            branch.todo.extend(
                (self._derived.differs_from(value), True, None)
                for value in values.values()
                if isinstance(value, dict | list)
            )
            return
        known = shape.enum
        shape.enum = (
            dict(values) if known is None else {k: v for k, v in known.items() if k in values}
        )
        shape.kinds &= _with_both_numbers(kinds)

    def _open(self, branch: _Branch, sub: Subschema, holds: bool, path: SchemaPath) -> None:
        schema_node = sub.schema_node
        if self._ignores_negation and not holds:
            return
        if sub.by_reference:
            outer = path
            while outer is not None:
                if outer[0] is schema_node:
                    raise UnsupportedSchema(
                        "this reference leads back to itself without any value in between",
                        pointer=path[0].pointer if path else schema_node.pointer,
                    )
                outer = outer[1]
        collectors = path[2] if path and holds else ()
        key = (schema_node, holds, collectors)
        if key in branch.done:
            return
        if (schema_node, not holds) in branch.done:
            branch.shape.kinds = 0
            return
        branch.done |= {key, (schema_node, holds)}
        parts = self._parts(schema_node)
        if holds and isinstance(schema_node.value, dict):
            collectors = self._collect(branch, schema_node, collectors)
        self._conjunction_or_choice(branch, parts, holds, holds, (schema_node, path, collectors))

    def _parts(self, schema_node: SchemaNode) -> list[Formula]:
        parts = self.formulas_of.get(schema_node)
        if parts is None:
            parts = self.formulas_of[schema_node] = formulas(schema_node, self._document)
        return parts

    def _collect(
        self, branch: _Branch, schema_node: SchemaNode, collectors: tuple[SchemaNode, ...]
    ) -> tuple[SchemaNode, ...]:
        """Record what a schema that holds evaluates; returns the schemas that track it within."""
        own = asks_for_evaluated(schema_node)
        if not collectors and not own:
            return ()
        evaluated = evaluated_by(schema_node, self._document)
        if own:
            branch.evaluated[schema_node] = (
                branch.evaluated.get(schema_node, Evaluated()) | evaluated
            )
            evaluated = with_own_keywords(evaluated, schema_node)
        for collector in collectors:
            branch.evaluated[collector] = branch.evaluated[collector] | evaluated
        return (*collectors, schema_node) if own else collectors

    def _conjunction_or_choice(
        self,
        branch: _Branch,
        parts: tuple[Formula, ...] | list[Formula],
        holds: bool,
        every: bool,
        path: SchemaPath,
    ) -> None:
        if every:
            branch.todo.extend((part, holds, path) for part in reversed(parts))
        else:
            self._choose(branch, [(part, holds, path) for part in parts])

    @staticmethod
    def _choose(branch: _Branch, options: list[SignedFormula]) -> None:
        if len(options) == 1:
            branch.todo.append(options[0])
        elif options:
            branch.choices.append(options)
        else:
            branch.todo.append((FAILS, True, None))

    # -- options that exclude each other -----------------------------------------------------

    def _may_overlap(self, one: SchemaNode, other: SchemaNode) -> bool:
        """Whether two schemas may hold at once; not cached, since there are many pairs."""
        return not self._is_empty(
            self._equality.deduplicate(((one, True), (other, True))), MAX_DEPTH
        )

    def _bounds_of(self, schema_node: SchemaNode) -> TypeBounds:
        return (
            UNBOUNDED if self._document.excluded_keywords else self._type_bounds.bounds(schema_node)
        )

    def _charge(self, pairs: int, pointer: str) -> None:
        """Count pairs that are to be compared against the limit on branches."""
        cost, self._pairs = divmod(self._pairs + pairs, PAIRS_PER_BRANCH)
        self._charged += cost
        report_progress(STEPS_PER_BRANCH * cost)
        if self._charged > MAX_BRANCHES:
            raise _TooManyBranches(pointer)

    # -- contradictions ---------------------------------------------------------------------

    def _is_consistent(self, shape: ValueShape) -> bool:
        """Drop kinds without a value; False if none is left."""
        number = shape.facets.get(NUMBER)
        if number is not None and number.interval.is_empty:
            shape.kinds &= ~NUMBER
        for kind in (STRING, ARRAY, OBJECT):
            facet = shape.facets.get(kind)
            if facet is not None and facet.at_most is not None and facet.at_least > facet.at_most:
                shape.kinds &= ~kind
        array = shape.facets.get(ARRAY)
        if array is not None and any(
            one.at_most is not None and one.at_least > one.at_most for one in array.contains
        ):
            shape.kinds &= ~ARRAY
        return shape.kinds != 0

    def _filter_enum(self, shape: ValueShape) -> bool:
        """Drop constants that do not meet the shape; False if that leaves none."""
        if shape.enum is None:
            return True
        accepts = self.checker.accepts
        canonicalize = not shape.facets and not shape.excluded
        kept: dict[Any, Any] = {}
        kinds = 0
        for key, value in shape.enum.items():
            kind = kind_of(value)
            if kind & shape.kinds and (canonicalize or accepts(shape, value, key)):
                kept[key] = value
                kinds |= kind
        shape.enum = kept
        shape.kinds &= _with_both_numbers(kinds)
        return bool(kept)

    def _has_no_value(self, shape: ValueShape, depth: int) -> bool:
        """Whether it is certain that no value has this shape."""
        if shape.enum is not None:
            return not shape.enum
        kinds = shape.kinds
        if kinds & ~(STRING | ARRAY | OBJECT):
            return False
        if kinds & STRING and not self._no_string(shape):
            return False
        if kinds & ARRAY and not self._no_array(shape.facets.get(ARRAY), depth):
            return False
        return not (kinds & OBJECT) or self._no_object(shape.facets.get(OBJECT), depth)

    @staticmethod
    def _no_string(shape: ValueShape) -> bool:
        try:
            return (
                min_length_of(string_node(shape.facets.get(STRING), shape.excluded), {}) == INFINITE
            )
        except GrammarError:
            return False

    def _no_array(self, facet: ArrayFacet | None, depth: int) -> bool:
        if facet is None or depth == 0:
            return False
        count = min(facet.at_least, len(facet.prefix) + 1)
        return any(self.is_empty(facet.item(index), depth - 1) for index in range(count))

    def _no_object(self, facet: ObjectFacet | None, depth: int) -> bool:
        if facet is None or depth == 0:
            return False
        if is_closed(facet) and facet.at_least > len(facet.properties.keys() | facet.required):
            return True
        return any(
            is_never(conjunction) or self.is_empty(conjunction, depth - 1)
            for conjunction in (facet.need_of(name, key_matches) for name in facet.required)
        )


def _with_both_numbers(kinds: int) -> int:
    """Add both kinds of number if there is one: an integer may be written as 1 or as 1.0."""
    return kinds | NUMBER if kinds & NUMBER else kinds
