# requires: crewai[litellm] pydantic
"""CrewAI: crews and single agents, over its own client of OpenAI's interface."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from typing import Any

# It writes what it keeps into the home of the user, and asks questions where it may trace.
os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "CREWAI_TESTING": "true",
    "OTEL_SDK_DISABLED": "true", "HOME": tempfile.mkdtemp(), "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}  # fmt: skip

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from flows import (
    ADA,
    API_KEY,
    ASK,
    ASK_PLAIN,
    ASK_STEPS,
    ASK_STRUCTURED,
    ASK_TWO,
    BASE_URL,
    BRIEF,
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
    same,
    says,
    set_light,
    tools,
)  # fmt: skip
from pydantic import BaseModel

EVERY = tools("get_weather", "set_light", "find_person")


class Place(BaseModel):
    """The place that was spoken of."""

    city: str


class Weather(BaseModel):
    """The weather of a place."""

    city: str
    degrees: int


def model(**options: Any) -> LLM:
    return LLM(
        model=MODEL, provider="openai", base_url=BASE_URL, api_key=API_KEY, max_retries=0, **options
    )


def agent(functions: Any = (get_weather, set_light, find_person), **options: Any) -> Agent:
    made = [tool(one.__name__)(one) for one in functions]
    options = {"llm": model(), "max_iter": 6, "max_retry_limit": 0} | options
    return Agent(role="helper", goal="Help.", backstory=BRIEF, tools=made, verbose=False, **options)


def crew(text: str, *, by: Agent | None = None, **options: Any) -> Any:
    by = by or agent()
    task = Task(description=text, expected_output="What was asked for.", agent=by, **options)
    return Crew(agents=[by], tasks=[task], verbose=False).kickoff()


@flow("one call")
def one_call() -> None:
    (call,) = model().call(ASK, tools=EVERY)
    same(
        (call.function.name, json.loads(call.function.arguments)),
        ("get_weather", {"city": "Paris"}),
    )


@flow("two calls in one turn")
def two_calls() -> None:
    same(len(model().call(ASK_TWO, tools=EVERY)), 2)
    says(crew(ASK_TWO).raw, "Paris", "Oslo", "22")
    same(sorted(ran), sorted([PARIS, OSLO]))


@flow("tool loop")
def tool_loop() -> None:
    says(crew(ASK).raw, "22", "Paris")
    same(ran, [PARIS])


@flow("two-step loop")
def two_steps() -> None:
    says(crew(ASK_STEPS).raw, "22")
    same(ran, [ADA, OSLO])


@flow("streamed loop")
def streamed_loop() -> None:
    says(crew(ASK, by=agent(llm=model(stream=True))).raw, "22", "Paris")
    same(ran, [PARIS])


@flow("structured output")
def structured() -> None:
    same(crew(ASK_STRUCTURED, by=agent(()), output_pydantic=Place).pydantic, Place(city="Paris"))
    same(model(response_format=Place).call(ASK_STRUCTURED), Place(city="Paris"))


@flow("structured output after tools")
def structured_after_tools() -> None:
    same(crew(ASK, output_pydantic=Weather).pydantic, Weather(city="Paris", degrees=22))
    same(ran, [PARIS])


@flow("no tools")
def no_tools() -> None:
    says(crew(ASK_PLAIN, by=agent(())).raw)


@flow("tool error fed back")
def error() -> None:
    failing.add("Paris")
    says(crew(ASK).raw, "no weather station")


@flow("system message")
def system() -> None:
    says(asyncio.run(agent().kickoff_async(ASK)).raw, "22", "Paris")
    same(ran, [PARIS])


@flow("two agents")
def two_agents() -> None:
    """The second task gets what came of the first as its context."""
    first, second = agent(), agent((set_light,))
    one = Task(description=ASK, expected_output="The weather.", agent=first)
    two = Task(
        description="Set the light in the kitchen to 40 percent.",
        expected_output="Done.",
        agent=second,
        context=[one],
    )
    says(Crew(agents=[first, second], tasks=[one, two], verbose=False).kickoff().raw, "40")
    same(ran, [PARIS, ("set_light", "kitchen", 40)])


@flow("budget")
def budget() -> str:
    def ask(most: int) -> None:
        crew(ASK, by=agent(llm=model(stream=True, max_tokens=most), max_iter=2))

    return never_wrong(ask)


main()
