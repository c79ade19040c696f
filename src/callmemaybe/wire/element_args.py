"""Arguments as elements inside of elements, and what a schema says of the values at each depth.

::

    ]<]minimax[>[<city>Paris]<]minimax[>[</city>
    ]<]minimax[>[<stops>]<]minimax[>[<item>Lyon]<]minimax[>[</item>]<]minimax[>[</stops>

One mark stands in front of every tag. An object has an element for each member, a list one of a fixed name for each
item; a string stands as it is. So the text ``2`` may be a string or a number, an element may hold a list or an object,
and an empty one a string, a list or an object: the kinds of values that the schema allows at this place tell. Where
that leaves a choice:

- a text that looks like JSON is JSON, also an empty list or object that would look like another value;
- elements are a list if the first has the name of items, and an object otherwise;
- an empty element is a string, or an object, or a list: the first of these that may stand there.

``element_grammar`` and ``element_parser`` are the other two readings; all three ask :class:`ValuePlaces`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.grammar.nodes import Control
from callmemaybe.jsonio import dumps
from callmemaybe.tools.schemas import normalize_dialect
from callmemaybe.wire.arg_syntax import (
    LOOKS_LIKE_JSON,
    ArgSyntax,
    arguments_object,
    ends_early,
    follow_reference,
)

#: The schemas that a value may have to meet, one of them at least, by their numbers.
Place = frozenset[int]
#: Kinds of values: strings; numbers, booleans and null; lists; objects.
ALL_KINDS = frozenset(("text", "scalar", "array", "object"))
_KINDS = {"string": "text", "array": "array", "object": "object"} | dict.fromkeys(
    ("number", "integer", "boolean", "null"), "scalar"
)
_ANYTHING: Place = frozenset((0,))
#: How many references and alternatives are followed at one place, and how many behind each other.
_MAX_STEPS, _MAX_DEPTH = 2_000, 30


def lead_of(syntax: ArgSyntax) -> str:
    """Return the mark in front of every tag."""
    assert syntax.top is not None
    return syntax.top.before_key[:-1]


def empty_kind(kinds: frozenset[str]) -> str:
    """Return the kind of value that an empty element is; a "scalar" is null, as templates write it."""
    return next((kind for kind in ("text", "object", "array") if kind in kinds), "scalar")


def may_be_either(kinds: frozenset[str]) -> bool:
    """Whether only the names of its elements tell whether a value is a list or an object."""
    return ("array" in kinds) == ("object" in kinds)


def can_be_tag(key: str) -> bool:
    """Whether a key can be the name of an element."""
    return bool(key) and key[0] != "/" and ">" not in key


class ValuePlaces:
    """The places of values in the arguments of a tool, and which kinds of values may stand there.

    The kinds are an upper bound. A place is told by the schemas at it, so recursive schemas have finitely many.
    """

    def __init__(self, parameters: Mapping[str, Any] | None) -> None:
        """Prepare for a tool with these parameters (None: unknown)."""
        self._root = parameters or {}
        self._schemas: list[Any] = [True]
        self._numbers: dict[int, int] = {}
        self._inner: dict[tuple[Place, str | None], Place] = {}
        self._kinds: dict[Place, frozenset[str]] = {_ANYTHING: ALL_KINDS}
        #: The place of the arguments as a whole.
        self.root = self._place([{"type": "object", "allOf": [self._root]}])

    def _place(self, schemas: Iterable[Any]) -> Place:
        found = set()
        for schema in schemas:
            if not isinstance(schema, Mapping):
                return _ANYTHING
            if id(schema) not in self._numbers:
                self._numbers[id(schema)] = len(self._schemas)
                self._schemas.append(schema)  # which keeps it alive, and its id its own
            found.add(self._numbers[id(schema)])
        return frozenset(found) or _ANYTHING

    def kinds(self, place: Place) -> frozenset[str]:
        """Return the kinds of values that may stand at a place."""
        if place not in self._kinds:
            every = (self._kinds_of(self._schemas[one], iter(range(_MAX_STEPS))) for one in place)
            self._kinds[place] = frozenset[str]().union(*every)
        return self._kinds[place]

    def member(self, place: Place, key: str) -> Place:
        """Return the place of an object's member."""
        return self._inside(place, key)

    def item(self, place: Place) -> Place:
        """Return the place of a list's items; it is the same for all of them."""
        return self._inside(place, None)

    def declared(self, place: Place) -> frozenset[str]:
        """Return the names that some schema at a place has properties for."""
        found: set[str] = set()
        waiting, seen = [self._schemas[one] for one in place], set[int]()
        while waiting:
            schema = waiting.pop()
            if not isinstance(schema, Mapping) or id(schema) in seen:
                continue
            seen.add(id(schema))
            if isinstance(properties := schema.get("properties"), Mapping):
                found.update(properties)
            waiting += [
                *self._parts(schema),
                *(o for those in _alternatives(schema) for o in those),
            ]
        return frozenset(found)

    # -- one schema; ``steps`` end a recursion without end, or with very many ways ----------------

    def _kinds_of(self, schema: Any, steps: Iterator[int], depth: int = 0) -> frozenset[str]:
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or next(steps, None) is None:
            return ALL_KINDS
        found = set(ALL_KINDS)
        type_keywords = {key: schema[key] for key in ("type", "nullable") if key in schema}
        if (kind := normalize_dialect(type_keywords).get("type")) is not None:
            types = kind if isinstance(kind, list) else [kind]
            found &= {_KINDS.get(one, one) for one in types}
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(values, list):
            found &= {_kind_of(value) for value in values}
        for part in self._parts(schema):
            found &= self._kinds_of(part, steps, depth + 1)
        for options in _alternatives(schema):
            found &= {one for option in options for one in self._kinds_of(option, steps, depth + 1)}
        return frozenset(found)

    def _parts(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the schemas that a value has to meet, too."""
        if isinstance(reference := schema.get("$ref"), str):
            yield follow_reference(reference, self._root)
        if isinstance(every := schema.get("allOf"), list):
            yield from every

    def _inside(self, place: Place, key: str | None) -> Place:
        if (place, key) not in self._inner:
            schemas = [self._schemas[one] for one in place]
            found = [self._inside_of(one, key, iter(range(_MAX_STEPS))) for one in schemas]
            self._inner[place, key] = _union(found)
        return self._inner[place, key]

    def _inside_of(
        self, schema: Any, key: str | None, steps: Iterator[int], depth: int = 0
    ) -> Place:
        """Return the place of a member, or of items (None), of the values of one schema."""
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or next(steps, None) is None:
            return _ANYTHING
        own = _own_items(schema) if key is None else _own_members(schema, key)
        ways = [self._place(own)]
        ways += [self._inside_of(one, key, steps, depth + 1) for one in self._parts(schema)]
        holder = "array" if key is None else "object"
        for options in _alternatives(schema):
            fitting = [
                one for one in options if holder in self._kinds_of(one, iter(range(_MAX_STEPS)))
            ]
            ways.append(_union(self._inside_of(one, key, steps, depth + 1) for one in fitting))
        # Each of them holds, so each is an upper bound.
        return min(ways, key=lambda way: (len(self.kinds(way)), 0 in way))


def _union(places: Iterable[Place]) -> Place:
    found = frozenset[int]().union(*places)
    return _ANYTHING if 0 in found or not found else found


def _alternatives(schema: Mapping[str, Any]) -> Iterator[list[Any]]:
    for keyword in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(keyword), list):
            yield options


def _own_members(schema: Mapping[str, Any], key: str) -> list[Any]:
    """Return the schemas, one of which a member has to meet as far as these keywords say."""
    properties, others = schema.get("properties"), schema.get("additionalProperties", True)
    if isinstance(properties, Mapping) and key in properties:
        return [properties[key]]
    patterns = schema.get("patternProperties")
    return [*(patterns.values() if isinstance(patterns, Mapping) else ()), others]


def _own_items(schema: Mapping[str, Any]) -> list[Any]:
    """Return the schemas, one of which an item has to meet as far as these keywords say."""
    items = schema.get("items", True)
    if isinstance(items, list):  # up to draft 2019-09
        return [*items, schema.get("additionalItems", True)]
    firsts = schema.get("prefixItems")
    return [*(firsts if isinstance(firsts, list) else ()), items]


def _kind_of(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "scalar"


# -- writing --------------------------------------------------------------------------------------


def render_elements(
    syntax: ArgSyntax, arguments: str, parameters: Mapping[str, Any] | None
) -> Iterator[str | Control]:
    """Write arguments (JSON text) of a tool with these parameters as elements.

    Raises InputError for what elements cannot say, and what ``arguments_object`` does.
    """
    value = arguments_object(arguments, "arguments")
    assert syntax.top is not None
    writer = _ElementWriter(syntax, ValuePlaces(parameters))
    yield from writer.members(value, writer.places.root)
    yield from syntax.split(syntax.top.end)


class _ElementWriter:
    def __init__(self, syntax: ArgSyntax, places: ValuePlaces) -> None:
        self._syntax = syntax
        self._lead = lead_of(syntax)
        self._stop = syntax.text_stop(self._lead)
        self.places = places

    def members(self, value: Mapping[str, Any], place: Place) -> Iterator[str | Control]:
        if self._syntax.item in value and may_be_either(self.places.kinds(place)):
            raise InputError(
                f"this format cannot write an object with the key {self._syntax.item!r} where a list may stand"
            )
        for key, inner in value.items():
            if not can_be_tag(key):
                raise InputError(f"this format cannot write a parameter's name like {key!r}")
            yield from self._element(key, inner, self.places.member(place, key))

    def _element(self, name: str, value: Any, place: Place) -> Iterator[str | Control]:
        yield from (*self._syntax.split(self._lead), f"<{name}>")
        yield from self._content(value, place)
        yield from (*self._syntax.split(self._lead), f"</{name}>")

    def _content(self, value: Any, place: Place) -> Iterator[str | Control]:
        kinds = self.places.kinds(place)
        if isinstance(value, str):
            yield self._text(value, kinds)
        elif isinstance(value, dict | list) and not value:
            empty = "object" if isinstance(value, dict) else "array"
            yield "" if empty_kind(kinds) == empty else dumps(value)
        elif isinstance(value, dict):
            yield from self.members(value, place)
        elif isinstance(value, list):
            for item in value:
                yield from self._element(self._syntax.item, item, self.places.item(place))
        else:
            yield dumps(value)

    def _text(self, value: str, kinds: frozenset[str]) -> str:
        if kinds == {"text"}:
            if ends_early(value, self._stop):
                raise InputError(f"this format cannot write a string that holds {self._stop!r}")
            return value
        is_plain = LOOKS_LIKE_JSON.match(value) is None and not ends_early(value, self._stop)
        return value if is_plain and "text" in kinds else dumps(value)
