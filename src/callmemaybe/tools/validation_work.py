"""Counts how much work a validator would have with a schema and a value, without doing that work.

A definition that the next one refers to twice is checked four times two levels up, and a schema of 4 KB has 32
levels: the validator (which holds the interpreter meanwhile) would take hours, and its error gigabytes. Here a
pair of a schema and a value is looked at once, however often it would be checked, so the exact number of checks
is known after one step for each pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

#: Checks that one value may take: about a second of the validator at the worst.
MAX_CHECKS = 4_000_000
#: Pairs of a schema and a value that are counted: some tenths of a second.
MAX_PAIRS = 100_000
#: What the description of an error may take: each failed check copies the value. About 60 bytes each.
MAX_ERROR_WEIGHT = 1_000_000
#: Checks within checks; the validator recurses.
MAX_DEPTH = 1_000
#: What a failed check takes in an error besides its value.
_ERROR = 64
#: Schemas that the validator reads anew at each place from which ``unevaluated*`` looks at them.
MAX_COPIES = 20_000
#: Schemas with a dynamic anchor: the validator reads each anew for each way to it.
MAX_DYNAMIC = 12

_IN_PLACE = ("not", "if", "then", "else")
_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
#: A pattern for keys that begin with this text.
_PREFIX = re.compile(r"\^([\w\-/ ]+)(?![?*{+|])(?!.*\|)", re.DOTALL)
_BACKTRACKING = re.compile(r"\(\?[=!<]|\\[1-9]")


class TooMuchWork(Exception):
    """The work passes a limit; the message says which."""


class Work(NamedTuple):
    """What checking a value takes: checks, the weight of the errors if all fail, and checks within checks."""

    checks: int
    errors: int
    depth: int


class WorkCounter:
    """Counts for one schema. Raises TooMuchWork for a schema that the validator cannot even read."""

    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._named: dict[str, list[Any]] = {}
        self._own: dict[int, int] = {}
        self._index()
        #: The checks of all parts of the schema, references followed; None if there is no end to them.
        self.expanded = self._expand([self._root], self._all_parts)
        if self._dynamic > MAX_DYNAMIC:
            raise TooMuchWork(f"more than {MAX_DYNAMIC} schemas have a dynamic anchor")
        if self._lookers:
            copies = self._expand(self._lookers, self._copied_parts)
            if copies is None or copies > MAX_COPIES:
                raise TooMuchWork(
                    f"the schemas that unevaluated* looks at are more than {MAX_COPIES:,}"
                )

    def count(self, value: Any) -> Work:
        """Count the work for a value. Raises TooMuchWork where it passes a limit."""
        return _Count(self).of(value)

    # -- the schema ---------------------------------------------------------------------------

    def _index(self) -> None:
        """Note the schemas that have a name, and those that look at what others evaluated."""
        self._lookers: list[Any] = []
        self._dynamic = 0
        stack, seen = [self._root], set()
        while stack:
            part = stack.pop()
            if isinstance(part, list | tuple):
                stack.extend(part)
            elif isinstance(part, Mapping) and id(part) not in seen:
                seen.add(id(part))
                if any(keyword in part for keyword in _UNEVALUATED):
                    self._lookers.append(part)
                self._dynamic += "$dynamicAnchor" in part or "$recursiveAnchor" in part
                for keyword in ("$anchor", "$dynamicAnchor", "$id", "id"):
                    name = part.get(keyword)
                    if isinstance(name, str):
                        key = "#" + name if "nchor" in keyword else name
                        self._named.setdefault(key, []).append(part)
                stack.extend(schemas_within(part))

    def targets(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        """Yield every schema that a reference of this one may mean."""
        for keyword in _REFERENCES:
            reference = schema.get(keyword)
            if isinstance(reference, str):
                yield from self._meant(reference)

    def _meant(self, reference: str) -> Iterator[Any]:
        uri, _, fragment = reference.partition("#")
        starts = [self._root]
        if uri:
            last = uri.rpartition("/")[2]
            starts = [
                part
                for name, parts in self._named.items()
                if name.rstrip("#").rpartition("/")[2] == last
                for part in parts
            ]
        if not fragment:
            yield from starts
        elif fragment.startswith("/"):
            holders = starts if uri else [self._root, *self._resources()]
            for start in holders:
                found = _walk(start, fragment)
                if found is not None:
                    yield found
        else:
            yield from self._named.get("#" + fragment, ())

    def _resources(self) -> Iterator[Any]:
        for name, parts in self._named.items():
            if not name.startswith("#"):
                yield from parts

    def own(self, schema: Mapping[str, Any]) -> int:
        """Return the checks of the keywords of a schema that hold no schemas."""
        found = self._own.get(id(schema))
        if found is None:
            found = 1
            for keyword, value in schema.items():
                if keyword in {"enum", "const"}:
                    found += _size(value)
                elif keyword in {"required", "properties"}:
                    found += len(value) // 8 if isinstance(value, list | tuple | Mapping) else 1
            self._own[id(schema)] = found
        return found

    def in_place(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the schemas that are checked with the same value."""
        yield from self.targets(schema)
        for keyword in _IN_PLACE:
            if keyword in schema:
                yield schema[keyword]
        for keyword in _IN_PLACE_LISTS:
            parts = schema.get(keyword)
            if isinstance(parts, list | tuple):
                yield from parts
        for keyword in ("dependentSchemas", "dependencies"):
            parts = schema.get(keyword)
            if isinstance(parts, Mapping):
                yield from parts.values()

    def inner(self, schema: Mapping[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the schemas that are checked with parts of a value, with these."""
        if isinstance(value, Mapping):
            yield from self._members(schema, value)
        elif isinstance(value, list | tuple):
            prefix = schema.get("prefixItems")
            items = schema.get("items")
            if isinstance(items, list | tuple):
                prefix = items
            elif items is not None:
                yield from ((items, one) for one in value)
            if isinstance(prefix, list | tuple):
                yield from zip(prefix, value, strict=False)
            for keyword in ("contains", "additionalItems", "unevaluatedItems"):
                if keyword in schema:
                    yield from ((schema[keyword], one) for one in value)

    @staticmethod
    def _members(schema: Mapping[str, Any], value: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
        properties = schema.get("properties")
        declared = properties if isinstance(properties, Mapping) else {}
        for name, one in value.items():
            if name in declared:
                yield declared[name], one
            elif "additionalProperties" in schema:
                yield schema["additionalProperties"], one
            if "unevaluatedProperties" in schema:
                yield schema["unevaluatedProperties"], one
            if "propertyNames" in schema:
                yield schema["propertyNames"], name
        patterns = schema.get("patternProperties")
        if isinstance(patterns, Mapping):
            for pattern, part in patterns.items():
                prefix = _PREFIX.match(pattern)
                start = prefix[1] if prefix is not None else ""
                yield from ((part, one) for name, one in value.items() if name.startswith(start))

    def _all_parts(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        yield from self.in_place(schema)
        for keyword in ("additionalProperties", "unevaluatedProperties", "propertyNames", "contains",
                        "additionalItems", "unevaluatedItems"):  # fmt: skip
            if keyword in schema:
                yield schema[keyword]
        for keyword in ("properties", "patternProperties"):
            parts = schema.get(keyword)
            if isinstance(parts, Mapping):
                yield from parts.values()
        for keyword in ("items", "prefixItems"):
            parts = schema.get(keyword)
            if parts is not None:
                yield from parts if isinstance(parts, list | tuple) else (parts,)

    def _copied_parts(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        yield from self.in_place(schema)
        for keyword in _UNEVALUATED:
            if keyword in schema:
                yield schema[keyword]

    def _expand(self, roots: list[Any], parts_of: Any) -> int | None:
        """Return the checks of schemas with all their parts; None if one of them contains itself."""
        known: dict[int, int | None] = {}
        stack: list[tuple[Any, bool]] = [(root, False) for root in roots]
        while stack:
            schema, is_done = stack.pop()
            if not isinstance(schema, Mapping):
                continue
            key = id(schema)
            if is_done:
                total: int | None = self.own(schema)
                for part in parts_of(schema):
                    if isinstance(part, Mapping):
                        found = known.get(id(part), 0)
                        total = None if total is None or found is None else total + found
                    elif total is not None:
                        total += 1
                known[key] = total
            elif key not in known:
                known[key] = None  # inside itself it is without end
                stack.append((schema, True))
                stack += [(part, False) for part in parts_of(schema)]
        totals = [known.get(id(root), 1) for root in roots]
        return None if None in totals else sum(one for one in totals if one is not None)


class _Count:
    """One count: the work of each pair of a schema and a value, found once."""

    def __init__(self, counter: WorkCounter) -> None:
        self._counter = counter
        self._known: dict[tuple[int, int], Work | None] = {}
        self._looked: dict[tuple[int, int], int] = {}
        self._sizes: dict[int, int] = {}

    def of(self, value: Any) -> Work:
        root = self._counter._root  # noqa: SLF001 - of this module
        stack: list[tuple[Any, Any, list[tuple[Any, Any]] | None]] = [(root, value, None)]
        while stack:
            schema, one, parts = stack.pop()
            key = id(schema), id(one)
            if not isinstance(schema, Mapping):
                self._known[key] = Work(1, _ERROR, 1)
            elif parts is not None:
                self._known[key] = self._sum(schema, one, parts)
            elif key not in self._known:
                if len(self._known) >= MAX_PAIRS:
                    raise TooMuchWork(f"it takes more than {MAX_PAIRS:,} pairs of schema and value")
                self._known[key] = None
                parts = [(part, one) for part in self._counter.in_place(schema)]
                parts += self._counter.inner(schema, one)
                stack.append((schema, one, parts))
                stack += [(part, inner, None) for part, inner in parts]
        found = self._known[id(root), id(value)]
        assert found is not None
        return found

    def _sum(self, schema: Mapping[str, Any], value: Any, parts: list[tuple[Any, Any]]) -> Work:
        checks = self._counter.own(schema) + _text_checks(schema, value)
        errors, depth = _ERROR + self._size_of(value), 0
        again = 0
        for part, inner in parts:
            known = self._known.get((id(part), id(inner)), Work(1, _ERROR, 1))
            if known is None:
                raise TooMuchWork("it leads back to itself without any value in between")
            checks += known.checks
            errors += known.errors
            depth = max(depth, known.depth)
            if inner is value:
                again += known.checks + self._looked.get((id(part), id(inner)), 0)
        if again:
            self._looked[id(schema), id(value)] = again
            if any(keyword in schema for keyword in _UNEVALUATED):
                # It looks at the schemas in place again for each member.
                checks += again * (1 + (len(value) if isinstance(value, Mapping | list) else 0))
        if checks > MAX_CHECKS:
            raise TooMuchWork(f"it takes more than {MAX_CHECKS:,} checks")
        if depth >= MAX_DEPTH:
            raise TooMuchWork(f"it takes more than {MAX_DEPTH:,} checks within checks")
        return Work(checks, errors, depth + 1)

    def _size_of(self, value: Any) -> int:
        if isinstance(value, str):
            return 1 + len(value) // 16
        if not isinstance(value, Mapping | list | tuple):
            return 1
        found = self._sizes.get(id(value))
        if found is None:
            found = self._sizes[id(value)] = _size(value)
        return found


def _text_checks(schema: Mapping[str, Any], value: Any) -> int:
    """Return the checks that patterns take, by the length of the text."""
    patterns = schema.get("patternProperties")
    found = (
        len(patterns) * len(value)
        if isinstance(patterns, Mapping) and isinstance(value, Mapping)
        else 0
    )
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and isinstance(value, str):
        found += len(value) // 16
        if _BACKTRACKING.search(pattern):
            found += min(len(value) ** 2 // 64, 20_000)
    if schema.get("uniqueItems") is True and isinstance(value, list | tuple):
        found += len(value)
    return found


def schemas_within(part: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the values of a part of a schema that may hold schemas; an enumeration is data, and perhaps much."""
    return (one for key, one in part.items() if key != "enum" or not isinstance(one, list | tuple))


def size_of(value: Any) -> int:
    """Return the size of a JSON value: its parts, and one for sixteen characters."""
    return _size(value)


def _size(value: Any) -> int:
    found, stack = 0, [value]
    while stack:
        one = stack.pop()
        found += 1
        if isinstance(one, str):
            found += len(one) // 16
        elif isinstance(one, Mapping):
            found += len(one)
            stack.extend(one.values())
        elif isinstance(one, list | tuple):
            # An enumeration may be long.
            found += sum([type(part) is int for part in one])
            found += sum([1 + len(part) // 16 for part in one if type(part) is str])
            stack.extend([part for part in one if type(part) is not int and type(part) is not str])
    return found


def _walk(start: Any, pointer: str) -> Any:
    from urllib.parse import unquote

    at = start
    for token in unquote(pointer).split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        if isinstance(at, Mapping) and token in at:
            at = at[token]
        elif (
            isinstance(at, list | tuple)
            and token.isascii()
            and token.isdecimal()
            and int(token) < len(at)
        ):
            at = at[int(token)]
        else:
            return None
    return at
