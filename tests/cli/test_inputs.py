"""Bad input is refused with its place and what to do; good input of every form is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from callmemaybe import load_tools
from callmemaybe.cli.inputs import read_prompts
from callmemaybe.errors import InputError

ROOT = Path(__file__).parent.parent.parent
FLAT = {"name": "f", "description": "d", "parameters": {"a": {"type": "number"}}}
OPENAI = {
    "type": "function",
    "function": {"name": "g", "parameters": {"type": "object", "properties": {}}},
}


def functions(tmp_path: Path, text: str) -> str:
    path = tmp_path / "functions.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_tools(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


def prompts(tmp_path: Path, text: str, name: str = "prompts.json") -> list[str]:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_prompts(path)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("", ": the file is empty"),
        ("{}", ":1:1: expected a list of functions, found an object; put the functions between"),
        ('"x"', ":1:1: expected a list of functions, found a string"),
        ("3", ":1:1: expected a list of functions, found a number"),
        ("[]", ":1:1: the list of functions is empty; define at least one"),
        ("[\n  3]", ":2:3 (/0): a function must be a JSON object, not a number"),
        ('[{"description": "x"}]', ":1:2 (/0): the function has no name"),
        ('[{"type": "function", "function": {}}]', ":1:35 (/0/function): the function has no name"),
        ('[{"type": "tool", "function": {"name": "f"}}]', ":1:11 (/0/type): unknown kind of tool"),
        ('[{"name": 3}]', ":1:11 (/0/name): a function's name must be a string, not a number"),
        ('[{"name": ""}]', ":1:11 (/0/name): a function's name must not be empty"),
        ('[{"name": "f"},\n {"name": "f"}]', ":2:11 (/1/name): the name 'f' is used twice"),
        ('[{"name": "f", "parameters": 3}]', ":1:30 (/0/parameters): the parameters must be an object"),
        ('[{"name": "f", "parameters": {"a": 3}}]', ":1:36 (/0/parameters/a): the parameter must be"),
        ('[{"name": "f", "parameters": {"a": {}}}]', ":1:36 (/0/parameters/a): the parameter has no type"),
        ('[{"name": "f", "parameters": {"a": {"type": "nmber"}}}]', ":1:45 (/0/parameters/a/type): "),
        ('[{"name": "f", "parameters": {"a": {"type": "array", "items": {"type": "x"}}}}]',
         ":1:72 (/0/parameters/a/items/type): "),
        ('[{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "nmber"}}}}]',
         ":1:78 (/0/parameters/properties/a/type): "),
        (('[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": '
         '{"a": {"type": "nmber"}}}}}]'), ":1:111 (/0/function/parameters/properties/a/type): "),
        ('[{"name": "f", "parameters": {"type": "string"}}]', ":1:39 (/0/parameters/type): "),
        ('[{"name": "f", "name": "g"}]', ':1:16 (/0/name): the key "name" occurs twice'),
        ('[{"name": "f\\ud800"}]', ":1:13 (/0/name): \\ud800 is half of a surrogate pair"),
        ('[{"name": "f", "parameters": {"type": "object", "properties": {"a": {"divisibleBy": 2}}}}]',
         ":1:85 (/0/parameters/properties/a/divisibleBy): "),
        ('[{"name": "f", "parameters": {"a": {"type": "string", "pattern": "("}}}]',
         ":1:66 (/0/parameters/a/pattern): "),
        ('[{"name": "f", "parameters": {"a": {"type": "integer", "minimum": 3, "maximum": 2}}}]', ":1:30 (/0/parameters): no value meets"),
        ('[{"name": "f", "parameters": {"a": {"$ref": "#/$defs/none"}}}]',
         ":1:45 (/0/parameters/a/$ref): "),
    ],
)  # fmt: skip
def test_bad_functions(tmp_path: Path, text: str, start: str) -> None:
    """Each mistake in the functions gives one line with file, line, column and pointer."""
    message = functions(tmp_path, text)
    assert message.startswith(start), message


@pytest.mark.parametrize(
    "name", ["a b", "fn-ü", "naïve", "日本", "🙂", 'a"b', "a\\b", "a\nb", "<|im_end|>"]
)
def test_odd_names_are_fine(tmp_path: Path, name: str) -> None:
    """A name may be any text that JSON can carry."""
    path = tmp_path / "functions.json"
    path.write_text(json.dumps([{**FLAT, "name": name}]), encoding="utf-8")
    assert load_tools(path).specs[0].name == name


def test_both_forms_mix(tmp_path: Path) -> None:
    """The flat form, OpenAI's and a function without parameters stand in one file, in order."""
    path = tmp_path / "functions.json"
    path.write_text(json.dumps([FLAT, OPENAI, {"name": "h"}, {"name": "i", "parameters": {}}]))
    assert [tool.name for tool in load_tools(path).specs] == ["f", "g", "h", "i"]


def test_the_shipped_examples_are_good() -> None:
    """At least 24 prompts over at least 12 functions ship with the project."""
    assert len(load_tools(ROOT / "data/input/functions_definition.json")) >= 12
    assert len(read_prompts(ROOT / "data/input/function_calling_tests.json")) >= 24


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ('[{"prompt": "a"}, {"prompt": ""}]', "p.json", ["a", ""]),
        ('["a", "b\\n"]', "p.json", ["a", "b\n"]),
        ('[{"prompt": "a", "id": 3}, "b"]', "p.json", ["a", "b"]),
        ("[]", "p.json", []),
        ('{"prompt": "a"}\n{"prompt": "b"}\n', "p.jsonl", ["a", "b"]),
        ('{"prompt": "a"}\r\n\r\n"b"\r\n', "p.jsonl", ["a", "b"]),
        ('{"prompt": "a"}\n"b"', "p.json", ["a", "b"]),
        ('"only"', "p.json", ["only"]),
        ('"line \u2028 separator"\n"b"', "p.jsonl", ["line \u2028 separator", "b"]),
        ('{\n"prompt": "a"\n}', "p.json", ["a"]),
    ],
)
def test_every_form_of_prompts(tmp_path: Path, text: str, name: str, expected: list[str]) -> None:
    """A list of objects, a list of strings and JSON lines say the same."""
    assert prompts(tmp_path, text, name) == expected


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "p.json", ": the file is empty"),
        ('{"prompts": ["a"]}', "p.json", ":1:1: expected a list of prompts, found an object; "),
        ('{\n  "prompts": ["a"]\n}', "p.json", ":1:1: expected a list of prompts, found an object; "),
        ("3", "p.json", ":1:1: expected a list of prompts, found a number; "),
        ("null", "p.json", ":1:1: expected a list of prompts, found null; "),
        ('["a", 3]', "p.json", ":1:7 (/1): expected a prompt as a string, found a number; "),
        ('[{"prompt": null}]', "p.json", ":1:13 (/0/prompt): expected a prompt as a string, found null"),
        ('[\n{"text": "a"}]', "p.json", ':2:1 (/0): the object has no "prompt"; '),
        ('"a"\n{"x": 1}', "p.jsonl", ':2:1: the object has no "prompt"; '),
        ('"a"\n{"prompt": 1}', "p.jsonl", ":2:12 (/prompt): expected a prompt as a string"),
        ('"a"\n{"prompt": "b"', "p.jsonl", ":2:1: the object is never closed"),
        ('{"prompt": "a"},\n{"prompt": "b"}', "p.json", ":1:16: there is more text after the end"),
        ('["a" "b"]', "p.json", ":1:6 (/1): expected a comma or ], found \""),
        ('["\\ud800"]', "p.json", ":1:3 (/0): \\ud800 is half of a surrogate pair"),
    ],
)  # fmt: skip
def test_bad_prompts(tmp_path: Path, text: str, name: str, message: str) -> None:
    """Each mistake in the prompts gives one line with file, line, column and pointer."""
    with pytest.raises(InputError) as caught:
        prompts(tmp_path, text, name)
    assert str(caught.value).removeprefix(str(tmp_path / name)).startswith(message)
    assert "\n" not in str(caught.value)
