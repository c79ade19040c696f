"""Objects of pydantic classes from the embedded model, through instructor."""

from collections.abc import Iterable

from instructor import Mode
from pydantic import BaseModel

from callmemaybe.integrations.instructor import from_callmemaybe


class Weather(BaseModel):
    """Ask for the weather of a city."""

    city: str


def main() -> None:
    """Ask for one object, and for as many as the request wants."""
    request = {"role": "user", "content": "What's the weather in Paris?"}
    print(from_callmemaybe("nano").create(response_model=Weather, messages=[request]))
    request = {
        "role": "user",
        "content": "What's the weather in Paris and what's the weather in Oslo?",
    }
    client = from_callmemaybe("nano", mode=Mode.PARALLEL_TOOLS)
    print(*client.create(response_model=Iterable[Weather], messages=[request]))


if __name__ == "__main__":
    main()
