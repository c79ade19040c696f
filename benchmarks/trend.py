"""Has it become slower? This version beside a released one, in turns on one core, and the dashboard of all such runs.

    python benchmarks/trend.py [--base v0.2.0] [--rounds 7] [--history trend.jsonl] [--page trend.html]

Both versions run `trend_probe.py` under the interpreter and the packages at hand, one process each, alternately: only the sources
differ, and both see the same machine. A figure is the median, over the rounds, of this version's CPU time divided by the
base's in the same round. A line of the history is one run. A figure *regresses* if it is more than 15% above
the median of the last five runs with the same base that had not regressed (without any, above the base) and three quarters of the
rounds agree; then the exit code is 1. So it stays flagged until it is mended, or a release takes it as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import trendpage

ROOT = Path(__file__).resolve().parents[1]
PROBE = ROOT / "benchmarks" / "trend_probe.py"
#: How much above the runs before a figure may be, and of how many runs before.
MORE, BEFORE = 1.15, 5
LIMIT_SECONDS = 600


def git(*arguments: str) -> str:
    """Return what git prints; raises SystemExit with its sentence."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"git {arguments[0]}: {done.stderr.strip() or 'failed'}")
    return done.stdout.strip()


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Give a folder with the files of a commit, and remove it afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "base"
        git("worktree", "add", "--detach", str(place), commit)
        try:
            yield place
        finally:
            git("worktree", "remove", "--force", str(place))


def probe(tree: Path) -> dict[str, float]:
    """Return the CPU milliseconds of one version; raises SystemExit where it cannot be measured."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(PROBE)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{tree}: the probe failed: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def ratios(base: Path, rounds: int) -> dict[str, dict[str, Any]]:
    """Return for each figure both medians in milliseconds, and the ratios by round."""
    ours: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    for number in range(rounds):
        turns = [(base, theirs), (ROOT, ours)]
        for tree, into in turns if number % 2 else reversed(turns):
            into.append(probe(tree))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return {
        name: {
            "base_ms": round(statistics.median(each[name] for each in theirs), 4),
            "ms": round(statistics.median(each[name] for each in ours), 4),
            "ratios": [
                round(mine[name] / base_[name], 4) for mine, base_ in zip(ours, theirs, strict=True)
            ],
        }
        for name in ours[0]
    }


def expected(history: Sequence[Mapping[str, Any]], base: str, name: str) -> float:
    """Return the ratio of the runs before with the same base that had not regressed, or 1."""
    before = [
        statistics.median(run["figures"][name]["ratios"])
        for run in history
        if run["base"] == base and name in run["figures"] and not run["figures"][name]["regressed"]
    ]
    return statistics.median(before[-BEFORE:]) if before else 1.0


def has_regressed(found: Sequence[float], usual: float) -> bool:
    """Whether the rounds lie above what is usual: their median clearly, and three quarters of them at all."""
    above = sum(each > usual for each in found)
    return statistics.median(found) > MORE * usual and above >= 0.75 * len(found)


def read_history(path: Path | None) -> list[dict[str, Any]]:
    """Return the runs before; none if there is no such file."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def measured(base: str, rounds: int, history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one run, with what regressed."""
    commit = git("rev-parse", "--short", f"{base}^{{commit}}")
    with checked_out(commit) as tree:
        figures = ratios(tree, rounds)
    for name, figure in figures.items():
        figure["usual"] = round(expected(history, commit, name), 4)
        figure["regressed"] = has_regressed(figure["ratios"], figure["usual"])
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git("describe", "--always", "--dirty"),
        "base": commit,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}",
        "figures": figures,
    }


def main() -> int:
    """Measure, append to the history, write the page; 1 if something regressed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--base", help="a commit or tag; by default the newest tag behind HEAD")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--history", type=Path, help="file with a line of JSON for each run")
    parser.add_argument("--page", type=Path, help="the dashboard to write")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    base = options.base or git("describe", "--tags", "--abbrev=0")
    history = read_history(options.history)
    run = measured(base, options.rounds, history)
    history.append(run)
    if options.history:
        with options.history.open("a", encoding="utf-8") as file:
            file.write(json.dumps(run) + "\n")
    if options.page:
        options.page.write_text(trendpage.page(history), "utf-8")
    print(trendpage.table(run))
    return int(any(figure["regressed"] for figure in run["figures"].values()))


if __name__ == "__main__":
    sys.exit(main())
