"""Words that stand in one line of the associations come to mean nearly the same."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="training needs scipy")

import numpy as np

from training.data import association_vectors, associations

LINES = """lamp: light bright dark shine bulb
gloomy: dark dim sad light
umbrella: rain wet weather shower storm
drizzle: rain wet weather light shower
invoice: bill pay due amount
receipt: bill paid amount total
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "words.txt").write_text(LINES, "utf-8")
    return tmp_path


def test_what_stands_together_is_near(folder: Path) -> None:
    """A word is nearer to its associations, and to words with the same ones, than to any other line's."""
    targets = ["umbrella", "drizzle", "storm", "invoice", "receipt", "gloomy"]
    found = association_vectors.vectors(targets, 8, folder)
    near = found @ found.T
    assert np.allclose(np.diag(near), 1, atol=1e-5)
    for one, other in (("umbrella", "storm"), ("umbrella", "drizzle"), ("invoice", "receipt")):
        far = near[targets.index(one), targets.index("gloomy")]
        assert near[targets.index(one), targets.index(other)] > far + 0.2


def test_forms_of_a_word_share_its_meaning_and_strangers_have_none(folder: Path) -> None:
    """`umbrellas` means what `umbrella` does; a word of no line is zero, and so is all without lines."""
    one, form, stranger = association_vectors.vectors(["umbrella", "umbrellas", "zebra"], 8, folder)
    assert np.allclose(one, form, atol=1e-6)
    assert not stranger.any()
    assert association_vectors.vectors(["umbrella"], 0, folder).shape == (1, 0)
    (folder / "words.txt").write_text("", "utf-8")
    assert not association_vectors.vectors(["umbrella"], 8, folder).any()


@pytest.mark.parametrize(
    "line",
    [
        "umbrella",
        "Umbrella: rain",
        "umbrella: rain, wet",
        "umbrella: rain rain",
        "umbrella: umbrella",
    ],
)
def test_a_mistake_is_told_with_its_line(folder: Path, line: str) -> None:
    """What is no line, or says a word twice, is refused with its file and line."""
    with (folder / "words.txt").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match=r"words\.txt:7: "):
        list(associations.read(folder))


def test_the_written_lines_are_sound() -> None:
    """Every line can be read, nearly every word has one line, and what it brings to mind are words."""
    lines = list(associations.read())
    heads = [head for head, _ in lines]
    assert len(heads) > 8000
    assert len(set(heads)) == len(heads)
    assert np.median([len(words) for _, words in lines]) >= 8
