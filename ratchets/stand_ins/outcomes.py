"""A pytest plugin that writes how each test ended, with the reason in one line, to $OUTCOMES."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

_found: dict[str, str] = {}


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a file that could not be read."""
    if report.failed:
        _found[report.nodeid] = _why(report)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the outcome of a test, or of a set-up that did not pass."""
    if report.when == "teardown" or (report.when == "setup" and report.passed):
        return
    outcome = str(report.outcome)
    if report.skipped and isinstance(report.longrepr, tuple):
        outcome = report.longrepr[2].removeprefix("Skipped: ")
    elif report.failed:
        outcome = _why(report)
    _found.setdefault(report.nodeid, outcome)


def _why(report: pytest.TestReport | pytest.CollectReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(report.longrepr).splitlines()
    raised = [line.removeprefix("E").strip() for line in lines if line.startswith("E ")]
    why = crash.message.split("\n")[0] if crash else (raised or lines)[-1]
    return f"failed: {why[:200]}"


def leave_out(nodeid: str, why: str) -> None:
    """Note that a test is left out, however it ends."""
    _found[nodeid] = f"left out: {why}"


def pytest_sessionfinish() -> None:
    """Write what was noted."""
    text = json.dumps(_found, indent=1, ensure_ascii=False)
    Path(os.environ["OUTCOMES"]).write_text(text + "\n", "utf-8")
