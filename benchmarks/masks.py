"""Token masks: this engine beside llguidance, xgrammar, outlines-core and lm-format-enforcer.

    python benchmarks/masks.py [--quick] [--only bfcl,stress] [--engines callmemaybe,xgrammar]

Each engine runs in a process of its own on one and the same core, item by item in turn, with Qwen's
vocabulary (masks 151,936 wide). Times are CPU times. Engines that are not installed are left out;
one that is slow does as many items of a section as its budget of CPU time allows, one that crashes or
hangs is started again a few times. Sections:

bfcl      one tool call to any of the offered functions, replaying ground truths of the Berkeley
          Function Calling Leaderboard: from the tools to a grammar, to a mask for every token that is
          not forced, to the end
maskbench schemas of the MaskBench sample and their instances
stress    one hard feature at a time
select    from raw logits to the chosen token, the mask being known
lockstep  64 sequences together, masks seen before
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bfcl import items
from maskcases import select_cases, stress_cases
from maskmemory import measure
from maskpage import page
from maskworker import Lost, Worker
from rivals import ENGINES, FRAME, WIDTH

from callmemaybe.grammar.json_schema.entry import in_schema_order
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.vocabulary.disk_cache import ENVIRONMENT_VARIABLE

HERE = Path(__file__).resolve().parent
#: CPU seconds of one engine in one section (of the slow ones: a part), and for one item.
BUDGET = {"bfcl": 30, "maskbench": 30, "stress": 20, "select": 40, "lockstep": 20}
LIMIT = {"bfcl": 15, "maskbench": 10, "stress": 10, "select": 30, "lockstep": 20}
SLOW = {"xgrammar, cache off", "outlines-core", "lm-format-enforcer"}
SHARE = 0.3
#: Sections that are not for these: they have no such thing, or their twin shows it.
SKIPPED = {
    "maskbench": {"xgrammar, cache off"},
    "stress": {"xgrammar"},
    "select": {"xgrammar, cache off", "outlines-core", "lm-format-enforcer"},
    "lockstep": {"xgrammar, cache off", "outlines-core", "lm-format-enforcer"},
}
#: How often an engine is started again after it crashed or hung.
STARTS = 8
SEQUENCES = 64

Item = tuple[str, str, dict[str, Any]]  # its name, the task, what the worker gets


class Texts:
    """Token ids of texts, as the tokenizer itself writes them."""

    def __init__(self, folder: Path) -> None:
        self._vocabulary = Vocabulary.from_file(folder, size=WIDTH)

    def __call__(self, text: str) -> list[int]:
        """Return the ids of a text."""
        return self._vocabulary.encode(text.encode())

    def call(self, text: str, framed: bool) -> list[int]:
        """Return the ids of a call, between the control tokens of its family where ``framed``."""
        if not framed:
            return self(text)
        begin, end = (self._vocabulary.controls[name] for name in FRAME)
        return [begin, *self(f"\n{text}\n"), end]


class Run:
    """The engines, their processes, and what came out."""

    def __init__(self, names: list[str], folder: Path, core: int | None, scale: float) -> None:
        """Start all engines; those that cannot be started are left out."""
        self.texts = Texts(folder)
        self._scale = scale
        self._folder, self._core = folder, core
        self.workers: dict[str, Worker] = {}
        self.starts: dict[str, int] = defaultdict(int)
        self.setup: dict[str, dict[str, Any]] = {}
        self.raw: dict[str, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
        for name in names:
            try:
                self._start(name)
            except Lost as lost:
                print(f"{name}: left out: {lost}", file=sys.stderr)

    def _start(self, name: str) -> None:
        schema = {"type": "object", "properties": {"note": {"type": "string"}}}
        call = json.dumps({"name": "warm_up", "arguments": {"note": "Hello"}})
        tool = {"name": "warm_up", "description": "", "parameters": schema}
        ids = self.texts.call(call, ENGINES[name].framed)
        warm = {"language": {"tools": [tool]}, "ids": ids}
        self.starts[name] += 1
        self.workers[name] = Worker(name, self._folder, self._core, warm)
        self.setup.setdefault(name, self.workers[name].setup)

    def section(self, section: str, cases: list[Any], item_of: Callable[[Any, bool], Item]) -> None:
        """Give every case to every engine, in turn."""
        left = {
            name: BUDGET[section] * self._scale * (SHARE if name in SLOW else 1)
            for name in self.workers
            if name not in SKIPPED.get(section, ())
        }
        shown = 0.0
        for number, case in enumerate(cases, 1):
            for name in list(left):
                label, task, payload = item_of(case, ENGINES[name].framed)
                found, seconds = self._ask(name, task, LIMIT[section], payload)
                left[name] -= seconds
                self.raw[section][name][label] = found
                if name not in self.workers:
                    del left[name]
                    continue
                if left[name] <= 0:
                    del left[name]
            if time.monotonic() - shown > 1 or number == len(cases):
                shown = time.monotonic()
                print(f"\r{section}: {number} of {len(cases)}, {', '.join(left) or 'nobody left'}",
                      end="\x1b[K", file=sys.stderr, flush=True)  # fmt: skip
            if not left:
                break
        print(file=sys.stderr)

    def _ask(
        self, name: str, task: str, limit: float, payload: dict[str, Any]
    ) -> tuple[dict[str, Any], float]:
        """Return what came out, and the CPU seconds it took; starts a lost engine again."""
        try:
            return self.workers[name].ask(task, limit, **payload)
        except Lost as lost:
            found = {"error": f"lost: {lost}"}
            self.workers.pop(name).close()
            if self.starts[name] <= STARTS:
                self._start(name)
            else:
                print(f"\n{name}: given up: {lost}", file=sys.stderr)
            return found, limit

    def close(self) -> None:
        """Note how much memory each engine holds in the end, and end them all."""
        for name, worker in self.workers.items():
            try:
                self.setup[name]["final_mb"], _ = worker.ask("memory", 10)
            except Lost:
                self.setup[name]["final_mb"] = None
            worker.close()


def bfcl_cases(data: Path, texts: Texts) -> list[Any]:
    """Return the ground truths of the leaderboard in a fixed random order."""
    cases = []
    for index, item in enumerate(items(data / "bfcl")):
        call = json.dumps({"name": item.function, "arguments": item.arguments}, ensure_ascii=False)
        cases.append((f"{item.name} {index}", item.tools, call, texts))
    random.Random(1).shuffle(cases)
    return cases


def unseen(cases: list[Any]) -> set[str]:
    """Return the items of which no function was offered by an item before."""
    seen: set[str] = set()
    fresh: set[str] = set()
    for name, tools, *_ in cases:
        written = {json.dumps(tool, sort_keys=True) for tool in tools}
        if not written & seen:
            fresh.add(name)
        seen |= written
    return fresh


def call_item(case: Any, framed: bool) -> Item:
    """Return the task of one call of offered tools."""
    name, tools, call, texts = case
    return name, "replay", {"language": {"tools": tools}, "ids": texts.call(call, framed)}


def maskbench_cases(data: Path, texts: Texts) -> list[Any]:
    """Return the schemas of MaskBench in a fixed random order, instances in their schema's order."""
    cases = []
    with gzip.open(data / "maskbench" / "sample.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            tests = []
            for test in row.get("tests") or []:
                try:
                    value = in_schema_order(row["schema"], test["data"])
                    text = json.dumps(value, ensure_ascii=False)
                    tests.append((test["valid"], texts(text)))
                except Exception:  # what cannot be written is no test of masks
                    continue
            cases.append((row["id"], "judge", {"schema": row["schema"], "tests": tests}))
    random.Random(2).shuffle(cases)
    return cases


def lockstep_cases(bfcl: list[Any], texts: Texts) -> Iterator[Any]:
    """Yield one case: eight calls, eight sequences each."""
    chosen = sorted(bfcl, key=lambda case: -len(case[2]))[100:108]
    languages = [{"tools": tools} for _, tools, _, _ in chosen]

    def payload(framed: bool) -> Item:
        outputs = [texts.call(call, framed) for _, _, call, _ in chosen]
        what = {"languages": languages, "outputs": outputs, "count": SEQUENCES}
        return "64 sequences", "lockstep", what

    yield payload


def machine() -> dict[str, str]:
    """Say where and on what this ran."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE,
    ).stdout.strip()
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    cpu = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), "")
    return {
        "commit": commit,
        "cpu": cpu or platform.processor(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": platform.platform(terse=True),
    }


def versions(names: list[str]) -> dict[str, str]:
    """Return the versions of the engines."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in names:
        package = name.split(",")[0]
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def percentiles(values: list[float]) -> dict[str, float]:
    """Return what is said about many figures."""
    keys = ("p50", "p90", "p99", "max")
    found = np.percentile(values, [50, 90, 99, 100])
    return {
        "n": len(values),
        **{key: round(float(value), 2) for key, value in zip(keys, found, strict=True)},
        "mean": round(float(np.mean(values)), 2),
    }


def summary_of_calls(rows: dict[str, Any], fresh: set[str]) -> dict[str, Any]:
    """Sum up replays; ``fresh`` are the items of whose functions no earlier item had any."""
    fine = {name: row for name, row in rows.items() if not row["error"] and "again" in row}
    new = [row for name, row in fine.items() if name in fresh]
    found: dict[str, Any] = {"items": len(rows), "errors": len(rows) - len(fine)}
    found["accepted"] = sum(row["accepted"] for row in fine.values())
    found["different"] = sum(row["different"] for row in fine.values())
    found["forced"] = sum(row["forced"] for row in fine.values())
    found["masks"] = sum(row["masks"] for row in fine.values())
    for key in ("first", "whole"):
        if new:
            found[key] = percentiles([row[key] for row in new])
    if fine:
        found["again"] = percentiles([row["again"] for row in fine.values()])
        for key in ("cold", "known"):
            found[key] = percentiles([value for row in fine.values() for value in row[key]])
    return found


def summary_of_schemas(rows: dict[str, Any]) -> dict[str, Any]:
    """Sum up MaskBench."""
    fine = [row for row in rows.values() if not row["error"]]
    wrong = [set(row["wrong"]) for row in fine]
    masks = [value for row in fine for value in row["masks"]]
    return {
        "items": len(rows),
        "compiled": len(fine),
        "right": sum(not kinds - {""} for kinds in wrong),
        "rejecting": sum("reject" in kinds for kinds in wrong),
        "accepting": sum("accept" in kinds for kinds in wrong),
        "lost": sum(str(row["error"]).startswith("lost") for row in rows.values()),
        **({"first": percentiles([row["first"] for row in fine])} if fine else {}),
        **({"mask": percentiles(masks)} if masks else {}),
    }


def summary_of_cases(rows: dict[str, Any]) -> dict[str, Any]:
    """Sum up single features, each by itself."""
    found = {}
    for name, row in rows.items():
        if row["error"] or "whole" not in row:
            found[name] = {"error": row["error"] or "no result"}
            continue
        found[name] = {
            "accepted": row["accepted"],
            "first": round(row["first"], 1),
            "whole": round(row["whole"], 1),
            "again": round(row.get("again", 0), 1),
            "cold": percentiles(row["cold"]) if row["cold"] else None,
        }
    return found


def summarise(section: str, rows: dict[str, Any], fresh: set[str]) -> dict[str, Any]:
    """Return what the results say about one engine in one section."""
    if section == "bfcl":
        return summary_of_calls(rows, fresh)
    if section == "maskbench":
        return summary_of_schemas(rows)
    if section == "stress":
        return summary_of_cases(rows)
    found: dict[str, Any] = {}
    for name, row in rows.items():
        found[name] = {
            key: percentiles(value) if isinstance(value, list) and value else value
            for key, value in row.items()
        }
    return found


def main() -> None:
    """Run all engines that are there, print the table, write the results."""
    options = _options()
    core = None
    if hasattr(os, "sched_setaffinity"):
        core = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, [core])
    chosen = options.only.split(",")
    memory = measure(options.data, 50 if options.quick else 500, core)
    os.environ[ENVIRONMENT_VARIABLE] = ""  # the set-up beside the others is without anything kept
    run = Run(options.engines.split(";"), options.data / "tokenizers" / "qwen3", core,
              0.15 if options.quick else options.share)  # fmt: skip
    bfcl = bfcl_cases(options.data, run.texts)
    fresh = unseen(bfcl)
    if "bfcl" in chosen:
        run.section("bfcl", bfcl[:150] if options.quick else bfcl, call_item)
    if "maskbench" in chosen:
        cases = maskbench_cases(options.data, run.texts)
        run.section("maskbench", cases[:80] if options.quick else cases, lambda case, _: case)
    if "stress" in chosen:
        run.section("stress", list(stress_cases(run.texts)), lambda case, framed: case(framed))
    if "select" in chosen:
        run.section("select", list(select_cases(run.texts)), lambda case, _: case)
    if "lockstep" in chosen:
        cases = list(lockstep_cases(bfcl, run.texts))
        run.section("lockstep", cases, lambda case, framed: case(framed))
    run.close()
    report = {
        "machine": machine(),
        "versions": versions(list(run.setup)),
        "setup": run.setup,
        "memory": memory,
        **{
            section: {name: summarise(section, rows, fresh) for name, rows in found.items()}
            for section, found in run.raw.items()
        },
    }
    options.output.parent.mkdir(exist_ok=True)
    options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(page(report))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a sample of everything")
    parser.add_argument("--share", type=float, default=1.0, help="of the budgets of CPU time")
    parser.add_argument("--only", default=",".join(BUDGET), help="sections, with commas between")
    parser.add_argument(
        "--engines", default=";".join(ENGINES), help="names, with semicolons between"
    )
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "masks.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
