# requires: llama-index-core llama-index-llms-openai-like
"""LlamaIndex: its model for compatible servers, and its agents."""

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
from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

TOOLS = [FunctionTool.from_defaults(one) for one in FUNCTIONS.values()]
BY_NAME = {one.metadata.name: one for one in TOOLS}


class Place(BaseModel):
    """The place that was spoken of."""

    city: str


def chat(**given: Any) -> OpenAILike:
    return OpenAILike(
        **{
            "model": MODEL, "api_base": BASE_URL, "api_key": API_KEY, "max_retries": 0, "is_chat_model": True,
            "is_function_calling_model": True, **given,
        }
    )  # fmt: skip


def agent(**given: Any) -> FunctionAgent:
    return FunctionAgent(**{"llm": chat(), "tools": TOOLS, "streaming": False, **given})


def run(asked: str, one: Any = None, **options: Any) -> Any:
    async def go() -> Any:
        return await (one or agent()).run(asked, max_iterations=8, **options)

    return asyncio.run(go())


def text(answer: Any) -> str:
    return str(answer.response.content)


@flow("one call")
def one_call() -> None:
    model = chat()
    answer = model.chat_with_tools(TOOLS, user_msg=ASK)
    (call,) = model.get_tool_calls_from_response(answer)
    same((call.tool_name, call.tool_kwargs["city"]), PARIS)


@flow("two calls in one turn")
def two_calls() -> None:
    says(text(run(ASK_TWO)), "Paris", "Oslo", "22")
    same(sorted(ran), sorted([PARIS, OSLO]))


@flow("tool loop")
def tool_loop() -> None:
    says(text(run(ASK)), "22", "Paris")
    same(ran, [PARIS])


@flow(
    "two-step loop",
    nano="nano calls the second function at once, with a value made up, instead of waiting for the result.",
)
def two_steps() -> None:
    says(text(run(ASK_STEPS)), "22")
    same(ran, [ADA, OSLO])


@flow("streamed call")
def streamed_call() -> None:
    model = chat()

    async def ask() -> Any:
        found = None
        async for one in await model.astream_chat_with_tools(TOOLS, user_msg=ASK):
            found = one
        return found

    (call,) = model.get_tool_calls_from_response(asyncio.run(ask()))
    same((call.tool_name, call.tool_kwargs["city"]), PARIS)


@flow("streamed loop")
def streamed_loop() -> None:
    async def go() -> str:
        handler = agent(streaming=True).run(ASK, max_iterations=8)
        said = ""
        async for event in handler.stream_events():
            said += event.delta if isinstance(event, AgentStream) else ""
        await handler
        return said

    says(asyncio.run(go()), "22", "Paris")
    same(ran, [PARIS])


@flow("structured output")
def structured() -> None:
    """By a function, as it does where a model is said to have functions."""
    found = chat().as_structured_llm(Place).chat([ChatMessage(ASK_STRUCTURED)]).raw
    same(found, Place(city="Paris"))


@flow("structured output, native")
def native() -> None:
    model = chat(is_function_calling_model=False, should_use_structured_outputs=True)
    found = model.as_structured_llm(Place).chat([ChatMessage(ASK_STRUCTURED)]).raw
    same(found, Place(city="Paris"))


@flow("structured output after tools")
def structured_after_tools() -> None:
    answer = run(ASK, agent(output_cls=Place))
    same(Place(**answer.structured_response), Place(city="Paris"))
    same(ran, [PARIS])


@flow("forced tool")
def forced() -> None:
    model = chat()
    answer = model.chat_with_tools(TOOLS, user_msg=ASK_LIGHT, tool_choice="set_light")
    for call in model.get_tool_calls_from_response(answer):
        BY_NAME[call.tool_name](**call.tool_kwargs)
    same(ran, [LIGHT])


@flow("no tools")
def no_tools() -> None:
    says(chat().chat([ChatMessage(ASK_PLAIN)]).message.content)


@flow("tool error fed back")
def error() -> None:
    failing.add("Paris")
    says(text(run(ASK)), "no weather station")
    same(ran, [PARIS])


@flow("follow-up question")
def follow_up() -> None:
    async def go() -> str:
        one = agent()
        context = Context(one)
        await one.run(ASK, ctx=context)
        return text(await one.run(ASK_AGAIN, ctx=context))

    says(asyncio.run(go()), "Oslo")
    same(ran, [PARIS, OSLO])


@flow("system message")
def system() -> None:
    says(text(run(ASK, agent(system_prompt=BRIEF))), "22", "Paris")
    same(ran, [PARIS])


@flow("budget")
def budget() -> str:
    def ask(most: int) -> None:
        run(ASK, agent(llm=chat(max_tokens=most), streaming=True))

    return never_wrong(ask)


main()
