"""Every step of a run as JSON lines: what ``--verbose`` shows, for programs to read.

A prompt gives one ``step`` line per step and then one ``result`` line; in a batch, those of several
prompts take turns. Bytes are
written as text and, since a token may end inside a character, as hexadecimal digits too.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING

from callmemaybe.cli.batch import Row
from callmemaybe.cli.files import NotWritten
from callmemaybe.jsonio.declared import escape_surrogates

if TYPE_CHECKING:
    from callmemaybe.caller import Step


class Trace:
    """A trace file, open while a run lasts; flushed after every prompt."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] = path.open("w", encoding="utf-8", newline="\n")
        self._steps: Counter[int] = Counter()

    def step(self, index: int, step: Step) -> None:
        """Write one step of prompt ``index``."""
        line = {"event": "step", "prompt": index, "step": self._steps[index], **step.as_json()}
        self._write(line)
        self._steps[index] += 1

    def row(self, row: Row) -> None:
        """Write what became of a prompt, and let it reach the disk."""
        record, outcome = row.record, row.outcome
        line: dict[str, object] = {
            "event": "result", "prompt": row.index, "request": record.prompt, "name": record.name,
            "failure": record.failure, "kept": row.is_kept,
        }  # fmt: skip
        if outcome is not None:
            line |= {
                "probability": outcome.name_probability,
                "margin": outcome.margin,
                "distribution": [[name, p] for name, p in outcome.distribution.items()],
                "forced": outcome.forced,
                "chosen": outcome.chosen,
                "passes": outcome.passes,
                "omitted": outcome.omitted,
                "logprob": outcome.logprob,
                "argument_logprobs": dict(outcome.argument_logprobs),
                "seconds": dict(outcome.seconds),
            }
        # The parameters are JSON already; reading them would round their numbers.
        self._write_text(
            json.dumps(line, ensure_ascii=False)[:-1] + f', "parameters": {record.parameters}}}'
        )
        self._flush()

    def close(self) -> None:
        """Close the file."""
        try:
            self._file.close()
        except OSError as error:
            raise self._failure(error) from error

    def _write(self, line: dict[str, object]) -> None:
        self._write_text(json.dumps(line, ensure_ascii=False))

    def _write_text(self, text: str) -> None:
        try:
            self._file.write(escape_surrogates(text) + "\n")
        except OSError as error:
            raise self._failure(error) from error

    def _flush(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> NotWritten:
        return NotWritten(f"{self._path}: cannot be written: {error.strerror or error}")
