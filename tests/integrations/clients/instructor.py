# requires: instructor
"""instructor: objects of classes, by functions, by a JSON Schema, by JSON in text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Literal

import instructor
import openai
from flows import (
    API_KEY,
    ASK,
    ASK_LIGHT,
    ASK_STRUCTURED,
    ASK_TWO,
    BASE_URL,
    BRIEF,
    MODEL,
    flow,
    main,
    same,
)  # fmt: skip
from pydantic import BaseModel, Field, field_validator


class Place(BaseModel):
    """The place that was spoken of."""

    city: str


class Light(BaseModel):
    """Set the brightness of the light in a room."""

    room: Literal["hall", "kitchen"]
    percent: int = Field(ge=0, le=100)


class Weather(BaseModel):
    """Ask for the weather of a city."""

    city: str


def ask(
    shape: Any, text: str, mode: Any = instructor.Mode.TOOLS, system: str = "", **given: Any
) -> Any:
    raw = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0)
    client = instructor.from_openai(raw, mode=mode)
    messages: list[Any] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": text})
    return client.chat.completions.create(
        model=MODEL, response_model=shape, messages=messages, **{"max_retries": 0, **given}
    )


def holds(found: BaseModel, wanted: BaseModel) -> None:
    """Fail unless an object holds the same; its class is one that instructor derives."""
    same(found.model_dump(), wanted.model_dump())


@flow("structured output")
def structured() -> None:
    """By a function, which is its own way."""
    holds(ask(Place, ASK_STRUCTURED), Place(city="Paris"))


@flow("structured output, by a schema")
def by_schema() -> None:
    holds(ask(Place, ASK_STRUCTURED, instructor.Mode.JSON_SCHEMA), Place(city="Paris"))


@flow("structured output, strict")
def strict() -> None:
    holds(ask(Place, ASK_STRUCTURED, instructor.Mode.TOOLS_STRICT), Place(city="Paris"))


@flow(
    "structured output, prompted",
    nano="The request is for text, and only its instructions say that this is to be JSON: nano writes no text of its own.",
)
def prompted() -> None:
    holds(ask(Place, ASK_STRUCTURED, instructor.Mode.MD_JSON), Place(city="Paris"))


@flow("structured output, json_object")
def json_object() -> None:
    holds(ask(Place, ASK_STRUCTURED, instructor.Mode.JSON), Place(city="Paris"))


@flow("structured output, responses")
def responses() -> None:
    raw = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0)
    client = instructor.from_openai(raw, mode=instructor.Mode.RESPONSES_TOOLS)
    found = client.responses.create(
        model=MODEL, input=ASK_STRUCTURED, response_model=Place, max_retries=0
    )
    holds(found, Place(city="Paris"))


@flow("structured output, with limits")
def limits() -> None:
    holds(ask(Light, ASK_LIGHT), Light(room="kitchen", percent=40))


@flow("structured output, one of several")
def union() -> None:
    """A union of classes has to be a field."""

    class Wish(BaseModel):
        """What is to be done."""

        wish: Light | Weather

    found = ask(Wish, ASK_LIGHT).wish
    holds(found, Light(room="kitchen", percent=40))


@flow("two calls in one turn")
def several() -> None:
    found = ask(Iterable[Weather], ASK_TWO, instructor.Mode.PARALLEL_TOOLS)
    same(sorted(one.city for one in found), ["Oslo", "Paris"])


@flow("structured output, streamed")
def partial() -> None:
    *_, last = ask(instructor.Partial[Place], ASK_STRUCTURED, stream=True)
    same(last.city, "Paris")


@flow("several at once")
def at_once() -> None:
    async def go() -> list[Any]:
        raw = openai.AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0)
        client = instructor.from_openai(raw)
        return await asyncio.gather(*(
            client.chat.completions.create(
                model=MODEL, response_model=Place, max_retries=0,
                messages=[{"role": "user", "content": text}],
            )
            for text in (ASK_STRUCTURED, ASK)
        ))  # fmt: skip

    for found in asyncio.run(go()):
        holds(found, Place(city="Paris"))


@flow("system message")
def system() -> None:
    holds(ask(Place, ASK_STRUCTURED, system=BRIEF), Place(city="Paris"))


@flow("tool error fed back")
def error() -> None:
    """An object that a validator refuses is asked for again, with the reason."""
    seen = []

    class Checked(Place):
        """The place that was spoken of."""

        @field_validator("city")
        @classmethod
        def once(cls, value: str) -> str:
            seen.append(value)
            if len(seen) == 1:
                raise ValueError("say it again")
            return value

    same(ask(Checked, ASK_STRUCTURED, max_retries=2).city, "Paris")
    same(seen, ["Paris", "Paris"])


@flow("budget")
def budget() -> str:
    """An object is whole, or there is none."""
    first = None
    for most in range(1, 61):
        try:
            found = ask(Place, ASK_STRUCTURED, max_tokens=most)
        except Exception:  # an answer that was cut off
            continue
        holds(found, Place(city="Paris"))
        first = first or most
    if first is None:
        raise AssertionError("never whole")
    return f"whole from {first} tokens"


main()
