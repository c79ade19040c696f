"""One order of parameters for models whose answers depend on it, and each schema's own in what is handed out.

The embedded network reads and writes parameters in a row, so it answers a few requests otherwise if a schema
lists the same parameters in another order. That order carries no meaning. So such a model (:attr:`Format.sorts_parameters`)
reads and writes them by name, whatever the schema's order is, and a finished call is put into the schema's order.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from callmemaybe.generation.validation import CHECKED_DEPTH
from callmemaybe.jsonio import is_deeper
from callmemaybe.tools import ToolCall, ToolSpec

#: Of how many tools the sorted ones are kept.
KEPT_TOOLS = 4096
#: How many schemas deep one is looked for that names a property.
MAX_DEPTH = 16

_OF_SCHEMAS = frozenset(
    ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
)
_SCHEMA_LISTS = frozenset(("anyOf", "oneOf", "allOf", "prefixItems"))
_SCHEMAS = frozenset(
    ("items", "additionalProperties", "additionalItems", "contains", "propertyNames", "not", "if",
     "then", "else", "unevaluatedItems", "unevaluatedProperties")
)  # fmt: skip
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str)


class SortedTools:
    """Tools with their parameters by name; the same tool gives the same object, as long as it is kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[ToolSpec, ToolSpec]] = OrderedDict()

    def of(self, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        """Return the tools, those whose parameters stand by name already as they are."""
        return tuple(map(self._sorted, tools))

    def _sorted(self, tool: ToolSpec) -> ToolSpec:
        known = self._kept.get(id(tool))
        if known is not None and known[0] is tool:
            return known[1]
        try:
            schema = sorted_schema(tool.parameters)
        except RecursionError:  # whoever compiles it says what is wrong with it
            schema = tool.parameters
        found = tool if schema is tool.parameters else replace(tool, parameters=schema)
        self._kept[id(tool)] = tool, found
        if len(self._kept) > KEPT_TOOLS:
            self._kept.popitem(last=False)
        return found


def sorted_schema(schema: Any) -> Any:
    """Return a JSON Schema with all properties by name; itself where they are so already."""
    if not isinstance(schema, Mapping):
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _OF_SCHEMAS and isinstance(value, Mapping):
            names = sorted(value, key=str) if key == "properties" else list(value)
            inner = {name: sorted_schema(value[name]) for name in names}
            is_same = names == list(value) and all(inner[name] is value[name] for name in names)
            found[key] = value if is_same else inner
        elif key in _SCHEMAS and isinstance(value, Mapping):
            found[key] = sorted_schema(value)
        elif (key in _SCHEMA_LISTS or key in _SCHEMAS) and isinstance(value, list):
            every = [sorted_schema(one) for one in value]
            is_same = all(one is other for one, other in zip(every, value, strict=True))
            found[key] = value if is_same else every
        else:
            found[key] = value
    return schema if all(found[key] is value for key, value in schema.items()) else found


def in_order_of(call: ToolCall, tool: ToolSpec) -> ToolCall:
    """Return a call with its arguments in the order of the tool's schema, in compact JSON, each value written as it was.

    One that is nested too deep to be checked is left as it is.
    """
    if is_deeper(call.arguments, CHECKED_DEPTH):
        return call
    whole = _Reordering(call.arguments.strip(), tool.parameters)
    text, _ = whole.value(0, tool.parameters)
    return call if text == call.arguments else replace(call, arguments=text)


@dataclass(frozen=True)
class _Reordering:
    """The text of a call's arguments, and the schema that all references in it are relative to."""

    text: str
    root: Any

    def value(self, at: int, schema: Any) -> tuple[str, int]:
        """Return the value at ``at``, its members in the order of ``schema``, and where it ends."""
        text = self.text
        if text[at] == "{":
            names = self._properties(schema)
            members: list[tuple[str, str]] = []
            end = self._skip(at + 1)
            while text[end] != "}":
                key, after = _DECODER.raw_decode(text, end)
                value, rest = self.value(self._skip(self._skip(after) + 1), names.get(key))
                members.append((key, f"{text[end:after]}:{value}"))
                end = self._next(rest)
            place = {name: index for index, name in enumerate(names)}
            members.sort(key=lambda member: place.get(member[0], len(place)))
            return f"{{{','.join(written for _, written in members)}}}", end + 1
        if text[at] == "[":
            items = schema.get("items") if isinstance(schema, Mapping) else None
            values: list[str] = []
            end = self._skip(at + 1)
            while text[end] != "]":
                value, rest = self.value(end, items)
                values.append(value)
                end = self._next(rest)
            return f"[{','.join(values)}]", end + 1
        _, end = _DECODER.raw_decode(text, at)
        return text[at:end], end

    def _skip(self, at: int) -> int:
        """Return where what is not space begins, from ``at`` on."""
        while self.text[at] in " \t\r\n":
            at += 1
        return at

    def _next(self, at: int) -> int:
        """Return where the next member or the closing bracket is, behind a value that ends at ``at``."""
        at = self._skip(at)
        return self._skip(at + 1) if self.text[at] == "," else at

    def _properties(self, schema: Any, depth: int = 0) -> dict[str, Any]:
        """Return the properties of a schema and of those that it is made of, in their order."""
        found: dict[str, Any] = {}
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return found
        parts: list[Any] = [self._referred(schema.get("$ref"))]
        for key in ("allOf", "anyOf", "oneOf"):
            some = schema.get(key)
            parts += some if isinstance(some, list) else ()
        own = schema.get("properties")
        for properties in (own, *(self._properties(part, depth + 1) for part in parts)):
            for name, inner in properties.items() if isinstance(properties, Mapping) else ():
                found.setdefault(name, inner)
        return found

    def _referred(self, reference: Any) -> Any:
        """Return what a reference within the schema is to; None for others."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        found = self.root
        for step in reference.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found
