"""The forms of results, and what is shown of them."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Program


def test_every_form_holds_the_same_results(program: Program) -> None:
    """An array, lines, CSV and a table have each prompt with its call, in order."""
    program.write("prompts.json", ['add 2, "two"', "stop\nnow =1+1 🎈", ""])
    found = {}
    for form in ("json", "jsonl", "csv", "table"):
        program.output = program.folder / f"results-{form}"
        assert program.run("--format", form, "--quiet").returncode in {0, 1}
        found[form] = program.output.read_text(encoding="utf-8")
    records = json.loads(found["json"])
    lines = [json.loads(line) for line in found["jsonl"].splitlines()]
    assert [{k: one[k] for k in ("prompt", "name", "parameters")} for one in lines] == records
    rows = list(csv.DictReader(found["csv"].splitlines(keepends=True)))
    assert [row["prompt"] for row in rows] == [one["prompt"] for one in records]
    assert [json.loads(row["parameters"]) for row in rows] == [one["parameters"] for one in records]
    table = found["table"].splitlines()
    assert len(table) == 1 + len(records)
    assert "stop\\nnow" in table[2]


def test_the_ending_names_the_form(program: Program) -> None:
    """A file that ends in .csv is CSV, and leaves no notes beside it; it cannot be resumed from."""
    program.output = program.folder / "results.csv"
    assert program.run().returncode == 0
    assert program.output.read_text().startswith("prompt,name,parameters,error")
    assert [path.name for path in program.folder.glob("results*")] == ["results.csv"]
    done = program.run("--resume")
    assert done.returncode == 2
    assert "cannot be resumed from" in done.stderr


def test_a_form_alone_goes_to_standard_output(program: Program) -> None:
    """Lines as they come, nothing written beside them, and a reader who has enough ends it in one line."""
    words = [
        sys.executable, "-m", "callmemaybe", *program.options("--format", "jsonl", "--quiet")
    ]  # fmt: skip
    at = words.index("--output")
    del words[at : at + 2]
    done = subprocess.run(words, cwd=program.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 2
    assert not (program.folder / "data").exists()
    assert not Path(program.folder / "-").exists()


def test_nothing_is_printed_twice_without_a_terminal(program: Program) -> None:
    """Each result stands in the table once, and in no line of its own."""
    done = program.run()
    assert "[1/2]" not in done.stdout + done.stderr
    assert (done.stdout + done.stderr).count("add 2 and 3") == 1


def test_only_failures_are_shown(program: Program) -> None:
    """The table leaves out what has a call; the results have all."""
    program.write("prompts.json", ["add 2 and 3", "x" * 1_000_001])
    done = program.run("--only-failed")
    assert done.returncode == 1
    assert "add 2 and 3" not in done.stdout + done.stderr
    assert "xxx" in done.stdout
    assert len(program.results()) == 2


@pytest.mark.parametrize("more", [[], ["--workers", "2"]])
def test_a_server_that_is_away_ends_a_run_before_its_first_prompt(
    program: Program, more: list[str]
) -> None:
    """With exit code 3 and one line, not with a failure for each prompt."""
    done = program.run(*more, model="http://127.0.0.1:9/v1#x")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "cannot be reached" in done.stderr
    assert not program.output.exists()
