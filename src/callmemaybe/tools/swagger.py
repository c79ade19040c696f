"""Swagger 2.0 documents, turned into OpenAPI 3: addresses, parameters, bodies and forms.

Schemas are read as those of OpenAPI 3.0; definitions stay where they are, so that references lead to them.
Responses and security are left out, since tools do not use them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from callmemaybe.errors import InputError
from callmemaybe.jsonio import resolve_pointer
from callmemaybe.tools.openapi_bodies import FORM_MEDIA, JSON_MEDIA

_METHODS = frozenset(("get", "put", "post", "delete", "patch", "head", "options"))
_MULTIPART = "multipart/form-data"
#: Keys of a parameter that are about the parameter; the others are its schema.
_OWN_KEYS = frozenset(
    ("name", "in", "description", "required", "collectionFormat", "allowEmptyValue")
)
#: collectionFormat -> style and explode in a query or a form; in a path or header there is csv alone.
_COLLECTIONS = {
    "csv": {"style": "form", "explode": False},
    "multi": {"style": "form", "explode": True},
    "ssv": {"style": "spaceDelimited", "explode": False},
    "pipes": {"style": "pipeDelimited", "explode": False},
}


def openapi_of_swagger(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Swagger 2.0 document as one of OpenAPI 3.0. Raises InputError with the JSON pointer."""
    paths: dict[str, Any] = {}
    found = document.get("paths") or {}
    if not isinstance(found, Mapping):
        raise InputError("the paths must be an object", where="/paths")
    for path, item in found.items():
        is_item = isinstance(item, Mapping) and not str(path).startswith("x-")
        paths[path] = _item(document, item) if is_item else item
    kept = {key: value for key, value in document.items() if key != "swagger"}
    return {**kept, "openapi": "3.0.4", "servers": _servers(document), "paths": paths}


def _servers(document: Mapping[str, Any]) -> list[dict[str, str]]:
    base = str(document.get("basePath") or "/")
    if not (host := document.get("host")):
        return [{"url": base}]
    schemes = _list(document.get("schemes"))
    scheme = "https" if "https" in schemes or not schemes else schemes[0]
    return [{"url": f"{scheme}://{host}{base if base.startswith('/') else '/' + base}"}]


def _item(document: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a path with its parameters handed down to its operations: a body is one of them."""
    above = _list(item.get("parameters"))
    turned = {key: value for key, value in item.items() if key != "parameters"}
    for method in _METHODS & item.keys():
        if isinstance(item[method], Mapping):
            turned[method] = _operation(document, item[method], above)
    return turned


def _operation(
    document: Mapping[str, Any], operation: Mapping[str, Any], above: list[Any]
) -> dict[str, Any]:
    listed = [*above, *_list(operation.get("parameters"))]
    # What is no parameter, or leads nowhere, stays as it is: it is refused with its operation.
    odd, last = [], {}
    for given in listed:
        one = _resolved(document, given)
        if not isinstance(one, Mapping) or "$ref" in one or not _is_placed(one):
            odd.append(one)
        else:
            # An operation's parameter replaces its path's; there is but one body.
            last[one.get("in"), None if one.get("in") == "body" else one.get("name")] = one
    own = [_turned(one) for one in last.values() if one.get("in") not in {"body", "formData"}]
    fields = [one for one in last.values() if one.get("in") == "formData"]
    consumes = _list(operation.get("consumes", document.get("consumes")))
    turned = {key: value for key, value in operation.items() if key != "consumes"}
    turned["parameters"] = [*own, *odd]
    if body := last.get(("body", None)):
        content = {kind: {"schema": body.get("schema", {})} for kind in consumes or [JSON_MEDIA]}
        turned["requestBody"] = {"required": bool(body.get("required")), "content": content}
    elif fields:
        turned["requestBody"] = _form(fields, consumes)
    return turned


def _is_placed(parameter: Mapping[str, Any]) -> bool:
    """Whether it is said where a parameter stands, and what it is called."""
    named = {"in", "name"} if parameter.get("in") != "body" else {"in"}
    return all(isinstance(parameter.get(key), str) for key in named)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _resolved(document: Mapping[str, Any], one: Any) -> Any:
    """Return what the reference of a parameter leads to, if it leads anywhere."""
    if isinstance(one, Mapping) and isinstance(reference := one.get("$ref"), str):
        with contextlib.suppress(LookupError):
            return resolve_pointer(document, unquote(reference.removeprefix("#")))
    return one


def _form(fields: list[Mapping[str, Any]], consumes: list[str]) -> dict[str, Any]:
    """Return the body of a form; one with a file, or that is multipart only, has no other type."""
    has_file = any(one.get("type") == "file" for one in fields)
    kinds = [kind for kind in consumes if kind in {FORM_MEDIA, _MULTIPART}] or [FORM_MEDIA]
    required = [str(one.get("name")) for one in fields if one.get("required")]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {str(one.get("name")): _schema(one, described=True) for one in fields},
        "required": required,
    }
    encoding = {
        str(one.get("name")): _collection(one) for one in fields if one.get("type") == "array"
    }
    content = {"schema": schema, "encoding": encoding}
    return {
        "required": bool(required),
        "content": dict.fromkeys([_MULTIPART] if has_file else kinds, content),
    }


def _turned(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return a parameter of a path, query or header with a schema of its own."""
    turned = {key: one[key] for key in ("name", "in", "description", "required") if key in one}
    if one.get("type") == "array" and one.get("in") == "query":
        turned |= _collection(one)
    return {**turned, "schema": _schema(one)}


def _collection(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return the style of an array; one that no style has is refused where it is parsed, by its name."""
    name = one.get("collectionFormat", "csv")
    return dict(_COLLECTIONS.get(str(name), {"style": name}))


def _schema(one: Mapping[str, Any], *, described: bool = False) -> dict[str, Any]:
    schema = {key: value for key, value in one.items() if key not in _OWN_KEYS}
    if described and "description" in one:
        schema["description"] = one["description"]
    return schema
