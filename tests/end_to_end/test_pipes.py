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
    monkeypatch.setattr(batch, "_SAVE_AT_MOST_EVERY", 0.0)
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
