"""A direct path for the schemas that most tools have; it builds the same nodes.

It covers objects of typed members, arrays of them, scalars, and restrictions of one scalar: each such schema
is complete by itself, so it needs no formulas. All others take the general path (`emit.py`), which also
writes the scalars. Since nodes of equal content are one object, a test compares both paths by identity.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

from callmemaybe.grammar.json_schema.arrays import array_body
from callmemaybe.grammar.json_schema.document import LATEST_DRAFT
from callmemaybe.grammar.json_schema.objects import (
    DeclaredMember,
    KeyClass,
    closed_body,
    object_body,
    other_keys,
)
from callmemaybe.grammar.json_schema.strings import SUPERSETS, is_old_format
from callmemaybe.grammar.json_schema.values import JsonStyle, can_be_written, quoted
from callmemaybe.grammar.nodes import Node, words

#: Keywords that do not affect which values are valid (where there is no reference).
ANNOTATION_KEYS = frozenset(
    ["description", "title", "default", "examples", "example", "deprecated", "readOnly",
     "writeOnly", "$comment", "$schema", "$defs", "definitions"]
)  # fmt: skip
_SCALAR_TYPES = frozenset(["string", "integer", "number", "float", "boolean", "null"])
#: Restrictions of one scalar that depend on nothing else.
_SCALAR_KEYWORDS = frozenset(
    ["type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
     "multipleOf", "minLength", "maxLength", "pattern", "format", "nullable"]
)  # fmt: skip
_OBJECT_KEYWORDS = frozenset(["type", "properties", "required", "additionalProperties"])
_ARRAY_KEYWORDS = frozenset(["type", "items", "minItems", "maxItems"])
_SCALARS = str | int | float | None
#: The same with annotations.
_TEXT_CONSTANT = frozenset({"const", "type"})
_SCALAR_KEYS, _OBJECT_KEYS, _ARRAY_KEYS = (
    ANNOTATION_KEYS | {"type"},
    ANNOTATION_KEYS | _OBJECT_KEYWORDS,
    ANNOTATION_KEYS | _ARRAY_KEYWORDS,
)
#: Scalar schemas that are cached, and the longest of them in characters.
CACHE_SIZE, MAX_CACHED_LENGTH = 4096, 2000
MAX_DEPTH = 40

_scalar_cache: dict[str, Node] = {}
#: Nodes of a type without restrictions.
_type_cache: dict[str, Node] = {}


class FastPath:
    """Writes common schemas in one style.

    ``general`` writes scalars (None: it refuses), ``any_value`` any JSON value. With ``may_defer``, formats
    that are deferred to a validator are not covered.
    """

    def __init__(
        self,
        style: JsonStyle,
        additional: bool,
        general: Callable[[Any], Node | None],
        any_value: Callable[[], Node],
        *,
        may_defer: bool = False,
    ) -> None:
        self._style = style
        self._additional = additional
        self._general = general
        self._any_value = any_value
        self._deferred_formats = SUPERSETS if may_defer else {}
        #: The draft of the schemas that are asked for.
        self.draft = LATEST_DRAFT
        self._not_covered: set[int] = set()

    def node(self, schema: Any, depth: int = 0) -> Node | None:
        """Return the node of a schema, or None if it is not covered."""
        if type(schema) is not dict or depth > MAX_DEPTH or id(schema) in self._not_covered:
            return None
        kind = schema.get("type")
        if kind in ("object", "dict"):
            found = self._object(schema, depth)
        elif kind in ("array", "tuple"):
            found = self._array(schema, depth)
        else:
            found = self._scalar(schema, kind)
        if found is None:
            self._not_covered.add(id(schema))
        return found

    def _scalar(self, schema: dict[str, Any], kind: Any) -> Node | None:
        if type(kind) is str:
            if kind not in _SCALAR_TYPES:
                return None
            if schema.keys() <= _SCALAR_KEYS:
                return self._of_kind(kind)
        keywords = schema.keys() - ANNOTATION_KEYS
        constant = schema.get("const")
        if (
            type(constant) is str
            and kind in ("string", None)
            and keywords <= _TEXT_CONSTANT
            and can_be_written(constant)
        ):
            return words((quoted(constant),))
        if type(kind) is str:
            values = schema.get("enum")
            if (
                kind == "string"
                and len(keywords) == 2
                and type(values) is list
                and _are_strings(values)
            ):
                return words(map(quoted, values))
        elif kind is None:
            if "enum" not in keywords and "const" not in keywords:
                return None
        elif type(kind) is not list or not all(type(k) is str and k in _SCALAR_TYPES for k in kind):
            return None
        if not keywords <= _SCALAR_KEYWORDS or not _is_flat(schema):
            return None
        name = schema.get("format")
        if type(name) is str and (
            name in self._deferred_formats or is_old_format(name, self.draft)
        ):
            return None
        limits = {key: value for key, value in schema.items() if key in keywords}
        try:
            text = repr(limits)
        except ValueError:  # an integer too long for Python to print
            return None
        return self._cached(text, limits, keywords) if len(text) <= MAX_CACHED_LENGTH else None

    def _of_kind(self, kind: str) -> Node | None:
        found = _type_cache.get(kind)
        if found is None:
            found = self._general({"type": kind})
            if found is not None:
                _type_cache[kind] = found
        return found

    def _cached(self, text: str, schema: dict[str, Any], keywords: AbstractSet[str]) -> Node | None:
        found = _scalar_cache.get(text)
        if found is None:
            found = self._general({key: value for key, value in schema.items() if key in keywords})
            if found is not None:
                if len(_scalar_cache) >= CACHE_SIZE:
                    _scalar_cache.clear()
                _scalar_cache[text] = found
        return found

    def _array(self, schema: dict[str, Any], depth: int) -> Node | None:
        if not schema.keys() <= _ARRAY_KEYS:
            return None
        at_least, at_most = schema.get("minItems", 0), schema.get("maxItems")
        if type(at_least) is not int or at_least < 0:
            return None
        if "maxItems" in schema and (type(at_most) is not int or at_most < 0):
            return None
        item = self.node(schema["items"], depth + 1) if "items" in schema else self._any_value()
        return None if item is None else array_body(self._style, [], item, at_least, at_most)

    def _object(self, schema: dict[str, Any], depth: int) -> Node | None:
        if not schema.keys() <= _OBJECT_KEYS:
            return None
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if type(properties) is not dict or type(required) is not list:
            return None
        for name in required:
            if type(name) is not str or name not in properties:
                return None
        required = frozenset(required)
        values: list[Node] = []
        for name, inner in properties.items():
            # Most members are of a type without restrictions.
            kind = inner.get("type") if type(inner) is dict else None
            value = _type_cache.get(kind) if type(kind) is str else None
            if value is None or not inner.keys() <= _SCALAR_KEYS:
                value = self.node(inner, depth + 1)
            if value is None or type(name) is not str or not can_be_written(name):
                return None
            values.append(value)
        others = schema.get("additionalProperties", self)
        extras: list[KeyClass] = []
        if others is self:
            if self._additional or "properties" not in schema:
                extras = [KeyClass(other_keys(list(properties)), self._any_value())]
        elif others is not False:
            node = self.node(others, depth + 1)
            if node is None:
                return None
            extras = [KeyClass(other_keys(list(properties)), node)]
        if not extras and (found := closed_body(self._style, properties, values, required)):
            return found
        parts = [
            DeclaredMember(quoted(name), value, name in required)
            for name, value in zip(properties, values, strict=True)
        ]
        return object_body(self._style, parts, extras, 0, None)


def _are_strings(values: list[Any]) -> bool:
    return bool(values) and all(type(value) is str and can_be_written(value) for value in values)


def _is_flat(schema: dict[str, Any]) -> bool:
    """Whether all listed values are scalars, which are written alike in every style."""
    values = schema.get("enum", ())
    return (
        type(values) in (list, tuple)
        and all(isinstance(value, _SCALARS) for value in values)
        and isinstance(schema.get("const"), _SCALARS)
    )
