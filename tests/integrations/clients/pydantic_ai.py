# requires: pydantic-ai-slim[openai]
"""Pydantic's framework for agents, over chat, and over responses where a flow's name says so."""

from __future__ import annotations

import asyncio
from typing import Any

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
    FUNCTIONS,
    LIGHT,
    MODEL,
    OSLO,
    PARIS,
    failing,
    flow,
    main,
    never_wrong,
    ran,
    same,
    says,
)  # fmt: skip
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ToolOrOutput


class Place(BaseModel):
    """The place that was spoken of."""

    city: str


class Weather(BaseModel):
    """The weather of a city."""

    city: str
    degrees: int


def get_weather(city: str) -> str:
    """Current weather of a city.

    Args:
        city: Name of the city.
    """
    try:
        return FUNCTIONS["get_weather"](city)
    except ValueError as error:
        raise ModelRetry(str(error)) from None


TOOLS = [get_weather, FUNCTIONS["set_light"], FUNCTIONS["find_person"]]


def agent(kind: Any = OpenAIChatModel, **given: Any) -> Agent:
    model = kind(MODEL, provider=OpenAIProvider(base_url=BASE_URL, api_key=API_KEY))
    return Agent(**{"model": model, "tools": TOOLS, **given})


def run(asked: str, one: Agent | None = None, **options: Any) -> Any:
    return asyncio.run((one or agent()).run(asked, **options))


async def stream(asked: str, one: Agent, **options: Any) -> Any:
    async with one.run_stream(asked, **options) as result:
        return await result.get_output()


@flow("two calls in one turn")
def two_calls() -> None:
    result = run(ASK_TWO)
    says(result.output, "Paris", "Oslo", "22")
    same(sorted(ran), sorted([PARIS, OSLO]))
    same(result.usage.requests if not callable(result.usage) else result.usage().requests, 2)


@flow("tool loop")
def tool_loop() -> None:
    says(run(ASK).output, "22", "Paris")
    same(ran, [PARIS])


@flow("two-step loop")
def two_steps() -> None:
    says(run(ASK_STEPS).output, "22")
    same(ran, [ADA, OSLO])


@flow("streamed loop")
def streamed_loop() -> None:
    says(asyncio.run(stream(ASK, agent())), "22", "Paris")
    same(ran, [PARIS])


@flow("structured output")
def structured() -> None:
    """Its own way: a function for the output."""
    same(
        run(ASK_STRUCTURED, agent(tools=[], output_type=ToolOutput(Place))).output,
        Place(city="Paris"),
    )


@flow("structured output, native")
def native() -> None:
    same(
        run(ASK_STRUCTURED, agent(tools=[], output_type=NativeOutput(Place))).output,
        Place(city="Paris"),
    )


@flow("structured output, prompted")
def prompted() -> None:
    same(
        run(ASK_STRUCTURED, agent(tools=[], output_type=PromptedOutput(Place))).output,
        Place(city="Paris"),
    )


@flow("structured output after tools")
def structured_after_tools() -> None:
    same(run(ASK, agent(output_type=Weather)).output, Weather(city="Paris", degrees=22))
    same(ran, [PARIS])


@flow("structured output, streamed")
def structured_streamed() -> None:
    same(
        asyncio.run(stream(ASK_STRUCTURED, agent(tools=[], output_type=Place))), Place(city="Paris")
    )


@flow("forced tool")
def forced() -> None:
    says(run(ASK_LIGHT, model_settings={"tool_choice": ToolOrOutput(["set_light"])}).output, "40")
    same(ran, [LIGHT])


@flow("no tools")
def no_tools() -> None:
    says(run(ASK_PLAIN, agent(tools=[])).output)


@flow("tool error fed back")
def error() -> None:
    """The model is asked to try again; it says why it does not."""
    failing.add("Paris")
    says(run(ASK).output, "no weather station")
    same(ran, [PARIS])


@flow("follow-up question")
def follow_up() -> None:
    first = run(ASK)
    says(run(ASK_AGAIN, message_history=first.all_messages()).output, "Oslo")
    same(ran, [PARIS, OSLO])


@flow("system message")
def system() -> None:
    says(run(ASK, agent(system_prompt=BRIEF)).output, "22", "Paris")
    same(ran, [PARIS])


@flow("responses loop")
def responses() -> None:
    says(run(ASK, agent(OpenAIResponsesModel, instructions=BRIEF)).output, "22", "Paris")
    same(ran, [PARIS])


@flow("responses streamed loop")
def responses_streamed() -> None:
    says(asyncio.run(stream(ASK, agent(OpenAIResponsesModel))), "22", "Paris")
    same(ran, [PARIS])


@flow("budget")
def budget() -> str:
    def ask(most: int) -> None:
        asyncio.run(stream(ASK, agent(), model_settings={"max_tokens": most}))

    return never_wrong(ask)


main()
