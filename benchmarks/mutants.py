"""Mutation testing of the rooms that guard: small faults are put into them one by one, and their tests must notice.

    python benchmarks/mutants.py --count 60 --seed 31 --output benchmarks/results/mutants.json
    python benchmarks/mutants.py --show 7 --seed 31         one mutant as a difference
    python benchmarks/mutants.py --only 7,12 --seed 31      these again, such as survivors after new tests

A mutant is one change of one place: a comparison, "and" and "or", a number, a truth value, an operator of arithmetic, a condition
turned round, a statement left out. Mutant n of a seed is always the same for the same source. The tests of the room run in a copy
of the repository, those first that name what was changed; the first that fails kills the mutant. Then, for what survived them, the
tests elsewhere that import the room. A mutant that needs more CPU time than ``--seconds`` at a stage is "late": it may be one that
never ends, or have run out of time, and counts as neither.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import platform
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("matching", "decoding", "wire", "gateway", "tools")
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.Mod: ast.Add,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A change of one place of a file: what stands there, and what is put there instead."""

    room: str
    file: str
    line: int
    start: int
    end: int
    """Offsets of UTF-8 in the file."""
    was: str
    now: str
    kind: str
    within: str
    """The function or class around it."""

    def source(self) -> bytes:
        """Return the text of the file with the change."""
        data = (ROOT / self.file).read_bytes()
        return data[: self.start] + self.now.encode() + data[self.end :]


class _Places(ast.NodeVisitor):
    """Finds the places of a file where something can be changed."""

    def __init__(self, room: str, path: Path) -> None:
        self._room, self._file = room, str(path.relative_to(ROOT))
        self._data = path.read_bytes()
        self._lines = [0]
        for line in self._data.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._within = ""
        self.found: list[Mutant] = []
        self.visit(ast.parse(self._data))

    def _put(self, node: Any, kind: str, now: str) -> None:
        start = self._lines[node.lineno - 1] + node.col_offset
        end = self._lines[node.end_lineno - 1] + node.end_col_offset
        was = self._data[start:end].decode()
        self.found.append(
            Mutant(self._room, self._file, node.lineno, start, end, was, now, kind, self._within)
        )

    def _around(self, node: Any) -> None:
        before, self._within = self._within, node.name
        for part in node.body:
            self.visit(part)
        self._within = before

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._around(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        # Annotations and decorators stay; defaults are values like others.
        for default in [*node.args.defaults, *(one for one in node.args.kw_defaults if one)]:
            self.visit(default)
        self._around(node)

    def visit_AsyncFunctionDef(self, node: Any) -> None:
        self.visit_FunctionDef(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Import(self, node: ast.Import) -> None:
        """Leave imports alone."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Leave imports alone."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave formatted texts alone: most are messages."""

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            changed = ast.Compare(node.left, [COMPARISONS[type(node.ops[0])]()], node.comparators)
            self._put(node, "comparison", f"({ast.unparse(changed)})")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._put(node, "and/or", f"({ast.unparse(ast.BoolOp(other, node.values))})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in OPERATORS and not isinstance(node.left, ast.Constant | ast.JoinedStr):
            changed = ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
            self._put(node, "arithmetic", f"({ast.unparse(changed)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._put(node, "truth value", str(not node.value))
        elif isinstance(node.value, int):
            self._put(node, "number", f"({node.value + 1})")

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self._put(node.test, "condition", f"(not ({ast.unparse(node.test)}))")
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._put(node.test, "condition", f"(not ({ast.unparse(node.test)}))")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call | ast.Await):
            self._put(node, "statement left out", "pass")
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._put(node, "statement left out", "pass")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._put(node, "statement left out", "pass")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (
            isinstance(node.value, ast.Constant) and node.value.value is None
        ):
            self._put(node, "statement left out", "return None")
        self.generic_visit(node)


def places() -> list[Mutant]:
    """Return every mutant there is."""
    found: list[Mutant] = []
    for room in ROOMS:
        for path in sorted((ROOT / "src" / "callmemaybe" / room).rglob("*.py")):
            if "postgres" in path.stem:
                continue  # its tests want a server
            found += _Places(room, path).found
    return [one for one in found if one.now.strip("()") != one.was.strip("()")]


def tests_of(mutant: Mutant) -> tuple[list[str], list[str]]:
    """Return the tests of the mutant's room, those first that name what is changed, and others that import the room and name it."""
    stem = Path(mutant.file).stem
    room, others = [], []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text("utf-8")
        score = 3 * (stem in path.stem) + (mutant.within in text) + (stem in text)
        name = str(path.relative_to(ROOT))
        if path.is_relative_to(ROOT / "tests" / mutant.room):
            room.append((-score, name))
        elif f"callmemaybe.{mutant.room}" in text and score:
            others.append((-score, name))
    return [name for _, name in sorted(room)], [name for _, name in sorted(others)]


def run(tree: Path, names: list[str], seconds: int) -> tuple[str, str]:
    """Run tests in the copy until one fails: ("killed", by what), ("survived", "") or ("late", "")."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "--no-header",
        "--tb=no",
        "-rfE",
        "-o",
        "timeout=60",
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [*command, *names], cwd=tree, env=environment, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 2)),
    )  # fmt: skip
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if failed or done.returncode in (1, 2, 3, 4):
        return "killed", (failed or done.stdout.splitlines() or ["?"])[0].partition(" - ")[0]
    return ("survived", "") if done.returncode in (0, 5) else ("late", "")  # 5: no test is left


def judge(tree: Path, mutant: Mutant, seconds: int) -> tuple[str, str]:
    """Put a mutant into the copy, run the tests, and take it out again."""
    target = tree / mutant.file
    before = target.read_bytes()
    target.write_bytes(mutant.source())
    try:
        outcome, by = "survived", ""
        for names in tests_of(mutant):
            if names:
                outcome, by = run(tree, names, seconds)
            if outcome != "survived":
                break
        return outcome, by
    finally:
        target.write_bytes(before)


def copy(folder: Path) -> Path:
    """Return a copy of what the tests read, without a database's server: to start one for each mutant takes too long."""
    tree = folder / "tree"
    ignored = shutil.ignore_patterns(
        ".git", ".venv", "*.pyc", "__pycache__", ".mypy_cache", "node_modules", "peers"
    )
    shutil.copytree(ROOT, tree, ignore=ignored, symlinks=True)
    conftest = tree / "tests" / "gateway" / "conftest.py"
    text = conftest.read_text("utf-8")
    conftest.write_text(text.replace("/usr/lib/postgresql", "/nowhere"), "utf-8")
    return tree


def interval(good: int, count: int) -> tuple[float, float]:
    """Return Wilson's 95% interval of a share."""
    if not count:
        return 0.0, 1.0
    z, share = 1.96, good / count
    middle, spread = (
        share + z * z / (2 * count),
        z * sqrt(share * (1 - share) / count + z * z / (4 * count * count)),
    )
    return (middle - spread) / (1 + z * z / count), (middle + spread) / (1 + z * z / count)


def chosen(options: argparse.Namespace) -> Iterator[tuple[int, Mutant]]:
    """Yield the mutants of the seed, numbered."""
    order = [one for one in places() if options.room in (None, one.room)]
    random.Random(options.seed).shuffle(order)
    wanted = (
        [int(one) for one in options.only.split(",")]
        if options.only
        else range(options.start, options.start + options.count)
    )
    for number in wanted:
        yield number, order[number]


def show(mutant: Mutant) -> None:
    """Print a mutant as a difference."""
    before, after = ((ROOT / mutant.file).read_bytes().decode(), mutant.source().decode())
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), mutant.file, mutant.file, n=3, lineterm=""
    )
    print("\n".join(lines))


def described(mutant: Mutant, outcome: str, by: str) -> dict[str, Any]:
    """Return what is kept of a mutant."""
    change = f"{' '.join(mutant.was.split())[:160]} -> {' '.join(mutant.now.split())[:160]}"
    place = f"{mutant.file}:{mutant.line}"
    return {
        "outcome": outcome,
        "room": mutant.room,
        "place": place,
        "kind": mutant.kind,
        "change": change,
        "by": by,
    }


def doubt(tree: Path, found: dict[str, dict[str, Any]], seconds: int) -> None:
    """Run the tests that killed without any change; what fails then has killed nothing."""
    for name in {one["by"] for one in found.values() if one["outcome"] == "killed"}:
        test = name.partition(" ")[2]
        if test and run(tree, [test], seconds)[0] != "survived":
            for one in found.values():
                if one["by"] == name:
                    one["outcome"] = "unclear"


def told(found: dict[str, dict[str, Any]]) -> str:
    """Return the counts, and the share that was killed with its interval."""
    counts = Counter(one["outcome"] for one in found.values())
    decided = counts["killed"] + counts["survived"]
    low, high = interval(counts["killed"], decided)
    rest = [f"{counts[kind]} {kind}" for kind in ("late", "unclear") if counts[kind]]
    return "; ".join(
        [f"{counts['killed']} of {decided} killed (95% interval: {low:.0%} to {high:.0%})", *rest]
    )


PAGE = """
## Mutation testing

`python benchmarks/mutants.py --room wire --count 20 --seed 31` puts small faults into a room that guards ({rooms}), one at a time,
and runs the tests of the room, then those elsewhere that name what was changed. *killed*: a test failed; *late*: the tests did not end within
their CPU time; *unclear*: the test that failed also fails without the fault. There are {of:,} such mutants; {count} of them were tried, drawn
with seed {seed} at commit {commit}: {told}. That is a small sample: it took what a shared core gave. Of the survivors, {equal}
change nothing that a caller could see, and {now} are killed by tests that were written for them since.

{table}
{survivors}
"""


def page(found: dict[str, Any]) -> str:
    """Return the part of the documentation that tells these results."""
    mutants = found["mutants"]
    kinds = ("killed", "survived", "late", "unclear")
    rows = [("room", "mutants", *kinds), ("---",) * (2 + len(kinds))]
    for room in ROOMS:
        counts = Counter(one["outcome"] for one in mutants.values() if one["room"] == room)
        rows.append(
            (f"`{room}`", str(sum(counts.values())), *(str(counts[kind]) for kind in kinds))
        )
    survivors = [("survivor", "change", "why")]
    survivors.append(("---",) * 3)
    notes = [one.get("note", "") for one in mutants.values() if one["outcome"] == "survived"]
    for one in mutants.values():
        if one["outcome"] == "survived":
            change = one["change"].replace("|", "\\|")
            survivors.append(
                (
                    f"`{one['place'].removeprefix('src/callmemaybe/')}`",
                    f"`{change}`",
                    one.get("note", "not looked at yet"),
                )
            )
    return PAGE.format(
        rooms=", ".join(f"`{room}`" for room in ROOMS),
        of=found["of"], count=len(mutants), seed=found["seed"], commit=found["commit"], told=told(mutants),
        equal=sum(note.startswith("equivalent") for note in notes), now=sum(note.startswith("killed now") for note in notes),
        table=_rows(rows), survivors=_rows(survivors) if len(survivors) > 2 else "None survived.\n",
    )  # fmt: skip


def _rows(rows: list[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--start", type=int, default=0, help="the number of the first")
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--room", choices=ROOMS, help="mutants of one room, numbered for it")
    parser.add_argument("--only", default="", help="numbers of mutants")
    parser.add_argument("--seconds", type=int, default=180, help="CPU time of a stage")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no mutant after so long")
    parser.add_argument("--show", type=int, metavar="NUMBER", help="print a mutant")
    parser.add_argument(
        "--output", type=Path, help="put the results into this file, beside those that are there"
    )
    options = parser.parse_args()
    if options.show is not None:
        options.only = str(options.show)
        show(next(chosen(options))[1])
        return 0
    known: dict[str, Any] = (
        json.loads(options.output.read_text("utf-8"))
        if options.output and options.output.exists()
        else {"mutants": {}}
    )
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="callmemaybe-mutants-") as folder:
        tree, begun = copy(Path(folder)), time.monotonic()
        for number, mutant in chosen(options):
            if time.monotonic() - begun > options.minutes * 60:
                break
            found[str(number)] = described(mutant, *judge(tree, mutant, options.seconds))
            print(number, *found[str(number)].values(), flush=True)
        doubt(tree, found, options.seconds)
    known["mutants"] |= {f"{options.room or ''}{number}": one for number, one in found.items()}
    known |= {
        "seed": options.seed,
        "of": len(places()),
        "commit": commit,
        "python": platform.python_version(),
    }
    if options.output:
        options.output.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(told(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
