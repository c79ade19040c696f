"""What answers say they took: tokens read, kept from earlier prompts, written, and thought."""

from __future__ import annotations

from typing import Any

import pytest

from callmemaybe.generation.config import encode
from callmemaybe.models.base import common_prefix_length
from callmemaybe.models.scripted import ScriptedModel
from callmemaybe.tools import ToolSpec
from tests.server.conftest import (
    FLAT_WEATHER,
    HERMES,
    PARIS,
    VOCABULARY,
    WEATHER,
    Running,
    Start,
)

#: With room for a thought the prompt ends here; see ``ASK``.
THINKING = b"<|im_start|>assistant\n"


def prompt(text: str) -> list[int]:
    """Return the ids that the model reads of this request, with the weather to ask for."""
    tools = [ToolSpec.from_json(WEATHER)]
    controls = frozenset(VOCABULARY.controls)
    parts = HERMES.prompt([{"role": "user", "content": text}], tools, controls)
    return encode(parts, VOCABULARY, HERMES, ScriptedModel(VOCABULARY.size))


def usage(server: Running, chat: bool, **body: Any) -> dict[str, int]:
    """Return the figures of an answer in either interface, by the names of one."""
    if chat:
        told = server.chat(**body).json()["usage"]
        read, written = told["prompt_tokens"], told["completion_tokens"]
        inside, beside = told["prompt_tokens_details"], told["completion_tokens_details"]
    else:
        told = server.respond(**body).json()["usage"]
        read, written = told["input_tokens"], told["output_tokens"]
        inside, beside = told["input_tokens_details"], told["output_tokens_details"]
    assert told["total_tokens"] == read + written
    return {"read": read, "cached": inside["cached_tokens"], "written": written,
            "thought": beside["reasoning_tokens"]}  # fmt: skip


@pytest.mark.parametrize("chat", [True, False])
def test_what_was_kept_of_a_prompt_is_counted(start: Start, chat: bool) -> None:
    """Nothing of the first, all but the last token of the same again, the beginning of another."""
    server = start()
    tools = [WEATHER if chat else FLAT_WEATHER]

    def asked(text: str) -> dict[str, int]:
        said = {"messages": [{"role": "user", "content": text}]} if chat else {"input": text}
        return usage(server, chat, tools=tools, **said)

    first, again, other = asked("Weather?"), asked("Weather?"), asked("Weather, please?")
    assert first["cached"] == 0
    assert again["cached"] == again["read"] - 1
    assert other["cached"] == common_prefix_length(prompt("Weather?"), prompt("Weather, please?"))
    assert first["thought"] == again["thought"] == 0


def test_a_prompt_of_several_choices_counts_once(start: Start) -> None:
    """The second choice finds the prompt of the first kept; it was not kept before, though."""
    server = start()
    assert usage(server, chat=True, n=3)["cached"] == 0
    kept = usage(server, chat=True, n=3)
    assert kept["cached"] == kept["read"] - 1


def test_a_stream_tells_the_same_usage(start: Start) -> None:
    """Chat on request, responses always; with kept tokens and with thoughts."""
    server = start(HERMES.render([PARIS], thought="Hm, Paris."), ask=THINKING)
    body = {"tools": [WEATHER], "reasoning_effort": "low"}
    whole = server.chat(**body).json()["usage"]
    whole["prompt_tokens_details"]["cached_tokens"] = whole["prompt_tokens"] - 1
    streamed = server.chunks(**body, stream_options={"include_usage": True})[-1]["usage"]
    assert streamed == whole
    flat = {"tools": [FLAT_WEATHER], "reasoning": {"effort": "low"}}
    told = server.respond(**flat).json()["usage"]
    assert server.events(**flat)[-1]["response"]["usage"] == told


@pytest.mark.parametrize("chat", [True, False])
def test_thoughts_are_counted(start: Start, chat: bool) -> None:
    """Every token of the thought, and the mark that ends it; they are among those written."""
    server = start(HERMES.render([PARIS], thought="Hm, Paris."), ask=THINKING)
    tools = [WEATHER if chat else FLAT_WEATHER]
    effort = {"reasoning_effort": "low"} if chat else {"reasoning": {"effort": "low"}}
    thinking, plain = usage(server, chat, tools=tools, **effort), usage(server, chat, tools=tools)
    assert thinking["thought"] == len(VOCABULARY.encode(b"Hm, Paris.")) + 1
    assert plain["thought"] == 0
    assert thinking["written"] > thinking["thought"]


def test_a_thought_that_is_cut_off_is_no_call(start: Start) -> None:
    """Thoughts count to the limit of tokens: one that takes it all leaves no call."""
    server = start(HERMES.render([PARIS], thought="Hm, " * 100), ask=THINKING)
    body = {"tools": [WEATHER], "tool_choice": "required", "reasoning_effort": "low"}
    answer = server.chat(max_tokens=60, **body).json()
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "length"
    assert "tool_calls" not in choice["message"]
    assert answer["usage"]["completion_tokens"] <= 60
    whole = server.chat(**body).json()
    assert whole["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("chat", [True, False])
def test_a_prompt_counts_where_no_answer_fits(start: Start, chat: bool) -> None:
    """A budget below the shortest answer writes nothing, but the prompt was asked for."""
    server = start()
    tools, most = [WEATHER if chat else FLAT_WEATHER], "max_tokens" if chat else "max_output_tokens"
    body = {"tools": tools, "tool_choice": "required"}
    enough = usage(server, chat, **body)
    assert usage(server, chat, **body, **{most: 3}) == {**enough, "cached": 0, "written": 0}
    assert enough["written"] > 3


@pytest.mark.parametrize("most", [1, 3, 100, None])
def test_a_prompt_beyond_the_context_is_refused_whatever_the_budget(
    start: Start, most: int | None
) -> None:
    """No budget would help; one that is too small for an answer all the less."""
    limits = {} if most is None else {"max_tokens": most}
    long = [{"role": "user", "content": "x" * 3000}]
    server = start(context=1500)
    refused = server.chat(messages=long, tools=[WEATHER], tool_choice="required", **limits)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"


def test_what_clients_require_of_the_usage_is_there(start: Start) -> None:
    """The types of OpenAI's client have ``cache_write_tokens``, which no answer may lack."""
    server = start()
    of_chat = server.chat(tools=[WEATHER]).json()["usage"]["prompt_tokens_details"]
    of_response = server.respond(tools=[FLAT_WEATHER]).json()["usage"]["input_tokens_details"]
    (final,) = server.events(tools=[FLAT_WEATHER])[-1:]
    assert of_chat["cache_write_tokens"] == 0
    assert of_response["cache_write_tokens"] == 0
    assert final["response"]["usage"]["input_tokens_details"]["cache_write_tokens"] == 0
