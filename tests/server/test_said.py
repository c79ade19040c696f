"""A parameter that must have been said, through the server."""

from __future__ import annotations

import copy
import json

from tests.server.conftest import BERN, PARIS, WEATHER, Start, calling

SAID = copy.deepcopy(WEATHER)
SAID["function"]["parameters"]["properties"]["city"]["x-ground"] = "prompt"  # type: ignore[index]


def test_a_schema_may_ask_for_what_was_said(start: Start) -> None:
    """A model that wants a city nobody named has to name one that was; others it may name freely."""
    running = start(calling(BERN))
    for tool, cities in ((WEATHER, {"Bern"}), (SAID, {"Weather", "in", "Paris", "Paris?", "?"})):
        answer = running.chat(tools=[tool], tool_choice="required").json()
        (call,) = answer["choices"][0]["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"])["city"] in cities
    streamed = running.chunks(tools=[SAID], tool_choice="required")
    assert "Bern" not in json.dumps(streamed)


def test_a_required_call_that_nothing_allows_is_the_askers_error(start: Start) -> None:
    """Status 400 and what to do; without the requirement the answer is a text."""
    running = start(calling(PARIS))
    nothing = [{"role": "user", "content": " "}]
    refused = running.chat(messages=nothing, tools=[SAID], tool_choice="required")
    assert refused.status_code == 400
    assert "the request contains no value" in refused.json()["error"]["message"]
    told = running.chat(messages=nothing, tools=[SAID]).json()["choices"][0]["message"]
    assert not told.get("tool_calls")
