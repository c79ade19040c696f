"""The command ``eval``: measure a model on cases whose right answers are known.

A report is a folder, which a later run can resume: ``answers.jsonl`` (first the settings, then one
answer per line, appended as they come), ``report.json`` (all metrics) and ``report.html`` (the same for
people).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from callmemaybe.cli.files import check_writable, write_atomically
from callmemaybe.cli.model import loaded_model
from callmemaybe.cli.options import (
    MinConfidenceOption,
    ModelOption,
    NameChoiceMode,
    NoCall,
    QuietOption,
)
from callmemaybe.cli.process import ExitCode, StopRequested, stopped_by_signals
from callmemaybe.errors import InputError, WriteError
from callmemaybe.jsonio import JsonDocument, dumps, read
from callmemaybe.sources.texts import read_text

if TYPE_CHECKING:
    from callmemaybe.cli.eval_display import EvalDisplay
    from callmemaybe.evals.case import Case
    from callmemaybe.evals.record import EvalRecord
    from callmemaybe.evals.runner import EvalRunner


class EvalSource(StrEnum):
    """Benchmarks that are read as published."""

    BFCL = "bfcl"
    EXERCISE = "exercise"
    SGD = "sgd"


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """The options of ``callmemaybe eval``, already of the right types."""

    data: Path
    model: str
    report: Path
    source: EvalSource | None
    tags: Sequence[str]
    limit: int | None
    no_call: NoCall
    choose: NameChoiceMode
    max_tokens: int
    unconstrained: bool
    resume: bool
    quiet: bool
    min_confidence: float = 0.0

    def settings(self) -> dict[str, Any]:
        """Return everything besides the cases that determines the answers."""
        return {
            "model": self.model,
            "no_call": self.no_call.value,
            "choose": self.choose.value,
            "max_tokens": self.max_tokens,
            "unconstrained": self.unconstrained,
            **({"min_confidence": self.min_confidence} if self.min_confidence else {}),
        }


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(name="eval")(evaluate)


def evaluate(
    data: Annotated[Path, typer.Argument(help="Cases, one JSON object per line.")],
    model: ModelOption = "nano",
    report: Annotated[
        Path, typer.Option("--report", "-r", help="Folder for answers, metrics and a web page.")
    ] = Path("data/output/evaluation"),
    source: Annotated[
        EvalSource | None,
        typer.Option(
            "--from", help="DATA is the folder of this published benchmark, not JSON lines."
        ),
    ] = None,
    tag: Annotated[list[str], typer.Option(help="Only cases with this tag; may be repeated.")] = [],  # noqa: B006 - typer copies it
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most this many cases, evenly from all of them.")
    ] = None,
    no_call: Annotated[
        NoCall, typer.Option(help="Whether the model may decide that no function fits.")
    ] = NoCall.ALLOW,
    choose: Annotated[
        NameChoiceMode,
        typer.Option(
            help="Choose the function by the probability of its whole name, or token by token."
        ),
    ] = NameChoiceMode.EXACT,
    max_tokens: Annotated[int, typer.Option(min=1, help="The most tokens of one answer.")] = 512,
    unconstrained: Annotated[
        bool,
        typer.Option(
            "--unconstrained",
            help="Also run the model without a grammar, with up to two retries, and compare.",
        ),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the answers of an earlier run.")
    ] = False,
    min_confidence: MinConfidenceOption = 0.0,
    quiet: QuietOption = False,
) -> None:
    """Measure how well a model calls functions, on cases whose right answers are known."""
    options = EvalOptions(
        data, model, report, source, tag, limit, no_call, choose, max_tokens, unconstrained,
        resume, quiet, min_confidence,
    )  # fmt: skip
    raise typer.Exit(run_evaluation(options))


def run_evaluation(options: EvalOptions) -> ExitCode:
    """Run all cases, write the report, and return the exit code.

    Raises InputError (before any model is loaded), ModelError, WriteError, and StopRequested after the
    report of the finished cases has been written.
    """
    with stopped_by_signals():
        cases = _cases(options)
        folder = ReportFolder(options.report, options.settings())
        resumed, message = folder.resume(cases) if options.resume else ({}, "")
        # Heavy imports come after all checks.
        from callmemaybe.cli.eval_display import EvalDisplay

        display = EvalDisplay(len(cases), quiet=options.quiet)
        if message:
            display.message(message)
        runner = _runner(options)
        records = _run_cases(runner, cases, resumed, folder, display, options)
        found = _write_report(cases, records, folder, options)
        display.report(found, str(options.report))
        return ExitCode.SOME_FAILED if found["failures"] else ExitCode.DONE


def _cases(options: EvalOptions) -> list[Case]:
    if options.source is not None:
        from callmemaybe.evals import sources

        cases = sources.read(options.source.value, options.data)
    else:
        cases = read_cases(options.data)
    if not cases:
        raise InputError("there are no cases", where=str(options.data))
    cases = [case for case in cases if not options.tags or {*options.tags}.intersection(case.tags)]
    if not cases:
        raise InputError("no case has this tag", where="--tag")
    if options.limit is not None and options.limit < len(cases):
        step = len(cases) / options.limit
        cases = [cases[int(place * step)] for place in range(options.limit)]
    return cases


def _runner(options: EvalOptions) -> EvalRunner:
    from callmemaybe.evals.runner import EvalRunner, EvalSettings
    from callmemaybe.generation.config import DecodingConfig

    settings: dict[str, Any] = {
        "max_tokens": options.max_tokens,
        "decoding": DecodingConfig(
            choose=options.choose.value, min_confidence=options.min_confidence
        ),
    }
    may_decline = options.no_call is NoCall.ALLOW
    return EvalRunner(
        loaded_model(options.model), EvalSettings(may_decline, options.unconstrained, settings)
    )


def _run_cases(
    runner: EvalRunner,
    cases: Sequence[Case],
    resumed: dict[str, EvalRecord],
    folder: ReportFolder,
    display: EvalDisplay,
    options: EvalOptions,
) -> dict[str, EvalRecord]:
    """Return the records of the cases by id; when stopped, write a report of those finished first."""
    from callmemaybe.evals.score import score_record

    records = {case.id: resumed[case.id] for case in cases if case.id in resumed}
    try:
        with folder.writer(list(resumed.values())) as writer, display.running():
            for case, record in zip(cases, runner.records(cases, resumed), strict=True):
                if case.id not in resumed:
                    writer.add(record)
                    records[case.id] = record
                display.case(record.failure is None and score_record(case, record).exact)
    except StopRequested:
        if records:
            _write_report(cases, records, folder, options)
        display.message(f"Stopped; finished answers are in {options.report}; --resume continues.")
        raise
    return records


def _write_report(
    cases: Sequence[Case],
    records: dict[str, EvalRecord],
    folder: ReportFolder,
    options: EvalOptions,
) -> dict[str, Any]:
    from callmemaybe.evals.report import judge, report

    about = {
        "data": str(options.data),
        **options.settings(),
        "cases_hash": cases_hash(cases),
        "version": version("callmemaybe"),
        "finished": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }
    found = report(judge(cases, records), about)
    folder.write(found)
    return found


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


def _case(value: object, document: JsonDocument, pointer: str) -> Case:
    from callmemaybe.evals.case import Case

    try:
        return Case.from_json(value)
    except InputError as error:
        where = document.place(pointer + (error.where or ""))
        raise InputError(error.message, where=where, hint=error.hint) from None


class ReportFolder:
    """The folder of one report. ``settings`` determine the answers, besides the cases."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self.answers = folder / "answers.jsonl"
        self._settings = dict(settings)
        if folder.exists() and not folder.is_dir():
            raise InputError("is a file, not a folder", where=str(folder), hint="name another")
        check_writable(self.answers, "the report")

    def resume(self, cases: Sequence[Case] = ()) -> tuple[dict[str, EvalRecord], str]:
        """Return the answers of an earlier run by id, and a message for the user.

        Answers under other settings, to a case of ``cases`` that has changed, and damaged lines are
        dropped. Answers to cases that are not selected this time (``--tag``, ``--limit``) stay.
        """
        from callmemaybe.evals.record import EvalRecord

        if not self.answers.is_file():
            return {}, "nothing to resume from: there are no answers yet"
        lines = self.answers.read_text(encoding="utf-8", errors="replace").split("\n")
        head = _value(lines[0])
        if not isinstance(head, dict) or "settings" not in head:
            hint = "run without --resume to replace it"
            raise InputError("not a file of answers", where=f"{self.answers}:1", hint=hint)
        before = head["settings"] if isinstance(head["settings"], dict) else {}
        names = sorted({*before, *self._settings})
        changed = [key for key in names if before.get(key) != self._settings.get(key)]
        if changed:
            return (
                {},
                f"{' and '.join(changed)} changed since the last run: every case is run again",
            )
        resumed: dict[str, EvalRecord] = {}
        keys = {case.id: case.key for case in cases}
        for line in lines[1:]:
            try:
                record = EvalRecord.from_json(_value(line))
            except InputError:
                continue
            if record.failure is None and keys.get(record.id, record.key) == record.key:
                resumed[record.id] = record
        return resumed, f"{len(resumed)} answers are kept"

    def writer(self, resumed: Sequence[EvalRecord]) -> AnswerWriter:
        """Return a writer of answers, after writing those of the earlier run."""
        head = json.dumps({"settings": self._settings}, ensure_ascii=False)
        lines = [head, *(json_line(record) for record in resumed)]
        write_atomically(self.answers, "\n".join(lines) + "\n")
        return AnswerWriter(self.answers)

    def write(self, report: Mapping[str, Any]) -> None:
        """Write the metrics, for programs and for people. Raises WriteError."""
        from callmemaybe.evals.page import page

        text = json.dumps(report, ensure_ascii=False, indent=1) + "\n"
        write_atomically(self.folder / "report.json", text)
        write_atomically(self.folder / "report.html", page(report))


class AnswerWriter(AbstractContextManager["AnswerWriter"]):
    """Appends answers to a file, flushed about once a second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] = path.open("a", encoding="utf-8")
        self._flushed = time.monotonic()

    def add(self, record: EvalRecord) -> None:
        """Append one answer. Raises WriteError."""
        try:
            self._file.write(json_line(record) + "\n")
            if time.monotonic() - self._flushed >= _FLUSH_EVERY:
                self._file.flush()
                self._flushed = time.monotonic()
        except OSError as error:
            raise WriteError(f"{self._path}: cannot be written: {error.strerror}") from error

    def __exit__(self, *_: object) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise WriteError(f"{self._path}: cannot be written: {error.strerror}") from error
        finally:
            self._file.close()


def json_line(record: EvalRecord) -> str:
    """Return a record as one line of JSON."""
    return json.dumps(record.as_json(), ensure_ascii=True)


def cases_hash(cases: Sequence[Case]) -> str:
    """Return a hash of the cases, expected answers included."""
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
