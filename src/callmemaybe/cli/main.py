"""The program: its options, and every way it can end as one exit code and one line."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from callmemaybe import __version__
from callmemaybe.cli import check, formats, gateway, models, options, serve
from callmemaybe.cli.eval import register as register_eval
from callmemaybe.cli.exits import Exit
from callmemaybe.cli.files import NotWritten
from callmemaybe.cli.limits import Ground, GroundOption, Order, OrderOption
from callmemaybe.cli.run import Choose, Drawing, NoCall, RunOptions
from callmemaybe.cli.run import run as run_batch
from callmemaybe.cli.stopping import Stopped
from callmemaybe.cli.streams import NAMES, drop, make_safe, which_refused
from callmemaybe.cli.toolfiles import LedgerFailed
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
    functions_definition: options.Functions = Path("data/input/functions_definition.json"),
    input_: options.Prompts = Path("data/input/function_calling_tests.json"),
    output: options.Output = Path("data/output/function_calling_results.json"),
    model: options.ModelName = "nano",
    max_tokens: options.MaxTokens = 512,
    temperature: options.Temperature = 0.0,
    top_p: options.TopP = 1.0,
    top_k: options.TopK = 0,
    min_p: options.MinP = 0.0,
    seed: options.Seed = None,
    best_of: options.BestOf = 1,
    beam: options.Beam = 1,
    logprobs: options.Logprobs = False,
    batch: options.AtOnce = 1,
    no_call: options.MayDecline = NoCall.FORBID,
    choose: options.ChooseBy = Choose.EXACT,
    order: OrderOption = Order.SCHEMA,
    ground: GroundOption = Ground.OFF,
    trace: options.TraceFile = None,
    resume: options.Resume = False,
    prefix_cache: options.PrefixCache = None,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
) -> None:
    """Turn a file of prompts into a file of calls, one for each, in order."""
    chosen = RunOptions(
        functions_definition, input_, output, model, max_tokens,
        Drawing(temperature, top_p, top_k, min_p, seed, best_of, beam), no_call, choose, order, ground,
        logprobs, batch, prefix_cache, verbose, quiet, trace, resume,
    )  # fmt: skip
    raise typer.Exit(run_batch(chosen))


gateway.register(app)
models.register(app)
formats.register(app)
check.register(app)
serve.register(app)
register_eval(app)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program with ``arguments`` (by default those of the process) and exit."""
    make_safe()
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = _refused(error)
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
    except LedgerFailed as error:
        return _fail(str(error), Exit.NO_LEDGER)
    except CallMeMaybeError as error:
        return _fail(str(error), Exit.OUR_FAULT)
    except Exception as error:
        if isinstance(error, OSError) and which_refused(error):
            return _refused(error)
        with contextlib.suppress(OSError):
            traceback.print_exc()
        return _fail("this is a bug in callmemaybe; please report the lines above", Exit.OUR_FAULT)
    return int(code or 0)


def _refused(error: OSError) -> int:
    """Say which standard stream cannot be written, and write nothing more there."""
    stream = which_refused(error) or "stdout"
    drop(getattr(sys, stream))
    return _fail(f"{NAMES[stream]}: cannot be written: {error.strerror or error}", Exit.NOT_WRITTEN)


def _fail(message: str, code: int) -> int:
    """Print one line to standard error, whatever the message holds, and return ``code``."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    line = f"callmemaybe: {text}\n"
    encoding = sys.stderr.encoding or "utf-8"
    with contextlib.suppress(OSError):  # the code says it, too
        sys.stderr.write(line.encode(encoding, "backslashreplace").decode(encoding))
    return code
