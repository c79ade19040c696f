"""Arguments that refer to results of earlier calls: ``{"$ref": "call_1.temperature"}``.

``referring`` says what a call may refer to, as a schema; ``resolved`` puts results in their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.jsonio import dumps, join_pointer, loads
from callmemaybe.tools.dialects import standard
from callmemaybe.tools.spec import ToolCall, ToolSpec

#: How deep fields of results may be referred to, and how many of one result.
DEPTH, MOST = 3, 64
KEY = "$ref"


def referring(tool: ToolSpec, returns: Mapping[str, Mapping[str, Any] | None]) -> Mapping[str, Any]:
    """Return the tool's parameters where each may be a reference to an earlier call instead.

    ``returns`` is, by the call's id, the schema of what it returns; None: unknown, so that the whole
    result fits anywhere. A field fits where its types are among the parameter's.
    """
    properties = tool.parameters.get("properties")
    if not returns or not isinstance(properties, Mapping):
        return tool.parameters
    changed = {}
    for name, schema in properties.items():
        targets = [
            one for call_id, made in returns.items() for one in _fitting(call_id, made, schema)
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


def _fitting(call_id: str, returns: Mapping[str, Any] | None, schema: Any) -> list[str]:
    if returns is None:
        return [call_id]
    wanted = _types(schema)
    found: list[str] = []
    stack: list[tuple[str, Any, int]] = [(call_id, returns, 0)]
    while stack and len(found) < MOST:
        path, made, depth = stack.pop(0)
        given = _types(made)
        if given is not None and (wanted is None or given <= wanted):
            found.append(path)
        inner = made.get("properties") if isinstance(made, Mapping) else None
        if isinstance(inner, Mapping) and depth < DEPTH:
            # Only what is certain to be there can be referred to.
            required = made.get("required") or ()
            stack += [
                (f"{path}.{key}", one, depth + 1)
                for key, one in inner.items()
                if key in required and "." not in key
            ]
    return found


def _types(schema: Any) -> frozenset[str] | None:
    """Return the types that a schema says, an integer being a number too; None where it does not."""
    if not isinstance(schema, Mapping):
        return None
    kinds = standard({key: schema[key] for key in ("type", "nullable") if key in schema}).get(
        "type"
    )
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
    """Return what the call's arguments refer to."""
    return [one for one in map(_target, call.parsed.values()) if one is not None]


def _target(value: Any) -> str | None:
    if isinstance(value, Mapping) and value.keys() == {KEY} and isinstance(value[KEY], str):
        return str(value[KEY])
    return None


def resolved(call: ToolCall, results: Mapping[str, str]) -> ToolCall:
    """Return the call with results in place of references; ``results`` are texts by call id.

    A result that is JSON is taken apart by its fields; any other is a text. Raises InputError, with
    the pointer of the argument, for a reference to no result, or to a field that it does not have.
    """
    arguments = call.parsed
    if not references(call):
        return call
    found = {}
    for name, value in arguments.items():
        target = _target(value)
        found[name] = value if target is None else _looked_up(target, results, f"/arguments/{name}")
    return ToolCall(call.name, dumps(found), call.id)


def pointed(call: ToolCall) -> ToolCall:
    """Return the call with its references as a gateway reads them: ``call_1#/temperature``."""
    if not references(call):
        return call
    found = {}
    for name, value in call.parsed.items():
        target = _target(value)
        if target is not None and not target.startswith("#"):  # that is a schema's, and no call's
            call_id, *path = target.split(".")
            value = {KEY: call_id + ("#" + join_pointer(path) if path else "")}
        found[name] = value
    return ToolCall(call.name, dumps(found), call.id)


def _looked_up(target: str, results: Mapping[str, str], where: str) -> Any:
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
