"""The program: its commands, and the exit code and message of every way it can end."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from callmemaybe.cli import (
    call,
    chat,
    check,
    defaults,
    gateway,
    listings,
    options,
    serve,
    trace,
    tune,
)
from callmemaybe.cli import eval as evaluation
from callmemaybe.cli.help import CommandWithExamples, GroupWithExamples
from callmemaybe.cli.process import (
    STREAM_NAMES,
    ExitCode,
    StopRequested,
    discard,
    failed_stream,
    prepare_streams,
    printable,
)
from callmemaybe.cli.run import RunOptions, SamplingOptions
from callmemaybe.cli.run import run as run_batch
from callmemaybe.cli.tools import ToolChoice
from callmemaybe.errors import (
    CallMeMaybeError,
    InputError,
    ModelError,
    ModelOutputError,
    StoreError,
    WriteError,
)

#: What the program says when it is called alone.
_BEGIN = """\
callmemaybe turns natural language into function calls.

One request, with functions from a JSON or Python file:

  callmemaybe call "What is 2 plus 3?" --tools functions.json

The same, and run the call:

  callmemaybe call "What is 2 plus 3?" --tools tools.py --run

Tools may also come from an OpenAPI document or an MCP server:

  callmemaybe call "Which files are here?" --tools "mcp:npx -y @modelcontextprotocol/server-filesystem ."

  callmemaybe chat     talk to a model that calls your tools
  callmemaybe run      turn a file of requests into a file of calls
  callmemaybe serve    serve a model in OpenAI's and Anthropic's interfaces

callmemaybe --help lists all commands, and callmemaybe COMMAND --help the options of one."""

#: The examples of a checkout, for a run that names neither.
DEFAULT_FUNCTIONS = Path("data/input/functions_definition.json")
DEFAULT_PROMPTS = Path("data/input/function_calling_tests.json")

DEFAULT_OUTPUT = Path("data/output/function_calling_results.json")

app = typer.Typer(
    name="callmemaybe",
    cls=GroupWithExamples,
    help="Turn natural language into reliable function calls.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"callmemaybe {version('callmemaybe')}")
        raise typer.Exit


def _with_examples(group: typer.Typer) -> None:
    """Let the help of each command end with its examples."""
    for command in group.registered_commands:
        command.cls = CommandWithExamples
    for inner in group.registered_groups:
        inner.cls = GroupWithExamples
        if inner.typer_instance is not None:
            _with_examples(inner.typer_instance)


@app.callback(invoke_without_command=True)
def _program(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Turn natural language into reliable function calls."""
    if context.invoked_subcommand is None:
        typer.echo(_BEGIN)
        return
    if not {"-h", "--help"} & {*sys.argv}:  # help is there whatever the file of defaults holds
        context.obj = defaults.read_defaults(context.command)
        context.default_map = context.obj.values


@app.command()
def run(
    context: typer.Context,
    functions_definition: options.FunctionsOption = None,
    tools: options.ToolsOption = [],  # noqa: B006 - typer copies it
    only: options.OnlyOption = [],  # noqa: B006 - typer copies it
    skip: options.SkipOption = [],  # noqa: B006 - typer copies it
    allow_private: options.AllowPrivateOption = False,
    base_url: options.BaseUrlOption = None,
    input_: options.PromptsOption = DEFAULT_PROMPTS,
    output: options.OutputOption = None,
    layout: options.LayoutOption = None,
    model: options.ModelOption = "nano",
    max_tokens: options.MaxTokensOption = 512,
    temperature: options.TemperatureOption = 0.0,
    top_p: options.TopPOption = 1.0,
    top_k: options.TopKOption = 0,
    min_p: options.MinPOption = 0.0,
    seed: options.SeedOption = None,
    best_of: options.BestOfOption = 1,
    beam: options.BeamOption = 1,
    logprobs: options.LogprobsOption = False,
    min_confidence: options.MinConfidenceOption = 0.0,
    batch: options.BatchOption = 1,
    no_call: options.NoCallOption = options.NoCall.FORBID,
    choose: options.ChooseOption = options.NameChoiceMode.EXACT,
    order: options.KeyOrderOption = options.KeyOrder.SCHEMA,
    ground: options.GroundOption = options.GroundMode.OFF,
    now: options.NowOption = None,
    trace: options.TraceOption = None,
    resume: options.ResumeOption = False,
    workers: options.BatchWorkersOption = None,
    ray: options.RayOption = None,
    prompt_key: options.PromptKeyOption = "prompt",
    prefix_cache: options.PrefixCacheOption = None,
    only_failed: options.OnlyFailedOption = False,
    verbose: options.VerboseOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Turn a file of prompts into a file of calls: one for each prompt, in order."""
    named = [str(functions_definition)] if functions_definition else []
    source = context.get_parameter_source("tools")
    if named and source is not None and source.name == "DEFAULT_MAP":
        tools = []  # what is typed goes before a default, under either name
    sources = [*named, *tools]
    _check_named(context, sources)
    sources = sources or [str(DEFAULT_FUNCTIONS)]
    written = output or (Path("-") if layout else DEFAULT_OUTPUT)
    chosen = RunOptions(
        ToolChoice(sources, only, skip, allow_private, base_url), input_, written, model, max_tokens,
        SamplingOptions(temperature, top_p, top_k, min_p, seed, best_of, beam), no_call, choose, order, ground, now,
        logprobs, batch, prefix_cache, verbose, quiet, trace, resume, workers, ray, prompt_key,
        layout, only_failed, min_confidence,
    )  # fmt: skip
    raise typer.Exit(run_batch(chosen))


def _check_named(context: typer.Context, sources: Sequence[str]) -> None:
    """Raise InputError where a run that does not name its files is not in a folder with the examples."""
    prompts = context.get_parameter_source("input_")
    missing = []
    if not sources and not DEFAULT_FUNCTIONS.exists():
        missing.append("functions with --tools")
    if prompts is not None and prompts.name == "DEFAULT" and not DEFAULT_PROMPTS.exists():
        missing.append("prompts with --input")
    if missing:
        raise InputError(
            f"this folder does not have the examples that a run takes by itself; "
            f"name your {' and your '.join(missing)}"
        )


for module in (call, gateway, chat, listings, check, serve, trace, evaluation, tune, defaults):
    module.register(app)
_with_examples(app)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program with ``arguments`` (by default those of the process) and exit."""
    prepare_streams()
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = _stream_failed(error)
    raise SystemExit(int(code))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = app(arguments, prog_name="callmemaybe", standalone_mode=False)
    except TyperException as error:
        # Of a mistake in a command's options, the command's own help.
        context = getattr(error, "ctx", None)
        program = context.command_path if context is not None else "callmemaybe"
        message = error.format_message().rstrip(".")
        known = context.find_object(defaults.OptionDefaults) if context is not None else None
        origin = known.origin_of(error) if known is not None else None
        if origin is not None:
            message += f" (set by {origin})"
        return _fail(f"{message}; see {program} --help", error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return _fail("stopped", ExitCode.INTERRUPTED)
    except StopRequested as stopped:
        return stopped.code
    except InputError as error:
        return _fail(str(error), ExitCode.BAD_INPUT)
    except ModelError as error:
        return _fail(str(error), ExitCode.NO_MODEL)
    except WriteError as error:
        return _fail(str(error), ExitCode.NOT_WRITTEN)
    except StoreError as error:
        return _fail(str(error), ExitCode.NO_LEDGER)
    except ModelOutputError as error:
        return _fail(str(error), ExitCode.SOME_FAILED)
    except CallMeMaybeError as error:
        return _fail(str(error), ExitCode.INTERNAL_ERROR)
    except Exception as error:
        if isinstance(error, OSError) and failed_stream(error):
            return _stream_failed(error)
        with contextlib.suppress(OSError):
            traceback.print_exc()
        return _fail(
            "this is a bug in callmemaybe; please report the lines above", ExitCode.INTERNAL_ERROR
        )
    return int(code or 0)


def _stream_failed(error: OSError) -> int:
    """Report a standard stream that cannot be written, and discard further output to it."""
    stream = failed_stream(error) or "stdout"
    discard(getattr(sys, stream))
    return _fail(
        f"{STREAM_NAMES[stream]}: cannot be written: {error.strerror or error}",
        ExitCode.NOT_WRITTEN,
    )


def _fail(message: str, code: int) -> int:
    """Print one line to standard error and return ``code``."""
    line = f"callmemaybe: {printable(message)}\n"
    encoding = sys.stderr.encoding or "utf-8"
    with contextlib.suppress(OSError):  # the exit code still reports it
        sys.stderr.write(line.encode(encoding, "backslashreplace").decode(encoding))
    return code
