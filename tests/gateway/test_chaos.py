"""The chaos run of benchmarks/ finds nothing, and finds each bug that is injected."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.chaos import ActionLog

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL"),
    pytest.mark.slow,
]
ROOT = Path(__file__).parents[2]


def chaos(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.chaos", "--store", "sqlite", "--seed", "3"]
    return subprocess.run(
        [*command, "--minutes", "0.25", "--folder", str(folder), *more],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_chaos_breaks_no_promise(tmp_path: Path) -> None:
    """Law: kills, stops, full disks and wrong clocks leave one effect and one answer for each call."""
    done = chaos(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 violations" in done.stdout


@pytest.mark.parametrize("bug", ["keys", "rerun", "locks"])
def test_chaos_finds_a_bug(tmp_path: Path, bug: str) -> None:
    """Law: a broken promise is found, and told with the calls, processes and times."""
    done = chaos(tmp_path, "--inject-bug", bug)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "sqlite: " in done.stdout


def test_a_line_that_kill_9_cut_off_is_left_out(tmp_path: Path) -> None:
    """Law: what a killed process did not finish writing did not happen; what another wrote behind it did."""
    log = ActionLog(tmp_path / "log")
    log.write("begin", n=1)
    log.path.write_bytes(log.path.read_bytes() + b'{"what": "end", "at": 1.0, "n"')
    log.write("begin", n=2)
    log.path.write_bytes(log.path.read_bytes() + b'{"wh')
    assert [(line["what"], line["n"]) for line in log.lines()] == [("begin", 1), ("begin", 2)]
