"""The batch job: prompts through a ``Caller`` into one record each, whatever happens.

It decides the order of work and when to save; it prints nothing and reads no options. Rows and decoding
steps are handed to callbacks.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from callmemaybe.cli.results import ResultFile, ResultRecord
from callmemaybe.errors import CallMeMaybeError
from callmemaybe.tools import ToolSpec

if TYPE_CHECKING:
    from concurrent.futures import Future

    from callmemaybe.caller import Caller, CallResult, Step

#: Saving may take at most about this share of the time.
_SAVING_SHARE = 0.05
_MIN_SAVE_INTERVAL = 1.0
#: Prompts submitted for each one that is decoded.
_AHEAD = 4


@dataclass(frozen=True, slots=True)
class BatchRow:
    """The result of one prompt; ``outcome`` is None where it failed or is of an earlier run."""

    index: int
    record: ResultRecord
    outcome: CallResult | None = None
    is_resumed: bool = False
    #: The traceback of an exception that is not a CallMeMaybeError.
    details: str | None = None


@dataclass(slots=True)
class BatchJob:
    """The prompts of one run and their records so far.

    ``resumed`` are finished records of an earlier run, by position. ``records`` has a record as soon as
    its prompt is done; rows are yielded in order.
    """

    caller: Caller
    tools: Sequence[ToolSpec]
    prompts: Sequence[str]
    file: ResultFile
    may_decline: bool = False
    resumed: Mapping[int, ResultRecord] = field(default_factory=dict)
    #: How many prompts are decoded at a time.
    concurrency: int = 1
    records: list[ResultRecord | None] = field(init=False)
    _saved_at: float = field(init=False, default=0.0)
    _saving_took: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.records = [self.resumed.get(index) for index in range(len(self.prompts))]

    @property
    def has_new(self) -> bool:
        """Whether this run has finished a prompt itself."""
        return any(
            record is not None and index not in self.resumed
            for index, record in enumerate(self.records)
        )

    def rows(self, on_step: Callable[[int, Step], None] | None = None) -> Iterator[BatchRow]:
        """Run the prompts and yield their rows in order; save from time to time, but not at the end."""
        self._saved_at = time.monotonic()
        done = self._sequential(on_step) if self.concurrency == 1 else self._concurrent(on_step)
        for index in range(len(self.prompts)):
            if (record := self.resumed.get(index)) is not None:
                yield BatchRow(index, record, is_resumed=True)
            else:
                yield next(done)
                self._save_if_due()

    @property
    def _unfinished(self) -> Iterator[int]:
        return (index for index in range(len(self.prompts)) if index not in self.resumed)

    def _sequential(self, on_step: Callable[[int, Step], None] | None) -> Iterator[BatchRow]:
        for index in self._unfinished:
            yield self._row(
                index,
                partial(
                    self.caller.call, self.prompts[index], on_step=_step_callback(index, on_step)
                ),
            )

    def _concurrent(self, on_step: Callable[[int, Step], None] | None) -> Iterator[BatchRow]:
        """Let several prompts share forward passes; yield rows in order."""
        with self.caller.submitting(self.concurrency) as submit:
            waiting: deque[tuple[int, Future[CallResult]]] = deque()

            def first() -> BatchRow:
                index, future = waiting.popleft()
                return self._row(index, future.result)

            for index in self._unfinished:
                future = submit(self.prompts[index], _step_callback(index, on_step))
                future.add_done_callback(partial(self._store_early, index))
                waiting.append((index, future))
                if len(waiting) >= _AHEAD * self.concurrency:
                    yield first()
            while waiting:
                yield first()

    def _store_early(self, index: int, done: Future[CallResult]) -> None:
        """Store a record that is finished before earlier ones, in case the run is stopped."""
        if not done.cancelled() and done.exception() is None:
            self.records[index] = self._record(self.prompts[index], done.result())

    def save(self) -> None:
        """Write everything that is finished. Raises WriteError."""
        started = time.monotonic()
        # A copy: other threads add records meanwhile, and file and notes must agree.
        self.file.write(self.prompts, list(self.records))
        self._saved_at = time.monotonic()
        self._saving_took = self._saved_at - started

    def _save_if_due(self) -> None:
        pause = max(_MIN_SAVE_INTERVAL, self._saving_took / _SAVING_SHARE)
        if time.monotonic() - self._saved_at >= pause and not self.file.is_stream:
            self.save()

    def _row(self, index: int, call: Callable[[], CallResult]) -> BatchRow:
        """Return the row of a prompt, whatever happens, and store its record."""
        prompt = self.prompts[index]
        try:
            outcome = call()
            row = BatchRow(index, self._record(prompt, outcome), outcome)
        except CallMeMaybeError as error:
            row = BatchRow(index, ResultRecord(prompt, None, failure=str(error)))
        except Exception as error:
            failure = f"{type(error).__name__}: {error}".strip().split("\n", 1)[0]
            row = BatchRow(
                index, ResultRecord(prompt, None, failure=failure), details=traceback.format_exc()
            )
        self.records[index] = row.record
        return row

    def _record(self, prompt: str, outcome: CallResult) -> ResultRecord:
        if outcome.call is None:
            reason = next(iter(outcome.remarks), "the answer holds no complete call")
            failure = None if self.may_decline else reason
            return ResultRecord(prompt, None, failure=failure)
        name = outcome.call.name
        tool = next(tool for tool in self.tools if tool.name == name)
        return ResultRecord.of_call(prompt, tool, outcome.call.arguments)


def _step_callback(
    index: int, on_step: Callable[[int, Step], None] | None
) -> Callable[[Step], None] | None:
    """Return a callback for the steps of one prompt."""
    return None if on_step is None else (lambda step: on_step(index, step))
