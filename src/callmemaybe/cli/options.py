"""The options that commands share: their types, limits, defaults' values and help texts.

An option means the same in every command, in ``Caller`` and in the server, and its enumerations hold
the very values that Python takes; docs/reference/settings.md lists all three side by side.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from callmemaybe.cli.completion import model_names, tool_names
from callmemaybe.cli.layouts import ResultLayout


class NoCall(StrEnum):
    """Whether a prompt may end without a call."""

    FORBID = "forbid"
    ALLOW = "allow"


class NameChoiceMode(StrEnum):
    """How the function is chosen: by the probability of its whole name, or token by token."""

    EXACT = "exact"
    GREEDY = "greedy"


class KeyOrder(StrEnum):
    """In which order the keys of an object may come."""

    SCHEMA = "schema"
    ANY = "any"


class GroundMode(StrEnum):
    """Whether strings and numbers in arguments must occur in the prompt."""

    OFF = "off"
    PROMPT = "prompt"
    PROMPT_OR_FREE = "prompt-or-free"


class GroundScope(StrEnum):
    """Which messages arguments may be taken from."""

    REQUEST = "request"
    CONVERSATION = "conversation"


KeyOrderOption = Annotated[
    KeyOrder, typer.Option("--order", help="Keys in the order of the schema, or in any order.")
]
GroundOption = Annotated[
    GroundMode,
    typer.Option(
        "--ground",
        help="Take strings and numbers from the prompt only; or-free: unless none of it fits.",
    ),
]
GroundScopeOption = Annotated[
    GroundScope,
    typer.Option(
        "--ground-in",
        help="Where --ground looks: the user's last message, or all of them and tools' results.",
    ),
]
NowOption = Annotated[
    datetime | None,
    typer.Option(
        "--now",
        formats=[
            "%Y-%m-%dT%H:%M:%S%z",
            "%Y-%m-%dT%H:%M%z",
            "%Y-%m-%dT%H:%M:%S",
            "%Y-%m-%dT%H:%M",
            "%Y-%m-%d",
        ],
        metavar="DATETIME",
        help='What "tomorrow" counts from, for nano: 2026-11-23T10:00; without it, the clock.',
    ),
]
FunctionsOption = Annotated[
    Path | None,
    typer.Option(
        "--functions_definition",
        "--functions-definition",
        "-f",
        help="The same as --tools, under the name of the exercise; without either: "
        "data/input/functions_definition.json.",
    ),
]
ToolsOption = Annotated[
    list[str],
    typer.Option(
        "--tools",
        "-t",
        metavar="SOURCE",
        help="Functions: a JSON or YAML file, a .py file or a module, an OpenAPI document (file or "
        "https://...), an MCP server (mcp:COMMAND, mcp+https://..., mcp.json#NAME); may be repeated.",
    ),
]
OnlyOption = Annotated[
    list[str],
    typer.Option(
        "--only",
        metavar="NAME",
        autocompletion=tool_names,
        help="Of --tools take only these, by name or pattern (pets*); may be repeated.",
    ),
]
SkipOption = Annotated[
    list[str],
    typer.Option(
        "--skip",
        metavar="NAME",
        autocompletion=tool_names,
        help="Of --tools leave out these, by name or pattern; may be repeated.",
    ),
]
AllowPrivateOption = Annotated[
    bool,
    typer.Option(
        "--allow-private",
        help="OpenAPI documents and their requests may be of your own network, and http.",
    ),
]
BaseUrlOption = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help="Send the requests of OpenAPI documents here, in place of the address that they name.",
    ),
]
PromptsOption = Annotated[
    Path,
    typer.Option("--input", "-i", help='Prompts: a JSON list, or JSON lines; "-": standard input.'),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help='File for the calls: .jsonl is appended to, others are replaced atomically; "-": standard '
        "output, which is what --format alone means; without either: "
        "data/output/function_calling_results.json.",
    ),
]
LayoutOption = Annotated[
    ResultLayout | None,
    typer.Option(
        "--format", help="How the calls are written; default: as --output ends, else json."
    ),
]
OnlyFailedOption = Annotated[
    bool, typer.Option("--only-failed", help="Show only prompts without a call; all are written.")
]
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        autocompletion=model_names,
        help='"nano", a model folder, or "org/name" on the hub.',
    ),
]
MaxTokensOption = Annotated[
    int, typer.Option(min=1, help="The most tokens of one answer; every answer ends within it.")
]
TemperatureOption = Annotated[
    float, typer.Option(min=0.0, help="0: always the likeliest token; above 0: drawn at random.")
]
TopPOption = Annotated[
    float,
    typer.Option(
        min=0.0, max=1.0, help="Draw from the likeliest tokens whose probabilities add up to this."
    ),
]
TopKOption = Annotated[
    int, typer.Option(min=0, help="Draw from this many of the likeliest tokens; 0: from all.")
]
MinPOption = Annotated[
    float,
    typer.Option(
        min=0.0, max=1.0, help="Draw from tokens at least this share as likely as the likeliest."
    ),
]
SeedOption = Annotated[
    int | None, typer.Option(min=0, help="Seed of the draws: the same seed gives the same answers.")
]
BestOfOption = Annotated[
    int, typer.Option(min=1, help="Draw this many answers and take the most probable one.")
]
BeamOption = Annotated[
    int,
    typer.Option(min=1, help="Width of a beam search for the most probable answer; 1: no search."),
]
MinConfidenceOption = Annotated[
    float,
    typer.Option(
        "--min-confidence",
        min=0.0,
        max=1.0,
        help="Make no call that is right with a lower probability, where the model's files tell it (nano).",
    ),
]
LogprobsOption = Annotated[
    bool, typer.Option("--logprobs", help="Report log-probabilities of each call and argument.")
]
BatchOption = Annotated[
    int, typer.Option(min=1, help="Prompts decoded at a time; they share forward passes.")
]
NoCallOption = Annotated[
    NoCall, typer.Option(help="Whether a prompt that no function fits may end without a call.")
]
ChooseOption = Annotated[
    NameChoiceMode,
    typer.Option(
        help="Choose the function by the probability of its whole name, or token by token."
    ),
]
TraceOption = Annotated[
    Path | None, typer.Option(help="Write every decoding step to this file, as JSON lines.")
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Keep the finished results of an earlier run.")
]
BatchWorkersOption = Annotated[
    int | None,
    typer.Option(min=1, max=256, help="Processes that work on prompts; each loads the model."),
]
RayOption = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help='Work on a Ray cluster: "local" starts one here, "auto" finds one, or host:port.',
    ),
]
PromptKeyOption = Annotated[
    str, typer.Option(help="The key of an object of --input that holds its prompt.")
]
PrefixCacheOption = Annotated[
    Path | None,
    typer.Option(help="Folder that stores the computed prefix of the functions for later runs."),
]
VerboseOption = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Show every decoding step: its token, whether forced or chosen, and the alternatives.",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print failures only.")]
