"""Arguments that refer to results of earlier calls: ``{"$ref": "call_1.temperature"}``.

:func:`add_reference_options` puts the possible references into a schema, for the grammar;
:func:`resolve_references` replaces references by results, for the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.jsonio import dumps, join_pointer, loads
from callmemaybe.tools.schemas import normalize_dialect
from callmemaybe.tools.spec import ToolCall, ToolSpec

#: How deep a reference may reach into a result, and how many fields of one result are offered.
MAX_DEPTH, MAX_FIELDS = 3, 64
KEY = "$ref"


def add_reference_options(
    tool: ToolSpec, returns: Mapping[str, Mapping[str, Any] | None]
) -> Mapping[str, Any]:
    """Return the tool's parameters, each of which may be a reference to an earlier call instead.

    ``returns`` maps the id of a call to the schema of its result, None if unknown: then the whole result
    is offered for every parameter. A field is offered where its types are among the parameter's.
    """
    properties = tool.parameters.get("properties")
    if not returns or not isinstance(properties, Mapping):
        return tool.parameters
    changed = {}
    for name, schema in properties.items():
        targets = [
            one for call_id, result in returns.items() for one in _targets(call_id, result, schema)
        ]
        changed[name] = {"anyOf": [schema, _reference(targets)]} if targets else schema
    return {**tool.parameters, "properties": changed}


def _reference(targets: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {KEY: {"enum": targets}},
        "required": [KEY],
        "additionalProperties": False,
    }


def _targets(call_id: str, returns: Mapping[str, Any] | None, schema: Any) -> list[str]:
    if returns is None:
        return [call_id]
    wanted = _types(schema)
    found: list[str] = []
    stack: list[tuple[str, Any, int]] = [(call_id, returns, 0)]
    while stack and len(found) < MAX_FIELDS:
        path, made, depth = stack.pop(0)
        given = _types(made)
        if given is not None and (wanted is None or given <= wanted):
            found.append(path)
        inner = made.get("properties") if isinstance(made, Mapping) else None
        if isinstance(inner, Mapping) and depth < MAX_DEPTH:
            # An optional field may be missing from the result.
            required = made.get("required") or ()
            stack += [
                (f"{path}.{key}", one, depth + 1)
                for key, one in inner.items()
                if key in required and "." not in key
            ]
    return found


def _types(schema: Any) -> frozenset[str] | None:
    """Return the types that a schema allows (a number may be an integer), None if it does not say."""
    if not isinstance(schema, Mapping):
        return None
    kinds = normalize_dialect(
        {key: schema[key] for key in ("type", "nullable") if key in schema}
    ).get("type")
    if isinstance(kinds, str | list):
        listed = [kinds] if isinstance(kinds, str) else kinds
        return frozenset(listed) | ({"integer"} if "number" in listed else frozenset())
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            every = [_types(one) for one in schema[keyword]]
            known = [one for one in every if one is not None]
            return frozenset().union(*known) if len(known) == len(every) else None
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list):
        return frozenset(map(_type_of, values))
    return None


def _type_of(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    for kind, name in ((str, "string"), (int, "integer"), (list, "array"), (Mapping, "object")):
        if isinstance(value, kind):
            return name
    return "number"


def references(call: ToolCall) -> list[str]:
    """Return the targets of the references among the call's arguments: ``call_1.temperature``."""
    return [one for one in map(_target, call.parsed.values()) if one is not None]


def _target(value: Any) -> str | None:
    if isinstance(value, Mapping) and value.keys() == {KEY} and isinstance(value[KEY], str):
        return str(value[KEY])
    return None


def resolve_references(call: ToolCall, results: Mapping[str, str]) -> ToolCall:
    """Return the call with its references replaced by results; ``results`` maps call ids to texts.

    A result that is JSON gives its fields; any other one is a string. Raises InputError with the pointer
    of the argument for a reference to a result, or to a field of one, that does not exist.
    """
    arguments = call.parsed
    if not references(call):
        return call
    found = {}
    for name, value in arguments.items():
        target = _target(value)
        found[name] = value if target is None else _look_up(target, results, f"/arguments/{name}")
    return ToolCall(call.name, dumps(found), call.id)


def references_as_pointers(call: ToolCall) -> ToolCall:
    """Return the call with its references in the form of the gateway: ``call_1#/temperature``."""
    if not references(call):
        return call
    found = {}
    for name, value in call.parsed.items():
        target = _target(value)
        if target is not None and not target.startswith("#"):  # a reference within a schema
            call_id, *path = target.split(".")
            value = {KEY: call_id + ("#" + join_pointer(path) if path else "")}
        found[name] = value
    return ToolCall(call.name, dumps(found), call.id)


def _look_up(target: str, results: Mapping[str, str], where: str) -> Any:
    call_id, *path = target.split(".")
    if call_id not in results:
        raise InputError(f"there is no result of {call_id!r} to refer to", where=where)
    try:
        value = loads(results[call_id])
    except InputError:
        value = results[call_id]
    for step in path:
        if not isinstance(value, Mapping) or step not in value:
            raise InputError(f"the result of {call_id!r} has no {'.'.join(path)!r}", where=where)
        value = value[step]
    return value
