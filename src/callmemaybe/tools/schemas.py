"""JSON Schemas of tools: other dialects in standard keywords, and a validator that is not our grammar.

A grammar accepts OpenAPI's ``nullable`` and the types of the Berkeley Function Calling Leaderboard, which
JSON Schema does not have. :func:`normalize_dialect` rewrites both, so that the validator (jsonschema-rs)
accepts the values that the grammar generates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from callmemaybe.errors import InputError
from callmemaybe.tools import validation_work
from callmemaybe.tools.validation_work import (
    TooMuchWork,
    Work,
    WorkCounter,
    schemas_within,
    size_of,
)

#: Types of the leaderboard that have another name in JSON Schema; its "any" is no type at all.
_OTHERS = {"dict": "object", "float": "number", "tuple": "array"}
_TYPES = frozenset((*_OTHERS, "any"))
#: Keywords whose value maps names to schemas, and those whose value is data.
_NAMED = frozenset((
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies",
))  # fmt: skip
_DATA = frozenset(("enum", "const", "default", "examples", "example"))
#: The largest automaton of a pattern, in bytes, where matching must take linear time.
_PATTERN_SIZE = 10 * 1024 * 1024
#: Characters of all patterns of a schema: the validator takes some hundred bytes for each.
_MOST_PATTERN = 200_000
#: Regex engines differ in word boundaries (ASCII words in ECMA-262), properties (the version of Unicode)
#: and the dot (which characters end a line). They agree on every other escape.
_COMMON_ESCAPE, _ENGINE_DEPENDENT = re.compile(r"\\[^bBpP]", re.DOTALL), re.compile(r"\\[bBpP]|\.")


def normalize_dialect(schema: Any) -> Any:
    """Return a schema with standard keywords only; JSON pointers into it stay the same."""
    if isinstance(schema, list | tuple):
        return [normalize_dialect(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {
        key: value
        if key in _DATA
        else {name: normalize_dialect(part) for name, part in value.items()}
        if key in _NAMED and isinstance(value, Mapping)
        else normalize_dialect(value)
        for key, value in schema.items()
    }
    kinds, is_nullable = schema.get("type"), schema.get("nullable") is True
    names = [kinds] if isinstance(kinds, str) else kinds
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        if "any" in names:
            del found["type"]
        elif is_nullable or not _TYPES.isdisjoint(names):
            types = [_OTHERS.get(name, name) for name in names] + ["null"] * is_nullable
            found["type"] = list(dict.fromkeys(types))
    return found


class SchemaValidator:
    """A jsonschema-rs validator whose work for one value is counted before it is done.

    The validator follows references again and again and holds the interpreter meanwhile, so a schema of 2 KB
    can stop a server for hours. Both methods raise InputError for a value whose validation passes a limit of
    ``validation_work``.
    """

    def __init__(self, validator: Any, counter: WorkCounter) -> None:
        self._validator = validator
        self._counter = counter

    def is_valid(self, value: Any) -> bool:
        """Whether a value meets the schema."""
        self._work(value, validation_work.MAX_CHECKS)
        return bool(self._validator.is_valid(value))

    def first_error(self, value: Any) -> ValidationProblem | None:
        """Return how a value violates the schema, or None; without its place if that takes too much memory."""
        work = self._work(value, validation_work.MAX_CHECKS)
        if self._validator.is_valid(value):
            return None
        if work is None:
            size = size_of(value)
            work = Work(0, (self._counter.expanded or 0) * size * (64 + size), 0)
            if work.errors > validation_work.MAX_ERROR_WEIGHT:
                work = self._counted(value)
        if work.errors > validation_work.MAX_ERROR_WEIGHT:
            return ValidationProblem("it does not meet its schema", (), (), None)
        error = self._validator_error(value)
        return ValidationProblem(error.message, error.instance_path, error.schema_path, error.kind)

    def _validator_error(self, value: Any) -> Any:
        """Return the first error of a value that is not valid; unlike ``iter_errors`` this makes no other."""
        import jsonschema_rs

        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return error
        raise AssertionError("the validator contradicts itself")

    def _work(self, value: Any, most: int) -> Work | None:
        """Return the work for a value; None where the size of the value shows that it is little."""
        expanded = self._counter.expanded
        if expanded is not None and expanded <= most and expanded * size_of(value) <= most:
            return None
        return self._counted(value)

    def _counted(self, value: Any) -> Work:
        try:
            return self._counter.count(value)
        except TooMuchWork as error:
            raise InputError(
                f"checking it against its schema takes too much work: {error}",
                hint="use fewer references to the same definitions in the schema",
            ) from None


class ValidationProblem(NamedTuple):
    """The first error of a validation."""

    message: str
    instance_path: Sequence[str | int]
    schema_path: Sequence[str | int]
    kind: Any


def check_patterns(schema: Any) -> None:
    """Raise InputError if a schema's patterns have more characters than a validator can be asked to read."""
    characters = 0
    stack = [schema]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack += value
        elif isinstance(value, dict):
            pattern, keys = value.get("pattern"), value.get("patternProperties")
            characters += len(pattern) if isinstance(pattern, str) else 0
            characters += sum(map(len, keys)) if isinstance(keys, dict) else 0
            stack += schemas_within(value)
    if characters > _MOST_PATTERN:
        raise InputError(
            f"its patterns have {characters:,} characters; at most {_MOST_PATTERN:,} are read"
        )


def validator_for(
    schema: Any, *, formats: bool | None = None, linear: bool = False
) -> SchemaValidator:
    """Return a validator of a JSON Schema. It fetches nothing.

    ``formats``: whether ``format`` is checked; by default the draft of the schema decides. ``linear``:
    refuse patterns that cannot be matched in linear time. The paths of validation errors are paths in
    ``schema`` as given. Raises InputError with one line for a schema that the validator cannot read.
    """
    import jsonschema_rs  # an extension module of several megabytes

    patterns = jsonschema_rs.RegexOptions(size_limit=_PATTERN_SIZE) if linear else None
    try:
        standard = normalize_dialect(schema)
        check_patterns(standard)
        counter = WorkCounter(standard)
        validator = jsonschema_rs.validator_for(
            standard, validate_formats=formats, pattern_options=patterns, retriever=_no_network
        )
    except RecursionError:
        raise InputError("it nests too deep") from None
    except TooMuchWork as error:
        raise InputError(f"the validator would take too much work: {error}") from None
    except Exception as error:
        # The exceptions of jsonschema-rs have no common base class.
        raise InputError(str(error).partition("\n")[0]) from None
    return SchemaValidator(validator, counter)


def has_engine_dependent_pattern(schema: Any) -> bool:
    """Return whether the validator may match a pattern differently than ECMA-262 defines it."""
    return any(_ENGINE_DEPENDENT.search(_COMMON_ESCAPE.sub("", one)) for one in _patterns(schema))


def _patterns(schema: Any) -> Iterator[str]:
    stack = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, Mapping):
            pattern, keys = part.get("pattern"), part.get("patternProperties")
            if isinstance(pattern, str):
                yield pattern
            if isinstance(keys, Mapping):
                yield from (key for key in keys if isinstance(key, str))
            stack.extend(part.values())
        elif isinstance(part, list | tuple):
            stack.extend(part)


def _no_network(address: str) -> Any:
    raise InputError(f"the schema refers to {address}, which is not fetched")
