"""The batch job: prompts through a ``Caller`` into one record each, whatever happens.

It decides the order of work and when to save; it prints nothing and reads no options. Rows and decoding
steps are handed to callbacks.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from callmemaybe.cli.prompts import PromptRow, length_problem
from callmemaybe.cli.results import ResultFile, ResultRecord
from callmemaybe.errors import CallMeMaybeError, UpstreamError
from callmemaybe.tools import ToolSpec

if TYPE_CHECKING:
    from concurrent.futures import Future

    from callmemaybe.caller import Caller, CallResult, Step

#: Saving may take at most about this share of the time.
_SAVING_SHARE = 0.05
_MIN_SAVE_INTERVAL = 1.0
#: Prompts submitted for each one that is decoded.
_AHEAD = 4

OnPromptStep = Callable[[int, "Step"], None]


@dataclass(frozen=True, slots=True)
class BatchRow:
    """The result of one prompt; ``outcome`` is None where it failed, is of an earlier run or another process."""

    index: int
    record: ResultRecord
    outcome: CallResult | None = None
    is_resumed: bool = False
    #: The traceback of an exception that is not a CallMeMaybeError.
    details: str | None = None


class RowMaker(Protocol):
    """Makes a result of each prompt: here, in other processes, or on other machines."""

    def rows(self, prompts: Iterable[PromptRow]) -> Iterator[BatchRow]:
        """Yield the result of each prompt, in order."""
        ...


@dataclass(slots=True)
class PromptRunner:
    """Calls the model of this process, ``concurrency`` prompts at a time.

    ``on_step`` gets each decoding step; ``on_early`` each record that is finished before earlier ones.
    """

    caller: Caller
    tools: Sequence[ToolSpec]
    may_decline: bool = False
    concurrency: int = 1
    on_step: OnPromptStep | None = None
    on_early: Callable[[int, ResultRecord], None] | None = None
    _by_name: dict[str, ToolSpec] = field(init=False)

    def __post_init__(self) -> None:
        self._by_name = {tool.name: tool for tool in self.tools}

    def rows(self, prompts: Iterable[PromptRow]) -> Iterator[BatchRow]:
        """Yield the result of each prompt, in order."""
        return self._sequential(prompts) if self.concurrency == 1 else self._concurrent(prompts)

    def _sequential(self, prompts: Iterable[PromptRow]) -> Iterator[BatchRow]:
        for row in prompts:
            if row.problem is not None:
                yield problem_row(row)
                continue
            step = _step_callback(row.index, self.on_step)
            yield self._row(row, partial(self.caller.call, row.prompt, on_step=step))

    def _concurrent(self, prompts: Iterable[PromptRow]) -> Iterator[BatchRow]:
        """Let several prompts share forward passes; yield rows in order."""
        with self.caller.submitting(self.concurrency) as submit:
            waiting: deque[tuple[PromptRow, Future[CallResult] | None]] = deque()

            def first() -> BatchRow:
                row, future = waiting.popleft()
                return problem_row(row) if future is None else self._row(row, future.result)

            for row in prompts:
                future = None
                if row.problem is None:
                    future = submit(row.prompt, _step_callback(row.index, self.on_step))
                    future.add_done_callback(partial(self._early, row))
                waiting.append((row, future))
                if len(waiting) >= _AHEAD * self.concurrency:
                    yield first()
            while waiting:
                yield first()

    def _early(self, row: PromptRow, done: Future[CallResult]) -> None:
        """Hand on a record that is finished before earlier ones, in case the run is stopped."""
        if self.on_early is not None and not done.cancelled() and done.exception() is None:
            self.on_early(row.index, self._record(row.prompt, done.result()))

    def _row(self, row: PromptRow, call: Callable[[], CallResult]) -> BatchRow:
        """Return the result of a prompt, whatever happens."""
        try:
            outcome = call()
            return BatchRow(row.index, self._record(row.prompt, outcome), outcome)
        except CallMeMaybeError as error:
            if isinstance(error, UpstreamError) and error.kind == "key":
                raise  # no other prompt fares better where the key or the model is refused
            return BatchRow(row.index, ResultRecord(row.prompt, None, failure=str(error)))
        except Exception as error:
            failure = f"{type(error).__name__}: {error}".strip().split("\n", 1)[0]
            record = ResultRecord(row.prompt, None, failure=failure)
            return BatchRow(row.index, record, details=traceback.format_exc())

    def _record(self, prompt: str, outcome: CallResult) -> ResultRecord:
        if outcome.call is None:
            reason = next(iter(outcome.remarks), "the answer holds no complete call")
            failure = None if self.may_decline else reason
            return ResultRecord(prompt, None, failure=failure)
        tool = self._by_name[outcome.call.name]
        return ResultRecord.of_call(prompt, tool, outcome.call.arguments)


def problem_row(row: PromptRow) -> BatchRow:
    """Return the failure of a row that no model need see."""
    return BatchRow(row.index, ResultRecord(row.prompt, None, failure=row.problem))


def lost_row(row: PromptRow, reason: str) -> BatchRow:
    """Return the failure of a prompt whose process ended."""
    return BatchRow(row.index, ResultRecord(row.prompt, None, failure=reason))


@dataclass(slots=True)
class BatchJob:
    """The prompts of one run and their records so far.

    ``resumed`` are finished records of an earlier run, by position. ``records`` has a record as soon as
    its prompt is done; rows are yielded in order.
    """

    runner: RowMaker
    prompts: Sequence[str]
    file: ResultFile
    resumed: Mapping[int, ResultRecord] = field(default_factory=dict)
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

    def rows(self) -> Iterator[BatchRow]:
        """Run the prompts and yield their rows in order; save from time to time, but not at the end."""
        self._saved_at = time.monotonic()
        if isinstance(self.runner, PromptRunner):
            self.runner.on_early = self.store
        done = iter(self.runner.rows(self._unfinished))
        for index in range(len(self.prompts)):
            if (record := self.resumed.get(index)) is not None:
                yield BatchRow(index, record, is_resumed=True)
            else:
                row = next(done)
                self.store(index, row.record)
                yield row
                self._save_if_due()

    @property
    def _unfinished(self) -> Iterator[PromptRow]:
        return (
            PromptRow(index, prompt, length_problem(prompt))
            for index, prompt in enumerate(self.prompts)
            if index not in self.resumed
        )

    def store(self, index: int, record: ResultRecord) -> None:
        """Keep the record of a prompt."""
        self.records[index] = record

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


def _step_callback(index: int, on_step: OnPromptStep | None) -> Callable[[Step], None] | None:
    """Return a callback for the steps of one prompt."""
    return None if on_step is None else (lambda step: on_step(index, step))
