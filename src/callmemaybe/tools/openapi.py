"""OpenAPI 3 and Swagger 2.0 documents as tools: an operation is a tool; its parameters and body are the arguments.

This module sends nothing: requests go through a ``Transport`` that is passed in
(``gateway.HttpTransport`` is one). Results are foreign text and never trusted.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urljoin

from callmemaybe.errors import InputError, NotExecuted, TransientError
from callmemaybe.jsonio import escape_token, loads
from callmemaybe.tools.declare import Mode, Tool
from callmemaybe.tools.openapi_bodies import OpenApiBody, parse_body
from callmemaybe.tools.openapi_parameters import OpenApiParameter, parse_parameter
from callmemaybe.tools.openapi_schemas import (
    OpenApiReferences,
    OpenApiSchemas,
    dereference,
    drop_read_only,
)
from callmemaybe.tools.spec import Effect, ToolSpec
from callmemaybe.tools.swagger import openapi_of_swagger


@dataclass(frozen=True)
class HttpRequest:
    """One HTTP request, ready to be sent."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True)
class HttpResponse:
    """An HTTP response: status, content type, body, and the address of a redirect."""

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
#: 4xx by which a service says "not now", and proxies that they gave up: no proof that nothing happened.
_NOT_NOW = frozenset({408, 425, 429, 499})
_SEE_OTHER = 303
_BODY = "body"
_EFFECT = "x-callmemaybe-effect"
#: Effects that an operation cannot have: nothing passes the key on, and no transaction is shared.
_IMPOSSIBLE_EFFECTS = frozenset({Effect.KEYED, Effect.TRANSACTIONAL})
#: Keywords about an object as a whole: they have no meaning once its properties are mixed with others.
_OBJECT_KEYWORDS = frozenset((
    "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const", "minProperties",
    "maxProperties", "patternProperties", "propertyNames", "dependencies", "dependentRequired",
    "dependentSchemas", "unevaluatedProperties",
))  # fmt: skip
#: A variable in braces in an address.
_VARIABLE = re.compile(r"\{([^{}]*)\}")
#: RFC 3986, section 5.2.4, removes dot segments together with the segment before; an empty segment
#: gives the address of the collection.
_ESCAPING_SEGMENTS = frozenset({"", ".", ".."})
#: A slash outside of braces.
_SLASH = re.compile(r"/(?![^{}]*\})")
_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?([\w.:+-]{1,40})", re.IGNORECASE | re.ASCII)
#: Codecs of Python that are not charsets; some take quadratic time.
_NO_CHARSETS = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})


@dataclass(frozen=True)
class OpenApiOperation:
    """Turns the arguments of one operation into a request."""

    method: str
    base: str
    path: str
    parameters: Mapping[str, OpenApiParameter]
    """Name of the argument -> parameter."""
    body: frozenset[str] = frozenset()
    """The arguments that are properties of the body, or that are the body."""
    writes: OpenApiBody = field(default_factory=OpenApiBody)
    is_whole_body: bool = False
    sends_empty: bool = False
    """Whether a body without properties is sent as {}."""

    def request(self, arguments: Mapping[str, Any]) -> HttpRequest:
        """Return the request.

        Raises NotExecuted for arguments that would change the path to another operation or that OpenAPI
        defines no text for, TypeError for an argument that the operation does not have.
        """
        if not self.base.startswith(("http://", "https://")):
            raise NotExecuted(
                "the document names no absolute address of a server, so nothing was sent;"
                " give it: --base-url (base_url=...)"
            )
        path, query, headers, body = {}, [], {}, {}
        for name, value in arguments.items():
            parameter = self.parameters.get(name)
            if parameter is None:
                if name not in self.body:
                    raise TypeError(f"there is no argument {name!r}")
                body[name] = value
                continue
            text = parameter.serialize(value)
            if text is None:
                continue
            if parameter.location == "path":
                path["{" + parameter.name + "}"] = text
            elif parameter.location == "query":
                query.append(text)
            else:
                headers[parameter.name] = text
        url = self.base.rstrip("/") + self._path(path)
        if query:
            url += ("&" if "?" in url else "?") + "&".join(query)
        payload = None
        if body or self.sends_empty:
            payload = self.writes.write(body[_BODY] if self.is_whole_body else body)
            headers["content-type"] = self.writes.media
        return HttpRequest(self.method.upper(), url, headers, payload)

    def _path(self, values: Mapping[str, str]) -> str:
        """Return the path with its variables replaced; ``values`` maps ``{name}`` to quoted text."""
        segments = []
        for segment in _SLASH.split(self.path):
            filled = segment
            for variable, text in values.items():
                filled = filled.replace(variable, text)
            # A segment without a variable is the document's choice.
            if filled != segment and unquote(filled) in _ESCAPING_SEGMENTS:
                raise NotExecuted(
                    f"the path segment {segment!r} would be {unquote(filled)!r}, which leads to"
                    " another operation, so nothing was sent"
                )
            segments.append(filled)
        return "/".join(segments)


@dataclass(frozen=True)
class SkippedOperation:
    """An operation that no tool can express, and why not."""

    name: str
    error: InputError


def tools_from_openapi(
    document: Mapping[str, Any],
    transport: Transport,
    *,
    wanted: Callable[[str], bool] | None = None,
    skipped: list[SkippedOperation] | None = None,
    base_url: str | None = None,
    source: str = "",
) -> list[Tool]:
    """Return a tool per operation of an OpenAPI 3 or Swagger 2.0 document.

    A request goes to the first server of the operation, else of its path, else of the document, with
    the defaults of its variables; relative addresses are those of ``source``, the document's own, and
    ``base_url`` replaces them all. ``x-callmemaybe-effect`` on an operation declares its effect; by
    default the HTTP method decides. The second of two parameters called ``id`` becomes the argument
    ``id_in_query`` (or ``_header``, ...). ``wanted`` chooses operations by name.

    Raises InputError with the JSON pointer of what is not supported. With a list ``skipped``, operations that
    cannot be expressed are put there instead, and one without an absolute address is a tool all the same: what
    it would send is NotExecuted.
    """
    if str(document.get("swagger")) == "2.0":
        document = openapi_of_swagger(document)
    _check_version(document)
    is_lenient, references = skipped is not None, OpenApiReferences(document)
    described = _Described(document, transport, base_url, source, is_lenient, references)
    tools: dict[str, Tool] = {}
    for path, item, method in _operations(document):
        where = f"/paths/{escape_token(path)}/{method}"
        name = f"{method.upper()} {path}"
        try:
            item = dereference(document, item, where)
            operation = dereference(document, item[method], where)
            name = _name(operation, method, path)
            if wanted is not None and not wanted(name):
                continue
            if name in tools:
                raise InputError(f"another operation is called {name!r}, too", where=where)
            tools[name] = _tool(described, path, item, method, name)
        except InputError as error:
            if skipped is None:
                raise
            skipped.append(SkippedOperation(name, error))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            what = "nests too deep" if isinstance(error, RecursionError) else "is malformed"
            wrong = InputError(f"the operation {what}", where=where)
            if skipped is None:
                raise wrong from error
            skipped.append(SkippedOperation(name, wrong))
    return list(tools.values())


def _check_version(document: Mapping[str, Any]) -> None:
    version = document.get("openapi")
    if not isinstance(version, str) or not version.startswith("3."):
        said = f"Swagger {document['swagger']}" if "swagger" in document else f"{version!r}"
        raise InputError(
            f"only OpenAPI 3 and Swagger 2.0 can be read, and this is {said}", where="",
            hint="convert it to OpenAPI 3",
        )  # fmt: skip
    if not isinstance(document.get("paths", {}), Mapping):
        raise InputError("the paths must be an object", where="/paths")


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Yield path, path item and method of each operation; of an item that cannot be read, one."""
    for path, item in document.get("paths", {}).items():
        if path.startswith("x-"):
            continue
        try:
            found = dereference(document, item, "")
        except InputError:
            found = {"get": None}
        yield from ((path, item, method) for method in _METHODS if method in found)


@dataclass(frozen=True)
class _Described:
    """A document, and what holds for all of its operations."""

    document: Mapping[str, Any]
    transport: Transport
    base_url: str | None
    source: str
    is_lenient: bool
    references: OpenApiReferences

    def base(self, owners: Sequence[tuple[Mapping[str, Any], str]]) -> str:
        """Return the address of the first server of the first owner that has servers."""
        if self.base_url is not None:
            return self.base_url
        base, where = "/", "/servers/0"  # which is OpenAPI's default
        for owner, place in owners:
            if owner.get("servers"):
                base, where = (
                    _address(owner["servers"][0], f"{place}/servers/0"),
                    f"{place}/servers/0",
                )
                break
        if self.source.startswith(("http://", "https://")):
            base = urljoin(self.source, base)
        if not base.startswith(("http://", "https://")) and not self.is_lenient:
            raise InputError("the first server needs an absolute http(s) address", where=where)
        return base


def _address(server: Mapping[str, Any], where: str) -> str:
    """Return the address of a server with the defaults of its variables."""
    base, variables = str(server.get("url", "")), server.get("variables") or {}
    for name in _VARIABLE.findall(base):
        default = variables.get(name, {}).get("default")
        if default is None:
            raise InputError(f"the variable {name!r} has no default", where=where)
        base = base.replace("{" + name + "}", str(default))
    return base


def _name(operation: Mapping[str, Any], method: str, path: str) -> str:
    given = operation.get("operationId")
    return str(given or re.sub(r"\W+", "_", f"{method}{path}").strip("_"))


def _tool(
    described: _Described, path: str, item: Mapping[str, Any], method: str, name: str
) -> Tool:
    document = described.document
    above = f"/paths/{escape_token(path)}"
    where = f"{above}/{method}"
    operation = dereference(document, item[method], where)
    base = described.base([(operation, where), (item, above), (document, "")])
    properties: dict[str, Any] = {}
    required: list[str] = []
    listed = [*item.get("parameters", []), *operation.get("parameters", [])]
    schemas = OpenApiSchemas(described.references)
    parameters = _parameters(schemas, listed, properties, required, where)
    in_path = {one.name for one in parameters.values() if one.location == "path"}
    for odd in sorted(in_path ^ {*_VARIABLE.findall(path)}):
        what = "has no place in the path" if odd in in_path else "is not declared"
        raise InputError(f"the path parameter {odd!r} {what}", where=where)
    written, *body_flags = _body(schemas, operation, properties, required, where)
    body = frozenset(properties.keys() - parameters.keys())
    bound = OpenApiOperation(method, base, path, parameters, body, written, *body_flags)
    effect = _effect(operation.get(_EFFECT), method, where)
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(dict.fromkeys(required)),
        "additionalProperties": False,
    }
    if schemas.definitions:
        schema["$defs"] = schemas.definitions
    about = operation.get("description") or operation.get("summary") or ""
    return Tool(
        ToolSpec(name, str(about), schema),
        _sender(bound, described.transport, effect),
        effect,
        Mode.ASYNC,
        writes=(base,) if effect.writes else None,
        reads=None if effect.writes else (base,),
    )


def _effect(declared: Any, method: str, where: str) -> Effect:
    """Return the declared effect, or that of the method."""
    if not declared:
        return _EFFECTS.get(method, Effect.ONCE)
    possible = [effect.value for effect in Effect if effect not in _IMPOSSIBLE_EFFECTS]
    if declared not in possible:
        raise InputError(
            f"an operation cannot have the effect class {declared!r}",
            where=f"{where}/{_EFFECT}",
            hint=f"use one of {', '.join(possible)}",
        )
    return Effect(declared)


def _parameters(
    schemas: OpenApiSchemas,
    listed: Sequence[Any],
    properties: dict[str, Any],
    required: list[str],
    where: str,
) -> dict[str, OpenApiParameter]:
    """Add the schemas of the parameters to ``properties``; return argument name -> parameter."""
    # The parameters of the operation come last, and replace those of its path.
    declared = {
        (one.get("in"), one.get("name")): one
        for one in (dereference(schemas.document, one, where) for one in listed)
    }
    found: dict[str, OpenApiParameter] = {}
    for one in declared.values():
        parsed = parse_parameter(one, where)
        if parsed is None:
            continue
        parameter, schema = parsed
        name, schema = parameter.name, schemas.read(schema, where)
        if name in found:
            name = f"{name}_in_{parameter.location}"
        if name in found:
            raise InputError(f"two parameters would be the argument {name!r}", where=where)
        if "description" in one:
            schema = {**schema, "description": one["description"]}
        properties[name] = schema
        found[name] = parameter
        if one.get("required") or parameter.location == "path":
            required.append(name)
    return found


def _body(
    schemas: OpenApiSchemas,
    operation: Mapping[str, Any],
    properties: dict[str, Any],
    required: list[str],
    where: str,
) -> tuple[OpenApiBody, bool, bool]:
    """Add the properties of the request body.

    Return how it is written, whether it is one argument, and whether it is sent empty.
    """
    body = dereference(schemas.document, operation.get("requestBody", {}), where)
    if not body:
        return OpenApiBody(), False, False
    written, declared = parse_body(body.get("content", {}), f"{where}/requestBody")
    schema = schemas.read(declared, where)
    for one in (schema, *schemas.definitions.values()):
        drop_read_only(one)
    parts, needed = schema.get("properties") or {}, schema.get("required", [])
    is_plain = schema.get("type") == "object" and not (_OBJECT_KEYWORDS & schema.keys())
    # A required property without a schema could not be passed: other arguments are not allowed.
    if parts and is_plain and parts.keys() >= {*needed} and not (parts.keys() & properties.keys()):
        properties |= parts
        required += needed
        return written, False, bool(body.get("required"))
    if _BODY in properties:
        raise InputError("a parameter is called like the body", where=f"{where}/requestBody")
    properties[_BODY] = schema
    if body.get("required"):
        required.append(_BODY)
    return written, True, False


def _sender(bound: OpenApiOperation, transport: Transport, effect: Effect) -> Callable[..., Any]:
    async def send(**arguments: Any) -> Any:
        request = bound.request(arguments)
        try:
            response = await transport(request)
        except (NotExecuted, TransientError):
            raise
        except Exception as error:
            if effect is not Effect.ONCE:
                raise
            # A transport that was not sure that nothing was sent: the service may have acted.
            raise TransientError(f"{type(error).__name__}: {error}") from error
        return _result(response, effect)

    return send


def _result(response: HttpResponse, effect: Effect) -> Any:
    """Return the value of a response; the exception tells the gateway what may have happened.

    The request was sent, so none of them is NotExecuted: services and the proxies before them answer 429,
    503 or 307 also after they acted. ValueError is a definite refusal; TransientError is an unclear reply,
    after which only effects that may be repeated are repeated.
    """
    status, text = response.status, _decode(response)
    location = response.location[:500]
    if status == _SEE_OTHER and effect.writes:
        # RFC 9110, section 15.4.4: "an indirect response to the original request". The request was
        # handled, so the ledger must say that the effect is done. An error would say that it is
        # only possible, and of an idempotent call that it may be sent again.
        return {"status": status, "location": location}
    if 200 <= status < 300:
        return _json_or_text(text) if "json" in response.content_type.lower() else text
    leads = f" (it leads to {location}, which was not followed)" if location else ""
    said = f"HTTP {status}{leads}: {text[:500]}"
    is_refusal = 400 <= status < 500 and status not in _NOT_NOW
    # Another attempt is not answered otherwise where the service wants another address (3xx).
    may_pass = status >= 400 and not is_refusal
    if may_pass or (effect is Effect.ONCE and not is_refusal):
        raise TransientError(said)
    raise ValueError(said)


def _json_or_text(text: str) -> Any:
    """Return the value of a JSON text, or a text that is not JSON (JSON lines, a bare OK) as it is.

    The request was carried out, and an error would mean that it may not have been.
    """
    try:
        # A byte order mark may be ignored (RFC 8259, section 8.1).
        return loads(text.removeprefix("\ufeff"), exact=False, max_depth=500)
    except InputError:
        return text


def _decode(response: HttpResponse) -> str:
    """Decode the body in the charset of its content type, by default UTF-8 (RFC 8259, section 8.1)."""
    named = _CHARSET.search(response.content_type)
    if named:
        try:
            if codecs.lookup(named[1]).name not in _NO_CHARSETS:
                return response.body.decode(named[1], "replace")
        except (LookupError, ValueError):
            pass  # an unknown charset, a codec of bytes, or one that cannot replace invalid bytes
    return response.body.decode(errors="replace")
