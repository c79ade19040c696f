"""The embedded model behind the server: whatever it chooses is valid, what it cannot do is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import jsonschema
import pytest

from callmemaybe.models import load
from callmemaybe.server.config import ServerConfig
from callmemaybe.server.serving import application, bind, make_server, url_of
from tests.server.conftest import USER, WEATHER

ROOM = {
    "type": "object",
    "properties": {
        "room": {"enum": ["kitchen", "hall"]},
        "percent": {"type": "integer", "minimum": 0, "maximum": 100},
        "at": {"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"},
    },
    "required": ["room", "percent"],
    "additionalProperties": False,
}
LIGHT = {"type": "function", "function": {"name": "set_light", "parameters": ROOM}}
#: Its argument has to be a number that was said.
SAID = {"type": "function", "function": {"name": "dim", "parameters": {
    "type": "object", "properties": {"to": {"type": "integer", "x-ground": "prompt"}},
    "required": ["to"], "additionalProperties": False}}}  # fmt: skip
SCHEMAS = {"set_light": ROOM, "get_weather": WEATHER["function"]["parameters"]}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx2.Client]:
    limits = ServerConfig(port=0)
    app = application(load("nano"), limits)
    opened = bind(limits)
    server = make_server(app.asgi(), limits, app.begin_to_stop)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
    thread.start()
    with httpx2.Client(base_url=url_of(opened), timeout=60, trust_env=False) as made:
        yield made
    server.should_exit = True
    thread.join(20)
    opened.close()


def ask(client: httpx2.Client, **body: Any) -> httpx2.Response:
    return client.post(
        "/v1/chat/completions", json={"model": "nano", "messages": USER, "tools": [LIGHT, WEATHER],
                                      **body},
    )  # fmt: skip


@pytest.mark.parametrize(
    "said",
    ["Dim the hall to 40 percent at 7:15", "weather in Oslo", "", "🌍\x00<|end|>", "?" * 500],
)
def test_every_call_is_valid(client: httpx2.Client, said: str) -> None:
    """Whatever is said, at any temperature, in each of several choices."""
    for extra in ({}, {"temperature": 2, "n": 3, "seed": 5}):
        answer = ask(client, messages=[{"role": "user", "content": said}], tool_choice="required",
                     max_tokens=150, **extra).json()  # fmt: skip
        for choice in answer["choices"]:
            if choice["finish_reason"] == "length":
                assert "tool_calls" not in choice["message"]
                continue
            for call in choice["message"]["tool_calls"]:
                schema = SCHEMAS[call["function"]["name"]]
                jsonschema.validate(json.loads(call["function"]["arguments"]), schema)


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"tools": None}, "tools"),
        ({"tool_choice": "none"}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"response_format": {"type": "regex", "regex": "a+"}}, "response_format"),
        ({"tools": None, "response_format": {"type": "json_object"}}, "response_format"),
        ({"reasoning_effort": "low"}, "reasoning_effort"),
        ({"messages": [{"role": "system", "content": "Be brief."}, *USER]}, "messages"),
        ({"messages": [*USER, {"role": "assistant", "content": "x"}, *USER]}, "messages"),
        ({"messages": [{"role": "user", "content": "x " * 9000}]}, "messages"),
        ({"tools": [SAID], "tool_choice": "required"}, "messages"),
    ],
)
def test_what_it_would_not_be_told_is_refused(
    client: httpx2.Client, change: dict[str, Any], param: str
) -> None:
    """Nothing of a request is left out in silence."""
    refused = ask(client, **change)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["param"] == param
    if "only calls functions" in error["message"]:
        assert "serve a bigger model" in error["message"]
