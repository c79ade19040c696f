"""Fuzz every reader of foreign text: damaged inputs must end in a value or in a documented error.

    python benchmarks/fuzz.py --minutes 60 --seed 1            all readers in turn
    python benchmarks/fuzz.py --minutes 5 --only schema        those whose names have this
    python benchmarks/fuzz.py --seed 1 --start 812             go on where a run ended
    python benchmarks/fuzz.py --seed 1 --again 31:205          one input again, with its traceback

The inputs are damaged copies of texts of this repository's tests and of published suites (``fuzz_seeds.py``,
``fuzz_mutators.py``); ``fuzz_readers.py`` lists the readers and what each may raise. Round n of a seed is a process of its own
that tries some hundred inputs on one reader, so an input is named by its round and number. A finding is any other exception,
more than 5 seconds of CPU time, more than 1 GiB of memory, or the death of the process. Exit code 1 with findings.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from fuzz_readers import READERS, Reader  # noqa: E402

MOST_SECONDS, MOST_MEMORY = 5.0, 1 << 30
#: A process that uses so much more CPU time for one input hangs outside of Python.
PATIENCE = 10.0


class TookTooLong(BaseException):
    """An input took too much CPU time."""


def _too_long(*_: object) -> None:
    raise TookTooLong


def try_one(reader: Reader, label: str, content: Any, draw: random.Random) -> str | None:
    """Read one input; return what is wrong with how it ended, and where."""
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        reader.read(label, content, draw)
    except reader.may as error:
        try:
            return (
                None
                if str(error)
                else f"{type(error).__name__} without a message at {_where(error)}"
            )
        except Exception as worse:
            return f"{type(worse).__name__} in a message at {_where(worse)}"
    except TookTooLong as error:
        return f"more than {MOST_SECONDS:g} s of CPU time at {_where(error)}"
    except BaseException as error:
        return f"{type(error).__name__} at {_where(error)}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def _where(error: BaseException) -> str:
    """Return the last line of this package that an error passed."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if "callmemaybe" in one.filename] or frames
    name = ours[-1].filename.rpartition("src/")[2]
    return f"{name}:{ours[-1].lineno} ({ours[-1].name})"


def run_block(reader: Reader, seed: int, block: int, out: int) -> None:
    """Try the inputs of a block in this process, and write a line for each to ``out``."""
    signal.signal(signal.SIGPROF, _too_long)
    address_space = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (address_space + MOST_MEMORY,) * 2)
    reader.make(random.Random(0))  # the seeds are read before the clock runs
    with os.fdopen(out, "w", buffering=1) as lines:
        for number in range(reader.count):
            draw = random.Random(f"{seed}/{block}/{number}")
            label, content = reader.make(draw)
            lines.write(f"{number}\n")
            before, begun = resource.getrusage(resource.RUSAGE_SELF), time.process_time()
            wrong = try_one(reader, label, content, draw)
            after = resource.getrusage(resource.RUSAGE_SELF)
            ended = {
                "seconds": time.process_time() - begun,
                "memory": (after.ru_maxrss - before.ru_maxrss) / 1024,
                "wrong": wrong,
            }
            lines.write(json.dumps(ended) + "\n")


def watched(reader: Reader, seed: int, block: int) -> list[dict[str, Any]]:
    """Run a block in a process of its own; return how each input ended."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        sys.stdout.flush()
        with open(os.devnull, "w") as nothing:  # what native libraries say of a damaged file
            os.dup2(nothing.fileno(), 2)
        status = 1
        try:
            run_block(reader, seed, block, write)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    return _followed(child, read)


def _followed(child: int, read: int) -> list[dict[str, Any]]:
    """Follow a block's process; end it where an input hangs outside of Python."""
    os.set_blocking(read, False)
    text, since = "", (0, 0.0)
    killed = False
    while True:
        try:
            data = os.read(read, 1 << 16)
        except BlockingIOError:
            time.sleep(0.02)
            lines = text.count("\n")
            used = _cpu_seconds(child)
            if lines != since[0]:
                since = (lines, used)
            elif lines % 2 and used - since[1] > PATIENCE and not killed:
                os.kill(child, signal.SIGKILL)
                killed = True
            continue
        if not data:
            break
        text += data.decode()
    os.close(read)
    _, status = os.waitpid(child, 0)
    lines = text.splitlines()
    ended = [json.loads(line) for line in lines[1::2]]
    if len(lines) % 2 or status:
        how = (
            f"more than {PATIENCE:g} s outside of Python"
            if killed
            else f"the process died ({status})"
        )
        ended.append({"seconds": 0.0, "memory": 0.0, "wrong": how})
    return ended


def _cpu_seconds(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def add(found: dict[str, Any], block: int, ended: list[dict[str, Any]]) -> None:
    """Put a block's ends to a reader's figures, and show what is new."""
    found["inputs"] += len(ended)
    for number, one in enumerate(ended):
        found["seconds"] = round(max(found["seconds"], one["seconds"]), 2)
        found["memory"] = round(max(found["memory"], one["memory"]))
        if one["wrong"] is not None:
            known = found["findings"].setdefault(
                one["wrong"], {"first": f"{block}:{number}", "count": 0}
            )
            known["count"] += 1
            if known["count"] == 1:
                print(
                    f"FOUND --again {block}:{number} {found['reader']}: {one['wrong']}", flush=True
                )


def again(seed: int, name: str) -> int:
    """Read one input again, shown, without a limit."""
    block, number = map(int, name.split(":"))
    reader = READERS[block % len(READERS)]
    draw = random.Random(f"{seed}/{block}/{number}")
    label, content = reader.make(draw)
    print(f"{reader.name} {label}: {content[:3000]!r} ({len(content)})", flush=True)
    begun = time.process_time()
    try:
        reader.read(label, content, draw)
    finally:
        print(f"{time.process_time() - begun:.2f} s of CPU time")
    return 0


def fuzz(readers: tuple[Reader, ...], seed: int, start: int, minutes: float) -> dict[str, Any]:
    """Run blocks in turn until the time is over; return the figures by reader."""
    for reader in readers:
        reader.make(random.Random(0))
    begun = time.monotonic()
    figures = [
        {"reader": one.name, "inputs": 0, "seconds": 0.0, "memory": 0, "findings": {}}
        for one in readers
    ]
    block = start
    while time.monotonic() - begun < minutes * 60:
        reader = READERS[block % len(READERS)]
        if reader in readers:
            add(figures[readers.index(reader)], block, watched(reader, seed, block))
        block += 1
        if block % 50 == 0:
            print(
                f"round {block}: {sum(one['inputs'] for one in figures):,} inputs after {(time.monotonic() - begun) / 60:.1f} min",
                flush=True,
            )
    return {
        "seed": seed,
        "rounds": [start, block],
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "readers": figures,
    }


def joined(runs: list[dict[str, Any]], found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs with this one: put to the last, where it went on behind it, or behind it."""
    before: dict[str, Any] = runs[-1] if runs else {}
    same = ("seed", "commit", "python")
    if (
        [before.get(key) for key in same] != [found[key] for key in same]
        or before["rounds"][1] != found["rounds"][0]
        or len(before["readers"]) != len(found["readers"])
    ):
        return [*runs, found]
    readers = []
    for old, new in zip(before["readers"], found["readers"], strict=True):
        readers.append(
            {
                "reader": old["reader"],
                "inputs": old["inputs"] + new["inputs"],
                "seconds": max(old["seconds"], new["seconds"]),
                "memory": max(old["memory"], new["memory"]),
                "findings": {**new["findings"], **old["findings"]},
            }
        )
    rounds = [before["rounds"][0], found["rounds"][1]]
    minutes = round(before["minutes"] + found["minutes"], 1)
    return [*runs[:-1], {**found, "rounds": rounds, "minutes": minutes, "readers": readers}]


PAGE = """
## Fuzzing

`python benchmarks/fuzz.py --minutes 60 --seed 1` damages texts of this repository's tests and of the published suites, and hands
them to every reader of foreign text. Each must end in a value or in a documented error with a message, within 5 s of CPU time and
1 GiB; whatever else is a finding. Any input can be had again (`--again ROUND:NUMBER`). Shorter runs before these found five faults, each of
which is mended and has a test. On {minutes:.0f} minutes of one shared core
({commits}), {inputs:,} inputs:

{table}
{findings}
One more entry of the second run (82:93) was taken out by hand: what took more than 10 s there was making the input, and reading it takes 0.13 s; only reading is timed since.
"""


def page(runs: list[dict[str, Any]]) -> str:
    """Return the part of the documentation that tells these runs."""
    figures: dict[str, dict[str, Any]] = {}
    for run in runs:
        for one in run["readers"]:
            sums = figures.setdefault(
                one["reader"], {"inputs": 0, "seconds": 0.0, "memory": 0, "findings": 0}
            )
            sums["inputs"] += one["inputs"]
            sums["findings"] += len(one["findings"])
            for key in ("seconds", "memory"):
                sums[key] = max(sums[key], one[key])
    rows = [("reader", "inputs", "slowest", "most memory", "findings"), ("---",) * 5]
    for name, one in figures.items():
        rows.append(
            (
                name,
                f"{one['inputs']:,}",
                f"{one['seconds']:.1f} s",
                f"{one['memory']} MiB",
                str(one["findings"]),
            )
        )
    told = [
        f"Found at commit {run['commit']}{', mended in ' + how['mended'] if 'mended' in how else ''}: {one['reader']}, {wrong}."
        for run in runs for one in run["readers"] for wrong, how in one["findings"].items()
    ]  # fmt: skip
    return PAGE.format(
        minutes=sum(run["minutes"] for run in runs),
        commits=", then ".join(
            f"commit {run['commit']}, seed {run['seed']}, rounds {run['rounds'][0]} to {run['rounds'][1]}"
            for run in runs
        ),
        inputs=sum(one["inputs"] for one in figures.values()),
        table="".join(f"| {' | '.join(cells)} |\n" for cells in rows),
        findings="\n".join(told) or "Nothing was found.",
    )


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, help="the round to begin with")
    parser.add_argument("--only", default="", help="readers whose names have this")
    parser.add_argument("--again", metavar="ROUND:NUMBER", help="read one input again")
    parser.add_argument(
        "--output",
        type=Path,
        help="put the figures into this file, behind the runs that are there, or to the run that ended at --start",
    )
    options = parser.parse_args()
    readers = tuple(one for one in READERS if options.only.lower() in one.name.lower())
    if not readers:
        parser.error(f"no reader is called so; there is: {', '.join(one.name for one in READERS)}")
    if options.again:
        return again(options.seed, options.again)
    found = fuzz(readers, options.seed, options.start, options.minutes)
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    found |= {"commit": commit.stdout.strip(), "python": platform.python_version()}
    count = sum(len(one["findings"]) for one in found["readers"])
    total = sum(one["inputs"] for one in found["readers"])
    print(
        f"{total:,} inputs in {found['minutes']} min, {count} findings; next: --start {found['rounds'][1]}"
    )
    if options.output:
        runs = json.loads(options.output.read_text("utf-8")) if options.output.exists() else []
        text = json.dumps(joined(runs, found), indent=1, ensure_ascii=False)
        options.output.write_text(text + "\n", "utf-8")
    return 1 if count else 0


if __name__ == "__main__":
    raise SystemExit(main())
