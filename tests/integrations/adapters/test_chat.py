"""What the adapters of frameworks share: a chat with a model in this process. Needs no framework."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from callmemaybe.errors import InputError
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.integrations._chat import LocalChat
from tests.integrations.player import VOCABULARY, player

ASK = {"role": "user", "content": "What's the weather in Paris?"}
WEATHER = {
    "name": "get_weather",
    "description": "Current weather of a city.",
    "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
        "additionalProperties": False,
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=["nano", "scripted"])
def chat(request: pytest.FixtureRequest) -> LocalChat:
    if request.param == "nano":
        return LocalChat("nano")
    return LocalChat(LocalGenerator(player(), format="hermes", vocabulary=VOCABULARY))


def test_a_loop_ends_with_the_result(chat: LocalChat) -> None:
    """A call with an id, then its result, then an answer in text; streamed pieces join to the text."""
    reply = chat.ask([ASK], [WEATHER]).reply
    (call,) = reply.calls
    assert (call.name, call.parsed, reply.finish) == (
        "get_weather",
        {"city": "Paris"},
        "tool_calls",
    )
    made = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    messages = [
        ASK,
        {"role": "assistant", "content": "", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": call.id, "content": "22 degrees in Paris"},
    ]
    stream = chat.ask(messages, [WEATHER])
    pieces = list(stream)
    assert "22 degrees" in "".join(pieces) == stream.reply.text
    assert not stream.reply.calls


@pytest.mark.parametrize("most", range(1, 40, 3))
def test_no_call_comes_of_a_turn_that_was_cut_off(chat: LocalChat, most: int) -> None:
    """Whatever the budget, there is the whole call or none."""
    reply = chat.ask([ASK], [WEATHER], decoding=DecodingConfig(max_tokens=most)).reply
    assert reply.finish == "length" or [one.parsed for one in reply.calls] == [{"city": "Paris"}]
    assert reply.finish != "length" or not reply.calls


def test_threads_take_turns(chat: LocalChat) -> None:
    """Eight requests from eight threads get what one alone gets."""
    cities = ["Paris", "Oslo", "Rome", "Berlin"] * 2

    def ask(city: str) -> Any:
        message = {"role": "user", "content": f"What's the weather in {city}?"}
        return [one.parsed["city"] for one in chat.ask([message], [WEATHER]).reply.calls]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, cities)) == [[one] for one in cities]


def test_a_stream_that_was_closed_has_no_reply(chat: LocalChat) -> None:
    """It is discarded, and the model is free for the next."""
    stream = chat.ask([ASK], [WEATHER])
    stream.close()
    with pytest.raises(RuntimeError, match="closed before its end"):
        _ = stream.reply
    assert chat.ask([ASK], [WEATHER]).reply.calls


def test_what_nano_does_not_read_is_named() -> None:
    """Instructions are left out, and the reply says so."""
    reply = (
        LocalChat("nano").ask([{"role": "system", "content": "Be brief."}, ASK], [WEATHER]).reply
    )
    assert reply.notes["unread"] == ["instructions"]


@pytest.mark.parametrize(
    ("messages", "tools", "options", "why"),
    [
        ([], [], {}, "reads the request of a user"),
        ([ASK, {"role": "tool", "tool_call_id": "a", "content": "x"}], [], {}, "never made"),
        ([{"role": "boss", "content": "x"}], [], {}, "no role 'boss'"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], [], {}, "only text can be read"),
        ([ASK], [WEATHER, WEATHER], {}, "used twice"),
        ([ASK], [], {"choice": "required"}, "no function to call"),
        ([ASK], [], {"answer": {"type": "object"}}, "only calls functions"),
    ],
)
def test_what_cannot_be_asked_is_an_error(
    messages: list[Any], tools: list[Any], options: dict[str, Any], why: str
) -> None:
    """One clear sentence, before the model is asked."""
    with pytest.raises(InputError, match=why):
        LocalChat("nano").ask(messages, tools, **options)
