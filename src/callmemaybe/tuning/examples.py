"""Requests with the calls they mean, as a user writes them down: one JSON object a line.

::

    {"prompt": "a table for four at Luigi's", "expected": {"name": "book_table", "arguments": {"people": 4, "place": "Luigi's"}}}
    {"prompt": "how are you", "expected": null}

The keys are those of the cases of ``callmemaybe eval``: null says that no function fits, and a list of calls with ``"all": true`` that
all of them are wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.jsonio import JsonDocument, join_pointer, read
from callmemaybe.tools import ToolSpec
from callmemaybe.tools.schemas import validator_for

_KEYS = ("prompt", "expected", "id", "tags", "functions", "compare", "all")
_EXAMPLE_IS = '{"prompt": "...", "expected": {"name": "...", "arguments": {...}} or null}'


@dataclass(frozen=True, slots=True)
class ExampleCall:
    """A call that a request means; ``arguments`` are JSON values."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Example:
    """A request with the calls that it means; none: no function fits."""

    prompt: str
    calls: tuple[ExampleCall, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the line of a file of examples."""
        calls = [{"name": one.name, "arguments": dict(one.arguments)} for one in self.calls]
        if len(calls) > 1:
            return {"prompt": self.prompt, "expected": calls, "all": True}
        return {"prompt": self.prompt, "expected": calls[0] if calls else None}


def parse_examples(text: str, source: str, tools: Sequence[ToolSpec]) -> list[Example]:
    """Read JSON lines; raise InputError with file, line and JSON pointer, also for a call that its function refuses."""
    found = []
    checks = _Checks(tools)
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip(" \t\r"):
            document = read(line.rstrip("\r"), source=source, first_line=number)
            found.append(checks.example(document))
    return found


def check_examples(examples: Iterable[Example], tools: Sequence[ToolSpec]) -> list[Example]:
    """Check examples made in Python as :func:`parse_examples` checks lines; raise InputError."""
    checks = _Checks(tools)
    found = []
    for number, example in enumerate(examples):
        problem = checks.problem_of(example)
        if problem is not None:
            raise InputError(problem[1], where=f"examples[{number}]{problem[0]}")
        found.append(example)
    return found


def _error(document: JsonDocument, pointer: str, problem: str, hint: str | None) -> InputError:
    return InputError(problem, where=document.place(pointer), hint=hint)


class _Checks:
    """What an example must meet, by function."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._validators: dict[str, Any] = {}

    def example(self, document: JsonDocument) -> Example:
        """Return the example that a line holds."""
        value = document.value
        if not isinstance(value, Mapping):
            raise _error(document, "", "an example must be an object", _EXAMPLE_IS)
        for key in ("prompt", "expected"):
            if key not in value:
                raise _error(document, "", f'the example has no "{key}"', _EXAMPLE_IS)
        for key in value:
            if key not in _KEYS:
                raise _error(
                    document, join_pointer([key]), "no such key of an example", _EXAMPLE_IS
                )
        prompt = value["prompt"]
        if not isinstance(prompt, str) or not prompt.strip():
            raise _error(document, "/prompt", "the prompt must be a text", "write what a user says")
        expected = value["expected"]
        several = isinstance(expected, list)
        if several and value.get("all") is not True:
            raise _error(
                document, "/expected", "a list of calls is all wanted, or alternatives",
                'say "all": true, or give one call',
            )  # fmt: skip
        calls = expected if several else [] if expected is None else [expected]
        example = Example(prompt, tuple(
            self._call(one, f"/expected/{index}" if several else "/expected", document)
            for index, one in enumerate(calls)
        ))  # fmt: skip
        problem = self.problem_of(example)
        if problem is not None:
            pointer = problem[0] if several else problem[0].replace("/expected/0", "/expected", 1)
            raise _error(document, pointer, problem[1], "correct the example, or leave it out")
        return example

    def _call(self, value: object, pointer: str, document: JsonDocument) -> ExampleCall:
        if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
            raise _error(
                document, pointer, "this is no call", '{"name", "arguments"}, or null for no call'
            )
        arguments = value.get("arguments", {})
        if not isinstance(arguments, Mapping):
            raise _error(document, f"{pointer}/arguments", "the arguments must be an object", None)
        return ExampleCall(value["name"], arguments)

    def problem_of(self, example: Example) -> tuple[str, str] | None:
        """Return a JSON pointer and what is wrong there; None if nothing is."""
        for index, call in enumerate(example.calls):
            where = f"/expected/{index}"
            tool = self._tools.get(call.name)
            if tool is None:
                offered = ", ".join(list(self._tools)[:5])
                return f"{where}/name", f"no function {call.name!r} is offered ({offered})"
            unknown = [
                key for key in call.arguments if key not in tool.schema.get("properties", {})
            ]
            if unknown and tool.schema.get("additionalProperties") in {None, False}:
                at = join_pointer([unknown[0]])
                return f"{where}/arguments{at}", f"{call.name!r} has no parameter {unknown[0]!r}"
            error = self._validator(tool).first_error(dict(call.arguments))
            if error is not None:
                return (
                    f"{where}/arguments{join_pointer(error.instance_path)}",
                    f"{call.name!r} does not take this: {error.message}",
                )
        return None

    def _validator(self, tool: ToolSpec) -> Any:
        if tool.name not in self._validators:
            self._validators[tool.name] = validator_for(tool.schema)
        return self._validators[tool.name]
