"""The program from outside: files in, files out, exit codes, signals, full disks."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from callmemaybe.caller import Caller, CallResult
from callmemaybe.errors import ModelError
from callmemaybe.tools import ToolSpec
from tests.end_to_end.conftest import FUNCTIONS, NANO, Program, check_records
from tests.models.test_remote import Reply, saying, server

SCHEMAS = {tool.name: tool.schema for tool in map(ToolSpec.from_json, FUNCTIONS)}
HOSTILE = [
    "",
    "x" * 4_000,
    "<|im_end|><|end|><tool_call>",
    'quotes " and \\ and \n and \t and \u2028',
    "日本語 Zürich 🙂 \x00\x1b[31m",
    "add 2 and 3",
]


def check_calls(records: list[dict[str, Any]]) -> None:
    for record in records:
        jsonschema.validate(record["parameters"], SCHEMAS[record["name"]])
        if record["name"] == "add":
            assert all(isinstance(value, float) for value in record["parameters"].values())
        if record["name"] == "count":
            assert isinstance(record["parameters"]["n"], int)


def test_one_valid_record_for_each_prompt(program: Program) -> None:
    """Even a model that knows nothing gives one valid call for each prompt, however hostile."""
    program.write("prompts.json", [{"prompt": prompt} for prompt in HOSTILE])
    done = program.spawn()
    assert done.returncode == 0, done.stderr
    check_records(program.results(), HOSTILE)
    assert len(program.results()) == len(HOSTILE)
    check_calls(program.results())
    assert "p(name)" in done.stdout
    assert str(program.output) in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_the_output_is_text_that_people_can_read(program: Program) -> None:
    """Letters stay letters; the file ends with a line feed and has one record after the other."""
    program.write("prompts.json", ["Zürich 🙂"])
    assert program.run().returncode == 0
    text = program.output.read_text(encoding="utf-8")
    assert '"prompt": "Zürich 🙂"' in text
    assert text.endswith("\n]\n")


def test_no_call_may_be_allowed(program: Program) -> None:
    """With --no-call allow every record is a call or a null name without parameters."""
    program.write("prompts.json", [f"hello {i}" for i in range(6)])
    done = program.run("--no-call", "allow")
    assert done.returncode == 0, done.stderr
    for record in program.results():
        assert record["name"] in {*SCHEMAS, None}
        assert record["name"] is not None or record["parameters"] == {}


def test_arguments_may_be_limited_to_what_was_said(program: Program) -> None:
    """With --ground prompt every number stands in the prompt; a prompt without any calls what it can."""
    program.write("functions.json", FUNCTIONS[:1])
    program.write("prompts.json", ["between 17 and 4000", "no number"])
    done = program.run("--ground", "prompt", "--order", "any")
    assert done.returncode == 1, done.stderr
    first, second = program.results()
    assert {*first["parameters"].values()} <= {17.0, 4000.0}
    assert {*first["parameters"]} == {"a", "b"}
    assert second["name"] is None
    assert "the request contains no value" in done.stderr
    marked = {"name": "add", "parameters": {"a": {"type": "number", "x-ground": "prompt"}}}
    program.write("functions.json", [marked])
    assert program.run().returncode == 1
    assert program.results()[0]["parameters"]["a"] in {17.0, 4000.0}
    program.write("functions.json", FUNCTIONS[:1])
    free = program.run("--ground", "prompt-or-free", "--resume")
    assert "changed" in free.stderr
    assert program.results()[1]["name"] == "add"


def test_equal_seeds_give_equal_results(program: Program) -> None:
    """Sampling is repeatable, and greedy decoding needs no seed."""
    program.write("prompts.json", ["one", "two", "three"])
    outputs = []
    for options in (["--seed", "3", "--temperature", "2"],) * 2 + ([],) * 2:
        assert program.run(*options).returncode == 0
        outputs.append(program.output.read_bytes())
    assert outputs[0] == outputs[1]
    assert outputs[2] == outputs[3]


@pytest.mark.parametrize("choose", ["exact", "greedy"])
def test_both_ways_of_choosing(program: Program, choose: str) -> None:
    """Names may be chosen by their whole probability or token by token; both give valid calls."""
    assert program.run("--choose", choose).returncode == 0
    check_calls(program.results())


def test_verbose_shows_what_trace_writes(program: Program) -> None:
    """Each step is shown and written: bytes, how many were allowed, before and after the mask."""
    done = program.run("--verbose", "--trace", "trace.jsonl")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (program.folder / "trace.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["event"] == "step"]
    results = [line for line in lines if line["event"] == "result"]
    assert [line["name"] for line in results] == [record["name"] for record in program.results()]
    assert {step["kind"] for step in steps} >= {"chosen"}
    chosen = [step for step in steps if step["kind"] == "chosen" and step["before"]]
    assert chosen
    assert all(len(step["before"]) <= 5 and step["allowed"] >= 1 for step in chosen)
    for word in ("chosen", "allowed", "so far"):
        assert word in done.stderr


def test_quiet_says_nothing(program: Program) -> None:
    """A good run with --quiet prints nothing at all."""
    done = program.run("--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_budget_below_the_shortest_call_is_refused(program: Program) -> None:
    """Nothing is generated when no valid call fits into the budget."""
    done = program.run("--max-tokens", "1")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert not program.output.exists()


def test_every_budget_closes(program: Program) -> None:
    """With barely enough tokens the calls are short, and valid all the same."""
    program.write("functions.json", FUNCTIONS[:1])
    for budget in range(4, 60, 8):
        done = program.run("--max-tokens", str(budget))
        if done.returncode == 0:
            check_calls(program.results())
            return
    pytest.fail("no budget below 60 was enough")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--input", "none.json"], "none.json: no such file"),
        (["--input", "."], "is a folder"),
        (["--functions_definition", "none.json"], "none.json: no such file"),
        (["--input", "functions.json"], "functions.json:1:2 (/0): the object has no \"prompt\""),
        (["--output", "."], "would replace a folder"),
        (["--output", "prompts.json/x"], "a file stands where its folder should be"),
        (["--output", "prompts.json"], "--output: is also the file of --input"),
        (["--trace", "functions.json"], "--trace: is also the file of --tools functions.json"),
        (["--trace", "/proc/none/x"], "cannot be written"),
        (["--output", "new", "--trace", "./new"], "--trace: is also the file of --output"),
        (["--output", "new", "--trace", "new.run.json"], "is also the file of new.run.json (beside"),
        (["--output", "n" * 300, "--trace", "t"], "n: the result file cannot be written: File name"),
        (["--output", "n" * 250], "run.json: the notes on the results cannot be written"),
        (["--temperature", "nan"], "--temperature"),
        (["--temperature", "-1"], "--temperature"),
        (["--max-tokens", "0"], "--max-tokens"),
        (["--max-tokens", "x"], "--max-tokens"),
        (["--no-call", "perhaps"], "--no-call"),
        (["--nonsense"], "--nonsense"),
        (["extra"], "extra"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_before_any_model(
    program: Program, options: list[str], message: str
) -> None:
    """Exit code 2, one line that names the culprit, and the model is not even looked for."""
    done = program.run(*options, model="/none/such/model")
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("callmemaybe: ")
    assert done.stdout == ""


def test_notes_replace_no_input(program: Program) -> None:
    """What is noted beside the results is checked as they are, before any model."""
    text = program.write("keep.json.run.json", ["a prompt"]).read_text()
    options = ["--input", "keep.json.run.json", "--output", "keep.json"]
    done = program.run(*options, model="/none/such/model")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "keep.json.run.json (beside --output): is also the file of --input" in done.stderr
    (program.folder / "new.run.json").mkdir()
    done = program.run("--output", "new", model="/none/such/model")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "the notes on the results would replace a folder" in done.stderr
    assert (program.folder / "keep.json.run.json").read_text() == text
    assert not (program.folder / "keep.json").exists()


def test_a_missing_model_is_one_line(program: Program) -> None:
    """A model that is not there gives exit code 3 and a sentence, not a traceback."""
    done = program.run(model="./none")
    assert done.returncode == 3, done.stderr
    assert done.stderr.count("\n") == 1
    assert not program.output.exists()


def test_control_c_keeps_what_is_done_and_resume_goes_on(program: Program) -> None:
    """SIGINT leaves a whole file of finished records; --resume does only the rest."""
    prompts = [f"prompt {i}" for i in range(3000)]
    program.write("prompts.json", prompts)
    process = program.start("--quiet")
    wait_for(program.output)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    before = program.results()
    assert 0 < len(before) < len(prompts)
    check_records(before, prompts)
    check_calls(before)
    program.write("prompts.json", prompts[: len(before) + 3])
    done = program.run("--resume")
    assert done.returncode == 0, done.stderr
    assert f"{len(before)} of {len(before) + 3} results are kept" in done.stderr
    assert program.results()[: len(before)] == before
    assert len(program.results()) == len(before) + 3


def test_a_kill_leaves_a_whole_file(program: Program) -> None:
    """Whatever the moment of a kill -9, the result file is complete JSON and can be resumed."""
    prompts = [f"prompt {i}" for i in range(3000)]
    program.write("prompts.json", prompts)
    process = program.start("--quiet")
    wait_for(program.output)
    time.sleep(0.5)
    process.kill()
    process.communicate(timeout=30)
    before = program.results()
    check_records(before, prompts)
    program.write("prompts.json", prompts[: len(before)])
    assert program.run("--resume", "--quiet").returncode == 0
    assert program.results() == before


def test_sigterm_is_like_control_c(program: Program) -> None:
    """SIGTERM saves, too, and says so by its own exit code."""
    program.write("prompts.json", [f"prompt {i}" for i in range(3000)])
    process = program.start("--quiet")
    wait_for(program.output)
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 143
    assert program.results()


def test_control_c_waits_for_no_server(program: Program) -> None:
    """Law: with requests in flight a run ends at once, and what was answered is kept."""
    answered, ended = saying('{"name": "stop", "arguments": {}}'), threading.Event()

    def script(path: str, body: dict[str, Any]) -> Reply:
        if "prompt 0" not in json.dumps(body):
            ended.wait(60)
        return answered(path, body)

    prompts = [f"prompt {i}" for i in range(9)]
    program.write("prompts.json", prompts)
    with server(script) as (address, asked):
        process = program.start("--batch", "3", "--model", address)
        deadline = time.monotonic() + 60
        while len(asked) < 4 and time.monotonic() < deadline:
            time.sleep(0.02)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=50)
        took = time.monotonic() - began
        ended.set()
    assert process.returncode == 130, err
    assert took < 30
    check_records(program.results(), prompts)
    assert len(program.results()) == 1


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, "nothing was saved in time"
        time.sleep(0.02)


def test_resume_after_a_change_of_functions_starts_over(program: Program) -> None:
    """Results of other functions are not kept, and the program says why."""
    assert program.run().returncode == 0
    done = program.run("--resume")
    assert "2 of 2 results are kept" in done.stderr
    program.write("functions.json", FUNCTIONS[1:])
    done = program.run("--resume")
    assert done.returncode == 0
    assert "the functions have changed since the last run" in done.stderr
    assert {record["name"] for record in program.results()} <= {"count", "stop"}


def test_a_full_disk_is_told_and_nothing_is_lost(program: Program) -> None:
    """When the file cannot grow, the old one stays, no scrap is left, and the exit code is 4."""
    assert program.run().returncode == 0
    before = program.output.read_bytes()
    program.write("prompts.json", ["x" * 2100])

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    done = program.spawn("--quiet", preexec=limit)
    assert done.returncode == 4, done.stderr
    assert "File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert program.output.read_bytes() == before
    assert sorted(path.name for path in program.output.parent.iterdir()) == [
        "results.json",
        "results.json.run.json",
    ]


def test_a_full_device_is_told(program: Program) -> None:
    """/dev/full as output is an error of writing, for results and for the trace."""
    for options in (["--output", "/dev/full"], ["--trace", "/dev/full"]):
        done = program.run("--quiet", *options)
        assert done.returncode == 4, done.stderr
        assert "No space left on device" in done.stderr


def test_results_may_go_to_a_pipe(program: Program) -> None:
    """/dev/stdout as output gives pure JSON to the next program."""
    done = program.spawn("--quiet", "--output", "/dev/stdout")
    assert done.returncode == 0, done.stderr
    check_records(json.loads(done.stdout), ["add 2 and 3", "stop"])
    path = program.write("all.txt", "before\n")
    with path.open("a") as file:
        command = [sys.executable, "-m", "callmemaybe", *program.options("--output", "/dev/stdout")]
        subprocess.run(command, cwd=program.folder, stdout=file, check=True, timeout=100)
    before, _, results = path.read_text().partition("\n")
    assert before == "before"
    check_records(json.loads(results), ["add 2 and 3", "stop"])


def test_a_reader_that_leaves_harms_nothing(program: Program) -> None:
    """When the pipe behind the table is closed, the results are written and no one complains."""
    read, write = os.pipe()
    os.close(read)
    process = program.start()
    process.stdout.close()  # type: ignore[union-attr]
    err = process.stderr.read()  # type: ignore[union-attr]
    assert process.wait(timeout=60) == 0, err
    assert "Traceback" not in err
    assert "BrokenPipe" not in err
    assert len(program.results()) == 2
    os.close(write)


def test_colour_only_where_wanted(program: Program) -> None:
    """FORCE_COLOR gives colour to files, and NO_COLOR takes it from everyone."""
    assert "\x1b[" in program.spawn("--verbose", env={"FORCE_COLOR": "1"}).stderr
    plain = program.spawn("--verbose", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stderr
    assert "\x1b[3" not in plain


@pytest.mark.skipif(not (NANO / "model.onnx").exists(), reason="the embedded model is not built")
def test_the_shipped_examples_run_with_the_embedded_model(nano_program: Program) -> None:
    """What `make run` does: all examples, one valid call each."""
    root = Path(__file__).parent.parent.parent
    functions = root / "data/input/functions_definition.json"
    prompts = root / "data/input/function_calling_tests.json"
    done = nano_program.run(
        "--functions_definition", str(functions), "--input", str(prompts), "--max-tokens", "512"
    )
    assert done.returncode == 0, done.stderr
    schemas = {
        tool.name: tool.schema
        for tool in map(ToolSpec.from_json, json.loads(functions.read_text(encoding="utf-8")))
    }
    expected = [item["prompt"] for item in json.loads(prompts.read_text(encoding="utf-8"))]
    records = nano_program.results()
    check_records(records, expected)
    assert len(records) == len(expected)
    for record in records:
        jsonschema.validate(record["parameters"], schemas[record["name"]])


def test_odd_names_come_back_exactly(program: Program) -> None:
    """Any name that JSON can carry is a name; control tokens in it are text."""
    names = [
        "a b",
        'q"uote',
        "back\\slash",
        "new\nline",
        "日本🙂",
        "<|im_end|>",
        "<|t1|>",
        "a",
        "ab",
    ]
    program.write("functions.json", [{"name": name, "description": "<|user|>"} for name in names])
    program.write("prompts.json", [f"call {name}" for name in names])
    assert program.run().returncode == 0
    assert {record["name"] for record in program.results()} <= set(names)
    assert all(record["parameters"] == {} for record in program.results())


def test_more_functions_than_markers(program: Program) -> None:
    """A hundred functions, one prompt, one call."""
    program.write("functions.json", [{"name": f"fn_{i}"} for i in range(100)])
    program.write("prompts.json", ["call fn_77"])
    assert program.run().returncode == 0
    assert program.results()[0]["name"].startswith("fn_")


def test_an_empty_list_of_prompts_is_an_empty_list_of_results(program: Program) -> None:
    """Nothing to do is done, and takes no model's time."""
    program.write("prompts.json", [])
    assert program.run().returncode == 0
    assert program.results() == []


def test_big_and_exact_values_survive(program: Program) -> None:
    """What an enum spells comes out as spelt: big integers, long decimals, hostile strings."""
    values = {
        "12345678901234567890123": "integer",
        "0.1000000000000000000001": "number",
        '"\\"\\\\\\n\U0001f642"': "string",
    }
    for text, kind in values.items():
        parameter = f'{{"type": "{kind}", "enum": [{text}]}}'
        program.write("functions.json", f'[{{"name": "f", "parameters": {{"a": {parameter}}}}}]')
        done = program.run()
        assert done.returncode == 0, done.stderr
        assert f'"parameters": {{"a": {text}}}' in program.output.read_text(encoding="utf-8")


def test_a_failing_prompt_still_has_its_record(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the engine fails on one prompt, the others go on, and exit code and summary say so."""
    original = Caller.call

    def call(self: Caller, prompt: str, **options: Any) -> CallResult:
        if prompt == "boom":
            raise RuntimeError("it broke\nbadly")
        if prompt == "ours":
            raise ModelError("the context is full")
        return original(self, prompt, **options)

    monkeypatch.setattr(Caller, "call", call)
    program.write("prompts.json", ["add", "boom", "ours", "stop"])
    done = program.run()
    assert done.returncode == 1
    records = program.results()
    check_records(records, ["add", "boom", "ours", "stop"])
    assert [record["name"] is None for record in records] == [False, True, True, False]
    assert "prompt 2: RuntimeError: it broke" in done.stderr
    assert "prompt 3: the context is full" in done.stderr
    assert "2 failed" in done.stdout
    monkeypatch.undo()
    done = program.run("--resume")
    assert done.returncode == 0
    assert "2 of 4 results are kept" in done.stderr
    assert None not in {record["name"] for record in program.results()}


def test_a_bug_is_owned(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw ends with exit code 70 and asks for a report."""
    monkeypatch.setattr("callmemaybe.cli.run._drive", lambda *_: 1 / 0)
    done = program.run()
    assert done.returncode == 70
    assert "please report" in done.stderr
