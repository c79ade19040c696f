"""Validators of another make than the grammars (jsonschema-rs), of schemas in the same words.

A grammar reads OpenAPI's ``nullable`` and the types of the Berkeley Function Calling Leaderboard, and
JSON Schema knows neither. Whoever looks at values afterwards makes the validator here, so that what
may be written and what is found valid are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

from callmemaybe.errors import InputError
from callmemaybe.tools.dialects import standard

#: Bytes of an automaton that a pattern may become where it has to match in linear time.
_PATTERN_SIZE = 10 * 1024 * 1024
#: What is no escape that engines read differently / what they do: word boundaries (ECMA-262: of ASCII's
#: words), properties (of some version of Unicode), and any character (which ends of lines are none).
_PLAIN_ESCAPE, _READ_OTHERWISE = re.compile(r"\\[^bBpP]", re.DOTALL), re.compile(r"\\[bBpP]|\.")


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


def is_read_otherwise(schema: Any) -> bool:
    """Whether a pattern of a schema may match other texts in the validator than ECMA-262 has it."""
    return any(_READ_OTHERWISE.search(_PLAIN_ESCAPE.sub("", one)) for one in _patterns(schema))


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
