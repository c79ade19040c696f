# requires: litellm pydantic
"""LiteLLM as a library: its way to OpenAI-compatible servers and to hosted vLLM, chat and responses."""

from __future__ import annotations

import json
import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
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

litellm.suppress_debug_info = True
EVERY = tools("get_weather", "set_light", "find_person")


class Place(BaseModel):
    """The place that was spoken of."""

    city: str


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def complete(messages: list[Any], provider: str = "openai", **options: Any) -> Any:
    return litellm.completion(
        model=f"{provider}/{MODEL}", api_base=BASE_URL, api_key=API_KEY, messages=messages, num_retries=0, **options
    )  # fmt: skip


def message(messages: list[Any], *, streamed: bool = False, **options: Any) -> Any:
    """Ask once; return the message, of a stream the one that LiteLLM builds of its chunks."""
    if streamed:
        chunks = list(complete(messages, stream=True, **options))
        return litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message
    return complete(messages, **options).choices[0].message


def loop(messages: list[Any], **options: Any) -> str:
    """Ask and run calls until there is an answer, which is added to the messages."""
    for _ in range(6):
        made = message(messages, tools=EVERY, **options)
        messages.append(made)
        if not made.tool_calls:
            return made.content or ""
        messages += [
            {"role": "tool", "tool_call_id": one.id, "name": one.function.name,
             "content": run(one.function.name, one.function.arguments)}
            for one in made.tool_calls
        ]  # fmt: skip
    raise AssertionError("six turns and no answer")


def called(made: Any) -> tuple[str, Any]:
    (call,) = made.tool_calls
    return call.function.name, json.loads(call.function.arguments)


@flow("one call")
def one_call() -> None:
    same(called(message([user(ASK)], tools=EVERY)), ("get_weather", {"city": "Paris"}))


@flow("two calls in one turn")
def two_calls() -> None:
    says(loop(messages := [user(ASK_TWO)]), "Paris", "Oslo", "22")
    same(len(messages[1].tool_calls), 2)
    same(sorted(ran), sorted([PARIS, OSLO]))


@flow("tool loop")
def tool_loop() -> None:
    for provider in ("openai", "hosted_vllm", "custom_openai"):
        ran.clear()
        says(loop([user(ASK)], provider=provider), "22", "Paris")
        same(ran, [PARIS])


@flow("two-step loop")
def two_steps() -> None:
    says(loop([user(ASK_STEPS)]), "22")
    same(ran, [ADA, OSLO])


@flow("streamed call")
def streamed_call() -> None:
    same(
        called(message([user(ASK)], tools=EVERY, streamed=True)), ("get_weather", {"city": "Paris"})
    )


@flow("streamed loop")
def streamed_loop() -> None:
    says(loop([user(ASK)], streamed=True), "22", "Paris")
    same(ran, [PARIS])


@flow("structured output")
def structured() -> None:
    for provider in ("openai", "hosted_vllm"):
        made = message([user(ASK_STRUCTURED)], provider=provider, response_format=Place)
        same(Place.model_validate_json(made.content), Place(city="Paris"))


@flow("forced tool")
def forced() -> None:
    choice = {"type": "function", "function": {"name": "set_light"}}
    (call,) = message([user(ASK_LIGHT)], tools=EVERY, tool_choice=choice).tool_calls
    run(call.function.name, call.function.arguments)
    same(ran, [LIGHT])


@flow("no tools")
def no_tools() -> None:
    says(message([user(ASK_PLAIN)]).content)


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
        answer = litellm.responses(
            model=f"openai/{MODEL}", api_base=BASE_URL, api_key=API_KEY, input=said, tools=offered, store=False
        )  # fmt: skip
        calls = [one for one in answer.output if one.type == "function_call"]
        if not calls:
            break
        said += [one.model_dump() for one in answer.output]
        said += [
            {"type": "function_call_output", "call_id": one.call_id, "output": run(one.name, one.arguments)}
            for one in calls
        ]  # fmt: skip
    says(answer.output[0].content[0].text, "22", "Paris")
    same(ran, [PARIS])


@flow("budget")
def budget() -> str:
    def ask(most: int) -> None:
        for one in (
            message([user(ASK)], tools=EVERY, streamed=True, max_tokens=most).tool_calls or ()
        ):
            run(one.function.name, one.function.arguments)

    return never_wrong(ask)


main()
