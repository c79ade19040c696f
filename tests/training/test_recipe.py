"""A recipe says everything about a run, or says what it lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from training import recipe, recipe_schema

RECIPE = recipe.ROOT / "training/runs/nano-2.toml"


SCHEMA = recipe_schema.RecipeTable.model_json_schema()


def needed(part: dict[str, Any], before: str = "") -> Iterator[str]:
    """Every key that a recipe cannot do without, dotted."""
    for name in part["required"]:
        each = part["properties"][name]
        inner = SCHEMA["$defs"].get(each.get("$ref", "").rpartition("/")[2])
        if inner and "required" in inner:
            yield from needed(inner, f"{before}{name}.")
        else:
            yield before + name


NEEDED = list(needed(SCHEMA))


@pytest.mark.parametrize("name", NEEDED)
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


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("confusable = ", "cousins = ", "mix.training.cousins is none of its keys"),
        ("longest_tool = ", "longest_tools = ", "it lacks training.longest_tool"),
        ("workers = 2", 'workers = "two"', "training.workers is 'two'; should be a valid integer"),
        (
            "blocks = 3 ",
            "blocks = 0 ",
            "training.blocks is 0; should be greater than or equal to 1",
        ),
        ("none = 0.18", "none = 1", "mix.none is 1; should be less than 1"),
        ("two = 0.03", "two = nan", "mix.two is nan; should be a finite number"),
        ("tasks = ", "tasks = true # ", "mix.kinds.tasks is True; should be a valid number"),
        ("tasks = ", "task = ", "mix.kinds.task is 'task'; should be 'tasks', "),
        ("tasks = ", "tasks = 0 # ", "mix.kinds.tasks is 0; should be greater than 0"),
        ("decay_from = ", "decay_from = 1 # ", "training.decay_from is 1; should be less than 1"),
        ("lr_muon = ", "lr_muon = -1 # ", "training.lr_muon is -1; should be greater than 0"),
        ("[held_out] ", "[[held_out]] ", "held_out is no table"),
    ],
)
def test_what_makes_no_sense_is_named(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    """A key that nobody knows, a word for a number and a number out of range are told with their key."""
    text = RECIPE.read_text("utf-8")
    assert old in text
    file = tmp_path / "run.toml"
    file.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(SystemExit, match=re.escape(f"is no recipe: {sentence}")) as caught:
        recipe.load(file)
    assert len(str(caught.value)) < len(str(file)) + 250


@pytest.mark.parametrize("part", ["function", "domain"])
def test_what_is_held_out_is_drawn_as_before(part: str) -> None:
    """What a recipe says of training alone changes nothing of what is measured."""
    run = recipe.load(RECIPE)
    mix = run.maker(part).mix
    assert (mix.none, mix.close, mix.confusable) == (0.18, 0.55, 0.0)
    mix = run.maker("train").mix
    assert {
        name: getattr(mix, name) for name in recipe_schema.TrainingMixTable.model_fields
    } == run.table["mix"]["training"]


@pytest.mark.parametrize(("more", "excess"), [("none = 0.24", 0.3637), ("none = 0.18", 0.0)])
def test_what_training_draws_more_often_is_told(tmp_path: Path, more: str, excess: float) -> None:
    """In log-odds: of 24 in 100 instead of 18."""
    file = tmp_path / "run.toml"
    file.write_text(RECIPE.read_text("utf-8").replace("none = 0.24", more), "utf-8")
    assert recipe.load(file).excess == pytest.approx(excess, abs=1e-4)


def test_what_was_written_later_is_all_trained_on() -> None:
    """Of the domains named in `held_out.trained` nothing is held out, and all of them are there."""
    run = recipe.load(RECIPE)
    named = set(run.table["held_out"]["trained"])
    later = [function for function in run.functions("train") if function.domain in named]
    assert {function.domain for function in later} == named
    assert not [
        f for part in ("function", "domain") for f in run.functions(part) if f.domain in named
    ]
    every = run.table["held_out"]["every"]
    assert [f for f in later if crc32(f.key.encode()) % every == 0]
