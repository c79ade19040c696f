"""Results as JSON lines: appended one by one, resumed from where they end, never held in memory.

A line is ``{"prompt", "name", "parameters"}`` in the order of the prompts, after an ``id`` where the prompt
has one and before an ``error`` where there is no call. Each line is handed to the system as soon as it is
there, so a killed process loses none; about once a second the disk is synchronised, and then the notes
beside the file say how many lines it holds and where in the prompts they end. A later run reads the
notes and the lines behind them, and no others. What a kill or a full disk cut in the middle is dropped.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from callmemaybe.cli.files import failure_reason, is_stream, open_for_append, write_atomically
from callmemaybe.cli.lock import keep_aside
from callmemaybe.cli.prompts import PromptPlace, PromptRow, PromptSource, file_fingerprint
from callmemaybe.cli.results import ResultRecord, ResultSettings, is_valid, notes_path
from callmemaybe.errors import InputError, WriteError
from callmemaybe.jsonio import dumps, dumps_string, loads
from callmemaybe.sources.texts import is_standard, read_text
from callmemaybe.tools import ToolSpec

#: Saving may take at most about this share of the time.
_SAVING_SHARE = 0.05
_MIN_SAVE_INTERVAL = 1.0
#: A line that is longer was not written by a run.
_MAX_RESULT = 64 << 20
#: What stands in every line with a failure; to tell the others without reading them.
_ERROR = b', "error": "'


@dataclass(frozen=True, slots=True)
class ResumedLines:
    """Where to go on: the first prompt without a result, and how many of the others have no call."""

    place: PromptPlace = field(default_factory=PromptPlace)
    failed: int = 0
    #: Of those, how many were given to a model, which may succeed the next time.
    to_retry: int = 0
    message: str = ""


def result_line(row: PromptRow, record: ResultRecord) -> str:
    """Return one line of results. A prompt that could not be read is null."""
    identity = "" if row.id is None else f'"id": {row.id}, '
    prompt = "null" if row.problem is not None else dumps_string(row.prompt)
    name = "null" if record.name is None else dumps_string(record.name)
    failure = "" if record.failure is None else f', "error": {dumps_string(record.failure)}'
    return f'{{{identity}"prompt": {prompt}, "name": {name}, "parameters": {record.parameters}{failure}}}\n'


class LineFile:
    """The result file at ``path``, as JSON lines, and its notes. Only one run at a time may use it."""

    def __init__(self, path: Path, settings: ResultSettings, source: PromptSource) -> None:
        self.path = path
        self.is_stream = is_stream(path)
        self.failed = self.to_retry = 0
        self.place = PromptPlace()
        self._notes_path = notes_path(path)
        self._settings, self._source = settings, source
        self._file: IO[bytes] | None = None
        self._bytes = 0
        self._saved_at, self._saving_took = time.monotonic(), 0.0

    # --- where to begin ------------------------------------------------------------------------------

    def begin(self) -> str:
        """Begin a new file; results that are there are kept aside. Return a message."""
        if self.is_stream:
            return ""
        if not self.path.exists() or self.path.stat().st_size == 0:
            self._notes_path.unlink(missing_ok=True)
            return ""
        return f"the earlier results are in {self._aside()}"

    def resume(self, tools: Sequence[ToolSpec]) -> ResumedLines:
        """Find out which results are there and still hold; the file then holds these alone.

        Where no notes say what they were made with, they are kept as long as they fit ``tools``.
        Raises InputError for a stream, and for a file that holds something else.
        """
        if self.is_stream:
            raise InputError(
                "cannot be resumed from", where=f"--output {self.path}", hint="name a file"
            )
        if not self.path.is_file() or self.path.stat().st_size == 0:
            return ResumedLines(message="nothing to resume from: there is no result file yet")
        notes = self._notes()
        changed = self._settings.difference(notes) if notes else None
        if changed:
            aside = self._aside()
            return ResumedLines(
                message=f"{changed} since the last run: every prompt is done again, "
                f"and the earlier results are in {aside}",
            )
        known, end = self._known(notes)
        found, end, is_whole = self._compare(known, end, None if notes else tools)
        if found.place.rows == 0 and not notes:
            raise InputError(
                "not a result file: its first line is no result of the first prompt",
                where=str(self.path),
                hint="run without --resume to keep it aside",
            )
        extra = "" if is_whole else f"; what follows them fits no prompt and is in {self._cut(end)}"
        if is_whole and end < self.path.stat().st_size:
            extra = "; half a line at its end is dropped"
            self._truncate(end)
        self.place, self.failed, self.to_retry = found.place, found.failed, found.to_retry
        rows = f"{found.place.rows:,} results are kept{extra}"
        return ResumedLines(found.place, found.failed, found.to_retry, rows)

    def _aside(self) -> Path:
        return keep_aside(self.path, self._notes_path)

    def _notes(self) -> dict[str, Any]:
        """Return the notes of the last run; empty where they are missing or unreadable."""
        try:
            value = loads(read_text(self._notes_path))
        except InputError:
            return {}
        return value if isinstance(value, dict) and isinstance(value.get("lines"), dict) else {}

    def _known(self, notes: dict[str, Any]) -> tuple[ResumedLines, int]:
        """Return what the notes say of the file and of the prompts, if they are about these very files."""
        with contextlib.suppress(KeyError, TypeError, ValueError):
            lines = notes["lines"]
            place, end = PromptPlace(**lines["place"]), int(lines["bytes"])
            is_ours = file_fingerprint(self.path, end) == lines["results"]
            if is_ours and self._source.fingerprint(place) == lines["prompts"]:
                return ResumedLines(place, int(lines["failed"]), int(lines["to_retry"])), end
        return ResumedLines(), 0

    def _compare(
        self, known: ResumedLines, end: int, tools: Sequence[ToolSpec] | None
    ) -> tuple[ResumedLines, int, bool]:
        """Compare the lines behind ``end`` with their prompts.

        Return the place after the last one that fits, its end in the file, and whether nothing but half a
        line follows.
        """
        place, failed, to_retry = known.place, known.failed, known.to_retry
        by_name = None if tools is None else {tool.name: tool for tool in tools}
        with self.path.open("rb", buffering=1 << 20) as file:
            file.seek(end)
            rows: Iterator[PromptRow] | None = None
            while (line := file.readline(_MAX_RESULT)).endswith(b"\n"):
                rows = rows or self._source.rows(place)
                row = next(rows, None)
                if row is None or (is_failed := _failed(line, row, by_name)) is None:
                    return ResumedLines(place, failed, to_retry), end, False
                end += len(line)
                place = row.end
                failed += is_failed
                to_retry += is_failed and row.problem is None
        is_half = len(line) < _MAX_RESULT
        return ResumedLines(place, failed, to_retry), end, is_half

    def _truncate(self, end: int) -> None:
        try:
            os.truncate(self.path, end)
        except OSError as error:
            raise self._failure(error) from error

    def _cut(self, end: int) -> Path:
        """Keep the file aside, and go on with a copy of its beginning."""
        aside = self._aside()
        try:
            with aside.open("rb") as old, self.path.resolve().open("wb") as new:
                left = end
                while left and (block := old.read(min(1 << 20, left))):
                    left -= new.write(block)
        except OSError as error:
            raise self._failure(error) from error
        return aside

    # --- writing -------------------------------------------------------------------------------------

    def append(self, row: PromptRow, record: ResultRecord) -> None:
        """Append the result of a prompt; save the notes from time to time. Raises WriteError."""
        if self._file is None:
            self._open()
        assert self._file is not None
        data = result_line(row, record).encode()
        try:
            written = 0
            while written < len(data):  # a full disk takes a part, and then nothing
                written += self._file.write(data[written:])
        except OSError as error:
            if not self.is_stream:
                with contextlib.suppress(OSError):
                    self._file.truncate(self._bytes)
            raise self._failure(error) from error
        self._bytes += len(data)
        self.place = row.end
        if record.failure is not None:
            self.failed += 1
            self.to_retry += row.problem is None
        pause = max(_MIN_SAVE_INTERVAL, self._saving_took / _SAVING_SHARE)
        if time.monotonic() - self._saved_at >= pause:
            self.save()

    def _open(self) -> None:
        try:
            self._file = open_for_append(self.path)
            self._bytes = 0 if self.is_stream else os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise self._failure(error) from error

    def save(self) -> None:
        """Synchronise the disk, then write the notes. Raises WriteError."""
        if self.is_stream:
            return
        if self._file is None:
            self._open()
        assert self._file is not None
        started = time.monotonic()
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failure(error) from error
        notes = {
            "functions": self._settings.functions,
            "model": self._settings.model,
            "options": dict(self._settings.options),
            "lines": {
                "place": asdict(self.place),
                "bytes": self._bytes,
                "failed": self.failed,
                "to_retry": self.to_retry,
                "results": file_fingerprint(self.path, self._bytes),
                "prompts": self._source.fingerprint(self.place),
            },
        }
        write_atomically(self._notes_path, json.dumps(notes, ensure_ascii=False, indent=2) + "\n")
        self._saved_at = time.monotonic()
        self._saving_took = self._saved_at - started

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _failure(self, error: OSError) -> WriteError:
        kept = (
            "" if self.is_stream else f"; {self.place.rows:,} results are in it, --resume continues"
        )
        name = "standard output" if is_standard(self.path) else self.path
        return WriteError(f"{name}: cannot be written: {failure_reason(error)}{kept}")

    # --- prompts that failed -------------------------------------------------------------------------

    def retry(
        self, results: Callable[[Iterable[PromptRow]], Iterator[tuple[PromptRow, ResultRecord]]]
    ) -> Generator[tuple[PromptRow, ResultRecord]]:
        """Do the prompts again that failed in an earlier run, and put the new results in their places.

        The file is replaced at the end, as a whole. Whoever stops before keeps what is done so far. Raises
        WriteError.
        """
        self.close()
        target = self.path.resolve()
        again = target.with_name(target.name + ".retry")
        done = results(self._failed_rows())
        self.failed = self.to_retry = 0
        try:
            with target.open("rb", buffering=1 << 20) as old, again.open("wb") as new:
                try:
                    for number, line in enumerate(old, 1):
                        if not _may_retry(line):
                            self.failed += _has_error(line)
                            new.write(line)
                            self._check_is_result(line, number)
                            continue
                        try:
                            row, record = next(done)
                        except BaseException:
                            new.write(line)
                            self.failed, self.to_retry = self.failed + 1, self.to_retry + 1
                            raise
                        new.write(result_line(row, record).encode())
                        is_failed = record.failure is not None
                        self.failed, self.to_retry = (
                            self.failed + is_failed,
                            self.to_retry + is_failed,
                        )
                        yield row, record
                finally:
                    for line in old:
                        self.failed += (is_failed := _has_error(line))
                        self.to_retry += is_failed and _may_retry(line)
                        new.write(line)
                    new.flush()
                    os.fsync(new.fileno())
                    shutil.copymode(target, again)
                    again.replace(target)
                    self._bytes = target.stat().st_size
        except OSError as error:
            with contextlib.suppress(OSError):
                again.unlink()
            raise self._failure(error) from error

    def _check_is_result(self, line: bytes, number: int) -> None:
        """Raise InputError for a line that somebody has damaged since it was written."""
        if _ERROR in line and _read_result(line) is None:
            raise InputError(
                "is no result any more", where=f"{self.path}:{number}",
                hint="run without --resume: the file is kept aside",
            )  # fmt: skip

    def _failed_rows(self) -> Iterator[PromptRow]:
        with self.path.open("rb", buffering=1 << 20) as file:
            for line, row in zip(file, self._source.rows(PromptPlace()), strict=False):
                if _may_retry(line):
                    yield row


def _failed(
    line: bytes, row: PromptRow, tools: Mapping[str, ToolSpec] | None = None
) -> bool | None:
    """Whether a line is the failure of ``row``; None if it is no result of it, or no call of ``tools``."""
    value = _read_result(line)
    if value is None:
        return None
    identity = dumps(value["id"]) if "id" in value else None
    prompt = None if row.problem is not None else row.prompt
    if tools is not None and value["name"] is not None:
        tool = tools.get(value["name"]) if isinstance(value["name"], str) else None
        if tool is None or not is_valid(dumps(value["parameters"]), tool):
            return None
    return "error" in value if (value["prompt"], identity) == (prompt, row.id) else None


def _read_result(line: bytes) -> dict[str, Any] | None:
    """Return a line of results; None if it is none."""
    try:
        value = loads(line.decode())
    except (InputError, UnicodeDecodeError):
        return None
    is_result = isinstance(value, dict) and {"prompt", "name", "parameters"} <= value.keys()
    return value if is_result else None


def _has_error(line: bytes) -> bool:
    return _ERROR in line and "error" in (_read_result(line) or ())


def _may_retry(line: bytes) -> bool:
    """Whether a model had the prompt and made no call."""
    value = _read_result(line) if _ERROR in line else None
    return value is not None and "error" in value and value["prompt"] is not None
