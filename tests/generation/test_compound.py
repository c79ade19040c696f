"""Where a compound request is cut, with a model that answers by a table; and with the embedded one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callmemaybe.caller import Caller, load_model
from callmemaybe.generation.compound import Asked, compound_calls, may_be_compound, referring_part
from callmemaybe.generation.result import CallResult, TurnResult
from callmemaybe.tools import ToolCall, ToolSpec, tool_specs


def light(room: str, on: bool) -> None:
    """Switch the light of a room on or off."""


def get_weather(city: str) -> None:
    """Get the current weather in a city."""


def set_temperature(room: str, degrees: float) -> None:
    """Set the temperature of a room."""


def send_message(to: str, text: str) -> None:
    """Send a message to a person."""


def lock_door() -> None:
    """Lock the front door."""


def start_vacuum() -> None:
    """Start the vacuum cleaner."""


def add(a: float, b: float) -> None:
    """Add two numbers."""


TOOLS = tool_specs(
    [light, get_weather, set_temperature, send_message, lock_door, start_vacuum, add]
)


def turn(name: str | None, chance: float = 1.0, /, **arguments: Any) -> TurnResult:
    """A turn of one call, or none."""
    if name is None:
        return TurnResult(distribution={None: chance})
    return TurnResult(calls=(ToolCall(name, json.dumps(arguments)),), distribution={name: chance})


def split(text: str, answers: dict[str, TurnResult], tools: Any = TOOLS) -> list[Any]:
    """The calls of a request; a text without an answer in the table gets no call."""
    run = compound_calls(text, tools, answers[text])
    try:
        asked = next(run)
        while True:
            asked = run.send(answers.get(asked, turn(None)))
    except StopIteration as ended:
        found: list[Asked] = ended.value
    return [(one.name, json.loads(one.call.arguments)) for one in found if one.call]


LIGHT_AND_WEATHER = "kitchen on and the weather in Paris"


@pytest.mark.parametrize(
    ("chance", "count"),
    [(0.96, 2), (0.9, 1)],
)
def test_a_part_that_begins_with_an_article_must_be_very_sure(chance: float, count: int) -> None:
    """ "the weather in Paris" may as well go on with what stands before it."""
    answers = {
        LIGHT_AND_WEATHER: turn("light", room="Paris", on=True),
        "kitchen on": turn("light", room="kitchen", on=True),
        "the weather in Paris": turn("get_weather", chance, city="Paris"),
    }
    assert len(split(LIGHT_AND_WEATHER, answers)) == count


@pytest.mark.parametrize(
    ("text", "left", "right"),
    [
        ("message Anna: I am late and bring cake", "message Anna: I am late", "bring cake"),
        ("lock the door and open it", "lock the door", "open it"),
        ("add 3, 4 and 5", "add 3, 4", "5"),
        ("the weather in Paris and at home", "the weather in Paris", "at home"),
        ("add a = 3 and b = 5", "add a = 3", "b = 5"),
        ("say 'lock and start' now", "say 'lock", "start' now"),
    ],
)
def test_what_cannot_stand_alone_is_not_cut_off(text: str, left: str, right: str) -> None:
    """Whatever the model makes of the parts."""
    whole = turn("send_message", to="Anna", text="I am late and bring cake")
    answers = {text: whole, left: turn("lock_door"), right: turn("start_vacuum")}
    assert len(split(text, answers)) == 1


def test_one_call_that_says_all_of_both_is_one() -> None:
    """A part may name the same function with one of its other values."""
    text = "put the photo in order and add the name Order"
    tool = ToolSpec("save", "Save.", {"properties": {"file": {}, "name": {}}})
    answers = {
        text: turn("save", file="photo", name="Order"),
        "put the photo in order": turn("save", file="photo"),
        "add the name Order": turn("save", file="order"),
    }
    assert len(split(text, answers, [tool])) == 1


def test_a_call_of_which_a_part_says_nothing_is_none() -> None:
    """A function without values must be named."""
    text = "lock the door and be quick about all"
    answers = {text: turn("lock_door"), "lock the door": turn("lock_door"),
               "be quick about all": turn("start_vacuum")}  # fmt: skip
    assert len(split(text, answers)) == 1
    vacuum = text.replace("be quick about all", "run the vacuum")
    answers |= {vacuum: turn("lock_door"), "run the vacuum": turn("start_vacuum")}
    assert len(split(vacuum, answers)) == 2


class Locking(dict[str, TurnResult]):
    """Answers whatever is asked, and counts."""

    count = 0

    def get(self, *_: Any) -> TurnResult:  # type: ignore[override]
        """The same call for each text."""
        self.count += 1
        return turn("lock_door")


@pytest.mark.parametrize("sentences", [2, 20, 200])
def test_a_long_request_is_asked_about_within_limits(sentences: int) -> None:
    """Text of any length costs a bounded number of calls."""
    text = ". ".join(["Lock the door and start the vacuum, then add 1 and 2"] * sentences)
    answers = Locking({text: turn("lock_door")})
    assert split(text, answers) == [("lock_door", {})]
    assert answers.count < 100


def test_requests_without_a_place_to_cut() -> None:
    """They cost nothing."""
    assert not may_be_compound("What's the weather in Paris?")
    assert not may_be_compound("")
    assert may_be_compound("kitchen on and bedroom off")


@pytest.fixture(scope="module")
def caller() -> Caller:
    return Caller(load_model("nano"), TOOLS, no_call=True)


def calls_of(caller: Caller, text: str) -> list[Any]:
    """What the embedded model calls for a request."""

    def asked(one: str) -> TurnResult:
        result: CallResult = caller.call(one)
        calls = (result.call,) if result.call else ()
        return TurnResult(calls=calls, distribution=result.distribution)

    run = compound_calls(text, TOOLS, asked(text))
    try:
        part = next(run)
        while True:
            part = run.send(asked(part))
    except StopIteration as ended:
        found: list[Asked] = ended.value
    return [(one.name, *json.loads(one.call.arguments).values()) for one in found if one.call]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("kitchen on and bedroom off", [("light", "kitchen", True), ("light", "bedroom", False)]),
        (
            "Turn on the kitchen light and tell me the weather in Paris",
            [("light", "kitchen", True), ("get_weather", "Paris")],
        ),
        (
            "What's the weather in Paris, New York and Rome?",
            [("get_weather", "Paris"), ("get_weather", "New York"), ("get_weather", "Rome")],
        ),
        (
            "Set the bedroom to 19 degrees and the living room to 21",
            [("set_temperature", "bedroom", 19), ("set_temperature", "living room", 21)],
        ),
        (
            "Turn the kitchen light on, lock the door, and start the vacuum",
            [("light", "kitchen", True), ("lock_door",), ("start_vacuum",)],
        ),
        (
            "Weather in Berlin. Then switch on the hall light. Also add 4 and 5.",
            [("get_weather", "Berlin"), ("light", "hall", True), ("add", 4, 5)],
        ),
        ("Add 3 and 5", [("add", 3, 5)]),
        (
            "Send a message to Anna saying I'll be late and bring cake",
            [("send_message", "Anna", "I'll be late and bring cake")],
        ),
    ],
)
def test_the_embedded_model_and_everyday_requests(
    caller: Caller, text: str, wanted: list[Any]
) -> None:
    """What people say first."""
    assert calls_of(caller, text) == wanted


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("Find Ada's city and get the weather there.", "get the weather there."),
        ("Find Ada. Then call her boss, and write him a note", "write him a note"),
        ("The weather there", "The weather there"),
        ("Find Ada and get the weather in Rome", "Find Ada and get the weather in Rome"),
        ("Is there rain, and is there snow?", "Is there rain, and is there snow?"),
    ],
)
def test_the_last_part_that_refers_to_another(text: str, part: str) -> None:
    """Only a part behind another can refer to it; a request without one is asked about as a whole."""
    assert referring_part(text) == part


def test_labels_of_one_call_are_no_values_of_two() -> None:
    """A part whose call has a parameter's name for a value says the parameters of one call, one after the other."""
    text = "mountain: cpu 250m, memory 512Mi"
    limits = ToolSpec("update_limits", "Set limits.", {
        "type": "object", "properties": {name: {"type": "string"} for name in ("deployment", "cpu", "memory")}})  # fmt: skip
    answers = {
        text: turn("update_limits", deployment="mountain", cpu="250m", memory="512Mi"),
        "mountain: cpu 250m": turn("update_limits", deployment="mountain", cpu="cpu", memory="250m"),
        "mountain: memory 512Mi": turn("update_limits", deployment="mountain", cpu="memory", memory="512Mi"),
    }  # fmt: skip
    assert split(text, answers, [limits]) == [("update_limits", answers[text].calls[0].parsed)]
