"""Listed values that a request names: what is left of an enum whose schema says ``"x-ground": "prompt"``.

A home's devices, a shop's products: whoever lists them may want a call to name one only if the request does. A value is
named where its words stand in the request, in any order, each but for a letter; words that say which place is meant may be left out
("the countertop" names *Kitchen countertop* if *Kitchen* is a value of another such parameter) unless the
request names another place. A value that stands within a longer one is not meant itself: "the bedroom lamp"
names the lamp and not the bedroom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from callmemaybe.wire.nearest_values import ValueIndex, words_of

#: The most values of a parameter that one request names.
MOST_NAMED = 6


class NamedValue(NamedTuple):
    """A value's place in its list, and the words of the request that name it, by their places."""

    place: int
    words: frozenset[int]
    is_whole: bool


def is_named(schema: Any) -> bool:
    """Whether a schema lists texts of which only those may be written that the request names."""
    return (
        isinstance(schema, Mapping)
        and schema.get("x-ground") in ("prompt", "prompt-or-free")
        and isinstance(schema.get("enum"), list)
        and all(isinstance(value, str) for value in schema["enum"])
    )


def named_values(properties: Mapping[str, Any], request: str) -> dict[str, list[str]]:
    """Return, for each parameter whose listed values must be named, those that ``request`` names, as they come."""
    listed = {
        name: tuple(schema["enum"]) for name, schema in properties.items() if is_named(schema)
    }
    words = tuple(words_of(request))
    whole = {name: _index_of(values).named_wholly(words) for name, values in listed.items()}
    found = {name: [NamedValue(*one, True) for one in values] for name, values in whole.items()}
    for name, values in listed.items():
        others = {
            word for other, texts in listed.items() if other != name and len(texts) <= len(values)
            for text in texts for word in words_of(text)
        }  # fmt: skip
        if not found[name] and others:
            found[name] = [
                NamedValue(*one, False)
                for one in _index_of(values).named_wholly(words, frozenset(others))
            ]
    return {name: _meant(name, values, found, listed) for name, values in listed.items()}


def lacks_a_name(parameters: Mapping[str, Any], request: str) -> bool:
    """Whether a required parameter must name one of its values and ``request`` names none."""
    properties = parameters.get("properties")
    required = parameters.get("required") or ()
    if not isinstance(properties, Mapping) or not any(
        is_named(properties.get(name)) and properties[name]["x-ground"] == "prompt"
        for name in required
    ):
        return False
    named = named_values(properties, request)
    return any(
        name in named and not named[name] and properties[name]["x-ground"] == "prompt"
        for name in required
    )


def _meant(
    name: str,
    values: Sequence[str],
    found: Mapping[str, list[NamedValue]],
    listed: Mapping[str, Sequence[str]],
) -> list[str]:
    """Leave out what stands within a longer value, and what is named in part beside another place."""
    kept = []
    for one in found[name]:
        is_within = any(
            one.words < other.words or (one.words == other.words and not one.is_whole and other.is_whole)
            for others in found.values() for other in others
        )  # fmt: skip
        own = set(words_of(values[one.place]))
        is_elsewhere = not one.is_whole and any(
            other.is_whole and not own & set(words_of(listed[where][other.place]))
            for where, others in found.items() if where != name
            for other in others
        )  # fmt: skip
        if not is_within and not is_elsewhere:
            kept.append(one)
    kept.sort(key=lambda one: (min(one.words), one.place))
    return [values[one.place] for one in kept[:MOST_NAMED]]


@lru_cache(maxsize=64)
def _index_of(values: tuple[str, ...]) -> ValueIndex:
    return ValueIndex(values)
