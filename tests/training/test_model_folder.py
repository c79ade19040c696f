"""What is shipped is whole, is what was measured, and takes no other folder's place."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")
pytest.importorskip("scipy", reason="training needs scipy")

from training import recipe
from training.export import model_folder

RUN = recipe.load(recipe.ROOT / "training/runs/nano-2.toml")
COUNTED = {
    "steps": 9,
    "tokens": 8,
    "pairs": 7,
    "minutes": 6.5,
    "finished": True,
    "mean_of": [5, [4]],
}


def test_a_folder_of_other_files_is_left_alone(tmp_path: Path) -> None:
    """Whoever names a folder of their own gets a sentence, and keeps their files."""
    (tmp_path / "thesis.txt").write_text("years of work", "utf-8")
    with pytest.raises(SystemExit, match="holds no exported model: name a folder that is new"):
        model_folder.export(RUN, tmp_path, 8)
    assert (tmp_path / "thesis.txt").read_text("utf-8") == "years of work"


@pytest.mark.parametrize("fails", [True, False])
def test_shipped_files_are_replaced_once_all_are_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fails: bool
) -> None:
    """Where writing fails the old files are there, all of them; where it does not, none of them."""
    target = tmp_path / "nano"
    target.mkdir()
    (target / "manifest.json").write_text("old", "utf-8")
    (target / "left.over").touch()

    def fill(_: object, folder: Path, __: int) -> str:
        folder.mkdir()
        (folder / "manifest.json").write_text("new", "utf-8")
        if fails:
            raise OSError("No space left on device")

    monkeypatch.setattr(model_folder, "fill", fill)
    if fails:
        with pytest.raises(OSError, match="No space"):
            model_folder.export(RUN, target, 8)
    else:
        model_folder.export(RUN, target, 8)
    assert (target / "manifest.json").read_text("utf-8") == ("old" if fails else "new")
    assert (target / "left.over").exists() is fails
    assert [each.name for each in tmp_path.iterdir()] == ["nano"]


@pytest.mark.parametrize("more", [{}, {"steps": 10}, {"mean_of": []}, {"pairs": 1}])
def test_scores_are_those_of_the_weights(tmp_path: Path, more: dict[str, Any]) -> None:
    """A run that went on behind its evaluation is not told by the figures, or the counts, of before."""
    file = tmp_path / "report.json"
    assert model_folder.scored(COUNTED, file) == COUNTED
    file.write_text(
        json.dumps({**COUNTED, "finished": False, **more, "scores": {"dev": {}}}), "utf-8"
    )
    if more:
        with pytest.raises(SystemExit, match=r"belongs to another checkpoint .*: measure this one"):
            model_folder.scored(COUNTED, file)
    else:
        assert model_folder.scored(COUNTED, file) == {**COUNTED, "scores": {"dev": {}}}


def test_a_recipe_may_lie_anywhere(tmp_path: Path) -> None:
    """Card and manifest name it by its place in the repository, or on this machine."""
    assert RUN.shown == "training/runs/nano-2.toml"
    assert replace(RUN, path=tmp_path / "my.toml").shown == (tmp_path / "my.toml").as_posix()


def exported(folder: Path, **more: object) -> Path:
    """A folder that looks like an exported model."""
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"weights")
    entry = {"sha256": hashlib.sha256(b"weights").hexdigest(), "bytes": 7}
    table = {"held_out": {"dev": {}}, "files": {"model.onnx": entry}, **more}
    (folder / "manifest.json").write_text(json.dumps(table), "utf-8")
    return folder


def test_exporting_never_touches_the_shipped_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default is a folder of the run, which git ignores; the shipped folder is refused by name."""
    written: list[Path] = []
    monkeypatch.setattr(model_folder, "export", lambda _, folder, __: written.append(folder))
    monkeypatch.setattr(sys, "argv", ["export"])
    model_folder.main()
    assert written == [recipe.ROOT / "training/out/nano-2/export"]
    ignored = (recipe.ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert "training/out/" in ignored
    monkeypatch.setattr(sys, "argv", ["export", "--out", str(recipe.RELEASE)])
    with pytest.raises(SystemExit):
        model_folder.main()
    assert len(written) == 1


def test_release_copies_what_was_measured(tmp_path: Path) -> None:
    """The shipped folder becomes the exported one, byte for byte, without a file of before."""
    source, target = exported(tmp_path / "out" / "export"), exported(tmp_path / "nano")
    (target / "left.over").touch()
    model_folder.release(source, target)
    assert sorted(file.name for file in target.iterdir()) == ["manifest.json", "model.onnx"]
    assert (target / "manifest.json").read_bytes() == (source / "manifest.json").read_bytes()


def test_what_was_not_measured_is_not_released(tmp_path: Path) -> None:
    """Without an export, without scores, or with a file that changed since, the shipped model stays."""
    target = exported(tmp_path / "nano")
    with pytest.raises(
        SystemExit, match=r"holds no exported model: run python -m training\.export"
    ):
        model_folder.release(tmp_path / "none", target)
    with pytest.raises(SystemExit, match="has no scores"):
        model_folder.release(exported(tmp_path / "unscored", held_out={}), target)
    changed = exported(tmp_path / "changed")
    (changed / "model.onnx").write_bytes(b"other weights")
    with pytest.raises(SystemExit, match="is not the file that its manifest describes"):
        model_folder.release(changed, target)
    assert (target / "model.onnx").read_bytes() == b"weights"


def test_the_shipped_configuration_says_what_the_exporter_would() -> None:
    """Which numbers of the cache depend on where a function stands is known to both alike."""
    from training.export.token_features import segments

    listed = json.loads((recipe.RELEASE / "tokenizer.json").read_text("utf-8"))["added_tokens"]
    controls = {one["content"]: one["id"] for one in listed}
    config = json.loads((recipe.RELEASE / "config.json").read_text("utf-8"))
    assert config["segments"] == segments(controls)
