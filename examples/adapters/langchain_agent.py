"""An agent of LangChain over the embedded model: it calls a tool, and answers with an object."""

from langchain.agents import create_agent
from pydantic import BaseModel

from callmemaybe.integrations.langchain import ChatCallMeMaybe


class Place(BaseModel):
    """The place that was spoken of."""

    city: str


def get_weather(city: str) -> str:
    """Tell the current weather of a city."""
    return f"22 degrees in {city}"


def main() -> None:
    """Let an agent answer, then ask for an object."""
    model = ChatCallMeMaybe(model="nano")
    agent = create_agent(model, [get_weather])
    state = agent.invoke({"messages": [("user", "What's the weather in Paris?")]})
    print(state["messages"][-1].text)
    print(model.with_structured_output(Place).invoke("I live in Oslo."))


if __name__ == "__main__":
    main()
