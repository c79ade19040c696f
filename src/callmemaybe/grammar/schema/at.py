"""Where a keyword stands, and what its value may be: the checks that all keywords share."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar.schema.references import BARE, NEWEST, Document, Spot
from callmemaybe.grammar.schema.shapes import Need, Sub
from callmemaybe.grammar.schema.values import exact

#: The vocabulary for validation of draft 2020-12, which a dialect may do without.
VALIDATION = frozenset(
    ["type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum",
     "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems",
     "maxContains", "minContains", "maxProperties", "minProperties", "required", "dependentRequired"]
)  # fmt: skip


def foreign(keyword: str, spot: Spot) -> str:
    """Return why a keyword says nothing in the dialect of a schema; the empty text if it does."""
    if keyword in VALIDATION and spot.draft == BARE:
        return "the metaschema has no vocabulary for validation"
    if keyword == "prefixItems" and spot.draft < NEWEST:
        return "before draft 2020-12: an unknown keyword"
    return ""


@dataclass(frozen=True, slots=True)
class At:
    """Where a keyword stands: its name, its schema, and the document around."""

    keyword: str
    spot: Spot
    document: Document

    @property
    def pointer(self) -> str:
        """The JSON pointer of the keyword."""
        return f"{self.spot.pointer}/{self.keyword}"

    def refuse(self, message: str, hint: str | None = None) -> UnsupportedSchema:
        """Return the error that names this keyword."""
        return UnsupportedSchema(f"{self.keyword}: {message}", pointer=self.pointer, hint=hint)

    def sibling(self, keyword: str, default: Any = None) -> Any:
        """Return the value of another keyword of the same schema, if its dialect has that keyword."""
        if foreign(keyword, self.spot):
            return default
        return self.spot.value.get(keyword, default)

    def sub(self, *tokens: str | int) -> Sub:
        """Return the schema below this keyword."""
        return Sub(self.document.child(self.spot, self.keyword, *tokens))

    def need(self, *tokens: str | int) -> Need:
        """Return the schema below this keyword as a need."""
        return ((self.document.child(self.spot, self.keyword, *tokens), True),)

    def whole(self, value: Any) -> int:
        """Check a count: a whole number from 0 up (2.0 is one)."""
        number = self.number(value)
        if number < 0:
            raise self.refuse("a number from 0 up is expected")
        if number.denominator != 1:
            raise self.refuse("a whole number is expected")
        return number.numerator

    def number(self, value: Any) -> Fraction:
        """Check a finite number; a float means the decimal that it is written as."""
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise self.refuse("a number is expected")
        try:
            return exact(value)
        except ValueError as error:
            raise self.refuse(f"a finite number is expected: {error}") from None

    def mapping(self, value: Any) -> dict[str, Any]:
        """Check an object."""
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise self.refuse("an object is expected")
        return value

    def schemas(self, value: Any) -> tuple[Sub, ...]:
        """Check a list of schemas that is not empty."""
        if not isinstance(value, list) or not value:
            raise self.refuse("a list of schemas (at least one) is expected")
        return tuple(self.sub(index) for index in range(len(value)))

    def strings(self, value: Any) -> tuple[str, ...]:
        """Check a list of strings."""
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.refuse("a list of strings is expected")
        return tuple(dict.fromkeys(value))
