"""The arguments of earlier calls, as a history holds them: text from anywhere, checked before it is read."""

from __future__ import annotations

from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.jsonio.writer import PLAIN_DIGITS, loads

#: How deep arguments may nest where they are not written as they are: a template recurses, as we do.
MOST_DEPTH = 100


def text_of(arguments: str) -> str:
    """Return arguments as the text of an object: for a call without any, clients send null or nothing."""
    return "{}" if arguments.strip() in ("", "null") else arguments


def object_of(arguments: str, where: str) -> dict[str, Any]:
    """Return arguments as values.

    Raises InputError naming ``where`` for what is no JSON object, nests deeper than ``MOST_DEPTH``, or
    holds a number of more than ``PLAIN_DIGITS`` digits.
    """
    value = loads(text_of(arguments), where=where, most_digits=PLAIN_DIGITS)
    if not isinstance(value, dict):
        raise InputError("the arguments must be a JSON object", where=where)
    if _nests_too_deep(value):
        raise InputError(f"the arguments nest deeper than {MOST_DEPTH} levels", where=where)
    return value


def place_of(message: int, call: int) -> str:
    """Name the arguments of a call in a history as OpenAI does."""
    return f"messages[{message}].tool_calls[{call}].function.arguments"


def _nests_too_deep(value: Any) -> bool:
    """Whether more than ``MOST_DEPTH`` arrays and objects stand in each other; does not recurse."""
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
