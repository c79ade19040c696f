"""The program ``llm`` from Python: the embedded model calls a function, ``llm`` runs it."""

import llm


def get_weather(city: str) -> str:
    """Tell the current weather of a city."""
    return f"22 degrees in {city}"


def main() -> None:
    """Ask once; llm sends the result back until there is an answer."""
    model = llm.get_model("callmemaybe/nano")
    print(model.chain("What's the weather in Paris?", tools=[get_weather]).text())


if __name__ == "__main__":
    main()
