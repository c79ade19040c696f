# requires: smolagents[openai]
"""Hugging Face's smolagents: ToolCallingAgent. (CodeAgent writes programs, which no model does that calls functions.)"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

from flows import (
    ADA,
    API_KEY,
    ASK,
    ASK_AGAIN,
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
    schema,
    set_light,
)  # fmt: skip
from smolagents import OpenAIServerModel, ToolCallingAgent, tool
from smolagents.models import agglomerate_stream_deltas

model = OpenAIServerModel(MODEL, api_base=BASE_URL, api_key=API_KEY)
TOOLS = [tool(one) for one in (get_weather, set_light, find_person)]


def agent(*, tools: Any = TOOLS, **options: Any) -> ToolCallingAgent:
    return ToolCallingAgent(tools=tools, model=model, max_steps=6, verbosity_level=0, **options)


def asked(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": text}]}]


def called(message: Any) -> tuple[str, Any]:
    (call,) = message.tool_calls
    arguments = call.function.arguments
    return call.function.name, json.loads(arguments) if isinstance(arguments, str) else arguments


@flow("one call")
def one_call() -> None:
    same(
        called(model.generate(asked(ASK), tools_to_call_from=TOOLS)),
        ("get_weather", {"city": "Paris"}),
    )


@flow("two calls in one turn")
def two_calls() -> None:
    made = agent()
    says(made.run(ASK_TWO), "Paris", "Oslo", "22")
    same(sorted(ran), sorted([PARIS, OSLO]))
    same(len(made.memory.steps[1].tool_calls), 2)


@flow("tool loop")
def tool_loop() -> None:
    says(agent().run(ASK), "22", "Paris")
    same(ran, [PARIS])


@flow("two-step loop")
def two_steps() -> None:
    says(agent().run(ASK_STEPS), "22")
    same(ran, [ADA, OSLO])


@flow("streamed call")
def streamed_call() -> None:
    deltas = list(model.generate_stream(asked(ASK), tools_to_call_from=TOOLS))
    same(called(agglomerate_stream_deltas(deltas)), ("get_weather", {"city": "Paris"}))


@flow("streamed loop")
def streamed_loop() -> None:
    with contextlib.redirect_stdout(sys.stderr):  # it shows what it does
        says(list(agent(stream_outputs=True).run(ASK, stream=True))[-1].output, "22", "Paris")
    same(ran, [PARIS])


@flow("structured output")
def structured() -> None:
    form = {
        "type": "json_schema",
        "json_schema": {"name": "place", "schema": schema("get_weather")},
    }
    said = model.generate(asked(ASK_STRUCTURED), response_format=form).content
    same(json.loads(said), {"city": "Paris"})


@flow("no tools")
def no_tools() -> None:
    says(agent(tools=[]).run(ASK_PLAIN))


@flow("tool error fed back")
def error() -> None:
    failing.add("Paris")
    says(agent().run(ASK), "no weather station")


@flow("follow-up question")
def follow_up() -> None:
    made = agent()
    made.run(ASK)
    says(made.run(ASK_AGAIN, reset=False), "Oslo")
    same(ran, [PARIS, OSLO])


@flow("system message")
def system() -> None:
    says(agent(instructions=BRIEF).run(ASK), "22", "Paris")
    same(ran, [PARIS])


@flow("budget")
def budget() -> str:
    def ask(most: int) -> None:
        limited = OpenAIServerModel(MODEL, api_base=BASE_URL, api_key=API_KEY, max_tokens=most)
        made = ToolCallingAgent(
            tools=TOOLS, model=limited, max_steps=1, verbosity_level=-1, stream_outputs=True
        )
        with contextlib.redirect_stdout(sys.stderr):
            made.run(ASK)

    return never_wrong(ask)


main()
