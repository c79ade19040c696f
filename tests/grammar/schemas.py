"""Random JSON Schemas and values, small enough that they often meet."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

NAMES = ["a", "b", "aa", 'q"é', "z/~"]
STRINGS = ["", "a", "ab", "b1", "é", 'x"y\\', "🙂🙂", "line\nbreak", "2024-02-29", "aaa", "\u0001"]
NUMBERS = [
    0,
    1,
    -1,
    2,
    3,
    10,
    12,
    255,
    -40,
    0.5,
    1.25,
    -2.75,
    1e16,
    1e-05,
    123456789012345678901,
    6,
]
PATTERNS = ["^a", "b$", "^[ab]+$", "\\d", "^.{2,3}$", "é|x", "^$", "[^a]", "^(?!ab).*1?$"]
_BOUNDS = st.sampled_from([-3, -1, 0, 1, 2, 2.5, 10, 11.25])

scalars = st.one_of(
    st.sampled_from(STRINGS), st.sampled_from(NUMBERS), st.sampled_from([True, False, None])
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)


def _some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keywords)


_counts = st.integers(0, 3)
numbers = _some(
    minimum=_BOUNDS,
    maximum=_BOUNDS,
    exclusiveMinimum=_BOUNDS,
    exclusiveMaximum=_BOUNDS,
    multipleOf=st.sampled_from([1, 2, 3, 0.5, 0.25, 12]),
)
strings = _some(minLength=_counts, maxLength=_counts, pattern=st.sampled_from(PATTERNS))
types = st.one_of(
    st.sampled_from(["string", "number", "integer", "boolean", "null", "array", "object"]),
    st.lists(
        st.sampled_from(["string", "number", "integer", "array", "object", "null"]),
        min_size=1,
        max_size=3,
        unique=True,
    ),
)
_enums = st.one_of(
    st.fixed_dictionaries({"enum": st.lists(values, min_size=1, max_size=4)}),
    st.fixed_dictionaries({"const": values}),
)
_references = st.sampled_from([{"$ref": "#/$defs/d0"}, {"$ref": "#/$defs/d1"}])


def _joined(parts: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    return {key: value for part in parts for key, value in part.items()}


def _composite(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(NAMES)
    several = st.lists(inner, min_size=1, max_size=3)
    arrays = _some(
        items=inner,
        prefixItems=st.lists(inner, min_size=1, max_size=2),
        minItems=_counts,
        maxItems=_counts,
        contains=inner,
        minContains=st.integers(0, 2),
        maxContains=st.integers(0, 2),
        uniqueItems=st.booleans(),
        unevaluatedItems=inner,
    )
    objects = _some(
        properties=st.dictionaries(names, inner, max_size=3),
        required=st.lists(names, max_size=2, unique=True),
        additionalProperties=inner,
        patternProperties=st.dictionaries(st.sampled_from(PATTERNS), inner, max_size=2),
        propertyNames=st.one_of(strings, inner),
        minProperties=_counts,
        maxProperties=_counts,
        dependentRequired=st.dictionaries(
            names, st.lists(names, max_size=2, unique=True), max_size=1
        ),
        dependentSchemas=st.dictionaries(names, inner, max_size=1),
        unevaluatedProperties=inner,
    )
    combinations = _some(
        allOf=several, anyOf=several, oneOf=several, **{"not": inner, "if": inner, "then": inner, "else": inner}
    )  # fmt: skip
    typed = st.fixed_dictionaries({}, optional={"type": types})
    facets = st.one_of(numbers, strings, arrays, objects, objects, combinations)
    return st.tuples(typed, facets, st.one_of(st.just({}), facets)).map(_joined)


subschemas = st.recursive(
    st.one_of(
        st.booleans(),
        _references,
        _enums,
        st.tuples(st.fixed_dictionaries({"type": types}), st.one_of(numbers, strings)).map(_joined),
    ),
    _composite,
    max_leaves=6,
)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """Return a schema with two definitions, which it and they may refer to."""
    root = draw(_composite(subschemas))
    return {**root, "$defs": {"d0": draw(subschemas), "d1": draw(_composite(subschemas))}}


def mutated(value: Any, dice: random.Random) -> Any:
    """Return a value that differs a little from another one."""
    kind = dice.random()
    if isinstance(value, dict) and value and kind < 0.8:
        key = dice.choice(list(value))
        if kind < 0.2:
            return {name: inner for name, inner in value.items() if name != key}
        if kind < 0.4:
            return {**value, dice.choice(NAMES): dice.choice([*NUMBERS, *STRINGS])}
        return {**value, key: mutated(value[key], dice)}
    if isinstance(value, list) and value and kind < 0.8:
        index = dice.randrange(len(value))
        if kind < 0.2:
            return value[:index] + value[index + 1 :]
        if kind < 0.4:
            return [*value, dice.choice([*NUMBERS, *STRINGS])]
        return [*value[:index], mutated(value[index], dice), *value[index + 1 :]]
    if isinstance(value, str) and kind < 0.6:
        at = dice.randrange(len(value) + 1)
        return value[:at] + dice.choice(["", "a", "1", "é"]) + value[at + dice.randrange(2) :]
    if isinstance(value, int | float) and not isinstance(value, bool) and kind < 0.6:
        return value + dice.choice([1, -1, 0.5, 10])
    return dice.choice([*NUMBERS, *STRINGS, True, None, [], {}, [value], {"a": value}])
