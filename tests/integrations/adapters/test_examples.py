"""The examples of adapters, each where its package is installed."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "examples" / "adapters"
NEEDED = {
    "instructor_objects": ("instructor", "Oslo"),
    "langchain_agent": ("langchain", "22 degrees in Paris"),
    "llm_chain": ("llm", "22 degrees in Paris"),
    "pydantic_ai_agent": ("pydantic_ai", "22 degrees in Paris"),
}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_the_example_answers(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It calls the function that the request wants, and prints what came of it."""
    package, wanted = NEEDED[path.stem]
    pytest.importorskip(package, reason=f"the extra {package.replace('_', '-')} is not installed")
    runpy.run_path(str(path), run_name="__main__")
    assert wanted in capsys.readouterr().out
