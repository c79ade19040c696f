"""Prompts from standard input, calls to standard output: `run` as a part of a pipeline."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from callmemaybe.cli import batch
from tests.end_to_end.conftest import Program, check_records

PROMPTS = ["add 2 and 3", "Zürich 🙂", "stop"]


def test_standard_output_holds_the_results_alone(program: Program) -> None:
    """The table goes to standard error, and nothing is written beside."""
    program.write("prompts.json", PROMPTS)
    assert program.run().returncode == 0
    wanted = program.output.read_text(encoding="utf-8")
    before = sorted(program.folder.iterdir())
    done = program.run("--output", "-")
    assert done.returncode == 0, done.stderr
    assert done.stdout == wanted
    check_records(json.loads(done.stdout), PROMPTS)
    assert "p(name)" in done.stderr
    assert "Results: standard output" in done.stderr
    assert sorted(program.folder.iterdir()) == before


def test_prompts_come_from_standard_input(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a list or line by line; what is wrong is said of standard input."""
    for text in (json.dumps(PROMPTS), "\n".join(map(json.dumps, PROMPTS))):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert program.run("--input", "-").returncode == 0
        check_records(program.results(), PROMPTS)
    for text, told in (
        ("[1]", "standard input:1:2 (/0): expected a prompt"),
        ("", "standard input: nothing was read"),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        done = program.run("--input", "-")
        assert done.returncode == 2
        assert told in done.stderr


def test_a_pipe_is_written_once(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a run takes: what is saved now and then in a file would be doubled in a pipe."""
    monkeypatch.setattr(batch, "_MIN_SAVE_INTERVAL", 0.0)
    monkeypatch.setattr(batch, "_SAVING_SHARE", 1e9)
    program.write("prompts.json", PROMPTS)
    assert json.loads(program.run("--output", "-").stdout)
    pipe = program.folder / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        assert program.run("--output", str(pipe)).returncode == 0
        check_records(json.loads(reader.communicate(timeout=60)[0]), PROMPTS)


def test_a_reader_that_is_gone_is_no_traceback(program: Program) -> None:
    """`callmemaybe run --output - | true` ends with one sentence."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "callmemaybe", *program.options("--output", "-")],
        cwd=program.folder, stdout=write, stderr=subprocess.PIPE, text=True, check=False, timeout=100,
    )  # fmt: skip
    os.close(write)
    assert done.returncode == 4, done.stderr
    assert "standard output: cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert not Path(program.folder / "-").exists()


def redirected(
    program: Program, redirection: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the program as a shell does with ``redirection``; "Grüße" and an end are what it may read."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "callmemaybe"]
    return subprocess.run(
        [*command, *arguments], cwd=program.folder, capture_output=True, encoding="utf-8", check=False,
        timeout=100, input="Grüße\n/quit\n", env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_takes_nothing_is_no_bug(program: Program, unbuffered: str) -> None:
    """A full device is one sentence and exit code 4, whatever was to be written there."""
    refused = "callmemaybe: standard output: cannot be written: No space left on device\n"
    done = redirected(program, ">/dev/full", "--version", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (4, refused)
    done = redirected(program, ">/dev/full", *program.options(), PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, refused in done.stderr) == (4, True), done.stderr
    assert "Traceback" not in done.stderr
    assert len(program.results()) == 2
    if not unbuffered:  # standard error never is buffered
        done = redirected(program, "2>/dev/full", *program.options("--verbose"))
        assert done.returncode == 4
        assert program.results()


def test_streams_may_be_closed(program: Program) -> None:
    """What cannot be read or told is known before any model; what can is written all the same."""
    done = redirected(program, "<&-", *program.options("--input", "-"))
    assert (done.returncode, done.stderr) == (2, "callmemaybe: standard input: nothing was read\n")
    done = redirected(program, ">&-", *program.options("--output", "-", "--model", "/none/such"))
    told = "callmemaybe: standard output: cannot be written: it is closed\n"
    assert (done.returncode, done.stderr) == (4, told)
    done = redirected(program, "2>&-", *program.options("--output", "-"))
    assert done.returncode == 0
    check_records(json.loads(done.stdout), ["add 2 and 3", "stop"])
    done = redirected(program, "<&- >&- 2>&-", *program.options())
    assert (done.returncode, len(program.results())) == (0, 2)


def test_no_letter_ends_the_program(program: Program) -> None:
    """What an encoding has no letter for is shown, and read, as an escape."""
    program.write("prompts.json", PROMPTS)
    done = redirected(program, "", *program.options(), PYTHONIOENCODING="ascii")
    assert (done.returncode, "\\U0001f642" in done.stdout) == (0, True), done.stderr
    check_records(program.results(), PROMPTS)
    tools = program.write("tools.py", 'def stop() -> str:\n    """Stop."""\n    return \'x\'\n')
    arguments = ["chat", "--tools", str(tools), "--db", ":memory:", "--model", program._model]
    done = redirected(program, "", *arguments, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_leaves_changes_no_exit_code(program: Program) -> None:
    """`| head` is nobody's failure: what was begun goes on, and the code says what became of it."""
    program.write(
        "tools.py",
        "from callmemaybe.tools import tool\n\n\n"
        '@tool(effect="pure")\n'
        "def half(n: int) -> int:\n"
        '    """Halve."""\n'
        "    return 4 // n\n",
    )
    read, write = os.pipe()
    os.close(read)
    for calls, *arguments in (
        ([2], "exec", "calls.json", "--tools", "tools.py"),
        ([0], "exec", "calls.json", "--tools", "tools.py"),
        ([2], "audit", "verify"),
        ([2], "formats"),
        ([2], "--help"),
    ):
        program.write("calls.json", [{"name": "half", "arguments": {"n": n}} for n in calls])
        done = subprocess.run(
            [sys.executable, "-m", "callmemaybe", *arguments],
            cwd=program.folder, stdout=write, stderr=subprocess.PIPE, text=True, check=False, timeout=100,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (int(calls == [0]), ""), arguments
    os.close(write)
