"""The command ``call``: one request in, its call out, or with ``--run`` what the call returned."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callmemaybe.cli.gateway import DEFAULT_LEDGER, Db, Secrets, Yes, opened_ledger, verdicts
from callmemaybe.cli.inputs import read_secrets
from callmemaybe.cli.model import loaded_model
from callmemaybe.cli.options import (
    AllowPrivateOption,
    BaseUrlOption,
    GroundMode,
    GroundOption,
    MaxTokensOption,
    ModelOption,
    NoCall,
    NoCallOption,
    NowOption,
    OnlyOption,
    SkipOption,
    ToolsOption,
)
from callmemaybe.cli.process import ExitCode, printable
from callmemaybe.cli.prompts import length_problem
from callmemaybe.cli.tools import ToolChoice, shown_to_model
from callmemaybe.errors import InputError
from callmemaybe.sources.texts import is_standard, read_text, source_name

if TYPE_CHECKING:
    from callmemaybe.caller import CallResult
    from callmemaybe.gateway import Approval, CallAnswer
    from callmemaybe.sources import LoadedTools
    from callmemaybe.tools import ToolCall

Request = Annotated[
    str | None,
    typer.Argument(metavar="[TEXT]", help='The request; without it, or "-": standard input.'),
]
RequestFile = Annotated[
    Path | None, typer.Option("--input", "-i", help="Read the request from this file.")
]
Run = Annotated[
    bool,
    typer.Option("--run", help="Run the call through the gateway, and print what it returns."),
]


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The options of ``callmemaybe call``, already of the right types."""

    text: str
    tools: ToolChoice
    model: str
    no_call: NoCall
    ground: GroundMode
    now: datetime | None
    max_tokens: int
    as_json: bool
    runs: bool
    yes: list[str]
    db: str
    secrets: Path | None


def call(
    text: Request = None,
    tools: ToolsOption = [],  # noqa: B006 - typer copies it
    run: Run = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    input_: RequestFile = None,
    model: ModelOption = "nano",
    only: OnlyOption = [],  # noqa: B006 - typer copies it
    skip: SkipOption = [],  # noqa: B006 - typer copies it
    allow_private: AllowPrivateOption = False,
    base_url: BaseUrlOption = None,
    no_call: NoCallOption = NoCall.ALLOW,
    ground: GroundOption = GroundMode.OFF,
    now: NowOption = None,
    max_tokens: MaxTokensOption = 512,
    yes: Yes = [],  # noqa: B006 - typer copies it
    secrets: Secrets = None,
    db: Db = DEFAULT_LEDGER,
) -> None:
    """Turn one request into a call: callmemaybe call "Add 2 and 3" --tools functions.json

    With --run the call is run and its result printed: you are asked first, unless --yes allows its effect
    class. Exit code 1 if no function fits, or if the call did not succeed.
    """  # noqa: D400 - it ends with a command
    options = CallOptions(
        _request(text, input_), ToolChoice(tools, only, skip, allow_private, base_url), model,
        no_call, ground, now, max_tokens, as_json, run, yes, db, secrets,
    )  # fmt: skip
    raise typer.Exit(call_once(options))


def _request(text: str | None, file: Path | None) -> str:
    """Return the text of the request; raise InputError if there is none, or two, or far too much."""
    request, where = _read_request(text, file)
    problem = length_problem(request) if request.strip() else "the request is empty"
    if problem:
        raise InputError(problem, where=where)
    return request


def _read_request(text: str | None, file: Path | None) -> tuple[str, str]:
    """Return the request, and where it comes from."""
    if file is not None:
        if text is not None:
            raise InputError("the request is given, too", where="--input", hint="give one of them")
        return read_text(file).rstrip("\r\n"), source_name(file)
    if text is not None and text != "-":
        return text, "TEXT"
    if text is None and sys.stdin.isatty():
        raise InputError(
            "there is no request", where="TEXT",
            hint='callmemaybe call "Add 2 and 3" --tools functions.json',
        )  # fmt: skip
    return read_text(Path("-")).rstrip("\r\n"), "standard input"


def call_once(options: CallOptions) -> ExitCode:
    """Ask the model, print the call (and run it), and return the exit code."""
    from callmemaybe.caller import Caller
    from callmemaybe.generation.config import DecodingConfig
    from callmemaybe.wire.grounding import GroundingConfig

    policy = verdicts(options.yes)
    values = read_secrets(options.secrets)
    with options.tools.load_runnable() if options.runs else options.tools.load() as tools:
        caller = Caller(
            loaded_model(options.model),
            shown_to_model(tools.specs),
            no_call=options.no_call is NoCall.ALLOW,
            decoding=DecodingConfig(max_tokens=options.max_tokens),
            grounding=GroundingConfig(options.ground.value, now=options.now),
        )
        result = caller.call(options.text)
        if result.call is None:
            _say_nothing_fits(result, options)
            return ExitCode.SOME_FAILED
        if not options.runs:
            _show(result, options)
            return ExitCode.DONE
        return _run(result.call, result, tools, policy, values, options)


def _say_nothing_fits(result: CallResult, options: CallOptions) -> None:
    if options.as_json:
        _print_json({"call": None, "remarks": list(result.remarks)})
    for remark in result.remarks or ["no function fits"]:
        typer.echo(printable(remark), err=True)


def _show(result: CallResult, options: CallOptions) -> None:
    from callmemaybe.cli.chat import call_line

    assert result.call is not None
    if options.as_json:
        _print_json(_call_json(result))
    else:
        typer.echo(call_line(result.call, result if sys.stdout.isatty() else None))
    for remark in result.remarks:
        typer.echo(printable(remark), err=True)


def _call_json(result: CallResult) -> dict[str, Any]:
    assert result.call is not None
    return {
        "name": result.call.name,
        "arguments": result.call.parsed,
        "name_probability": result.name_probability,
        "confidence": result.confidence,
        "remarks": list(result.remarks),
    }


def _print_json(value: Any) -> None:
    from callmemaybe.jsonio import dumps

    typer.echo(dumps(value))


def _run(
    call: ToolCall, result: CallResult, tools: LoadedTools, policy: Any, secrets: Any,
    options: CallOptions,
) -> ExitCode:  # fmt: skip
    """Run the call as a turn of a new run; ask first where a terminal is there."""
    import asyncio

    from callmemaybe.cli.chat import call_line, render
    from callmemaybe.gateway import Gateway

    # Standard output is for what the call returns.
    typer.echo(call_line(call, result), err=True)
    asks = sys.stdin.isatty() and not is_standard(Path(options.text))

    async def go(ledger: Any) -> tuple[str, CallAnswer]:
        gateway = Gateway(
            tools, store=ledger, verdicts=policy, secrets=secrets,
            approver=_ask if asks else None,
        )  # fmt: skip
        async with gateway:
            await gateway.recover()
            begun = gateway.begin(user=[options.text])
            return begun.id, (await gateway.run([call], run=begun))[0]

    with opened_ledger(options.db, create=True) as ledger:
        name, answer = asyncio.run(go(ledger))
    if options.as_json:
        content = json.loads(answer.content)
        _print_json({"call": _call_json(result), "state": answer.state.value, **content})
    else:
        typer.echo(render(answer), err=not answer.ok)
    if answer.approval:
        from callmemaybe.cli.gateway import say_what_waits

        say_what_waits([answer], name, options.tools, options.db)
    return ExitCode.DONE if answer.ok else ExitCode.SOME_FAILED


async def _ask(approval: Approval, _call: ToolCall) -> str | None:
    """Ask the person at the terminal."""
    typer.echo(f"  approval needed: {printable(approval.reason)}", err=True)
    with contextlib.suppress(EOFError):
        typer.echo("  run it? [y]es [n]o: ", nl=False, err=True)
        reply = input().strip().lower()
        return "approved" if reply in {"y", "yes"} else "denied"
    return None


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(call)
