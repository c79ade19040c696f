"""OpenAPI 3 documents as tools: each operation a tool, its parameters and body one arguments object.

Nothing is sent from here: a ``Transport`` is handed in (the gateway has a careful one). Results are
foreign text and never trusted.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlencode

from callmemaybe._json import dumps
from callmemaybe.calls.declare import Mode, NotExecuted, Tool, TransientError
from callmemaybe.calls.effects import Effect
from callmemaybe.calls.spec import ToolSpec
from callmemaybe.errors import InputError


@dataclass(frozen=True)
class Request:
    """One HTTP request, ready to be sent."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True)
class Response:
    """What came back: the status, the content type, the body, and where a redirect leads."""

    status: int
    content_type: str
    body: bytes
    location: str = ""


Transport = Callable[[Request], Awaitable[Response]]
_METHODS = ("get", "put", "post", "delete", "patch", "head", "options")
#: RFC 9110, section 9.2: safe methods read; idempotent ones may be repeated; the rest happen once.
_EFFECTS = {
    "get": Effect.READ,
    "head": Effect.READ,
    "options": Effect.READ,
    "put": Effect.IDEMPOTENT,
    "delete": Effect.IDEMPOTENT,
}
#: RFC 9110, section 15.4: the request is to be sent elsewhere, as it is. It is not: the new address is the
#: server's choice, and nobody allowed it. (301 and 302 are no such promise: servers answer forms that they
#: took with them, so that something may have happened.)
_ELSEWHERE = frozenset({307, 308})
_SEE_OTHER = 303
_BODY = "body"
#: RFC 3986, section 5.2.4, takes dots away together with what stands before them; an empty segment
#: leaves the address of the collection.
_LEADING_AWAY = frozenset({"", ".", ".."})
#: A slash outside of a parameter's braces.
_SLASH = re.compile(r"/(?![^{}]*\})")
_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?([\w.:+-]{1,40})", re.IGNORECASE | re.ASCII)
#: Python's own, unknown to the web; some take quadratic time.
_NO_CHARSETS = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})


@dataclass(frozen=True)
class Operation:
    """How the arguments of one operation become a request."""

    method: str
    base: str
    path: str
    places: Mapping[str, tuple[str, str]]
    """Argument -> (path | query | header | body, the name there)."""
    whole_body: bool = False

    def request(self, arguments: Mapping[str, Any]) -> Request:
        """Return the request; raises NotExecuted for arguments that lead to another operation."""
        path, query, headers, body = {}, [], {}, {}
        for name, value in arguments.items():
            place, there = self.places[name]
            if place == "path":
                path["{" + there + "}"] = quote(_text(value), safe="")
            elif place == "query":
                values = value if isinstance(value, list) else [value]
                query += [(there, _text(item)) for item in values]
            elif place == "header":
                headers[there] = re.sub(r"[\r\n\0]", " ", _text(value))
            else:
                body[there] = value
        url = self.base.rstrip("/") + self._path(path) + (f"?{urlencode(query)}" if query else "")
        payload = None
        if body:
            value = body[_BODY] if self.whole_body else body
            payload = dumps(value).encode()
            headers["content-type"] = "application/json"
        return Request(self.method.upper(), url, headers, payload)

    def _path(self, values: Mapping[str, str]) -> str:
        """Fill the path in; ``values`` are the quoted arguments by their place in braces."""
        segments = []
        for segment in _SLASH.split(self.path):
            filled = segment
            for place, text in values.items():
                filled = filled.replace(place, text)
            # What has no parameter is the document's own.
            if filled != segment and unquote(filled) in _LEADING_AWAY:
                raise NotExecuted(
                    f"the path segment {segment!r} would be {unquote(filled)!r}, which leads to"
                    " another operation, so nothing was sent"
                )
            segments.append(filled)
        return "/".join(segments)


def tools_from_openapi(document: Mapping[str, Any], transport: Transport) -> list[Tool]:
    """Return a tool per operation of an OpenAPI 3 document.

    ``x-callmemaybe-effect`` on an operation declares its class; otherwise its method does. Raises
    InputError with the JSON pointer of what cannot be expressed.
    """
    servers = document.get("servers") or [{"url": ""}]
    base = str(servers[0].get("url", ""))
    if not base.startswith(("http://", "https://")):
        raise InputError("the first server needs an absolute http(s) address", where="/servers/0")
    tools = []
    for path, item in document.get("paths", {}).items():
        for method in _METHODS:
            if method in item:
                where = f"/paths/{path.replace('~', '~0').replace('/', '~1')}/{method}"
                shared = item.get("parameters", [])
                tools.append(
                    _tool(document, base, path, method, item[method], shared, transport, where)
                )
    return tools


def _tool(
    document: Mapping[str, Any],
    base: str,
    path: str,
    method: str,
    operation: Mapping[str, Any],
    shared: Sequence[Any],
    transport: Transport,
    where: str,
) -> Tool:
    name = operation.get("operationId") or re.sub(r"\W+", "_", f"{method}{path}").strip("_")
    properties: dict[str, Any] = {}
    required: list[str] = []
    places: dict[str, tuple[str, str]] = {}
    for parameter in (*shared, *operation.get("parameters", [])):
        parameter = _deref(document, parameter, where)
        kind, there = str(parameter.get("in")), str(parameter.get("name"))
        if kind == "cookie":
            raise InputError(f"the cookie parameter {there!r} cannot be a model's", where=where)
        schema = _inline(document, parameter.get("schema", {}), where)
        if "description" in parameter:
            schema = {**schema, "description": parameter["description"]}
        properties[there] = schema
        places[there] = (kind, there)
        if parameter.get("required") or kind == "path":
            required.append(there)
    whole = _body(document, operation, properties, required, places, where)
    bound = Operation(method, base, path, places, whole)
    declared = operation.get("x-callmemaybe-effect")
    effect = Effect(declared) if declared else _EFFECTS.get(method, Effect.ONCE)
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(dict.fromkeys(required)),
        "additionalProperties": False,
    }
    about = operation.get("description") or operation.get("summary") or ""
    return Tool(
        ToolSpec(str(name), str(about), parameters),
        _sender(bound, transport, effect),
        effect,
        Mode.ASYNC,
        writes=(base,) if effect.writes else None,
        reads=None if effect.writes else (base,),
    )


def _body(
    document: Mapping[str, Any],
    operation: Mapping[str, Any],
    properties: dict[str, Any],
    required: list[str],
    places: dict[str, tuple[str, str]],
    where: str,
) -> bool:
    """Add the request body's properties; True if the body is one argument of its own."""
    body = _deref(document, operation.get("requestBody", {}), where)
    if not body:
        return False
    content = body.get("content", {})
    if "application/json" not in content:
        raise InputError("only JSON bodies can be expressed", where=f"{where}/requestBody")
    schema = _inline(document, content["application/json"].get("schema", {}), where)
    parts = schema.get("properties")
    if schema.get("type") == "object" and parts and not (parts.keys() & properties.keys()):
        properties |= parts
        places |= {name: ("body", name) for name in parts}
        required += schema.get("required", [])
        return False
    if _BODY in properties:
        raise InputError("a parameter is called like the body", where=f"{where}/requestBody")
    properties[_BODY] = schema
    places[_BODY] = ("body", _BODY)
    if body.get("required"):
        required.append(_BODY)
    return True


def _sender(bound: Operation, transport: Transport, effect: Effect) -> Callable[..., Any]:
    async def send(**arguments: Any) -> Any:
        return _result(await transport(bound.request(arguments)), effect)

    return send


def _result(response: Response, effect: Effect) -> Any:
    """Return what a reply says; raises what tells the gateway whether anything happened."""
    status, text = response.status, _decoded(response)
    location = response.location[:500]
    if status in {429, 503}:
        # The server says that it did not take the request.
        raise NotExecuted(f"HTTP {status}")
    if status in _ELSEWHERE:
        raise NotExecuted(
            f"HTTP {status}: not carried out; it leads to {location or 'no address'}, which was not"
            " followed"
        )
    if status == _SEE_OTHER and effect.writes:
        # RFC 9110, section 15.4.4: "an indirect response to the original request". The request was
        # handled, so the ledger must say that the effect is done. An error would say that it is
        # only possible, and of an idempotent call that it may be sent again.
        return {"status": status, "location": location}
    if status >= 500:
        raise TransientError(f"HTTP {status}: {text[:500]}")
    if not 200 <= status < 300:
        leads = f" (it leads to {location})" if location else ""
        raise ValueError(f"HTTP {status}{leads}: {text[:500]}")
    if "json" in response.content_type and text:
        return json.loads(text)
    return text


def _decoded(response: Response) -> str:
    """Decode the body as its content type says, and as UTF-8 where that says nothing of use.

    JSON is UTF-8 (RFC 8259, section 8.1), unless the reply says otherwise.
    """
    named = _CHARSET.search(response.content_type)
    if named:
        try:
            if codecs.lookup(named[1]).name not in _NO_CHARSETS:
                return response.body.decode(named[1], "replace")
        except (LookupError, ValueError):
            pass  # unknown, no charset, or one that cannot replace what it cannot read
    return response.body.decode(errors="replace")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def _deref(document: Mapping[str, Any], value: Any, where: str) -> Mapping[str, Any]:
    seen: set[str] = set()
    while isinstance(value, Mapping) and isinstance(value.get("$ref"), str):
        reference = value["$ref"]
        if not reference.startswith("#/") or reference in seen:
            raise InputError(f"the reference {reference!r} cannot be followed", where=where)
        seen.add(reference)
        value = document
        for token in reference[2:].split("/"):
            try:
                value = value[token.replace("~1", "/").replace("~0", "~")]
            except (KeyError, TypeError):
                raise InputError(f"there is nothing at {reference}", where=where) from None
    if not isinstance(value, Mapping):
        raise InputError("an object is expected", where=where)
    return value


def _inline(document: Mapping[str, Any], schema: Any, where: str, depth: int = 0) -> dict[str, Any]:
    """Return a schema without references, so that it stands on its own."""
    if depth > 32:
        raise InputError("the schema refers to itself", where=where)
    result: dict[str, Any] = dict(_deref(document, schema, where))
    if result.pop("nullable", False) and isinstance(result.get("type"), str):
        result["type"] = [result["type"], "null"]  # OpenAPI 3.0's way of saying so
    for key in ("example", "xml", "externalDocs", "discriminator"):
        result.pop(key, None)
    for key in ("properties", "patternProperties"):
        if isinstance(result.get(key), Mapping):
            result[key] = {
                name: _inline(document, part, where, depth + 1)
                for name, part in result[key].items()
            }
    for key in ("items", "additionalProperties", "not"):
        if isinstance(result.get(key), Mapping):
            result[key] = _inline(document, result[key], where, depth + 1)
    for key in ("allOf", "anyOf", "oneOf", "prefixItems"):
        if isinstance(result.get(key), list):
            result[key] = [_inline(document, part, where, depth + 1) for part in result[key]]
    return result
