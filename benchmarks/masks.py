"""Token masks on tool calls: this engine beside llguidance and xgrammar, where they are installed.

    python benchmarks/masks.py [--limit 300] [--data ../shared/data] [--output results/masks.json]

Replays ground truths of the Berkeley Function Calling Leaderboard through each engine in turn, item
by item, so that all see the same machine. CPU time of the process in microseconds; Qwen's
vocabulary, masks 151,936 wide. "whole" is one request without the model: from the tools to a grammar,
to a mask for every token that is not forced, to the end; nothing is cached for its tools.
"""

# ruff: noqa: D102 - the methods are explained once, in Ours

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import resource
import subprocess
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from bfcl import Item, items

WIDTH = 151_936
FRAME = "<tool_call>", "</tool_call>"
clock = time.process_time_ns


class Ours:
    """This package, with the wire format that Qwen uses.

    ``tokens(text)``: the canonical ids of a text in which NULs enclose control tokens.
    ``compile(tools)``, ``start(compiled)``: from tools to something that can be started often.
    ``forced``, ``mask``, ``accept`` (how many were taken), ``is_done``: one step of an output.
    """

    name = "callmemaybe"

    def __init__(self, tokenizer: Path) -> None:
        from callmemaybe.matching.cache import tables_of
        from callmemaybe.vocabulary import Vocabulary

        self.vocabulary = Vocabulary.from_file(tokenizer, size=WIDTH)
        tables_of(self.vocabulary)

    def tokens(self, text: str) -> list[int]:
        ids = []
        for place, part in enumerate(text.split("\0")):  # every other part names a control token
            if place % 2:
                ids.append(self.vocabulary.controls[part])
            else:
                ids += self.vocabulary.encode(part.encode())
        return ids

    def compile(self, tools: list[dict[str, Any]]) -> Any:
        from callmemaybe.calls import ToolSpec
        from callmemaybe.grammar.compile import automaton_of
        from callmemaybe.wire.formats.hermes import FORMAT

        specs = [ToolSpec(t["name"], t["description"], t["parameters"]) for t in tools]
        return automaton_of(FORMAT.grammar(specs))

    def start(self, compiled: Any) -> Any:
        from callmemaybe.matching import Matcher

        return Matcher(compiled, self.vocabulary)

    def forced(self, matcher: Any) -> list[int]:
        return matcher.forced()

    def mask(self, matcher: Any) -> Any:
        return matcher.mask()

    def accept(self, matcher: Any, ids: list[int]) -> int:
        return matcher.try_accept(ids)

    def is_done(self, matcher: Any) -> bool:
        return matcher.is_terminated


class LlGuidance(Ours):
    """llguidance, the grammar as Lark with the schema inside."""

    name = "llguidance"

    def __init__(self, tokenizer: Path, ours: Ours) -> None:
        import llguidance
        import llguidance.hf
        import tokenizers

        self.vocabulary = ours.vocabulary
        self._library = llguidance
        self._tokenizer = llguidance.hf.from_tokenizer(
            tokenizers_fast(tokenizers, tokenizer), n_vocab=WIDTH
        )
        self._mask = np.zeros((1, WIDTH // 32), np.int32)

    def compile(self, tools: list[dict[str, Any]]) -> Any:
        style = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
        schema = json.dumps({"x-guidance": style, **_any_call(tools)})
        open_, close = (f"<[{self.vocabulary.controls[text]}]>" for text in FRAME)
        lark = f'start: {open_} "\\n" call "\\n" {close}\ncall: %json {schema}\n'
        return self._library.LLMatcher.grammar_from_lark(lark)

    def start(self, compiled: Any) -> Any:
        return self._library.LLMatcher(self._tokenizer, compiled)

    def forced(self, matcher: Any) -> list[int]:
        return matcher.compute_ff_tokens()

    def mask(self, matcher: Any) -> Any:
        matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        return self._mask

    def accept(self, matcher: Any, ids: list[int]) -> int:
        return matcher.try_consume_tokens(ids)

    def is_done(self, matcher: Any) -> bool:
        return matcher.is_accepting()


class XGrammar(Ours):
    """xgrammar, JSON without the frame; one mask per token (its jump-forward gives no tokens)."""

    name = "xgrammar"

    def __init__(self, ours: Ours, *, cache: bool = True) -> None:
        import xgrammar

        self.name = "xgrammar" if cache else "xgrammar, no cache"
        self.vocabulary = ours.vocabulary
        self._library = xgrammar
        names = {index: text for text, index in ours.vocabulary.controls.items()}
        encoded = [names.get(i, "").encode() or t for i, t in enumerate(ours.vocabulary.tokens)]
        info = xgrammar.TokenizerInfo(
            encoded,
            xgrammar.VocabType.RAW,
            vocab_size=WIDTH,
            stop_token_ids=list(ours.vocabulary.ends),
        )
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=cache)
        self._mask = xgrammar.allocate_token_bitmask(1, WIDTH)

    def tokens(self, text: str) -> list[int]:
        return self.vocabulary.encode(text.split("\0")[2].strip("\n").encode())

    def compile(self, tools: list[dict[str, Any]]) -> Any:
        return self._compiler.compile_json_schema(
            _any_call(tools), any_whitespace=False, separators=(", ", ": ")
        )

    def start(self, compiled: Any) -> Any:
        return self._library.GrammarMatcher(compiled)

    def forced(self, matcher: Any) -> list[int]:  # noqa: ARG002 - the adapters' one signature
        return []

    def mask(self, matcher: Any) -> Any:
        matcher.fill_next_token_bitmask(self._mask)
        return self._mask

    def accept(self, matcher: Any, ids: list[int]) -> int:
        taken = 0
        while taken < len(ids) and matcher.accept_token(ids[taken]):
            taken += 1
        return taken

    def is_done(self, matcher: Any) -> bool:
        return matcher.is_completed()


def tokenizers_fast(library: Any, tokenizer: Path) -> Any:
    """Wrap a tokenizer.json as llguidance wants it (a slow import, so only when needed)."""
    import transformers

    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=library.Tokenizer.from_file(str(tokenizer / "tokenizer.json")),
        eos_token="<|im_end|>",
    )


def _any_call(tools: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "anyOf": [
            {
                "type": "object",
                "properties": {"name": {"const": tool["name"]}, "arguments": tool["parameters"]},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
            for tool in tools
        ]
    }


def replay(
    engine: Ours,
    item: Item,
    figures: dict[str, list[float]],
    counts: dict[str, int],
    *,
    fresh: bool,
) -> None:
    """Run one item through one engine; times go to ``figures``, tallies to ``counts``.

    Compiling is timed only for tools that no earlier item had (``fresh``).
    """
    call = json.dumps({"name": item.function, "arguments": item.arguments}, ensure_ascii=False)
    ids = engine.tokens(f"\0{FRAME[0]}\0\n{call}\n\0{FRAME[1]}\0")
    began = clock()
    compiled = engine.compile(item.tools)
    matcher = engine.start(compiled)
    engine.mask(matcher)
    first = clock()
    if fresh:
        figures["compile + first mask"].append((first - began) / 1e3)
    whole, accepted = first - began, True
    for seen in ("first seen", "seen before"):
        matcher = engine.start(compiled) if seen == "seen before" else matcher
        at = 0
        while at < len(ids):
            t0 = clock()
            forced = engine.forced(matcher)
            t1 = clock()
            if not forced:
                engine.mask(matcher)
            t2 = clock()
            taken = engine.accept(matcher, forced or ids[at : at + 1])
            t3 = clock()
            if seen == "first seen":
                whole += t3 - t0
                counts["forced"] += len(forced)
                counts["tokens"] += max(1, len(forced))
            if not forced:
                figures[f"mask {seen}"].append((t2 - t1) / 1e3)
            wrong = forced != ids[at : at + len(forced)]
            if wrong or not taken:
                counts["differences"] += wrong
                accepted = False
                break
            at += taken
        if seen == "first seen":
            if fresh:
                figures["whole"].append(whole / 1e3)
            counts["accepted"] += accepted and engine.is_done(matcher)
            counts["items"] += 1


def machine() -> dict[str, str]:
    """Say where and on what this ran."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "commit": commit,
        "cpu": cpu,
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def main() -> None:
    """Run all engines that are there, print the table, write the results."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--data", type=Path, default=here.parent.parent / "shared" / "data")
    parser.add_argument("--output", type=Path, default=here / "results" / "masks.json")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    tokenizer = options.data / "tokenizers" / "qwen3"
    began = clock()
    ours = Ours(tokenizer)
    setups = {"callmemaybe": (clock() - began) / 1e9}
    engines: list[Ours] = [ours]
    for make in (
        lambda: LlGuidance(tokenizer, ours),
        lambda: XGrammar(ours),
        lambda: XGrammar(ours, cache=False),
    ):
        try:
            began = clock()
            engines.append(make())
            setups[engines[-1].name] = (clock() - began) / 1e9
        except ImportError as error:
            print(f"left out: {error}")
    figures: dict[str, dict[str, list[float]]] = {e.name: defaultdict(list) for e in engines}
    counts: dict[str, dict[str, int]] = {e.name: defaultdict(int) for e in engines}
    gc.collect()
    gc.freeze()
    known: set[str] = set()
    for item in items(options.data / "bfcl", options.limit):
        fresh = item.name not in known
        known.add(item.name)
        for engine in engines:
            replay(engine, item, figures[engine.name], counts[engine.name], fresh=fresh)
    report = {
        "machine": machine(),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "engines": {
            name: {
                "setup_s": round(setups[name], 3),
                **counts[name],
                **{
                    key: dict(zip(("p50", "p90", "p99", "max"), _percentiles(values), strict=True))
                    for key, values in figures[name].items()
                },
            }
            for name in figures
        },
    }
    options.output.parent.mkdir(exist_ok=True)
    options.output.write_text(json.dumps(report, indent=1) + "\n")
    for name, row in report["engines"].items():
        print(f"\n{name}: set-up {row['setup_s']} s, {dict(counts[name])}")
        for key in figures[name]:
            print(f"  {key:22s}", *(f"{part} {value:>10,.1f}" for part, value in row[key].items()))


def _percentiles(values: list[float]) -> list[float]:
    return [round(float(p), 2) for p in np.percentile(values, [50, 90, 99, 100])]


if __name__ == "__main__":
    main()
