"""The display of a batch of any length: one line that says how far it is, and totals at the end.

It keeps counts and no rows. Reasons of failures are counted, and the first prompts of each are named.
"""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from callmemaybe.cli.display import console, printable_lines
from callmemaybe.cli.process import printable
from callmemaybe.cli.results import ResultRecord

#: Seconds between two lines of progress where no bar can move.
_PAUSE = 10.0
#: Reasons that are told apart, and prompts that are named for each.
_MOST_REASONS = 20
_NAMED = 5
_OTHER = "other reasons; see the results"


@dataclass
class _Reason:
    """How many prompts failed for one reason, and the first of them."""

    count: int = 0
    first: list[int] = field(default_factory=list)


class BatchProgress:
    """Tells how far a batch is; ``size`` is the offset of the end of its prompts, None if unknown."""

    def __init__(
        self, size: int | None, kept: int, *, quiet: bool, verbose: bool, results_on_stdout: bool
    ) -> None:
        self._size, self._kept = size, kept
        self._quiet, self._verbose = quiet, verbose
        self._err = console(sys.stderr)
        self._out = self._err if results_on_stdout else console(sys.stdout)
        self._started = self._told = time.monotonic()
        self._calls = self._failed = self._done = 0
        self._reasons: dict[str, _Reason] = {}
        self._has_bug = False
        self._bar: Progress | None = None
        self._task = TaskID(0)
        can_move = self._err.is_terminal and not self._err.is_dumb_terminal
        if can_move and self._err.file.isatty() and not self._err.no_color and not quiet:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeRemainingColumn(),
                console=self._err,
                transient=True,
            )

    def running(self) -> AbstractContextManager[object]:
        """Return the context in which results are counted."""
        if self._bar is None:
            return nullcontext()
        self._task = self._bar.add_task("", total=self._size)
        return self._bar

    def message(self, text: str) -> None:
        """Print a message, unless quiet."""
        if text and not self._quiet:
            self._err.print(Text(printable(text)), soft_wrap=True)

    def row(
        self, index: int, record: ResultRecord, offset: int, details: str | None = None
    ) -> None:
        """Count a result; ``offset`` is how far in the prompts it is."""
        self._done += 1
        self._calls += record.name is not None
        if record.failure is not None:
            self._failed += 1
            known = record.failure in self._reasons or len(self._reasons) < _MOST_REASONS
            reason = self._reasons.setdefault(record.failure if known else _OTHER, _Reason())
            reason.count += 1
            if len(reason.first) < _NAMED:
                reason.first.append(index + 1)
        if details is not None:
            self._has_bug = True
            if self._verbose:
                self._err.print(Text(printable_lines(details)), soft_wrap=True)
        now = time.monotonic()
        if now - self._told < (0.2 if self._bar else _PAUSE):
            return
        self._told = now
        if self._bar is not None:
            self._bar.update(self._task, completed=offset, description=self._counts(now))
        else:
            share = f" ({offset / self._size:.1%})" if self._size else ""
            self.message(self._counts(now) + share)

    def summary(self, path: str) -> None:
        """Print the totals, the reasons of failures, and the path of the results."""
        for text, reason in self._reasons.items():
            self._err.print(
                Text(f"{_prompts(reason)}: {printable(text, 300)}", "red"), soft_wrap=True
            )
        if self._quiet:
            return
        if self._has_bug and not self._verbose:
            self._err.print(
                Text("This is a bug in callmemaybe; --verbose shows where."), soft_wrap=True
            )
        seconds = time.monotonic() - self._started
        none = self._done - self._calls - self._failed
        counts = [
            (self._calls, "calls"), (none, "without a call"), (self._failed, "failed"),
            (self._kept, "kept"),
        ]  # fmt: skip
        parts = [f"{self._done + self._kept:,} prompts"]
        parts += [f"{count:,} {what}" for count, what in counts if count]
        if self._done:
            parts += [f"{seconds:.1f} s", f"{self._done / max(seconds, 1e-9):,.1f} per second"]
        self._out.print(Text(", ".join(parts)), soft_wrap=True)
        self._out.print(Text(f"Results: {printable(path)}", "bold"), soft_wrap=True)

    def _counts(self, now: float) -> str:
        rate = self._done / max(now - self._started, 1e-9)
        failed = f", {self._failed:,} failed" if self._failed else ""
        return f"{self._done + self._kept:,} done, {rate:,.1f} per second{failed}"


def _prompts(reason: _Reason) -> str:
    numbers = ", ".join(f"{number:,}" for number in reason.first)
    more = reason.count - len(reason.first)
    plural = "s" if reason.count > 1 else ""
    return f"prompt{plural} {numbers}{f' and {more:,} more' if more else ''}"
