"""Stands in for ``outlines_core.json_schema``: a schema as a regular expression."""

from __future__ import annotations

import json
from typing import Any

import outlines_core
from callmemaybe.grammar import json_schema
from callmemaybe.grammar.export import to_regex


def build_regex_from_schema(
    text: str, whitespace_pattern: str | None = None, max_recursion_depth: int | None = None
) -> str:
    """Return the regular expression of a schema's values."""
    if whitespace_pattern is not None or max_recursion_depth is not None:
        outlines_core.left_out("a pattern of white space, or a depth of recursion")
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise TypeError(str(error)) from error
    return to_regex(json_schema(schema, style="flexible"))


def __getattr__(name: str) -> Any:
    return outlines_core.left_out(f"the constant {name}" if not name.startswith("__") else name)
