"""The command `call`: one request, its call, and with --run what it returns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from callmemaybe.cli.chat import call_line
from callmemaybe.cli.main import app, main
from callmemaybe.generation.result import CallResult
from callmemaybe.tools import ToolCall

TOOLS = '''\
from callmemaybe import tool

@tool(effect="read")
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b

@tool
def pay(amount: float, to: str) -> str:
    """Pay somebody money."""
    return f"paid {amount} to {to}"
'''
ADD = {"name": "add", "description": "Add two numbers.",
       "parameters": {"a": {"type": "number"}, "b": {"type": "number"}}}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of each kind."""
    monkeypatch.chdir(tmp_path)
    Path("functions.json").write_text(json.dumps([ADD]))
    Path("tools_to_call.py").write_text(TOOLS)
    return tmp_path


def call(*arguments: str, text: str = "") -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["call", *arguments], input=text)


def test_a_request_becomes_a_call() -> None:
    """An argument, standard input and a file are the same request; one line comes out."""
    Path("request.txt").write_text("Add 2 and 3\n")
    tools = ("--tools", "functions.json")
    outs = [
        call("Add 2 and 3", *tools),
        call(*tools, text="Add 2 and 3\n"),
        call("-", *tools, text="Add 2 and 3\n"),
        call("--input", "request.txt", *tools),
    ]
    assert [(one.exit_code, one.stdout) for one in outs] == [(0, 'add({"a":2,"b":3})\n')] * 4


def test_json_is_one_object() -> None:
    """--json prints name, arguments, the probability of the name and that of the whole call."""
    data = json.loads(call("Add 2 and 3", "--tools", "functions.json", "--json").stdout)
    assert (data["name"], data["arguments"]) == ("add", {"a": 2, "b": 3})
    assert 0.5 < data["name_probability"] <= 1
    assert 0.5 < data["confidence"] <= 1


def test_a_line_says_how_sure_the_whole_call_is() -> None:
    """Beside a call stands how likely it is right; of models that do not tell, only how likely its function is."""
    add = ToolCall("add", '{"a":2,"b":3}')
    assert call_line(add) == 'add({"a":2,"b":3})'
    assert call_line(add, CallResult(add)) == call_line(add)
    named = CallResult(add, name_probability=0.97)
    assert call_line(add, named) == f"{call_line(add)}   (97% sure of the function)"
    whole = CallResult(add, name_probability=0.97, confidence=0.61)
    assert call_line(add, whole) == f"{call_line(add)}   (61% sure)"


def test_no_function_fits() -> None:
    """What no function does is no call, and exit code 1."""
    done = call("Paint the fence green", "--tools", "functions.json", "--json")
    assert (done.exit_code, json.loads(done.stdout)["call"]) == (1, None)


def test_a_call_that_no_grammar_could_hold_to_its_schema(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Items that differ are a call with a remark; items that repeat are none, one sentence and exit code 1."""
    tags = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    tag = {"name": "tag", "description": "Tag an item.", "parameters": {"tags": tags}}
    Path("tag.json").write_text(json.dumps([tag]))
    done = call("Tag the item with red and blue", "--tools", "tag.json")
    assert (done.exit_code, done.stdout) == (0, 'tag({"tags":["red","blue"]})\n')
    assert "checked in the finished call of 'tag'" in done.stderr
    with pytest.raises(SystemExit) as ended:
        main(["call", "Tag the item with red and red", "--tools", "tag.json"])
    told = capsys.readouterr()
    assert (ended.value.code, told.out) == (1, "")
    assert 'at /tags: ["red","red"] has non-unique elements' in told.err


def test_a_call_is_run_or_waits() -> None:
    """What --yes allows is run and its result printed; other calls wait, with what to type to go on."""
    tools = ("--tools", "tools_to_call.py", "--run", "--yes", "read")
    done = call("Add 2 and 3", *tools)
    assert (done.exit_code, json.loads(done.stdout)) == (0, 5)
    waits = call("Pay 20 euros to Ada", *tools)
    assert waits.exit_code == 1
    assert "paid" not in waits.output
    assert "approvals approve" in waits.stderr
    assert "--tools tools_to_call.py" in waits.stderr


def test_definitions_cannot_be_run() -> None:
    """--run of a function that is only defined is refused before a model is asked."""
    done = call("Add 2 and 3", "--tools", "functions.json", "--run")
    assert "functions.json: it only defines add" in str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Add 2 and 3",), "no functions are named"),
        (("", "--tools", "functions.json"), "the request is empty"),
        (("x" * 1_000_001, "--tools", "functions.json"), "1,000,001 characters"),
        (("x", "--input", "f", "--tools", "functions.json"), "the request is given, too"),
        (("x", "--tools", "nope.json"), "nope.json: no such file"),
        (("x", "--tools", "functions.json", "--yes", "everything"), "everything"),
    ],
)
def test_mistakes_are_told(arguments: tuple[str, ...], said: str) -> None:
    """A request without text or functions is one sentence."""
    assert said in str(call(*arguments).exception)


def test_run_and_check_take_the_same_sources() -> None:
    """`run` and `check` name tools as `call` does."""
    Path("prompts.jsonl").write_text('"Add 2 and 3"\n')
    done = CliRunner().invoke(
        app, ["run", "--tools", "tools_to_call.py", "--only", "add", "-i", "prompts.jsonl",
              "-o", "calls.jsonl", "--quiet"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    row = json.loads(Path("calls.jsonl").read_text())
    assert (row["name"], row["parameters"]) == ("add", {"a": 2, "b": 3})
    done = CliRunner().invoke(app, ["check", "--tools", "tools_to_call.py", "--json"])
    assert [one["function"] for one in json.loads(done.stdout)["functions"]] == ["add", "pay"]


def test_a_run_that_names_nothing_says_what_to_name() -> None:
    """Away from the examples, `run` names the options that are missing, and only those."""
    Path("prompts.json").write_text('["Add 2 and 3"]')

    def said(*arguments: str) -> str:
        return str(CliRunner().invoke(app, ["run", "-o", "calls.json", *arguments]).exception)

    assert said().endswith("; name your functions with --tools and your prompts with --input")
    assert said("--tools", "functions.json").endswith("; name your prompts with --input")
    assert said("--input", "prompts.json").endswith("; name your functions with --tools")
    assert "nope.json: no such file" in said("--tools", "functions.json", "--input", "nope.json")


def test_the_program_alone_says_where_to_begin() -> None:
    """Without a command it shows one request, and where the rest is."""
    done = CliRunner().invoke(app, [])
    assert done.exit_code == 0
    assert "callmemaybe call" in done.stdout
    assert "--help" in done.stdout
