"""The house keeps its own rules: rooms, sizes, laws and start-up.

Who may import whom is checked by `lint-imports`; here stands what an import contract cannot say.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "callmemaybe"
SOURCES = sorted(path for path in PACKAGE.rglob("*.py"))
TESTS = sorted(path for path in (ROOT / "tests").rglob("test_*.py"))

MOST_LINES_OF_A_FUNCTION = 60


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_functions_stay_readable(path: Path) -> None:
    """No function is longer than 60 lines; a file is cut by meaning, not by length."""
    long = [
        f"{node.name} at line {node.lineno}"
        for node in functions(path)
        if (node.end_lineno or node.lineno) - node.lineno + 1 > MOST_LINES_OF_A_FUNCTION
    ]
    assert not long


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    """Each module opens with its purpose; a room's __init__ with its rules."""
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_test_states_its_law(path: Path) -> None:
    """A test's docstring is the law it proves."""
    silent = [
        node.name
        for node in functions(path)
        if node.name.startswith("test_") and not ast.get_docstring(node)
    ]
    assert not silent


def test_no_class_name_stands_for_two_things() -> None:
    """A name of a class is defined once in the package; private helpers of a file are its own."""
    defined: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: files for name, files in defined.items() if len(files) > 1} == {}


def imported_by(statement: str) -> set[str]:
    code = f"import sys, json; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import callmemaybe", {"numpy", "rich", "typer", "onnxruntime", "tokenizers", "pydantic"}),
        (
            "import callmemaybe.cli.main",
            {"onnxruntime", "tokenizers", "rich.progress", "jinja2", "numpy", "asyncio"}
            | {"callmemaybe.grammar"},
        ),
        ("import callmemaybe.caller, callmemaybe.models", {"onnxruntime", "huggingface_hub"}),
        ("import callmemaybe.tools", {"jsonschema_rs", "numpy"}),
    ],
)
def test_nothing_heavy_is_imported_early(statement: str, absent: set[str]) -> None:
    """Start-up pays only for what is used; heavy engines wait for a model that needs them."""
    heavy = {"torch", "transformers", "llama_cpp", "vllm", "sglang"}
    assert not imported_by(statement) & (absent | heavy)
