"""Values out as JSON text: the digits of a number as they were generated, strings exact.

A parameter that its schema declares a ``number`` is written as a float (``3`` becomes ``3.0``) by
adding to the digits, never by converting them. Nothing here recurses, so depth is no danger.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from callmemaybe.jsonio.reader import Number

#: Schemas that hold for one place of a value, each already resolved.
Schemas = tuple[Mapping[str, object], ...]

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def write(value: object, schema: Mapping[str, object] | None = None) -> str:
    """Return ``value`` as JSON on one line, with the separators of :func:`json.dumps`.

    ``value`` holds dict, list, str, bool, None and Number; ``schema`` says which numbers are
    floats.
    """
    resolve = partial(_resolve, root=schema or {})
    parts: list[str] = []
    stack: list[Iterator[str | tuple[object, Schemas]]] = [iter([(value, resolve([schema]))])]
    while stack:
        for item in stack[-1]:
            if isinstance(item, str):
                parts.append(item)
                continue
            inner, schemas = item
            if isinstance(inner, dict):
                stack.append(_object(inner, schemas, resolve))
                break
            if isinstance(inner, list):
                stack.append(_array(inner, schemas, resolve))
                break
            parts.append(_scalar(inner, schemas))
        else:
            stack.pop()
    return "".join(parts)


def write_string(text: str) -> str:
    """Return ``text`` as a JSON string that only escapes what must be."""
    return escape_surrogates(json.dumps(text, ensure_ascii=False))


def escape_surrogates(text: str) -> str:
    """Escape halves of surrogate pairs in JSON text: they have no UTF-8 and survive exactly."""
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _scalar(value: object, schemas: Schemas) -> str:
    if isinstance(value, Number):
        return _as_float(value) if _is_float(schemas) else str(value)
    if isinstance(value, str):
        return write_string(value)
    return json.dumps(value)


def _as_float(digits: str) -> str:
    return digits if any(letter in digits for letter in ".eE") else digits + ".0"


def _is_float(schemas: Schemas) -> bool:
    types: set[object] = set()
    for schema in schemas:
        named = schema.get("type")
        types.update(named if isinstance(named, (list, tuple)) else [named])
    # "float" and "any" are the Berkeley Function Calling Leaderboard's.
    return not types.isdisjoint(("number", "float")) and types.isdisjoint(("integer", "any"))


def _object(
    value: dict[str, object], schemas: Schemas, resolve: Callable[[list[object]], Schemas]
) -> Iterator[str | tuple[object, Schemas]]:
    yield "{"
    for position, (key, inner) in enumerate(value.items()):
        yield (", " if position else "") + write_string(key) + ": "
        yield inner, resolve([found for schema in schemas for found in _of_key(schema, key)])
    yield "}"


def _array(
    value: list[object], schemas: Schemas, resolve: Callable[[list[object]], Schemas]
) -> Iterator[str | tuple[object, Schemas]]:
    yield "["
    for position, inner in enumerate(value):
        if position:
            yield ", "
        yield inner, resolve([_of_index(schema, position) for schema in schemas])
    yield "]"


def _of_key(schema: Mapping[str, object], key: str) -> list[object]:
    properties = schema.get("properties")
    found = [properties[key]] if isinstance(properties, Mapping) and key in properties else []
    patterns = schema.get("patternProperties")
    if isinstance(patterns, Mapping):
        found += [inner for pattern, inner in patterns.items() if _matches(pattern, key)]
    return found or [schema.get("additionalProperties")]


def _matches(pattern: str, key: str) -> bool:
    try:
        return re.search(pattern, key) is not None
    except re.error:
        # An ECMA-262 pattern that Python cannot read: the digits stay as generated.
        return False


def _of_index(schema: Mapping[str, object], index: int) -> object:
    items = schema.get("items")
    # "prefixItems" since 2020-12; a list under "items" before.
    prefix = items if isinstance(items, list) else schema.get("prefixItems")
    if isinstance(prefix, list):
        if index < len(prefix):
            return prefix[index]
        return schema.get("additionalItems") if prefix is items else items
    return items


def _resolve(schemas: list[object], *, root: Mapping[str, object]) -> Schemas:
    """Follow references and combinations until nothing new appears."""
    found: dict[int, Mapping[str, object]] = {}
    todo = list(schemas)
    while todo:
        schema = todo.pop()
        if not isinstance(schema, Mapping) or id(schema) in found:
            continue
        found[id(schema)] = schema
        for keyword in ("allOf", "anyOf", "oneOf"):
            branches = schema.get(keyword)
            todo.extend(branches if isinstance(branches, list) else [])
        todo.extend(schema.get(keyword) for keyword in ("if", "then", "else"))
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            todo.append(_at(root, reference[1:]))
    return tuple(found.values())


def _at(root: object, pointer: str) -> object:
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(root, Mapping):
            root = root.get(key)
        elif isinstance(root, list) and key.isdigit() and int(key) < len(root):
            root = root[int(key)]
        else:
            return None
    return root
