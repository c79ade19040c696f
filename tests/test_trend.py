"""The scheduled benchmark run flags what became slower, and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def trend(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, whose checkout of a base is this tree."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import trend as script

    monkeypatch.setattr(script, "git", lambda *_: "abc1234")
    return script


def run(script: Any, monkeypatch: pytest.MonkeyPatch, now: list[float], folder: Path) -> int:
    """One run whose base takes 10 ms, and this version so many, round by round."""
    left = iter(now)
    monkeypatch.setattr(
        script, "probe", lambda tree: {"a <b>": next(left) if tree == script.ROOT else 10.0}
    )
    files = ["--history", str(folder / "h.jsonl"), "--page", str(folder / "p.html")]
    monkeypatch.setattr(
        sys, "argv", ["trend.py", "--base", "v1", "--rounds", str(len(now)), *files]
    )
    return int(script.main())


def test_a_figure_regresses_against_the_runs_before_it(
    trend: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """30% more is flagged and kept, each time; rounds that do not agree are noise."""
    assert run(trend, monkeypatch, [10, 10.5, 9.8, 10], tmp_path) == 0
    assert run(trend, monkeypatch, [13, 13.2, 12.9, 13], tmp_path) == 1
    assert "REGRESSED" in capsys.readouterr().out
    assert "Regressed: a &lt;b&gt;" in (tmp_path / "p.html").read_text("utf-8")
    assert [run(trend, monkeypatch, [13, 13, 13, 13], tmp_path) for _ in range(3)] == [1, 1, 1]
    assert run(trend, monkeypatch, [16, 8, 8.1, 16.2], tmp_path) == 0
    assert "Nothing regressed." in (tmp_path / "p.html").read_text("utf-8")
    lines = (tmp_path / "h.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["figures"]["a <b>"]["regressed"] for line in lines].count(True) == 4


def test_another_base_begins_anew(trend: Any) -> None:
    """Runs beside another release say nothing of this one."""
    history = [{"base": "old", "figures": {"x": {"ratios": [3.0, 3.0], "regressed": False}}}]
    assert trend.expected(history, "new", "x") == 1.0
    assert trend.expected(history, "old", "x") == 3.0
    assert trend.expected(history, "old", "y") == 1.0


def test_the_probe_measures_this_version(trend: Any) -> None:
    """The probe, in a process of its own, gives times for every figure."""
    found = trend.probe(ROOT)
    assert len(found) >= 9
    assert all(each > 0 for each in found.values())


def test_a_probe_that_fails_is_a_sentence(trend: Any, tmp_path: Path) -> None:
    """Sources that are no package end the run with one line."""
    (tmp_path / "src" / "callmemaybe").mkdir(parents=True)
    (tmp_path / "src" / "callmemaybe" / "__init__.py").write_text("")
    with pytest.raises(SystemExit, match="the probe failed: ImportError"):
        trend.probe(tmp_path)
