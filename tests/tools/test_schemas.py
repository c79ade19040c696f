"""One way to make a validator: it reads schemas in the words that grammars do, and fetches nothing."""

from __future__ import annotations

import json
import random
import socket
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.errors import InputError
from callmemaybe.gateway.registry import RegisteredTool, register_tools
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import json_schema
from callmemaybe.jsonio import loads
from callmemaybe.tools import Tool, ToolSpec
from callmemaybe.tools.schemas import normalize_dialect, validator_for
from tests.grammar.oracle import sample

NULLABLE = st.sampled_from([{}, {"nullable": True}, {"nullable": False}])
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object",
         "dict", "float", "tuple", "any"]  # fmt: skip


def listed(inner: Any) -> Any:
    """Return an array of some items, in the leaderboard's word or JSON Schema's."""
    return st.sampled_from(["tuple", "array"]).flatmap(
        lambda kind: inner.map(lambda one: {"type": kind, "items": one, "maxItems": 2})
    )


def keyed(inner: Any) -> Any:
    """Return an object of named members, names of keywords among them."""
    members = st.dictionaries(st.sampled_from(["enum", "type", "nullable", "a"]), inner, max_size=2)
    return st.tuples(st.sampled_from(["dict", "object"]), members).map(
        lambda made: {"type": made[0], "properties": made[1], "required": [*made[1]]}
    )


def either(kind: Any) -> Any:
    """Return schemas of a kind that may say nullable, too."""
    return st.tuples(kind, NULLABLE).map(lambda both: both[0] | both[1])


#: Schemas in the words that grammars read beside those of JSON Schema.
SCHEMAS = st.recursive(
    either(
        st.one_of(
            st.sampled_from(TYPES).map(lambda kind: {"type": kind}),
            st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True).map(
                lambda kinds: {"type": kinds}
            ),
            st.just({"type": "float", "minimum": 1, "maximum": 20}),
            st.just({"enum": [{"type": "dict", "nullable": True}, 1]}),
        )
    ),
    lambda inner: st.one_of(
        either(listed(inner)), either(keyed(inner)), inner.map(lambda one: {"anyOf": [one]})
    ),
    max_leaves=4,
)  # fmt: skip


def registered(value: Any, kind: str = "object") -> RegisteredTool:
    """Return a tool of one argument as a gateway has it."""
    parameters = {"type": kind, "properties": {"it": value}, "required": ["it"]}
    spec = ToolSpec("f", "", parameters | {"additionalProperties": False})

    async def nothing(**_: Any) -> None: ...

    return register_tools([Tool(spec, nothing, mode="async")], {})["f"]  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(value=SCHEMAS, kind=st.sampled_from(["object", "dict"]), seed=st.integers(0, 10**6))
def test_a_gateway_takes_what_a_grammar_writes(value: Any, kind: str, seed: int) -> None:
    """Law: whatever the grammar of a schema lets through, at random, the gateway finds valid."""
    tool, dice = registered(value, kind), random.Random(seed)
    automaton = compile_grammar(json_schema(tool.spec.parameters))
    for _ in range(4):
        arguments = loads(sample(automaton, dice, length=40).decode())
        assert tool.check(arguments) == arguments


@pytest.mark.parametrize(
    ("value", "valid", "wrong"),
    [
        ({"type": "integer", "nullable": True}, [None, 1], ["1", 1.5]),
        ({"type": "integer", "nullable": False}, [1], [None]),
        ({"type": "dict", "properties": {"a": {"type": "float"}}}, [{}, {"a": 1.5}], [{"a": "1"}, []]),
        ({"type": "tuple", "items": {"type": "float", "nullable": True}}, [[None, 1]], [["1"], {}]),
        ({"type": ["any", "string"], "maxLength": 1}, [7, "a", None], ["ab"]),
        ({"anyOf": [{"type": "dict"}, {"type": "float"}]}, [{}, 1.5], ["a", None]),
    ],
)  # fmt: skip
def test_a_gateway_refuses_what_is_of_no_such_type(
    value: Any, valid: list[Any], wrong: list[Any]
) -> None:
    """Law: OpenAPI's nullable and the leaderboard's types bind; the place of a mistake is as given."""
    tool = registered(value)
    for one in valid:
        assert tool.check({"it": one}) == {"it": one}
    for one in wrong:
        with pytest.raises(InputError) as caught:
            tool.check({"it": one})
        assert (caught.value.where or "").startswith("/it")


@settings(max_examples=60, deadline=None)
@given(SCHEMAS)
def test_what_stands_in_other_words_is_said_once(value: Any) -> None:
    """Law: the standard form is a fixed point but for what nullable adds, and changes nothing given."""
    before = json.dumps(value)
    once = normalize_dialect(value)
    assert normalize_dialect(once) == once
    assert json.dumps(value) == before


@pytest.mark.parametrize(
    "data", [{"enum": [{"type": "float"}]}, {"const": {"type": ["any"]}}, {"default": {"type": "dict"}},
             {"type": 3, "nullable": True}, {"type": [{"a": 1}]}, {"nullable": True}]
)  # fmt: skip
def test_what_is_no_type_stays(data: Any) -> None:
    """Law: values that look like schemas are left alone, and so is what is no type at all."""
    assert normalize_dialect(data) == data


def test_nothing_is_fetched() -> None:
    """Law: a schema that refers to another host is refused in a line, and nobody is called."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        called: list[Any] = []
        server.settimeout(30)

        def listen() -> None:
            connection, _ = server.accept()
            called.append(connection.recv(4))
            connection.close()

        listening = threading.Thread(target=listen)
        listening.start()
        host, port = server.getsockname()
        try:
            with pytest.raises(InputError, match=r"cannot be enforced: .*not fetched$") as caught:
                registered({"$ref": f"http://{host}:{port}/schema.json"})
        finally:
            with socket.create_connection((host, port)) as last:
                last.sendall(b"last")
            listening.join()
    assert called == [b"last"]
    assert "\n" not in str(caught.value)


def test_what_cannot_be_read_is_an_error_of_one_line() -> None:
    """Law: whatever is wrong with a schema, it is an InputError whose message is one line."""
    deep: Any = {}
    for _ in range(5000):
        deep = {"items": deep}
    for schema in (3, {"type": "int"}, {"pattern": "("}, {"$ref": "#/nope"}, {1: 2}, deep,
                   {"$schema": "http://example.com/x"}, {"enum": [object()]}):  # fmt: skip
        with pytest.raises(InputError) as caught:
            validator_for(schema)
        assert str(caught.value).count("\n") == 0
    backtracks = {"pattern": r"^(a)\1$"}
    assert validator_for(backtracks).is_valid("aa")
    with pytest.raises(InputError):
        validator_for(backtracks, linear=True)
