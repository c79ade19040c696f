"""A bar that grows on a terminal while something lasts, and is nothing anywhere else."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)


class Bar:
    """The progress of ``total`` things; not there without a terminal, or when told to be quiet."""

    def __init__(self, total: int, console: Console, *, quiet: bool) -> None:
        self._total = total
        self._progress: Progress | None = None
        self._task = TaskID(0)
        # FORCE_COLOR makes a "terminal" of any file, but nothing can move in one.
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
    def is_there(self) -> bool:
        """Whether there is anything to see."""
        return self._progress is not None

    def running(self) -> AbstractContextManager[object]:
        """Return the context in which it is shown."""
        if self._progress is None:
            return nullcontext()
        self._task = self._progress.add_task("", total=self._total)
        return self._progress

    def grow(self, said: str) -> None:
        """Show that one more is done, and what there is to say of it."""
        if self._progress is not None:
            self._progress.update(self._task, advance=1, description=said)
