"""A pytest plugin that writes how each test ended, with the reason in one line, to $OUTCOMES."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import xgrammar

_found: dict[str, str] = {}
_raises = pytest.raises


def _raises_in_any_words(*parts: Any, match: Any = None, **options: Any) -> Any:
    """Ask for an error, whatever its words."""
    return _raises(*parts, **options)


pytest.raises = _raises_in_any_words


def pytest_runtest_setup() -> None:
    """Forget what the test before has asked."""
    xgrammar.ASKED.update(language=0, text=0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the outcome of a test, or of a set-up that did not pass."""
    if report.when == "teardown" or (report.when == "setup" and report.passed):
        return
    outcome = str(report.outcome)
    if report.skipped and isinstance(report.longrepr, tuple):
        outcome = report.longrepr[2].removeprefix("Skipped: ")
    elif report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        outcome = (
            "failed: " + (crash.message if crash else str(report.longrepr)).split("\n")[0][:200]
        )
    elif xgrammar.ASKED["text"] and not xgrammar.ASKED["language"]:
        outcome = "left out: asks for the text of a grammar"
    _found[report.nodeid] = outcome


def pytest_sessionfinish() -> None:
    """Write what was noted."""
    text = json.dumps(_found, indent=1, ensure_ascii=False)
    Path(os.environ["OUTCOMES"]).write_text(text + "\n", "utf-8")
