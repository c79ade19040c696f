"""The batch job itself: prompts through a Caller into records, one each, whatever happens.

It owns the order of things and the clock that decides when to save; it prints nothing and reads no
option. Who wants to watch gets every row and every step.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from callmemaybe.calls import ToolSpec
from callmemaybe.cli.results import Record, ResultFile
from callmemaybe.errors import CallMeMaybeError

if TYPE_CHECKING:
    from callmemaybe.caller import Caller, Outcome, Step

#: Saving may take at most about this share of the time.
_SAVING_SHARE = 0.05
_SAVE_AT_MOST_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one prompt; ``outcome`` is None when there is none: kept or failed."""

    index: int
    record: Record
    outcome: Outcome | None = None
    is_kept: bool = False
    #: The traceback of an exception that is not one of ours.
    details: str | None = None


@dataclass(slots=True)
class Batch:
    """The prompts of one run and the records they have so far.

    ``kept`` are finished records of an earlier run, by position.
    """

    caller: Caller
    tools: Sequence[ToolSpec]
    prompts: Sequence[str]
    file: ResultFile
    may_decline: bool = False
    kept: Mapping[int, Record] = field(default_factory=dict)
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
        """Do the prompts one after the other; saves now and then, not at the end."""
        self._saved_at = time.monotonic()
        for index, prompt in enumerate(self.prompts):
            kept = self.kept.get(index)
            if kept is not None:
                yield Row(index, kept, is_kept=True)
                continue
            row = self._do(index, prompt, on_step)
            self.records[index] = row.record
            yield row
            self._save_if_due()

    def save(self) -> None:
        """Write everything that is finished. Raises NotWritten."""
        started = time.monotonic()
        self.file.write(self.prompts, self.records)
        self._saved_at = time.monotonic()
        self._saving_took = self._saved_at - started

    def _save_if_due(self) -> None:
        pause = max(_SAVE_AT_MOST_EVERY, self._saving_took / _SAVING_SHARE)
        if time.monotonic() - self._saved_at >= pause:
            self.save()

    def _do(self, index: int, prompt: str, on_step: Callable[[int, Step], None] | None) -> Row:
        watch = None if on_step is None else (lambda step: on_step(index, step))
        try:
            outcome = self.caller.call(prompt, on_step=watch)
            return Row(index, self._record(prompt, outcome), outcome)
        except CallMeMaybeError as error:
            return Row(index, Record(prompt, None, failure=str(error)))
        except Exception as error:
            failure = f"{type(error).__name__}: {error}".strip().split("\n", 1)[0]
            return Row(index, Record(prompt, None, failure=failure), details=traceback.format_exc())

    def _record(self, prompt: str, outcome: Outcome) -> Record:
        if outcome.call is None:
            failure = None if self.may_decline else "the answer holds no complete call"
            return Record(prompt, None, failure=failure)
        name = outcome.call.name
        tool = next(tool for tool in self.tools if tool.name == name)
        return Record.of_call(prompt, tool, outcome.call.arguments)
