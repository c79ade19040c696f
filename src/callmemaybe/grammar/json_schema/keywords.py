"""The keywords of JSON Schema: one table, one short function for each.

A keyword is *exact* (in the grammar), an *annotation* (it does not affect which values are valid), or
*refused* with its JSON pointer. An exact keyword becomes a formula over facts (`shapes.py`); a fact that no
grammar can hold is found later (`emit.py`), and is deferred to a validator or refused. Unknown keywords are
annotations (Core, section 4.3.1).

Covered: drafts 4 to 2020-12, OpenAPI's `nullable`, and the types `dict`, `float`, `tuple` and `any` of the
Berkeley Function Calling Leaderboard. A keyword has its meaning whatever draft the schema declares; where
drafts contradict each other the declared one decides (`why_ignored`), and so do the vocabularies of a
metaschema that was handed in.

Schemas with `unevaluatedProperties` or `unevaluatedItems` track what other schemas at the same place
evaluate: while a branch of the search visits them, each adds what it evaluates (`evaluated_by`); when every
choice is made, the rest is known and the keyword becomes a fact (`unevaluated_facts`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from callmemaybe.errors import GrammarError, UnsupportedSchema
from callmemaybe.grammar.characters import json_canonical
from callmemaybe.grammar.json_schema import shapes
from callmemaybe.grammar.json_schema.document import (
    WITHOUT_VALIDATION,
    SchemaDocument,
    SchemaNode,
)
from callmemaybe.grammar.json_schema.grounding import LEVELS, NEVER_GROUNDED
from callmemaybe.grammar.json_schema.intervals import Interval
from callmemaybe.grammar.json_schema.shapes import (
    ANYTHING,
    ARRAY,
    FAILS,
    HOLDS,
    NEVER,
    OBJECT,
    AdditionalMembers,
    AllOf,
    AnyOf,
    ArrayFacet,
    Conditional,
    Conjunction,
    ContainsCount,
    Enum,
    Fact,
    Formula,
    KeyPattern,
    Kinds,
    Not,
    NumberFacet,
    ObjectFacet,
    OneOf,
    StringFacet,
    Subschema,
    Undecidable,
    Unevaluated,
)
from callmemaybe.grammar.json_schema.strings import (
    DEFERRED,
    FORMATS,
    SUPERSETS,
    format_node,
    is_old_format,
)
from callmemaybe.grammar.json_schema.values import exact, identity, kind_of
from callmemaybe.grammar.nodes import Node, lexeme, lit, seq, set_source
from callmemaybe.grammar.regex import matching

#: The validation vocabulary of draft 2020-12, which a dialect may lack.
VALIDATION_VOCABULARY = frozenset(
    ["type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum",
     "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems",
     "maxContains", "minContains", "maxProperties", "minProperties", "required", "dependentRequired"]
)  # fmt: skip
#: Keywords that drafts before one do not know, and that one.
_SINCE = {
    **dict.fromkeys(
        ["dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties"], 2019
    ),
    "prefixItems": 2020,
}
_DRAFT_NAMES = {2019: "2019-09", 2020: "2020-12"}


def why_ignored(keyword: str, schema_node: SchemaNode) -> str:
    """Return why a keyword has no effect in the dialect of a schema; the empty text if it has."""
    if keyword in VALIDATION_VOCABULARY and schema_node.draft == WITHOUT_VALIDATION:
        return "the metaschema has no vocabulary for validation"
    since = _SINCE.get(keyword, 0)
    if schema_node.draft < since:
        return f"before draft {_DRAFT_NAMES[since]}: an unknown keyword"
    return ""


@dataclass(frozen=True, slots=True)
class KeywordContext:
    """A keyword, its schema, and the document."""

    keyword: str
    schema_node: SchemaNode
    document: SchemaDocument

    @property
    def pointer(self) -> str:
        """The JSON pointer of the keyword."""
        return f"{self.schema_node.pointer}/{self.keyword}"

    def refuse(self, message: str, hint: str | None = None) -> UnsupportedSchema:
        """Return an error that names this keyword."""
        return UnsupportedSchema(f"{self.keyword}: {message}", pointer=self.pointer, hint=hint)

    def sibling(self, keyword: str, default: Any = None) -> Any:
        """Return the value of another keyword of the same schema, if its dialect has that keyword."""
        if why_ignored(keyword, self.schema_node):
            return default
        return self.schema_node.value.get(keyword, default)

    def sub(self, *tokens: str | int) -> Subschema:
        """Return the schema below this keyword."""
        return Subschema(self.document.child(self.schema_node, self.keyword, *tokens))

    def conjunction(self, *tokens: str | int) -> Conjunction:
        """Return the schema below this keyword as a conjunction."""
        return ((self.document.child(self.schema_node, self.keyword, *tokens), True),)

    def whole(self, value: Any) -> int:
        """Check a count: an integer from 0 up (2.0 is one)."""
        number = self.number(value)
        if number < 0:
            raise self.refuse("a number from 0 up is expected")
        if number.denominator != 1:
            raise self.refuse("a whole number is expected")
        return number.numerator

    def number(self, value: Any) -> Fraction:
        """Check a finite number; a float means the decimal that is written."""
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise self.refuse("a number is expected")
        try:
            return exact(value)
        except ValueError as error:
            raise self.refuse(f"a finite number is expected: {error}") from None

    def mapping(self, value: Any) -> dict[str, Any]:
        """Check an object."""
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise self.refuse("an object is expected")
        return value

    def schemas(self, value: Any) -> tuple[Subschema, ...]:
        """Check a non-empty list of schemas."""
        if not isinstance(value, list) or not value:
            raise self.refuse("a list of schemas (at least one) is expected")
        return tuple(self.sub(index) for index in range(len(value)))

    def strings(self, value: Any) -> tuple[str, ...]:
        """Check a list of strings."""
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.refuse("a list of strings is expected")
        return tuple(dict.fromkeys(value))


KeywordFunction = Callable[[Any, KeywordContext], Formula]

# -- any value ------------------------------------------------------------------------------

TYPES = {
    "null": shapes.NULL, "boolean": shapes.BOOLEAN, "integer": shapes.INTEGER,
    "number": shapes.NUMBER, "string": shapes.STRING, "array": shapes.ARRAY,
    "object": shapes.OBJECT,
    # the Berkeley Function Calling Leaderboard
    "dict": shapes.OBJECT, "float": shapes.NUMBER, "tuple": shapes.ARRAY, "any": shapes.ALL_KINDS,
}  # fmt: skip
_KINDS = {kinds: Kinds(kinds) for kinds in range(shapes.ALL_KINDS + 1)}


def _type(value: Any, context: KeywordContext) -> Formula:
    kinds = 0
    for name in value if isinstance(value, list) else (value,):
        if not isinstance(name, str) or name not in TYPES:
            # A value that is no string may be an integer with more digits than Python prints.
            shown = repr(name) if isinstance(name, str) else f"a value of {type(name).__name__}"
            raise context.refuse(
                f"{shown} is no type", "null, boolean, integer, number, string, array or object"
            )
        kinds |= TYPES[name]
    # OpenAPI 3.0.3: "A true value adds "null" to the allowed type specified by the type keyword".
    if context.sibling("nullable") is True:
        kinds |= shapes.NULL
    return _KINDS[kinds]


def _enum(value: Any, context: KeywordContext) -> Formula:
    if not isinstance(value, list):
        raise context.refuse("a list of values is expected")
    return _enum_of(value, context)


def _const(value: Any, context: KeywordContext) -> Formula:
    return _enum_of([value], context)


def _enum_of(values: list[Any], context: KeywordContext) -> Formula:
    if all(type(value) is str for value in values):
        return Enum(dict(zip(values, values, strict=True)), shapes.STRING if values else 0)
    try:
        kinds = 0
        for value in values:
            kinds |= kind_of(value)
        return Enum({identity(value): value for value in values}, kinds)
    except (TypeError, ValueError) as error:
        raise context.refuse(str(error)) from None


# -- numbers --------------------------------------------------------------------------------


def _interval(interval: Interval) -> Formula:
    return Fact(shapes.NUMBER, NumberFacet(interval))


def _minimum(value: Any, context: KeywordContext) -> Formula:
    return _interval(
        Interval(context.number(value), None, context.sibling("exclusiveMinimum") is True)
    )


def _maximum(value: Any, context: KeywordContext) -> Formula:
    is_open = context.sibling("exclusiveMaximum") is True
    return _interval(Interval(None, context.number(value), high_open=is_open))


def _exclusive_minimum(value: Any, context: KeywordContext) -> Formula:
    # Up to draft 4: a boolean that modifies `minimum`.
    return (
        HOLDS if isinstance(value, bool) else _interval(Interval(context.number(value), None, True))
    )


def _exclusive_maximum(value: Any, context: KeywordContext) -> Formula:
    if isinstance(value, bool):
        return HOLDS
    return _interval(Interval(None, context.number(value), high_open=True))


def _multiple_of(value: Any, context: KeywordContext) -> Formula:
    multiple = context.number(value)
    if multiple <= 0:
        raise context.refuse("a number above 0 is expected")
    return Fact(shapes.NUMBER, NumberFacet(multiple=multiple, pointer=context.pointer))


# -- strings --------------------------------------------------------------------------------


def _min_length(value: Any, context: KeywordContext) -> Formula:
    at_least = context.whole(value)
    return Fact(shapes.STRING, StringFacet(at_least)) if at_least else HOLDS


def _max_length(value: Any, context: KeywordContext) -> Formula:
    return Fact(shapes.STRING, StringFacet(at_most=context.whole(value)))


def _pattern(value: Any, context: KeywordContext) -> Formula:
    try:
        return Fact(
            shapes.STRING,
            StringFacet(within=(pattern_node(value, context),), pointer=context.pointer),
        )
    except UnsupportedSchema as error:
        if not isinstance(value, str):
            raise
        context.document.defer(context.pointer, error.message, error.hint)
        return Undecidable()


def pattern_node(source: Any, context: KeywordContext) -> Node:
    """Return the JSON strings (with quotes) in which a regular expression finds a match."""
    if not isinstance(source, str):
        raise context.refuse("a regular expression is expected")
    try:
        found = matching(source, json_canonical, search=True)
    except GrammarError as error:
        raise context.refuse(error.message, error.hint) from None
    return set_source(source, lexeme(seq(lit('"'), found, lit('"'))))


def _ground(value: Any, context: KeywordContext) -> Formula:
    level = (
        NEVER_GROUNDED if value is False else LEVELS.get(value) if isinstance(value, str) else None
    )
    if level is None:
        raise context.refuse("false, " + " or ".join(map(repr, LEVELS)) + " is expected")
    if level > NEVER_GROUNDED and context.document.ground is None:
        context.document.defer(
            context.pointer, "x-ground: it is not known what was said", "give ground="
        )
        return HOLDS
    string, number = StringFacet(ground=level, pointer=context.pointer), NumberFacet(ground=level)
    return AllOf((Fact(shapes.STRING, string), Fact(shapes.NUMBER, number)))


def _format(value: Any, context: KeywordContext) -> Formula:
    if not isinstance(value, str):
        raise context.refuse("a name is expected")
    draft = context.schema_node.draft
    superset = value in SUPERSETS and (value not in FORMATS or context.document.may_defer)
    superset = superset and not is_old_format(value, draft)
    if superset:
        context.document.defer(context.pointer, DEFERRED[value])
    node = format_node(value, superset=superset, draft=draft)
    # Validation, section 7.2.3: unknown formats are annotations.
    if node is None:
        return HOLDS
    fact = Fact(shapes.STRING, StringFacet(within=(node,), pointer=context.pointer))
    return AllOf((fact, Undecidable())) if superset else fact


# -- arrays ---------------------------------------------------------------------------------


def _items(value: Any, context: KeywordContext) -> Formula:
    if isinstance(value, list):  # drafts up to 2019-09
        prefix = tuple(context.conjunction(index) for index in range(len(value)))
        if context.sibling("additionalItems") is None:
            return Fact(shapes.ARRAY, ArrayFacet(prefix, pointer=context.pointer))
        rest = ((context.document.child(context.schema_node, "additionalItems"), True),)
        return Fact(shapes.ARRAY, ArrayFacet(prefix, rest, pointer=context.pointer))
    before = context.sibling("prefixItems", [])
    skipped = (ANYTHING,) * (len(before) if isinstance(before, list) else 0)
    return Fact(shapes.ARRAY, ArrayFacet(skipped, context.conjunction(), pointer=context.pointer))


def _prefix_items(value: Any, context: KeywordContext) -> Formula:
    count = len(context.schemas(value))
    return Fact(
        shapes.ARRAY, ArrayFacet(tuple(context.conjunction(index) for index in range(count)))
    )


def _min_items(value: Any, context: KeywordContext) -> Formula:
    at_least = context.whole(value)
    return Fact(shapes.ARRAY, ArrayFacet(at_least=at_least)) if at_least else HOLDS


def _max_items(value: Any, context: KeywordContext) -> Formula:
    return Fact(shapes.ARRAY, ArrayFacet(at_most=context.whole(value)))


def _contains(_value: Any, context: KeywordContext) -> Formula:
    at_least = context.whole(context.sibling("minContains", 1))
    at_most = context.sibling("maxContains")
    at_most = None if at_most is None else context.whole(at_most)
    if at_least == 0 and at_most is None:
        return HOLDS
    contained = ContainsCount(context.conjunction(), at_least, at_most, context.pointer)
    return Fact(shapes.ARRAY, ArrayFacet(at_least=at_least, contains=(contained,)))


def _unique_items(value: Any, context: KeywordContext) -> Formula:
    if not isinstance(value, bool):
        raise context.refuse("true or false is expected")
    return Fact(shapes.ARRAY, ArrayFacet(unique=(context.pointer,))) if value else HOLDS


# -- objects --------------------------------------------------------------------------------


def _properties(value: Any, context: KeywordContext) -> Formula:
    conjunctions = {name: context.conjunction(name) for name in context.mapping(value)}
    return Fact(
        shapes.OBJECT, ObjectFacet(conjunctions, lists_properties=True, pointer=context.pointer)
    )


def _required(value: Any, context: KeywordContext) -> Formula:
    if isinstance(value, bool):
        raise context.refuse("a list of names is expected", "the boolean is of draft 3")
    names = context.strings(value)
    return Fact(shapes.OBJECT, ObjectFacet(required=names)) if names else HOLDS


def _patterns(context: KeywordContext) -> tuple[KeyPattern, ...]:
    found = context.sibling("patternProperties", {})
    sources = found if isinstance(found, dict) else {}
    return tuple(KeyPattern(source, pattern_node(source, context)) for source in sources)


def _pattern_properties(value: Any, context: KeywordContext) -> Formula:
    context.mapping(value)
    pairs = tuple((pattern, context.conjunction(pattern.source)) for pattern in _patterns(context))
    return Fact(shapes.OBJECT, ObjectFacet(patterns=pairs, pointer=context.pointer))


def _additional_properties(_value: Any, context: KeywordContext) -> Formula:
    listed = context.sibling("properties", {})
    names = frozenset(listed if isinstance(listed, dict) else ())
    others = AdditionalMembers(context.conjunction(), names, _patterns(context), context.pointer)
    return Fact(shapes.OBJECT, ObjectFacet(others=(others,), pointer=context.pointer))


def _property_names(_value: Any, context: KeywordContext) -> Formula:
    return Fact(shapes.OBJECT, ObjectFacet(names=context.conjunction(), pointer=context.pointer))


def _min_properties(value: Any, context: KeywordContext) -> Formula:
    at_least = context.whole(value)
    return (
        Fact(shapes.OBJECT, ObjectFacet(at_least=at_least, pointer=context.pointer))
        if at_least
        else HOLDS
    )


def _max_properties(value: Any, context: KeywordContext) -> Formula:
    return Fact(shapes.OBJECT, ObjectFacet(at_most=context.whole(value), pointer=context.pointer))


def _without_member(name: str) -> Formula:
    return Fact(shapes.OBJECT, ObjectFacet(properties={name: NEVER}))


def _dependent_required(value: Any, context: KeywordContext) -> Formula:
    parts = []
    for name, others in context.mapping(value).items():
        has = Fact(shapes.OBJECT, ObjectFacet(required=context.strings(others)))
        parts.append(AnyOf((_without_member(name), has), context.pointer))
    return AllOf(tuple(parts))


def _dependent_schemas(value: Any, context: KeywordContext) -> Formula:
    names = context.mapping(value)
    return AllOf(tuple(_dependent_schema(name, context) for name in names))


def _dependent_schema(name: str, context: KeywordContext) -> Formula:
    has = Fact(shapes.OBJECT, ObjectFacet(required=(name,)))
    return AnyOf(
        (_without_member(name), AllOf((Kinds(shapes.OBJECT), has, context.sub(name)))),
        context.pointer,
    )


def _dependencies(value: Any, context: KeywordContext) -> Formula:
    parts = []
    for name, dependency in context.mapping(value).items():
        if isinstance(dependency, str):  # draft 3
            dependency = [dependency]
        if isinstance(dependency, list):
            parts.append(_dependent_required({name: dependency}, context))
        else:
            parts.append(_dependent_schema(name, context))
    return AllOf(tuple(parts))


# -- combinations ---------------------------------------------------------------------------


def _all_of(value: Any, context: KeywordContext) -> Formula:
    return AllOf(context.schemas(value))


def _any_of(value: Any, context: KeywordContext) -> Formula:
    options = context.schemas(value)
    return AllOf((AnyOf(options, context.pointer), *map(Conditional, options)))


def _one_of(value: Any, context: KeywordContext) -> Formula:
    return OneOf(context.schemas(value), context.pointer)


def _not(_value: Any, context: KeywordContext) -> Formula:
    return Not(context.sub())


def _if(_value: Any, context: KeywordContext) -> Formula:
    condition = context.sub()
    branches = context.schema_node.value.keys() & {"then", "else"}
    if not branches:
        return Conditional(condition)
    then, otherwise = (
        Subschema(context.document.child(context.schema_node, name)) if name in branches else HOLDS
        for name in ("then", "else")
    )
    options = (AllOf((condition, then)), AllOf((Not(condition), otherwise)))
    return AnyOf(options, context.pointer)


def _ref(value: Any, context: KeywordContext) -> Formula:
    return Subschema(
        context.document.resolve(context.schema_node, value, context.keyword), by_reference=True
    )


def _dynamic_ref(value: Any, context: KeywordContext) -> Formula:
    return Subschema(
        context.document.resolve_dynamic(context.schema_node, value), by_reference=True
    )


def _recursive_ref(value: Any, context: KeywordContext) -> Formula:
    if value != "#":
        raise context.refuse("only # is a value of it")
    found = context.document.resolve_recursive(context.schema_node)
    return Subschema(found, by_reference=True)


def _unevaluated(_value: Any, context: KeywordContext) -> Formula:
    if context.sub().schema_node.value is True:
        return HOLDS
    return Unevaluated(context.pointer)


# -- the table ------------------------------------------------------------------------------

KEYWORDS: dict[str, KeywordFunction] = {
    "$ref": _ref, "$dynamicRef": _dynamic_ref, "$recursiveRef": _recursive_ref,
    "type": _type, "enum": _enum, "const": _const,
    "minimum": _minimum, "maximum": _maximum, "multipleOf": _multiple_of,
    "exclusiveMinimum": _exclusive_minimum, "exclusiveMaximum": _exclusive_maximum,
    "minLength": _min_length, "maxLength": _max_length, "pattern": _pattern, "format": _format,
    "items": _items, "prefixItems": _prefix_items, "minItems": _min_items,
    "maxItems": _max_items, "contains": _contains, "uniqueItems": _unique_items,
    "properties": _properties, "required": _required,
    "patternProperties": _pattern_properties, "additionalProperties": _additional_properties,
    "propertyNames": _property_names, "minProperties": _min_properties,
    "maxProperties": _max_properties, "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas, "dependencies": _dependencies,
    "allOf": _all_of, "anyOf": _any_of, "oneOf": _one_of, "not": _not, "if": _if,
    "unevaluatedProperties": _unevaluated, "unevaluatedItems": _unevaluated,
    "x-ground": _ground,
}  # fmt: skip

#: Keywords without an effect of their own: notes for people, or read with another keyword.
ANNOTATIONS = frozenset(
    ["$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary",
     "$comment", "$defs", "definitions", "title", "description", "default", "examples",
     "example", "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType",
     "contentSchema", "nullable", "discriminator", "xml", "externalDocs", "then", "else",
     "additionalItems", "minContains", "maxContains"]
)  # fmt: skip

#: Keywords with a meaning in some draft or dialect that is not supported, with what to do instead.
REFUSED = {
    "extends": "draft 3; use allOf",
    "disallow": "draft 3; use not",
    "divisibleBy": "draft 3; use multipleOf",
}


def is_reference(schema_node: SchemaNode) -> bool:
    """Whether a schema is only a reference to another one."""
    schema = schema_node.value
    if not isinstance(schema, dict) or "$ref" not in schema:
        return False
    return schema_node.draft <= 7 or sum(key in KEYWORDS or key in REFUSED for key in schema) == 1


def formulas(schema_node: SchemaNode, document: SchemaDocument) -> list[Formula]:
    """Return the formulas of all keywords of a schema; UnsupportedSchema for those that are refused."""
    schema = schema_node.value
    if schema is True:
        return []
    if schema is False:
        return [FAILS]
    if not isinstance(schema, dict):
        raise UnsupportedSchema(
            f"a schema must be an object, true or false, not {type(schema).__name__}",
            pointer=schema_node.pointer,
        )
    # Draft 7, Core section 8.3: "All other properties in a "$ref" object MUST be ignored."
    if schema_node.draft <= 7 and "$ref" in schema:
        return [_ref(schema["$ref"], KeywordContext("$ref", schema_node, document))]
    found = []
    for keyword, value in schema.items():
        meaning = KEYWORDS.get(keyword)
        if (
            document.excluded_keywords
            and KeywordContext(keyword, schema_node, document).pointer in document.excluded_keywords
        ):
            continue
        if meaning is not None and not why_ignored(keyword, schema_node):
            found.append(meaning(value, KeywordContext(keyword, schema_node, document)))
        elif keyword in REFUSED:
            context = KeywordContext(keyword, schema_node, document)
            raise context.refuse("this keyword is not supported", REFUSED[keyword])
    return found


_UNEVALUATED_PROPERTIES, _UNEVALUATED_ITEMS = "unevaluatedProperties", "unevaluatedItems"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Evaluated members by name and by pattern, items by index and by `contains`; or all of them."""

    names: frozenset[str] = frozenset()
    patterns: tuple[KeyPattern, ...] = ()
    every_member: bool = False
    items: int = 0
    containing: tuple[SchemaNode, ...] = ()
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


def asks_for_evaluated(schema_node: SchemaNode) -> bool:
    """Whether a schema has one of the two keywords about unevaluated values."""
    return (
        _UNEVALUATED_PROPERTIES in schema_node.value or _UNEVALUATED_ITEMS in schema_node.value
    ) and not _is_only_reference(schema_node)


def _is_only_reference(schema_node: SchemaNode) -> bool:
    """Whether a schema has a reference beside which its draft ignores everything."""
    return schema_node.draft <= 7 and "$ref" in schema_node.value


def evaluated_by(schema_node: SchemaNode, document: SchemaDocument) -> Evaluated:
    """Return what the keywords of one schema evaluate, without these two.

    The keywords were read before: malformed ones were refused or excluded there.
    """
    if _is_only_reference(schema_node):
        return Evaluated()

    def said(keyword: str, default: Any = None) -> Any:
        is_aside = (
            document.excluded_keywords
            and KeywordContext(keyword, schema_node, document).pointer in document.excluded_keywords
        )
        return (
            default
            if is_aside or why_ignored(keyword, schema_node)
            else schema_node.value.get(keyword, default)
        )

    context = KeywordContext("patternProperties", schema_node, document)
    prefix, items = said("prefixItems", []), said("items")
    if isinstance(items, list):
        prefix, items = items, said("additionalItems")
    # `contains` evaluates only from 2020-12 on.
    contains = schema_node.draft >= 2020 and said("contains") is not None
    return Evaluated(
        frozenset(said("properties", {})),
        tuple(
            KeyPattern(source, pattern_node(source, context))
            for source in said(context.keyword, {})
        ),
        said("additionalProperties") is not None,
        len(prefix),
        (document.child(schema_node, "contains"),) if contains else (),
        items is not None,
    )


def with_own_keywords(evaluated: Evaluated, schema_node: SchemaNode) -> Evaluated:
    """Add what the two keywords themselves evaluate, for outer schemas that track it."""
    return replace(
        evaluated,
        every_member=evaluated.every_member or _UNEVALUATED_PROPERTIES in schema_node.value,
        every_item=evaluated.every_item or _UNEVALUATED_ITEMS in schema_node.value,
    )


def unevaluated_facts(
    collector: SchemaNode,
    evaluated: Evaluated,
    document: SchemaDocument,
    any_of: Callable[[tuple[SchemaNode, ...]], SchemaNode],
) -> list[Fact]:
    """Return the facts of the two keywords once it is known what was evaluated.

    ``any_of`` returns a schema that is met if one of several is.
    """
    found = []
    if _UNEVALUATED_PROPERTIES in collector.value and not evaluated.every_member:
        conjunction: Conjunction = ((document.child(collector, _UNEVALUATED_PROPERTIES), True),)
        pointer = f"{collector.pointer}/{_UNEVALUATED_PROPERTIES}"
        others = AdditionalMembers(conjunction, evaluated.names, evaluated.patterns, pointer)
        found.append(Fact(OBJECT, ObjectFacet(others=(others,), pointer=pointer)))
    if _UNEVALUATED_ITEMS in collector.value and not evaluated.every_item:
        schema_node = document.child(collector, _UNEVALUATED_ITEMS)
        if evaluated.containing:
            # Each `contains` stays at its place in the document, since its references depend on that.
            schema_node = any_of((*dict.fromkeys(evaluated.containing), schema_node))
        skipped = (ANYTHING,) * evaluated.items
        pointer = f"{collector.pointer}/{_UNEVALUATED_ITEMS}"
        found.append(Fact(ARRAY, ArrayFacet(skipped, ((schema_node, True),), pointer=pointer)))
    return found
