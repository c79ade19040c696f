"""JSON Schemas of tools: other dialects in standard keywords, and a validator that is not our grammar.

A grammar accepts OpenAPI's ``nullable`` and the types of the Berkeley Function Calling Leaderboard, which
JSON Schema does not have. :func:`normalize_dialect` rewrites both, so that the validator (jsonschema-rs)
accepts the values that the grammar generates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from callmemaybe.errors import InputError

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


def validator_for(schema: Any, *, formats: bool | None = None, linear: bool = False) -> Any:
    """Return a jsonschema-rs validator of a JSON Schema. It fetches nothing.

    ``formats``: whether ``format`` is checked; by default the draft of the schema decides. ``linear``:
    refuse patterns that cannot be matched in linear time. The paths of validation errors are paths in
    ``schema`` as given. Raises InputError with one line for a schema that the validator cannot read.
    """
    import jsonschema_rs  # an extension module of several megabytes

    patterns = jsonschema_rs.RegexOptions(size_limit=_PATTERN_SIZE) if linear else None
    try:
        return jsonschema_rs.validator_for(
            normalize_dialect(schema),
            validate_formats=formats,
            pattern_options=patterns,
            retriever=_no_network,
        )
    except RecursionError:
        raise InputError("it nests too deep") from None
    except Exception as error:
        # The exceptions of jsonschema-rs have no common base class.
        raise InputError(str(error).partition("\n")[0]) from None


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
