"""Bodies that are forms, and documents of Swagger 2.0: what is sent over a socket."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

import pytest

from callmemaybe.errors import InputError, NotExecuted
from callmemaybe.gateway import Gateway
from callmemaybe.gateway.http import HttpTransport
from callmemaybe.tools import Tool, ToolCall, tools_from
from callmemaybe.tools.openapi import tools_from_openapi

FORM = "application/x-www-form-urlencoded"
Request = tuple[str, str, str, str]


class Service:
    """An HTTP service on this machine that writes down what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"] or 0)).decode()
                kind = self.headers.get("content-type", "")
                service.asked.append((self.command, self.path, kind, body))
                answer = b'{"ok": true}'
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def do_GET(self) -> None:
                self.do_POST()

            def do_PUT(self) -> None:
                self.do_POST()

            def log_message(self, *_: object) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def service() -> Iterator[Service]:
    found = Service()
    yield found
    found.close()


def transport() -> HttpTransport:
    return HttpTransport(schemes=frozenset({"http"}), private=True)


def form(schema: dict[str, Any], encoding: Any = None, host: str = "127.0.0.1:1") -> dict[str, Any]:
    media = {"schema": schema, **({"encoding": encoding} if encoding else {})}
    operation = {"operationId": "pay", "requestBody": {"required": True, "content": {FORM: media}}}
    return {
        "openapi": "3.0.3", "servers": [{"url": f"http://{host}"}], "paths": {"/pay": {"post": operation}},
    }  # fmt: skip


def run(tools: list[Tool], name: str, arguments: dict[str, Any]) -> Any:
    """Return what a call through a gateway returned."""

    async def act() -> Any:
        async with Gateway(tools) as gateway:
            (answer,) = await gateway.run([ToolCall(name, json.dumps(arguments))])
            return json.loads(answer.content)

    return asyncio.run(act())


#: As in Stripe's document: what has parts is a deepObject, arrays too.
CHARGE = {
    "type": "object",
    "required": ["amount"],
    "properties": {
        "amount": {"type": "integer"},
        "name": {"type": "string"},
        "expand": {"type": "array", "items": {"type": "string"}},
        "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
        "items": {"type": "array", "items": {"type": "object", "properties": {
            "price": {"type": "string"}, "on": {"type": "boolean"}}}},
    },
}  # fmt: skip
DEEP = {name: {"style": "deepObject", "explode": True} for name in ("expand", "metadata", "items")}


def test_a_form_is_sent_as_the_service_reads_it(service: Service) -> None:
    """Law: through the gateway, a body of a form arrives as one, with what is nested in brackets."""
    tools = tools_from(form(CHARGE, DEEP, service.host), transport=transport())
    arguments = {
        "amount": 5, "name": "O'Neil & \"Söhne\" 🙂=1+1", "expand": ["a", "b"], "metadata": {"k e": "v[]&="},
        "items": [{"price": "p", "on": True}, {"price": "q"}],
    }  # fmt: skip
    assert run(tools, "pay", arguments)["result"] == {"ok": True}
    ((method, path, kind, body),) = service.asked
    assert (method, path, kind) == ("POST", "/pay", FORM)
    assert body.isascii()
    assert parse_qsl(body, strict_parsing=True) == [
        ("amount", "5"), ("name", arguments["name"]), ("expand[0]", "a"), ("expand[1]", "b"),
        ("metadata[k e]", "v[]&="), ("items[0][price]", "p"), ("items[0][on]", "true"), ("items[1][price]", "q"),
    ]  # fmt: skip


async def never(_: Any) -> Any:
    raise AssertionError


def body_of(document: dict[str, Any], arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """The pairs of the form that arguments are sent as."""
    sent: list[Any] = []

    async def note(request: Any) -> Any:
        sent.append(request)
        raise NotExecuted("enough")

    (tool,) = tools_from(document, transport=note)
    with pytest.raises(NotExecuted, match="enough"):
        asyncio.run(tool(**arguments))
    assert sent[0].headers["content-type"] == FORM
    return parse_qsl(sent[0].body.decode(), keep_blank_values=True)


def test_what_an_encoding_does_not_say_is_the_usual() -> None:
    """Law: text of one value, a name for each item of an array, JSON of an object; null is not sent."""
    assert body_of(form({**CHARGE, "required": []}), {
        "amount": 1, "name": "", "expand": ["a,b", "c"], "metadata": {"k": "v"}, "items": [{"on": False}],
    }) == [
        ("amount", "1"), ("name", ""), ("expand", "a,b"), ("expand", "c"), ("metadata", '{"k": "v"}'),
        ("items", '{"on": false}'),
    ]  # fmt: skip
    one = {"properties": {"a": {"type": ["string", "null"]}, "b": {}}, "type": "object"}
    assert body_of(form(one), {"a": None, "b": [None, 1]}) == [("b", "1")]
    assert body_of(form(one), {}) == []


def test_an_encoding_is_that_of_a_query() -> None:
    """Law: style and explode mean what they mean for parameters; a content type may be JSON."""
    schema = {"type": "object", "properties": {"a": {}, "b": {}, "c": {}}}
    encoding = {
        "a": {"explode": False}, "b": {"style": "pipeDelimited"}, "c": {"contentType": "application/json"},
    }  # fmt: skip
    found = body_of(form(schema, encoding), {"a": ["x", "y"], "b": ["x", "y"], "c": "x"})
    assert found == [("a", "x,y"), ("b", "x|y"), ("c", '"x"')]
    with pytest.raises(InputError, match="'a' has the style 'odd'"):
        tools_from(form(schema, {"a": {"style": "odd"}}), transport=never)
    with pytest.raises(InputError, match="'a' is written as 'image/png'"):
        tools_from(form(schema, {"a": {"contentType": "image/png"}}), transport=never)


def test_a_form_that_is_one_argument_is_an_object() -> None:
    """Law: where a schema does not say so, the value must be one, or nothing is sent."""
    document = form({"anyOf": [{"type": "object"}, {"type": "string"}]})
    assert body_of(document, {"body": {"a": 1}}) == [("a", "1")]
    (tool,) = tools_from(document, transport=never)
    with pytest.raises(NotExecuted, match="must be an object"):
        asyncio.run(tool(body="a"))


def test_json_comes_before_a_form() -> None:
    """Law: JSON where it is offered, also by another name or any type; else a form; else a refusal."""
    for kinds, sent in (
        ([FORM, "application/json"], "application/json"),
        ([FORM, "application/vnd.api+json; v=1"], "application/vnd.api+json"),
        (["application/json; charset=utf-8"], "application/json"),
        (["*/*"], "application/json"),
        (["multipart/form-data", f"{FORM}; charset=utf-8"], FORM),
    ):
        document = form({})
        document["paths"]["/pay"]["post"]["requestBody"]["content"] = {kind: {} for kind in kinds}
        requests: list[Any] = []

        async def note(request: Any, seen: list[Any] = requests) -> Any:
            seen.append(request)
            raise NotExecuted("enough")

        (tool,) = tools_from(document, transport=note)
        with pytest.raises(NotExecuted, match="enough"):
            asyncio.run(tool(body={"a": 1}))
        assert requests[0].headers["content-type"] == sent
    document["paths"]["/pay"]["post"]["requestBody"]["content"] = {"multipart/form-data": {}}
    with pytest.raises(InputError, match="'multipart/form-data'; it may be application/json"):
        tools_from(document, transport=never)


def swagger(host: str) -> dict[str, Any]:
    """A document of Swagger 2.0."""
    return {
        "swagger": "2.0", "host": host, "basePath": "/v2", "schemes": ["http"], "consumes": ["application/json"],
        "parameters": {"limit": {"name": "limit", "in": "query", "type": "integer", "maximum": 9}},
        "definitions": {"Pet": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}}}},
        "paths": {
            "/pets/{id}": {
                "parameters": [{"name": "id", "in": "path", "required": True, "type": "string", "enum": ["a b"]}],
                "get": {"operationId": "find", "parameters": [
                    {"$ref": "#/parameters/limit"},
                    {"name": "tags", "in": "query", "type": "array", "items": {"type": "string"}},
                    {"name": "ids", "in": "query", "type": "array", "items": {"type": "integer"},
                     "collectionFormat": "multi"}]},
                "put": {"operationId": "store", "parameters": [
                    {"name": "pet", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}}]},
                "post": {"operationId": "rename", "consumes": ["multipart/form-data", FORM], "parameters": [
                    {"name": "name", "in": "formData", "type": "string", "required": True, "description": "new"},
                    {"name": "tags", "in": "formData", "type": "array", "items": {"type": "string"}}]},
            },
            "/files": {"post": {"operationId": "upload", "parameters": [
                {"name": "file", "in": "formData", "type": "file"}]}},
            "/odd": {"get": {"operationId": "odd", "parameters": [{"$ref": "#/parameters/none"}]}},
            "/tabs": {"get": {"operationId": "tabs", "parameters": [
                {"name": "t", "in": "query", "type": "array", "collectionFormat": "tsv"}]}},
        },
    }  # fmt: skip


def test_a_document_of_swagger_2_is_tools(service: Service) -> None:
    """Law: its operations send what it says; what cannot be expressed is left out with its reason."""
    skipped: list[Any] = []
    tools = tools_from_openapi(swagger(service.host), transport(), skipped=skipped)
    by_name = {tool.name: tool.spec.parameters for tool in tools}
    assert [*by_name] == ["find", "store", "rename"]
    assert by_name["find"]["properties"]["limit"] == {"type": "integer", "maximum": 9}
    assert by_name["store"]["properties"]["age"] == {"type": "integer", "exclusiveMinimum": 0}
    assert by_name["rename"]["properties"]["name"] == {"type": "string", "description": "new"}
    assert by_name["rename"]["required"] == ["id", "name"]
    run(tools, "find", {"id": "a b", "limit": 3, "tags": ["x", "y"], "ids": [1, 2]})
    run(tools, "store", {"id": "a b", "name": "Rex", "age": 1})
    run(tools, "rename", {"id": "a b", "name": "Rex", "tags": ["x", "y"]})
    assert service.asked == [
        ("GET", "/v2/pets/a%20b?limit=3&tags=x,y&ids=1&ids=2", "", ""),
        ("PUT", "/v2/pets/a%20b", "application/json", '{"name": "Rex", "age": 1}'),
        ("POST", "/v2/pets/a%20b", FORM, "name=Rex&tags=x,y"),
    ]
    reasons = {one.name: str(one.error) for one in skipped}
    assert "'multipart/form-data'" in reasons["upload"]
    assert "nothing at #/parameters/none" in reasons["odd"]
    assert "'tsv'" in reasons["tabs"]


@pytest.mark.parametrize(
    "change",
    [
        {"paths": []},
        {"paths": {"/x": []}},
        {"paths": {"/x": {"get": []}}},
        {"paths": {"/x": {"get": {"parameters": [7]}}}},
        {"paths": {"/x": {"get": {"parameters": 7}, "parameters": {"a": 1}}}},
        {"paths": {"/x": {"post": {"parameters": [{"in": "body"}], "consumes": "text"}}}},
        {"paths": {"/x": {"post": {"parameters": [{"in": "formData", "type": "array"}]}}}},
        {
            "paths": {
                "/x": {
                    "post": {"parameters": [{"in": "query", "name": {}}, {"in": [], "name": "a"}]}
                }
            }
        },
        {"schemes": "http"},
        {"basePath": 7, "host": 7},
    ],
)
def test_swagger_of_the_wrong_shape_is_no_traceback(change: dict[str, Any]) -> None:
    """Law: whatever the document is, there are tools, or what is wrong is said."""
    skipped: list[Any] = []
    with contextlib.suppress(InputError):
        tools_from_openapi({**swagger("127.0.0.1:1"), **change}, never, skipped=skipped)
    assert all(str(one.error) for one in skipped)


def test_addresses_of_swagger_2() -> None:
    """Law: https where it is offered or nothing is said; without a host, that of the document's own address."""
    for change, base in (
        ({}, "http://h/v2"),
        ({"schemes": ["http", "https"]}, "https://h/v2"),
        ({"schemes": []}, "https://h/v2"),
        ({"basePath": "v3"}, "http://h/v3"),
        ({"host": "", "basePath": "/v4"}, "https://docs.example/v4"),
    ):
        tools = tools_from_openapi(
            {**swagger("h"), **change},
            never,
            skipped=[],
            source="https://docs.example/a/swagger.json",
        )
        assert tools[0].reads == (base,)
