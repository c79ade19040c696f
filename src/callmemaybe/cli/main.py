"""The program: its options, and every way it can end as one exit code and one line."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from callmemaybe import __version__
from callmemaybe.cli import formats, gateway, models, serve
from callmemaybe.cli.eval import register as register_eval
from callmemaybe.cli.exits import Exit
from callmemaybe.cli.files import NotWritten
from callmemaybe.cli.run import Choose, Drawing, NoCall, RunOptions
from callmemaybe.cli.run import run as run_batch
from callmemaybe.cli.stopping import Stopped
from callmemaybe.errors import (
    BudgetError,
    CallMeMaybeError,
    InputError,
    ModelError,
    VocabularyError,
)

app = typer.Typer(
    name="callmemaybe",
    help="Natural language in, function calls one can rely on out.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"callmemaybe {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _everywhere(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Natural language in, function calls one can rely on out."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def run(
    functions_definition: Annotated[
        Path,
        typer.Option(
            "--functions_definition",
            "--functions-definition",
            "-f",
            help="JSON list of functions: the flat form, OpenAI's tools, or both.",
        ),
    ] = Path("data/input/functions_definition.json"),
    input_: Annotated[
        Path,
        typer.Option("--input", "-i", help="Prompts: a JSON list, or JSON lines."),
    ] = Path("data/input/function_calling_tests.json"),
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the calls go; replaced atomically.")
    ] = Path("data/output/function_calling_results.json"),
    model: Annotated[
        str,
        typer.Option("--model", "-m", help='"nano", a model folder, or "org/name" on the hub.'),
    ] = "nano",
    max_tokens: Annotated[
        int, typer.Option(min=1, help="Budget of one answer; every answer ends within it.")
    ] = 512,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="0 always takes the likeliest token.")
    ] = 0.0,
    top_p: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Draw from the likeliest tokens of this probability."),
    ] = 1.0,
    top_k: Annotated[
        int, typer.Option(min=0, help="Draw from so many of the likeliest tokens; 0: from all.")
    ] = 0,
    min_p: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Draw from tokens at least so likely as the likeliest."
        ),
    ] = 0.0,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Makes a temperature above 0 repeatable.")
    ] = None,
    best_of: Annotated[
        int, typer.Option(min=1, help="Draw so many answers and keep the most probable one.")
    ] = 1,
    beam: Annotated[
        int, typer.Option(min=1, help="Search for the most probable answer, so many at a time.")
    ] = 1,
    logprobs: Annotated[
        bool, typer.Option("--logprobs", help="Tell how probable each call and argument is.")
    ] = False,
    batch: Annotated[
        int, typer.Option(min=1, help="Prompts worked on at a time, sharing forward passes.")
    ] = 1,
    no_call: Annotated[
        NoCall, typer.Option(help="Whether a prompt that no function fits may go without a call.")
    ] = NoCall.FORBID,
    choose: Annotated[
        Choose,
        typer.Option(help="Choose the function by the probability of its whole name, or by token."),
    ] = Choose.EXACT,
    trace: Annotated[
        Path | None, typer.Option(help="Write every step to this file, as JSON lines.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the finished results of an earlier run.")
    ] = False,
    prefix_cache: Annotated[
        Path | None,
        typer.Option(
            help="Keep in this folder what the model made of the functions, for next time."
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every step: forced or chosen, from what.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but failures.")
    ] = False,
) -> None:
    """Turn a file of prompts into a file of calls, one for each, in order."""
    options = RunOptions(
        functions_definition, input_, output, model, max_tokens,
        Drawing(temperature, top_p, top_k, min_p, seed, best_of, beam), no_call, choose, logprobs,
        batch, prefix_cache, verbose, quiet, trace, resume,
    )  # fmt: skip
    raise typer.Exit(run_batch(options))


gateway.register(app)
models.register(app)
formats.register(app)
serve.register(app)
register_eval(app)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program with ``arguments`` (by default those of the process) and exit."""
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader is gone; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(int(code))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = app(arguments, prog_name="callmemaybe", standalone_mode=False)
    except TyperException as error:
        return _fail(
            f"{error.format_message().rstrip('.')}; see callmemaybe --help", error.exit_code
        )
    except (typer.Abort, KeyboardInterrupt):
        return _fail("stopped", Exit.INTERRUPTED)
    except Stopped as stopped:
        return stopped.code
    except (InputError, BudgetError) as error:
        return _fail(str(error), Exit.BAD_INPUT)
    except (ModelError, VocabularyError) as error:
        return _fail(str(error), Exit.NO_MODEL)
    except NotWritten as error:
        return _fail(str(error), Exit.NOT_WRITTEN)
    except CallMeMaybeError as error:
        return _fail(str(error), Exit.OUR_FAULT)
    except Exception:
        traceback.print_exc()
        return _fail("this is a bug in callmemaybe; please report the lines above", Exit.OUR_FAULT)
    return int(code or 0)


def _fail(message: str, code: int) -> int:
    """Print one line to standard error, whatever the message holds, and return ``code``."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    line = f"callmemaybe: {text}\n"
    encoding = sys.stderr.encoding or "utf-8"
    sys.stderr.write(line.encode(encoding, "backslashreplace").decode(encoding))
    return code
