"""What `callmemaybe tune` rehearses: `python -m training.rehearsal`.

Draws requests as training does, of this project's own functions alone, and requests for held-out functions, by which tuning
measures what it forgets; writes them into the package. Nothing of Schema-Guided Dialogue or another corpus is among them.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from callmemaybe.tuning.packing import EncodedBlock, Encoder
from callmemaybe.tuning.rehearsal import FILE
from callmemaybe.tuning.rendering import to_json
from training import recipe as recipes
from training.data import tokenizer as tokenizers
from training.data.packing import BatchLimits, draw_row
from training.recipe import RELEASE, Recipe

TRAIN = {"tasks": 0.85, "synthetic": 0.15}
LISTS, PAIRS = 200, 12
HELD_OUT_LISTS, HELD_OUT_PAIRS = 25, 8  # of each held-out part


def as_json(row: EncodedBlock, part: str) -> str:
    """One list with its requests, numbers as they were written."""
    pairs = [
        {"prompt": p.pair.prompt, "calls": [[i, arguments] for i, arguments in p.pair.calls]}
        for p in row.pairs
    ]
    value: dict[str, Any] = {"part": part, "tools": row.block.tools, "pairs": pairs}
    return to_json(value)


def lines(recipe: Recipe) -> Iterator[str]:
    encoder = Encoder(tokenizers.load(RELEASE / "tokenizer.json"))
    rng = Random(f"{recipe.seed} rehearsal")
    limits = BatchLimits(1, PAIRS, 200, 280)
    maker = recipe.maker("train", TRAIN)
    for _ in range(LISTS):
        yield as_json(draw_row(maker, encoder, rng, limits), "train")
    limits = BatchLimits(1, HELD_OUT_PAIRS, 200, 300)
    for part in ("function", "domain"):
        maker = recipe.maker(part)
        for _ in range(HELD_OUT_LISTS):
            yield as_json(draw_row(maker, encoder, rng, limits, rng.choice(range(4, 13))), part)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--run", type=Path, default=recipes.DEFAULT)
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args()
    found = list(lines(recipes.load(options.run)))
    with gzip.GzipFile(options.out, "wb", mtime=0) as file:
        file.write("".join(f"{line}\n" for line in found).encode())
    print(f"{options.out}: {len(found)} lists, {options.out.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
