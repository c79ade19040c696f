"""The whole pipeline against its rivals: real forward passes of one shape, realistic text.

    python -m benchmarks.decode --bfcl FOLDER --tokenizer FOLDER --models FOLDER

Models have random weights of exactly the shape asked for (``benchmarks/shapes.py``); whatever is
chosen, is steered to the ground truth (``benchmarks/steering.py``), so every contender writes the
same calls and pays for its own passes. All run on the same machine with the same threads, one after
the other; the first call of each is not counted. ``naive`` (the loop of the exercise's
reference implementations: the whole sequence through the model for each token) is timed for a few
tokens and multiplied, because it takes minutes a call; results say so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import bfcl, shapes
from benchmarks.steering import Steered, Truth, Truths
from callmemaybe import models
from callmemaybe.caller import Caller
from callmemaybe.decoding.prefix_cache import PrefixCache
from callmemaybe.generation.config import DecodingConfig, encode
from callmemaybe.tools import ToolCall
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.wire import formats
from callmemaybe.wire.format_nodes import PromptParts

SHARED_TOOLS = 8
FORMAT = formats.get("hermes")


class Stopwatch:
    """Wall time, which a user waits, and processor time of this process, which a busy machine spoils less.

    With one thread they are the same on a quiet machine.
    """

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        """Return both in ms."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"ms": 1e3 * wall, "cpu_ms": 1e3 * cpu}


class Case(NamedTuple):
    """A prompt, the tools it comes with, and the call it asks for."""

    prompt: str
    tools: list[dict[str, Any]]
    call: ToolCall


class Setting(NamedTuple):
    """The cases, and what all contenders need to run them."""

    cases: list[Case]
    vocabulary: Vocabulary
    paths: dict[str, Path]
    threads: int

    def ids(self, caller: Caller, case: Case) -> tuple[list[int], list[int]]:
        """Return the ids of the prompt and of the true answer."""
        messages = [{"role": "user", "content": case.prompt}]
        parts = FORMAT.prompt(messages, caller.tools, self.controls)
        answer = FORMAT.render([case.call], controls=self.controls)
        return self.encode(caller, parts), self.encode(caller, answer)

    @property
    def controls(self) -> frozenset[str]:
        """The control tokens of the vocabulary."""
        return frozenset(self.vocabulary.controls)

    def encode(self, caller: Caller, parts: PromptParts) -> list[int]:
        """Return the ids of a prompt or an answer."""
        return encode(parts, self.vocabulary, FORMAT, caller.model)

    def prefix(self, caller: Caller) -> list[int]:
        """Return the ids that all requests of a caller begin with."""
        return self.encode(caller, FORMAT.prefix(caller.tools, self.controls))


def shared_cases(folder: Path, count: int) -> list[Case]:
    """Return prompts over one list of eight tools: the first simple questions of the leaderboard."""
    rows = {row["id"]: row for row in bfcl._rows(folder / "BFCL_v4_simple_python.json")}
    chosen, names = [], set()
    for item in bfcl.items(folder):
        if item.function not in names and len(chosen) < SHARED_TOOLS:
            names.add(item.function)
            chosen.append(item)
    tools = [tool for item in chosen for tool in item.tools]
    cases = [
        Case(
            rows[item.name]["question"][0][-1]["content"],
            tools,
            ToolCall(item.function, json.dumps(item.arguments, ensure_ascii=False)),
        )
        for item in chosen
    ]
    return [cases[at % len(cases)] for at in range(count)]


def ours(setting: Setting, form: str, **options: Any) -> Iterator[dict[str, float]]:
    """Yield what each call costs with this package's decoder."""
    truth = Truth(setting.vocabulary)
    model = Steered(
        models.load(setting.paths[form], threads=setting.threads), truth, setting.vocabulary.size
    )
    prefixes = PrefixCache(model)  # type: ignore[arg-type]
    caller = Caller(
        model,
        setting.cases[0].tools,
        format=FORMAT,
        vocabulary=setting.vocabulary,
        prefix_cache=prefixes,
        decoding=DecodingConfig(**options),
    )
    for case in setting.cases:
        prompt, answer = setting.ids(caller, case)
        truth.aim(len(prompt), answer)
        model.counter.passes = model.counter.ids = 0
        start = Stopwatch()
        outcome = caller.call(case.prompt)
        took = start.read()
        assert outcome.call is not None
        assert outcome.call.parsed == case.call.parsed, (outcome.call, case.call)
        yield {
            **took,
            "model_ms": 1e3 * outcome.seconds["model"],
            "passes": outcome.passes,
            "tokens": outcome.forced + outcome.chosen,
            "fed": model.counter.ids,
            "recomputed": max(
                0, model.counter.ids - len(answer) - len(prompt) + len(setting.prefix(caller))
            ),
        }


def many(setting: Setting, form: str, at_once: int, **options: Any) -> Iterator[dict[str, float]]:
    """Yield what a call costs where ``at_once`` are worked on at a time, over all calls together."""
    truths = Truths(setting.vocabulary)
    model = Steered(
        models.load(setting.paths[form], threads=setting.threads), truths, setting.vocabulary.size
    )
    caller = Caller(
        model,  # type: ignore[arg-type]
        setting.cases[0].tools,
        format=FORMAT,
        vocabulary=setting.vocabulary,
        decoding=DecodingConfig(**options),
    )
    for case in setting.cases:
        prompt, answer = setting.ids(caller, case)
        truths.add(prompt, answer)
    prompts = [case.prompt for case in setting.cases]
    yield {**_spent(lambda: [caller.call(prompts[0])]), **_counts(model, 1)}
    model.counter.passes = model.counter.ids = 0
    found: list[Any] = []
    took = _spent(lambda: found.extend(caller.call_many(prompts, at_once=at_once)))
    for case, outcome in zip(setting.cases, found, strict=True):
        assert outcome.call is not None
        assert outcome.call.parsed == case.call.parsed, (outcome.call, case.call)
    tokens = sum(outcome.forced + outcome.chosen for outcome in found)
    share = {key: value / len(prompts) for key, value in took.items()}
    yield {**share, **_counts(model, len(prompts)), "tokens": tokens / len(prompts)}


def _spent(work: Callable[[], Any]) -> dict[str, float]:
    start = Stopwatch()
    work()
    return start.read()


def _counts(model: Steered, calls: int) -> dict[str, float]:
    return {
        "passes": model.counter.passes / calls, "fed": model.counter.ids / calls, "tokens": 1
    }  # fmt: skip


def with_cache(setting: Setting, form: str, engine: str = "") -> Iterator[dict[str, float]]:
    """Yield what each call costs with transformers, a cache per call, and one pass for each token.

    ``engine`` masks the logits as its logits processor does: "llguidance" (the language of the calls
    as Lark text), "outlines" (the schema of a call as an index over the vocabulary, made once; calls
    are plain JSON then); empty: no mask, the lower bound of every such library.
    """
    model = models.load(setting.paths[form], threads=setting.threads)
    caller = _encoder(setting)
    masks = {"": _no_mask, "llguidance": _llguidance, "outlines": _outlines}
    constrain = masks[engine](setting, caller)
    for case in setting.cases:
        prompt, answer = setting.ids(caller, case)
        if engine == "outlines":
            answer = _plain(setting, case)
        start = Stopwatch()
        step = constrain(case)
        session = model.open()
        logits = step(session.feed(prompt)[0], None)
        for index in answer[:-1]:
            logits[index] = 1000.0
            assert int(logits.argmax()) == index
            logits = step(session.feed([index])[0], index)
        took = start.read()
        yield {
            **took,
            "passes": len(answer),
            "tokens": len(answer),
            "fed": len(prompt) + len(answer) - 1,
            "recomputed": len(prompt),
        }


def _no_mask(_: Setting, __: Caller) -> Callable[[Case], Callable[..., Any]]:
    """Return what leaves the logits of each call alone."""
    return lambda _: lambda logits, _: logits


def _llguidance(setting: Setting, caller: Caller) -> Callable[[Case], Callable[..., Any]]:
    """Return what makes, for each call, the steps of llguidance's processor: mask, then accept."""
    import llguidance
    import llguidance.hf
    import llguidance.numpy
    from transformers import AutoTokenizer

    from callmemaybe.grammar.export import to_lark

    tokenizer = llguidance.hf.from_tokenizer(
        AutoTokenizer.from_pretrained(setting.paths["onnx-int4"]), n_vocab=setting.vocabulary.size
    )
    lark = to_lark(FORMAT.grammar(caller.tools, no_call=False, controls=setting.controls))

    def begin(_: Case) -> Callable[..., Any]:
        matcher = llguidance.LLMatcher(tokenizer, lark)
        mask = llguidance.numpy.allocate_token_bitmask(1, setting.vocabulary.size)

        def step(logits: Any, taken: int | None) -> Any:
            if taken is not None:
                assert matcher.consume_token(taken), matcher.get_error()
            llguidance.numpy.fill_next_token_bitmask(matcher, mask, 0)
            llguidance.numpy.apply_token_bitmask_inplace(logits[None, :], mask)
            return logits

        return step

    return begin


def _outlines(setting: Setting, caller: Caller) -> Callable[[Case], Callable[..., Any]]:
    """Return what makes, for each call, the steps of outlines' processor on its core's index."""
    from benchmarks import rivals

    rivals.OutlinesCore.load()
    engine = rivals.OutlinesCore(setting.paths["onnx-int4"])
    index = engine.tools(
        [{"name": tool.name, "parameters": dict(tool.parameters)} for tool in caller.tools]
    )

    def begin(_: Case) -> Callable[..., Any]:
        guide = engine.start(index)

        def step(logits: Any, taken: int | None) -> Any:
            if taken is not None:
                assert engine.accept(guide, [taken]) == 1, "the answer is not in its language"
            mask = engine.mask(guide)
            bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[: len(logits)]
            logits[bits == 0] = -np.inf
            return logits

        return step

    return begin


def _plain(setting: Setting, case: Case) -> list[int]:
    """Return the ids of the true call as bare JSON, with an end."""
    from callmemaybe.wire.plain_json import CALL_FORMAT

    said = "".join(str(part) for part in CALL_FORMAT.render([case.call], controls=frozenset()))
    return [*setting.vocabulary.encode(said.encode()), *setting.vocabulary.ends]


def naive(setting: Setting, form: str, timed: int = 2) -> Iterator[dict[str, float]]:
    """Yield what each call would cost if the whole sequence went through for each token."""
    model = models.load(setting.paths[form], threads=setting.threads)
    caller = _encoder(setting)
    for case in setting.cases[:2]:
        prompt, answer = setting.ids(caller, case)
        start = Stopwatch()
        for end in range(timed):
            model.open().feed(prompt + answer[:end])
        took = {key: value * len(answer) / timed for key, value in start.read().items()}
        fed = sum(len(prompt) + end for end in range(len(answer)))
        yield {
            **took,
            "passes": len(answer),
            "tokens": len(answer),
            "fed": fed,
            "recomputed": fed - len(prompt) - len(answer),
        }


def llama_cpp(setting: Setting, form: str) -> Iterator[dict[str, float]]:
    """Yield what each call costs with llama.cpp, its own grammar and its own prefix cache."""
    import llama_cpp as lib

    from callmemaybe.grammar.export import to_gbnf
    from callmemaybe.wire.plain_json import CALL_FORMAT

    model = lib.Llama(
        str(setting.paths[form]), n_ctx=4096, n_threads=setting.threads,
        n_threads_batch=setting.threads, verbose=False,
    )  # fmt: skip
    caller = _encoder(setting)
    truth = Truth(setting.vocabulary)
    grammar = to_gbnf(CALL_FORMAT.grammar(caller.tools, controls=frozenset()))
    for case in setting.cases:
        prompt, _ = setting.ids(caller, case)
        answer = _plain(setting, case)
        truth.aim(len(prompt), answer)

        def steer(ids: Any, scores: Any, start: int = len(prompt)) -> Any:
            wanted = truth.after(tuple(int(one) for one in ids[start:]))
            if wanted is not None:
                scores[wanted] = 1000.0
            return scores

        start = Stopwatch()
        reply = model.create_completion(
            prompt, max_tokens=400, temperature=0.0, grammar=lib.LlamaGrammar.from_string(grammar, verbose=False),
            logits_processor=lib.LogitsProcessorList([steer]),
        )  # fmt: skip
        took = start.read()
        assert json.loads(reply["choices"][0]["text"])["name"] == case.call.name
        yield {
            **took,
            "passes": len(answer),
            "tokens": len(answer),
        }


def _encoder(setting: Setting) -> Caller:
    model = Steered(None, Truth(setting.vocabulary), setting.vocabulary.size)
    model.files = models.Files(setting.paths["safetensors-bf16"])
    return Caller(
        model,  # type: ignore[arg-type]
        setting.cases[0].tools,
        format=FORMAT,
        vocabulary=setting.vocabulary,
    )


Contender = Callable[[Setting], Iterator[dict[str, float]]]
CONTENDERS: dict[str, Contender] = {
    "onnx int4": lambda s: ours(s, "onnx-int4"),
    "onnx int4, nothing guessed": lambda s: ours(s, "onnx-int4", speculate=False),
    "onnx int4, nothing forced": lambda s: ours(s, "onnx-int4", speculate=False, forcing=False),
    "onnx int4, 8 at a time": lambda s: many(s, "onnx-int4", 8),
    "onnx int4, 8 at a time, nothing forced": lambda s: many(
        s, "onnx-int4", 8, speculate=False, forcing=False
    ),
    "onnx int8 rows": lambda s: ours(s, "onnx-rows8"),
    "onnx int8 rows, nothing guessed": lambda s: ours(s, "onnx-rows8", speculate=False),
    "onnx int8 rows, nothing forced": lambda s: ours(
        s, "onnx-rows8", speculate=False, forcing=False
    ),
    "onnx int8 rows, 8 at a time": lambda s: many(s, "onnx-rows8", 8),
    "onnx int8 rows, 8 at a time, nothing forced": lambda s: many(
        s, "onnx-rows8", 8, speculate=False, forcing=False
    ),
    "gguf Q4_0": lambda s: ours(s, "gguf-q4_0"),
    "gguf Q8_0": lambda s: ours(s, "gguf-q8_0"),
    "llama.cpp Q4_0, its grammar": lambda s: llama_cpp(s, "gguf-q4_0"),
    "transformers bf16": lambda s: ours(s, "safetensors-bf16"),
    "transformers bf16, llguidance": lambda s: with_cache(s, "safetensors-bf16", "llguidance"),
    "transformers bf16, outlines": lambda s: with_cache(s, "safetensors-bf16", "outlines"),
    "transformers bf16, no mask": lambda s: with_cache(s, "safetensors-bf16"),
    "transformers bf16, naive": lambda s: naive(s, "safetensors-bf16"),
}


#: What the names of contenders say that are not this package's decoder.
RIVALS = ("llama.cpp", "llguidance", "outlines", "no mask", "naive")


def run(name: str, setting: Setting) -> dict[str, Any]:
    """Return medians over the calls of one contender, the first not counted."""
    rows = list(CONTENDERS[name](setting))
    counted = rows[1:] or rows
    found: dict[str, Any] = {
        key: round(statistics.median(row[key] for row in counted), 2) for key in rows[0]
    }
    found |= {
        "first_ms": round(rows[0]["ms"], 1),
        "first_cpu_ms": round(rows[0]["cpu_ms"], 1),
        "calls": len(counted),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "passes_per_token": round(
            sum(row["passes"] for row in counted) / sum(row["tokens"] for row in counted), 3
        ),
    }
    if "model_ms" in found:
        ours_ms = sum(row["ms"] - row["model_ms"] for row in counted)
        found["overhead"] = round(ours_ms / sum(row["ms"] for row in counted), 4)
    return found


def main() -> None:
    """Run the contenders, each in a process of its own, and write results and chart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bfcl", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--shape", default="qwen3-0.6b", choices=shapes.CONFIGS)
    parser.add_argument("--calls", type=int, default=9)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", nargs="*", default=list(CONTENDERS))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/decode.json"))
    options = parser.parse_args()
    if options.one:
        size = int(shapes.CONFIGS[options.shape]["vocab_size"])
        setting = Setting(
            shared_cases(options.bfcl, options.calls),
            Vocabulary.from_file(options.tokenizer, size=size),
            shapes.make(options.shape, options.models, options.tokenizer),
            options.threads,
        )
        print(json.dumps(run(options.one, setting)))
        return
    shapes.make(options.shape, options.models, options.tokenizer)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    results: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {options.threads} threads used",
        "shape": options.shape,
        "tools": SHARED_TOOLS,
        "load": os.getloadavg()[0],
        "contenders": {},
    }
    if options.output.exists():
        results["contenders"] = json.loads(options.output.read_text())["contenders"]
    for name in options.only:
        command = [
            "python",
            "-m",
            "benchmarks.decode",
            "--one",
            name,
            "--calls",
            str(options.calls),
        ]
        for key in ("bfcl", "tokenizer", "models", "shape", "threads"):
            command += [f"--{key}", str(getattr(options, key))]
        command[0] = os.environ.get("PYTHON", "python")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name}: failed\n{done.stderr[-2000:]}")
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        results["contenders"][name] = found | {"commit": commit}
        print(name, results["contenders"][name], flush=True)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(results, indent=2) + "\n")
    chart(results, options.output.with_suffix(".svg"))


def chart(results: dict[str, Any], path: Path) -> None:
    """Draw processor time per call, on a logarithmic axis, where matplotlib is at hand."""
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        return
    rows = sorted(results["contenders"].items(), key=lambda item: -item[1]["cpu_ms"])
    figure, axes = plt.subplots(figsize=(8, 0.4 * len(rows) + 1), layout="constrained")
    axes.barh(
        [name for name, _ in rows],
        [row["cpu_ms"] for _, row in rows],
        color=["#999999" if any(one in n for one in RIVALS) else "#2b6cb0" for n, _ in rows],
    )
    for at, (_, row) in enumerate(rows):
        axes.text(row["cpu_ms"] * 1.05, at, f"{row['ms']:,.0f}", va="center")
    axes.set_xscale("log")
    axes.set_xlim(right=float(np.max([row["cpu_ms"] for _, row in rows])) * 4)
    axes.set_xlabel("processor time per call, ms (median)")
    axes.set_title(f"{results['shape']} shape, {results['tools']} tools, {results['machine']}")
    figure.savefig(path)


if __name__ == "__main__":
    main()
