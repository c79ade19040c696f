"""What `trend.py` measures, in one process with one version of the package: CPU times as one line of JSON.

    PYTHONPATH=TREE/src python benchmarks/trend_probe.py

Every version since 0.2.0 has the names that this file imports.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from callmemaybe import Caller, Gateway, ToolCall, ToolSpec, load_tools, models, tool
from callmemaybe.gateway.ledger import open_ledger
from callmemaybe.grammar import compile as compiled
from callmemaybe.grammar import json_schema
from callmemaybe.matching import Matcher
from callmemaybe.vocabulary import Vocabulary

INPUT = Path(__file__).parents[1] / "data" / "input"
CALLS = 600
KINDS = ("report", "invoice", "contract", "poster", "letter")
VERBS = (
    "print",
    "archive",
    "translate",
    "sign",
    "share",
    "delete",
    "open",
    "copy",
    "check",
    "sort",
)


def cpu_ms(work: Callable[[], Any]) -> float:
    """Return the milliseconds of CPU time of one piece of work, all threads together."""
    began = time.process_time()
    work()
    return 1000 * (time.process_time() - began)


def requests() -> tuple[list[ToolSpec], list[str]]:
    """Return the functions and prompts of `make run`."""
    prompts = json.loads((INPUT / "function_calling_tests.json").read_text("utf-8"))
    tools = load_tools(str(INPUT / "functions_definition.json"))
    return list(tools), [each["prompt"] for each in prompts]


def many() -> list[ToolSpec]:
    """Return 50 functions that nobody wrote."""
    schema = {"type": "object", "properties": {"title": {"type": "string"}, "pages": {"type": "integer"}}, "required": ["title"]}  # fmt: skip
    return [
        ToolSpec(f"{verb}_{kind}", f"{verb.capitalize()} a {kind} by its title.", schema)
        for verb in VERBS
        for kind in KINDS
    ]


def of_nano() -> dict[str, float]:
    """Return CPU milliseconds of calls of the embedded model."""
    tools, prompts = requests()
    found: dict[str, float] = {}
    loaded: list[Any] = []
    found["load the embedded model"] = cpu_ms(lambda: loaded.append(models.load("nano", threads=1)))
    caller = Caller(loaded[0], tools)
    found["first call"] = cpu_ms(lambda: caller.call(prompts[0]))
    found["a call, functions of make run"] = statistics.mean(
        cpu_ms(lambda prompt=prompt: caller.call(prompt)) for prompt in prompts[1:]
    )
    crowd = Caller(loaded[0], many())
    found["first call, 50 functions"] = cpu_ms(
        lambda: crowd.call("Print the invoice 'March', 2 pages")
    )
    found["a call, 50 functions"] = statistics.mean(
        cpu_ms(lambda kind=kind: crowd.call(f"Archive the {kind} 'Spring {len(kind)}'"))
        for kind in KINDS
    )
    return found


def of_masks() -> dict[str, float]:
    """Return CPU times of a grammar of 24 properties and of the masks of a text of it."""
    words = [f"field_{number}" for number in range(24)]
    types = ({"type": "string"}, {"type": "integer"}, {"enum": ["red", "green"]}, {"type": "array", "items": {"type": "number"}})  # fmt: skip
    schema = {"type": "object", "properties": {word: types[at % 4] for at, word in enumerate(words)}, "required": words, "additionalProperties": False}  # fmt: skip
    values = ("Caf\u00e9 \u201cquoted\u201d", 42, "green", [1, 2.5])
    text = json.dumps({word: values[at % 4] for at, word in enumerate(words)}, ensure_ascii=False)
    vocabulary = Vocabulary.from_file(nano_folder() / "tokenizer.json")
    ids = vocabulary.encode(text.encode())
    grammars: list[Any] = []
    found = {
        "grammar of 24 properties": cpu_ms(
            lambda: grammars.append(compiled(json_schema(schema, checks=[])))
        )
    }
    found["masks, first text"], *again = (
        cpu_ms(lambda: walk(Matcher(grammars[0], vocabulary), ids)) for _ in range(21)
    )
    return found | {"masks, again": statistics.median(again)}


def walk(matcher: Matcher, ids: list[int]) -> None:
    """Take a mask before every token of a text."""
    for token in ids:
        matcher.mask()
        assert matcher.try_accept([token]) == 1
    assert matcher.is_accepting


def nano_folder() -> Path:
    """Return the folder of the embedded model."""
    import callmemaybe

    return Path(callmemaybe.__file__).parent / "data" / "nano"


@tool(effect="once", writes="n:{n}", trusted=True)
async def act(n: int) -> int:
    """Do nothing."""
    return n


async def gateway_us(store: str) -> float:
    """Return microseconds of CPU of a call that writes, recorded in SQLite, 32 callers."""
    ledger = open_ledger(store)
    async with Gateway([act], store=ledger) as gateway:

        async def one(calls: int, place: int) -> None:
            run = gateway.begin()
            for n in range(calls):
                call = ToolCall("act", json.dumps({"n": place * CALLS + n}), "c")
                assert (await gateway.run([call], run=run))[0].ok

        await asyncio.gather(*(one(1, place) for place in range(32)))
        began = time.process_time()
        await asyncio.gather(*(one(CALLS // 32, 32 + place) for place in range(32)))
        used = time.process_time() - began
    ledger.close()
    return 1e6 * used / (CALLS // 32 * 32)


def main() -> None:
    """Measure, print."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    found = {**of_nano(), **of_masks()}
    with tempfile.TemporaryDirectory() as folder:
        per_call = asyncio.run(gateway_us(f"{folder}/ledger.db"))
    found["a recorded call of the gateway"] = per_call / 1000
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
