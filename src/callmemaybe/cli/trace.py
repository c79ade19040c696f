"""Trace files: every decoding step of a run as JSON lines, and the command ``show`` that draws them.

A prompt has one ``step`` line per decoding step, then one ``result`` line; the lines of prompts that
are decoded together interleave. Bytes are written as text and, since a token may end inside a
character, as hexadecimal digits too.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from callmemaybe.cli.files import check_writable, named_output, same_file, write_atomically
from callmemaybe.errors import InputError, WriteError
from callmemaybe.jsonio import dumps, escape_surrogates, loads
from callmemaybe.sources.texts import is_standard, read_text

if TYPE_CHECKING:
    from callmemaybe.caller import Step
    from callmemaybe.cli.batch import BatchRow


class TraceWriter:
    """Writes a trace file, flushed after every prompt. Raises WriteError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] = path.open("w", encoding="utf-8", newline="\n")
        self._steps: Counter[int] = Counter()

    def step(self, index: int, step: Step) -> None:
        """Write one step of prompt ``index``."""
        line = {"event": "step", "prompt": index, "step": self._steps[index], **step.as_json()}
        self._write(line)
        self._steps[index] += 1

    def row(self, row: BatchRow) -> None:
        """Write the result of a prompt, and flush."""
        record, outcome = row.record, row.outcome
        line: dict[str, object] = {
            "event": "result", "prompt": row.index, "request": record.prompt, "name": record.name,
            "failure": record.failure, "kept": row.is_resumed,
        }  # fmt: skip
        if outcome is not None:
            line |= {
                "probability": outcome.name_probability,
                "margin": outcome.margin,
                "confidence": outcome.confidence,
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

    def _failure(self, error: OSError) -> WriteError:
        return WriteError(f"{self._path}: cannot be written: {error.strerror or error}")


_RESULT_KEYS = ("distribution", "passes", "forced", "chosen")


def read_trace(path: Path) -> list[dict[str, Any]]:
    """Return the runs of a trace, in the order of the file.

    Each is ``{"request", "steps", "end", "call", "failure"}``; a prompt whose result is missing,
    because the run was stopped, is left out. Raises InputError with the line that is not of a trace.
    """
    # The lines of several prompts may interleave.
    steps: dict[str, list[dict[str, Any]]] = {}
    runs = []
    # str.splitlines would also split at U+2028, which may stand in a JSON string.
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        event = _event(line, f"{path}:{number}")
        prompt = str(event.get("prompt"))
        if event["event"] == "step":
            if event["step"] == 0:
                steps[prompt] = []
            steps.setdefault(prompt, []).append(event)
        else:
            # The digits of arguments must not be rounded.
            exact = loads(line).get("parameters")
            runs.append(_run(event, steps.pop(prompt, []), dumps(exact or {})))
    if not runs:
        raise InputError(
            "the trace holds no finished prompt", where=str(path), hint="run it to the end"
        )
    return runs


def _event(line: str, where: str) -> dict[str, Any]:
    try:
        event = json.loads(line, parse_float=_finite, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not valid JSON: {error}", where=where) from None
    kinds = {"step": ("step", "kind", "text"), "result": ("request",)}
    wanted = kinds.get(str(event.get("event"))) if isinstance(event, dict) else None
    if wanted is None or any(key not in event for key in wanted):
        raise InputError(
            "not an event of a trace", where=where, hint="give a file that run --trace wrote"
        )
    found: dict[str, Any] = event
    return found


def _run(event: dict[str, Any], steps: list[dict[str, Any]], arguments: str) -> dict[str, Any]:
    end = {name: event[name] for name in _RESULT_KEYS if name in event}
    if isinstance(event.get("seconds"), dict):
        end["seconds"] = event["seconds"].get("total")
    name = event.get("name")
    call = None
    if isinstance(name, str):
        call = {"name": name, "arguments": arguments}
    return {
        "request": str(event["request"]), "steps": steps, "end": end, "call": call,
        "failure": event.get("failure"),
    }  # fmt: skip


def _finite(text: str) -> float:
    """Return a float; numbers beyond its range become the largest finite one."""
    number = float(text)
    return number if abs(number) < float("inf") else 1.7976931348623157e308


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not a JSON value")


def show(
    trace: Annotated[Path, typer.Argument(help="A trace file, as written by run --trace.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The HTML file; default: beside the trace."),
    ] = None,
) -> None:
    """Turn a trace into one HTML file that shows every step; it needs no server and no network."""
    from callmemaybe.server.page import viewer

    target = named_output(output or (trace if is_standard(trace) else trace.with_suffix(".html")))
    runs = read_trace(trace)
    if not is_standard(target) and same_file(trace, target):
        raise InputError("is the trace file itself", where="--output", hint="name another file")
    check_writable(target, "the page")
    write_atomically(target, viewer(runs, title=trace.name))
    summary = f"{target}: {len(runs)} {'prompt' if len(runs) == 1 else 'prompts'}"
    typer.echo(summary, err=is_standard(target))


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(show)
