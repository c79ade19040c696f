"""Conversations with a model behind a server: text beside calls, where its notation can say it."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from callmemaybe import load_model
from callmemaybe.caller import Caller
from callmemaybe.conversation import Conversation, UserMessage
from callmemaybe.errors import InputError, ModelError, SchemaViolationError
from callmemaybe.generation.local import DecodingConfig
from callmemaybe.models.remote import DIALECTS
from callmemaybe.tools import ToolCall, ToolResult, ToolSpec
from callmemaybe.wire.tool_choice import output_spec

pytest.importorskip("httpx2", reason="the extra remote is not installed")

from tests.models.test_remote import OWNERS, remote, saying, server

WEATHER = ToolSpec("weather", parameters={
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"], "additionalProperties": False})  # fmt: skip
CALL = '{"name": "weather", "arguments": {"city": "Bern"}}'
CAN = ("vllm", "llama.cpp", "sglang")


def turns(*texts: str) -> Any:
    """Return a script that says one text after the other."""
    left = list(texts)

    def script(path: str, body: dict[str, Any]) -> Any:
        return saying(left.pop(0))(path, body)

    return script


@pytest.mark.parametrize("dialect", CAN)
def test_a_conversation_calls_and_then_answers_in_text(dialect: str) -> None:
    """The language says both; what the tool found goes back, and the answer ends it."""
    with server(turns(CALL, "It rains in Bern."), OWNERS[dialect]) as (address, asked):
        caller = Caller(load_model(address), [WEATHER])
        ran = caller.run("Weather in Bern?", lambda calls: [
            ToolResult(call.id, "rain") for call in calls
        ])  # fmt: skip
    assert ran.text == "It rains in Bern."
    assert len(asked) == 2
    first, second = (body["messages"] for _, body, _ in asked)
    assert [one["role"] for one in first] == ["system", "user"]
    assert [one["role"] for one in second] == ["system", "user", "assistant", "user"]
    assert second[2]["content"] == CALL
    assert "rain" in second[3]["content"]
    grammar = json.dumps({k: v for k, v in asked[0][1].items() if k not in ("messages", "model")})
    assert "weather" in grammar


def test_a_servers_repeated_key_is_told_to_it() -> None:
    """Law: a call with a key twice is not made in a run; the server's model reads which key it was."""
    free = ToolSpec("f", parameters={"type": "object", "additionalProperties": True})
    bad = '{"name": "f", "arguments": {"x": 1, "x": 2}}'
    script = turns(bad, bad.replace('"x": 1, ', ""), "Done.")
    made: list[Any] = []

    def execute(calls: Sequence[ToolCall]) -> list[ToolResult]:
        made.extend(call.parsed for call in calls)
        return [ToolResult(call.id, "done") for call in calls]

    with server(script, OWNERS["vllm"]) as (address, asked):
        ran = Caller(load_model(address), [free]).run("x", execute)
    assert (made, ran.text) == ([{"x": 2}], "Done.")
    assert "the key 'x' is there twice" in asked[1][1]["messages"][-1]["content"]


@pytest.mark.parametrize("dialect", sorted(set(DIALECTS) - set(CAN)))
def test_a_server_that_knows_schemas_only_gets_the_functions_as_functions(dialect: str) -> None:
    """Where both are allowed; calls that are required go by schema, text alone as it is."""
    with server(saying(CALL), OWNERS[dialect]) as (address, asked):
        speaker = Caller(remote(address), [WEATHER]).generator
        said = [{"role": "user", "content": "Weather in Bern?"}]
        (call,) = speaker.generate(said, [WEATHER], output_spec("auto")).calls
        path, body, _ = asked.pop()
        assert (path, body["messages"], body["tools"]) == (
            "/v1/chat/completions", said, [WEATHER.as_openai()],
        )  # fmt: skip
        assert call.parsed == {"city": "Bern"}  # which the server left in the text
        (call,) = speaker.generate(said, [WEATHER], output_spec("required")).calls
        assert call.parsed == {"city": "Bern"}
    with server(saying("Sunny {always}."), OWNERS[dialect]) as (address, asked):
        speaker = Caller(remote(address), [WEATHER]).generator
        spoken = speaker.generate(said, [WEATHER], output_spec("none"))
        assert (spoken.text, spoken.calls) == ("Sunny {always}.", ())
        assert not {"response_format", "format"} & asked[0][1].keys()


def test_a_servers_call_meets_its_schema_or_does_not_count() -> None:
    """What no grammar can ask of a server is checked in its answer, and said of the call that meets it."""
    days = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    tool = ToolSpec("f", parameters={"type": "object", "properties": {"days": days}})
    right = '{"name": "f", "arguments": {"days": [1, 2]}}'
    wrong = right.replace("2", "1")
    with server(turns(right, wrong, wrong), OWNERS["vllm"]) as (address, _):
        caller = Caller(load_model(address), [tool])
        outcome = caller.call("x")
        assert outcome.call == ToolCall("f", '{"days": [1, 2]}')
        assert "not masked: /properties/days/uniqueItems" in outcome.remarks[0]
        with pytest.raises(SchemaViolationError, match="at /days"):
            caller.call("x")
        with pytest.raises(SchemaViolationError, match="at /days"):
            caller.generator.generate(
                [{"role": "user", "content": "x"}], [tool], output_spec("required")
            )


def test_what_a_server_says_is_checked() -> None:
    """Text that is no call and begins like one, a call of nobody, and what was cut off."""
    said = [{"role": "user", "content": "x"}]
    for text in ('{"name": "other", "arguments": {}}', '{"name": "weather", "arguments": {}}', "{"):
        with server(saying(text)) as (address, _):
            speaker = Caller(remote(address), [WEATHER]).generator
            with pytest.raises(ModelError, match="did not hold to it"):
                speaker.generate(said, [WEATHER], output_spec("auto"))
    with server(saying(CALL[:-9], "length")) as (address, _):
        spoken = Caller(remote(address), [WEATHER]).generator.generate(
            said, [WEATHER], output_spec("auto")
        )
        assert (spoken.ended, spoken.calls) == ("length", ())


def test_several_calls_and_stops() -> None:
    """As many calls as are allowed come one a line; a stop ends a text in front of it."""
    other = CALL.replace("Bern", "Rome")
    said = [{"role": "user", "content": "x"}]
    with server(turns(f"{CALL}\n{other}", "One. Two.")) as (address, _):
        speaker = Caller(remote(address), [WEATHER]).generator
        both = speaker.generate(said, [WEATHER], output_spec("required", parallel=True))
        assert [call.parsed["city"] for call in both.calls] == ["Bern", "Rome"]
        text = speaker.generate(
            said, [], output_spec("none", has_tools=False), DecodingConfig(stop=(" Two",))
        )
        assert (text.text, text.stop) == ("One.", " Two")


@pytest.mark.parametrize(
    ("options", "where"),
    [(DecodingConfig(best_of=2), "best_of"), (DecodingConfig(logprobs=True), "logprobs"),
     (DecodingConfig(trace=True), "trace")],
)  # fmt: skip
def test_what_no_server_can_be_asked_for_is_refused(options: DecodingConfig, where: str) -> None:
    """By the option's name, before anything is asked; so are plans and thoughts."""
    with server(saying("x")) as (address, asked):
        caller = Caller(remote(address), [WEATHER])
        with pytest.raises(InputError) as refused:
            caller.generator.generate([{"role": "user", "content": "x"}], [WEATHER], None, options)
        assert refused.value.where == where
        conversation = Conversation()
        conversation.take(UserMessage("user", "x"))
        with pytest.raises(InputError, match="in this process"):
            caller.run(conversation, lambda _: [], plan=True)
        assert not asked


def test_a_server_gets_eight_requests_at_a_time() -> None:
    """Where nothing is said: nobody is answered before eight have come."""
    come = threading.Barrier(8)

    def script(path: str, body: dict[str, Any]) -> Any:
        come.wait(30)
        return saying(CALL)(path, body)

    with server(script) as (address, _):
        caller = Caller(remote(address), [WEATHER])
        assert len(list(caller.call_many(map(str, range(8))))) == 8
