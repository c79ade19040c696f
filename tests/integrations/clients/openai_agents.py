# requires: openai-agents
"""OpenAI's framework for agents, over chat, and over responses where a flow's name says so."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    StopAtTools,
    function_tool,
    set_tracing_disabled,
)  # fmt: skip
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
from openai import AsyncOpenAI
from pydantic import BaseModel

set_tracing_disabled(True)
TOOLS = [function_tool(one) for one in FUNCTIONS.values()]


class Place(BaseModel):
    """The place that was spoken of."""

    city: str


def agent(kind: Any = OpenAIChatCompletionsModel, **given: Any) -> Agent:
    client = AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0)
    return Agent(**{"name": "helper", "model": kind(MODEL, client), "tools": TOOLS, **given})


def run(asked: Any, one: Agent | None = None, **options: Any) -> Any:
    return asyncio.run(Runner.run(one or agent(), asked, max_turns=6, **options))


async def stream(asked: Any, one: Agent) -> Any:
    result = Runner.run_streamed(one, asked, max_turns=6)
    async for _ in result.stream_events():
        pass
    return result


@flow("one call")
def one_call() -> None:
    """The run ends with the first call's result."""
    stop = StopAtTools(stop_at_tool_names=["get_weather"])
    says(run(ASK, agent(tool_use_behavior=stop)).final_output, "22")
    same(ran, [PARIS])


@flow("two calls in one turn")
def two_calls() -> None:
    result = run(ASK_TWO)
    says(result.final_output, "Paris", "Oslo", "22")
    same(sorted(ran), sorted([PARIS, OSLO]))
    same(len(result.raw_responses), 2)


@flow("tool loop")
def tool_loop() -> None:
    says(run(ASK).final_output, "22", "Paris")
    same(ran, [PARIS])


@flow("two-step loop")
def two_steps() -> None:
    says(run(ASK_STEPS).final_output, "22")
    same(ran, [ADA, OSLO])


@flow("streamed loop")
def streamed_loop() -> None:
    says(asyncio.run(stream(ASK, agent())).final_output, "22", "Paris")
    same(ran, [PARIS])


@flow("structured output")
def structured() -> None:
    same(run(ASK_STRUCTURED, agent(tools=[], output_type=Place)).final_output, Place(city="Paris"))


@flow("structured output after tools")
def structured_after_tools() -> None:
    same(run(ASK, agent(output_type=Place)).final_output, Place(city="Paris"))
    same(ran, [PARIS])


@flow("forced tool")
def forced() -> None:
    says(
        run(ASK_LIGHT, agent(model_settings=ModelSettings(tool_choice="set_light"))).final_output,
        "40",
    )
    same(ran, [LIGHT])


@flow("no tools")
def no_tools() -> None:
    says(run(ASK_PLAIN, agent(tools=[])).final_output)


@flow("tool error fed back")
def error() -> None:
    """The framework tells the model of an error, and not which."""
    failing.add("Paris")
    says(run(ASK).final_output, "error occurred")
    same(ran, [PARIS])


@flow("follow-up question")
def follow_up() -> None:
    first = run(ASK)
    says(run([*first.to_input_list(), {"role": "user", "content": ASK_AGAIN}]).final_output, "Oslo")
    same(ran, [PARIS, OSLO])


@flow("system message")
def system() -> None:
    says(run(ASK, agent(instructions=BRIEF)).final_output, "22", "Paris")
    same(ran, [PARIS])


@flow("handoff")
def handoff() -> None:
    weather = agent(name="weather", handoff_description="Knows the weather of a city.")
    triage = agent(name="triage", tools=[], handoffs=[weather])
    says(run(ASK, triage).final_output, "22", "Paris")
    same(ran, [PARIS])


@flow("agent as tool")
def agent_as_tool() -> None:
    weather = agent(name="weather").as_tool("ask_weather", "Tells the weather of a city.")
    says(run(ASK, agent(tools=[weather])).final_output, "22")
    same(ran, [PARIS])


@flow("responses loop")
def responses() -> None:
    says(run(ASK, agent(OpenAIResponsesModel, instructions=BRIEF)).final_output, "22", "Paris")
    same(ran, [PARIS])


@flow("responses streamed loop")
def responses_streamed() -> None:
    says(asyncio.run(stream(ASK, agent(OpenAIResponsesModel))).final_output, "22", "Paris")
    same(ran, [PARIS])


def _budget(kind: Any) -> str:
    stop = StopAtTools(stop_at_tool_names=[*FUNCTIONS])

    def ask(most: int) -> None:
        settings = ModelSettings(max_tokens=most)
        asyncio.run(stream(ASK, agent(kind, model_settings=settings, tool_use_behavior=stop)))

    return never_wrong(ask)


@flow("budget")
def budget() -> str:
    return _budget(OpenAIChatCompletionsModel)


@flow("responses budget")
def responses_budget() -> str:
    return _budget(OpenAIResponsesModel)


main()
