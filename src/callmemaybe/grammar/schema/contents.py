"""Which schemas say the same word for word, wherever they stand in a document."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from callmemaybe.grammar.schema.references import Spot
from callmemaybe.grammar.schema.shapes import NEVER, Need

#: Texts that say nothing about values, and keywords below which these names are data.
_NOTES = frozenset(["title", "description", "$comment"])
_DATA = frozenset(["enum", "const", "dependencies"])


class Contents:
    """Numbers schemas by what they say: the same number, the same values are valid.

    Schemas that are written twice are frequent among alternatives (`oneOf` of objects that share
    members), and to see that one is the other saves taking both apart.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._numbers: dict[Hashable, int] = {}
        # By id(); with the value, which must not go while its id stands for it.
        self._known: dict[tuple[int, bool], tuple[Any, int]] = {}

    def merged(self, need: Need) -> Need:
        """Return a need without what it says twice; NEVER if it contradicts itself."""
        kept: dict[Hashable, tuple[Spot, bool]] = {}
        for spot, holds in need:
            key = (self._number(spot.value, False), spot.base, spot.draft, spot.scope)
            if kept.setdefault(key, (spot, holds))[1] is not holds:
                return NEVER
        return need if len(kept) == len(need) else tuple(kept.values())

    def alike(self, spots: Iterable[Spot]) -> frozenset[int]:
        """Return the id() of what some spots say, and of all that was found to say the same."""
        ids = {id(spot.value) for spot in spots}
        numbers = {
            n for (known, is_data), (_, n) in self._known.items() if known in ids and not is_data
        }
        twins = {known for (known, is_data), (_, n) in self._known.items() if n in numbers}
        return frozenset(ids | twins)

    def _number(self, value: Any, is_data: bool) -> int:
        if not isinstance(value, dict | list):
            return self._numbers.setdefault((type(value), value), len(self._numbers))
        known = self._known.get((id(value), is_data))
        if known is not None:
            return known[1]
        content: Hashable
        if isinstance(value, list):
            content = ("list", *(self._number(inner, is_data) for inner in value))
        else:
            content = tuple(
                (key, self._number(inner, is_data or key in _DATA))
                for key, inner in value.items()
                if is_data or key not in _NOTES or not isinstance(inner, str)
            )
        number = self._numbers.setdefault(content, len(self._numbers))
        self._known[id(value), is_data] = value, number
        return number
