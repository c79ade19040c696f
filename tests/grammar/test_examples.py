"""The grammars of examples/: whatever is chosen within them, the language's own reader takes it."""

from __future__ import annotations

import importlib.util
import random
import sqlite3
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> Any:
    """Import an example."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sqlite_runs_every_query() -> None:
    """Law: a random choice of allowed bytes is a query that SQLite prepares and runs."""
    example = load("sql_grammar")
    with sqlite3.connect(":memory:") as database:
        database.execute(example.TABLE)
        for seed in range(60):
            database.execute(example.write(random.Random(seed), budget=40 + seed))


def test_python_reads_every_sum() -> None:
    """Law: a random choice of allowed bytes is an expression that Python evaluates to an integer."""
    example = load("arithmetic_grammar")
    for seed in range(60):
        assert isinstance(eval(example.write(random.Random(seed), budget=2 + seed), {}), int)
