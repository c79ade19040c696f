"""Held-out cases as JSON lines, for `callmemaybe eval` or for another model.

    python -m training.cases --part function|domain --out CASES.jsonl [--cases 1200]

Four to twelve functions are offered, twelve requests for each list of them. Tags: the size of the
list, the language if it is not English, and what makes a case hard ("quotes", "path", "unicode", ...). Nothing of it is
trained on: functions and domains are held out by the recipe.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from callmemaybe.tuning.rendering import to_json
from training import recipe as recipes
from training.data.mixture import Block, BlockMaker, Pair
from training.data.similarity import SMALL, stem_set
from training.recipe import Recipe

SIZES = range(4, 13)
PAIRS = 12
SIGNS = {
    "quotes": "'\"`",
    "path": "/\\",
    "braces": "{}[]<>",
    "newline": "\n",
}


def cases(
    recipe: Recipe, part: str, count: int, *, stream: str = "cases", varied: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield `count` cases of a held-out part; they depend on the recipe's seed, `part` and `stream` alone.

    `varied`: with the variations that training adds to its own (other verbs, long descriptions, made-up functions between).
    """
    maker = recipe.maker(part, varied=varied)
    rng = Random(f"{recipe.seed}:{stream}:{part}")
    number = 0
    while number < count:
        block, offers = maker.start(rng, rng.choice(SIZES))
        if len(offers) < SIZES.start:
            continue  # its few domains hold no more
        seen: set[str] = set()
        for _ in range(min(PAIRS, count - number)):
            pair = fresh(maker, block, offers, rng, seen)
            if len(pair.calls) > 1:
                continue  # a case wants one call at most
            yield case(f"{part}-{number}", block, pair)
            number += 1


def fresh(maker: BlockMaker, block: Block, offers: Any, rng: Random, seen: set[str]) -> Pair:
    """Draw a pair that is new in its block, if that is easy."""
    for _ in range(10):
        pair = maker.pair(block, offers, rng)
        if pair.prompt not in seen:
            break
    seen.add(pair.prompt)
    return pair


def case(name: str, block: Block, pair: Pair) -> dict[str, Any]:
    """One case in the form that the package reads."""
    expected = None
    tags = [f"{len(block.tools)} functions", "none" if not pair.calls else "call"]
    tags += [block.language] if block.language != "en" else []
    if pair.calls:
        ((index, arguments),) = pair.calls
        expected = {
            "name": block.tools[index]["name"],
            "arguments": json.loads(to_json(arguments)),
        }
        tags += difficulties(expected["arguments"])
        tags.append(
            "a shared word" if shares_word(pair.prompt, block.tools[index]) else "no shared word"
        )
    return {
        "id": name,
        "functions": block.tools,
        "prompt": pair.prompt,
        "expected": expected,
        "tags": tags,
    }


def shares_word(prompt: str, tool: dict[str, Any]) -> bool:
    """Whether a request shares a word with its function's name or description; inflections count."""
    about = re.sub(r"[_.\-]", " ", f"{tool['name']} {tool.get('description', '')}")
    return not (stem_set(about) - SMALL).isdisjoint(stem_set(prompt))


def difficulties(arguments: Any) -> list[str]:
    """What is hard to copy or to read in these arguments."""
    found = set()
    stack = [arguments]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack += value.values()
        elif isinstance(value, list):
            stack += value
        elif isinstance(value, str):
            found |= {name for name, signs in SIGNS.items() if any(s in value for s in signs)}
            found |= set() if value.isascii() else {"unicode"}
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and value < 0:
            found.add("negative")
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--run", type=Path, default=recipes.DEFAULT)
    parser.add_argument("--part", choices=("function", "domain"), required=True)
    parser.add_argument("--cases", type=int, default=1200)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    found = cases(recipes.load(arguments.run), arguments.part, arguments.cases)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with arguments.out.open("w", encoding="utf-8") as file:
        for one in found:
            file.write(json.dumps(one, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
