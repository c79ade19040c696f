"""Several calls of one turn: none is told twice, and none that does not count."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.wire import PromptPart, formats
from tests.server.conftest import (
    ASK,
    BERN,
    FLAT_WEATHER,
    PARIS,
    VOCABULARY,
    WEATHER,
    Running,
    Start,
)
from tests.server.test_chat import fold

#: How the prompts of two formats end; of one a call's arguments are told as they are written.
ASKS = {"hermes": ASK, "pythonic": b"<|start_header_id|>assistant<|end_header_id|>\n\n"}
#: Begins as the call of Paris does.
PARIS_AGAIN = ToolCall("get_weather", '{"city": "Paris", "days": 2}')

Begin = Callable[..., Running]


@pytest.fixture(params=sorted(ASKS))
def begin(start: Start, request: pytest.FixtureRequest) -> Begin:
    """Start a server over a model that wants to make these calls."""

    def begun(*calls: ToolCall) -> Running:
        tools, controls = [ToolSpec.from_json(WEATHER)], frozenset(VOCABULARY.controls)
        wish: tuple[PromptPart, ...] = formats.get(request.param).render(
            calls, tools=tools, controls=controls
        )
        return start(wish, form=request.param, ask=ASKS[request.param])

    return begun


def is_whole(text: str) -> bool:
    """Whether a client would take this for the arguments of a call."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def told(server: Running, most: int | None = None) -> list[list[str]]:
    """Return the arguments of all calls, as each of the six ways to be told of them says."""
    chat: dict[str, Any] = {"tools": [WEATHER], "max_tokens": most or 200}
    flat: dict[str, Any] = {"tools": [FLAT_WEATHER], "max_output_tokens": most or 200}
    message = server.chat(**chat).json()["choices"][0]["message"]
    events = server.events(**flat)
    added = [event["output_index"] for event in events
             if event["type"] == "response.output_item.added"]  # fmt: skip
    deltas = [
        "".join(event["delta"] for event in events
                if event["type"] == "response.function_call_arguments.delta"
                and event["output_index"] == at)
        for at in added
    ]  # fmt: skip
    outputs = [
        server.respond(**flat).json()["output"],
        [event["item"] for event in events if event["type"] == "response.output_item.done"
         and event["item"]["status"] == "completed"],
        events[-1]["response"]["output"],
    ]  # fmt: skip
    streamed = [call["arguments"] for call in fold(server.chunks(**chat))["calls"]]
    return [
        [call["function"]["arguments"] for call in message.get("tool_calls", [])],
        [text for text in streamed if is_whole(text)],
        [text for text in deltas if is_whole(text)],
        *([one["arguments"] for one in output if one["type"] == "function_call"]
          for output in outputs),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("calls", "count"),
    [((PARIS, PARIS), 1), ((PARIS, BERN, PARIS), 2), ((PARIS, PARIS_AGAIN), 2)],
)
def test_a_repeat_is_no_call(begin: Begin, calls: tuple[ToolCall, ...], count: int) -> None:
    """The turn ends with it, and nobody is told that it began; one that only begins alike is a call."""
    server = begin(*calls)
    expected = [call.arguments for call in calls[:count]]
    assert told(server) == [expected] * 6
    assert len(fold(server.chunks(tools=[WEATHER]))["calls"]) == count
    kinds = [event["type"] for event in server.events(tools=[FLAT_WEATHER])]
    assert kinds.count("response.output_item.added") == count


def test_a_turn_that_is_cut_off_has_no_calls(begin: Begin) -> None:
    """For every budget, all are told the same: both calls, or none, though one was finished."""
    server = begin(PARIS, BERN)
    both = [PARIS.arguments, BERN.arguments]
    found = []
    for most in range(1, 120):
        ways = told(server, most)
        assert ways == [ways[0]] * 6, most
        found.append(ways[0])
        if ways[0] == both:
            break
    assert len(found) > len(VOCABULARY.encode(PARIS.arguments.encode()))
    assert found == [[]] * (len(found) - 1) + [both]


def call_deltas(server: Running, **request: Any) -> list[tuple[int, str]]:
    """Return the number and the piece of arguments of each delta of a call in a stream."""
    return [(call["index"], call["function"]["arguments"])
            for chunk in server.chunks(tools=[WEATHER], **request)
            for choice in chunk["choices"] for call in choice["delta"].get("tool_calls", ())]  # fmt: skip


def test_an_early_call_is_not_delayed_by_others(begin: Begin) -> None:
    """Where it is asked for, the first call is streamed as if it were alone; the others follow, one by one."""
    early = {"callmemaybe": {"early_calls": True}}
    alone, several = (
        call_deltas(begin(*calls), **early) for calls in ([PARIS], [PARIS, BERN, PARIS_AGAIN])
    )
    assert several[: len(alone)] == alone
    assert len(alone) > 3
    assert [index for index, _ in several[len(alone) :]] == [1, 1, 2, 2]


def test_nothing_of_a_call_is_sent_before_it_counts(begin: Begin) -> None:
    """With any budget a stream has whole calls or none: some clients complete cut JSON themselves."""
    server = begin(PARIS, BERN)
    found = [call_deltas(server, max_tokens=most) for most in range(1, 200, 3)]
    whole = call_deltas(server, max_tokens=200)
    assert [index for index, _ in whole] == [0, 0, 1, 1]
    assert all(one in ([], whole) for one in found)
    assert found[0] == []
    assert found[-1] == whole


def test_an_early_call_that_is_cut_off_is_not_json(begin: Begin) -> None:
    """What a client asked to read early lacks its last byte unless it counts."""
    server = begin(PARIS)
    for most in range(1, 60):
        deltas = call_deltas(server, max_tokens=most, callmemaybe={"early_calls": True})
        counts = (
            "tool_calls"
            in server.chat(tools=[WEATHER], max_tokens=most).json()["choices"][0]["message"]
        )
        assert is_whole("".join(piece for _, piece in deltas)) == counts
