"""Rules that decide whether the arguments of a call are right: by value, by output, or BFCL's.

A rule takes one call of the expected function and says for each argument, missing and superfluous ones
included, whether it is right. It knows no model.

"output" is the rule of the public exercise, whose grader runs its five functions and compares what they
return. A generated regular expression may never end, so it runs in a process of its own.

"bfcl" follows the Berkeley Function Calling Leaderboard's ``ast_checker.py`` (ShishirPatil/gorilla,
Apache-2.0): every required argument present, none unexpected; exact types (true is no integer, 3.0 is
none; an integer will do for a float); strings compared without case and some punctuation; lists in
order; each value among a list of possible answers, in which "" means that the argument may be missing.

"any" asks for no arguments: cases of "live_relevance" want a call, and do not say which.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.jsonio import dumps
from callmemaybe.tools import ToolSpec

#: (the function called, the arguments given, those expected) -> which of them are right.
Rule = Callable[[ToolSpec, Mapping[str, Any], Mapping[str, Any]], dict[str, bool]]


def exact(
    _tool: ToolSpec, given: Mapping[str, Any], expected: Mapping[str, Any]
) -> dict[str, bool]:
    """Ask for equal JSON values: 2 equals 2.0, true is no 1, lists are ordered, objects are not."""
    return {
        name: name in given and name in expected and same(given[name], expected[name])
        for name in {**expected, **given}
    }


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; numbers by value, whatever type holds them.

    Infinity and NaN, which Python reads where a published set has them, equal no value.
    """
    try:
        return dumps(one, canonical=True) == dumps(other, canonical=True)
    except InputError:
        return False


def by_output(
    tool: ToolSpec, given: Mapping[str, Any], expected: Mapping[str, Any]
) -> dict[str, bool]:
    """Ask for the same output, for functions that can be run here; else for equal values."""
    verdicts = exact(tool, given, expected)
    if all(verdicts.values()):
        return verdicts
    found = output(tool.name, given)
    is_right = found is not None and found == output(tool.name, expected)
    return dict.fromkeys(verdicts, True) if is_right else verdicts


#: Seconds for one regular expression.
PATIENCE = 5.0
_SUBSTITUTE = (
    "import json, re, sys; print(json.dumps(re.sub(*json.loads(sys.stdin.buffer.read().decode()))))"
)


def output(name: str, arguments: Mapping[str, Any]) -> object:
    """Return what the function returns; None if it is none of the five, or fails."""
    function = _FUNCTIONS.get(name)
    if function is None:
        return None
    try:
        return function(**arguments)
    except (ArithmeticError, TypeError, ValueError, AttributeError, OSError):
        return None


def _substitute(source_string: str, regex: str, replacement: str) -> object:
    import json

    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _SUBSTITUTE],
            input=json.dumps([regex, replacement, source_string]).encode(),
            capture_output=True,
            timeout=PATIENCE,
            check=True,
        )
    except subprocess.SubprocessError:
        return None
    return json.loads(done.stdout)


_FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "fn_add_numbers": lambda a, b: float(a) + float(b),
    "fn_greet": lambda name: f"Hello, {name}!",
    "fn_reverse_string": lambda s: s[::-1],
    "fn_get_square_root": lambda a: math.sqrt(float(a)),
    "fn_substitute_string_with_regex": _substitute,
}


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


def any_arguments(
    _tool: ToolSpec, _given: Mapping[str, Any], _expected: Mapping[str, Any]
) -> dict[str, bool]:
    """Ask for nothing: that the function is called is right."""
    return {}


#: The rules by the names that cases use.
RULES: Mapping[str, Rule] = {
    "exact": exact,
    "output": by_output,
    "bfcl": leaderboard,
    "any": any_arguments,
}
