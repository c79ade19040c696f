"""The keywords of JSON Schema: one table, one short function for each.

A keyword is *exact* (in the grammar), an *annotation* (says nothing about which values are valid), or
*refused* with its JSON pointer. What an exact keyword says is a formula over facts (`shapes.py`); a
fact that no grammar can state is found out there (`emit.py`) and then checked afterwards or refused.
Unknown keywords are annotations, as the specification has it (Core, section 4.3.1).

Covered: drafts 4 to 2020-12, and what is met in the wild: OpenAPI's `nullable`, and the types `dict`,
`float`, `tuple` and `any` of the Berkeley Function Calling Leaderboard. A keyword is honoured whatever
draft the schema declares; only where drafts contradict each other does the declared one decide
(`foreign`), and where its metaschema was handed in, which vocabularies it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from callmemaybe.errors import GrammarError, UnsupportedSchema
from callmemaybe.grammar.characters import json_canonical
from callmemaybe.grammar.nodes import Node, lexeme, lit, seq
from callmemaybe.grammar.regex import matching
from callmemaybe.grammar.schema import shapes
from callmemaybe.grammar.schema.at import At, foreign
from callmemaybe.grammar.schema.formats import LEFT, WIDER, format_node
from callmemaybe.grammar.schema.ground import LEVELS, NEVER_GROUNDED
from callmemaybe.grammar.schema.numbers import Interval
from callmemaybe.grammar.schema.references import Document, Spot
from callmemaybe.grammar.schema.shapes import (
    ANYTHING,
    FAILS,
    HOLDS,
    NEVER,
    Among,
    Array,
    Contained,
    Every,
    Fact,
    Formula,
    Kinds,
    Not,
    Number,
    Object,
    One,
    Others,
    Pattern,
    Some,
    String,
    Sub,
    Unevaluated,
    Unknown,
    Whether,
)
from callmemaybe.grammar.schema.values import identity, kind_of
from callmemaybe.grammar.sources import made_of

Meaning = Callable[[Any, At], Formula]

# -- any value ------------------------------------------------------------------------------

TYPES = {
    "null": shapes.NULL, "boolean": shapes.BOOLEAN, "integer": shapes.INTEGER,
    "number": shapes.NUMBER, "string": shapes.STRING, "array": shapes.ARRAY,
    "object": shapes.OBJECT,
    # the Berkeley Function Calling Leaderboard
    "dict": shapes.OBJECT, "float": shapes.NUMBER, "tuple": shapes.ARRAY, "any": shapes.ALL_KINDS,
}  # fmt: skip
_KINDS = {kinds: Kinds(kinds) for kinds in range(shapes.ALL_KINDS + 1)}


def _type(value: Any, at: At) -> Formula:
    kinds = 0
    for name in value if isinstance(value, list) else (value,):
        if not isinstance(name, str) or name not in TYPES:
            # What is no string may be a number of more digits than Python writes.
            shown = repr(name) if isinstance(name, str) else f"a value of {type(name).__name__}"
            raise at.refuse(
                f"{shown} is no type", "null, boolean, integer, number, string, array or object"
            )
        kinds |= TYPES[name]
    # OpenAPI 3.0.3: "A true value adds "null" to the allowed type specified by the type keyword".
    if at.sibling("nullable") is True:
        kinds |= shapes.NULL
    return _KINDS[kinds]


def _enum(value: Any, at: At) -> Formula:
    if not isinstance(value, list):
        raise at.refuse("a list of values is expected")
    return _among(value, at)


def _const(value: Any, at: At) -> Formula:
    return _among([value], at)


def _among(values: list[Any], at: At) -> Formula:
    if all(type(value) is str for value in values):
        return Among(dict(zip(values, values, strict=True)), shapes.STRING if values else 0)
    try:
        kinds = 0
        for value in values:
            kinds |= kind_of(value)
        return Among({identity(value): value for value in values}, kinds)
    except (TypeError, ValueError) as error:
        raise at.refuse(str(error)) from None


# -- numbers --------------------------------------------------------------------------------


def _interval(interval: Interval) -> Formula:
    return Fact(shapes.NUMBER, Number(interval))


def _minimum(value: Any, at: At) -> Formula:
    return _interval(Interval(at.number(value), None, at.sibling("exclusiveMinimum") is True))


def _maximum(value: Any, at: At) -> Formula:
    is_open = at.sibling("exclusiveMaximum") is True
    return _interval(Interval(None, at.number(value), high_open=is_open))


def _exclusive_minimum(value: Any, at: At) -> Formula:
    # Drafts up to 4: a boolean that says how `minimum` is meant.
    return HOLDS if isinstance(value, bool) else _interval(Interval(at.number(value), None, True))


def _exclusive_maximum(value: Any, at: At) -> Formula:
    if isinstance(value, bool):
        return HOLDS
    return _interval(Interval(None, at.number(value), high_open=True))


def _multiple_of(value: Any, at: At) -> Formula:
    multiple = at.number(value)
    if multiple <= 0:
        raise at.refuse("a number above 0 is expected")
    return Fact(shapes.NUMBER, Number(multiple=multiple, pointer=at.pointer))


# -- strings --------------------------------------------------------------------------------


def _min_length(value: Any, at: At) -> Formula:
    least = at.whole(value)
    return Fact(shapes.STRING, String(least)) if least else HOLDS


def _max_length(value: Any, at: At) -> Formula:
    return Fact(shapes.STRING, String(most=at.whole(value)))


def _pattern(value: Any, at: At) -> Formula:
    try:
        return Fact(shapes.STRING, String(within=(pattern_node(value, at),), pointer=at.pointer))
    except UnsupportedSchema as error:
        if not isinstance(value, str):
            raise
        at.document.leave(at.pointer, error.message, error.hint)
        return Unknown()


def pattern_node(source: Any, at: At) -> Node:
    """Return the JSON strings (with quotes) in which a regular expression finds a match."""
    if not isinstance(source, str):
        raise at.refuse("a regular expression is expected")
    try:
        found = matching(source, json_canonical, search=True)
    except GrammarError as error:
        raise at.refuse(error.message, error.hint) from None
    return made_of(source, lexeme(seq(lit('"'), found, lit('"'))))


def _ground(value: Any, at: At) -> Formula:
    level = (
        NEVER_GROUNDED if value is False else LEVELS.get(value) if isinstance(value, str) else None
    )
    if level is None:
        raise at.refuse("false, " + " or ".join(map(repr, LEVELS)) + " is expected")
    if level > NEVER_GROUNDED and at.document.ground is None:
        at.document.leave(at.pointer, "x-ground: it is not known what was said", "give ground=")
        return HOLDS
    string, number = String(ground=level, pointer=at.pointer), Number(ground=level)
    return Every((Fact(shapes.STRING, string), Fact(shapes.NUMBER, number)))


def _format(value: Any, at: At) -> Formula:
    if not isinstance(value, str):
        raise at.refuse("a name is expected")
    wider = value in WIDER and at.document.may_leave
    node = format_node(value, wider=wider)
    # Validation, section 7.2.3: unknown formats are annotations.
    if node is None:
        return HOLDS
    fact = Fact(shapes.STRING, String(within=(node,), pointer=at.pointer))
    if not wider:
        return fact
    at.document.leave(at.pointer, LEFT[value])
    return Every((fact, Unknown()))


# -- arrays ---------------------------------------------------------------------------------


def _items(value: Any, at: At) -> Formula:
    if isinstance(value, list):  # drafts up to 2019-09
        prefix = tuple(at.need(index) for index in range(len(value)))
        if at.sibling("additionalItems") is None:
            return Fact(shapes.ARRAY, Array(prefix, pointer=at.pointer))
        rest = ((at.document.child(at.spot, "additionalItems"), True),)
        return Fact(shapes.ARRAY, Array(prefix, rest, pointer=at.pointer))
    before = at.sibling("prefixItems", [])
    skipped = (ANYTHING,) * (len(before) if isinstance(before, list) else 0)
    return Fact(shapes.ARRAY, Array(skipped, at.need(), pointer=at.pointer))


def _prefix_items(value: Any, at: At) -> Formula:
    count = len(at.schemas(value))
    return Fact(shapes.ARRAY, Array(tuple(at.need(index) for index in range(count))))


def _min_items(value: Any, at: At) -> Formula:
    least = at.whole(value)
    return Fact(shapes.ARRAY, Array(least=least)) if least else HOLDS


def _max_items(value: Any, at: At) -> Formula:
    return Fact(shapes.ARRAY, Array(most=at.whole(value)))


def _contains(_value: Any, at: At) -> Formula:
    least = at.whole(at.sibling("minContains", 1))
    most = at.sibling("maxContains")
    most = None if most is None else at.whole(most)
    if least == 0 and most is None:
        return HOLDS
    contained = Contained(at.need(), least, most, at.pointer)
    return Fact(shapes.ARRAY, Array(least=least, contains=(contained,)))


def _unique_items(value: Any, at: At) -> Formula:
    if not isinstance(value, bool):
        raise at.refuse("true or false is expected")
    return Fact(shapes.ARRAY, Array(unique=(at.pointer,))) if value else HOLDS


# -- objects --------------------------------------------------------------------------------


def _properties(value: Any, at: At) -> Formula:
    needs = {name: at.need(name) for name in at.mapping(value)}
    return Fact(shapes.OBJECT, Object(needs, listed=True, pointer=at.pointer))


def _required(value: Any, at: At) -> Formula:
    if isinstance(value, bool):
        raise at.refuse("a list of names is expected", "the boolean is of draft 3")
    names = at.strings(value)
    return Fact(shapes.OBJECT, Object(required=names)) if names else HOLDS


def _patterns(at: At) -> tuple[Pattern, ...]:
    found = at.sibling("patternProperties", {})
    sources = found if isinstance(found, dict) else {}
    return tuple(Pattern(source, pattern_node(source, at)) for source in sources)


def _pattern_properties(value: Any, at: At) -> Formula:
    at.mapping(value)
    pairs = tuple((pattern, at.need(pattern.source)) for pattern in _patterns(at))
    return Fact(shapes.OBJECT, Object(patterns=pairs, pointer=at.pointer))


def _additional_properties(_value: Any, at: At) -> Formula:
    listed = at.sibling("properties", {})
    names = frozenset(listed if isinstance(listed, dict) else ())
    others = Others(at.need(), names, _patterns(at), at.pointer)
    return Fact(shapes.OBJECT, Object(others=(others,), pointer=at.pointer))


def _property_names(_value: Any, at: At) -> Formula:
    return Fact(shapes.OBJECT, Object(names=at.need(), pointer=at.pointer))


def _min_properties(value: Any, at: At) -> Formula:
    least = at.whole(value)
    return Fact(shapes.OBJECT, Object(least=least, pointer=at.pointer)) if least else HOLDS


def _max_properties(value: Any, at: At) -> Formula:
    return Fact(shapes.OBJECT, Object(most=at.whole(value), pointer=at.pointer))


def _lacks(name: str) -> Formula:
    return Fact(shapes.OBJECT, Object(properties={name: NEVER}))


def _dependent_required(value: Any, at: At) -> Formula:
    parts = []
    for name, others in at.mapping(value).items():
        has = Fact(shapes.OBJECT, Object(required=at.strings(others)))
        parts.append(Some((_lacks(name), has), at.pointer))
    return Every(tuple(parts))


def _dependent_schemas(value: Any, at: At) -> Formula:
    names = at.mapping(value)
    return Every(tuple(_dependent_schema(name, at) for name in names))


def _dependent_schema(name: str, at: At) -> Formula:
    has = Fact(shapes.OBJECT, Object(required=(name,)))
    return Some((_lacks(name), Every((Kinds(shapes.OBJECT), has, at.sub(name)))), at.pointer)


def _dependencies(value: Any, at: At) -> Formula:
    parts = []
    for name, dependency in at.mapping(value).items():
        if isinstance(dependency, str):  # draft 3
            dependency = [dependency]
        if isinstance(dependency, list):
            parts.append(_dependent_required({name: dependency}, at))
        else:
            parts.append(_dependent_schema(name, at))
    return Every(tuple(parts))


# -- combinations ---------------------------------------------------------------------------


def _all_of(value: Any, at: At) -> Formula:
    return Every(at.schemas(value))


def _any_of(value: Any, at: At) -> Formula:
    options = at.schemas(value)
    return Every((Some(options, at.pointer), *map(Whether, options)))


def _one_of(value: Any, at: At) -> Formula:
    return One(at.schemas(value), at.pointer)


def _not(_value: Any, at: At) -> Formula:
    return Not(at.sub())


def _if(_value: Any, at: At) -> Formula:
    condition = at.sub()
    branches = at.spot.value.keys() & {"then", "else"}
    if not branches:
        return Whether(condition)
    then, otherwise = (
        Sub(at.document.child(at.spot, name)) if name in branches else HOLDS
        for name in ("then", "else")
    )
    options = (Every((condition, then)), Every((Not(condition), otherwise)))
    return Some(options, at.pointer)


def _ref(value: Any, at: At) -> Formula:
    return Sub(at.document.resolve(at.spot, value, at.keyword), by_reference=True)


def _dynamic_ref(value: Any, at: At) -> Formula:
    return Sub(at.document.resolve_dynamic(at.spot, value), by_reference=True)


def _unevaluated(_value: Any, at: At) -> Formula:
    if at.sub().spot.value is True:
        return HOLDS
    return Unevaluated(at.pointer)


# -- the table ------------------------------------------------------------------------------

EXACT: dict[str, Meaning] = {
    "$ref": _ref, "$dynamicRef": _dynamic_ref,
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

#: Keywords that say nothing by themselves: notes for people, or read by one of the others.
ANNOTATIONS = frozenset(
    [
        "$schema",
        "$id",
        "id",
        "$anchor",
        "$dynamicAnchor",
        "$recursiveAnchor",
        "$vocabulary",
        "$comment",
        "$defs",
        "definitions",
        "title",
        "description",
        "default",
        "examples",
        "example",
        "deprecated",
        "readOnly",
        "writeOnly",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "nullable",
        "discriminator",
        "xml",
        "externalDocs",
        "then",
        "else",
        "additionalItems",
        "minContains",
        "maxContains",
    ]
)

#: Keywords that some draft or dialect gives a meaning to which is not supported, with what to do.
REFUSED = {
    "$recursiveRef": "use $dynamicRef or $ref",
    "extends": "draft 3; use allOf",
    "disallow": "draft 3; use not",
    "divisibleBy": "draft 3; use multipleOf",
}


def is_reference(spot: Spot) -> bool:
    """Whether a schema says nothing but that another one holds."""
    schema = spot.value
    if not isinstance(schema, dict) or "$ref" not in schema:
        return False
    return spot.draft <= 7 or sum(key in EXACT or key in REFUSED for key in schema) == 1


def formulas(spot: Spot, document: Document) -> list[Formula]:
    """Return what every keyword of a schema says; UnsupportedSchema for those that are refused."""
    schema = spot.value
    if schema is True:
        return []
    if schema is False:
        return [FAILS]
    if not isinstance(schema, dict):
        raise UnsupportedSchema(
            f"a schema must be an object, true or false, not {type(schema).__name__}",
            pointer=spot.pointer,
        )
    # Draft 7, Core section 8.3: "All other properties in a "$ref" object MUST be ignored."
    if spot.draft <= 7 and "$ref" in schema:
        return [_ref(schema["$ref"], At("$ref", spot, document))]
    found = []
    for keyword, value in schema.items():
        meaning = EXACT.get(keyword)
        if document.aside and At(keyword, spot, document).pointer in document.aside:
            continue
        if meaning is not None and not foreign(keyword, spot):
            found.append(meaning(value, At(keyword, spot, document)))
        elif keyword in REFUSED:
            at = At(keyword, spot, document)
            raise at.refuse("this keyword is not supported", REFUSED[keyword])
    return found
