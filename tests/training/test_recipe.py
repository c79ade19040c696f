"""A recipe says everything about a run, or says what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.pieces import recipe

RECIPE = recipe.ROOT / "training/runs/nano-2.toml"


@pytest.mark.parametrize("name", recipe.NEEDED)
def test_what_a_recipe_lacks_is_named(tmp_path: Path, name: str) -> None:
    """Without one of its keys a recipe is refused in a sentence that names it."""
    *tables, key = name.split(".")
    lines = RECIPE.read_text("utf-8").splitlines()
    inside = ""
    kept = []
    for line in lines:
        inside = line[1 : line.index("]")] if line.startswith("[") else inside
        here = inside == ".".join(tables) and line.split("=")[0].strip() == key
        if not here and line.partition("]")[0] != f"[{name}":
            kept.append(line)
    file = tmp_path / "run.toml"
    file.write_text("\n".join(kept), "utf-8")
    with pytest.raises(SystemExit, match=f"is no recipe: it lacks {name} "):
        recipe.load(file)


@pytest.mark.parametrize("text", [b"minutes =", b"\xff\xfe", b"[training\n"])
def test_a_file_that_is_no_recipe_is_refused(tmp_path: Path, text: bytes) -> None:
    """What is no TOML, or no text, is refused with the file's name; so is a file that is not there."""
    file = tmp_path / "run.toml"
    file.write_bytes(text)
    with pytest.raises(SystemExit, match=r"run\.toml is no recipe: "):
        recipe.load(file)
    with pytest.raises(SystemExit, match=r"other\.toml is no recipe: .*No such file"):
        recipe.load(tmp_path / "other.toml")
