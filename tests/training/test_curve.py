"""Short runs that are compared are alike in all but what they compare."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")
pytest.importorskip("scipy", reason="training needs scipy")

from training import ablate, curve, recipe
from training.recipe import Recipe

RUN = recipe.load(recipe.ROOT / "training/runs/nano-2.toml")
SCORES = {part: {name: {"share": 0.5} for name in curve.SHOWN} for part in curve.PARTS}


@pytest.fixture
def run(tmp_path: Path) -> Recipe:
    """The recipe, with a folder of its own."""
    out = tmp_path / "out"
    out.mkdir()
    for name in ("tokenizer.json", "lexicon.npy", "wholes.npz"):
        (out / name).touch()
    return replace(RUN, table=RUN.table | {"out": str(out)})


def test_no_run_goes_on_from_another_ones_checkpoint(
    run: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of a run tells its share, its requests and what it is for; a finished one leaves no checkpoint,
    so whoever removes the figures trains anew."""
    folders = []

    def point(made: Recipe) -> dict[str, Any]:
        folders.append(made.out)
        assert not (made.out / "checkpoint.pt").exists()
        (made.out / "checkpoint.pt").touch()
        return {"share": 1.0, "functions": 1, "requests": made.table["training"]["requests"],
                "finished": True, "scores": SCORES}  # fmt: skip

    def ablated(_: str, made: Recipe) -> dict[str, Any]:
        return {"without": "nothing", **point(made)}

    monkeypatch.setattr(curve, "point", point)
    monkeypatch.setattr(curve, "draw", lambda *_: None)
    monkeypatch.setattr(ablate, "score", ablated)
    monkeypatch.setattr(recipe, "load", lambda _: run)
    for main, options in (
        (ablate.main, ["--without", "nothing"]),
        (curve.main, ["--shares", "1"]),
        (curve.main, ["--shares", "1"]),
    ):
        output = tmp_path / f"{len(folders)}.json"
        told = ["curve", *options, "--requests", "7200", "--output", str(output)]
        monkeypatch.setattr(sys, "argv", told)
        main()
        assert len(json.loads(output.read_text("utf-8"))) == 1
    assert folders[0] != folders[1] == folders[2]
    assert curve.smaller(run, 1.0, 12_000).out != folders[1]


@pytest.mark.parametrize(("asked", "told"), [(7200, 1), (4800, 0), (12_000, 0)])
def test_only_runs_of_as_many_requests_are_compared(
    run: Recipe, tmp_path: Path, asked: int, told: int
) -> None:
    """A chart of runs over functions says how many requests each had, so none may have had more."""
    file = tmp_path / "curve.json"
    assert curve.known(file, run, asked) == []
    file.write_text(json.dumps([{"share": 1.0, "requests": 7236}]), "utf-8")
    if told:
        assert len(curve.known(file, run, asked)) == told
    else:
        with pytest.raises(SystemExit, match=r"holds runs of 7,236 requests, which cannot be"):
            curve.known(file, run, asked)
