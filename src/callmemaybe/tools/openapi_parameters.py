"""Parameters of OpenAPI operations: what may be said of them, and how their values are written.

The styles are those of RFC 6570, as OpenAPI 3.1.1 has them (section 4.8.12); its earlier versions print
some of the examples otherwise, and refer to the RFC, too. What no version prescribes (arrays in arrays, a
value that holds what separates it from the next) is not written at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from callmemaybe.errors import InputError
from callmemaybe.jsonio import dumps
from callmemaybe.tools.declare import NotExecuted


class _Style(NamedTuple):
    """What stands before the first part, between exploded ones, and between those in one part."""

    first: str
    between: str
    within: str
    is_named: bool


#: Separators of the last two are percent-encoded: neither may stand in a query.
_STYLES = {
    "simple": _Style("", ",", ",", False),
    "label": _Style(".", ".", ",", False),
    "matrix": _Style(";", ";", ",", True),
    "form": _Style("", "&", ",", True),
    "deepObject": _Style("", "&", "", True),
    "spaceDelimited": _Style("", "", "%20", True),
    "pipeDelimited": _Style("", "", "%7C", True),
}
#: Place -> its styles, the first of them the usual one.
_PLACES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
}
#: Headers of which a parameter is to be passed over (OpenAPI 3.1.1, section 4.8.12).
_IGNORED = frozenset({"accept", "content-type", "authorization"})
#: The reserved characters of RFC 3986, less those that a query may not hold or that end a value, which
#: are encoded all the same (OpenAPI 3.1.1, section 4.8.12).
_RESERVED = ":/?@!$'()*,;="
_BREAKS = re.compile(r"[\r\n\0]")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")


@dataclass(frozen=True)
class OpenApiParameter:
    """Where a parameter stands (path, query or header) and how its values are written there."""

    name: str
    place: str
    style: str
    explode: bool
    allows_reserved: bool = False
    is_json: bool = False

    def written(self, value: Any) -> str | None:
        """Return a value as it stands there, with its name where the style has it; None: not at all.

        That is what RFC 6570 calls undefined: null, and arrays and objects with nothing else in them.
        Raises NotExecuted for what OpenAPI gives no form, and for a path that would lack a value.
        """
        if self.is_json:
            return self._part(self._encoded(_json(value, self.place)))
        if isinstance(value, Mapping):
            parts = self._of_object([(key, one) for key, one in value.items() if one is not None])
        elif isinstance(value, list | tuple):
            parts = self._of_array([one for one in value if one is not None])
        else:
            # One value is written alike by all styles with names, those too that are for several.
            parts = [] if value is None else [self._part(self._encoded(_text(value)))]
        style = _STYLES[self.style]
        if parts:
            return style.first + style.between.join(parts)
        if self.place == "path":
            raise self._unwritten("it has no value")
        return None

    def _of_object(self, members: Sequence[tuple[str, Any]]) -> list[str]:
        pairs = [(self._key(key), self._item(value)) for key, value in members]
        if self.style == "deepObject":
            return [f"{quote(self.name, safe='')}%5B{key}%5D={item}" for key, item in pairs]
        if self.explode:
            # RFC 6570, 3.2.7: no `=` stands behind a name without a value.
            bare = self.style == "matrix"
            return [key if bare and not item else f"{key}={item}" for key, item in pairs]
        flat = [text for pair in pairs for text in pair]
        return [self._part(_STYLES[self.style].within.join(flat))] if flat else []

    def _of_array(self, members: Sequence[Any]) -> list[str]:
        if self.style == "deepObject":
            raise self._unwritten("the style deepObject is for objects")
        items = [self._item(one) for one in members]
        if self.explode:
            return [self._part(item) for item in items]
        return [self._part(_STYLES[self.style].within.join(items))] if items else []

    def _part(self, encoded: str) -> str:
        """Return an encoded value with the name before it, where the style has that."""
        if not _STYLES[self.style].is_named:
            return encoded
        bare = self.style == "matrix" and not encoded
        return quote(self.name, safe="") + ("" if bare else f"={encoded}")

    def _item(self, value: Any) -> str:
        """Encode one of several values; raises NotExecuted where it would not be told from two."""
        if isinstance(value, Mapping | list | tuple):
            raise self._unwritten("there is no form for arrays and objects inside of others")
        style = _STYLES[self.style]
        separator = style.between if self.explode else style.within
        encoded = self._encoded(_text(value), but=separator)
        if separator and separator in encoded:
            raise self._unwritten(f"{value!r} holds what separates it from the next value")
        return encoded

    def _key(self, key: str) -> str:
        encoded = self._item(key)
        if self.style == "deepObject":
            wrong = "[" in key or "]" in key
        else:
            wrong = self.explode and "=" in encoded
        if wrong:
            raise self._unwritten(f"the key {key!r} holds what ends a key")
        return encoded

    def _encoded(self, text: str, but: str = "") -> str:
        if self.place == "header":
            return _BREAKS.sub(" ", text)
        if not self.allows_reserved:
            return quote(text, safe="")
        return quote(text, safe=_RESERVED.replace(but, "") if but else _RESERVED)

    def _unwritten(self, why: str) -> NotExecuted:
        return NotExecuted(
            f"the {self.place} parameter {self.name!r} cannot be written: {why}, so nothing was sent"
        )


def parse_parameter(declared: Mapping[str, Any], where: str) -> tuple[OpenApiParameter, Any] | None:
    """Return a parameter and its schema, as declared; None for a header that is not a parameter's.

    Raises InputError with the parameter's name for a place, style or content that is not supported.
    """
    place, name = str(declared.get("in")), str(declared.get("name"))
    if place == "cookie":
        raise InputError(f"the cookie parameter {name!r} cannot be a model's", where=where)
    if place not in _PLACES:
        raise InputError(
            f"the parameter {name!r} is in {place!r}", where=where,
            hint=f"it may be in {', '.join(_PLACES)}",
        )  # fmt: skip
    if place == "header" and name.lower() in _IGNORED:
        return None
    usual = _PLACES[place][0]
    if content := declared.get("content"):
        return _of_content(name, place, usual, content, where)
    style = declared.get("style", usual)
    if style not in _PLACES[place]:
        raise InputError(
            f"the {place} parameter {name!r} has the style {style!r}", where=where,
            hint=f"it may have {' or '.join(_PLACES[place])}",
        )  # fmt: skip
    # The default that OpenAPI gives deepObject, false, has no form; that of true is what is meant.
    explode = bool(declared.get("explode", style in {"form", "deepObject"}))
    if explode if style.endswith("Delimited") else style == "deepObject" and not explode:
        raise InputError(
            f"the {place} parameter {name!r}: the style {style} has no form where explode is"
            f" {str(explode).lower()}",
            where=where,
            hint="leave explode out",
        )
    reserved = place == "query" and bool(declared.get("allowReserved"))
    return OpenApiParameter(name, place, style, explode, reserved), declared.get("schema", {})


def _of_content(
    name: str, place: str, style: str, content: Any, where: str
) -> tuple[OpenApiParameter, Any]:
    """Read a parameter that is written as a media type, of which there is exactly one."""
    kinds = [str(kind).partition(";")[0].strip().lower() for kind in content]
    is_json = len(kinds) == 1 and (kinds[0] == "application/json" or kinds[0].endswith("+json"))
    if not is_json:
        raise InputError(
            f"the {place} parameter {name!r} is written as {' or '.join(map(repr, kinds))}",
            where=where,
            hint="it may be application/json",
        )
    (declared,) = content.values()
    return OpenApiParameter(name, place, style, False, is_json=True), declared.get("schema", {})


def _json(value: Any, place: str) -> str:
    text = dumps(value)
    if place != "header":
        return text
    # Headers are Latin-1 or worse; outside of strings JSON is ASCII.
    return _BEYOND_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)
