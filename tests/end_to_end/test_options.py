"""How prompts are worked on and answers are drawn: the options of ``run``."""

from __future__ import annotations

import json

import pytest

from tests.end_to_end.conftest import Program, check_records

PROMPTS = ["add 2 and 3", "count 4 in cm", "stop", "", "Zürich 🙂", "add 0.5 and 7", "count 1"] * 2


def test_a_batch_gives_the_same_file(program: Program) -> None:
    """With --batch the results are those of one prompt at a time, byte for byte and in order."""
    program.write("prompts.json", PROMPTS)
    assert program.run().returncode == 0
    alone = program.output.read_text()
    check_records(program.results(), PROMPTS)
    for size in ("3", "8"):
        program.output.unlink()
        assert program.run("--batch", size).returncode == 0
        assert program.output.read_text() == alone


def test_what_failed_in_a_batch_fails_alone(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prompt that no call could be made for has its record and its reason; the others have calls."""
    from callmemaybe.caller import Caller

    call = Caller._call

    def failing(self: Caller, prompt: str, *others: object) -> object:
        if prompt == "stop":
            raise RuntimeError("out of luck")
        return call(self, prompt, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(Caller, "_call", failing)
    program.write("prompts.json", PROMPTS)
    done = program.run("--batch", "4")
    assert done.returncode == 1
    assert "out of luck" in done.stderr
    names = [record["name"] for record in program.results()]
    assert [name is None for name in names] == [prompt == "stop" for prompt in PROMPTS]


def test_a_batch_goes_on_where_it_was_left(program: Program) -> None:
    """--resume and --batch work together: what is finished is kept, the rest is done."""
    program.write("prompts.json", PROMPTS[:3])
    assert program.run("--batch", "2").returncode == 0
    program.write("prompts.json", PROMPTS)
    done = program.run("--batch", "2", "--resume")
    assert "3 of 14 results are kept" in done.stderr
    check_records(program.results(), PROMPTS)


def test_log_probabilities_are_told(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --logprobs each call and each argument has its log-probability: shown, and in the trace."""
    program.write("prompts.json", PROMPTS[:2])
    monkeypatch.delenv("COLUMNS", raising=False)  # a worker of xdist has one
    done = program.run("--logprobs", "--trace", str(program.folder / "trace.jsonl"))
    assert done.returncode == 0, done.stderr
    assert "log p -" in done.stdout
    assert "and of each argument" in done.stdout
    lines = (program.folder / "trace.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["event"] == "result"]
    for row in rows:
        assert row["logprob"] < 0
        assert row["argument_logprobs"].keys() == row["parameters"].keys()
        assert sum(row["argument_logprobs"].values()) >= row["logprob"]


def test_answers_are_drawn_as_told(program: Program) -> None:
    """A seed repeats the run, in a batch too; top-k 1 is greedy; a search is repeatable."""
    program.write("prompts.json", PROMPTS[:4])
    found = {}
    for name, options in {
        "greedy": (),
        "narrow": ("--temperature", "1.5", "--top-k", "1", "--seed", "3"),
        "drawn": ("--temperature", "9", "--top-p", "0.9", "--min-p", "0.001", "--seed", "3"),
        "again": ("--temperature", "9", "--top-p", "0.9", "--min-p", "0.001", "--seed", "3",
                  "--batch", "3"),
        "best": ("--temperature", "1", "--best-of", "3", "--seed", "1"),
        "beam": ("--beam", "2", "--max-tokens", "60"),
    }.items():  # fmt: skip
        done = program.run(*options)
        assert done.returncode == 0, (name, done.stderr)
        found[name] = program.output.read_text()
    assert found["narrow"] == found["greedy"]
    assert found["drawn"] == found["again"]
    assert found["drawn"] != found["greedy"]
    check_records(program.results(), PROMPTS[:4])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--top-p", "0.5"), "--top-p: has no effect at temperature 0"),
        (("--best-of", "2"), "--best-of: has no effect at temperature 0"),
        (("--beam", "2", "--temperature", "1"), "--beam: a beam search draws nothing"),
        (("--batch", "0"), "--batch"),
        (("--top-p", "2"), "--top-p"),
        (
            ("--input", "-", "--functions_definition", "-"),
            "--input -: --tools (--functions_definition) reads",
        ),
        (("--output", "-", "--resume"), "--output -: cannot be resumed from"),
        (("--trace", "-"), "--trace -: a trace is written to a file"),
    ],
)
def test_options_that_contradict_each_other(
    program: Program, options: tuple[str, ...], said: str
) -> None:
    """What would be ignored is refused, before a model is loaded."""
    done = program.run(*options)
    assert done.returncode == 2
    assert said in done.stderr


def test_functions_are_read_once_over_all_runs(program: Program) -> None:
    """With --prefix-cache a second run finds what the first one computed, and writes the same."""
    program.write("prompts.json", PROMPTS[:3])
    folder = program.folder / "prefixes"
    assert program.run("--prefix-cache", str(folder)).returncode == 0
    first = program.output.read_text()
    (path,) = folder.iterdir()
    before = path.stat().st_mtime_ns
    assert program.run("--prefix-cache", str(folder), "--batch", "2").returncode == 0
    assert program.output.read_text() == first
    assert list(folder.iterdir()) == [path]
    assert path.stat().st_mtime_ns > before
