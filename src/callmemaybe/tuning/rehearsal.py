"""What the embedded model was trained on, in small: rehearsed while it is tuned, so that it is not forgotten.

Rehearsal is the oldest remedy against forgetting (Robins, 1995). `rehearsal.jsonl.gz` holds lists of functions with requests,
drawn by `training.rehearsal` from this project's own sources, and lists of functions that training holds out. It also is where
values of parameters come from for which a user gives none.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from callmemaybe.tuning.packing import Block, Pair
from callmemaybe.tuning.rendering import NumberText

FILE = Path(__file__).with_name("rehearsal.jsonl.gz")
TRAIN = "train"


@dataclass(frozen=True, slots=True)
class RehearsalList:
    """A list of functions with requests; ``part`` is "train", or what kept it out of training: "function" or "domain"."""

    part: str
    block: Block
    pairs: Sequence[Pair]


@cache
def read_rehearsal() -> tuple[RehearsalList, ...]:
    """Return all lists, in the order of the file."""
    with gzip.open(FILE, "rt", encoding="utf-8") as lines:
        return tuple(_read(json.loads(line, parse_float=NumberText)) for line in lines)


def _read(value: Any) -> RehearsalList:
    pairs = [
        Pair(one["prompt"], [(index, arguments) for index, arguments in one["calls"]])
        for one in value["pairs"]
    ]
    return RehearsalList(value["part"], Block(value["tools"], value["part"]), pairs)


def said_texts() -> Iterator[tuple[str, str]]:
    """Yield the texts that requests of training say, with the names of their parameters."""
    for each in read_rehearsal():
        if each.part != TRAIN:
            continue
        for pair in each.pairs:
            for _, arguments in pair.calls:
                for name, value in arguments.items():
                    if (
                        isinstance(value, str)
                        and not isinstance(value, NumberText)
                        and value in pair.prompt
                    ):
                        yield name, value
