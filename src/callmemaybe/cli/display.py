"""The display of a run: a progress bar, decoding steps on request, a table at the end.

Progress and steps go to standard error, the table to standard output unless the results go there.
Colour and moving bars appear only on a terminal; NO_COLOR and TERM=dumb are respected. Text from files
and models is made printable first, so that it cannot control the terminal.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import IO, TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from callmemaybe.cli.batch import BatchRow
from callmemaybe.cli.process import printable

if TYPE_CHECKING:
    from callmemaybe.caller import CallResult, Step


class ProgressBar:
    """A progress bar for ``total`` items; hidden without a terminal, or if ``quiet``."""

    def __init__(self, total: int, console: Console, *, quiet: bool) -> None:
        self._total = total
        self._progress: Progress | None = None
        self._task = TaskID(0)
        # FORCE_COLOR makes rich take any file for a terminal, but a bar cannot move in a file.
        moves = console.is_terminal and console.file.isatty() and not console.is_dumb_terminal
        if moves and not console.no_color and not quiet:
            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )

    @property
    def is_visible(self) -> bool:
        """Whether the bar is shown."""
        return self._progress is not None

    def running(self) -> AbstractContextManager[object]:
        """Return the context in which the bar is shown."""
        if self._progress is None:
            return nullcontext()
        self._task = self._progress.add_task("", total=self._total)
        return self._progress

    def advance(self, description: str) -> None:
        """Count one more item as done, and show a description."""
        if self._progress is not None:
            self._progress.update(self._task, advance=1, description=description)


#: Seconds between two lines of progress where no bar can move.
_PAUSE = 10.0
#: A longer table loses its middle; the result file has all rows.
_MAX_ROWS = 120
_WIDTH_OF_FILES = 160
_KIND_STYLES = {"forced": "dim", "drafted": "cyan", "chosen": "bold green"}


def console(file: IO[str]) -> Console:
    """Return a console for ``file``; a wide one where there is no terminal with a width of its own."""
    terminal = Console(file=file, highlight=False, emoji=False, markup=False)
    if not terminal.is_terminal and "COLUMNS" not in os.environ:
        terminal.width = _WIDTH_OF_FILES
    return terminal


class RunDisplay:
    """The display of one run over ``total`` prompts."""

    def __init__(
        self,
        total: int,
        *,
        verbose: bool,
        quiet: bool,
        results_on_stdout: bool = False,
        only_failed: bool = False,
        has_table: bool = True,
    ) -> None:
        self._total = total
        self._only_failed = only_failed
        self._has_table = has_table
        self._done, self._told = 0, time.monotonic()
        self._verbose = verbose
        self._quiet = quiet
        self._err = console(sys.stderr)
        self._out = self._err if results_on_stdout else console(sys.stdout)
        self._step_prompt = -1
        self._bar = ProgressBar(total, self._err, quiet=quiet)

    def message(self, text: str) -> None:
        """Print a message, unless quiet."""
        if not self._quiet:
            self._err.print(Text(printable(text)))

    def running(self) -> AbstractContextManager[object]:
        """Return the context in which rows are shown as they are finished."""
        return self._bar.running()

    def row(self, row: BatchRow) -> None:
        """Show a finished prompt."""
        if self._bar.is_visible:
            self._bar.advance(f"{printable(_call(row), 48):<48}")
        if self._quiet:
            return
        self._done += 1
        if self._verbose and (row.record.failure or not self._only_failed):
            line = Text(f"[{row.index + 1}/{self._total}] ")
            line.append(printable(_call(row)), "red" if row.record.failure else "bold")
            line.append(_measurements(row), "dim")
            self._err.print(line, soft_wrap=True)
        if row.record.failure and row.details and self._verbose:
            self._err.print(Text(printable_lines(row.details)), soft_wrap=True)
        # Where no bar moves, a line now and then; the table has each result once.
        if not self._bar.is_visible and time.monotonic() - self._told >= _PAUSE:
            self._told = time.monotonic()
            self.message(f"{self._done} of {self._total} done")

    def step(self, index: int, step: Step, prompt: str) -> None:
        """Show one decoding step: its text, how many tokens were allowed, and the likeliest of them."""
        if index != self._step_prompt:
            self._step_prompt = index
            self._err.print(Text(f"[{index + 1}/{self._total}] {printable(prompt)}", "bold"))
        line = Text("  ")
        line.append(f"{step.kind:<8}", _KIND_STYLES.get(step.kind, ""))
        line.append(printable(_decoded(step.data)), "reverse")
        if step.allowed is not None:
            line.append(f"  {step.allowed} allowed", "yellow")
        self._err.print(line, soft_wrap=True)
        if step.before:
            self._err.print(Text("    model    " + _likeliest(step.before), "dim"), soft_wrap=True)
        if step.after:
            self._err.print(Text("    allowed  " + _likeliest(step.after), "dim"), soft_wrap=True)
        so_far = _decoded(step.text)
        self._err.print(Text("    so far   " + printable(so_far[-200:]), "dim"), soft_wrap=True)

    def table(self, rows: Sequence[BatchRow]) -> None:
        """Print the table of all results, or of those that failed."""
        if self._only_failed:
            rows = [row for row in rows if row.record.failure]
        if self._quiet or not self._has_table or (self._only_failed and not rows):
            return
        table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
        narrow: dict[str, Any] = {"justify": "right", "no_wrap": True}
        table.add_column("#", style="dim", min_width=len(str(self._total)), **narrow)
        table.add_column("prompt", ratio=2, no_wrap=True, overflow="ellipsis")
        table.add_column("call", ratio=3, no_wrap=True, overflow="ellipsis")
        tells_call = any(row.outcome and row.outcome.confidence is not None for row in rows)
        table.add_column("p(call)" if tells_call else "p(name)", min_width=7, **narrow)
        table.add_column("ms", min_width=5, **narrow)
        table.add_column("forced/chosen", min_width=13, **narrow)
        scored = any(row.outcome and row.outcome.logprob is not None for row in rows)
        if scored:
            table.add_column("log p, and of each argument", ratio=2, overflow="fold")
        for row in _cut(rows):
            if row is None:
                table.add_row("…", f"{len(rows) - _MAX_ROWS} more in the file")
            else:
                outcome = row.outcome
                has_logprob = outcome is not None and outcome.logprob is not None
                table.add_row(
                    *_cells(row), *([_logprobs(outcome)] if outcome and has_logprob else [])
                )
        self._out.print(table)

    def summary(self, rows: Sequence[BatchRow], seconds: float, path: str) -> None:
        """Print the totals, the reason of every failure, and the path of the results."""
        for reason, failed in _by_reason(rows).items():
            self._err.print(Text(f"{_prompts(failed)}: {printable(reason)}", "red"), soft_wrap=True)
        if self._quiet:
            return
        if any(row.details for row in rows) and not self._verbose:
            self._err.print(
                Text("This is a bug in callmemaybe; --verbose shows where."), soft_wrap=True
            )
        for row in rows:
            if row.outcome is not None and row.outcome.omitted:
                remark = (
                    f"prompt {row.index + 1}: longer than the model's context, "
                    f"{row.outcome.omitted:,} tokens in its middle were left out"
                )
                self._err.print(Text(remark, "yellow"), soft_wrap=True)
        self._out.print(Text(_totals(rows, seconds)), soft_wrap=True)
        self._out.print(Text(f"Results: {printable(path)}", "bold"), soft_wrap=True)


def printable_lines(text: str) -> str:
    """Return a text with each of its lines made printable."""
    return "\n".join(printable(line) for line in text.splitlines())


def _by_reason(rows: Sequence[BatchRow]) -> dict[str, list[int]]:
    """Group the numbers of the failed prompts by their reasons."""
    reasons: dict[str, list[int]] = {}
    for row in rows:
        if row.record.failure:
            reasons.setdefault(row.record.failure, []).append(row.index + 1)
    return reasons


def _prompts(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"prompt {numbers[0]}"
    shown = ", ".join(map(str, numbers[:20]))
    return f"prompts {shown}{f' and {len(numbers) - 20} more' if len(numbers) > 20 else ''}"


def _call(row: BatchRow) -> str:
    record = row.record
    if record.failure:
        return f"failed: {record.failure}"
    return "no call" if record.name is None else f"{record.name} {record.parameters}"


def _cells(row: BatchRow) -> tuple[str | Text, ...]:
    call = Text(printable(_call(row), 300), "red" if row.record.failure else "")
    prompt = printable(row.record.prompt, 300)
    outcome = row.outcome
    if outcome is None:
        return str(row.index + 1), prompt, call, "kept" if row.is_resumed else "", "", ""
    return (
        str(row.index + 1),
        prompt,
        call,
        _percent(_likely(outcome)),
        f"{_milliseconds(outcome):.0f}",
        f"{outcome.forced}/{outcome.chosen}",
    )


def _likely(outcome: CallResult) -> float | None:
    """Return how likely the whole call is right; for models that do not tell, how likely its name is."""
    return outcome.name_probability if outcome.confidence is None else outcome.confidence


def _percent(probability: float | None) -> str:
    return "" if probability is None else f"{probability:.1%}"


def _milliseconds(outcome: CallResult) -> float:
    return outcome.seconds.get("total", 0.0) * 1000


def _measurements(row: BatchRow) -> str:
    outcome = row.outcome
    if outcome is None:
        return "  kept" if row.is_resumed else ""
    text = f"  {_percent(_likely(outcome))}, {_milliseconds(outcome):.0f} ms"
    return text if outcome.logprob is None else f"{text}; {_logprobs(outcome)}"


def _logprobs(outcome: CallResult) -> str:
    """Return the log-probabilities of the call and of each argument, in nats."""
    parts = [f"log p {outcome.logprob:.2f}"]
    parts += [
        f"{printable(name)} {logprob:.2f}" for name, logprob in outcome.argument_logprobs.items()
    ]
    return ", ".join(parts)


def _totals(rows: Sequence[BatchRow], seconds: float) -> str:
    outcomes = [row.outcome for row in rows if row.outcome is not None]
    calls = sum(row.record.name is not None for row in rows)
    failed = sum(row.record.failure is not None for row in rows)
    resumed = sum(row.is_resumed for row in rows)
    none = len(rows) - calls - failed
    counts = [(calls, "calls"), (none, "without a call"), (failed, "failed"), (resumed, "kept")]
    parts = [f"{len(rows)} prompts", *(f"{count} {what}" for count, what in counts if count)]
    if outcomes:
        forced = sum(outcome.forced for outcome in outcomes)
        tokens = forced + sum(outcome.chosen for outcome in outcomes)
        mean = sum(map(_milliseconds, outcomes)) / len(outcomes)
        parts += [f"{seconds:.1f} s", f"{mean:.0f} ms per prompt"]
        parts += [f"{forced / tokens:.0%} of {tokens} tokens forced"] if tokens else []
    return ", ".join(parts)


def _cut(rows: Sequence[BatchRow]) -> Iterable[BatchRow | None]:
    if len(rows) <= _MAX_ROWS:
        return rows
    half = _MAX_ROWS // 2
    return [*rows[:half], None, *rows[-half:]]


def _likeliest(tokens: Iterable[tuple[bytes | str, float]]) -> str:
    return "  ".join(
        f"{printable(repr(_decoded(token)))} {probability:.1%}" for token, probability in tokens
    )


def _decoded(data: bytes | str) -> str:
    return data if isinstance(data, str) else data.decode(errors="backslashreplace")
