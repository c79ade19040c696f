"""Schemas in the words of other dialects, said in those of JSON Schema.

OpenAPI has ``nullable``, the Berkeley Function Calling Leaderboard has types of its own; grammars read both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Types of the leaderboard; "any" is none.
_OTHERS = {"dict": "object", "float": "number", "tuple": "array"}
_TYPES = frozenset((*_OTHERS, "any"))
#: Keywords of which every member is a schema, and those whose value is none.
_NAMED = frozenset((
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies",
))  # fmt: skip
_DATA = frozenset(("enum", "const", "default", "examples", "example"))


def standard(schema: Any) -> Any:
    """Return a schema in the words of JSON Schema; everything stays where it stands in it."""
    if isinstance(schema, list | tuple):
        return [standard(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {
        key: value
        if key in _DATA
        else {name: standard(part) for name, part in value.items()}
        if key in _NAMED and isinstance(value, Mapping)
        else standard(value)
        for key, value in schema.items()
    }
    kinds, is_nullable = schema.get("type"), schema.get("nullable") is True
    names = [kinds] if isinstance(kinds, str) else kinds
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        if "any" in names:
            del found["type"]
        elif is_nullable or not _TYPES.isdisjoint(names):
            told = [_OTHERS.get(name, name) for name in names] + ["null"] * is_nullable
            found["type"] = list(dict.fromkeys(told))
    return found
