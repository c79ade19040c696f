"""Requests of Seal-Tools (Apache-2.0): made-up services, one call or several, with the functions that were offered."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from callmemaybe.tuning.rendering import NumberText
from training.data.dialogues import spelled
from training.data.natural import EVERY, is_held_out

MOST = 4  # calls that one answer may hold
__all__ = ["EVERY", "SealRequest", "SealTools", "dress", "load", "part_of"]


@dataclass(frozen=True, slots=True)
class SealRequest:
    """A request, the calls it means, and the functions among which they were to be chosen."""

    prompt: str
    calls: tuple[tuple[str, dict[str, Any]], ...]
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SealTools:
    """Functions by name, and requests for one call and for several."""

    tools: dict[str, dict[str, Any]]
    single: list[SealRequest]
    several: list[SealRequest]


def as_said(prompt: str, value: Any) -> Any:
    """A value as the request spells it; None if it does not say it."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        text = json.dumps(value)
        return (
            NumberText(text)
            if re.search(rf"(?<![\w.]){re.escape(text)}(?!\w|\.\d)", prompt)
            else None
        )
    if isinstance(value, str):
        return spelled(prompt, value) or None
    if isinstance(value, list):
        items = [as_said(prompt, each) for each in value]
        return None if None in items or not items else items
    return None


def readable(row: dict[str, Any], tools: dict[str, dict[str, Any]]) -> SealRequest | None:
    """A row whose values are all said, as they are said; None otherwise, or if it has too many calls."""
    if not (row["valid"] and row["grounded"]) or row["nested"] or len(row["calls"]) > MOST:
        return None
    calls = []
    for call in row["calls"]:
        properties = tools[call["name"]]["parameters"]["properties"]
        arguments = {}
        for name in properties:
            if name not in call["arguments"]:
                continue
            value = call["arguments"][name]
            said = value if "enum" in properties[name] else as_said(row["prompt"], value)
            if said is None:
                return None
            arguments[name] = said
        calls.append((call["name"], arguments))
    return SealRequest(row["prompt"], tuple(calls), tuple(row["candidates"]))


def load(folder: Path) -> SealTools:
    """Read functions and requests."""
    with gzip.open(folder / "tools.jsonl.gz", "rt", encoding="utf-8") as lines:
        tools = {tool["name"]: tool for tool in map(json.loads, lines)}
    with gzip.open(folder / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
        found = [readable(json.loads(line), tools) for line in lines]
    kept = [request for request in found if request]
    return SealTools(
        tools,
        [request for request in kept if len(request.calls) == 1],
        [request for request in kept if len(request.calls) > 1],
    )


def part_of(seal: SealTools, part: str) -> SealTools:
    """`train`, or `natural`: the held-out requests."""
    single, several = (
        [request for request in requests if is_held_out(request.prompt) == (part == "natural")]
        for requests in (seal.single, seal.several)
    )
    return SealTools(seal.tools, single, several)


def dress(tool: dict[str, Any], rng: Random | None) -> dict[str, Any]:
    """A function as offered; with `rng`, under one of several names, and not always described."""
    shown = {key: tool[key] for key in ("name", "description", "parameters")}
    shown = json.loads(json.dumps(shown))
    if rng is None:
        return shown  # type: ignore[no-any-return]
    if rng.random() < 0.4:
        shown["name"] = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", tool["name"]).lower()
    for schema in shown["parameters"]["properties"].values():
        about = schema.get("description", "")
        if rng.random() < 0.25:
            schema.pop("description", None)
        elif rng.random() < 0.4:
            schema["description"] = re.sub(r"\s*\((e\.g\.|for example)[^)]*\)", "", about)
    return shown  # type: ignore[no-any-return]
