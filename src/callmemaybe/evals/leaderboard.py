"""The rules of the Berkeley Function Calling Leaderboard for the arguments of one Python call.

From its ``ast_checker.py`` (ShishirPatil/gorilla, Apache-2.0): every required argument present,
none that is not expected; exact types (true is no integer, 3.0 is none; an integer will do for a
float); strings compared without case and without some punctuation; lists in order; everything by
membership in a list of possible answers, in which "" says that an optional argument may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from callmemaybe.tools import ToolSpec

_IGNORED = re.compile(r"[ ,./\-_*^]")
_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}
_MISSING = object()


def leaderboard(
    tool: ToolSpec, given: Mapping[str, Any], expected: Mapping[str, Any]
) -> dict[str, bool]:
    """Judge each argument; ``expected`` holds, by argument, the list of possible answers."""
    properties = tool.schema.get("properties", {})
    required = tool.schema.get("required", ())
    verdicts = {}
    for name in {**expected, **given}:
        if name in given:
            options = expected.get(name)
            verdicts[name] = options is not None and _is_right(
                given[name], options, properties.get(name)
            )
        elif "" not in expected[name] or name in required:
            verdicts[name] = False
    return verdicts


def standard(text: str) -> str:
    """Return a string as the leaderboard compares it."""
    return _IGNORED.sub("", text).lower().replace("'", '"')


def _is_right(given: Any, options: Sequence[Any], schema: Any) -> bool:
    try:
        return _fits(_python(given), options, schema)
    except RecursionError:
        # A model that writes brackets to the end of its budget; no answer of a set nests so deep.
        return False


def _fits(value: Any, options: Sequence[Any], schema: Any) -> bool:
    kind = (schema.get("type") if isinstance(schema, Mapping) else None) or "string"
    kinds = kind if isinstance(kind, list) else [kind]
    if value is None and "null" in kinds:
        return None in options
    types = [_TYPES.get(one, str) for one in kinds if one != "null"] or [str]
    if type(value) is int and float in types and int not in types:
        # By way of Decimal an integer of 400 digits is infinite, where float() would raise.
        value = float(Decimal(value))
    unsaid = ("", None) if "null" in kinds else ("",)
    sample = next((option for option in options if option not in unsaid), _MISSING)
    # A possible answer of another type than the schema states is a variable of the caller's.
    is_variable = sample is not _MISSING and type(_python(sample)) not in types
    if type(value) not in types:
        return is_variable and type(value) is type(_python(sample)) and value in options
    if is_variable and not (float in types and type(sample) is int):
        return any(value == option for option in options)
    return _is_one_of(value, options)


def _is_one_of(value: Any, options: Sequence[Any]) -> bool:
    if isinstance(value, dict):
        return any(_is_object(value, option) for option in options if isinstance(option, Mapping))
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return any(_are_objects(value, option) for option in options if isinstance(option, list))
    return any(_standard(value) == _standard(_python(option)) for option in options)


def _are_objects(value: list[Any], option: list[Any]) -> bool:
    return len(value) == len(option) and all(
        isinstance(wanted, Mapping) and _is_object(item, wanted)
        for item, wanted in zip(value, option, strict=True)
    )


def _is_object(value: Mapping[str, Any], option: Mapping[str, Any]) -> bool:
    """Whether an object has a possible answer for each key; the option lists them by key."""
    for key, item in value.items():
        if key not in option:
            return False
        listed = option[key]
        possible = listed if isinstance(listed, list) else [listed]
        wanted = [_standard(_python(one)) for one in possible]
        if _standard(item) not in wanted and _standard(item) != _standard(listed):
            return False
    return all(key in value or (isinstance(one, list) and "" in one) for key, one in option.items())


def _standard(value: Any) -> Any:
    """Normalise a string, and the strings of a list."""
    if isinstance(value, str):
        return standard(value)
    if isinstance(value, list):
        return [_standard(item) for item in value]
    if isinstance(value, bool):
        # In Python, true is 1; the types above have been compared only at the top.
        return ("boolean", value)
    return value


def _python(value: Any) -> Any:
    """Return a parsed JSON value as Python's own reader would have it: Decimal becomes float."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        return {key: _python(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_python(item) for item in value]
    return value
