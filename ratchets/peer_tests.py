"""How a peer's own tests are run and judged: pytest in a process of its own, on stand-ins for the peer."""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent


def outcomes(
    root: Path, files: Iterable[Path], *, stand_ins: Iterable[Path], options: Iterable[str] = ()
) -> dict[str, str]:
    """Run tests, with these folders in front of what is installed; return how each ended, by file and name."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "outcomes.json"
        environment = {
            **os.environ,
            "OUTCOMES": str(file),
            "HF_TOKEN": "none",  # without one, tests of tokenizers are skipped before they say so
            "PYTHONPATH": os.pathsep.join(map(str, [*stand_ins, HERE.parent / "src"])),
        }
        fixed = ["-p", "outcomes", "-p", "no:cacheprovider", "--import-mode=importlib", "-q"]
        fixed.append("--continue-on-collection-errors")
        command = [sys.executable, "-m", "pytest", *fixed, *options, "-c", os.devnull]
        done = subprocess.run(
            [*command, f"--rootdir={root}", *map(str, files)],
            cwd=place, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if not file.exists():
            raise SystemExit(f"the tests did not run: {done.stdout[-500:]}{done.stderr[-500:]}")
        return dict(json.loads(file.read_text("utf-8")))


def judged(name: str, outcome: str, reasons: Iterable[tuple[str, str, str]]) -> str:
    """Return "passed", "differs: why", "left out: why" or "fails: how" for how a case ended.

    ``reasons`` are words of a case's name, words of how it ended, and what is made of it; the first that fits.
    """
    if outcome == "passed" or outcome.startswith("left out: "):
        return outcome
    for words, how, verdict in reasons:
        if re.search(words, name) and re.search(how, outcome):
            return verdict
    return f"fails: {re.sub('^(failed|fails): ', '', outcome)}"
