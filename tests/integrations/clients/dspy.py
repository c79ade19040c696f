# requires: dspy
"""DSPy, which writes its requests as fields with instructions around them.

The server is declared as a provider that takes functions and JSON Schemas; undeclared, dspy takes it for one that only talks.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import dspy
from dspy import lm15
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
    same,
    says,
    set_light,
)  # fmt: skip

lm15.register_provider(
    lm15.ProviderDefinition.chat(
        lm15.AccessPolicy(provider="served", env_keys=("SERVED_API_KEY",), base_url=BASE_URL),
        compat=lm15.OpenAIChatCompat(),
    ),
    supports=lm15.ModelSupport(function_calling=True, response_schema=True),
)
FUNCTIONS = (get_weather, set_light, find_person)


def use(**options: Any) -> Any:
    return dspy.LM(f"served/{MODEL}", api_key=API_KEY, cache=False, num_retries=0, **options)


dspy.configure(lm=use(), adapter=dspy.JSONAdapter())


class Calling(dspy.Signature):
    """Call the tools that the question asks for."""

    question: str = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    calls: dspy.ToolCalls = dspy.OutputField()


def calls(text: str, **options: Any) -> list[tuple[Any, ...]]:
    tools = [dspy.Tool(one) for one in FUNCTIONS]
    made = dspy.Predict(Calling)(question=text, tools=tools, **options).calls.tool_calls
    return [(one.name, *one.args.values()) for one in made]


def agent(signature: Any = "question -> answer") -> Any:
    return dspy.ReActV2(signature, tools=list(FUNCTIONS), max_iters=6)


@flow("one call")
def one_call() -> None:
    same(calls(ASK), [PARIS])
    with dspy.context(adapter=dspy.ChatAdapter(use_native_function_calling=True)):
        same(calls(ASK), [PARIS])


@flow("two calls in one turn")
def two_calls() -> None:
    same(sorted(calls(ASK_TWO)), sorted([PARIS, OSLO]))
    says(agent()(question=ASK_TWO).answer, "Paris", "Oslo", "22")


@flow("tool loop")
def tool_loop() -> None:
    says(agent()(question=ASK).answer, "22", "Paris")
    same(ran, [PARIS])


@flow("two-step loop")
def two_steps() -> None:
    says(agent()(question=ASK_STEPS).answer, "22")
    same(ran, [ADA, OSLO])


@flow("streamed loop")
def streamed_loop() -> None:
    async def last() -> Any:
        return [one async for one in dspy.streamify(agent())(question=ASK)][-1]

    says(asyncio.run(last()).answer, "22", "Paris")
    same(ran, [PARIS])


@flow("structured output")
def structured() -> None:
    same(dspy.Predict("question -> city: str")(question=ASK_STRUCTURED).city, "Paris")
    same(dspy.ChainOfThought("question -> city: str")(question=ASK_STRUCTURED).city, "Paris")


@flow("forced tool")
def forced() -> None:
    choice = {"type": "function", "function": {"name": "set_light"}}
    same(calls(ASK_LIGHT, config={"tool_choice": choice}), [LIGHT])


@flow("no tools")
def no_tools() -> None:
    says(use()(ASK_PLAIN)[0])


@flow("tool error fed back")
def error() -> None:
    failing.add("Paris")
    says(agent()(question=ASK).answer, "no weather station")
    same(ran, [PARIS])


@flow("follow-up question")
def follow_up() -> None:
    made = agent()
    history = made(question=ASK).history
    says(made(question=ASK_AGAIN, history=history).answer, "Oslo")
    same(ran, [PARIS, OSLO])


@flow("system message")
def system() -> None:
    says(agent(dspy.Signature("question -> answer", BRIEF))(question=ASK).answer, "22", "Paris")
    same(ran, [PARIS])


@flow(
    "ReAct in text",
    nano="It asks for JSON and states no schema of it; nano fills in stated schemas only.",
)
def react() -> None:
    """The older agent: which function and with what is asked for as fields of a text."""
    says(
        dspy.ReAct("question -> answer", tools=list(FUNCTIONS), max_iters=6)(question=ASK).answer,
        "22",
        "Paris",
    )


@flow("budget")
def budget() -> str:
    def ask(most: int) -> None:
        with dspy.context(lm=use(max_tokens=most)):
            agent()(question=ASK)

    return never_wrong(ask)


main()
