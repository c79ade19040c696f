"""The command ``formats``: how the families of models write a call, each with an example."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from callmemaybe.tools import ToolCall, ToolSpec


def formats(
    name: Annotated[
        str | None,
        typer.Argument(
            help="One format, or the path of a .py or .toml file with one: a whole turn."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list.")] = False,
) -> None:
    """List the wire formats, each with an example; or show one with its prompt."""
    from callmemaybe.generation.config import find_format
    from callmemaybe.wire import formats as registry

    if name is not None:
        found = find_format(name)
        messages = [{"role": "user", "content": "What is the weather in Paris?"}]
        typer.echo(spelled(found.prompt(messages, [TOOL])))
        typer.echo(spelled(found.render([CALL], tools=[TOOL])))
        return
    every = [registry.get(one) for one in registry.names()]
    if as_json:
        rows = [
            {"name": one.name, "summary": one.summary, "parallel": one.is_parallel,
             "ids": one.has_ids, "thinking": one.thinks,
             "example": spelled(one.render([CALL], tools=[TOOL]))}
            for one in every
        ]  # fmt: skip
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    for one in every:
        typer.echo(f"{one.name}: {one.summary}")
        example = spelled(one.render([CALL], tools=[TOOL]))
        typer.echo("".join(f"    {line}\n" for line in example.splitlines()))


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(formats)


TOOL = ToolSpec(
    "get_weather",
    "The weather in a city",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)
CALL = ToolCall("get_weather", '{"city": "Paris", "days": 2}', "call12345")


def spelled(parts: tuple[object, ...]) -> str:
    """Return a prompt or an answer as text, control tokens by their text."""
    return "".join(
        part if isinstance(part, str) else str(getattr(part, "text", "")) for part in parts
    )
