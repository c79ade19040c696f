"""The command ``run``: check all inputs, load the model, run the batch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from callmemaybe.cli.batch import BatchJob, BatchRow, PromptRunner, RowMaker, lost_row
from callmemaybe.cli.files import check_writable, is_stream, named_output, same_file
from callmemaybe.cli.inputs import read_prompts
from callmemaybe.cli.layouts import TEXTS, ResultLayout
from callmemaybe.cli.lines import LineFile, ResumedLines
from callmemaybe.cli.lock import lock_path, locked
from callmemaybe.cli.model import loaded_model
from callmemaybe.cli.options import GroundMode, KeyOrder, NameChoiceMode, NoCall
from callmemaybe.cli.process import ExitCode, StopRequested, stopped_by_signals
from callmemaybe.cli.prompts import PromptSource, open_prompts
from callmemaybe.cli.results import ResultFile, ResultSettings, ResumedResults, notes_path
from callmemaybe.cli.tools import ToolChoice
from callmemaybe.errors import InputError
from callmemaybe.sources.texts import is_standard

if TYPE_CHECKING:
    from callmemaybe.caller import Caller, Step
    from callmemaybe.cli.display import RunDisplay
    from callmemaybe.cli.trace import TraceWriter
    from callmemaybe.tools import ToolSpec


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How an answer is sampled or searched for; by default the likeliest token is taken."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    best_of: int = 1
    beam: int = 1

    def check(self) -> None:
        """Raise InputError for options that contradict each other."""
        if not math.isfinite(self.temperature):
            raise InputError("must be a finite number", where="--temperature", hint="0 is greedy")
        is_sampling = (self.top_p, self.top_k, self.min_p) != (1.0, 0, 0.0) or self.best_of > 1
        if is_sampling and self.temperature == 0:
            names = {
                "--top-p": self.top_p < 1,
                "--top-k": self.top_k > 0,
                "--min-p": self.min_p > 0,
            }
            name = next((one for one, given in names.items() if given), "--best-of")
            raise InputError(
                "has no effect at temperature 0, where nothing is drawn at random",
                where=name,
                hint="give a --temperature above 0",
            )
        if self.beam > 1 and (self.temperature > 0 or self.best_of > 1):
            raise InputError(
                "a beam search draws nothing at random",
                where="--beam",
                hint="leave out --temperature and --best-of",
            )


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of ``callmemaybe run``, already of the right types."""

    tools: ToolChoice
    prompts: Path
    output: Path
    model: str
    max_tokens: int
    drawing: SamplingOptions
    no_call: NoCall
    choose: NameChoiceMode
    order: KeyOrder
    ground: GroundMode
    now: datetime | None
    logprobs: bool
    batch: int
    prefix_cache: Path | None
    verbose: bool
    quiet: bool
    trace: Path | None
    resume: bool
    workers: int | None = None
    ray: str | None = None
    prompt_key: str = "prompt"
    layout: ResultLayout | None = None
    only_failed: bool = False
    min_confidence: float = 0.0

    @property
    def written_as(self) -> ResultLayout:
        """The form of the results: the one that is named, else what the ending of the output means."""
        return self.layout or ResultLayout.of(self.output)

    def check(self) -> None:
        """Raise InputError for options that contradict each other."""
        self.drawing.check()
        if "-" in self.tools.sources and is_standard(self.prompts):
            raise InputError(
                "--tools (--functions_definition) reads standard input, too",
                where="--input -",
                hint="name a file",
            )
        if self.trace and is_standard(self.trace):
            raise InputError("a trace is written to a file", where="--trace -", hint="name one")
        has_processes = self.ray is not None or (self.workers or 1) > 1
        if has_processes and (self.trace or self.verbose):
            raise InputError(
                "steps are shown by a run of one process only",
                where="--trace" if self.trace else "--verbose",
                hint="leave out --workers and --ray",
            )

    def source(self) -> PromptSource:
        """Return the prompts, read as they are needed."""
        return open_prompts(self.prompts, self.prompt_key, self._read)

    def prompt_list(self) -> list[str]:
        """Return all prompts."""
        return self._read(self.prompts)

    def _read(self, path: Path) -> list[str]:
        return read_prompts(path, self.prompt_key)

    def settings(self, tools: tuple[ToolSpec, ...]) -> ResultSettings:
        """Return what determines the results; a larger token budget does not invalidate finished ones."""
        defaults = asdict(SamplingOptions())
        sampling = {
            name: value
            for name, value in asdict(self.drawing).items()
            if name in {"temperature", "seed"} or value != defaults[name]
        }
        limits: dict[str, object] = {}
        if self.order is not KeyOrder.SCHEMA:
            limits["order"] = self.order.value
        if self.ground is not GroundMode.OFF:
            limits["ground"] = self.ground.value
        if self.min_confidence:
            limits["min_confidence"] = self.min_confidence
        if self.prompt_key != "prompt":
            limits["prompt_key"] = self.prompt_key
        return ResultSettings.of(
            tools,
            self.model,
            no_call=self.no_call.value,
            choose=self.choose.value,
            **sampling,
            **limits,
        )


def run(options: RunOptions) -> ExitCode:
    """Run one batch and return the exit code.

    Raises InputError (before any model is loaded), ModelError, WriteError, and StopRequested after
    finished results have been saved.
    """
    options = replace(options, output=named_output(options.output))
    with stopped_by_signals(), ExitStack() as stack:
        options.check()
        with options.tools.load(quiet=options.quiet) as loaded:
            tools = loaded.specs
        is_lines = options.written_as is ResultLayout.JSONL
        prompts = options.source() if is_lines else options.prompt_list()
        _check_written(options)
        if not is_stream(options.output):
            stack.enter_context(locked(options.output))
        if isinstance(prompts, list):
            return _run_list(options, tools, prompts)
        return _run_lines(options, tools, prompts)


def _run_list(options: RunOptions, tools: tuple[ToolSpec, ...], prompts: list[str]) -> ExitCode:
    """Write all results as one text."""
    layout = options.written_as
    text = None if layout is ResultLayout.JSON else TEXTS[layout]
    file = ResultFile(options.output, options.settings(tools), text)
    resumed = file.resume(prompts, tools) if options.resume else ResumedResults({}, "")
    # Heavy imports come after all checks.
    from callmemaybe.cli.display import RunDisplay

    display = RunDisplay(
        len(prompts),
        verbose=options.verbose,
        quiet=options.quiet,
        results_on_stdout=is_standard(options.output),
        only_failed=options.only_failed,
        has_table=layout is not ResultLayout.TABLE or not is_standard(options.output),
    )
    if resumed.message:
        display.message(resumed.message)
    batch = BatchJob(_runner(options, tools), prompts, file, resumed.records)
    return _drive(batch, display, options)


def _run_lines(options: RunOptions, tools: tuple[ToolSpec, ...], source: PromptSource) -> ExitCode:
    """Append JSON lines, with a memory that does not grow with their number."""
    file = LineFile(options.output, options.settings(tools), source)
    start = file.resume(tools) if options.resume else ResumedLines(message=file.begin())
    from callmemaybe.cli.lines_run import run_lines
    from callmemaybe.cli.progress import BatchProgress

    progress = BatchProgress(
        source.size,
        start.place.rows,
        quiet=options.quiet,
        verbose=options.verbose,
        results_on_stdout=is_standard(options.output),
    )
    progress.message(start.message)
    runner = _runner(options, tools)
    with ExitStack() as stack:
        trace = _open_trace(options, stack)
        if isinstance(runner, PromptRunner):
            runner.on_step = trace.step if trace else None
        run_lines(file, source, start, runner, progress, trace.row if trace else lambda _: None)
    progress.summary(_output_name(options.output))
    return ExitCode.SOME_FAILED if file.failed else ExitCode.DONE


def _check_written(options: RunOptions) -> None:
    """Raise InputError if a file to be written cannot be, or is also read or written as another."""
    written = {"--output": options.output}
    check_writable(options.output, "the result file")
    if not is_stream(options.output):
        notes = notes_path(options.output)
        check_writable(notes, "the notes on the results")
        written[f"{notes} (beside --output)"] = notes
        lock = lock_path(options.output)
        written[f"{lock} (beside --output)"] = lock
    if options.trace:
        check_writable(options.trace, "the trace")
        written["--trace"] = options.trace
    read = {f"--tools {one}": Path(one) for one in options.tools.sources}
    paths = {**read, "--input": options.prompts, **written}
    for (first, one), (second, other) in combinations(paths.items(), 2):
        if second not in written or is_standard(one) or is_standard(other):
            continue
        # One device, such as /dev/null, may be named several times.
        if (one.is_file() or not one.exists()) and same_file(one, other):
            raise InputError(f"is also the file of {first}", where=second, hint="name another")


@dataclass(frozen=True, slots=True)
class MakePromptRunner:
    """Makes what works on the prompts of a run, in any process: an object that can be pickled."""

    options: RunOptions
    tools: tuple[ToolSpec, ...]

    def __call__(self, most_threads: int | None = None) -> PromptRunner:
        """Load the model. Raises ModelError, and InputError for options that it cannot serve."""
        may_decline = self.options.no_call is NoCall.ALLOW
        caller = _caller(self.options, self.tools, most_threads)
        return PromptRunner(caller, self.tools, may_decline, self.options.batch)


def _runner(options: RunOptions, tools: tuple[ToolSpec, ...]) -> RowMaker:
    """Return what makes the results: here, in several processes, or on a cluster."""
    make = MakePromptRunner(options, tools)
    # A chunk has enough prompts to fill a batch several times.
    chunk = 8 * options.batch if options.batch > 1 else 4
    if options.ray is not None:
        from callmemaybe.integrations.ray import RayWorkers

        return RayWorkers(make, lost_row, address=options.ray, count=options.workers, chunk=chunk)
    if options.workers is not None and options.workers > 1:
        from callmemaybe.cli.processes import WorkerProcesses

        return WorkerProcesses(make, options.workers, chunk)
    return make()


def _caller(
    options: RunOptions, tools: tuple[ToolSpec, ...], most_threads: int | None = None
) -> Caller:
    from callmemaybe.caller import Caller
    from callmemaybe.decoding.disk_prefix_cache import DiskPrefixCache
    from callmemaybe.decoding.prefix_cache import PrefixCache
    from callmemaybe.generation.config import DecodingConfig
    from callmemaybe.models.remote import RemoteModel
    from callmemaybe.wire.grounding import GroundingConfig

    model = loaded_model(options.model, most_threads=most_threads)
    prefixes = None
    if options.prefix_cache is not None and not isinstance(model, RemoteModel):
        prefixes = PrefixCache(model, store=DiskPrefixCache(options.prefix_cache))
    return Caller(
        model,
        tools,
        no_call=options.no_call is NoCall.ALLOW,
        decoding=DecodingConfig(
            max_tokens=options.max_tokens,
            choose=options.choose.value,
            call_logprobs=options.logprobs,
            order=options.order.value,
            trace=options.verbose or options.trace is not None,
            min_confidence=options.min_confidence,
            **asdict(options.drawing),
        ),
        grounding=GroundingConfig(options.ground.value, now=options.now),
        prefix_cache=prefixes,
    )


def _drive(batch: BatchJob, display: RunDisplay, options: RunOptions) -> ExitCode:
    started = time.perf_counter()
    rows: list[BatchRow] = []
    with ExitStack() as stack:
        trace = _open_trace(options, stack)
        if isinstance(batch.runner, PromptRunner):
            batch.runner.on_step = _step_callback(batch, display, trace, options)
        try:
            with display.running():
                for row in batch.rows():
                    rows.append(row)
                    display.row(row)
                    if trace:
                        trace.row(row)
        except StopRequested:
            if batch.has_new:
                batch.save()
                display.message(_stopped_message(options.output))
            raise
        except BaseException:
            # For example, the disk of the trace is full: save the finished results all the same.
            if batch.has_new:
                batch.save()
            raise
        batch.save()
    display.table(rows)
    display.summary(rows, time.perf_counter() - started, _output_name(options.output))
    return ExitCode.SOME_FAILED if any(row.record.failure for row in rows) else ExitCode.DONE


def _output_name(output: Path) -> str:
    return "standard output" if is_standard(output) else str(output)


def _stopped_message(output: Path) -> str:
    resume = "." if is_stream(output) else "; --resume continues."
    return f"Stopped; finished results are in {_output_name(output)}{resume}"


def _open_trace(options: RunOptions, stack: ExitStack) -> TraceWriter | None:
    if options.trace is None:
        return None
    from callmemaybe.cli.trace import TraceWriter

    trace = TraceWriter(options.trace)
    stack.callback(trace.close)
    return trace


def _step_callback(
    batch: BatchJob, display: RunDisplay, trace: TraceWriter | None, options: RunOptions
) -> Callable[[int, Step], None] | None:
    """Return the callback for decoding steps; None if nobody needs them, since they cost time."""
    if not options.verbose and trace is None:
        return None

    def on_step(index: int, step: Step) -> None:
        if options.verbose and not options.quiet:
            display.step(index, step, batch.prompts[index])
        if trace:
            trace.step(index, step)

    return on_step
