"""How a Python function becomes a tool: its schema, its values, its declaration."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import enum
import functools
import json
import math
import os
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

import jsonschema
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.errors import InputError
from callmemaybe.tools import (
    Context,
    Effect,
    Mode,
    NotExecuted,
    Tool,
    ToolSpec,
    Transaction,
    TransientError,
    make_tool,
    tool,
    tools_from,
)
from callmemaybe.tools.declare import function_spec
from callmemaybe.tools.docstrings import parse_docstring
from callmemaybe.tools.openapi import HttpRequest, HttpResponse


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(pydantic.BaseModel):
    """Where."""

    city: str
    zip: Annotated[str, pydantic.Field(pattern="^[0-9]{5}$")] = "00000"


@dataclasses.dataclass
class Size:
    width: int
    height: int = 1


class Options(TypedDict, total=False):
    loud: bool


def everything(
    name: str,
    count: Annotated[int, pydantic.Field(ge=1, le=9)],
    colour: Colour,
    mode: Literal["fast", "slow"],
    place: Place,
    size: Size,
    options: Options,
    tags: list[str],
    either: int | str,
    maybe: float | None = None,
    _private: Annotated[str, "a name with an underscore"] = "x",
    copy: bool = False,
) -> dict[str, Any]:
    """Do everything.

    At once.

    Args:
        name: who it is for
        count (int): how often,
            at most nine
    """
    return dict(locals())


def test_schema_and_values_of_every_kind_of_annotation() -> None:
    """What the schema allows binds to the annotated Python values; defaults stay the function's."""
    made = make_tool(everything)
    schema = made.spec.parameters
    jsonschema.Draft202012Validator.check_schema(schema)
    arguments = {
        "name": "Ada",
        "count": 3,
        "colour": "red",
        "mode": "slow",
        "place": {"city": "Paris"},
        "size": {"width": 2},
        "options": {"loud": True},
        "tags": ["a"],
        "either": "x",
        "_private": "y",
    }
    jsonschema.validate(arguments, schema)
    values = made(**made.bind(arguments))
    assert values["colour"] is Colour.RED
    assert values["place"] == Place(city="Paris")
    assert values["size"] == Size(2)
    assert (values["maybe"], values["copy"], values["_private"]) == (None, False, "y")
    assert made.spec.description == "Do everything.\n\nAt once."
    properties = schema["properties"]
    assert properties["count"]["description"] == "how often, at most nine"
    assert properties["_private"]["description"] == "a name with an underscore"
    assert "title" not in str(schema)
    assert schema["additionalProperties"] is False
    assert "copy" not in schema["required"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"count": 10}, "/count"),
        ({"count": "x"}, "/count"),
        ({"place": {"city": "x", "zip": "1"}}, "/place/zip"),
        ({"size": {}}, "/size/width"),
        ({"colour": "green"}, "/colour"),
        ({"extra": 1}, "/extra"),
    ],
)
def test_what_does_not_fit_is_pointed_at(change: dict[str, Any], pointer: str) -> None:
    """A value that does not fit raises InputError with its JSON pointer."""
    arguments = {
        "name": "Ada",
        "count": 3,
        "colour": "red",
        "mode": "slow",
        "place": {"city": "Paris"},
        "size": {"width": 2},
        "options": {},
        "tags": [],
        "either": 1,
        **change,
    }
    with pytest.raises(InputError) as caught:
        make_tool(everything).bind(arguments)
    assert caught.value.where == pointer


def unhinted(a): ...  # type: ignore[no-untyped-def]
def starred(*parts: str) -> None: ...
def called(back: Callable[[int], int]) -> None: ...
def opaque(thing: types.FrameType) -> None: ...
def returning(a: int) -> types.FrameType: ...
def dangling(a: "Missing") -> None: ...  # type: ignore[name-defined] # noqa: F821, UP037


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (unhinted, "parameter a: it has no type hint"),
        (starred, "parameter parts: a model cannot pass"),
        (called, "parameter back: JSON Schema cannot express"),
        (opaque, "parameter thing: JSON Schema cannot express frame"),
        (returning, "return value: JSON Schema cannot express frame"),
        (dangling, "type hints cannot be resolved"),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_name(function: Any, words: str) -> None:
    """Registration fails with the parameter's name; nothing is silently left out."""
    with pytest.raises(InputError, match=words):
        make_tool(function)


@pytest.mark.parametrize(
    "text",
    [
        """Add two numbers.

        Args:
            a (float): the first
                of them
            b: the second

        Returns:
            float: the sum
        """,
        """Add two numbers.

        Parameters
        ----------
        a : float
            the first
            of them
        b
            the second

        Returns
        -------
        float
            the sum
        """,
        """Add two numbers.

        :param float a: the first
            of them
        :param b: the second
        :returns: the sum
        """,
    ],
    ids=["google", "numpy", "rest"],
)
def test_docstring_styles(text: str) -> None:
    """The three styles say the same."""
    doc = parse_docstring(text)
    assert doc.description == "Add two numbers."
    assert doc.parameters == {"a": "the first of them", "b": "the second"}
    assert doc.returns == "the sum"


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_any_docstring_is_read(text: str) -> None:
    """No text makes the reader fail."""
    parse_docstring(text)


async def later(a: int) -> int:
    return a


def now(a: int) -> int:
    return a


def test_modes_follow_from_the_declaration() -> None:
    """async runs in the loop, looking in a thread, a write with a timeout in a process."""
    assert make_tool(later).mode is Mode.ASYNC
    assert make_tool(now, effect="read").mode is Mode.THREAD
    assert make_tool(now).mode is Mode.PROCESS
    assert make_tool(now, timeout=None).mode is Mode.THREAD
    assert make_tool(now).effect is Effect.ONCE


@pytest.mark.parametrize(
    ("function", "declared", "words"),
    [
        (now, {"mode": "thread"}, "a thread cannot be killed"),
        (now, {"mode": "thread", "timeout": 5}, "a thread cannot be killed"),
        (lambda a: a, {"name": "f"}, "no type hint"),
        (now, {"effect": "keyed"}, "must pass the key on"),
        (now, {"effect": "transactional"}, "annotated Transaction"),
        (now, {"effect": "sometimes"}, "unknown effect class"),
        (now, {"mode": "boat"}, "unknown mode"),
        (later, {"mode": "thread"}, "runs in mode async, process or fresh"),
        (now, {"timeout": 0}, "must be positive"),
        (now, {"attempts": 0}, "at least one"),
        (now, {"writes": "file:{b}"}, "names no parameter 'b'"),
        (now, {"secrets": {"b": "KEY"}}, "no parameter 'b'"),
        (now, {"sensitive": ["b"]}, "no parameter 'b'"),
    ],
)
def test_declarations_that_promise_too_much(
    function: Any, declared: dict[str, Any], words: str
) -> None:
    """A declaration that cannot keep its promise is refused when it is made."""
    with pytest.raises(InputError, match=words):
        make_tool(function, **declared)


def test_a_closure_with_a_write_needs_another_way() -> None:
    """A function that another process cannot import cannot be a write with a timeout."""

    def local(a: int) -> int:
        return a

    with pytest.raises(InputError, match="another process cannot import it"):
        make_tool(local)


def test_what_the_gateway_passes_is_not_shown() -> None:
    """Context, Transaction and secrets are no parameters for a model."""

    @tool(effect="transactional", secrets={"token": "T"})
    def act(a: int, token: str, context: Context, transaction: Transaction) -> None: ...

    assert list(act.spec.parameters["properties"]) == ["a"]
    assert act.injected == {"context": Context, "transaction": Transaction}


class Home:
    """Lamps."""

    def __init__(self) -> None:
        self.on: list[str] = []

    @tool(effect="idempotent", writes="lamp:{room}")
    async def light(self, room: str) -> str:
        """Switch a light on."""
        self.on.append(room)
        return room

    @tool(effect="pure")
    def twice(self, n: int) -> int:
        return 2 * n


def test_methods_become_tools_of_their_object() -> None:
    """`tools_from(object)` binds; the tool is still callable as the method was."""
    home = Home()
    light, twice = tools_from(home)
    assert asyncio.run(light(room="hall")) == "hall"
    assert asyncio.run(home.light("attic")) == "attic"
    assert home.on == ["hall", "attic"]
    assert twice.bind({"n": 2}) == {"n": 2}
    assert "self" not in light.spec.parameters["properties"]


def test_tools_from_a_module_a_plain_object_and_functions() -> None:
    """Declared tools win; where there are none, public functions and methods count as `once`."""
    module = types.ModuleType("shed")
    with pytest.raises(InputError, match="no tools"):
        tools_from(module)
    exec("async def dig(deep: int) -> int:\n    return deep\n", module.__dict__)
    assert [(made.name, made.effect) for made in tools_from(module)] == [("dig", Effect.ONCE)]
    module.declared = make_tool(later)  # type: ignore[attr-defined]
    assert [made.name for made in tools_from(module)] == ["later"]

    class Plain:
        async def open(self, door: str) -> str:
            return door

    assert [made.name for made in tools_from([Plain(), later])] == ["open", "later"]
    with pytest.raises(InputError, match="has no tools"):
        tools_from(object())


def test_locks_come_from_the_arguments() -> None:
    """Resources are named from arguments and defaults; what is undeclared is everything."""

    @tool(effect="once", writes=["account:{a}", "account:{b}"], reads="rates")
    async def move(a: str, b: str = "z") -> None: ...

    assert move.locks_for({"a": "x"}) == (
        ("account:x", True),
        ("account:z", True),
        ("rates", False),
    )
    assert move.locks_for(None) == (("*", True),)
    assert make_tool(later).locks_for({"a": 1}) == (("*", True),)
    assert make_tool(later, effect="read").locks_for({"a": 1}) == (("*", False),)
    assert make_tool(later, effect="pure").locks_for({"a": 1}) == ()


DOCUMENT = {
    "openapi": "3.0.3",
    "servers": [{"url": "https://pets.example/v1"}],
    "paths": {
        "/pets/{id}": {
            "parameters": [
                {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
            ],
            "get": {
                "operationId": "getPet",
                "summary": "One pet",
                "parameters": [
                    {"name": "tag", "in": "query", "schema": {"type": "array", "items": {}}}
                ],
            },
            "put": {
                "operationId": "putPet",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}
                    },
                },
            },
        },
        "/pets": {
            "post": {
                "operationId": "newPets",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "array",
                                "items": {"$ref": "#/components/schemas/Pet"},
                            }
                        }
                    },
                },
            }
        },
    },
    "components": {
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string", "nullable": True}},
            }
        }
    },
}


def test_openapi_operations_become_tools() -> None:
    """Parameters and body become arguments; the request puts them back where they belong."""
    sent: list[HttpRequest] = []

    async def transport(request: HttpRequest) -> HttpResponse:
        sent.append(request)
        return HttpResponse(200, "application/json", b'{"ok": 1}')

    made = {item.name: item for item in tools_from(DOCUMENT, transport=transport)}
    assert {name: item.effect for name, item in made.items()} == {
        "getPet": Effect.READ,
        "putPet": Effect.IDEMPOTENT,
        "newPets": Effect.ONCE,
    }
    assert not made["getPet"].trusted
    assert made["putPet"].spec.parameters["properties"]["name"] == {"type": ["string", "null"]}
    assert asyncio.run(made["getPet"](id="a/b", tag=["x y", 1])) == {"ok": 1}
    asyncio.run(made["putPet"](id="7", name="Rex"))
    asyncio.run(made["newPets"](body=[{"name": "Tom"}]))
    assert [(one.method, one.url, one.body) for one in sent] == [
        ("GET", "https://pets.example/v1/pets/a%2Fb?tag=x%20y&tag=1", None),
        ("PUT", "https://pets.example/v1/pets/7", b'{"name": "Rex"}'),
        ("POST", "https://pets.example/v1/pets", b'[{"name": "Tom"}]'),
    ]


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("/accounts/{a}/items/{b}", {"a": "5", "b": ".."}),
        ("/accounts/{a}/items/{b}", {"a": "5", "b": "."}),
        ("/accounts/{a}/items/{b}", {"a": "5", "b": ""}),
        ("/accounts/{a}/items/{b}", {"a": "", "b": "7"}),
        ("/accounts/{a}/items/{b}", {"a": "..", "b": "7"}),
        ("/accounts/{a}{b}/items", {"a": ".", "b": "."}),
        ("/accounts/{a}{b}/items", {"a": "", "b": ""}),
        ("/accounts/.{a}/{b}", {"a": ".", "b": "7"}),
        ("/accounts/%2E{a}/{b}", {"a": ".", "b": "7"}),
        ("/accounts/{a}./{b}", {"a": "", "b": "7"}),
        ("/{a/b}/{b}", {"a/b": "..", "b": "7"}),
    ],
)
def test_openapi_path_arguments_lead_to_no_other_operation(
    path: str, arguments: dict[str, str]
) -> None:
    """A segment that its arguments make empty, `.` or `..` is refused, and nothing is sent."""

    async def refusing(request: HttpRequest) -> HttpResponse:
        raise AssertionError(request)

    parameters = [{"name": name, "in": "path", "schema": {}} for name in arguments]
    document = {**DOCUMENT, "paths": {path: {"delete": {"parameters": parameters}}}}
    (made,) = tools_from(document, transport=refusing)
    with pytest.raises(NotExecuted, match="another operation"):
        asyncio.run(made(**arguments))


def test_openapi_path_arguments_may_hold_dots() -> None:
    """Only a whole segment leads away; the document's own empty segment is its own business."""
    sent: list[str] = []

    async def transport(request: HttpRequest) -> HttpResponse:
        sent.append(request.url)
        return HttpResponse(204, "", b"")

    parameters = [{"name": name, "in": "path", "schema": {}} for name in "ab"]
    document = {**DOCUMENT, "paths": {"/x/{a}.{b}/": {"delete": {"parameters": parameters}}}}
    (made,) = tools_from(document, transport=transport)
    for a, b in (("..", ".."), ("v1", "2"), ("../x", "%2e"), ("{b}", "..")):
        asyncio.run(made(a=a, b=b))
    base = "https://pets.example/v1/x"
    assert sent == [
        f"{base}/...../",
        f"{base}/v1.2/",
        f"{base}/..%2Fx.%252e/",
        f"{base}/%7Bb%7D.../",
    ]


def reading_the_environment(a: str) -> str:
    def inner() -> str:
        return os.getenv(a, "")

    return inner()


def test_a_tool_of_a_process_says_which_variables_it_needs() -> None:
    """Its environment is empty otherwise, and a default would be taken in silence."""
    for effect in ("once", "idempotent"):
        with pytest.raises(InputError, match=r"reads the environment.*environment=\[\"HOME\"\]"):
            make_tool(reading_the_environment, effect=effect)
    for declared in ([], "HOME", ["HOME", "PATH"]):
        made = make_tool(reading_the_environment, environment=declared)
        assert made.environment == ((declared,) if isinstance(declared, str) else tuple(declared))
    assert make_tool(reading_the_environment, effect="read").environment is None
    assert make_tool(reading_the_environment, timeout=None).environment is None


def answering(method: str, response: HttpResponse) -> Tool:
    async def transport(_: HttpRequest) -> HttpResponse:
        return response

    (made,) = tools_from({**DOCUMENT, "paths": {"/x": {method: {}}}}, transport=transport)
    return made


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
@pytest.mark.parametrize("status", [307, 308])
def test_openapi_writes_that_are_sent_elsewhere_may_have_been_carried_out(
    method: str, status: int
) -> None:
    """A redirected write names the status and the address; only of one that may be repeated is it a failure."""
    response = HttpResponse(status, "text/html", b"moved", "https://other.example/x")
    unclear = TransientError if method in {"post", "patch"} else ValueError
    with pytest.raises(unclear, match=rf"HTTP {status}.*https://other\.example/x"):
        asyncio.run(answering(method, response)())
    with pytest.raises(unclear, match=rf"HTTP {status}: "):
        asyncio.run(answering(method, HttpResponse(status, "", b""))())


def test_openapi_see_other_is_done_for_a_write_and_no_result_of_a_read() -> None:
    """303 answers a write that was handled; other replies that are no success are failures, of unknown effect."""
    response = HttpResponse(303, "text/html", b"see", "/orders/7")
    done = {"status": 303, "location": "/orders/7"}
    assert asyncio.run(answering("post", response)()) == done
    assert asyncio.run(answering("delete", response)()) == done
    with pytest.raises(ValueError, match=r"HTTP 303.*/orders/7"):
        asyncio.run(answering("get", response)())
    for status in (101, 300, 301, 302, 304):
        for method in ("get", "put"):
            with pytest.raises(ValueError, match=rf"HTTP {status}.*/orders/7"):
                asyncio.run(answering(method, HttpResponse(status, "", b"", "/orders/7"))())


@pytest.mark.parametrize(
    ("content_type", "body", "said"),
    [
        ("text/plain; charset=iso-8859-1", b"caf\xe9", "caf\xe9"),
        ('text/plain; x=1; Charset="Shift_JIS"', "\u8a9e".encode("shift_jis"), "\u8a9e"),
        ("application/json; charset=utf-16", '{"a": "\xe9"}'.encode("utf-16"), {"a": "\xe9"}),
        ("application/json", '"\xe9"'.encode(), "\xe9"),
        ("text/plain; charset=ascii", b"a\xe9", "a\ufffd"),
        ("text/plain; charset=nothing", b"\xc3\xa9\xff", "\xe9\ufffd"),
        ("text/plain; charset=hex", b"6", "6"),
        ("text/plain; charset=punycode", b"a-b", "a-b"),
        ("text/plain; charset=unicode_escape", b"\\x41", "\\x41"),
        ("text/plain; charset=", b"\xc3\xa9", "\xe9"),
        ("text/plain", b"\xc3\xa9", "\xe9"),
    ],
)
def test_openapi_replies_are_decoded_as_they_say(
    content_type: str, body: bytes, said: object
) -> None:
    """The charset of the reply is its own; one that is unknown, or none, is UTF-8."""
    assert asyncio.run(answering("get", HttpResponse(200, content_type, body))()) == said


def test_openapi_that_cannot_be_expressed_is_refused() -> None:
    """A cookie, another body than JSON, an endless schema: refused with the pointer."""

    async def refusing(request: HttpRequest) -> HttpResponse:
        raise AssertionError(request)

    for change, words in (
        ({"parameters": [{"name": "c", "in": "cookie"}]}, "cookie parameter 'c'"),
        ({"requestBody": {"content": {"text/xml": {}}}}, "written as 'text/xml'"),
        ({"requestBody": {"$ref": "other.json#/x"}}, "cannot be followed"),
    ):
        document = {**DOCUMENT, "paths": {"/x": {"post": change}}}
        with pytest.raises(InputError, match=words):
            tools_from(document, transport=refusing)
    with pytest.raises(InputError, match="no OpenAPI"):
        tools_from({"info": {}}, transport=refusing)


def test_a_tool_made_by_hand() -> None:
    """A Tool can be built from a definition and a function, without a signature."""

    async def act(**arguments: Any) -> Any:
        return arguments

    made = Tool(ToolSpec("act", "", {"type": "object"}), act, mode=Mode.ASYNC)
    assert made.bind({"x": 1}) == {"x": 1}


class Job(TypedDict):
    size: Annotated[int, pydantic.Field(ge=1)]
    note: NotRequired[str]
    rank: Annotated[NotRequired[int], pydantic.Field(le=3)]


class Rated(Job, total=False):
    stars: Required[Annotated[int, pydantic.Field(le=5)]]
    remark: str


def test_keys_of_a_typed_dict_keep_their_constraints_and_qualifiers() -> None:
    """Annotated and (Not)Required hold under deferred annotations, in the schema and for values."""

    async def rate(job: Rated) -> None: ...

    made = make_tool(rate)
    schema = made.spec.parameters["$defs"]["Rated"]
    assert sorted(schema["required"]) == ["size", "stars"]
    limits = {name: part.get("maximum") for name, part in schema["properties"].items()}
    assert limits == {"size": None, "note": None, "rank": 3, "stars": 5, "remark": None}
    assert schema["properties"]["size"]["minimum"] == 1
    assert made.bind({"job": {"size": 1, "stars": 5}}) == {"job": {"size": 1, "stars": 5}}
    for wrong in ({"size": 0, "stars": 5}, {"size": 1, "stars": 6}, {"size": 1}):
        with pytest.raises(InputError, match="/job/"):
            made.bind({"job": wrong})


def test_an_absent_positional_argument_leaves_its_place_to_nobody() -> None:
    """A positional-only parameter that is not passed has its default, whatever comes after it."""

    async def pair(a: int = 1, b: Annotated[int, pydantic.Field(default=2)] = 3, /) -> Any:
        return a, b

    made = make_tool(pair)
    for arguments, told in (({"b": 7}, (1, 7)), ({"a": 7}, (7, 3)), ({}, (1, 3))):
        assert asyncio.run(made.call(made.bind(arguments))) == told


def test_a_default_inside_annotated_is_passed() -> None:
    """A default of Field(...) is in the schema, and the function gets it; its own one wins."""

    async def count(
        to: Annotated[int, pydantic.Field(default=3)],
        seen: Annotated[list[int], pydantic.Field(default_factory=list)],
        by: Annotated[int, pydantic.Field(default=4)] = 5,
    ) -> Any:
        return to, seen, by

    made = make_tool(count)
    assert "required" not in made.spec.parameters
    assert made.spec.parameters["properties"]["to"]["default"] == 3
    assert asyncio.run(made.call(made.bind({}))) == (3, [], 5)
    assert asyncio.run(made.call(made.bind({"to": 1}))) == (1, [], 5)


def test_one_value_in_two_spellings_is_one_lock() -> None:
    """A resource is named by what the function receives, not by how the model wrote it."""

    @tool(effect="once", writes="{a}/{b}/{c}")
    async def act(
        a: float, b: Decimal = Decimal("2.0"), c: uuid.UUID | list[int] | None = None
    ) -> None: ...

    upper, lower = "A" * 8 + "-0000-4000-8000-" + "0" * 12, "a" * 8 + "-0000-4000-8000-" + "0" * 12
    for one, other, name in (
        ({"a": 1}, {"a": 1.0}, "1/2/None"),
        ({"a": 1, "b": "1.10"}, {"a": 1, "b": 1.1}, "1/1.1/None"),
        ({"a": 1, "c": upper}, {"a": 1, "c": lower}, f"1/2/{lower}"),
        ({"a": 1, "c": [1, 2.0]}, {"a": 1, "c": [1.0, 2]}, "1/2/[1, 2]"),
    ):
        assert act.locks_for(one) == act.locks_for(other) == ((name, True),)
    assert act.locks_for({"a": "no number"}) == (("*", True),)
    computed = dataclasses.replace(act, writes=None, locks=lambda given: [(str(given["a"]), True)])
    assert computed.locks_for({"a": 1.0}) == computed.locks_for({"a": 1}) == (("1", True),)
    bare = Tool(ToolSpec("act", "", {"properties": {"a": {}}}), now, writes=("{a}",), timeout=None)
    assert bare.locks_for({"a": 1.0}) == bare.locks_for({"a": 1}) == (("1", True),)


def test_one_moment_in_two_time_zones_is_one_lock() -> None:
    """Times are compared as moments."""

    @tool(effect="once", writes="slot:{at}")
    async def book(at: dt.datetime) -> None: ...

    east, utc = "2024-01-01T10:00:00+02:00", "2024-01-01T08:00:00Z"
    assert book.locks_for({"at": east}) == book.locks_for({"at": utc}) == ((f"slot:{utc}", True),)


def yielding(a: int) -> Any:
    yield a


async def yielding_later(a: int) -> Any:
    yield a


@pytest.mark.parametrize("function", [yielding, yielding_later])
@pytest.mark.parametrize("effect", ["pure", "once"])
def test_a_function_that_yields_is_no_tool(function: Any, effect: str) -> None:
    """What it does after a yield would not be part of any attempt."""
    with pytest.raises(InputError, match="returns once, and this function yields"):
        make_tool(function, effect=effect)


def noting(function: Any) -> Any:
    @functools.wraps(function)
    def noted(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return noted


@tool
@noting
def decorated(a: int) -> int:
    return a


class Drawer:
    @staticmethod
    @tool
    @noting
    def pull(a: int) -> int:
        return a


renamed = make_tool(noting(now))


def test_a_decorated_function_is_looked_for_where_it_is_held() -> None:
    """Another process gets the name of this very object: the decorated one, or none."""
    where = (__name__, __file__)
    assert make_tool(now).location == (*where, "now")
    assert decorated.location == (*where, "decorated")
    assert Drawer.pull.location == (*where, "Drawer.pull")
    assert renamed.location == (*where, "renamed")
    assert make_tool(noting(now)).location is None


class Tree(TypedDict):
    name: str
    parts: list[Tree]


class Bill(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    day: dt.date
    sum: Decimal
    paid: bool = False


def test_a_typed_dict_that_refers_to_itself_is_refused_by_name() -> None:
    """It has no end as pydantic gets it; what to do is said."""

    def plant(tree: Tree) -> None: ...

    with pytest.raises(InputError, match=r"tool plant, parameter tree: .*Tree.*typing_extensions"):
        make_tool(plant, effect="pure")


def test_strict_types_take_what_json_has_for_them() -> None:
    """A date is a text in JSON, whatever else it may not be; no number is rounded for that."""

    @tool(effect="pure")
    def pay(bill: Bill) -> None: ...

    day = {"day": "2024-02-29"}
    assert pay.bind({"bill": {**day, "sum": Decimal("1.25")}})["bill"].sum == Decimal("1.25")
    with pytest.raises(InputError, match=r"^/bill/paid: "):
        pay.bind({"bill": {**day, "sum": 1, "paid": "yes"}})
    with pytest.raises(InputError, match=r"^/bill/day: "):
        pay.bind({"bill": {**day, "sum": Decimal("1.2345678901234567891")}})


def test_to_look_for_methods_reads_no_property() -> None:
    """It may do anything, and fail."""

    class Service:
        @property
        def session(self) -> object:
            raise RuntimeError("not connected")

        @functools.cached_property
        def other(self) -> object:
            raise RuntimeError("not connected")

        async def send(self, text: str) -> str:
            return text

    assert [made.name for made in tools_from(Service())] == ["send"]


def test_roles_and_types_with_brackets_belong_to_any_docstring() -> None:
    """A line that begins with a role is prose, and a type in brackets may have some of its own."""
    found = parse_docstring(
        """Send a message.

        :class:`Bot` sends it.

        Args:
            text (str): what to say
            size (tuple(int, int), optional): how large
        """
    )
    assert found.description == "Send a message.\n\n:class:`Bot` sends it."
    assert found.parameters == {"text": "what to say", "size": "how large"}


def test_openapi_numbers_keep_their_digits() -> None:
    """Whoever runs the call may hand in numbers that are exact: in the address and in the body."""
    sent: list[HttpRequest] = []

    async def transport(request: HttpRequest) -> HttpResponse:
        sent.append(request)
        return HttpResponse(200, "text/plain", b"")

    body = {"application/json": {"schema": {"properties": {"n": {"type": "number"}}}}}
    operation = {
        "operationId": "put",
        "parameters": [{"name": "at", "in": "query", "schema": {"type": "number"}}],
        "requestBody": {"content": body},
    }
    document = {
        "openapi": "3.0.0",
        "servers": [{"url": "http://x"}],
        "paths": {"/a": {"post": operation}},
    }
    (put,) = tools_from(document, transport=transport)
    long = Decimal("0.1000000000000000000001")
    asyncio.run(put(at=Decimal("2.5"), body={"n": long}))
    assert (sent[0].url, sent[0].body) == ("http://x/a?at=2.5", f'{{"n": {long}}}'.encode())


def add(a: float, b: float, key: str) -> float:
    """Add two numbers."""
    return a + b + len(key)


class Doubler:
    """An object that can be called."""

    def __call__(self, number: int) -> int:
        """Double a number."""
        return 2 * number

    def triple(self, number: int) -> int:
        """Triple a number."""
        return 3 * number


def test_what_a_partial_has_fixed_is_decided() -> None:
    """The model neither sees it nor can pass another value: it may be a secret."""
    made = tool(functools.partial(add, 1, key="s3cret"), timeout=None)
    assert (made.name, made.spec.description) == ("add", "Add two numbers.")
    assert list(made.spec.parameters["properties"]) == ["b"]
    assert made.spec.parameters["required"] == ["b"]
    assert "s3cret" not in str(made.spec)
    assert made.call(made.bind({"b": 2})) == 9
    with pytest.raises(InputError, match="key"):
        made.bind({"b": 2, "key": "mine"})


def test_objects_that_can_be_called_are_tools_with_a_name() -> None:
    """What they do is what `__call__` says; a name they have none of."""
    made = tool(Doubler(), name="double", timeout=None)
    assert made.spec.description == "Double a number."
    assert made.call(made.bind({"number": 4})) == 8
    with pytest.raises(InputError, match=r'a tool needs a name; pass name="\.\.\."'):
        tool(Doubler())
    with pytest.raises(
        InputError, match=r"tool double: another process cannot import it.* or an object"
    ):
        tool(Doubler(), name="double")


@pytest.mark.parametrize("function", [add, tool(add), functools.partial(add, key="")])
def test_what_a_model_reads_does_not_depend_on_where_it_runs(function: Any) -> None:
    """Closures and methods can be offered, too."""
    found = function_spec(function)
    assert (found.name, found.description) == ("add", "Add two numbers.")
    assert set(found.parameters["properties"]) >= {"a", "b"}
    assert function_spec(Doubler().triple).parameters["required"] == ["number"]
    with pytest.raises(InputError, match="a tool needs a name"):
        function_spec(lambda a: a)


@dataclasses.dataclass
class Pause:
    """How long to wait."""

    seconds: float = math.inf


def test_a_default_that_json_has_no_number_for_is_not_said() -> None:
    """Infinity and nan make a parameter optional; in a schema they are no JSON."""

    def wait(
        seconds: float = math.inf, each: tuple[float, ...] = (math.nan,), how: Pause | None = None
    ) -> str:
        return f"{seconds} {each} {how}"

    found = function_spec(wait)
    assert json.loads(json.dumps(found.as_openai(), allow_nan=False))
    assert "required" not in found.parameters
    assert "default" not in found.parameters["properties"]["each"]
    made = tool(wait, timeout=None)
    assert made.call(made.bind({})) == "inf (nan,) None"


def test_what_is_only_offered_may_return_anything() -> None:
    """A model reads what it may pass; what comes back is Python's, unless the call is run here."""

    def table(rows: int) -> types.FrameType:
        raise NotImplementedError

    assert function_spec(table).returns is None
    assert function_spec(table).parameters["required"] == ["rows"]
    with pytest.raises(InputError, match="tool table, return value: JSON Schema cannot express"):
        tool(table, timeout=None)


def test_a_partial_of_an_object_is_called_as_the_object_is() -> None:
    """The name is that of what will be called."""
    named = Doubler()
    named.__name__ = "double"  # type: ignore[attr-defined]
    assert function_spec(functools.partial(named)).name == "double"


@pytest.mark.parametrize("approval", [True, "yes", "Always", "never", 1])
def test_an_approval_that_is_none_is_refused(approval: Any) -> None:
    """Taken for None, it let a payment run without asking anybody."""
    with pytest.raises(InputError, match=r'tool wait, approval: .*use "always", or leave it out'):
        make_tool(wait, approval=approval)
    assert make_tool(wait, approval="always").approval == "always"


async def wait(seconds: float, pin: str = "") -> str:
    """Wait."""
    return f"{seconds} {pin}"


def test_one_sensitive_parameter_is_no_list_of_letters() -> None:
    """One name will do, as for the resources."""
    assert make_tool(wait, sensitive="pin").sensitive == {"pin"}


class Boxed:
    """A builtin-like thing whose parameters nobody tells."""

    __signature__ = "none"

    def __call__(self) -> None:
        """Do nothing."""


def test_parameters_that_python_does_not_tell_are_an_error() -> None:
    """Python raises a TypeError or ValueError there."""
    with pytest.raises(InputError, match=r"tool boxed: Python does not tell its parameters"):
        tool(Boxed(), name="boxed")
    with pytest.raises(InputError, match=r"tool update: Python does not tell its parameters"):
        tool(dict.update)


HALF = Decimal("2.5")
LONG = Decimal("0.1000000000000000000000001")


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (Any, {"a": [HALF]}, {"a": [2.5]}),
        (object, HALF, 2.5),
        (Any, LONG, LONG),
        (list, [HALF, 3], [2.5, 3]),
        (dict, {"a": HALF}, {"a": 2.5}),
        (dict[str, Any], {"a": {"b": HALF}}, {"a": {"b": 2.5}}),
        (Annotated[list[Any], "values"], [HALF], [2.5]),
        (Any | None, HALF, 2.5),
        (tuple[Any, Decimal], [HALF, HALF], (2.5, HALF)),
        (tuple, [HALF, 1], (2.5, 1)),
        (tuple[()], [], ()),
        (typing.List, [HALF], [2.5]),  # noqa: UP006 - the old names count, too
        (typing.Dict, {"a": HALF}, {"a": 2.5}),  # noqa: UP006
        (Mapping, {"a": HALF}, {"a": 2.5}),
        (Sequence, [HALF], [2.5]),
        (Decimal, HALF, HALF),
    ],
)
def test_numbers_of_no_declared_kind_are_plain(hint: Any, value: Any, expected: Any) -> None:
    """As `json` reads them, unless digits would be lost; the schema says what it said."""

    def take(value: Any) -> Any:
        return value

    take.__annotations__ = {"value": hint}
    made = tool(take, timeout=None)
    got = made.bind({"value": value})["value"]
    assert (got, repr(got)) == (expected, repr(expected))
    plain = pydantic.TypeAdapter(hint).json_schema()
    said = dict(made.spec.parameters["properties"]["value"])
    said.pop("description", None)
    assert said == plain
