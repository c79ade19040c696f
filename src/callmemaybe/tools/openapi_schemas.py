"""Schemas of OpenAPI documents as JSON Schemas of their own, without references into the document.

A reference is replaced by what it refers to. Where that would never end (a comment with replies, which are
comments), and in schemas that would become very large, it stays a reference, to a definition (``$defs``) that
the schema of the tool brings along.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from callmemaybe.errors import InputError
from callmemaybe.jsonio import resolve_pointer

#: Keywords whose value maps names to schemas, is a list of schemas, and is one schema.
_NAMED = ("properties", "patternProperties", "dependentSchemas")
_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_LISTED = (*_ALTERNATIVES, "prefixItems")
_SCHEMAS = (
    "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
#: Keywords that say nothing about values, and definitions, to which references lead through the document.
_ANCHOR = "$recursiveAnchor"
_NO_KEYWORDS = (
    "example", "xml", "externalDocs", "discriminator", "$defs", "definitions", _ANCHOR,
)  # fmt: skip
#: In OpenAPI 3.0 these are booleans: true makes the other keyword exclusive.
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_MAX_DEPTH = 100
#: A schema that would have more schemas inside keeps its references: one body of DocuSign's would have 265,132.
_LARGE = 1000


def dereference(document: Mapping[str, Any], value: Any, where: str) -> Mapping[str, Any]:
    """Return what a reference leads to; an object that is none is returned as it is.

    Raises InputError for what leads nowhere, outside the document, in a circle, or to no object.
    """
    return _follow(document, value, where)[1]


def _follow(
    document: Mapping[str, Any], value: Any, where: str
) -> tuple[str | None, Mapping[str, Any]]:
    """Return the last reference of a chain, None if there is none, and what it leads to."""
    seen: set[str] = set()
    reference = None
    while isinstance(value, Mapping) and isinstance(value.get("$ref"), str):
        reference = value["$ref"]
        if not reference.startswith("#/") or reference in seen:
            raise InputError(f"the reference {reference!r} cannot be followed", where=where)
        seen.add(reference)
        try:
            value = resolve_pointer(document, unquote(reference[1:]))
        except LookupError:
            raise InputError(f"there is nothing at {reference}", where=where) from None
    if not isinstance(value, Mapping):
        raise InputError("an object is expected", where=where)
    return reference, value


def _parts(schema: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the schemas directly below one."""
    for key in _NAMED:
        if isinstance(schema.get(key), Mapping):
            yield from schema[key].values()
    for key in _LISTED:
        if isinstance(schema.get(key), list):
            yield from schema[key]
    yield from (schema[key] for key in _SCHEMAS if isinstance(schema.get(key), Mapping))


@dataclass(frozen=True)
class OpenApiReferences:
    """Which references of a document lead back to themselves, and how much would stand in their places."""

    document: Mapping[str, Any]
    _leads_to: dict[str, frozenset[str]] = field(default_factory=dict)
    _is_recursive: dict[str, bool] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)

    def is_recursive(self, reference: str) -> bool:
        """Whether what a reference leads to refers, directly or not, to itself."""
        if reference not in self._is_recursive:
            self._find_circles(reference)
        return self._is_recursive[reference]

    def _find_circles(self, start: str) -> None:
        """Decide all that a reference leads to: Tarjan's strongly connected components, with a stack of its own."""
        order: dict[str, int] = {start: 0}
        lowest, open_ones = {start: 0}, [start]
        path = [(start, iter(self._next(start)))]
        while path:
            one, rest = path[-1]
            for after in rest:
                if after in self._is_recursive:
                    continue
                if after not in order:
                    order[after] = lowest[after] = len(order)
                    open_ones.append(after)
                    path.append((after, iter(self._next(after))))
                    break
                lowest[one] = min(lowest[one], order[after])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[one])
                if lowest[one] == order[one]:
                    place = open_ones.index(one) if open_ones[-1] != one else len(open_ones) - 1
                    circle, open_ones[place:] = open_ones[place:], []
                    for found in circle:
                        self._is_recursive[found] = len(circle) > 1 or found in self._next(found)

    def size(self, schema: Any) -> int:
        """Return how many schemas there are inside, where only references that are recursive stay."""
        try:
            reference, found = _follow(self.document, schema, "")
        except InputError:
            return 0  # said where it is used
        if reference is None:
            return self._inside(found)
        if reference not in self._sizes:
            self._sizes[reference] = self._inside(found)
        return self._sizes[reference]

    def _inside(self, found: Mapping[str, Any]) -> int:
        total = 0
        for part in _parts(found):
            reference = None
            with contextlib.suppress(InputError):
                reference, _ = _follow(self.document, part, "")
            stays = reference is not None and self.is_recursive(reference)
            total += 1 if stays else 1 + self.size(part)
        return total

    def _next(self, reference: str) -> frozenset[str]:
        """Return the references inside of what a reference leads to."""
        if reference not in self._leads_to:
            found: set[str] = set()
            above = resolve_pointer(self.document, unquote(reference[1:]))
            stack = [*_parts(above)]
            while stack:
                schema = stack.pop()
                if _is_dynamic(schema) and above.get(_ANCHOR) is True:
                    found.add(reference)
                    continue
                try:
                    leads, schema = _follow(self.document, schema, "")
                except InputError:
                    continue  # said where it is used
                if leads is None:
                    stack += _parts(schema)
                else:
                    found.add(leads)
            self._leads_to[reference] = frozenset(found)
        return self._leads_to[reference]


@dataclass(frozen=True)
class _Place:
    """Where a schema stands: for messages, and what it is a part of."""

    where: str
    depth: int = 0
    merged: tuple[str, ...] = ()
    """The references whose keywords hold here, too: of the definition, and down its ``allOf``."""
    is_large: bool = False
    """Whether the whole schema would be large without references."""
    anchor: str | None = None
    """The reference to which ``$recursiveRef`` leads."""

    def below(self, merged: tuple[str, ...] = ()) -> _Place:
        if self.depth == _MAX_DEPTH:
            raise InputError("the schema nests too deep", where=self.where)
        return replace(self, depth=self.depth + 1, merged=merged)


class OpenApiSchemas:
    """Reads the schemas of one operation; what refers to itself is gathered in ``definitions``."""

    def __init__(self, references: OpenApiReferences) -> None:
        self.definitions: dict[str, dict[str, Any]] = {}
        self.document = references.document
        self._references = references
        self._names: dict[str, str] = {}
        self._pending: list[tuple[str, str, _Place]] = []

    def read(self, schema: Any, where: str) -> dict[str, Any]:
        """Return a schema that leads nowhere but to ``definitions``. Raises InputError."""
        result = self._whole(schema, _Place(where))
        while self._pending:
            name, reference, place = self._pending.pop()
            self.definitions[name] = self._whole({"$ref": reference}, place)
        return result

    def _whole(self, schema: Any, place: _Place) -> dict[str, Any]:
        is_large = place.is_large or self._references.size(schema) > _LARGE
        return self._read(schema, _Place(place.where, is_large=is_large), is_whole=True)

    def _read(
        self, schema: Any, place: _Place, *, is_whole: bool = False, is_merged: bool = False
    ) -> dict[str, Any]:
        """Return a schema.

        ``is_whole`` asks for its keywords even where it refers to itself, ``is_merged`` even in a large one.
        """
        if place.anchor is not None and _is_dynamic(schema):
            schema = {"$ref": place.anchor}
        reference, found = _follow(self.document, schema, place.where)
        if reference is not None:
            is_recursive = self._references.is_recursive(reference)
            keeps = place.is_large and not is_merged and any(True for _ in _parts(found))
            if not is_whole and (is_recursive or keeps):
                return {"$ref": f"#/$defs/{self._define(reference, place)}"}
            if is_recursive and reference in place.merged:
                raise InputError(f"{reference} is a part of itself (allOf)", where=place.where)
            place = replace(place, merged=(*place.merged, reference))
            if found.get(_ANCHOR) is True:
                place = replace(place, anchor=reference)
        result = _keywords(found)
        for key in _NAMED:
            if isinstance(result.get(key), Mapping):
                parts = result[key].items()
                result[key] = {name: self._read(part, place.below()) for name, part in parts}
        for key in _SCHEMAS:
            if isinstance(result.get(key), Mapping):
                result[key] = self._read(result[key], place.below())
        for key in _LISTED:
            if isinstance(result.get(key), list):
                # Read-only properties are those of an object and of all its allOf: see drop_read_only.
                merged = key == "allOf"
                inner = place.below(place.merged if merged and is_whole else ())
                result[key] = [
                    self._read(part, inner, is_whole=merged and is_whole, is_merged=merged)
                    for part in result[key]
                ]
        return result

    def _define(self, reference: str, place: _Place) -> str:
        """Return the name of the definition that a reference leads to."""
        if reference not in self._names:
            stem = re.sub(r"[^\w.-]", "_", reference.rpartition("/")[2], flags=re.ASCII) or "_"
            name, count = stem, 1
            while name in self.definitions:
                count += 1
                name = f"{stem}_{count}"
            self._names[reference] = name
            self.definitions[name] = {}  # takes the name
            self._pending.append((name, reference, place))
        return self._names[reference]


def _is_dynamic(schema: Any) -> bool:
    """Whether a schema is draft 2019-09's reference to the innermost ``$recursiveAnchor``."""
    return isinstance(schema, Mapping) and schema.get("$recursiveRef") == "#"


def _keywords(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of a schema as JSON Schema 2020-12 has them."""
    result: dict[str, Any] = dict(schema)
    if result.pop("nullable", False) and isinstance(result.get("type"), str):
        result["type"] = [result["type"], "null"]  # OpenAPI 3.0
    for bound, limit in _EXCLUSIVE.items():
        if isinstance(result.get(bound), bool) and result.pop(bound) and limit in result:
            result[bound] = result.pop(limit)
    for key in _NO_KEYWORDS:
        result.pop(key, None)
    return result


def drop_read_only(schema: Any, hidden: frozenset[str] = frozenset()) -> None:
    """Remove the properties that only a response has, also from ``required``.

    OpenAPI 3.0.4, section "Schema Object", defines this for readOnly.
    """
    if isinstance(schema, list):
        for part in schema:
            drop_read_only(part)
    if not isinstance(schema, dict):
        return
    hidden |= _read_only(schema)
    for name in hidden & schema.get("properties", {}).keys():
        del schema["properties"][name]
    if hidden and "required" in schema:
        schema["required"] = [name for name in schema["required"] if name not in hidden]
    for key, part in schema.items():
        if key in _ALTERNATIVES:
            for one in part:
                drop_read_only(one, hidden)
        elif key in _NAMED:
            for one in part.values():
                drop_read_only(one)
        elif key in _SCHEMAS or key == "prefixItems":
            drop_read_only(part)


def _read_only(schema: Any) -> frozenset[str]:
    """Return the names of the read-only properties of an object, those in its allOf included."""
    if not isinstance(schema, Mapping):
        return frozenset()
    own = schema.get("properties", {}).items()
    found = {name for name, part in own if isinstance(part, Mapping) and part.get("readOnly")}
    return frozenset(found).union(*map(_read_only, schema.get("allOf", ())))
