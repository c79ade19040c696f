"""The options of the command ``run``: their types, limits, and what ``--help`` says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from callmemaybe.cli.run import Choose, NoCall

Functions = Annotated[
    Path,
    typer.Option(
        "--functions_definition",
        "--functions-definition",
        "-f",
        help="JSON list of functions: the flat form, OpenAI's tools, or both.",
    ),
]
Prompts = Annotated[
    Path,
    typer.Option("--input", "-i", help='Prompts: a JSON list, or JSON lines; "-": standard input.'),
]
Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        help='Where the calls go, replaced atomically; "-": standard output, and the table goes to standard error.',
    ),
]
ModelName = Annotated[
    str,
    typer.Option("--model", "-m", help='"nano", a model folder, or "org/name" on the hub.'),
]
MaxTokens = Annotated[
    int, typer.Option(min=1, help="Budget of one answer; every answer ends within it.")
]
Temperature = Annotated[float, typer.Option(min=0.0, help="0 always takes the likeliest token.")]
TopP = Annotated[
    float,
    typer.Option(min=0.0, max=1.0, help="Draw from the likeliest tokens of this probability."),
]
TopK = Annotated[
    int, typer.Option(min=0, help="Draw from so many of the likeliest tokens; 0: from all.")
]
MinP = Annotated[
    float,
    typer.Option(min=0.0, max=1.0, help="Draw from tokens at least so likely as the likeliest."),
]
Seed = Annotated[int | None, typer.Option(min=0, help="Makes a temperature above 0 repeatable.")]
BestOf = Annotated[
    int, typer.Option(min=1, help="Draw so many answers and keep the most probable one.")
]
Beam = Annotated[
    int, typer.Option(min=1, help="Search for the most probable answer, so many at a time.")
]
Logprobs = Annotated[
    bool, typer.Option("--logprobs", help="Tell how probable each call and argument is.")
]
AtOnce = Annotated[
    int, typer.Option(min=1, help="Prompts worked on at a time, sharing forward passes.")
]
MayDecline = Annotated[
    NoCall, typer.Option(help="Whether a prompt that no function fits may go without a call.")
]
ChooseBy = Annotated[
    Choose,
    typer.Option(help="Choose the function by the probability of its whole name, or by token."),
]
TraceFile = Annotated[
    Path | None, typer.Option(help="Write every step to this file, as JSON lines.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Keep the finished results of an earlier run.")
]
PrefixCache = Annotated[
    Path | None,
    typer.Option(help="Keep in this folder what the model made of the functions, for next time."),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show every step: forced or chosen, from what.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but failures.")]
