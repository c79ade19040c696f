"""Read a trace file back: the runs it holds, each with its steps and what became of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from callmemaybe.cli.files import read_text
from callmemaybe.errors import InputError
from callmemaybe.jsonio.writer import dumps, loads

_FACTS = ("distribution", "passes", "forced", "chosen")


def read_trace(path: Path) -> list[dict[str, Any]]:
    """Return the runs of a trace, in the order of the file.

    Each is ``{"request", "steps", "end", "call", "failure"}``; a prompt whose result is missing,
    because the run was stopped, is left out. Raises InputError naming the line that is no trace.
    """
    # Those of several prompts take turns.
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
            # The digits of arguments are not to be rounded.
            exact = loads(line).get("parameters")
            runs.append(_run(event, steps.pop(prompt, []), dumps(exact or {})))
    if not runs:
        raise InputError("it holds no finished prompt", where=str(path), hint="run it to the end")
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
            "this is no event of a trace", where=where, hint="give a file that run --trace wrote"
        )
    found: dict[str, Any] = event
    return found


def _run(event: dict[str, Any], steps: list[dict[str, Any]], arguments: str) -> dict[str, Any]:
    end = {name: event[name] for name in _FACTS if name in event}
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
    """Numbers beyond a float's range are shown as the largest there is."""
    number = float(text)
    return number if abs(number) < float("inf") else 1.7976931348623157e308


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not a JSON value")
