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
from typing import Any, NoReturn
from urllib.parse import unquote

from callmemaybe.errors import InputError
from callmemaybe.jsonio import dumps, escape_token, resolve_pointer
from callmemaybe.tools.declare import Mode, NotExecuted, Tool, TransientError
from callmemaybe.tools.openapi_parameters import OpenApiParameter, parse_parameter
from callmemaybe.tools.spec import Effect, ToolSpec


@dataclass(frozen=True)
class HttpRequest:
    """One HTTP request, ready to be sent."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True)
class HttpResponse:
    """What came back: the status, the content type, the body, and where a redirect leads."""

    status: int
    content_type: str
    body: bytes
    location: str = ""


Transport = Callable[[HttpRequest], Awaitable[HttpResponse]]
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
_EFFECT = "x-callmemaybe-effect"
#: What OpenAPI tools cannot promise: nothing passes a call's key on, and no transaction is shared.
_NOT_KEPT = frozenset({Effect.KEYED, Effect.TRANSACTIONAL})
#: Keywords that are about an object as a whole: among other arguments there is none.
_LIMITS = frozenset((
    "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const", "minProperties",
    "maxProperties", "patternProperties", "propertyNames", "dependencies", "dependentRequired",
    "dependentSchemas", "unevaluatedProperties",
))  # fmt: skip
#: Keywords whose value is schemas by name, schemas of the same value, and one schema.
_NAMED = ("properties", "patternProperties", "dependentSchemas")
_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_SCHEMAS = (
    "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
#: OpenAPI 3.0 says with true that the other one is exclusive.
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
#: What is in braces in an address.
_PLACE = re.compile(r"\{([^{}]*)\}")
#: RFC 3986, section 5.2.4, takes dots away together with what stands before them; an empty segment
#: leaves the address of the collection.
_LEADING_AWAY = frozenset({"", ".", ".."})
#: A slash outside of a parameter's braces.
_SLASH = re.compile(r"/(?![^{}]*\})")
_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?([\w.:+-]{1,40})", re.IGNORECASE | re.ASCII)
#: Python's own, unknown to the web; some take quadratic time.
_NO_CHARSETS = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})


@dataclass(frozen=True)
class OpenApiOperation:
    """How the arguments of one operation become a request."""

    method: str
    base: str
    path: str
    parameters: Mapping[str, OpenApiParameter]
    """By the name of the argument."""
    body: frozenset[str] = frozenset()
    """The arguments that are properties of the body, or the body itself."""
    is_whole_body: bool = False
    sends_empty: bool = False
    """Whether a body without properties is sent, as {}."""

    def request(self, arguments: Mapping[str, Any]) -> HttpRequest:
        """Return the request; raises NotExecuted for arguments that lead to another operation.

        And for those that OpenAPI gives no form; TypeError, as functions do, for one it does not have.
        """
        path, query, headers, body = {}, [], {}, {}
        for name, value in arguments.items():
            parameter = self.parameters.get(name)
            if parameter is None:
                if name not in self.body:
                    raise TypeError(f"there is no argument {name!r}")
                body[name] = value
                continue
            text = parameter.written(value)
            if text is None:
                continue
            if parameter.place == "path":
                path["{" + parameter.name + "}"] = text
            elif parameter.place == "query":
                query.append(text)
            else:
                headers[parameter.name] = text
        url = self.base.rstrip("/") + self._path(path)
        if query:
            url += ("&" if "?" in url else "?") + "&".join(query)
        payload = None
        if body or self.sends_empty:
            payload = dumps(body[_BODY] if self.is_whole_body else body).encode()
            headers["content-type"] = "application/json"
        return HttpRequest(self.method.upper(), url, headers, payload)

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

    A request goes to the first server of the operation, else of its path, else of the document, with
    the defaults of its variables. ``x-callmemaybe-effect`` on an operation declares its class;
    otherwise its method does. A parameter ``id`` beside another one of that name is the argument
    ``id_in_query``, or where it is. Raises InputError with the JSON pointer of what cannot be expressed.
    """
    tools = []
    for path, item in document.get("paths", {}).items():
        if path.startswith("x-"):
            continue
        item = _deref(document, item, f"/paths/{escape_token(path)}")
        tools += [
            _tool(document, path, item, method, transport) for method in _METHODS if method in item
        ]
    return tools


def _base(owners: Sequence[tuple[Mapping[str, Any], str]]) -> str:
    """Return the address of the first server of the first of the owners that has any."""
    for owner, where in owners:
        if not owner.get("servers"):
            continue
        server, where = owner["servers"][0], f"{where}/servers/0"
        base, variables = str(server.get("url", "")), server.get("variables") or {}
        for name in _PLACE.findall(base):
            default = variables.get(name, {}).get("default")
            if default is None:
                raise InputError(f"the variable {name!r} has no default", where=where)
            base = base.replace("{" + name + "}", str(default))
        if base.startswith(("http://", "https://")):
            return base
        break
    else:
        where = "/servers/0"
    raise InputError("the first server needs an absolute http(s) address", where=where)


def _tool(
    document: Mapping[str, Any],
    path: str,
    item: Mapping[str, Any],
    method: str,
    transport: Transport,
) -> Tool:
    above = f"/paths/{escape_token(path)}"
    where = f"{above}/{method}"
    operation = _deref(document, item[method], where)
    base = _base([(operation, where), (item, above), (document, "")])
    name = operation.get("operationId") or re.sub(r"\W+", "_", f"{method}{path}").strip("_")
    properties: dict[str, Any] = {}
    required: list[str] = []
    listed = [*item.get("parameters", []), *operation.get("parameters", [])]
    parameters = _parameters(document, listed, properties, required, where)
    placed = {one.name for one in parameters.values() if one.place == "path"}
    for odd in sorted(placed ^ {*_PLACE.findall(path)}):
        what = "has no place in the path" if odd in placed else "is not declared"
        raise InputError(f"the path parameter {odd!r} {what}", where=where)
    how = _body(document, operation, properties, required, where)
    body = frozenset(properties.keys() - parameters.keys())
    bound = OpenApiOperation(method, base, path, parameters, body, *how)
    effect = _effect(operation.get(_EFFECT), method, where)
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(dict.fromkeys(required)),
        "additionalProperties": False,
    }
    about = operation.get("description") or operation.get("summary") or ""
    return Tool(
        ToolSpec(str(name), str(about), schema),
        _sender(bound, transport, effect),
        effect,
        Mode.ASYNC,
        writes=(base,) if effect.writes else None,
        reads=None if effect.writes else (base,),
    )


def _effect(declared: Any, method: str, where: str) -> Effect:
    """Return the class that is declared, or that of the method."""
    if not declared:
        return _EFFECTS.get(method, Effect.ONCE)
    possible = [effect.value for effect in Effect if effect not in _NOT_KEPT]
    if declared not in possible:
        raise InputError(
            f"an operation cannot have the effect class {declared!r}",
            where=f"{where}/{_EFFECT}",
            hint=f"use one of {', '.join(possible)}",
        )
    return Effect(declared)


def _parameters(
    document: Mapping[str, Any],
    listed: Sequence[Any],
    properties: dict[str, Any],
    required: list[str],
    where: str,
) -> dict[str, OpenApiParameter]:
    """Add the properties of the parameters, and return them by the names of their arguments."""
    # An operation's own ones come last, and replace those of its path.
    declared = {
        (one.get("in"), one.get("name")): one
        for one in (_deref(document, one, where) for one in listed)
    }
    found: dict[str, OpenApiParameter] = {}
    for one in declared.values():
        read = parse_parameter(one, where)
        if read is None:
            continue
        parameter, schema = read
        name, schema = parameter.name, _inline(document, schema, where)
        if name in found:
            name = f"{name}_in_{parameter.place}"
        if name in found:
            raise InputError(f"two parameters would be the argument {name!r}", where=where)
        if "description" in one:
            schema = {**schema, "description": one["description"]}
        properties[name] = schema
        found[name] = parameter
        if one.get("required") or parameter.place == "path":
            required.append(name)
    return found


def _body(
    document: Mapping[str, Any],
    operation: Mapping[str, Any],
    properties: dict[str, Any],
    required: list[str],
    where: str,
) -> tuple[bool, bool]:
    """Add the request body's properties; whether it is one argument, and whether it is sent empty."""
    body = _deref(document, operation.get("requestBody", {}), where)
    if not body:
        return False, False
    content = body.get("content", {})
    if "application/json" not in content:
        raise InputError("only JSON bodies can be expressed", where=f"{where}/requestBody")
    schema = _inline(document, content["application/json"].get("schema", {}), where)
    _drop_read_only(schema)
    parts, needed = schema.get("properties") or {}, schema.get("required", [])
    is_plain = schema.get("type") == "object" and not (_LIMITS & schema.keys())
    # What is required and not described could not be passed among closed arguments.
    if parts and is_plain and parts.keys() >= {*needed} and not (parts.keys() & properties.keys()):
        properties |= parts
        required += needed
        return False, bool(body.get("required"))
    if _BODY in properties:
        raise InputError("a parameter is called like the body", where=f"{where}/requestBody")
    properties[_BODY] = schema
    if body.get("required"):
        required.append(_BODY)
    return True, False


def _drop_read_only(schema: Any, hidden: frozenset[str] = frozenset()) -> None:
    """Take the properties out that a request does not have, of which only a response requires any.

    So OpenAPI 3.0.4 has it for readOnly (section "Schema Object").
    """
    if isinstance(schema, list):
        for part in schema:
            _drop_read_only(part)
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
                _drop_read_only(one, hidden)
        elif key in _NAMED:
            for one in part.values():
                _drop_read_only(one)
        elif key in _SCHEMAS or key == "prefixItems":
            _drop_read_only(part)


def _read_only(schema: Any) -> frozenset[str]:
    """Return the names of an object's properties that are read only, be they said in parts of it."""
    if not isinstance(schema, Mapping):
        return frozenset()
    own = schema.get("properties", {}).items()
    found = {name for name, part in own if isinstance(part, Mapping) and part.get("readOnly")}
    return frozenset(found).union(*map(_read_only, schema.get("allOf", ())))


def _sender(bound: OpenApiOperation, transport: Transport, effect: Effect) -> Callable[..., Any]:
    async def send(**arguments: Any) -> Any:
        return _result(await transport(bound.request(arguments)), effect)

    return send


def _result(response: HttpResponse, effect: Effect) -> Any:
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
    return _read(text) if "json" in response.content_type.lower() else text


def _read(text: str) -> Any:
    """Return the value of a JSON text; what is none (several lines of them, a bare OK) as the text it is.

    The request was carried out, whatever the reply looks like: an error would say that it may not have been.
    """
    try:
        # A byte order mark may be passed over (RFC 8259, section 8.1).
        return json.loads(text.removeprefix("\ufeff"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON value")


def _decoded(response: HttpResponse) -> str:
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


def _deref(document: Mapping[str, Any], value: Any, where: str) -> Mapping[str, Any]:
    seen: set[str] = set()
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
    return value


def _inline(document: Mapping[str, Any], schema: Any, where: str, depth: int = 0) -> dict[str, Any]:
    """Return a schema without references, so that it stands on its own."""
    if depth > 32:
        raise InputError("the schema refers to itself", where=where)
    result: dict[str, Any] = dict(_deref(document, schema, where))
    if result.pop("nullable", False) and isinstance(result.get("type"), str):
        result["type"] = [result["type"], "null"]  # OpenAPI 3.0's way of saying so
    for bound, limit in _EXCLUSIVE.items():
        if isinstance(result.get(bound), bool) and result.pop(bound) and limit in result:
            result[bound] = result.pop(limit)  # 3.0's, too
    for key in ("example", "xml", "externalDocs", "discriminator"):
        result.pop(key, None)
    for key in _NAMED:
        if isinstance(result.get(key), Mapping):
            result[key] = {
                name: _inline(document, part, where, depth + 1)
                for name, part in result[key].items()
            }
    for key in _SCHEMAS:
        if isinstance(result.get(key), Mapping):
            result[key] = _inline(document, result[key], where, depth + 1)
    for key in (*_ALTERNATIVES, "prefixItems"):
        if isinstance(result.get(key), list):
            result[key] = [_inline(document, part, where, depth + 1) for part in result[key]]
    return result
