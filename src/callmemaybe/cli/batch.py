"""The batch job itself: prompts through a Caller into records, one each, whatever happens.

It owns the order of things and the clock that decides when to save; it prints nothing and reads no
option. Who wants to watch gets every row and every step.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from callmemaybe.cli.results import Record, ResultFile
from callmemaybe.errors import CallMeMaybeError
from callmemaybe.tools import ToolSpec

if TYPE_CHECKING:
    from concurrent.futures import Future

    from callmemaybe.caller import Caller, CallResult, Step

#: Saving may take at most about this share of the time.
_SAVING_SHARE = 0.05
_SAVE_AT_MOST_EVERY = 1.0
#: Prompts handed in for each one that is worked on.
_AHEAD = 4


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one prompt; ``outcome`` is None when there is none: kept or failed."""

    index: int
    record: Record
    outcome: CallResult | None = None
    is_kept: bool = False
    #: The traceback of an exception that is not one of ours.
    details: str | None = None


@dataclass(slots=True)
class Batch:
    """The prompts of one run and the records they have so far.

    ``kept`` are finished records of an earlier run, by position. A record stands in ``records`` as soon
    as its prompt is done, though rows come in order.
    """

    caller: Caller
    tools: Sequence[ToolSpec]
    prompts: Sequence[str]
    file: ResultFile
    may_decline: bool = False
    kept: Mapping[int, Record] = field(default_factory=dict)
    #: How many prompts are worked on at a time.
    at_once: int = 1
    records: list[Record | None] = field(init=False)
    _saved_at: float = field(init=False, default=0.0)
    _saving_took: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.records = [self.kept.get(index) for index in range(len(self.prompts))]

    @property
    def has_new(self) -> bool:
        """Whether this run has finished anything itself."""
        return any(
            record is not None and index not in self.kept
            for index, record in enumerate(self.records)
        )

    def rows(self, on_step: Callable[[int, Step], None] | None = None) -> Iterator[Row]:
        """Do the prompts, and yield what became of each, in order; saves now and then, not at the end."""
        self._saved_at = time.monotonic()
        done = self._one_by_one(on_step) if self.at_once == 1 else self._at_once(on_step)
        for index, kept in enumerate(map(self.kept.get, range(len(self.prompts)))):
            if kept is not None:
                yield Row(index, kept, is_kept=True)
            else:
                yield next(done)
                self._save_if_due()

    @property
    def _left(self) -> Iterator[int]:
        return (index for index in range(len(self.prompts)) if index not in self.kept)

    def _one_by_one(self, on_step: Callable[[int, Step], None] | None) -> Iterator[Row]:
        for index in self._left:
            yield self._row(
                index, partial(self.caller.call, self.prompts[index], on_step=_told(index, on_step))
            )

    def _at_once(self, on_step: Callable[[int, Step], None] | None) -> Iterator[Row]:
        """Let several prompts share passes; each row is there once those before it are."""
        with self.caller.submitting(self.at_once) as submit:
            waiting: deque[tuple[int, Future[CallResult]]] = deque()

            def first() -> Row:
                index, future = waiting.popleft()
                return self._row(index, future.result)

            for index in self._left:
                future = submit(self.prompts[index], _told(index, on_step))
                future.add_done_callback(partial(self._note, index))
                waiting.append((index, future))
                if len(waiting) >= _AHEAD * self.at_once:
                    yield first()
            while waiting:
                yield first()

    def _note(self, index: int, done: Future[CallResult]) -> None:
        """Keep a record that is finished before those in front of it, should the run be stopped."""
        if not done.cancelled() and done.exception() is None:
            self.records[index] = self._record(self.prompts[index], done.result())

    def save(self) -> None:
        """Write everything that is finished. Raises NotWritten."""
        started = time.monotonic()
        # A copy: answers go on coming in other threads, and file and notes must tell of the same ones.
        self.file.write(self.prompts, list(self.records))
        self._saved_at = time.monotonic()
        self._saving_took = self._saved_at - started

    def _save_if_due(self) -> None:
        pause = max(_SAVE_AT_MOST_EVERY, self._saving_took / _SAVING_SHARE)
        if time.monotonic() - self._saved_at >= pause and not self.file.is_stream:
            self.save()

    def _row(self, index: int, call: Callable[[], CallResult]) -> Row:
        """Return what became of a prompt, whatever happens, and keep its record."""
        prompt = self.prompts[index]
        try:
            outcome = call()
            row = Row(index, self._record(prompt, outcome), outcome)
        except CallMeMaybeError as error:
            row = Row(index, Record(prompt, None, failure=str(error)))
        except Exception as error:
            failure = f"{type(error).__name__}: {error}".strip().split("\n", 1)[0]
            row = Row(index, Record(prompt, None, failure=failure), details=traceback.format_exc())
        self.records[index] = row.record
        return row

    def _record(self, prompt: str, outcome: CallResult) -> Record:
        if outcome.call is None:
            why = next(iter(outcome.remarks), "the answer holds no complete call")
            failure = None if self.may_decline else why
            return Record(prompt, None, failure=failure)
        name = outcome.call.name
        tool = next(tool for tool in self.tools if tool.name == name)
        return Record.of_call(prompt, tool, outcome.call.arguments)


def _told(index: int, on_step: Callable[[int, Step], None] | None) -> Callable[[Step], None] | None:
    """Return a watcher of one prompt's steps."""
    return None if on_step is None else (lambda step: on_step(index, step))
