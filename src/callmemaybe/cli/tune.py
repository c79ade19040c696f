"""The command ``tune``: train the embedded model further on functions of one's own."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callmemaybe.cli.options import (
    AllowPrivateOption,
    BaseUrlOption,
    OnlyOption,
    QuietOption,
    SkipOption,
    ToolsOption,
)
from callmemaybe.cli.process import ExitCode, StopRequested, printable, stopped_by_signals
from callmemaybe.cli.tools import ToolChoice
from callmemaybe.errors import InputError, ModelError
from callmemaybe.sources.texts import read_text, source_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from callmemaybe.tools import ToolSpec
    from callmemaybe.tuning import Example, TuneProgress, TuneResult

Examples = Annotated[
    list[Path],
    typer.Option(
        "--examples", "-e",
        help="JSON lines of requests with the calls they mean; repeat for several files.",
    ),
]  # fmt: skip
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder of the tuned model.")]
Minutes = Annotated[
    float, typer.Option("--minutes", help="Minutes of training; loading and measuring come on top.")
]
Steps = Annotated[
    int | None,
    typer.Option(
        min=1, help="Steps of training, instead of minutes: the same give the same model."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn.")]
Threads = Annotated[int, typer.Option(min=0, help="Threads to compute with; 0: two at most.")]
Model = Annotated[
    str,
    typer.Option("--model", "-m", help="What to begin with: nano, or the folder of a tuned model."),
]
Review = Annotated[
    int,
    typer.Option(
        "--review", min=0, metavar="N",
        help="First show the N requests that the model is least sure of; what you say of them is kept in the first file of --examples.",
    ),
]  # fmt: skip
Prompts = Annotated[
    Path | None,
    typer.Option(help="Requests for --review, as `run` reads them; without it they are made up."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a tuning that was broken off.")]


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """The options of ``callmemaybe tune``, already of the right types."""

    tools: ToolChoice
    examples: list[Path]
    output: Path
    minutes: float
    steps: int | None
    seed: int
    threads: int
    model: str
    resume: bool
    quiet: bool
    review: int = 0
    prompts: Path | None = None


def tune(
    output: Output,
    tools: ToolsOption = [],  # noqa: B006 - typer copies it
    examples: Examples = [],  # noqa: B006 - typer copies it
    minutes: Minutes = 10.0,
    steps: Steps = None,
    seed: Seed = 0,
    threads: Threads = 0,
    model: Model = "nano",
    review: Review = 0,
    prompts: Prompts = None,
    resume: Resume = False,
    only: OnlyOption = [],  # noqa: B006 - typer copies it
    skip: SkipOption = [],  # noqa: B006 - typer copies it
    allow_private: AllowPrivateOption = False,
    base_url: BaseUrlOption = None,
    quiet: QuietOption = False,
) -> None:
    """Train the embedded model further on your functions, and say what it is worth before and after.

    The folder is a model like any other: callmemaybe call "..." --model ./my-model. Every fifth example of a function is held
    out, and measures. Ctrl-C keeps what was done; --resume goes on. Needs: pip install 'callmemaybe[tune]'
    """
    choice = ToolChoice(tools, only, skip, allow_private, base_url)
    options = TuneOptions(
        choice,
        examples,
        output,
        minutes,
        steps,
        seed,
        threads,
        model,
        resume,
        quiet,
        review,
        prompts,
    )
    raise typer.Exit(tune_model(options))


def tune_model(options: TuneOptions) -> ExitCode:
    """Tune, and print what was reached. Raises InputError, ModelError, WriteError and StopRequested."""
    from callmemaybe.tuning import TuneSettings, parse_examples
    from callmemaybe.tuning import tune as tuned

    if options.prompts is not None and not options.review:
        raise InputError("these requests are for --review", where="--prompts", hint="say how many are to be shown, such as --review 20")  # fmt: skip
    with options.tools.load() as tools:
        specs = tools.specs
    examples = [
        example
        for path in options.examples
        if path.exists() or not options.review
        for example in parse_examples(read_text(path), source_name(path), specs)
    ]
    if options.review:
        examples += _reviewed(options, specs)
    display = _TuneDisplay(quiet=options.quiet)
    display.begins(len(specs), len(examples))
    try:
        with stopped_by_signals(), display:
            result = tuned(
                specs, examples, output=options.output, model=options.model, resume=options.resume,
                settings=TuneSettings(options.minutes, options.steps, options.seed, options.threads),
                progress=display.show,
            )  # fmt: skip
    except ImportError as error:
        raise ModelError(
            f"tuning needs a package that is not installed ({error.name or error}); "
            "install it with `pip install 'callmemaybe[tune]'`"
        ) from error
    except StopRequested:
        display.message("stopped; what was done is kept, and --resume goes on")
        raise
    except InputError as error:
        if error.where in ("minutes", "steps", "examples"):
            raise InputError(error.message, where=f"--{error.where}", hint=error.hint) from None
        raise
    display.result(result)
    return ExitCode.DONE


def _reviewed(options: TuneOptions, specs: Sequence[ToolSpec]) -> list[Example]:
    """Ask the user about the requests that the model is least sure of."""
    from callmemaybe.caller import Caller
    from callmemaybe.cli.inputs import read_prompts
    from callmemaybe.cli.model import loaded_model
    from callmemaybe.cli.tune_review import least_sure, made_up_prompts, review

    if not options.examples:
        raise InputError("--review keeps what you say in a file of examples", where="--examples", hint="name one; it may be new")  # fmt: skip
    prompts = read_prompts(options.prompts) if options.prompts else made_up_prompts(specs, options.review, options.seed)  # fmt: skip
    caller = Caller(loaded_model(options.model), specs, no_call=True)
    return review(least_sure(prompts, caller.call, options.review), specs, options.examples[0])


class _TuneDisplay:
    """A bar while it trains, a line for each look at held-out requests, and a table at the end."""

    def __init__(self, *, quiet: bool) -> None:
        from callmemaybe.cli.display import console

        self._quiet = quiet
        self._err, self._out = console(sys.stderr), console(sys.stdout)
        self._bar: Any = None
        self._phase = ""

    def __enter__(self) -> None:
        """Nothing is shown before the first step."""

    def __exit__(self, *_: object) -> None:
        """Take the bar away."""
        self._ends()

    def message(self, text: str) -> None:
        """Print a line, unless quiet."""
        from rich.text import Text

        if not self._quiet:
            self._err.print(Text(printable(text)), soft_wrap=True)

    def begins(self, functions: int, examples: int) -> None:
        """Say what is tuned on."""
        self.message(
            f"{functions} function{'s'[: functions != 1]}, {examples} example{'s'[: examples != 1]}"
        )

    def show(self, progress: TuneProgress) -> None:
        """Show a step, a look or a measured request."""
        if progress.phase == "looks":
            self.message(
                f"step {progress.done:>4}, {progress.seconds:>4.0f} s: held-out requests right {progress.own or 0:.1%}, "
                f"for other functions {progress.general or 0:.1%}"
            )
            return
        if progress.phase != self._phase or self._bar is None:
            self._begins(progress)
        if self._bar is not None and self._bar.is_visible:
            loss = "" if progress.loss is None else f" loss {progress.loss:.2f}"
            self._bar.advance(f"{progress.phase}{loss}")

    def _begins(self, progress: TuneProgress) -> None:
        from callmemaybe.cli.display import ProgressBar

        if not progress.of:
            return
        self._ends()
        self._phase = progress.phase
        self._bar = ProgressBar(progress.of, self._err, quiet=self._quiet)
        self._running = self._bar.running()
        self._running.__enter__()
        for _ in range(progress.done - 1):
            self._bar.advance(progress.phase)
        if progress.phase == "measures":
            self.message(f"measuring before and after on {progress.of // 2} requests")

    def _ends(self) -> None:
        if self._bar is not None:
            self._running.__exit__(None, None, None)
            self._bar = None

    def result(self, result: TuneResult) -> None:
        """Print what the model's card says."""
        from rich.table import Table
        from rich.text import Text

        from callmemaybe.tuning.tuned_folder import figures_table

        self._ends()
        if self._quiet:
            return
        table = Table("", "requests", "before", "after", box=None, pad_edge=False)
        for name, cases, before, after in figures_table(result.report):
            table.add_row(printable(name), str(cases), before, after)
        self._out.print(table)
        if result.report["too_long"]:
            self.message(f"{result.report['too_long']} examples were too long to be trained on")
        line = (
            f"{result.folder}: {result.report['steps']} steps; use it with --model {result.folder}"
        )
        self._out.print(Text(printable(line), "bold"), soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(tune)
