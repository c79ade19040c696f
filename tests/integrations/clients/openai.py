# requires: openai pydantic
"""OpenAI's client for Python, with a loop written by hand."""

from __future__ import annotations

import json
from typing import Any

import openai
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
    failing,
    flow,
    main,
    never_wrong,
    ran,
    run,
    same,
    says,
    tools,
)  # fmt: skip
from pydantic import BaseModel

client = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0)
chats = client.chat.completions
EVERY = tools("get_weather", "set_light", "find_person")


class Place(BaseModel):
    """The place that was spoken of."""

    city: str


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def loop(messages: list[Any], offered: list[Any] = EVERY, *, streamed: bool = False) -> str:
    """Ask and run calls until there is an answer, which is added to the messages."""
    for _ in range(6):
        if streamed:
            with chats.stream(model=MODEL, messages=messages, tools=offered) as stream:
                for _event in stream:
                    pass
                message = stream.get_final_completion().choices[0].message
        else:
            message = chats.create(model=MODEL, messages=messages, tools=offered).choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return message.content or ""
        messages += [
            {"role": "tool", "tool_call_id": one.id,
             "content": run(one.function.name, one.function.arguments)}
            for one in message.tool_calls
        ]  # fmt: skip
    raise AssertionError("six turns and no answer")


@flow("one call")
def one_call() -> None:
    answer = chats.create(model=MODEL, messages=[user(ASK)], tools=EVERY).choices[0]
    (call,) = answer.message.tool_calls
    same(answer.finish_reason, "tool_calls")
    same((call.function.name, json.loads(call.function.arguments)["city"]), PARIS)


@flow("two calls in one turn")
def two_calls() -> None:
    says(loop(messages := [user(ASK_TWO)]), "Paris", "Oslo", "22")
    same(len(messages[1].tool_calls), 2)
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
    whole: dict[int, list[str]] = {}
    for chunk in chats.create(model=MODEL, messages=[user(ASK)], tools=EVERY, stream=True):
        for part in (chunk.choices[0].delta.tool_calls or ()) if chunk.choices else ():
            found = whole.setdefault(part.index, ["", ""])
            found[0] += part.function.name or ""
            found[1] += part.function.arguments or ""
    ((name, arguments),) = whole.values()
    same((name, json.loads(arguments)["city"]), PARIS)


@flow("streamed loop")
def streamed_loop() -> None:
    says(loop([user(ASK)], streamed=True), "22", "Paris")
    same(ran, [PARIS])


@flow("structured output")
def structured() -> None:
    answer = chats.parse(model=MODEL, messages=[user(ASK_STRUCTURED)], response_format=Place)
    same(answer.choices[0].message.parsed, Place(city="Paris"))


@flow("forced tool")
def forced() -> None:
    choice = {"type": "function", "function": {"name": "set_light"}}
    answer = chats.create(
        model=MODEL, messages=[user(ASK_LIGHT)], tools=EVERY, tool_choice=choice
    ).choices[0].message  # fmt: skip
    (call,) = answer.tool_calls
    run(call.function.name, call.function.arguments)
    same(ran, [LIGHT])


@flow("no tools")
def no_tools() -> None:
    says(chats.create(model=MODEL, messages=[user(ASK_PLAIN)]).choices[0].message.content)


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
    says(loop([{"role": "system", "content": BRIEF}, user(ASK)]), "22", "Paris")
    same(ran, [PARIS])


@flow("responses loop")
def responses() -> None:
    offered = [{"type": "function", **one["function"]} for one in EVERY]
    said: list[Any] = [user(ASK)]
    for _ in range(6):
        answer = client.responses.create(
            model=MODEL, input=said, tools=offered, instructions=BRIEF, store=False
        )
        calls = [one for one in answer.output if one.type == "function_call"]
        if not calls:
            break
        said += answer.output
        said += [
            {"type": "function_call_output", "call_id": one.call_id, "output": run(one.name, one.arguments)}
            for one in calls
        ]  # fmt: skip
    says(answer.output_text, "22", "Paris")
    same(ran, [PARIS])


@flow("budget")
def budget() -> str:
    def ask(most: int) -> None:
        with chats.stream(
            model=MODEL, messages=[user(ASK)], tools=EVERY, max_tokens=most
        ) as stream:
            for event in stream:
                if event.type == "tool_calls.function.arguments.done":
                    run(event.name, event.arguments)

    return never_wrong(ask)


main()
