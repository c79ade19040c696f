# requires: langchain langchain-openai
"""LangChain's chat models with OpenAI's interface, and its agents."""

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
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

TOOLS = [tool(one) for one in FUNCTIONS.values()]
for each in TOOLS:
    each.handle_tool_error = True
BY_NAME = {one.name: one for one in TOOLS}


class Place(BaseModel):
    """The place that was spoken of."""

    city: str


def chat(**given: Any) -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, base_url=BASE_URL, api_key=API_KEY, max_retries=0, **given)


def run(call: Any) -> Any:
    try:
        return BY_NAME[call["name"]].invoke(call)
    except ValueError as error:
        from langchain_core.messages import ToolMessage

        return ToolMessage(f"error: {error}", tool_call_id=call["id"], status="error")


def loop(messages: list[Any], model: Any = None, *, streamed: bool = False) -> str:
    """Ask and run calls until there is an answer."""
    model = (model or chat()).bind_tools(TOOLS)
    for _ in range(6):
        if streamed:
            answer = None
            for chunk in model.stream(messages):
                answer = chunk if answer is None else answer + chunk
        else:
            answer = model.invoke(messages)
        messages.append(answer)
        if not answer.tool_calls:
            return str(answer.text)
        messages += [run(call) for call in answer.tool_calls]
    raise AssertionError("six turns and no answer")


def calls(answer: Any) -> list[Any]:
    return [(one["name"], one["args"].get("city")) for one in answer.tool_calls]


@flow("one call")
def one_call() -> None:
    same(calls(chat().bind_tools(TOOLS).invoke(ASK)), [PARIS])


@flow("two calls in one turn")
def two_calls() -> None:
    says(loop(messages := [HumanMessage(ASK_TWO)]), "Paris", "Oslo", "22")
    same(calls(messages[1]), [PARIS, OSLO])
    same(ran, [PARIS, OSLO])


@flow("tool loop")
def tool_loop() -> None:
    says(loop([HumanMessage(ASK)]), "22", "Paris")
    same(ran, [PARIS])


@flow("two-step loop")
def two_steps() -> None:
    says(loop([HumanMessage(ASK_STEPS)]), "22")
    same(ran, [ADA, OSLO])


@flow("streamed call")
def streamed_call() -> None:
    answer = None
    for chunk in chat().bind_tools(TOOLS).stream(ASK):
        answer = chunk if answer is None else answer + chunk
    same(calls(answer), [PARIS])


@flow("streamed loop")
def streamed_loop() -> None:
    says(loop([HumanMessage(ASK)], streamed=True), "22", "Paris")
    same(ran, [PARIS])


@flow("structured output")
def structured() -> None:
    found = chat().with_structured_output(Place, method="json_schema").invoke(ASK_STRUCTURED)
    same(found, Place(city="Paris"))


@flow("structured output, by a function")
def by_function() -> None:
    found = chat().with_structured_output(Place, method="function_calling").invoke(ASK_STRUCTURED)
    same(found, Place(city="Paris"))


@flow("structured output, streamed")
def structured_streamed() -> None:
    *_, found = chat().with_structured_output(Place).stream(ASK_STRUCTURED)
    same(found, Place(city="Paris"))


@flow("forced tool")
def forced() -> None:
    for call in chat().bind_tools(TOOLS, tool_choice="set_light").invoke(ASK_LIGHT).tool_calls:
        run(call)
    same(ran, [LIGHT])


@flow("no tools")
def no_tools() -> None:
    says(chat().invoke(ASK_PLAIN).text)


@flow("tool error fed back")
def error() -> None:
    failing.add("Paris")
    says(loop([HumanMessage(ASK)]), "no weather station")
    same(ran, [PARIS])


@flow("follow-up question")
def follow_up() -> None:
    loop(messages := [HumanMessage(ASK)])
    says(loop([*messages, HumanMessage(ASK_AGAIN)]), "Oslo")
    same(ran, [PARIS, OSLO])


@flow("system message")
def system() -> None:
    says(loop([SystemMessage(BRIEF), HumanMessage(ASK)]), "22", "Paris")
    same(ran, [PARIS])


@flow("agent")
def agent() -> None:
    made = create_agent(chat(), TOOLS, system_prompt=BRIEF)
    says(
        made.invoke({"messages": [("user", ASK)]}, {"recursion_limit": 12})["messages"][-1].text,
        "22",
        "Paris",
    )
    same(ran, [PARIS])


@flow("structured output after tools")
def structured_after_tools() -> None:
    made = create_agent(chat(), TOOLS, response_format=ToolStrategy(Place))
    same(
        made.invoke({"messages": [("user", ASK)]}, {"recursion_limit": 12})["structured_response"],
        Place(city="Paris"),
    )
    same(ran, [PARIS])


@flow("structured output after tools, native")
def native_after_tools() -> None:
    made = create_agent(chat(), TOOLS, response_format=ProviderStrategy(Place))
    same(
        made.invoke({"messages": [("user", ASK)]}, {"recursion_limit": 12})["structured_response"],
        Place(city="Paris"),
    )
    same(ran, [PARIS])


@flow("several at once")
def batch() -> None:
    async def ask() -> list[Any]:
        return await chat().bind_tools(TOOLS).abatch([ASK, ASK_AGAIN, ASK])

    same([calls(one) for one in asyncio.run(ask())], [[PARIS], [OSLO], [PARIS]])


@flow("responses loop")
def responses() -> None:
    model = chat(use_responses_api=True, output_version="responses/v1")
    says(loop([SystemMessage(BRIEF), HumanMessage(ASK)], model), "22", "Paris")
    same(ran, [PARIS])


@flow("responses streamed loop")
def responses_streamed() -> None:
    says(loop([HumanMessage(ASK)], chat(use_responses_api=True), streamed=True), "22", "Paris")
    same(ran, [PARIS])


@flow("budget")
def budget() -> str:
    def ask(most: int) -> None:
        answer = None
        for chunk in chat(max_tokens=most).bind_tools(TOOLS).stream(ASK):
            answer = chunk if answer is None else answer + chunk
        for call in answer.tool_calls:
            run(call)

    return never_wrong(ask)


@flow("responses budget")
def responses_budget() -> str:
    def ask(most: int) -> None:
        answer = None
        for chunk in chat(max_tokens=most, use_responses_api=True).bind_tools(TOOLS).stream(ASK):
            answer = chunk if answer is None else answer + chunk
        for call in answer.tool_calls:
            run(call)

    return never_wrong(ask)


main()
