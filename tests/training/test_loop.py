"""The loop of training."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")

import torch
from torch.nn import functional

from callmemaybe.tuning.network.loss import as_drawn
from training import checkpoint, progress, scoring, train
from training.data import prefetch
from training.data.packing import BatchLimits
from training.recipe import ROOT


@pytest.mark.timeout(20)
def test_what_goes_wrong_in_drawing_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error beside the loop is raised in it, with the batch that it came from, instead of waiting for ever."""

    def draw(*_: object) -> None:
        raise KeyError("body")

    monkeypatch.setattr(prefetch, "draw_batch", draw)
    source = prefetch.Prefetch(None, None, "seed", BatchLimits(1, 1, 1, 1), 7)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="body") as caught:
        source.get()
    assert caught.value.__notes__ == ["drawing the batch 'seed:7'"]


def test_the_network_learns_the_odds_of_use() -> None:
    """Where nothing fits in 6 of 10 that are drawn and in 2 of 10 that are met, 2 of 10 is what is learnt."""
    drawn = torch.tensor([0] * 4 + [1] * 6)
    excess = math.log(0.6 / 0.4) - math.log(0.2 / 0.8)
    odds = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([odds], lr=1.0)
    for _ in range(200):
        optimizer.zero_grad()
        shown = as_drawn(odds.expand(10, 2), excess)
        functional.cross_entropy(shown, drawn).backward()
        optimizer.step()
    assert odds.softmax(0)[1].item() == pytest.approx(0.2, abs=1e-3)
    assert as_drawn(odds, 0.0) is odds


def test_a_checkpoint_is_complete_or_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A disk that fills up while one is written takes neither the last one nor the room that is left."""
    file = tmp_path / "checkpoint.pt"
    run: Any = SimpleNamespace(out=tmp_path)
    checkpoint.write({"step": 1}, run)

    def fill_up(_: object, part: Path) -> None:
        part.write_bytes(b"half of it")
        raise RuntimeError("unexpected pos 704 vs 598")  # as PyTorch says it

    monkeypatch.setattr(torch, "save", fill_up)
    with pytest.raises(RuntimeError, match="unexpected pos"):
        checkpoint.write({"step": 2}, run)
    assert torch.load(file) == {"step": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_a_run_goes_on_where_a_checkpoint_cannot_be_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Hours of learning are not given up for a disk that is full at one moment; it is told."""

    def save() -> None:
        raise RuntimeError("[enforce fail] unexpected pos 704 vs 598\nframe #0")

    state: Any = SimpleNamespace(save=save, seconds=60.0, step=7)
    progress.save_if_possible(state)
    line = capsys.readouterr().out
    assert "could not write the checkpoint ([enforce fail] unexpected pos 704 vs 598)" in line
    assert line.count("\n") == 1


def test_a_resumed_run_keeps_its_learning_curve(tmp_path: Path) -> None:
    """Scores until the checkpoint stay; those of steps that were lost with a kill do not, nor does half a file harm."""
    file = tmp_path / "history.json"
    assert scoring.read_history(file, 200) == []
    points = [{"pairs": pairs, "part": "domain", "scores": {}} for pairs in (100, 200, 300)]
    file.write_text(json.dumps(points), "utf-8")
    assert scoring.read_history(file, 200) == points[:2]
    file.write_text(json.dumps(points)[:40], "utf-8")
    assert scoring.read_history(file, 200) == []


def test_no_run_begins_in_the_place_of_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without --resume a checkpoint that is there would be written over, with it one that is missing is read."""
    recipe = (ROOT / "training/runs/nano-2.toml").read_text("utf-8")
    out = next(line for line in recipe.splitlines() if line.startswith("out ="))
    file = tmp_path / "run.toml"
    file.write_text(recipe.replace(out, f"out = '{tmp_path}'"), "utf-8")
    monkeypatch.setattr(sys, "argv", ["train", "--run", str(file), "--resume"])
    with pytest.raises(SystemExit, match=r"checkpoint\.pt is not there: begin without --resume"):
        train.main()
    (tmp_path / "checkpoint.pt").write_bytes(b"of a day")
    monkeypatch.setattr(sys, "argv", ["train", "--run", str(file)])
    with pytest.raises(SystemExit, match=r"checkpoint\.pt exists: go on with --resume"):
        train.main()
    assert (tmp_path / "checkpoint.pt").read_bytes() == b"of a day"
