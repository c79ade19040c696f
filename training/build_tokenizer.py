"""Build nano's tokenizer from what the recipe generates: `python -m training.build_tokenizer --run R`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from callmemaybe.tuning.rendering import escape, to_json, tool_text
from training.data import tokenizer, wordnet_vectors
from training.files import atomic_write
from training.recipe import Recipe, from_arguments


def texts(recipe: Recipe, blocks: int = 3000) -> Iterator[str]:
    """Tool lists, requests and calls in the recipe's own proportions."""
    maker = recipe.maker("train")
    for index in range(blocks):
        rng = Random(f"{recipe.seed}:tokenizer:{index}")
        block, offers = maker.start(rng)
        yield from map(tool_text, block.tools)
        for _ in range(10):
            pair = maker.pair(block, offers, rng)
            yield escape(pair.prompt)
            yield from (to_json(arguments) for _, arguments in pair.calls)


def counts(recipe: Recipe) -> Counter[str]:
    """Words of the mixture, and words that WordNet uses often: unseen functions have those."""
    found = tokenizer.words(texts(recipe))
    for word, count in wordnet_vectors.counts().items():
        found[word] += min(count, 400)
    return found


def build(recipe: Recipe) -> Path:
    """Build it and write it where the run looks for it."""
    target = recipe.out / "tokenizer.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    built = tokenizer.build(counts(recipe), recipe.table["tokenizer"]["size"])
    with atomic_write(target) as part:
        built.save(str(part))
    print(f"{built.get_vocab_size()} tokens, {len(tokenizer.forms(built)[0])} bases -> {target}")
    return target


def main() -> None:
    build(from_arguments(__doc__ or ""))


if __name__ == "__main__":
    main()
