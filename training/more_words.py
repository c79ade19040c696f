"""Add the words of other languages to the words that a run knows: `python -m training.more_words --run R`.

The run goes on with `--resume`: words and what they mean belong to its files, not to its weights.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from training import recipe as recipes
from training.data import tokenizer as tokenizers
from training.nn.word_vectors import foreign_meanings, write_wholes
from training.recipe import Recipe


def add(recipe: Recipe, most: int) -> tuple[int, int]:
    """Add up to `most` words to the table in the run's folder; returns how many words it had and how many it has."""
    file = recipe.out / "wholes.npz"
    kept = np.load(file)
    known = dict(zip(kept["keys"].tolist(), kept["more"], strict=True))
    tokenizer = tokenizers.load(recipe.out / "tokenizer.json")
    of_bases = np.load(recipe.out / "lexicon.npy")
    more = foreign_meanings(tokenizer, of_bases, known, most)
    write_wholes(file, known | more, of_bases.shape[1])
    return len(known), len(known) + len(more)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--run", type=Path, default=recipes.DEFAULT)
    parser.add_argument("--most", type=int, default=20_000, help="words to add, at most")
    arguments = parser.parse_args()
    try:
        before, after = add(recipes.load(arguments.run), arguments.most)
    except OSError as problem:
        parser.exit(1, f"more_words: {problem}\n")
    print(f"{after} words ({before} before)")


if __name__ == "__main__":
    main()
