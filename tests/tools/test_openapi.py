"""OpenAPI documents as real services publish them: what is asked for is what is sent."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest

from callmemaybe.errors import InputError, NotExecuted
from callmemaybe.gateway import Gateway, Verdict
from callmemaybe.tools import Effect, ToolCall, tools_from
from callmemaybe.tools.openapi import HttpRequest, HttpResponse

COLOURS = ["blue", "black", "brown"]
RGB = {"R": 100, "G": 200, "B": 150}


def document(operation: dict[str, Any], path: str = "/x", **more: Any) -> dict[str, Any]:
    """Return a document with one operation, a POST."""
    servers = [{"url": "https://api.example/v1"}]
    return {"openapi": "3.0.3", "servers": servers, "paths": {path: {"post": operation}}, **more}


def sent(whole: dict[str, Any], arguments: dict[str, Any]) -> HttpRequest:
    """Return the request that the one tool of a document sends."""
    requests: list[HttpRequest] = []

    async def transport(request: HttpRequest) -> HttpResponse:
        requests.append(request)
        return HttpResponse(204, "", b"")

    (made,) = tools_from(whole, transport=transport)
    asyncio.run(made(**arguments))
    (request,) = requests
    return request


def written(place: str, value: Any, **declared: Any) -> str | None:
    """Return what is sent for the parameter `color`; None: nothing."""
    parameter = {"name": "color", "in": place, "schema": {}, **declared}
    path = "/x/{color}" if place == "path" else "/x"
    request = sent(document({"parameters": [parameter]}, path), {"color": value})
    if place == "header":
        return request.headers.get("color")
    rest = request.url.removeprefix("https://api.example/v1/x")
    return rest[1:] if rest else None


@pytest.mark.parametrize(
    ("place", "style", "explode", "empty", "string", "array", "object_"),
    [
        ("path", "matrix", False, ";color", ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"),
        ("path", "matrix", True, ";color", ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"),
        ("path", "label", False, None, ".blue", ".blue,black,brown", ".R,100,G,200,B,150"),
        ("path", "label", True, None, ".blue", ".blue.black.brown", ".R=100.G=200.B=150"),
        ("path", "simple", False, None, "blue", "blue,black,brown", "R,100,G,200,B,150"),
        ("path", "simple", True, None, "blue", "blue,black,brown", "R=100,G=200,B=150"),
        ("header", "simple", False, "", "blue", "blue,black,brown", "R,100,G,200,B,150"),
        ("header", "simple", True, "", "blue", "blue,black,brown", "R=100,G=200,B=150"),
        ("query", "form", False, "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
        ("query", "form", True, "color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
        ("query", "spaceDelimited", False, "color=", "color=blue", "color=blue%20black%20brown", "color=R%20100%20G%20200%20B%20150"),
        ("query", "pipeDelimited", False, "color=", "color=blue", "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150"),
        ("query", "deepObject", True, "color=", "color=blue", "color%5B0%5D=blue&color%5B1%5D=black&color%5B2%5D=brown", "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
    ],
)  # fmt: skip
def test_every_style_is_written_as_its_example(
    place: str,
    style: str,
    explode: bool,
    empty: str | None,
    string: str,
    array: str | None,
    object_: str,
) -> None:
    """Law: the table of examples of OpenAPI 3.1.1; deepObject's arrays have indices; a path's empty value is not sent."""
    for value, expected in (("", empty), ("blue", string), (COLOURS, array), (RGB, object_)):
        if expected is None:
            with pytest.raises(NotExecuted):
                written(place, value, style=style, explode=explode)
        else:
            assert written(place, value, style=style, explode=explode) == expected


def test_what_is_not_said_of_a_parameter_is_the_usual() -> None:
    """Law: form, exploded, in a query; simple, not exploded, in a path and a header; deepObject explodes."""
    assert written("query", COLOURS) == "color=blue&color=black&color=brown"
    assert written("query", COLOURS, style="pipeDelimited") == "color=blue%7Cblack%7Cbrown"
    assert written("query", {"gt": 1}, style="deepObject") == "color%5Bgt%5D=1"
    assert written("path", RGB) == "R,100,G,200,B,150"
    assert written("header", [1, True, Decimal("0.10")]) == "1,true,0.10"


def test_values_are_encoded_and_told_apart() -> None:
    """Law: what separates values is encoded in them; where it cannot be, nothing is sent."""
    assert written("query", "a b&c=d/é,\"O'N") == "color=a%20b%26c%3Dd%2F%C3%A9%2C%22O%27N"
    assert written("query", ["a,b", "c"], explode=False) == "color=a%2Cb,c"
    assert written("path", ["a/b", "c;d=e"], style="matrix") == ";color=a%2Fb,c%3Bd%3De"
    loose = {"allowReserved": True}
    assert written("query", "/a?b=c:d,e&f#g+[h] %2F", **loose) == (
        "color=/a?b=c:d,e%26f%23g%2B%5Bh%5D%20%252F"
    )
    assert written("query", ["a,b", "c/d"], explode=False, **loose) == "color=a%2Cb,c/d"
    assert written("path", "a/b", **loose) == "a%2Fb"
    refused: list[tuple[str, Any, dict[str, Any]]] = [
        ("header", ["a,b", "c"], {}),
        ("header", {"a=b": 1}, {"explode": True}),
        ("query", ["a b", "c"], {"style": "spaceDelimited"}),
        ("query", ["a|b", "c"], {"style": "pipeDelimited"}),
        ("query", {"a][b": 1}, {"style": "deepObject"}),
        ("path", [1.5, 2], {"style": "label", "explode": True}),
        ("query", [["a"]], {}),
        ("query", {"a": {"b[": 1}}, {"style": "deepObject"}),
    ]
    for place, value, declared in refused:
        with pytest.raises(NotExecuted, match=f"{place} parameter 'color'.*nothing was sent"):
            written(place, value, **declared)


def test_what_is_undefined_is_not_written() -> None:
    """Law: null, and an array or object of nothing else, is as if it was not passed; a path needs a value."""
    for value in (None, [], [None], {}, {"a": None}):
        assert written("query", value) is None
        assert written("header", value) is None
        with pytest.raises(NotExecuted, match=r"path parameter 'color'.*no value"):
            written("path", value)
    assert written("query", ["a", None]) == "color=a"


def test_a_parameter_may_be_written_as_json() -> None:
    """Law: `content` of JSON is a JSON text, of a string too; in a header it is ASCII."""
    content = {"application/json": {"schema": {"type": "object"}}}
    declared = {"content": content, "schema": None}
    assert written("query", {"a": "é"}, **declared) == "color=%7B%22a%22%3A%20%22%C3%A9%22%7D"
    assert written("query", "a", **declared) == "color=%22a%22"
    assert written("path", [1], **declared) == "%5B1%5D"
    assert written("header", ["é😀"], **declared) == '["\\u00e9\\ud83d\\ude00"]'
    (made,) = tools_from(
        document({"parameters": [{"name": "q", "in": "query", "content": content}]}),
        transport=never,
    )
    assert made.spec.parameters["properties"] == {"q": {"type": "object"}}


async def never(request: HttpRequest) -> HttpResponse:
    raise AssertionError(request)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"in": "path", "style": "form"}, "path parameter 'p' has the style 'form'"),
        ({"in": "query", "style": "simple"}, "query parameter 'p' has the style 'simple'"),
        ({"in": "query", "style": "pipeDelimited", "explode": True}, "'p'.*explode is true"),
        ({"in": "query", "style": "deepObject", "explode": False}, "'p'.*explode is false"),
        ({"in": "query", "content": {"text/xml": {}}}, "query parameter 'p'.*'text/xml'"),
        ({"in": "query", "content": {"text/a": {}, "text/b": {}}}, "'text/a' or 'text/b'"),
        ({"in": "querystring"}, "the parameter 'p' is in 'querystring'"),
        ({"in": "cookie"}, "cookie parameter 'p'"),
        ({"in": "path", "name": "q"}, "path parameter 'p' is not declared"),
        ({"in": "query"}, "path parameter 'p' is not declared"),
    ],
)
def test_parameters_that_cannot_be_written_are_refused(
    declared: dict[str, Any], words: str
) -> None:
    """Law: what OpenAPI gives no form is refused by name, with its place, before anything is sent."""
    operation = {"parameters": [{"name": "p", "schema": {}, **declared}]}
    with pytest.raises(InputError, match=words) as caught:
        tools_from(document(operation, "/x/{p}"), transport=never)
    assert caught.value.where == "/paths/~1x~1{p}/post"


def test_parameters_of_one_name_and_those_that_are_none() -> None:
    """Law: each has an argument of its own; an operation's replaces its path's; three headers are not ours."""
    whole = document(
        {
            "parameters": [
                {"name": "id", "in": "query", "schema": {"type": "integer"}},
                {"name": "page", "in": "query", "schema": {"type": "integer"}},
                *({"name": name, "in": "header", "required": True} for name in ("Accept", "AUTHORIZATION", "Content-Type")),
            ],
            "requestBody": {"content": {"application/json": {"schema": {}}}},
        },
        "/x/{id}",
    )  # fmt: skip
    whole["paths"]["/x/{id}"]["parameters"] = [
        {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
        {"name": "page", "in": "query", "required": True, "schema": {"type": "string"}},
    ]
    (made,) = tools_from(whole, transport=never)
    assert made.spec.parameters["properties"] == {
        "id": {"type": "string"},
        "page": {"type": "integer"},
        "id_in_query": {"type": "integer"},
        "body": {},
    }
    assert made.spec.parameters["required"] == ["id"]
    request = sent(whole, {"id": "a", "id_in_query": 7, "page": 2, "body": 1})
    assert request.url == "https://api.example/v1/x/a?id=7&page=2"
    assert (request.headers, request.body) == ({"content-type": "application/json"}, b"1")
    with pytest.raises(TypeError, match="no argument 'Accept'"):
        sent(whole, {"id": "a", "Accept": "text/html"})


def test_requests_go_to_the_server_of_their_operation() -> None:
    """Law: the operation's server comes before its path's, and that before the document's; variables have defaults."""
    region = {"url": "https://{region}.example/{v}", "variables": {"region": {"default": "eu"}, "v": {"default": 2}}}  # fmt: skip
    whole = document({})
    assert sent({**whole, "servers": [region, {"url": "/"}]}, {}).url == "https://eu.example/2/x"
    whole["paths"]["/x"]["servers"] = [{"url": "https://path.example"}]
    assert sent(whole, {}).url == "https://path.example/x"
    whole["paths"]["/x"]["post"]["servers"] = [{"url": "https://uploads.example/"}]
    assert sent(whole, {}).url == "https://uploads.example/x"
    (made,) = tools_from(whole, transport=never)
    assert made.writes == ("https://uploads.example/",)
    for servers, words in (
        ([{"url": "/v3"}], "absolute"),
        ([{"url": "https://{a}.example"}], "variable 'a' has no default"),
    ):
        whole["paths"]["/x"]["post"]["servers"] = servers
        with pytest.raises(InputError, match=words) as caught:
            tools_from(whole, transport=never)
        assert caught.value.where == "/paths/~1x/post/servers/0"


def test_path_items_are_followed_and_extensions_left_alone() -> None:
    """Law: a path that refers to its operations has them; what begins with x- is no path."""
    whole = document({"operationId": "act"})
    whole["components"] = {"pathItems": {"X": whole["paths"]["/x"]}}
    whole["paths"] = {
        "x-note": "we get and post",
        "/x": {"$ref": "#/components/pathItems/X"},
    }
    assert [made.name for made in tools_from(whole, transport=never)] == ["act"]


@pytest.mark.parametrize(
    ("content_type", "body", "said"),
    [
        ("application/x-ndjson", b'{"a": 1}\n{"a": 2}\n', '{"a": 1}\n{"a": 2}\n'),
        ("application/json", b"OK", "OK"),
        ("application/json", b'{"a": NaN}', '{"a": NaN}'),
        ("application/json", b"[" * 5_000, "[" * 5_000),
        ("application/json", b"", ""),
        ("application/json", b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        ("Application/Problem+JSON", b'{"a": 1}', {"a": 1}),
    ],
)
def test_a_reply_that_cannot_be_read_is_no_failure(
    content_type: str, body: bytes, said: object
) -> None:
    """Law: a write that was answered with success is done, though its reply is no JSON text."""

    async def transport(_: HttpRequest) -> HttpResponse:
        return HttpResponse(200, content_type, body)

    async def go() -> Any:
        tools = tools_from(document({"operationId": "act"}), transport=transport)
        allowed = dict.fromkeys(Effect, Verdict.ALLOW)
        async with Gateway(tools, verdicts=allowed) as gateway:
            return (await gateway.run([ToolCall("act", "{}", "1")]))[0]

    answer = asyncio.run(go())
    assert answer.ok, answer
    assert json.loads(answer.content)["result"] == said


def with_body(schema: dict[str, Any], required: bool = True) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    return document({"requestBody": {"required": required, "content": content}})


def test_a_body_has_what_is_written_of_it() -> None:
    """Law: what only responses have is not asked for, wherever it is said to be required."""
    base = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "name": {"type": "string", "readOnly": False},
        },
    }
    (made,) = tools_from(with_body(base), transport=never)
    assert made.spec.parameters["required"] == ["name"]
    assert [*made.spec.parameters["properties"]] == ["name"]
    more = {"properties": {"in": {"type": "array", "items": base}}, "required": ["id", "in"]}
    (made,) = tools_from(with_body({"allOf": [base, more]}), transport=never)
    first, second = made.spec.parameters["properties"]["body"]["allOf"]
    assert (first["required"], [*first["properties"]]) == (["name"], ["name"])
    assert second["required"] == ["in"]
    assert second["properties"]["in"]["items"]["required"] == ["name"]


def test_a_body_is_limited_as_a_whole() -> None:
    """Law: what is said of the object stays; a required one without properties is sent empty."""
    parts = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    limits: list[dict[str, Any]] = [
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"minProperties": 1},
        {"required": ["c"]},
    ]
    for limit in limits:
        (made,) = tools_from(with_body({**parts, **limit}), transport=never)
        assert made.spec.parameters["properties"] == {"body": {**parts, **limit}}
        assert made.spec.parameters["required"] == ["body"]
    assert sent(with_body(parts), {}).body == b"{}"
    assert sent(with_body(parts), {"a": "x"}).body == b'{"a": "x"}'
    assert sent(with_body(parts, required=False), {}).body is None


def test_effects_that_no_request_can_keep_are_refused() -> None:
    """Law: keyed promises that the service is given the key, and nothing gives it; it was sent three times."""
    for effect in ("keyed", "transactional", "reed", ["read"]):
        with pytest.raises(InputError, match="cannot have the effect class") as caught:
            tools_from(document({"x-callmemaybe-effect": effect}), transport=never)
        assert caught.value.where == "/paths/~1x/post/x-callmemaybe-effect"
    (made,) = tools_from(document({"x-callmemaybe-effect": "read"}), transport=never)
    assert made.effect is Effect.READ


def test_schemas_of_3_0_and_references_of_every_kind_are_read() -> None:
    """Limits that true makes exclusive; references into lists, encoded, and below any keyword."""
    price = {
        "type": "number",
        "minimum": 0,
        "exclusiveMinimum": True,
        "maximum": 9,
        "exclusiveMaximum": False,
    }
    operation = {
        "parameters": [{"$ref": "#/components/x-shared/0"}],
        "requestBody": {"content": {"application/json": {"schema": {
            "type": "object",
            "properties": {
                "price": price,
                "tags": {"type": "array", "contains": {"$ref": "#/components/schemas/a%20tag"}},
                "other": {"if": {"$ref": "#/components/schemas/a%20tag"}},
            },
        }}}},
    }  # fmt: skip
    shared = [{"name": "page", "in": "query", "schema": {"type": "integer"}}]
    tag = {"type": "string", "maxLength": 3}
    whole = document(operation, components={"x-shared": shared, "schemas": {"a tag": tag}})
    (made,) = tools_from(whole, transport=never)
    found = made.spec.parameters["properties"]
    assert found == {
        "page": {"type": "integer"},
        "price": {"type": "number", "exclusiveMinimum": 0, "maximum": 9},
        "tags": {"type": "array", "contains": tag},
        "other": {"if": tag},
    }
    Gateway([made])
    for wrong in ("#/components/x-shared/1", "#/components/x-shared/-1", "#/components/x-shared/a"):
        with pytest.raises(InputError, match="there is nothing at"):
            tools_from(
                document({"parameters": [{"$ref": wrong}]}, components={"x-shared": shared}),
                transport=never,
            )
