"""What the data consist of, counted: written functions, and what a recipe draws of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

from training.data.mixture import BlockMaker
from training.data.tasks import TaskFunction

PAIRS = 12  # requests drawn for each tool list, as in training


def count_written(functions: Iterable[TaskFunction]) -> dict[str, Any]:
    """Count what was written by hand."""
    functions = list(functions)
    parameters = [parameter for function in functions for parameter in function.parameters]
    return {
        "functions": len(functions),
        "domains": len({function.domain for function in functions}),
        "request templates": sum(len(function.requests) for function in functions),
        "requests that only sound alike": sum(len(function.near) for function in functions),
        "names": sum(len(function.names) for function in functions),
        "parameters": len(parameters),
        "optional parameters": sum(parameter.optional for parameter in parameters),
        "parameters by type": dict(Counter(p.type for p in parameters).most_common()),
        "enum values": sum(len(p.choices) for p in parameters if p.type == "enum"),
    }


def type_of(schema: dict[str, Any]) -> str:
    """Name the type of an argument as a report does."""
    if "enum" in schema:
        return "enum"
    return str(schema.get("format") or schema.get("type", "any"))


def leaves(value: Any, schema: dict[str, Any]) -> Iterable[str]:
    """Yield the types of all values in an argument, with "left out" for optional ones not given."""
    if not isinstance(value, dict):
        yield type_of(schema)
        return
    required = schema.get("required", ())
    for name, each in schema.get("properties", {}).items():
        if name in value:
            yield from leaves(value[name], each)
        elif name not in required:
            yield "left out"


def count_drawn(maker: BlockMaker, blocks: int, seed: str) -> dict[str, Any]:
    """Draw tool lists with requests and count: what for, of which length, with which arguments."""
    tags: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    sizes: Counter[int] = Counter()
    types: Counter[str] = Counter()
    words = 0
    for number in range(blocks):
        rng = Random(f"{seed}:{number}")
        block, offers = maker.start(rng)
        kinds[block.kind] += 1
        sizes[len(block.tools)] += 1
        for _ in range(PAIRS):
            pair = maker.pair(block, offers, rng)
            tags[pair.tag] += 1
            words += len(pair.prompt.split())
            for index, arguments in pair.calls:
                types.update(leaves(arguments, block.tools[index]["parameters"]))
    return {
        "tool lists": dict(kinds.most_common()),
        "functions in a list": dict(sorted(sizes.items())),
        "requests": {"one call": tags["one"], "two calls": tags["two"], "no call": tags["none"]},
        "words in a request": round(words / max(1, sum(tags.values())), 1),
        "arguments by type": dict(types.most_common()),
    }


def shares(counts: dict[Any, int]) -> str:
    """Write counts as percentages, in their order."""
    total = sum(counts.values()) or 1
    return ", ".join(f"{key} {100 * count / total:.1f}%" for key, count in counts.items())


def table(counted: dict[str, Any]) -> str:
    """Markdown: one row for each figure, shares where there are several."""
    lines = ["| what | how many |", "|---|---|"]
    for label, value in counted.items():
        shown = shares(value) if isinstance(value, dict) else f"{value:,}"
        lines.append(f"| {label} | {shown} |")
    return "\n".join(lines)
