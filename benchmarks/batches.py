"""Batches as JSON lines: the CPU time of a prompt, memory, what ``kill -9`` costs, and how long a resume takes.

    python benchmarks/batches.py [--prompts 1000000] [--only one,workers] [--folder DIR]

Each measurement is the command ``callmemaybe run`` in a process of its own. In most of them nothing but what
answers is replaced, so that a million prompts take minutes:

script   answers at once with the number in the prompt: what is left is the cost of the batch itself
model    a ``ScriptedModel`` behind the whole caller: prompt, grammar, decoding, validation
nano     the embedded model, with the functions and prompts of ``data/input``

Memory is the proportional set size of the process and of all that it started, read five times a second.
Measurements that are not made again keep their figures, and the commit, load and Python that they were made with.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results/batches.json"
TOOL = {"name": "switch", "parameters": {"number": {"type": "integer"}, "on": {"type": "boolean"}}}
#: Finished rows of the file that a run is resumed from, and rows that are left to do.
FINISHED, LEFT = 10_000_000, 10
KILLS = 10
BEGIN = "<!-- figures: written by docs/generate.py from benchmarks/results/batches.json -->\n"
END = "<!-- end of figures -->"
HEAD = ("run", "answers", "prompts", "CPU for each", "per second of CPU", "peak memory", "commit")


# --- what answers ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MakeScript:
    """Makes, in any process, what answers with the number in the prompt."""

    options: Any
    tools: Any

    def __call__(self, _: int | None = None) -> MakeScript:
        """Return what answers."""
        return self

    def rows(self, prompts: Iterable[Any]) -> Iterator[Any]:
        """Yield the result of each prompt."""
        from callmemaybe.cli.batch import BatchRow, problem_row
        from callmemaybe.cli.results import ResultRecord

        (tool,) = self.tools
        for row in prompts:
            if row.problem is not None:
                yield problem_row(row)
                continue
            number = row.prompt.rpartition(" ")[2]
            call = f'{{"number": {number}, "on": true}}'
            yield BatchRow(row.index, ResultRecord.of_call(row.prompt, tool, call))


@dataclass(frozen=True)
class MakeScripted:
    """Makes, in any process, a caller of a scripted model that closes each number after one digit."""

    options: Any
    tools: Any

    def __call__(self, _: int | None = None) -> Any:
        """Return what calls the model."""
        import numpy as np

        from callmemaybe.caller import Caller
        from callmemaybe.cli.batch import PromptRunner
        from callmemaybe.models.scripted import ScriptedModel
        from callmemaybe.testing.vocabularies import ByteVocabulary

        words = ByteVocabulary(("<|im_start|>", "<|im_end|>"), ends=("<|im_end|>",))
        logits = np.zeros(words.size, np.float32)
        logits[ord("7")], logits[ord(",")], logits[ord("}")] = 1, 2, 3
        model = ScriptedModel(words.size, lambda _: logits)
        caller = Caller(model, self.tools, format="hermes", vocabulary=words)
        return PromptRunner(caller, self.tools)


MAKERS = {"script": MakeScript, "model": MakeScripted}


def run_command(answers: str, arguments: list[str]) -> int:
    """Run the command in this process, with what answers replaced."""
    from callmemaybe.cli import run
    from callmemaybe.cli.main import main as command

    if answers in MAKERS:
        run.MakePromptRunner = MAKERS[answers]  # type: ignore[assignment,misc]
    return int(command(arguments) or 0)


# --- processes ---------------------------------------------------------------------------------------


def descendants(root: int) -> list[int]:
    """Return a process and all that it started, directly or not."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = path.read_text("utf-8").rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [root]
    for process in found:
        found += parents.get(process, [])
    return found


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process so far; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(root: int) -> int:
    """Return the bytes that a process and all that it started hold, shared pages divided among their users."""
    total = 0
    for process in descendants(root):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{process}/smaps_rollup").read_text("utf-8").splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) << 10
    return total


class Command:
    """``callmemaybe run`` as a process, whose memory is watched."""

    def __init__(self, answers: str, *arguments: str | Path) -> None:
        words = [str(one) for one in ("run", "--quiet", *arguments)]
        self.held: list[tuple[float, int]] = []
        self.used: dict[int, float] = {}
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--as-command", answers, *words], stdout=subprocess.DEVNULL
        )
        self._ended = threading.Event()
        threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        while not self._ended.wait(0.2):
            self.held.append((time.perf_counter() - self.started, memory(self.process.pid)))
            for one in descendants(self.process.pid):
                self.used[one] = max(self.used.get(one, 0.0), cpu_seconds(one))

    def end(self) -> dict[str, float]:
        """Wait for the end; return the seconds, the peak of memory, and what was held early on."""
        _, status, used = os.wait4(self.process.pid, 0)
        took = time.perf_counter() - self.started
        self._ended.set()
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode:
            raise SystemExit(f"the run ended with {self.process.returncode}")
        early = [held for at, held in self.held if at < max(3.0, 0.1 * took)]
        return {
            "seconds": round(took, 2),
            # What a cluster starts is waited for by others: its processes are counted as they were last seen.
            "cpu_seconds": round(max(used.ru_utime + used.ru_stime, sum(self.used.values())), 2),
            "peak_mb": round(max(held for _, held in self.held) / 1e6, 1),
            "early_mb": round(max(early) / 1e6, 1),
        }

    def kill(self) -> None:
        """End the process as ``kill -9`` does; what it started is left to itself."""
        self._ended.set()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def write_prompts(path: Path, count: int) -> None:
    """Write so many prompts, each with its number."""
    with path.open("w", encoding="utf-8") as file:
        for begin in range(0, count, 100_000):
            end = min(count, begin + 100_000)
            file.write("".join(f'{{"prompt": "Switch on lamp {n}"}}\n' for n in range(begin, end)))


def digest(path: Path) -> str:
    """Return the hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Bench:
    """The measurements; each returns its figures."""

    def __init__(self, folder: Path, prompts: int) -> None:
        self._folder, self._count = folder, prompts
        self._tools = folder / "tools.json"
        self._tools.write_text(json.dumps([TOOL]), encoding="utf-8")

    def _arguments(self, name: str, count: int) -> list[str | Path]:
        prompts = self._folder / f"prompts-{count}.jsonl"
        if not prompts.exists():
            write_prompts(prompts, count)
        return [
            "--tools",
            self._tools,
            "--input",
            prompts,
            "--output",
            self._folder / f"{name}.jsonl",
        ]

    def _timed(self, name: str, answers: str, count: int, *more: str) -> dict[str, Any]:
        found = Command(answers, *self._arguments(name, count), *more).end()
        rows = (self._folder / f"{name}.jsonl").read_bytes().count(b"\n")
        if rows != count:
            raise SystemExit(f"{name}: {rows} rows of {count}")
        return {"answers": answers, "prompts": count, **found}

    def one(self) -> dict[str, Any]:
        """Measure one process."""
        return self._timed("one", "script", self._count)

    def workers(self) -> dict[str, Any]:
        """Measure two processes."""
        return self._timed("workers", "script", self._count, "--workers", "2")

    def ray(self) -> dict[str, Any]:
        """Measure a cluster on this machine, with fewer prompts."""
        return self._timed("ray", "script", self._count // 10, "--ray", "local", "--workers", "2")

    def model(self) -> dict[str, Any]:
        """Measure the caller of a scripted model in one process."""
        return self._timed("model", "model", self._count // 50)

    def model_workers(self) -> dict[str, Any]:
        """Measure it in two processes."""
        return self._timed("model_workers", "model", self._count // 50, "--workers", "2")

    def model_ray(self) -> dict[str, Any]:
        """Measure it on a cluster."""
        return self._timed(
            "model_ray", "model", self._count // 50, "--ray", "local", "--workers", "2"
        )

    def nano(self) -> dict[str, Any]:
        """Measure the embedded model, on the prompts of the exercise over and over."""
        given = json.loads(
            (HERE.parent / "data/input/function_calling_tests.json").read_text("utf-8")
        )
        count = self._count // 500
        prompts = self._folder / "nano-prompts.jsonl"
        lines = (json.dumps(given[n % len(given)]) + "\n" for n in range(count))
        prompts.write_text("".join(lines), encoding="utf-8")
        tools = HERE.parent / "data/input/functions_definition.json"
        output = self._folder / "nano.jsonl"
        command = Command("nano", "--tools", tools, "--input", prompts, "--output", output)
        return {"answers": "nano", "prompts": count, **command.end()}

    def killed(self) -> dict[str, Any]:
        """Kill runs of one process."""
        return self._killed("killed")

    def killed_workers(self) -> dict[str, Any]:
        """Kill runs of three processes."""
        return self._killed("killed_workers", "--workers", "2")

    def _killed(self, name: str, *more: str) -> dict[str, Any]:
        """Kill a run ten times at random moments; compare what is there with an undisturbed run."""
        whole = self._folder / "whole.jsonl"
        if not whole.exists():
            Command("script", *self._arguments("whole", self._count)).end()
        arguments, output = self._arguments(name, self._count), self._folder / f"{name}.jsonl"
        chance, left, wrong, started = random.Random(name), [], 0, time.perf_counter()
        for _ in range(KILLS):
            size = output.stat().st_size if output.exists() else 0
            command = Command("script", *arguments, *more, "--resume")
            # A run that is still starting has nothing to lose.
            while output.stat().st_size == size if output.exists() else True:
                if command.process.poll() is not None:
                    raise SystemExit("the run was done before it was killed: give more --prompts")
                time.sleep(0.01)
            time.sleep(chance.uniform(0, self._count / 200_000))
            command.kill()
            data = output.read_bytes() if output.exists() else b""
            # What stands in whole lines must be the beginning of the undisturbed result.
            end = data.rfind(b"\n") + 1
            with whole.open("rb") as file:
                wrong += file.read(end) != data[:end]
            left.append(data.count(b"\n"))
        Command("script", *arguments, *more, "--resume").end()
        return {
            "prompts": self._count,
            "kills": KILLS,
            "rows_at_kill": left,
            "lost": sum(later < earlier for earlier, later in pairwise(left)),
            "wrong": wrong,
            "is_equal": digest(output) == digest(whole),
            "seconds": round(time.perf_counter() - started, 1),
        }

    def resume(self) -> dict[str, Any]:
        """Resume from ten million finished rows, beside a run that has but the last ten to do."""
        few = Command("script", *self._arguments("few", LEFT)).end()
        output = self._folder / "resumed.jsonl"
        arguments = self._finished(output)
        resumed = Command("script", *arguments, "--resume").end()
        with output.open("rb") as file:
            file.seek(-4096, os.SEEK_END)
            last = [json.loads(line) for line in file.read().splitlines()[-LEFT:]]
        if [row["parameters"]["number"] for row in last] != [*range(LEFT)]:
            raise SystemExit(f"resumed to {last}")
        return {
            "finished": FINISHED,
            "left": LEFT,
            "file_mb": round(output.stat().st_size / 1e6),
            "seconds": resumed["seconds"],
            "cpu_seconds": resumed["cpu_seconds"],
            "peak_mb": resumed["peak_mb"],
            "start_seconds": few["seconds"],
            "start_cpu_seconds": few["cpu_seconds"],
            "start_peak_mb": few["peak_mb"],
        }

    def _finished(self, output: Path) -> list[str | Path]:
        """Write ten million prompts, ten more, and what a run would have written of all but these.

        The same hundred thousand lines come over and over, so that it takes a second.
        """
        from callmemaybe.cli.lines import LineFile
        from callmemaybe.cli.prompts import PromptLines, PromptPlace
        from callmemaybe.cli.results import ResultSettings

        # A run of few prompts says what the notes hold beside the place.
        few = json.loads((self._folder / "few.jsonl.run.json").read_text("utf-8"))
        block, asked, done = 100_000, [], []
        for number in range(block, 2 * block):
            prompt = f"Switch on lamp {number}"
            call = f'{{"number": {number}, "on": true}}'
            asked.append(f'{{"prompt": "{prompt}"}}\n')
            done.append(f'{{"prompt": "{prompt}", "name": "switch", "parameters": {call}}}\n')
        prompts = self._folder / "many.jsonl"
        with prompts.open("wb") as file:
            for _ in range(FINISHED // block):
                file.write("".join(asked).encode())
            end = file.tell()
            file.write((self._folder / f"prompts-{LEFT}.jsonl").read_bytes())
        with output.open("wb") as file:
            for _ in range(FINISHED // block):
                file.write("".join(done).encode())
        settings = ResultSettings(few["functions"], few["model"], few["options"])
        lines = LineFile(output, settings, PromptLines(prompts))
        lines.place = PromptPlace(FINISHED, end, FINISHED)
        lines.save()
        lines.close()
        return ["--tools", self._tools, "--input", prompts, "--output", output]


# --- the page ----------------------------------------------------------------------------------------

RUNS = (
    ("one", "one process"),
    ("workers", "`--workers 2`"),
    ("ray", "`--ray local --workers 2`"),
    ("model", "one process"),
    ("model_workers", "`--workers 2`"),
    ("model_ray", "`--ray local --workers 2`"),
    ("nano", "one process"),
)


PAGE = """
What a prompt costs beside the model's work, and with it. *script*: what answers takes no time; *model*: a model of scripted
logits behind the whole caller; *nano*: the embedded model.

{runs}
CPU time counts the start and all processes; other programs had the same cores, so the clock says nothing.
Memory is that of all processes together.
{more}
{where}; `python benchmarks/batches.py`.
"""


def section(results: dict[str, Any]) -> str:
    """Return the part of the documentation that tells these results."""
    figures = results["figures"]
    rows = [HEAD, ("---",) * len(HEAD)]
    for name, what in RUNS:
        if one := figures.get(name):
            rate = f"{one['prompts'] / one['cpu_seconds']:,.0f}"
            cpu = f"{1e3 * one['cpu_seconds'] / one['prompts']:.2f} ms"
            held = f"{one['peak_mb']:,.0f} MB"
            commit = one["machine"]["commit"]
            rows.append((what, one["answers"], f"{one['prompts']:,}", cpu, rate, held, commit))
    more = []
    for name, what in (("killed", "One process"), ("killed_workers", "Two workers")):
        if one := figures.get(name):
            lost = f"{one['lost']} rows lost, {'equal' if one['is_equal'] else 'NOT equal'}"
            more.append(
                f"{what}, {one['kills']} times `kill -9` at random moments of a run over {one['prompts']:,} prompts, each time "
                f"continued with `--resume`: {lost} to the bytes of an undisturbed run (commit {one['machine']['commit']})."
            )
    if one := figures.get("resume"):
        more.append(
            f"`--resume` behind {one['finished']:,} finished rows ({one['file_mb']:,} MB) takes {one['cpu_seconds']:.1f} s of CPU and "
            f"{one['peak_mb']:.0f} MB, with {one['left']} prompts to do; without any rows it takes {one['start_cpu_seconds']:.1f} s and "
            f"{one['start_peak_mb']:.0f} MB (commit {one['machine']['commit']})."
        )
    machines = [one["machine"] for one in figures.values()]
    places = ("{cpu}, {cores} cores, Python {python}, {system}".format(**one) for one in machines)
    return PAGE.format(
        runs="".join(f"| {' | '.join(cells)} |\n" for cells in rows),
        more="".join(f"\n{one}\n" for one in more),
        where="; ".join(dict.fromkeys(places)),
    )


def page(results: dict[str, Any]) -> str:
    """Return the page of the documentation with these results in their place."""
    text = (HERE.parent / "docs/how-to/scale.md").read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return before + begin + section(results) + end + after


def main() -> None:
    """Measure, write the results, print the tables."""
    if sys.argv[1:2] == ["--as-command"]:
        raise SystemExit(run_command(sys.argv[2], sys.argv[3:]))
    from gateway import machine

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--prompts", type=int, default=1_000_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    known: dict[str, Any] = {"figures": {}}
    if options.output.exists():
        known = json.loads(options.output.read_text("utf-8"))
    names = (
        "one",
        "workers",
        "ray",
        "model",
        "model_workers",
        "model_ray",
        "nano",
        "killed",
        "killed_workers",
        "resume",
    )
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        bench = Bench(Path(folder), options.prompts)
        for name in options.only.split(",") if options.only else names:
            measure: Callable[[], dict[str, Any]] = getattr(bench, name)
            known["figures"][name] = {**measure(), "machine": machine()}
            print(name, json.dumps(known["figures"][name]), flush=True)
            options.output.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    print(section(known))


if __name__ == "__main__":
    main()
