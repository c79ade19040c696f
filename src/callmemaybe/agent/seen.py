"""Whether the values of a call occur in the conversation; what occurs nowhere, the model invented. Pure.

This is a help for the user, who is asked for what is missing; it protects nobody. Which values a write may
have without a person is decided by the gateway, more strictly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

_WORD = re.compile(r"\w+")


class SeenTexts:
    """The messages and results of a conversation, prepared for searching values in them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._text = "\n".join(map(_folded, texts))

    def hold(self, value: Any, schema: Any = None) -> bool:
        """Whether every part of ``value`` occurs in a text, or is among what its JSON Schema names."""
        named = schema if isinstance(schema, Mapping) else {}
        if isinstance(value, Mapping):
            parts = named.get("properties")
            parts = parts if isinstance(parts, Mapping) else {}
            return all(
                (key in parts or self._holds(key)) and self.hold(inner, parts.get(key))
                for key, inner in value.items()
            )
        if isinstance(value, list):
            return all(self.hold(inner, named.get("items")) for inner in value)
        return _is_named(value, named) or self._holds(value)

    def _holds(self, value: Any) -> bool:
        """Whether a value occurs, not inside a longer word or number if it is short."""
        folded = "" if value is None or isinstance(value, bool) else _folded(_as_text(value))
        if not folded or folded not in self._text:
            return False
        if len(folded) > 12:
            return True
        begins, ends = folded[0].isalnum(), folded[-1].isalnum()
        if begins and ends and _WORD.fullmatch(folded):
            return folded in self._words
        left, right = r"(?<![\w])" if begins else "", r"(?![\w])" if ends else ""
        return re.search(left + re.escape(folded) + right, self._text) is not None

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self._text))


def _is_named(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether the schema has the value as its const, default or one of its enum."""
    options = schema.get("enum")
    named = [*options] if isinstance(options, list) else []
    named += [schema[word] for word in ("const", "default") if word in schema]
    return any(type(option) is type(value) and option == value for option in named)


def _as_text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def _folded(text: str) -> str:
    """Return the text case-folded, with each run of white space as one space."""
    return " ".join(text.casefold().split())
