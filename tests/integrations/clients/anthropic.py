# requires: anthropic pydantic
"""Anthropic's client for Python, with a loop written by hand and with its tool runner."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import flows
from flows import (
    ADA,
    API_KEY,
    ASK,
    ASK_AGAIN,
    ASK_LIGHT,
    ASK_PLAIN,
    ASK_STEPS,
    ASK_STRUCTURED,
    ASK_TWO,
    BASE_URL,
    BRIEF,
    LIGHT,
    MODEL,
    OSLO,
    PARIS,
    about,
    failing,
    flow,
    main,
    never_wrong,
    ran,
    same,
    says,
    schema,
)  # fmt: skip
from pydantic import BaseModel

client = anthropic.Anthropic(base_url=BASE_URL.removesuffix("/v1"), api_key=API_KEY, max_retries=0)
EVERY = [
    {"name": one, "description": about(one), "input_schema": schema(one)}
    for one in ("get_weather", "set_light", "find_person")
]
ASKED: dict[str, Any] = {"model": MODEL, "max_tokens": 300}


class Place(BaseModel):
    """The place that was spoken of."""

    city: str


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def result(block: Any) -> dict[str, Any]:
    """Run a call; a failure is a result that is an error."""
    try:
        told = {"content": flows.FUNCTIONS[block.name](**block.input)}
    except ValueError as error:
        told = {"content": str(error), "is_error": True}
    return {"type": "tool_result", "tool_use_id": block.id, **told}


def calls_of(message: Any) -> list[Any]:
    found = [block for block in message.content if block.type == "tool_use"]
    same(bool(found), message.stop_reason == "tool_use")
    return found


def text_of(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def ask(messages: list[Any], *, streamed: bool = False, **more: Any) -> Any:
    asked = {**ASKED, "messages": messages, "tools": EVERY, **more}
    if not streamed:
        return client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        for _event in stream:
            pass
        return stream.get_final_message()


def loop(messages: list[Any], **more: Any) -> str:
    """Ask and run calls until there is an answer, which is added to the messages."""
    for _ in range(6):
        message = ask(messages, **more)
        messages.append(message.to_param())
        calls = calls_of(message)
        if not calls:
            return text_of(message)
        messages.append(user([result(one) for one in calls]))
    raise AssertionError("six turns and no answer")


@flow("one call")
def one_call() -> None:
    (call,) = calls_of(ask([user(ASK)]))
    same((call.name, call.input["city"]), PARIS)


@flow("two calls in one turn")
def two_calls() -> None:
    says(loop(messages := [user(ASK_TWO)]), "Paris", "Oslo", "22")
    same(len(messages[2]["content"]), 2)
    same(sorted(ran), sorted([PARIS, OSLO]))


@flow("tool loop")
def tool_loop() -> None:
    says(loop([user(ASK)]), "22", "Paris")
    same(ran, [PARIS])


@flow("two-step loop")
def two_steps() -> None:
    says(loop([user(ASK_STEPS)]), "22")
    same(ran, [ADA, OSLO])


@flow("streamed call")
def streamed_call() -> None:
    name = arguments = ""
    for event in client.messages.create(**ASKED, messages=[user(ASK)], tools=EVERY, stream=True):
        if event.type == "content_block_start" and event.content_block.type == "tool_use":
            name += event.content_block.name
        if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            arguments += event.delta.partial_json
    same((name, json.loads(arguments)["city"]), PARIS)


@flow("streamed loop")
def streamed_loop() -> None:
    says(loop([user(ASK)], streamed=True), "22", "Paris")
    same(ran, [PARIS])


@flow("structured output")
def structured() -> None:
    answer = client.messages.parse(**ASKED, messages=[user(ASK_STRUCTURED)], output_format=Place)
    same(answer.parsed_output, Place(city="Paris"))


@flow("forced tool")
def forced() -> None:
    (call,) = calls_of(ask([user(ASK_LIGHT)], tool_choice={"type": "tool", "name": "set_light"}))
    result(call)
    same(ran, [LIGHT])


@flow("no tools")
def no_tools() -> None:
    says(text_of(client.messages.create(**ASKED, messages=[user(ASK_PLAIN)])))


@flow("tool error fed back")
def error() -> None:
    failing.add("Paris")
    says(loop([user(ASK)]), "no weather station")
    same(ran, [PARIS])


@flow("follow-up question")
def follow_up() -> None:
    loop(messages := [user(ASK)])
    says(loop([*messages, user(ASK_AGAIN)]), "Oslo")
    same(ran, [PARIS, OSLO])


@flow("system message")
def system() -> None:
    cached = {"type": "text", "text": BRIEF, "cache_control": {"type": "ephemeral"}}
    says(loop([user(ASK)], system=[cached]), "22", "Paris")
    same(ran, [PARIS])


def tool_runner(**more: Any) -> Any:
    return client.beta.messages.tool_runner(
        **ASKED, messages=[user(ASK)], tools=[anthropic.beta_tool(flows.get_weather)], **more
    )


@flow("tool runner")
def runner() -> None:
    says(text_of(tool_runner().until_done()), "22", "Paris")
    same(ran, [PARIS])


@flow("tool runner, streamed")
def streamed_runner() -> None:
    for stream in tool_runner(stream=True):
        message = stream.get_final_message()
    says(text_of(message), "22", "Paris")
    same(ran, [PARIS])


@flow("count of tokens")
def count() -> None:
    counted = client.messages.count_tokens(model=MODEL, messages=[user(ASK)], tools=EVERY)
    usage = ask([user(ASK)]).usage
    same(counted.input_tokens, usage.input_tokens + usage.cache_read_input_tokens)


@flow("budget")
def budget() -> str:
    def asked(most: int) -> None:
        with client.messages.stream(
            model=MODEL, messages=[user(ASK)], tools=EVERY, max_tokens=most
        ) as stream:
            for event in stream:
                if event.type == "content_block_stop" and event.content_block.type == "tool_use":
                    result(event.content_block)

    return never_wrong(asked)


main()
