"""Retrieval: which tools a request, or a conversation, gets to see."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.agent.single_request import SingleRequestTurns
from callmemaybe.caller import Caller, load_model
from callmemaybe.conversation import (
    Conversation,
    FinishReason,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from callmemaybe.errors import InputError
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.retrieval import ToolIndex, shown_tools, terms
from callmemaybe.tools import CallEnded, CallStarted, ToolCall, ToolResult, ToolSpec
from callmemaybe.wire.output_grammar import OutputSpec

TOOLS = [
    ToolSpec("getWeather", "The current weather of a city.",
             {"type": "object", "properties": {"city": {"type": "string"}}}),
    ToolSpec("send_email", "Send a message to somebody.",
             {"type": "object", "properties": {"to": {"type": "string", "description": "address"}}}),
    ToolSpec("book_flight", "Book a flight.", {"type": "object", "properties": {
        "seat": {"type": "object", "properties": {"class": {"enum": ["economy", "business"]}}},
        "stops": {"type": "array", "items": {"type": "object", "properties": {
            "airport": {"description": "where to change planes"}}}}}}),
    ToolSpec("factorial", "n! of a number"),
    ToolSpec("天气", "查询城市的天气预报"),
    ToolSpec("ping"),
]  # fmt: skip
INDEX = ToolIndex(TOOLS, k=3)
WORDS = st.lists(
    st.sampled_from(
        ["weather", "city", "send", "flight", "number", "ping", "zzz", "économie", "7"]
    ),
    max_size=6,
).map(" ".join)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("What's the WEATHER like?", "getWeather"),
        ("two factorials, please", "factorial"),
        ("e-mail Ada", "send_email"),
        ("I'd like business class", "book_flight"),
        ("changing planes in Oslo", "book_flight"),
        ("明天的天气怎么样", "天气"),
        ("用economyクラスで", "book_flight"),
        ("weatherはどう", "getWeather"),
    ],
)
def test_words_find_tools_wherever_they_stand(query: str, name: str) -> None:
    """In a name of any style, a description, a parameter at any depth, an option; in any script."""
    assert INDEX.search(query)[0].name == name


@settings(max_examples=50, deadline=None)
@given(query=WORDS, order=st.permutations(TOOLS), k=st.integers(1, 6))
def test_the_order_of_the_tools_does_not_matter(query: str, order: list[ToolSpec], k: int) -> None:
    """Scores belong to tools, not to places; the best are those with the highest; ties by place."""
    other = ToolIndex(order)
    scores = dict(zip([t.name for t in order], other.scores(query).tolist(), strict=True))
    assert dict(zip([t.name for t in TOOLS], INDEX.scores(query), strict=True)) == scores
    found = [tool.name for tool in other.search(query, k)]
    best = sorted((n for n in scores if scores[n] > 0), key=lambda n: -scores[n])
    assert [scores[name] for name in found] == [scores[name] for name in best[:k]]
    assert other.search(query, k) == other.search(query, k)


@settings(max_examples=50, deadline=None)
@given(text=st.text(max_size=40))
def test_any_text_can_be_asked(text: str) -> None:
    """Nothing raises, and no score is negative or unreal; case does not matter for plain letters."""
    scores = INDEX.scores(text)
    assert np.isfinite(scores).all()
    assert (scores >= 0).all()
    if text.isascii():
        assert len(list(terms(text.upper()))) > 0 or not any(c.isalnum() for c in text)


def conversation(*said: str) -> Conversation:
    found = Conversation()
    for text in said:
        found.take(UserMessage("user", text))
    return found


@pytest.mark.parametrize("length", [5_000, 1_000_000])
def test_what_a_long_request_wants_may_stand_at_its_end(length: int) -> None:
    """A letter and what to do with it, or the other way round; a megabyte of it takes no minute."""
    letter = "Lorem ipsum dolor sit amet. " * (length // 28)
    started = time.process_time()
    for request in (f"{letter} Send this to Bob", f"Send this to Bob: {letter}"):
        assert INDEX.search(request)[0].name == "send_email"
    assert time.process_time() - started < 10


def test_the_choice_moves_with_the_conversation() -> None:
    """What was said last counts most, what was said before still counts, what was called stays."""
    moved = conversation("book me a flight", "and the weather there?")
    assert [tool.name for tool in INDEX.choose(moved)][:2] == ["getWeather", "book_flight"]
    call = ToolCall("ping", "{}", "call_1")
    moved.take_all([TurnStarted(), CallStarted(0, "ping"), CallEnded(0, call)])
    moved.take_all([TurnEnded(FinishReason.STOP), ToolResult("call_1", "pong")])
    chosen = [tool.name for tool in INDEX.choose(moved)]
    assert chosen == ["ping", "getWeather", "book_flight"]
    assert INDEX.choose(conversation("zzz qqq")) == []


def test_meanings_may_count_too() -> None:
    """With vectors, a tool is found that shares no word with the request; words still count."""

    def embed(texts):
        is_about_air = [any(word in text for word in ("flight", "cruise")) for text in texts]
        return np.array([[one, not one] for one in is_about_air], np.float32)

    both = ToolIndex(TOOLS, embed=embed)
    assert "book_flight" not in {tool.name for tool in INDEX.search("cruise")}
    assert both.search("cruise", 1)[0].name == "book_flight"
    assert "ping" in {tool.name for tool in both.search("ping", 3)}


def test_a_name_used_twice_is_refused() -> None:
    """Otherwise a call could mean either."""
    with pytest.raises(InputError, match="'ping' is used twice"):
        ToolIndex([*TOOLS, ToolSpec("ping")])


def test_ten_thousand_tools_are_searched_in_milliseconds() -> None:
    """The cost of a search is that of the words it has, not that of the tools' text."""
    many = ToolIndex([ToolSpec(f"{t.name}_{i}", t.description) for i in range(2000) for t in TOOLS])
    started = time.process_time()
    found = many.search("what will the weather of the city be", 8)
    assert time.process_time() - started < 0.1
    assert all(tool.name.startswith("getWeather") for tool in found)


@pytest.mark.parametrize(("most", "count"), [(None, 100), (100, 100), (64, 16)])
def test_of_more_tools_than_a_model_tells_apart_those_that_fit_are_shown(
    most: int | None, count: int
) -> None:
    """All where it tells them apart; of more, those of the request, or the first ones where nothing fits."""
    many = [ToolSpec(f"count_{word}", f"Counts {word}.") for word in _hundred_words()]
    shown = shown_tools(many, "How many pelican are there? Count them.", most)
    assert len(shown) == count
    assert "count_pelican" in {tool.name for tool in shown}
    assert len(shown_tools(many, "", 64)) == 16


def test_the_embedded_model_calls_one_of_a_hundred_functions() -> None:
    """It tells 64 apart; of more it reads those that fit the request, of a Caller and of a server's turn."""
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    many = [
        ToolSpec(f"count_{word}", f"Counts {word} in a city.", city) for word in _hundred_words()
    ]
    weather = ToolSpec("get_weather", "Current weather of a city.", city)
    tools = [*many[:90], weather, *many[90:]]
    caller = Caller(load_model("nano"), tools, no_call=True)
    made = caller.call("What's the weather in Oslo?").call
    assert made is not None
    assert (made.name, made.parsed) == ("get_weather", {"city": "Oslo"})
    messages = [{"role": "user", "content": "What's the weather in Oslo?"}]
    turns = SingleRequestTurns(caller.generator, messages, tools, OutputSpec(no_call=True))
    steps = turns.run(DecodingConfig(), lambda _: None)
    started = [event for events in steps for event in events if isinstance(event, CallStarted)]
    assert [event.name for event in started] == ["get_weather"]


def _hundred_words() -> list[str]:
    syllables = ("pel", "ti", "can", "mor", "ra", "lo", "gri", "sta", "ven", "do")
    words = [f"{one}{other}{one}" for one in syllables for other in syllables]
    return ["pelican", *words[1:]]
