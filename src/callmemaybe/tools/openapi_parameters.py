"""Parameters of OpenAPI operations, and how their values are serialised.

The styles are those of RFC 6570, as OpenAPI 3.1.1 defines them (section 4.8.12); earlier versions print
some of the examples differently, but refer to the same RFC. What no version defines (arrays in arrays, a
value that contains the separator) is an error, but for what is inside of a deepObject: services that have that
style (Stripe's, say) read ``a[b][c]=1`` and ``a[0]=1``, as PHP, Rails and ``qs`` do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from callmemaybe.errors import InputError, NotExecuted
from callmemaybe.jsonio import dumps


class _Style(NamedTuple):
    """The text before the first part, between exploded parts, and between items of one part."""

    first: str
    between: str
    within: str
    is_named: bool


#: The separators of the last two are percent-encoded, since a query may contain neither.
_STYLES = {
    "simple": _Style("", ",", ",", False),
    "label": _Style(".", ".", ",", False),
    "matrix": _Style(";", ";", ",", True),
    "form": _Style("", "&", ",", True),
    "deepObject": _Style("", "&", "", True),
    "spaceDelimited": _Style("", "", "%20", True),
    "pipeDelimited": _Style("", "", "%7C", True),
}
#: Location -> its styles, the default first.
_STYLES_BY_LOCATION = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
}
#: A parameter of such a header "SHALL be ignored" (OpenAPI 3.1.1, section 4.8.12).
_IGNORED = frozenset({"accept", "content-type", "authorization"})
#: The reserved characters of RFC 3986 without those that a query may not contain or that end a value,
#: which are always encoded (OpenAPI 3.1.1, section 4.8.12).
_RESERVED = ":/?@!$'()*,;="
_BREAKS = re.compile(r"[\r\n\0]")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")


@dataclass(frozen=True)
class OpenApiParameter:
    """The location of a parameter (path, query or header) and the serialisation of its values."""

    name: str
    location: str
    style: str
    explode: bool
    allows_reserved: bool = False
    is_json: bool = False

    def serialize(self, value: Any) -> str | None:
        """Return a value as text, with the name if the style has it; None if nothing is sent.

        Nothing is sent for values that RFC 6570 calls undefined: null, and arrays and objects that
        contain nothing else. Raises NotExecuted for a value that OpenAPI defines no text for, and for a
        path parameter without a value.
        """
        if self.is_json:
            return self._part(self._encode(_json(value, self.location)))
        if self.style == "deepObject" and isinstance(value, Mapping | list | tuple):
            return "&".join(self._of_deep_object(quote(self.name, safe=""), value)) or None
        if isinstance(value, Mapping):
            parts = self._of_object([(key, one) for key, one in value.items() if one is not None])
        elif isinstance(value, list | tuple):
            parts = self._of_array([one for one in value if one is not None])
        else:
            # All styles with names write a single value in the same way.
            parts = [] if value is None else [self._part(self._encode(_text(value)))]
        style = _STYLES[self.style]
        if parts:
            return style.first + style.between.join(parts)
        if self.location == "path":
            raise self._error("it has no value")
        return None

    def _of_object(self, members: Sequence[tuple[str, Any]]) -> list[str]:
        pairs = [(self._key(key), self._item(value)) for key, value in members]
        if self.explode:
            # RFC 6570, 3.2.7: a name without a value has no `=`.
            bare = self.style == "matrix"
            return [key if bare and not item else f"{key}={item}" for key, item in pairs]
        flat = [text for pair in pairs for text in pair]
        return [self._part(_STYLES[self.style].within.join(flat))] if flat else []

    def _of_array(self, members: Sequence[Any]) -> list[str]:
        items = [self._item(one) for one in members]
        if self.explode:
            return [self._part(item) for item in items]
        return [self._part(_STYLES[self.style].within.join(items))] if items else []

    def _of_deep_object(self, prefix: str, value: Any) -> Iterator[str]:
        """Yield each value inside of an object or array, with the way to it in brackets."""
        if not isinstance(value, Mapping | list | tuple):
            if value is not None:
                yield f"{prefix}={self._encode(_text(value))}"
            return
        members = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, one in members:
            if "[" in str(key) or "]" in str(key):
                raise self._error(f"the key {key!r} holds what ends a key")
            yield from self._of_deep_object(f"{prefix}%5B{self._encode(str(key))}%5D", one)

    def _part(self, encoded: str) -> str:
        """Return an encoded value, after the name if the style has names."""
        if not _STYLES[self.style].is_named:
            return encoded
        bare = self.style == "matrix" and not encoded
        return quote(self.name, safe="") + ("" if bare else f"={encoded}")

    def _item(self, value: Any) -> str:
        """Encode one of several values; raises NotExecuted if it contains the separator."""
        if isinstance(value, Mapping | list | tuple):
            raise self._error("there is no form for arrays and objects inside of others")
        style = _STYLES[self.style]
        separator = style.between if self.explode else style.within
        encoded = self._encode(_text(value), separator)
        if separator and separator in encoded:
            raise self._error(f"{value!r} holds what separates it from the next value")
        return encoded

    def _key(self, key: str) -> str:
        encoded = self._item(key)
        if self.explode and "=" in encoded:
            raise self._error(f"the key {key!r} holds what ends a key")
        return encoded

    def _encode(self, text: str, separator: str = "") -> str:
        if self.location == "header":
            return _BREAKS.sub(" ", text)
        if not self.allows_reserved:
            return quote(text, safe="")
        return quote(text, safe=_RESERVED.replace(separator, "") if separator else _RESERVED)

    def _error(self, why: str) -> NotExecuted:
        return NotExecuted(
            f"the {self.location} parameter {self.name!r} cannot be written: {why}, so nothing was sent"
        )


def parse_parameter(declared: Mapping[str, Any], where: str) -> tuple[OpenApiParameter, Any] | None:
    """Return a parameter and its schema, as declared; None for a header that OpenAPI ignores.

    Raises InputError naming the parameter for a location, style or content that is not supported.
    """
    location, name = str(declared.get("in")), str(declared.get("name"))
    if location == "cookie":
        raise InputError(f"the cookie parameter {name!r} cannot be a model's", where=where)
    if location not in _STYLES_BY_LOCATION:
        raise InputError(
            f"the parameter {name!r} is in {location!r}", where=where,
            hint=f"it may be in {', '.join(_STYLES_BY_LOCATION)}",
        )  # fmt: skip
    if location == "header" and name.lower() in _IGNORED:
        return None
    default = _STYLES_BY_LOCATION[location][0]
    if content := declared.get("content"):
        return _of_content(name, location, default, content, where)
    style = declared.get("style", default)
    if style not in _STYLES_BY_LOCATION[location]:
        raise InputError(
            f"the {location} parameter {name!r} has the style {style!r}", where=where,
            hint=f"it may have {' or '.join(_STYLES_BY_LOCATION[location])}",
        )  # fmt: skip
    # OpenAPI's default for deepObject is false, for which it defines no form; true is meant.
    explode = bool(declared.get("explode", style in {"form", "deepObject"}))
    if explode if style.endswith("Delimited") else style == "deepObject" and not explode:
        raise InputError(
            f"the {location} parameter {name!r}: the style {style} has no form where explode is"
            f" {str(explode).lower()}",
            where=where,
            hint="leave explode out",
        )
    reserved = location == "query" and bool(declared.get("allowReserved"))
    return OpenApiParameter(name, location, style, explode, reserved), declared.get("schema", {})


def _of_content(
    name: str, location: str, style: str, content: Any, where: str
) -> tuple[OpenApiParameter, Any]:
    """Parse a parameter that is serialised as a media type, of which there is exactly one."""
    kinds = [str(kind).partition(";")[0].strip().lower() for kind in content]
    is_json = len(kinds) == 1 and (kinds[0] == "application/json" or kinds[0].endswith("+json"))
    if not is_json:
        raise InputError(
            f"the {location} parameter {name!r} is written as {' or '.join(map(repr, kinds))}",
            where=where,
            hint="it may be application/json",
        )
    (declared,) = content.values()
    return OpenApiParameter(name, location, style, False, is_json=True), declared.get("schema", {})


def _json(value: Any, location: str) -> str:
    text = dumps(value)
    if location != "header":
        return text
    # Only ASCII is safe in a header, and outside of strings JSON is ASCII.
    return _BEYOND_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)
