"""Count the training data, or show examples: `python -m training.describe --run R [--show N] [--kind KIND] [--leaks]`.

Prints one table of the written functions and one of what the recipe draws. `--show` prints examples instead, with the tool
that each calls; `--kind` limits them to one of the recipe's kinds of tool lists, or with `none` to requests that fit no
tool; `--leaks` counts what the leak filter drops.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from random import Random

from callmemaybe.tuning.rendering import to_json, tool_text
from training import recipe as recipes
from training.data.mixture import BlockMaker
from training.data.requests import draw_request
from training.data.statistics import count_drawn, count_written, table
from training.data.variants import BlockStyle, draw_variant
from training.recipe import Recipe


def draw_for(recipe: Recipe, kind: str | None) -> BlockMaker:
    """The recipe's source of tool lists, or one that draws a single kind."""
    if kind is None:
        return recipe.maker("train")
    kinds = recipe.table["mix"]["kinds"] if kind == "none" else {kind: 1.0}
    maker = recipe.maker("train", kinds)
    maker.mix = replace(maker.mix, none=1.0 if kind == "none" else 0.0)
    return maker


def show(maker: BlockMaker, count: int, seed: str) -> None:
    """Print one request for each of `count` tool lists."""
    for number in range(count):
        rng = Random(f"{seed}:{number}")
        block, offers = maker.start(rng)
        pair = maker.pair(block, offers, rng)
        print(f"> {pair.prompt}")
        for index, arguments in pair.calls:
            print("  " + tool_text(block.tools[index]).replace("\n", "\n    "))
            print(f"  = {block.tools[index]['name']} {to_json(arguments)}")
        if not pair.calls:
            print(f"  = nothing of {', '.join(tool['name'] for tool in block.tools)}")


def count_leaks(recipe: Recipe, draws: int = 50) -> dict[str, int]:
    """Draw every training function `draws` times and count what the leak filter drops."""
    leaks, rng = recipe.leak_filter, Random(recipe.seed)
    counts = {"drawn": 0, "functions": 0, "prompts": 0}
    for function in recipe.functions("train"):
        for _ in range(draws):
            variant = draw_variant(function, rng, BlockStyle.draw(rng))
            counts["drawn"] += 1
            counts["functions"] += not leaks.allows_tool(variant.tool)
            counts["prompts"] += not leaks.allows_prompt(draw_request(function, variant, rng)[0])
    return counts


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--run", type=Path, default=recipes.DEFAULT)
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N examples instead")
    parser.add_argument("--kind", help="tasks, synthetic, dialogue, mixed or none")
    parser.add_argument("--blocks", type=int, default=600, help="tool lists to draw for counting")
    parser.add_argument("--seed", default="describe")
    parser.add_argument("--leaks", action="store_true", help="count what the leak filter drops")
    arguments = parser.parse_args()
    recipe = recipes.load(arguments.run)
    if arguments.kind not in (None, "none", *recipe.table["mix"]["kinds"]):
        parser.error(
            f"--kind {arguments.kind}: the recipe has {', '.join(recipe.table['mix']['kinds'])}"
        )
    if arguments.leaks:
        print(count_leaks(recipe))
        return
    maker = draw_for(recipe, arguments.kind)
    if arguments.show:
        show(maker, arguments.show, arguments.seed)
        return
    for part in ("train", "function", "domain"):
        print(f"\nWritten, {part}\n\n{table(count_written(recipe.functions(part)))}")
    print(f"\nDrawn for training\n\n{table(count_drawn(maker, arguments.blocks, arguments.seed))}")


if __name__ == "__main__":
    main()
