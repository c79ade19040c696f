"""Reads the files that commands are given: prompts, calls, secrets.

Every error names its place: file, line and JSON pointer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from callmemaybe.errors import InputError
from callmemaybe.jsonio import JsonDocument, RawNumber, dumps, join_pointer, parse_number, read
from callmemaybe.sources.definitions import kind_of
from callmemaybe.sources.texts import read_text, source_name

if TYPE_CHECKING:
    from callmemaybe.tools import ToolCall

_LINES = {".jsonl", ".ndjson"}
_PROMPTS_ARE = 'prompts are [{"prompt": "..."}], ["...", "..."], or one of these items per line'


def read_prompts(path: Path, key: str = "prompt") -> list[str]:
    """Read prompts: a list of strings or of objects with one under ``key``, or such items line by line.

    Raises InputError.
    """
    text = read_text(path)
    if path.suffix.lower() in _LINES or text.lstrip(" \t\r\n")[:1] != "[":
        return _prompts_of_lines(text, path, key)
    document = read(text, source=source_name(path))
    assert isinstance(document.value, list)
    return [_prompt(item, document, f"/{index}", key) for index, item in enumerate(document.value)]


def _prompts_of_lines(text: str, path: Path, key: str) -> list[str]:
    if path.suffix.lower() not in _LINES:
        whole = _single_prompt(text, path, key)
        if whole is not None:
            return [_prompt(whole.value, whole, "", key)]
    prompts = []
    # str.splitlines would also split at U+2028, which may stand in a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip(" \t\r"):
            document = read(line.rstrip("\r"), source=source_name(path), first_line=number)
            prompts.append(_prompt(document.value, document, "", key))
    return prompts


def _single_prompt(text: str, path: Path, key: str) -> JsonDocument | None:
    """Return the text as one document if it is a single prompt, None if it is JSON lines.

    Raises InputError for a value that is not a prompt, and for invalid JSON.
    """
    try:
        whole = read(text, source=source_name(path))
    except InputError as error:
        try:
            read(text.lstrip().split("\n", 1)[0], source=source_name(path))
        except InputError:
            # The first line is not JSON either, so the error of the whole text is the one to report.
            raise error from None
        return None
    value = whole.value
    if isinstance(value, str) or (isinstance(value, dict) and key in value):
        return whole
    raise InputError(
        f"expected a list of prompts, found {kind_of(value)}",
        where=whole.place(),
        hint=_PROMPTS_ARE,
    )


def _prompt(item: object, document: JsonDocument, pointer: str, key: str) -> str:
    prompt = item
    if isinstance(item, dict):
        if key not in item:
            hint = f"{_PROMPTS_ARE}; --prompt-key names another key"
            raise InputError(f'the object has no "{key}"', where=document.place(pointer), hint=hint)
        pointer += join_pointer([key])
        prompt = item[key]
    if not isinstance(prompt, str):
        raise InputError(
            f"expected a prompt as a string, found {kind_of(prompt)}",
            where=document.place(pointer),
            hint=_PROMPTS_ARE,
        )
    return prompt


def read_calls(path: Path) -> list[ToolCall]:
    """Read a list of calls: ``{"name", "arguments", "id"}`` or OpenAI's ``tool_calls``.

    Arguments keep their digits. Raises InputError, also for a duplicate key: which value is meant is
    unknown, and the call would run.
    """
    from callmemaybe.tools import ToolCall

    document = _read_json(path, RawNumber)
    if not isinstance(document.value, list):
        raise InputError("expected a list of calls", where=document.place())
    calls = []
    for place, value in enumerate(document.value):
        where = document.place(f"/{place}")
        if not isinstance(value, dict):
            raise InputError("a call must be an object", where=where)
        inner = value.get("function", value)
        name = inner.get("name") if isinstance(inner, dict) else None
        if not isinstance(name, str):
            raise InputError("the call has no name", where=where, hint='add a "name"')
        arguments = inner.get("arguments", inner.get("parameters", {}))
        if not isinstance(arguments, str):
            arguments = dumps(arguments)
        identity = value.get("id")
        calls.append(ToolCall(name, arguments, str(place if identity is None else identity)))
    return calls


def read_secrets(path: Path | None) -> dict[str, str]:
    """Read a JSON object of secrets by name."""
    if path is None:
        return {}
    document = _read_json(path, parse_number)
    value = document.value
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise InputError("expected an object of strings", where=document.place())
    return value


def _read_json(path: Path, number: Callable[[str], object]) -> JsonDocument:
    return read(read_text(path), source=source_name(path), number=number)
