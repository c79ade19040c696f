"""How much tuning on a user's functions is worth: errors of whole calls, before and after.

    python -m benchmarks.tune [--data ../shared/data] [--output benchmarks/results/tune.json] [--only hwu64-10] [--examples 0,5,20]

Needs the extra `tune`. The functions are intents of SNIPS and HWU64, which the embedded model was never trained on, with the names and
descriptions that `training/data/sources/natural` gives them, and their slots as texts to copy. Of each function 0, 5 or 20 sentences are
examples, and others measure. Beside it, on the same requests: the embedded model as it is, and the nearest of the examples
(TF-IDF of words), whose values are found by the words beside them. Measured in use, with grammars; what is forgotten on 300
requests for functions that no training saw. `--merge` keeps the rows of a file that are not measured anew.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from callmemaybe.evals.statistics import Proportion
from callmemaybe.tools import ToolSpec
from callmemaybe.tuning.examples import Example, ExampleCall
from callmemaybe.tuning.tuner import GENERAL_CASES, TuneProgress, TuneSettings, tune

sys.path.insert(0, str(Path(__file__).parent))
from masks import machine
from tunepage import PICTURE, draw

from training.data import natural

ROOT = Path(__file__).resolve().parents[1]
SETS = {"snips-3": ("snips", 3), "hwu64-10": ("hwu64", 10), "hwu64-40": ("hwu64", 40)}
MOST_EXAMPLES = 20
#: Requests that measure a set, spread over its functions.
MEASURED = 300


def definition(corpus: natural.NaturalCorpus, function: Any) -> ToolSpec:
    """Return the function of an intent under its first names and descriptions."""
    shares = corpus.shares(function)
    shown = [p for p in function.parameters if shares[p.key]]
    properties = {
        p.names[0]: {"type": "string", "description": p.abouts[0]} if p.abouts else {"type": "string"}
        for p in shown
    }  # fmt: skip
    required = [p.names[0] for p in shown if shares[p.key] == 1]
    about = function.abouts[0] if function.abouts else ""
    schema = {"type": "object", "properties": properties, "required": required}
    return ToolSpec(function.names[0], about, schema)


def read_set(data: Path, name: str) -> tuple[list[ToolSpec], list[list[Example]], list[Example]]:
    """Return the functions of a set, `MOST_EXAMPLES` examples of each, and the requests that measure."""
    source, count = SETS[name]
    corpus = natural.load(data, source)
    each = max(1, MEASURED // count)
    rng = Random(f"tune {name}")
    enough = []
    for function in corpus.functions:
        sentences = list({s.text.lower(): s for s in corpus.sentences[function.key]}.values())
        if len(sentences) >= MOST_EXAMPLES + min(each, 12):
            enough.append((function, sentences))
    rng.shuffle(enough)
    tools, examples, measured = [], [], []
    for function, sentences in enough[:count]:
        rng.shuffle(sentences)
        tool = definition(corpus, function)
        said = {p.key: p.names[0] for p in function.parameters}
        asked = [
            Example(s.text, (ExampleCall(tool.name, {said[k]: s.text[a:b] for k, a, b in s.values}),))
            for s in sentences
        ]  # fmt: skip
        tools.append(tool)
        examples.append(asked[:MOST_EXAMPLES])
        measured += asked[MOST_EXAMPLES : MOST_EXAMPLES + each]
    return tools, examples, measured


class NearestExample:
    """Answers as the example with the likest words does (cosine of TF-IDF)."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.examples = examples
        texts = [Counter(re.findall(r"\w+", one.prompt.lower())) for one in examples]
        self.of = Counter(word for text in texts for word in text)
        self.vectors = [self.vector(text) for text in texts]

    def vector(self, text: Counter[str]) -> dict[str, float]:
        """Return the weights of a text's words, of length 1."""
        weights = {
            w: n * math.log((1 + len(self.examples)) / (1 + self.of[w])) for w, n in text.items()
        }
        length = math.sqrt(sum(x * x for x in weights.values())) or 1.0
        return {word: x / length for word, x in weights.items()}

    def call(self, prompt: str) -> ExampleCall:
        """Return the example's call with its values exchanged for those at the same places between the same words."""
        mine = self.vector(Counter(re.findall(r"\w+", prompt.lower())))
        scores = [sum(mine.get(w, 0.0) * x for w, x in v.items()) for v in self.vectors]
        nearest = self.examples[max(range(len(scores)), key=scores.__getitem__)]
        call = nearest.calls[0]
        return ExampleCall(call.name, dict(self.values(nearest, prompt)))

    def values(self, nearest: Example, prompt: str) -> Any:
        """Each value of the example: between the words that stand beside it there, or as it is where it is said here."""
        for key, value in nearest.calls[0].arguments.items():
            at = nearest.prompt.find(value)
            before = re.findall(r"\w+", nearest.prompt[:at])[-1:]
            behind = re.findall(r"\w+", nearest.prompt[at + len(value) :])[:1]
            left = rf"\b{re.escape(before[0])}\W+" if before else r"^\W*"
            right = rf"(?=\W+{re.escape(behind[0])}\b)" if behind else r"(?=\W*$)"
            if value in prompt:
                yield key, value
            elif found := re.search(left + r"(\w.*?)" + right, prompt, re.IGNORECASE):
                yield key, found[1]


def by_nearest(examples: Sequence[Example], measured: Sequence[Example]) -> dict[str, Any]:
    """How often the nearest example is right."""
    nearest = NearestExample(examples)
    answers = [(nearest.call(one.prompt), one.calls[0]) for one in measured]
    return {
        "name": Proportion.count(mine.name == wanted.name for mine, wanted in answers).as_json(),
        "exact": Proportion.count(mine == wanted for mine, wanted in answers).as_json(),
    }


def measure(data: Path, name: str, count: int, settings: TuneSettings) -> dict[str, Any]:
    """One row: a set of functions with so many examples of each."""
    tools, examples, measured = read_set(data, name)
    given = [one for each in examples for one in each[:count]]
    curve: list[dict[str, float]] = []

    def note(progress: TuneProgress) -> None:
        if progress.phase == "looks":
            curve.append({"seconds": round(progress.seconds, 1), "own": progress.own or 0.0})
            print(
                f"  {progress.done}/{progress.of} {progress.seconds:.0f} s {progress.own}",
                flush=True,
            )

    folder = Path(tempfile.mkdtemp(prefix="tune-"))
    try:
        tuned = tune(
            tools,
            given,
            output=folder / "model",
            settings=settings,
            progress=note,
            watched=measured,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    row = {
        "set": name, "functions": len(tools), "examples": count, "measured": len(measured),
        "steps": tuned.report["steps"], "cpu_minutes": tuned.report["minutes"],
        **{key: tuned.report["own"][key] for key in ("before", "after", "by_tool")},
        "general": tuned.report["general"], "curve": curve,
    }  # fmt: skip
    if given:
        row["nearest"] = by_nearest(given, measured)
    return row


def main() -> None:
    """Measure, and write a row after each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/tune.json")
    parser.add_argument("--only", default=",".join(SETS), help="sets, with commas")
    parser.add_argument(
        "--examples", default="0,5,20", help="examples of each function, with commas"
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--steps", type=int, help="instead of minutes: the same weights on any machine"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--merge", action="store_true", help="keep the other rows of the file")
    options = parser.parse_args()
    settings = TuneSettings(options.minutes, options.steps, 0, options.threads, holds_out=False)
    rows: dict[str, Any] = defaultdict(dict)
    if options.merge and options.output.is_file():
        rows = {
            f"{r['set']} {r['examples']}": r for r in json.loads(options.output.read_text())["rows"]
        }
    for name in options.only.split(","):
        for count in map(int, options.examples.split(",")):
            print(f"{name}, {count} examples of each function", flush=True)
            row = measure(options.data, name, count, settings) | {"machine": machine()}
            rows[f"{name} {count}"] = row
            shown = {
                k: row[k]["exact"]["share"] for k in ("before", "after", "nearest") if k in row
            }
            print(
                f"  exact {shown}, general {row['general']['before']['right']['share']} -> {row['general']['after']['right']['share']}",
                flush=True,
            )
            order = {key: n for n, key in enumerate(SETS)}
            kept = sorted(rows.values(), key=lambda r: (order[r["set"]], r["examples"]))
            table = {"general_cases": GENERAL_CASES, "rows": kept}
            text = json.dumps(table, indent=1, ensure_ascii=False) + "\n"
            options.output.write_text(text, "utf-8")
            options.output.with_name(PICTURE.name).write_text(draw(kept), "utf-8")


if __name__ == "__main__":
    main()
