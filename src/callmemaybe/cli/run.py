"""The command ``run``: check everything that can be wrong, load the model, do the batch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from callmemaybe.cli.exits import Exit
from callmemaybe.cli.files import (
    check_writable,
    is_standard,
    is_stream,
    named_output,
    same_file,
)
from callmemaybe.cli.inputs import read_functions, read_prompts
from callmemaybe.cli.limits import Ground, Order
from callmemaybe.cli.results import Kept, ResultFile, Settings, notes_of
from callmemaybe.cli.stopping import Stopped, stopped_by_signals
from callmemaybe.errors import InputError

if TYPE_CHECKING:
    from callmemaybe.caller import Caller, Step
    from callmemaybe.cli.batch import Batch, Row
    from callmemaybe.cli.show import Show
    from callmemaybe.cli.trace import Trace
    from callmemaybe.tools import ToolSpec


class NoCall(StrEnum):
    """Whether a prompt may end without a call."""

    FORBID = "forbid"
    ALLOW = "allow"


class Choose(StrEnum):
    """How the function's name is chosen."""

    EXACT = "exact"
    GREEDY = "greedy"


@dataclass(frozen=True, slots=True)
class Drawing:
    """How an answer is drawn or searched for; the defaults take the likeliest token."""

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
        draws = (self.top_p, self.top_k, self.min_p) != (1.0, 0, 0.0) or self.best_of > 1
        if draws and self.temperature == 0:
            names = {
                "--top-p": self.top_p < 1,
                "--top-k": self.top_k > 0,
                "--min-p": self.min_p > 0,
            }
            name = next((one for one, given in names.items() if given), "--best-of")
            raise InputError(
                "chooses among tokens drawn at random, but nothing is drawn at temperature 0",
                where=name,
                hint="give a --temperature above 0, too",
            )
        if self.beam > 1 and (self.temperature > 0 or self.best_of > 1):
            raise InputError(
                "a search draws nothing",
                where="--beam",
                hint="leave out --temperature and --best-of",
            )


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of ``callmemaybe run``, already of the right types."""

    functions: Path
    prompts: Path
    output: Path
    model: str
    max_tokens: int
    drawing: Drawing
    no_call: NoCall
    choose: Choose
    order: Order
    ground: Ground
    logprobs: bool
    batch: int
    prefix_cache: Path | None
    verbose: bool
    quiet: bool
    trace: Path | None
    resume: bool

    def settings(self, tools: tuple[ToolSpec, ...]) -> Settings:
        """Return what decides the results. A larger budget does not spoil finished ones."""
        usual = asdict(Drawing())
        drawn = {
            name: value
            for name, value in asdict(self.drawing).items()
            if name in {"temperature", "seed"} or value != usual[name]
        }
        limits: dict[str, object] = {}
        if self.order is not Order.SCHEMA:
            limits["order"] = self.order.value
        if self.ground is not Ground.OFF:
            limits["ground"] = self.ground.value
        return Settings.of(
            tools,
            self.model,
            no_call=self.no_call.value,
            choose=self.choose.value,
            **drawn,
            **limits,
        )


def run(options: RunOptions) -> Exit:
    """Do one batch and return the exit code.

    Raises InputError before any model is loaded, ModelError, NotWritten, and Stopped after what is
    done has been saved.
    """
    options = replace(options, output=named_output(options.output))
    with stopped_by_signals():
        tools, prompts = _inputs(options)
        file = ResultFile(options.output, options.settings(tools))
        kept = file.resume(prompts, tools) if options.resume else Kept({}, "")
        # From here on it pays to import what is heavy.
        from callmemaybe.cli.show import Show

        show = Show(
            len(prompts),
            verbose=options.verbose,
            quiet=options.quiet,
            aside=is_standard(options.output),
        )
        if kept.remark:
            show.say(kept.remark)
        batch = _batch(options, tools, prompts, file, kept)
        return _drive(batch, show, options)


def _inputs(options: RunOptions) -> tuple[tuple[ToolSpec, ...], list[str]]:
    options.drawing.check()
    if is_standard(options.functions) and is_standard(options.prompts):
        raise InputError(
            "is what --functions_definition reads, too", where="--input -", hint="name a file"
        )
    if options.trace and is_standard(options.trace):
        raise InputError("a trace is kept in a file", where="--trace -", hint="name one")
    tools = read_functions(options.functions)
    prompts = read_prompts(options.prompts)
    _check_written(options)
    return tools, prompts


def _check_written(options: RunOptions) -> None:
    """Raise InputError where what is to be written cannot be, or would replace what is read or written, too."""
    written = {"--output": options.output}
    check_writable(options.output, "the result file")
    if not is_stream(options.output):
        notes = notes_of(options.output)
        check_writable(notes, "what is noted beside the results")
        written[f"{notes} (beside --output)"] = notes
    if options.trace:
        check_writable(options.trace, "the trace")
        written["--trace"] = options.trace
    paths = {"--functions_definition": options.functions, "--input": options.prompts, **written}
    for (first, one), (second, other) in combinations(paths.items(), 2):
        if second not in written or is_standard(one) or is_standard(other):
            continue
        # Several may go to one device, and do to /dev/null.
        if (one.is_file() or not one.exists()) and same_file(one, other):
            raise InputError(f"is the file of {first}, too", where=second, hint="name another")


def _batch(
    options: RunOptions,
    tools: tuple[ToolSpec, ...],
    prompts: list[str],
    file: ResultFile,
    kept: Kept,
) -> Batch:
    from callmemaybe.cli.batch import Batch

    may_decline = options.no_call is NoCall.ALLOW
    return Batch(
        _caller(options, tools), tools, prompts, file, may_decline, kept.records, options.batch
    )


def _caller(options: RunOptions, tools: tuple[ToolSpec, ...]) -> Caller:
    from callmemaybe.caller import Caller, load_model
    from callmemaybe.decoding.disk_prefix_cache import DiskPrefixCache
    from callmemaybe.decoding.prefix_cache import PrefixCache
    from callmemaybe.models.remote import RemoteModel

    model = load_model(options.model)
    prefixes = None
    if options.prefix_cache is not None and not isinstance(model, RemoteModel):
        prefixes = PrefixCache(model, store=DiskPrefixCache(options.prefix_cache))
    return Caller(
        model,
        tools,
        prefixes=prefixes,
        choose="exact" if options.choose is Choose.EXACT else "greedy",
        no_call=options.no_call is NoCall.ALLOW,
        max_tokens=options.max_tokens,
        logprobs=options.logprobs,
        order=options.order.value,
        ground=options.ground.setting,
        **asdict(options.drawing),
        watch=options.verbose or options.trace is not None,
    )


def _drive(batch: Batch, show: Show, options: RunOptions) -> Exit:
    started = time.perf_counter()
    rows: list[Row] = []
    with ExitStack() as stack:
        trace = _open_trace(options, stack)
        try:
            with show.running():
                for row in batch.rows(_watcher(batch, show, trace, options)):
                    rows.append(row)
                    show.row(row)
                    if trace:
                        trace.row(row)
        except Stopped:
            if batch.has_new:
                batch.save()
                show.say(_stopped(options.output))
            raise
        except BaseException:
            # Say, the disk of the trace is full: what was paid for is kept all the same.
            if batch.has_new:
                batch.save()
            raise
        batch.save()
    show.table(rows)
    show.end(rows, time.perf_counter() - started, _shown(options.output))
    return Exit.SOME_FAILED if any(row.record.failure for row in rows) else Exit.DONE


def _shown(output: Path) -> str:
    return "standard output" if is_standard(output) else str(output)


def _stopped(output: Path) -> str:
    onward = "." if is_stream(output) else ", --resume goes on."
    return f"Stopped; what was done is in {_shown(output)}{onward}"


def _open_trace(options: RunOptions, stack: ExitStack) -> Trace | None:
    if options.trace is None:
        return None
    from callmemaybe.cli.trace import Trace

    trace = Trace(options.trace)
    stack.callback(trace.close)
    return trace


def _watcher(
    batch: Batch, show: Show, trace: Trace | None, options: RunOptions
) -> Callable[[int, Step], None] | None:
    """Return what watches the steps, or None: looking costs time."""
    if not options.verbose and trace is None:
        return None

    def watch(index: int, step: Step) -> None:
        if options.verbose and not options.quiet:
            show.step(index, step, batch.prompts[index])
        if trace:
            trace.step(index, step)

    return watch
