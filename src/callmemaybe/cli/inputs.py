"""Reads the files that commands are given: functions, prompts, tools, calls, secrets.

Every error names its place: file, line and JSON pointer.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from callmemaybe.cli.files import is_file, read_text, source_name
from callmemaybe.errors import InputError, UnsupportedSchema
from callmemaybe.jsonio import JsonDocument, RawNumber, dumps, join_pointer, parse_number, read
from callmemaybe.tools import ToolSpec, check_distinct

if TYPE_CHECKING:
    from callmemaybe.tools import Tool, ToolCall

_LINES = {".jsonl", ".ndjson"}
_PROMPTS_ARE = 'prompts are [{"prompt": "..."}], ["...", "..."], or one of these items per line'


def read_functions(path: Path) -> tuple[ToolSpec, ...]:
    """Read function definitions in the flat form, in OpenAI's, or in a mixture of both.

    Everything that could not be compiled later is refused here: an empty list, missing or duplicate
    names, unknown types, unsupported schema keywords. Raises InputError.
    """
    text = read_text(path)
    document = read(text, source=source_name(path))
    value = document.value
    if not isinstance(value, list):
        raise InputError(
            f"expected a list of functions, found {kind_of(value)}",
            where=document.place(),
            hint="put the functions between [ and ]",
        )
    if not value:
        raise InputError(
            "the list of functions is empty", where=document.place(), hint="define at least one"
        )
    try:
        tools = tuple(
            ToolSpec.from_json(definition, f"/{index}") for index, definition in enumerate(value)
        )
        check_distinct(tools)
    except InputError as error:
        raise _with_place(error, document, error.where or "") from None
    for index, (tool, definition) in enumerate(zip(tools, value, strict=True)):
        _check_schema(tool, document, f"/{index}", definition)
    return tools


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


def kind_of(value: object) -> str:
    """Name the JSON type of a value, for messages."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")


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


def _check_schema(tool: ToolSpec, document: JsonDocument, pointer: str, definition: object) -> None:
    """Build the grammar of the arguments now, so that unsupported keywords get a place in the file."""
    from callmemaybe.grammar import GroundingSource, json_schema

    try:
        # Closed objects, as in the wire formats; the text to ground in comes with each prompt.
        json_schema(tool.schema, additional=False, ground=GroundingSource("", is_known=False))
    except UnsupportedSchema as error:
        raise _with_place(
            error, document, _file_pointer(tool, definition, pointer, error.pointer)
        ) from None
    except InputError as error:
        raise _with_place(error, document, pointer) from None


def _file_pointer(tool: ToolSpec, definition: object, pointer: str, in_schema: str) -> str:
    """Turn a pointer into a tool's schema into a pointer into the file, for each form of definition."""
    assert isinstance(definition, dict)
    if "function" in definition and "name" not in definition:
        pointer, definition = pointer + "/function", definition["function"]
        assert isinstance(definition, dict)
    key = "parameters" if "parameters" in definition else "inputSchema"
    inner = in_schema.removeprefix("#")
    if definition.get(key) is not tool.parameters:
        # The flat form: its schema was put together from the parameters.
        inner = inner.removeprefix("/properties")
    return f"{pointer}/{key}{inner}"


def _with_place(error: InputError, document: JsonDocument, pointer: str) -> InputError:
    where = document.place("" if pointer == "/" else pointer)
    return InputError(error.message, where=where, hint=error.hint)


def load_tools(path: Path) -> list[Tool]:
    """Return the tools of a Python file, which is imported, or of an OpenAPI document (.json).

    Raises InputError if the file cannot be read or imported, or defines no tools.
    """
    from callmemaybe.tools import tools_from

    if not is_file(path):
        raise InputError("no such file", where=str(path))
    if path.suffix == ".json":
        from callmemaybe.gateway.http import HttpTransport

        return tools_from(_read_json(path, _float_number).value, transport=HttpTransport())
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise InputError("not a Python file", where=str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"cannot be imported ({type(error).__name__}: {error})", where=str(path)
        ) from error
    return tools_from(module)


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


def _float_number(digits: str) -> int | float:
    """Return a number of a tool's definition as int or float: definitions are hashed, without Decimals."""
    value = parse_number(digits)
    return float(value) if isinstance(value, Decimal) else value
