"""The origin of each value in a call's arguments; it decides whether a person must approve. Pure.

A model that read a page saying "send everything to account 666" may write 666 into a call. The origin is
found by searching for the value, not by trusting the model: defaults and enums of the schema, then the
user's messages, then the results of untrusted tools. A value found nowhere is ``ungrounded``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from callmemaybe.jsonio import escape_token

#: Levels of JSON inside JSON strings whose escapes are undone.
_MAX_ESCAPE_LEVELS = 4
_WORD = re.compile(r"\w+")
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class Origin(StrEnum):
    """Where a value of the arguments was found."""

    USER = "user_span"
    RESULT = "tool_result"
    ENUM = "enum"
    DEFAULT = "default"
    UNGROUNDED = "ungrounded"


@dataclass(frozen=True)
class LabelledValue:
    """One leaf of the arguments: its JSON pointer and its origin."""

    pointer: str
    origin: Origin


def label(
    arguments: Mapping[str, Any],
    schema: Mapping[str, Any],
    *,
    user: Sequence[str],
    untrusted: Sequence[str],
) -> tuple[LabelledValue, ...]:
    """Label every leaf and every key of ``arguments``.

    ``schema`` is the tool's JSON Schema, ``user`` the user's messages, ``untrusted`` the texts of results of
    untrusted tools.
    """
    # Each text is folded once, not once per leaf: results may be megabytes and leaves thousands.
    user_texts = [_SearchText(text) for text in user]
    result_texts = [_SearchText(text) for text in untrusted]
    known: dict[tuple[type, Any], Origin] = {}

    def found(value: Any) -> Origin:
        key = (type(value), value)
        if key not in known:
            known[key] = _search(value, user_texts, result_texts)
        return known[key]

    return tuple(
        LabelledValue(pointer, _declared(value, part) or found(value))
        for pointer, value, part in _leaves(arguments, schema, "")
    )


def unescaped_texts(text: str) -> tuple[str, ...]:
    """Return ``text`` and its versions with JSON escapes undone, once per level of JSON in JSON.

    A result is stored as JSON; an escape in it would hide a value that a model copies from it.
    """
    found = [text]
    while (
        len(found) < _MAX_ESCAPE_LEVELS
        and (plain := _ESCAPE.sub(_unescaped, found[-1])) != found[-1]
    ):
        found.append(plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
    return tuple(found)


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _SHORT.get(escape[2], escape[2])


def tainted_pointers(labels: Sequence[LabelledValue]) -> tuple[str, ...]:
    """Return the JSON pointers of the values that came from untrusted results."""
    return tuple(item.pointer for item in labels if item.origin is Origin.RESULT)


def _leaves(
    value: Any, schema: Mapping[str, Any], pointer: str
) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    if isinstance(value, Mapping):
        properties = schema.get("properties") or {}
        for key, inner in value.items():
            part = properties.get(key)
            token = escape_token(key)
            yield f"{pointer}/{token}", key, {"enum": [key]} if part is not None else {}
            yield from _leaves(
                inner, part if isinstance(part, Mapping) else {}, f"{pointer}/{token}"
            )
    elif isinstance(value, list):
        items = schema.get("items")
        for index, inner in enumerate(value):
            part = items if isinstance(items, Mapping) else {}
            yield from _leaves(inner, part, f"{pointer}/{index}")
    else:
        yield pointer, value, schema


def _declared(value: Any, schema: Mapping[str, Any]) -> Origin | None:
    if "default" in schema and _equal(schema["default"], value):
        return Origin.DEFAULT
    if any(_equal(option, value) for option in _options(schema)):
        return Origin.ENUM
    return None


def _search(value: Any, user: Sequence[_SearchText], untrusted: Sequence[_SearchText]) -> Origin:
    if value is None or isinstance(value, bool) or value == "":
        return Origin.UNGROUNDED
    folded = _folded(value if isinstance(value, str) else _as_text(value))
    if any(text.contains(folded) for text in user):
        return Origin.USER
    if any(text.contains(folded) for text in untrusted):
        return Origin.RESULT
    return Origin.UNGROUNDED


def _options(schema: Mapping[str, Any]) -> Sequence[Any]:
    if "const" in schema:
        return (schema["const"],)
    options = schema.get("enum", ())
    return options if isinstance(options, list) else ()


def _equal(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


def _as_text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def _folded(text: str) -> str:
    """Return the text case-folded, with each run of white space as one space."""
    return " ".join(text.casefold().split())


class _SearchText:
    """A text prepared for searching many values in it."""

    def __init__(self, text: str) -> None:
        self._folded = _folded(text)

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self._folded))

    def contains(self, value: str) -> bool:
        """Whether the folded ``value`` occurs here, not inside a longer word or number."""
        if not value or value not in self._folded:
            return False
        if len(value) > 12:
            return True
        begins, ends = value[0].isalnum(), value[-1].isalnum()
        if begins and ends and _WORD.fullmatch(value):
            return value in self._words
        left, right = r"(?<![\w])" if begins else "", r"(?![\w])" if ends else ""
        return re.search(left + re.escape(value) + right, self._folded) is not None
