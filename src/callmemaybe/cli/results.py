"""The result file of a batch and the notes beside it that let a later run resume.

The result file is a JSON array of exactly ``{"prompt", "name", "parameters"}`` in input order. What
such a record cannot express (the functions and settings it was made with, and whether a null name
means "no function fits", "failed" or "not done yet") is in a second file, ``<output>.run.json``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from callmemaybe.cli.files import is_stream, write_atomically
from callmemaybe.cli.lock import keep_aside
from callmemaybe.errors import InputError
from callmemaybe.jsonio import RawNumber, dumps, dumps_string, read
from callmemaybe.sources.texts import read_text
from callmemaybe.tools import ToolSpec

_KEYS = {"prompt", "name", "parameters"}


@dataclass(frozen=True, slots=True)
class ResultRecord:
    """The result of one prompt; ``parameters`` is JSON text.

    ``name`` is None when no function fits, or when ``failure`` is the reason why there is no call.
    """

    prompt: str
    name: str | None
    parameters: str = "{}"
    failure: str | None = None

    @classmethod
    def of_call(cls, prompt: str, tool: ToolSpec, arguments: str) -> ResultRecord:
        """Return the record of a call; ``arguments`` is JSON as generated."""
        value = read(arguments, source="arguments", number=RawNumber, max_depth=None).value
        return cls(prompt, tool.name, dumps(value, schema=tool.schema))

    def text(self) -> str:
        """Return the record as written to the result file, indented by two."""
        name = "null" if self.name is None else dumps_string(self.name)
        return (
            f'  {{\n    "prompt": {dumps_string(self.prompt)},\n    "name": {name},\n'
            f'    "parameters": {self.parameters}\n  }}'
        )


@dataclass(frozen=True, slots=True)
class ResultSettings:
    """Everything besides the prompts that determines the results."""

    functions: str
    model: str
    options: Mapping[str, object]

    @classmethod
    def of(cls, tools: Sequence[ToolSpec], model: str, **options: object) -> ResultSettings:
        """Return the settings of a run; the functions are represented by a hash of their definitions."""
        return cls(_hash(dumps([tool.as_openai() for tool in tools])), model, options)

    def difference(self, notes: Mapping[str, object]) -> str | None:
        """Describe what has changed since the run that wrote ``notes``; None if nothing has."""
        if notes.get("functions") != self.functions:
            return "the functions have changed"
        if notes.get("model") != self.model:
            return f"the model was {notes.get('model')}"
        known = notes.get("options")
        known = known if isinstance(known, dict) else {}
        changed = [
            name
            for name in sorted({*self.options, *known})
            if name not in known or known[name] != self.options.get(name)
        ]
        return f"{' and '.join(changed)} changed" if changed else None


@dataclass(frozen=True, slots=True)
class ResumedResults:
    """Finished records of an earlier run by position, and a message for the user."""

    records: dict[int, ResultRecord]
    message: str


def notes_path(path: Path) -> Path:
    """Return the path of the notes on the result file at ``path``."""
    return path.with_name(path.name + ".run.json")


class ResultFile:
    """The result file at ``path`` and its notes."""

    def __init__(
        self,
        path: Path,
        settings: ResultSettings,
        text: Callable[[Sequence[ResultRecord]], str] | None = None,
    ) -> None:
        self.path = path
        #: Another form than the array, which no run resumes from.
        self._text = text
        #: A stream is written once, at the end: it cannot be replaced, nor resumed from.
        self.is_stream = is_stream(path)
        self.notes_path = notes_path(path)
        self._settings = settings

    def write(self, prompts: Sequence[str], records: Sequence[ResultRecord | None]) -> None:
        """Replace the file by all records up to the last finished one. Raises WriteError.

        A gap (possible only when a resumed run was interrupted) becomes a null record, listed as missing.
        """
        end = max((i for i, record in enumerate(records, 1) if record is not None), default=0)
        body = (self._text or array_text)(
            [record or ResultRecord(prompts[i], None) for i, record in enumerate(records[:end])]
        )
        write_atomically(self.path, body)
        if self.is_stream or self._text is not None:
            return
        notes = {
            "results": _hash(body),
            "functions": self._settings.functions,
            "model": self._settings.model,
            "options": dict(self._settings.options),
            "failed": {
                str(i): record.failure
                for i, record in enumerate(records)
                if record and record.failure
            },
            "missing": [i for i, record in enumerate(records[:end]) if record is None],
        }
        write_atomically(self.notes_path, json.dumps(notes, ensure_ascii=False, indent=2) + "\n")

    def resume(self, prompts: Sequence[str], tools: Sequence[ToolSpec]) -> ResumedResults:
        """Return the finished records of an earlier run that are still valid, matched by position.

        Raises InputError for a file that is no result file, and for a stream.
        """
        if self.is_stream:
            raise InputError(
                "cannot be resumed from", where=f"--output {self.path}", hint="name a file"
            )
        if self._text is not None:
            raise InputError(
                "results of this form cannot be resumed from", where="--resume",
                hint="write json or jsonl",
            )  # fmt: skip
        if not self.path.is_file():
            return ResumedResults({}, "nothing to resume from: there is no result file yet")
        text = read_text(self.path)
        document = read(text, source=str(self.path), number=RawNumber, max_depth=None)
        if not isinstance(document.value, list):
            raise InputError(
                "not a result file: expected a list of results",
                where=document.place(),
                hint="run without --resume to replace it",
            )
        notes = self._notes()
        changed = self._settings.difference(notes) if notes else None
        if changed:
            aside = keep_aside(self.path, self.notes_path)
            message = f"{changed} since the last run: every prompt is done again, and the earlier results are in {aside}"
            return ResumedResults({}, message)
        # Notes apply to the very file they were written with, not to one edited since.
        has_notes = notes.get("results") == _hash(text)
        unfinished = _unfinished(notes) if has_notes else set()
        by_name = {tool.name: tool for tool in tools}
        records = {
            index: record
            for index, item in enumerate(document.value[: len(prompts)])
            if index not in unfinished
            and (record := _record(item, prompts[index], by_name, has_notes)) is not None
        }
        return ResumedResults(records, f"{len(records)} of {len(prompts)} results are kept")

    def _notes(self) -> dict[str, object]:
        """Return the notes of the last run; empty where they are missing or unreadable."""
        try:
            value = read(read_text(self.notes_path), source=str(self.notes_path)).value
        except InputError:
            return {}
        return value if isinstance(value, dict) else {}


def array_text(records: Sequence[ResultRecord]) -> str:
    """Return the JSON array of all results."""
    return "[\n" + ",\n".join(record.text() for record in records) + "\n]\n" if records else "[]\n"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _unfinished(notes: Mapping[str, object]) -> set[int]:
    failed, missing = notes.get("failed"), notes.get("missing")
    return {
        *(int(key) for key in (failed if isinstance(failed, dict) else ())),
        *(missing if isinstance(missing, list) else ()),
    }


def _record(
    item: object, prompt: str, tools: Mapping[str, ToolSpec], has_notes: bool
) -> ResultRecord | None:
    """Return the record if it is of this prompt and still valid, else None."""
    if not isinstance(item, dict) or set(item) != _KEYS or item["prompt"] != prompt:
        return None
    name, parameters = item["name"], item["parameters"]
    if name is None:
        # Without notes a null name may be a failure, so the prompt is run again.
        return ResultRecord(prompt, None) if has_notes and parameters == {} else None
    tool = tools.get(name) if isinstance(name, str) else None
    if tool is None or not isinstance(parameters, dict):
        return None
    text = dumps(parameters, schema=tool.schema)
    return ResultRecord(prompt, tool.name, text) if has_notes or is_valid(text, tool) else None


def is_valid(parameters: str, tool: ToolSpec) -> bool:
    """Whether the arguments satisfy the tool's schema; checked where there are no notes."""
    from callmemaybe.tools.schemas import validator_for

    try:
        return bool(validator_for(tool.schema).is_valid(json.loads(parameters)))
    except (InputError, ValueError, RecursionError):
        return False
