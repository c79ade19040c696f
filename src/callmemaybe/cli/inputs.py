"""The two input files of a batch: function definitions and prompts, with the place of every error."""

from __future__ import annotations

from pathlib import Path

from callmemaybe.cli.files import read_text, source
from callmemaybe.errors import InputError, UnsupportedSchema
from callmemaybe.jsonio.reader import Document, read
from callmemaybe.tools import ToolSpec, check_distinct

_LINES = {".jsonl", ".ndjson"}
_PROMPTS_ARE = 'prompts are [{"prompt": "..."}], ["...", "..."], or one of these items per line'


def read_functions(path: Path) -> tuple[ToolSpec, ...]:
    """Read function definitions: the exercise's flat form and OpenAI's, also mixed.

    Everything a model would later trip over is refused here, with file, line and JSON pointer:
    among others an empty list, missing or duplicate names, unknown types and schema keywords that
    cannot be promised. Raises InputError.
    """
    text = read_text(path)
    document = read(text, source=source(path))
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
        raise _placed(error, document, error.where or "") from None
    for index, (tool, definition) in enumerate(zip(tools, value, strict=True)):
        _check_schema(tool, document, f"/{index}", definition)
    return tools


def read_prompts(path: Path) -> list[str]:
    """Read prompts: a list of strings or of objects with a "prompt", or such items line by line.

    Raises InputError with file, line and JSON pointer.
    """
    text = read_text(path)
    if path.suffix.lower() in _LINES or text.lstrip(" \t\r\n")[:1] != "[":
        return _prompts_of_lines(text, path)
    document = read(text, source=source(path))
    assert isinstance(document.value, list)
    return [_prompt(item, document, f"/{index}") for index, item in enumerate(document.value)]


def kind_of(value: object) -> str:
    """Name the JSON type of a value, for messages."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")


def _prompts_of_lines(text: str, path: Path) -> list[str]:
    if path.suffix.lower() not in _LINES:
        whole = _whole(text, path)
        if whole is not None:
            return [_prompt(whole.value, whole, "")]
    prompts = []
    # str.splitlines would also split at U+2028, which may stand in a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip(" \t\r"):
            document = read(line.rstrip("\r"), source=source(path), first_line=number)
            prompts.append(_prompt(document.value, document, ""))
    return prompts


def _whole(text: str, path: Path) -> Document | None:
    """Return the text as one value if it is one prompt, None if it is lines.

    Raises InputError for a value that is no prompt, and for what is neither.
    """
    try:
        whole = read(text, source=source(path))
    except InputError as error:
        try:
            read(text.lstrip().split("\n", 1)[0], source=source(path))
        except InputError:
            # Its first line is no JSON either: what is wrong is what is wrong with the whole.
            raise error from None
        return None
    value = whole.value
    if isinstance(value, str) or (isinstance(value, dict) and "prompt" in value):
        return whole
    raise InputError(
        f"expected a list of prompts, found {kind_of(value)}",
        where=whole.place(),
        hint=_PROMPTS_ARE,
    )


def _prompt(item: object, document: Document, pointer: str) -> str:
    prompt = item
    if isinstance(item, dict):
        if "prompt" not in item:
            raise InputError(
                'the object has no "prompt"', where=document.place(pointer), hint=_PROMPTS_ARE
            )
        pointer += "/prompt"
        prompt = item["prompt"]
    if not isinstance(prompt, str):
        raise InputError(
            f"expected a prompt as a string, found {kind_of(prompt)}",
            where=document.place(pointer),
            hint=_PROMPTS_ARE,
        )
    return prompt


def _check_schema(tool: ToolSpec, document: Document, pointer: str, definition: object) -> None:
    """Build the grammar of the arguments now, so that what it refuses has a place in the file."""
    from callmemaybe.grammar import Ground, json_schema

    try:
        # Closed objects, as the wire formats have them; what will be said comes with the prompts.
        json_schema(tool.schema, additional=False, ground=Ground("", is_known=False))
    except UnsupportedSchema as error:
        raise _placed(error, document, _in_file(tool, definition, pointer, error.pointer)) from None
    except InputError as error:
        raise _placed(error, document, pointer) from None


def _in_file(tool: ToolSpec, definition: object, pointer: str, in_schema: str) -> str:
    """Turn a pointer into a tool's schema into one into the file, for each form of definition."""
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


def _placed(error: InputError, document: Document, pointer: str) -> InputError:
    where = document.place("" if pointer == "/" else pointer)
    return InputError(error.message, where=where, hint=error.hint)
