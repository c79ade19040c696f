"""An agent of pydantic-ai over the embedded model: it calls a tool, and answers with an object."""

from pydantic import BaseModel
from pydantic_ai import Agent

from callmemaybe.integrations.pydantic_ai import CallMeMaybeModel


class Place(BaseModel):
    """The place that was spoken of."""

    city: str


def get_weather(city: str) -> str:
    """Tell the current weather of a city."""
    return f"22 degrees in {city}"


def main() -> None:
    """Let an agent answer, then ask for an object."""
    model = CallMeMaybeModel("nano")
    print(Agent(model, tools=[get_weather]).run_sync("What's the weather in Paris?").output)
    print(Agent(model, output_type=Place).run_sync("I live in Oslo.").output)


if __name__ == "__main__":
    main()
