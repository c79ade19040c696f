"""``tune --review``: a person looks at the requests that the model is least sure of, and what they say becomes examples."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import typer

from callmemaybe.cli.chat import prefilled
from callmemaybe.cli.files import append_json
from callmemaybe.cli.process import printable
from callmemaybe.errors import InputError
from callmemaybe.tuning import Example, ExampleCall
from callmemaybe.tuning.examples import check_examples

if TYPE_CHECKING:
    from callmemaybe.generation.result import CallResult
    from callmemaybe.tools import ToolSpec

#: Made-up requests that are asked where no prompts are given, for each one that is shown.
_MADE_UP = 4
_HELP = "  [y]es, right  [n]o function fits  [e]dit the call  [s]kip  [q]uit: "


@dataclass(frozen=True, slots=True)
class ReviewedRequest:
    """A request with the call that the model made of it (None: none), and how sure it is of it."""

    prompt: str
    call: ExampleCall | None
    confidence: float


def least_sure(
    prompts: Iterable[str], answer: Callable[[str], CallResult], count: int
) -> list[ReviewedRequest]:
    """Return the requests of whose answers a model is least sure, the least sure first."""
    found = []
    for prompt in dict.fromkeys(prompts):
        result = answer(prompt)
        call = None if result.call is None else ExampleCall(result.call.name, result.call.parsed)
        sure = result.confidence if result.confidence is not None else result.name_probability
        found.append(ReviewedRequest(prompt, call, 0.0 if sure is None else sure))
    return sorted(found, key=lambda one: one.confidence)[:count]


def made_up_prompts(tools: Sequence[ToolSpec], count: int, seed: int) -> list[str]:
    """Return made-up requests, of all functions alike."""
    from callmemaybe.tuning.requests import RequestWriter

    writer, rng = RequestWriter(tools), Random(f"{seed} review")  # noqa: S311
    made = (writer.request(tools[n % len(tools)], rng) for n in range(_MADE_UP * count))
    return [one.prompt for one in made if one is not None]


def review(
    asked: Sequence[ReviewedRequest], tools: Sequence[ToolSpec], keep: Path
) -> list[Example]:
    """Show each request with its call, and append what the user says of it to ``keep``; return that.

    The end of the input and "q" end the review. Raises WriteError.
    """
    kept: list[Example] = []
    for number, one in enumerate(asked, start=1):
        shown = "no function" if one.call is None else written(one.call)
        typer.echo(f"{number} of {len(asked)}  {printable(one.prompt)}")
        typer.echo(f"  {printable(shown)}  ({one.confidence:.0%} sure)")
        try:
            example = _asked(one, tools)
        except EOFError:
            break
        if example is not None:
            append_json(keep, example.as_json())
            kept.append(example)
    return kept


def written(call: ExampleCall) -> str:
    """Write a call as it is shown and edited: the name, and the arguments as JSON."""
    return f"{call.name} {json.dumps(dict(call.arguments), ensure_ascii=False)}"


def read_call(text: str) -> ExampleCall:
    """Read what :func:`written` writes; raise InputError."""
    name, _, rest = text.strip().partition(" ")
    try:
        arguments = json.loads(rest or "{}")
    except ValueError as error:
        raise InputError(f"the arguments are not valid JSON: {error}", where=name) from None
    if not isinstance(arguments, dict):
        raise InputError("the arguments must be an object", where=name)
    return ExampleCall(name, arguments)


def _asked(one: ReviewedRequest, tools: Sequence[ToolSpec]) -> Example | None:
    """Ask until there is an answer; None skips. Raises EOFError to end the review."""
    while True:
        reply = input(_HELP).strip().lower()[:1]
        if reply == "q":
            raise EOFError
        if reply in ("s", ""):
            return None
        if reply == "n":
            return Example(one.prompt)
        if reply == "y":
            return Example(one.prompt, () if one.call is None else (one.call,))
        if reply == "e":
            with prefilled(written(one.call) if one.call else f"{tools[0].name} {{}}"):
                text = input("  call: ")
            try:
                example = Example(one.prompt, (read_call(text),))
                check_examples([example], tools)
            except InputError as error:
                typer.echo(f"  {printable(str(error))}")
                continue
            return example
