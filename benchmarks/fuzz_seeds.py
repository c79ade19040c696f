"""What the fuzzer damages: texts and values of this repository's tests, and of published suites where they are at hand."""

from __future__ import annotations

import ast
import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema_specifications import REGISTRY

ROOT = Path(__file__).parents[1]
_LONGEST = 6_000
_MOST_SAMPLES = 400


@cache
def _trees(*rooms: str) -> tuple[ast.Module, ...]:
    files = [file for room in rooms for file in sorted((ROOT / "tests").glob(room))]
    if not files:
        raise SystemExit(
            f"there is no tests/{rooms[0]}: the fuzzer runs in a clone of the repository"
        )
    return tuple(ast.parse(file.read_text("utf-8")) for file in files)


def texts(*rooms: str) -> list[str]:
    """Return the texts that stand in some files of tests, docstrings left out."""
    found: dict[str, None] = {}
    for tree in _trees(*rooms):
        prose = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in prose
            ):
                found.setdefault(node.value[:_LONGEST])
    return list(found)


def values(*rooms: str) -> list[Any]:
    """Return the dicts and lists that stand in some files of tests as they are."""
    found: dict[str, Any] = {}
    for tree in _trees(*rooms):
        for node in ast.walk(tree):
            if isinstance(node, ast.Dict | ast.List):
                try:
                    value = ast.literal_eval(node)
                    found.setdefault(json.dumps(value), value)
                except (ValueError, TypeError, SyntaxError):
                    continue
    return [value for text, value in found.items() if 2 < len(text) < _LONGEST]


@cache
def schemas() -> tuple[Any, ...]:
    """Return schemas: of tests, the metaschemas, and of the official suite and MaskBench where they are at hand."""
    kept = [one for one in values("grammar/*.py", "generation/*.py") if isinstance(one, dict)]
    kept += [
        dict(REGISTRY.contents(uri)) for uri in REGISTRY if isinstance(REGISTRY.contents(uri), dict)
    ]  # type: ignore[arg-type]
    return (*kept, *_sampled(_published()))


def _published() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "ratchets"))
    from run import DATA, maskbench, suite

    if (DATA / "json-schema-test-suite").exists():
        for _, schema, _, _ in suite(DATA / "json-schema-test-suite"):
            yield schema
    sample = DATA / "maskbench" / "sample.jsonl.gz"
    if sample.exists():
        for _, schema, _, _ in maskbench(sample):
            yield schema


def _sampled(found: Iterable[Any]) -> list[Any]:
    small = [one for one in found if isinstance(one, dict) and len(json.dumps(one)) < _LONGEST]
    return small[:: max(1, len(small) // _MOST_SAMPLES)]


def patterns() -> list[str]:
    """Return the regular expressions of the schemas, and of tests."""
    found = dict.fromkeys(one for one in texts("grammar/test_regex.py") if "\n" not in one)
    waiting: list[Any] = list(schemas())
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if isinstance(one.get("pattern"), str):
                found.setdefault(one["pattern"])
            if isinstance(one.get("patternProperties"), dict):
                found.update(dict.fromkeys(one["patternProperties"]))
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return list(found)


def grammars() -> list[str]:
    """Return grammars in GBNF and Lark."""
    files = (
        "grammar/test_ebnf.py",
        "grammar/test_dialects.py",
        "grammar/test_common.py",
        "grammar/test_examples.py",
        "grammar/test_export.py",
    )
    return [one for one in texts(*files) if ":" in one]


def packed(path: Path) -> str:
    """Return the text of a file, also of one that is packed."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
