"""Keep evaluation data out of training.

A training request goes if it shares eight words in a row with an evaluation prompt (if either is
shorter: if the words are the same). A training function goes if an evaluation function has its name
and the same parameter names. Services that SGD itself puts in both train and dev or test are
ordinary training functions; their dev and test *requests* are protected like all others.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

SPAN = 8
Signature = tuple[str, frozenset[str]]


def normalise(text: str) -> list[str]:
    """Words in lower case, punctuation gone."""
    return re.findall(r"\w+", text.lower())


def spans(text: str) -> Iterator[str]:
    """Every run of eight words; a shorter text is one run."""
    words = normalise(text)
    for start in range(max(1, len(words) - SPAN + 1)):
        yield " ".join(words[start : start + SPAN])


def signature(tool: Mapping[str, Any]) -> Signature:
    """Name and parameter names, whatever form the definition has."""
    parameters = tool.get("parameters") or {}
    properties = parameters.get("properties", parameters)
    return str(tool["name"]), frozenset(properties)


class LeakFilter:
    """What must not be trained on."""

    def __init__(self, prompts: Iterable[str], tools: Iterable[Mapping[str, Any]]) -> None:
        self.spans = {hash(span) for prompt in prompts for span in spans(prompt)}
        self.spans.discard(hash(""))
        self.signatures = {signature(tool) for tool in tools}

    def allows_prompt(self, prompt: str) -> bool:
        return not any(hash(span) in self.spans for span in spans(prompt))

    def allows_tool(self, tool: Mapping[str, Any]) -> bool:
        return signature(tool) not in self.signatures


def read_json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def read_lines(path: Path) -> Iterator[Any]:
    """JSON lines, packed or not."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def exercise(folder: Path) -> tuple[list[str], list[Any]]:
    """Files in the exercise's form: lists of functions and of prompts."""
    prompts: list[str] = []
    tools: list[Any] = []
    for path in sorted(folder.glob("*.json*")):
        items = list(read_lines(path)) if path.suffix == ".jsonl" else read_json(path)
        for item in items:
            item = {"prompt": item} if isinstance(item, str) else item
            if "prompt" in item:
                prompts.append(item["prompt"])
            elif "function" in item or "name" in item:
                tools.append(item.get("function", item))
    return prompts, tools


def leaderboard(folder: Path) -> tuple[list[str], list[Any]]:
    """BFCL: questions are lists of turns of messages."""
    prompts: list[str] = []
    tools: list[Any] = []
    for path in sorted(folder.glob("BFCL*.json")):
        for record in read_lines(path):
            prompts += [m["content"] for turn in record["question"] for m in turn]
            tools += record["function"]
    return prompts, tools


def dialogues(folder: Path) -> tuple[list[str], list[Any]]:
    """SGD: all dev and test requests, and the functions that train lacks."""
    trained = {record["function"] for record in read_lines(folder / "train.jsonl.gz")}
    prompts = [
        record["prompt"]
        for part in ("dev", "test")
        for record in read_lines(folder / f"{part}.jsonl.gz")
    ]
    return prompts, [f for f in read_json(folder / "functions.json") if f["name"] not in trained]


def build_leak_filter(data: Path, examples: Path) -> LeakFilter:
    """Protect every evaluation set there is."""
    prompts: list[str] = []
    tools: list[Any] = []
    for reader, folder in (
        (exercise, data / "cmm42" / "input"),
        (leaderboard, data / "bfcl"),
        (dialogues, data / "sgd"),
        (exercise, examples),
    ):
        if folder.is_dir():
            more_prompts, more_tools = reader(folder)
            prompts += more_prompts
            tools += more_tools
    return LeakFilter(prompts, tools)
