"""Validators of another make than the grammars (jsonschema-rs), of schemas in the same words.

A grammar reads OpenAPI's ``nullable`` and the types of the Berkeley Function Calling Leaderboard, and
JSON Schema knows neither. Whoever looks at values afterwards makes the validator here, so that what
may be written and what is found valid are one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from callmemaybe.errors import InputError

#: Types of the leaderboard; "any" is none.
_OTHERS = {"dict": "object", "float": "number", "tuple": "array"}
_TYPES = frozenset((*_OTHERS, "any"))
#: Keywords of which every member is a schema, and those whose value is none.
_NAMED = frozenset((
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies",
))  # fmt: skip
_DATA = frozenset(("enum", "const", "default", "examples", "example"))
#: Bytes of an automaton that a pattern may become where it has to match in linear time.
_PATTERN_SIZE = 10 * 1024 * 1024


def validator_for(schema: Any, *, formats: bool | None = None, linear: bool = False) -> Any:
    """Return a validator of a JSON Schema, as jsonschema-rs makes them; it fetches nothing.

    ``formats``: whether formats bind; left unsaid, the schema's draft decides. ``linear``: only patterns
    that match in linear time are read. Errors that the validator finds point into ``schema`` as given.
    Raises InputError, in a line, for a schema that cannot be read.
    """
    patterns = jsonschema_rs.RegexOptions(size_limit=_PATTERN_SIZE) if linear else None
    try:
        return jsonschema_rs.validator_for(
            standard(schema),
            validate_formats=formats,
            pattern_options=patterns,
            retriever=_no_network,
        )
    except RecursionError:
        raise InputError("it nests too deep") from None
    except Exception as error:
        # Theirs have no root of their own.
        raise InputError(str(error).partition("\n")[0]) from None


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


def _no_network(address: str) -> Any:
    raise InputError(f"the schema refers to {address}, which is not fetched")
