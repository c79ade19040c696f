"""Requests from Schema-Guided Dialogue (CC BY-SA 4.0), each with four functions offered.

The folder has ``functions.json`` and ``{train,dev,test}.jsonl.gz`` of ``{"id", "prompt", "turns",
"function", "arguments"}``. Cases are the one-turn requests of dev and test. Nothing is required of
the functions offered: half of the requests leave out what a later turn is asked for, and no call that
keeps the schema could then be the expected one. Tags: the split,
"unseen" or "seen" (whether train has the function), and "said" or "unsaid" (whether the request
holds every string that is expected: no one can copy what was not said).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from callmemaybe.evals.case import Case, ExpectedCall
from callmemaybe.evals.sources import read_json, read_lines
from callmemaybe.tools import ToolSpec

OFFERED = 4
#: Lists of functions per function; few, so that what belongs to a list is made once.
LISTS = 4


def sgd(folder: Path) -> list[Case]:
    """Return the cases, dev first."""
    functions = {one["name"]: one for one in read_json(folder / "functions.json")}
    trained = {record["function"] for record in read_lines(folder / "train.jsonl.gz")}
    return [
        _case(record, split, functions, trained)
        for split in ("dev", "test")
        for record in read_lines(folder / f"{split}.jsonl.gz")
        if record["turns"] == 1
    ]


def _case(
    record: Mapping[str, Any], split: str, functions: Mapping[str, Any], trained: set[str]
) -> Case:
    name = record["function"]
    schema = functions[name]["parameters"]["properties"]
    said = all(_is_said(record["prompt"], value, schema[key])
               for key, value in record["arguments"].items())  # fmt: skip
    return Case(
        record["id"],
        _offered(name, functions, record["id"]),
        record["prompt"],
        (ExpectedCall(name, record["arguments"]),),
        (split, "seen" if name in trained else "unseen", "said" if said else "unsaid"),
    )


def _is_said(prompt: str, value: Any, schema: Mapping[str, Any]) -> bool:
    return not isinstance(value, str) or "enum" in schema or value in prompt


def _offered(name: str, functions: Mapping[str, Any], identity: str) -> tuple[ToolSpec, ...]:
    """Return the function and others that do not answer the same requests, in random order.

    Services of one kind (``Hotels_1``, ``Hotels_4``) do; functions of one service do not.
    """
    place = Random(identity).randrange(LISTS)  # noqa: S311 - no secret
    dice = Random(f"{name} {place}")  # noqa: S311 - no secret
    service, kind = functions[name]["x-service"], _kind(functions[name])
    others = sorted(
        other
        for other, one in functions.items()
        if other != name and (one["x-service"] == service or _kind(one) != kind)
    )
    offered: Sequence[str] = [name, *dice.sample(others, OFFERED - 1)]
    shown = sorted(offered, key=lambda _: dice.random())
    return tuple(
        ToolSpec(
            each,
            functions[each]["description"],
            {**functions[each]["parameters"], "required": []},
        )
        for each in shown
    )


def _kind(function: Mapping[str, Any]) -> str:
    return str(function["x-service"]).partition("_")[0]


SOURCE = sgd
