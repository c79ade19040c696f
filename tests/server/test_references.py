"""A part of a request that refers to what is not known yet waits for a result."""

from __future__ import annotations

import json

import httpx2
import pytest

from callmemaybe.agent.references import is_waiting
from callmemaybe.tools import ToolCall
from tests.server.conftest import WEATHER
from tests.server.test_framing import FINAL, ask, calls, client, function, user
from tests.server.test_nano import called, result

__all__ = ["client"]
STEPS = "Find out in which city Ada lives, then tell me the weather there."
PERSON = function("find_person", name={"type": "string"})
PERSON["function"]["description"] = "Find out in which city a person lives."


@pytest.mark.parametrize(
    ("city", "waits"), [("tell", True), ("Ada", False), ("Oslo", False), ("weather", True)]
)
def test_a_call_with_nothing_but_words_of_that_part_waits(city: str, *, waits: bool) -> None:
    """A value from before the part, or from elsewhere, is one."""
    assert is_waiting(ToolCall("get_weather", json.dumps({"city": city})), STEPS) is waits


def test_other_calls_do_not_wait() -> None:
    """Without values, without a part that refers to a place, or where *there* is no place."""
    assert not is_waiting(ToolCall("ping", "{}"), STEPS)
    snow = ToolCall("find", json.dumps({"what": "snow"}))
    for text in (
        "Is there snow?",
        "Go to Paris and see if there is snow",
        "Find Ada and the snow",
        "",
    ):
        assert not is_waiting(snow, text)


@pytest.mark.parametrize("extra", [{}, {"tool_choice": "required"}])
def test_a_second_call_takes_what_the_first_one_found(
    client: httpx2.Client, extra: dict[str, str]
) -> None:
    """Two steps, with and without a function that hands in the final answer behind them."""
    tools = [WEATHER, PERSON, *([FINAL] if extra else [])]
    loop = [user(STEPS)]
    assert calls(ask(client, *loop, tools=tools, **extra)) == [("find_person", {"name": "Ada"})]
    loop += [called("c1", "find_person", name="Ada"), result("c1", "Oslo")]
    assert calls(ask(client, *loop, tools=tools, **extra)) == [("get_weather", {"city": "Oslo"})]
    loop += [called("c2", "get_weather", city="Oslo"), result("c2", "22 degrees")]
    last = ask(client, *loop, tools=tools, **extra)
    ended = [arguments for name, arguments in calls(last) if name == "final_answer"]
    assert "22 degrees" in (ended[0]["answer"] if extra else last["content"])
    assert len(calls(last)) == len(ended)
