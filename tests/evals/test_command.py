"""The command `eval`, from a file of cases to a report."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.cli.eval import ReportFolder, read_cases
from callmemaybe.cli.main import main
from callmemaybe.cli.process import ExitCode, StopRequested
from callmemaybe.errors import InputError
from callmemaybe.evals.record import EvalRecord
from callmemaybe.evals.runner import EvalRunner

FUNCTIONS = [
    {"name": "add", "parameters": {"a": {"type": "number"}, "b": {"type": "number"}}},
    {"name": "greet", "parameters": {"name": {"type": "string"}}},
]


def case(identity: str, **more: Any) -> dict[str, Any]:
    expected = {"name": "add", "arguments": {"a": 1, "b": 2}}
    return {
        "id": identity,
        "functions": FUNCTIONS,
        "prompt": "add 1 to 2",
        "expected": expected,
    } | more


CASES = [case("a", tags=["x"]), case("b", expected=None, prompt="hello"), case("c")]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run the command in a folder with three cases."""
    text = "\n".join(json.dumps(one) for one in CASES)
    (tmp_path / "cases.jsonl").write_text(text, encoding="utf-8")

    def call(*options: str) -> tuple[int, str, str]:
        given = ["eval", "cases.jsonl", "--report", "out", "--max-tokens", "60", *options]
        with pytest.raises(SystemExit) as ended:
            main(given)
        assert isinstance(ended.value.code, int)
        return ended.value.code, *capsys.readouterr()

    with contextlib.chdir(tmp_path):
        yield call


def answers(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()[1:]]


def test_a_report_is_made(run: Run, tmp_path: Path) -> None:
    """Every case is answered once; the report holds figures, a page, and what was asked how."""
    code, out, err = run("--unconstrained")
    assert (code, err) == (ExitCode.DONE, "")
    assert "exact" in out
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["model"], report["cases"], report["data"]) == ("nano", 3, "cases.jsonl")
    assert set(report["by_tag"]) == {"x"}
    assert report["comparison"]["first"]["valid"]["of"] == 2
    assert (tmp_path / "out" / "report.html").read_text().startswith("<!doctype html>")
    assert [one["id"] for one in answers(tmp_path / "out")] == ["a", "b", "c"]


def test_filters(run: Run, tmp_path: Path) -> None:
    """--tag keeps cases with a tag, --limit so many; a tag that no case has is an error."""
    assert run("--tag", "x", "--quiet")[:2] == (ExitCode.DONE, "")
    assert [one["id"] for one in answers(tmp_path / "out")] == ["a"]
    assert run("--limit", "2", "--quiet")[0] == ExitCode.DONE
    assert [one["id"] for one in answers(tmp_path / "out")] == ["a", "b"]
    code, _, err = run("--tag", "y")
    assert (code, "no case has this tag" in err) == (ExitCode.BAD_INPUT, True)


def test_stop_and_go_on(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is stopped reports what is done; --resume asks only the rest."""
    asked: list[str] = []
    whole = EvalRunner.run

    def ask(bench: EvalRunner, one: Any) -> EvalRecord:
        asked.append(one.id)
        if asked == ["a", "b"]:
            raise StopRequested(ExitCode.INTERRUPTED)
        return whole(bench, one)

    monkeypatch.setattr(EvalRunner, "run", ask)
    code, _, err = run()
    assert (code, "--resume continues" in err) == (ExitCode.INTERRUPTED, True)
    assert json.loads((tmp_path / "out" / "report.json").read_text())["cases"] == 1
    code, _, err = run("--resume")
    assert (code, asked) == (ExitCode.DONE, ["a", "b", "b", "c"])
    assert "1 answers are kept" in err
    assert json.loads((tmp_path / "out" / "report.json").read_text())["cases"] == 3
    assert len(answers(tmp_path / "out")) == 3


def test_a_part_of_the_cases_leaves_the_other_answers_alone(run: Run, tmp_path: Path) -> None:
    """What --resume keeps it keeps for the next run, too, whatever --limit and --tag choose now."""
    assert run("--quiet")[0] == ExitCode.DONE
    for chosen in (("--limit", "1"), ("--tag", "x")):
        code, _, err = run("--resume", *chosen)
        assert (code, "3 answers are kept" in err) == (ExitCode.DONE, True)
        assert sorted(one["id"] for one in answers(tmp_path / "out")) == ["a", "b", "c"]
        assert json.loads((tmp_path / "out" / "report.json").read_text())["cases"] == 1
    changed = [{**CASES[0], "prompt": "add 2 to 1"}, *CASES[1:]]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, changed)))
    before = {one["id"]: one for one in answers(tmp_path / "out")}
    code, _, err = run("--resume", "--tag", "x")
    assert (code, "2 answers are kept" in err) == (ExitCode.DONE, True)
    after = {one["id"]: one for one in answers(tmp_path / "out")}
    assert [after[name] == before[name] for name in "abc"] == [False, True, True]


def test_a_damaged_answer_is_asked_again(run: Run, tmp_path: Path) -> None:
    """A line that is no answer any more is one case to ask, wherever in it the damage is."""
    assert run("--quiet")[0] == ExitCode.DONE
    path = tmp_path / "out" / "answers.jsonl"
    head, good, *_ = path.read_text().splitlines()
    call = {"name": "add", "arguments": '{"a": 1'}
    bad = [
        {"probability": float("nan")},
        {"seconds": float("inf")},
        {"call": call},
        {"call": {**call, "arguments": "[]"}},
    ]
    damaged = [json.dumps({**json.loads(good), "id": "b", **one}) for one in bad]
    damaged += [re.sub('"forced": [0-9]+', '"forced": 1e400', damaged[0].replace("NaN", "0.5"))]
    path.write_text("\n".join([head, good, *damaged, "[" * 100_000]) + "\n")
    code, _, err = run("--resume")
    assert (code, "1 answers are kept" in err) == (ExitCode.DONE, True)
    assert [one["id"] for one in answers(tmp_path / "out")] == ["a", "b", "c"]


def test_a_set_without_cases_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty set is the set's fault, and not that of a tag that nobody asked for."""
    for folder, name in (
        ("input", "functions_definition"),
        ("correction", "function_calling_corrections"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.json").write_text("[]")
    with pytest.raises(SystemExit) as ended:
        main(["eval", str(tmp_path), "--from", "exercise", "--report", str(tmp_path / "out")])
    err = capsys.readouterr().err
    assert (ended.value.code, "there are no cases" in err) == (ExitCode.BAD_INPUT, True)
    assert "--tag" not in err


def test_failures_are_told_and_tried_again(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A case that failed is named with its reason, counts as wrong, and is not kept."""
    with monkeypatch.context() as patched:
        patched.setattr(
            EvalRunner, "run", lambda _, one: EvalRecord(one.id, one.key, failure="broken")
        )
        code, _, err = run("--quiet")
    assert (code, err.count("broken")) == (ExitCode.SOME_FAILED, 1)
    assert (
        json.loads((tmp_path / "out" / "report.json").read_text())["figures"]["right"]["right"] == 0
    )
    assert run("--resume", "--quiet")[0] == ExitCode.DONE


def test_other_settings_keep_nothing(tmp_path: Path) -> None:
    """Answers count only for equal settings; half a line, and no answers at all, are told apart."""
    one = EvalRecord("a", "k")
    file = ReportFolder(tmp_path / "r", {"model": "m"})
    assert file.resume()[0] == {}
    with file.writer([one]) as writer:
        writer.add(EvalRecord("b", "k"))
    with (tmp_path / "r" / "answers.jsonl").open("a") as cut:
        cut.write('{"id": "c", "ke')
    assert set(file.resume()[0]) == {"a", "b"}
    kept, remark = ReportFolder(tmp_path / "r", {"model": "n"}).resume()
    assert (kept, "model changed" in remark) == ({}, True)
    (tmp_path / "r" / "answers.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match="not a file of answers"):
        file.resume()
    with pytest.raises(InputError, match="not a folder"):
        ReportFolder(tmp_path / "r" / "answers.jsonl", {})


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ('{"id": 1', r"cases\.jsonl:1:", "closed"),
        (json.dumps(CASES[0]) + "\n\n" + '{"prompt": "p"}', r"cases\.jsonl:3:1", "functions"),
        (json.dumps(CASES[0]) + "\n" + json.dumps(CASES[0]), r"cases\.jsonl:2:1", "another case"),
        (json.dumps(case("z", compare="bfcl")), r"jsonl:1:\d+ \(/expected/arguments/a\)", "a list of"),
        (json.dumps(case("z", tags="no")), r"cases\.jsonl:1:\d+ \(/tags\)", "list"),
        (json.dumps([CASES[0], 3]), r"cases\.jsonl:1:\d+ \(/1\)", "object"),
        ("[]", r"cases\.jsonl", "no cases"),
    ],
)  # fmt: skip
def test_wrong_cases_are_found_before_a_model_is_loaded(
    run: Run, tmp_path: Path, text: str, where: str, words: str
) -> None:
    """A mistake in the file is told with line, column and pointer, by one line."""
    (tmp_path / "cases.jsonl").write_text(text)
    code, _, err = run("--model", "no-such-model")
    assert code == ExitCode.BAD_INPUT
    assert err.count("\n") == 1
    assert re.search(where, err)
    assert words in err


def test_cases_may_be_a_list_and_need_no_id(tmp_path: Path) -> None:
    """A JSON list works as well as lines; a case without an id gets its place."""
    bare = {key: value for key, value in case("").items() if key != "id"}
    path = tmp_path / "cases.json"
    path.write_text(json.dumps([bare, bare]))
    assert [one.id for one in read_cases(path)] == ["1", "2"]
    path.write_text("\n".join(["", json.dumps(bare), json.dumps(bare)]))
    assert [one.id for one in read_cases(path)] == ["2", "3"]
