"""The files of an evaluation: the cases, and the folder of a report that a later run can resume.

A report is a folder: ``answers.jsonl`` (first what was asked how, then one answer per line, written
as they come), ``report.json`` (all figures) and ``report.html`` (the same to look at).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from callmemaybe.cli.files import NotWritten, check_writable, read_text, write_atomically
from callmemaybe.errors import InputError
from callmemaybe.jsonio.reader import Document, read
from callmemaybe.jsonio.writer import dumps

if TYPE_CHECKING:
    from callmemaybe.evals.case import Case
    from callmemaybe.evals.record import Record

_FLUSH_EVERY = 1.0


def read_cases(path: Path) -> list[Case]:
    """Read one case per line (or a JSON list of cases).

    Cases without an id get their line's number. Raises InputError with file, line and JSON pointer,
    also for an id that occurs twice.
    """
    text = read_text(path)
    cases: list[Case] = []
    places: dict[str, str] = {}
    if text.lstrip(" \t\r\n")[:1] == "[":
        document = read(text, source=str(path))
        assert isinstance(document.value, list)
        found = [(str(n + 1), document, f"/{n}", one) for n, one in enumerate(document.value)]
    else:
        # str.splitlines would also split at U+2028, which may stand in a JSON string.
        lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip(" \t\r")]
        read_lines = [(n, read(ln.rstrip("\r"), source=str(path), first_line=n)) for n, ln in lines]
        found = [(str(n), document, "", document.value) for n, document in read_lines]
    for number, document, pointer, value in found:
        case = _case(value, document, pointer)
        case = case if case.id else replace(case, id=number)
        place = document.place(pointer)
        if case.id in places:
            message = f"the id {case.id!r} is that of another case, at {places[case.id]}"
            raise InputError(message, where=place, hint="give each case its own")
        places[case.id] = place
        cases.append(case)
    if not cases:
        raise InputError("there are no cases", where=str(path))
    return cases


def _case(value: object, document: Document, pointer: str) -> Case:
    from callmemaybe.evals.case import Case

    try:
        return Case.from_json(value)
    except InputError as error:
        where = document.place(pointer + (error.where or ""))
        raise InputError(error.message, where=where, hint=error.hint) from None


class Report:
    """The folder of one report. ``settings`` is what decides the answers."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self.answers = folder / "answers.jsonl"
        self._settings = dict(settings)
        if folder.exists() and not folder.is_dir():
            raise InputError("is a file, not a folder", where=str(folder), hint="name another")
        check_writable(self.answers, "the report")

    def resume(self, cases: Sequence[Case] = ()) -> tuple[dict[str, Record], str]:
        """Return the answers of an earlier run by id, and what to tell the user.

        Answers given under other settings do not count, nor those to a case of ``cases`` that is
        another one by now, nor does a damaged line. Answers to cases that are not asked about
        this time (``--tag``, ``--limit``) are kept for the next.
        """
        from callmemaybe.evals.record import Record

        if not self.answers.is_file():
            return {}, "nothing to resume from: there are no answers yet"
        lines = self.answers.read_text(encoding="utf-8", errors="replace").split("\n")
        head = _value(lines[0])
        if not isinstance(head, dict) or "settings" not in head:
            hint = "run without --resume to replace it"
            raise InputError("these are no answers", where=f"{self.answers}:1", hint=hint)
        before = head["settings"] if isinstance(head["settings"], dict) else {}
        names = sorted({*before, *self._settings})
        changed = [key for key in names if before.get(key) != self._settings.get(key)]
        if changed:
            return {}, f"{' and '.join(changed)} changed since the last run: all is asked again"
        kept: dict[str, Record] = {}
        keys = {case.id: case.key for case in cases}
        for line in lines[1:]:
            try:
                record = Record.from_json(_value(line))
            except InputError:
                continue
            if record.failure is None and keys.get(record.id, record.key) == record.key:
                kept[record.id] = record
        return kept, f"{len(kept)} answers are kept"

    def writer(self, kept: Sequence[Record]) -> Writer:
        """Return what writes answers as they come; it begins with those that are kept."""
        head = json.dumps({"settings": self._settings}, ensure_ascii=False)
        lines = [head, *(line_of(record) for record in kept)]
        write_atomically(self.answers, "\n".join(lines) + "\n")
        return Writer(self.answers)

    def write(self, report: Mapping[str, Any]) -> None:
        """Write the figures, for programs and for people. Raises NotWritten."""
        from callmemaybe.evals.page import page

        text = json.dumps(report, ensure_ascii=False, indent=1) + "\n"
        write_atomically(self.folder / "report.json", text)
        write_atomically(self.folder / "report.html", page(report))


class Writer(AbstractContextManager["Writer"]):
    """Appends answers to a file, on the disk about a second later at most."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] = path.open("a", encoding="utf-8")
        self._flushed = time.monotonic()

    def add(self, record: Record) -> None:
        """Append one answer. Raises NotWritten."""
        try:
            self._file.write(line_of(record) + "\n")
            if time.monotonic() - self._flushed >= _FLUSH_EVERY:
                self._file.flush()
                self._flushed = time.monotonic()
        except OSError as error:
            raise NotWritten(f"{self._path}: cannot be written: {error.strerror}") from error

    def __exit__(self, *_: object) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise NotWritten(f"{self._path}: cannot be written: {error.strerror}") from error
        finally:
            self._file.close()


def line_of(record: Record) -> str:
    """Return a record as one line of JSON."""
    return json.dumps(record.as_json(), ensure_ascii=True)


def hash_of(cases: Sequence[Case]) -> str:
    """Return what tells one set of cases from another, answers that are right included."""
    digest = sha256()
    for case in cases:
        digest.update(dumps(case.as_json()).encode(errors="surrogatepass"))
    return digest.hexdigest()[:16]


def _value(line: str) -> object:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value
