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


def test_what_training_alone_draws_is_named(tmp_path: Path) -> None:
    """A key of `mix.training` that nobody knows is refused with those that there are."""
    text = RECIPE.read_text("utf-8")
    file = tmp_path / "run.toml"
    file.write_text(text.replace("siblings = ", "cousins = "), "utf-8")
    with pytest.raises(
        SystemExit, match=r"mix\.training has no cousins; use none, close, siblings"
    ):
        recipe.load(file)


@pytest.mark.parametrize("part", ["function", "domain"])
def test_what_is_held_out_is_drawn_as_before(part: str) -> None:
    """What a recipe says of training alone changes nothing of what is measured."""
    run = recipe.load(RECIPE)
    mix = run.maker(part).mix
    assert (mix.none, mix.close, mix.siblings) == (0.18, 0.55, 0.0)
    mix = run.maker("train").mix
    assert {name: getattr(mix, name) for name in recipe.OF_TRAINING} == run.table["mix"]["training"]
