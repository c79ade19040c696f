# requires: autogen-agentchat autogen-ext[openai]
"""Microsoft's AutoGen: AssistantAgent over the client for OpenAI."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import ModelClientStreamingChunkEvent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.models import UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
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
    find_person,
    flow,
    get_weather,
    main,
    never_wrong,
    ran,
    run,
    same,
    says,
    set_light,
)  # fmt: skip
from pydantic import BaseModel

INFO = {
    "vision": False,
    "function_calling": True,
    "json_output": True,
    "family": "unknown",
    "structured_output": True,
}
FUNCTIONS = (get_weather, set_light, find_person)


class Place(BaseModel):
    """The place that was spoken of."""

    city: str


def client(**options: Any) -> OpenAIChatCompletionClient:
    return OpenAIChatCompletionClient(
        model=MODEL, base_url=BASE_URL, api_key=API_KEY, model_info=INFO, max_retries=0, **options
    )  # fmt: skip


def tools(*, strict: bool = False) -> list[FunctionTool]:
    return [
        FunctionTool(one, description=one.__doc__.split("\n")[0], strict=strict)
        for one in FUNCTIONS
    ]


def agent(**options: Any) -> AssistantAgent:
    options = {"tools": tools(), "max_tool_iterations": 5, "reflect_on_tool_use": True} | options
    model = options.pop("model_client", None) or client()
    return AssistantAgent("helper", model, **options)


def ask(text: str, **options: Any) -> Any:
    """Run an agent; return the content of its last message."""
    return asyncio.run(agent(**options).run(task=text)).messages[-1].content


def create(text: str, **options: Any) -> Any:
    return asyncio.run(client().create([UserMessage(content=text, source="user")], **options))


@flow("one call")
def one_call() -> None:
    (call,) = create(ASK, tools=tools()).content
    same((call.name, json.loads(call.arguments)), ("get_weather", {"city": "Paris"}))


@flow("two calls in one turn")
def two_calls() -> None:
    done = asyncio.run(agent().run(task=ASK_TWO)).messages
    says(done[-1].content, "Paris", "Oslo", "22")
    same(len(done[1].content), 2)
    same(sorted(ran), sorted([PARIS, OSLO]))


@flow("tool loop")
def tool_loop() -> None:
    says(ask(ASK), "22", "Paris")
    same(ran, [PARIS])


@flow("two-step loop")
def two_steps() -> None:
    says(ask(ASK_STEPS), "22")
    same(ran, [ADA, OSLO])


@flow("streamed call")
def streamed_call() -> None:
    async def last() -> Any:
        stream = client().create_stream([UserMessage(content=ASK, source="user")], tools=tools())
        return [one async for one in stream][-1]

    (call,) = asyncio.run(last()).content
    same((call.name, json.loads(call.arguments)), ("get_weather", {"city": "Paris"}))


@flow("streamed loop")
def streamed_loop() -> None:
    async def stream() -> list[Any]:
        return [one async for one in agent(model_client_stream=True).run_stream(task=ASK)]

    done = asyncio.run(stream())
    says(
        "".join(one.content for one in done if isinstance(one, ModelClientStreamingChunkEvent)),
        "22",
    )
    says(done[-1].messages[-1].content, "22", "Paris")
    same(ran, [PARIS])


@flow("structured output")
def structured() -> None:
    same(ask(ASK_STRUCTURED, tools=[], output_content_type=Place), Place(city="Paris"))


@flow("structured output after tools")
def structured_after_tools() -> None:
    same(ask(ASK, tools=tools(strict=True), output_content_type=Place), Place(city="Paris"))
    same(ran, [PARIS])


@flow("forced tool")
def forced() -> None:
    offered = tools()
    (call,) = create(ASK_LIGHT, tools=offered, tool_choice=offered[1]).content
    run(call.name, call.arguments)
    same(ran, [LIGHT])


@flow("no tools")
def no_tools() -> None:
    says(ask(ASK_PLAIN, tools=[]))


@flow("tool error fed back")
def error() -> None:
    failing.add("Paris")
    says(ask(ASK), "no weather station")
    same(ran, [PARIS])


@flow("follow-up question")
def follow_up() -> None:
    async def both() -> Any:
        made = agent()
        await made.run(task=ASK)
        return (await made.run(task=ASK_AGAIN)).messages[-1].content

    says(asyncio.run(both()), "Oslo")
    same(ran, [PARIS, OSLO])


@flow("system message")
def system() -> None:
    says(ask(ASK, system_message=BRIEF), "22", "Paris")
    same(ran, [PARIS])


@flow("team")
def team() -> None:
    """Two agents in turn; the second sees what the first said as a message of a user."""

    async def both() -> Any:
        second = AssistantAgent("second", client())
        chat = RoundRobinGroupChat(
            [agent(), second], termination_condition=MaxMessageTermination(6)
        )
        return (await chat.run(task=ASK)).messages

    says(str([one.content for one in asyncio.run(both())]), "22", "Paris")
    same(ran[0], PARIS)


@flow("budget")
def budget() -> str:
    def limited(most: int) -> None:
        async def stream() -> None:
            made = agent(model_client=client(max_tokens=most), model_client_stream=True)
            async for _ in made.run_stream(task=ASK):
                pass

        asyncio.run(stream())

    return never_wrong(limited)


main()
