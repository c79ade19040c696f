# requires: langgraph langgraph-prebuilt langchain-openai
"""LangGraph: its prebuilt agent, and a graph made by hand."""

from __future__ import annotations

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
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition
from pydantic import BaseModel

#: Errors of functions go to the model as text.
TOOLS = ToolNode([*FUNCTIONS.values()], handle_tool_errors=True)


class Place(BaseModel):
    """The place that was spoken of."""

    city: str


def chat(**given: Any) -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, base_url=BASE_URL, api_key=API_KEY, max_retries=0, **given)


def agent(**given: Any) -> Any:
    return create_react_agent(**{"model": chat(), "tools": TOOLS, **given})


def run(asked: str, graph: Any = None, **config: Any) -> list[Any]:
    graph = graph or agent()
    given = {"recursion_limit": 12, "configurable": config}
    return graph.invoke({"messages": [("user", asked)]}, given)["messages"]


def stream(asked: str, graph: Any) -> str:
    said = ""
    given = {"recursion_limit": 12}
    for message, _ in graph.stream({"messages": [("user", asked)]}, given, stream_mode="messages"):
        said += message.text if message.type == "AIMessageChunk" else ""
    return said


@flow("two calls in one turn")
def two_calls() -> None:
    messages = run(ASK_TWO)
    says(messages[-1].text, "Paris", "Oslo", "22")
    same(len(messages[1].tool_calls), 2)
    same(sorted(ran), sorted([PARIS, OSLO]))


@flow("tool loop")
def tool_loop() -> None:
    says(run(ASK)[-1].text, "22", "Paris")
    same(ran, [PARIS])


@flow("two-step loop")
def two_steps() -> None:
    says(run(ASK_STEPS)[-1].text, "22")
    same(ran, [ADA, OSLO])


@flow("streamed loop")
def streamed_loop() -> None:
    says(stream(ASK, agent()), "22", "Paris")
    same(ran, [PARIS])


@flow("structured output")
def structured() -> None:
    graph = agent(tools=[], response_format=Place)
    found = graph.invoke({"messages": [("user", ASK_STRUCTURED)]})
    same(found["structured_response"], Place(city="Paris"))


@flow("structured output after tools")
def structured_after_tools() -> None:
    found = agent(response_format=Place).invoke({"messages": [("user", ASK)]})
    same(found["structured_response"], Place(city="Paris"))
    same(ran, [PARIS])


@flow("forced tool")
def forced() -> None:
    """A graph by hand: the first turn has to call, the next may answer."""

    def model(state: MessagesState) -> dict[str, Any]:
        is_first = len(state["messages"]) == 1
        bound = chat().bind_tools(
            [*FUNCTIONS.values()], tool_choice="set_light" if is_first else "auto"
        )
        return {"messages": [bound.invoke(state["messages"])]}

    graph = StateGraph(MessagesState).add_node("model", model).add_node("tools", TOOLS)
    graph.add_edge(START, "model").add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    says(run(ASK_LIGHT, graph.compile())[-1].text, "40")
    same(ran, [LIGHT])


@flow("no tools")
def no_tools() -> None:
    says(run(ASK_PLAIN, agent(tools=[]))[-1].text)


@flow("tool error fed back")
def error() -> None:
    failing.add("Paris")
    says(run(ASK)[-1].text, "no weather station")
    same(ran, [PARIS])


@flow("follow-up question")
def follow_up() -> None:
    """The conversation is kept by a checkpointer."""
    graph = agent(checkpointer=InMemorySaver())
    run(ASK, graph, thread_id="one")
    says(run(ASK_AGAIN, graph, thread_id="one")[-1].text, "Oslo")
    same(ran, [PARIS, OSLO])


@flow("system message")
def system() -> None:
    says(run(ASK, agent(prompt=BRIEF))[-1].text, "22", "Paris")
    same(ran, [PARIS])


@flow("agent as tool")
def agent_as_tool() -> None:
    def ask_weather(question: str) -> str:
        """Tell the weather of a city."""
        return str(run(question)[-1].text)

    says(run(ASK, agent(tools=[ask_weather]))[-1].text, "22")
    same(ran, [PARIS])


@flow("responses loop")
def responses() -> None:
    says(run(ASK, agent(model=chat(use_responses_api=True)))[-1].text, "22", "Paris")
    same(ran, [PARIS])


@flow("budget")
def budget() -> str:
    def ask(most: int) -> None:
        stream(ASK, agent(model=chat(max_tokens=most, streaming=True)))

    return never_wrong(ask)


main()
