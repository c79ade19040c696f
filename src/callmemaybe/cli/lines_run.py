"""A run over prompts of any number: from a source, through a runner, to the end of a file of JSON lines."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator

from callmemaybe.cli.batch import BatchRow, RowMaker
from callmemaybe.cli.lines import LineFile, ResumedLines
from callmemaybe.cli.process import StopRequested
from callmemaybe.cli.progress import BatchProgress
from callmemaybe.cli.prompts import PromptRow, PromptSource
from callmemaybe.cli.results import ResultRecord
from callmemaybe.errors import WriteError

OnBatchRow = Callable[[BatchRow], None]


def run_lines(
    file: LineFile,
    source: PromptSource,
    start: ResumedLines,
    runner: RowMaker,
    progress: BatchProgress,
    on_row: OnBatchRow,
) -> None:
    """Do the prompts from ``start`` on, then those again that had no call before.

    ``on_row`` sees each new result. Raises what the runner raises, WriteError and StopRequested after what is
    finished has been saved.
    """

    def reported(
        results: Iterable[tuple[PromptRow, BatchRow]],
    ) -> Iterator[tuple[PromptRow, BatchRow]]:
        for prompt, row in results:
            on_row(row)
            progress.row(row.index, row.record, prompt.end.offset, row.details)
            yield prompt, row

    def again(prompts: Iterable[PromptRow]) -> Iterator[tuple[PromptRow, ResultRecord]]:
        for prompt, row in reported(_results(runner, prompts)):
            yield prompt, row.record

    try:
        file.save()  # the notes come first: whatever is appended, it is known what for
        with progress.running():
            with contextlib.closing(_results(runner, source.rows(start.place))) as results:
                for prompt, row in reported(results):
                    file.append(prompt, row.record)
            if start.to_retry and source.fingerprint(start.place) is not None:
                with contextlib.closing(file.retry(again)) as retried:
                    deque(retried, maxlen=0)
        file.save()
    except BaseException as error:
        # For example, the disk of the trace is full, or the model's server is gone for good.
        with contextlib.suppress(WriteError):
            file.save()
        if isinstance(error, StopRequested):
            resume = "." if file.is_stream else "; --resume continues."
            progress.message(f"Stopped; finished results are in {file.path}{resume}")
        raise
    finally:
        file.close()


def _results(
    runner: RowMaker, prompts: Iterable[PromptRow]
) -> Generator[tuple[PromptRow, BatchRow]]:
    """Yield each prompt with its result."""
    ahead: deque[PromptRow] = deque()

    def reading() -> Iterator[PromptRow]:
        for prompt in prompts:
            ahead.append(prompt)
            yield prompt

    rows = runner.rows(reading())
    try:
        for row in rows:
            yield ahead.popleft(), row
    finally:
        # A generator ends its processes now, and not some time.
        close = getattr(rows, "close", None)
        if close is not None:
            close()
