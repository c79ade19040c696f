"""What the documentation shows is what happens."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCK = re.compile(r"(<!-- not run: [^>]*-->\n+)?^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
GENERATED = runpy.run_path(str(ROOT / "docs" / "generate.py"))["PAGES"]
ADDRESS = "127.0.0.1:8080"  # of a server on the pages; here it has a free port
EXTRAS = re.compile(r"pip install (?:-e )?'(?:callmemaybe|\.)\[([\w,-]+)\]'")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


def blocks(language: str) -> list[object]:
    found: list[object] = []
    for page in PAGES:
        for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
            if match[2] == language and not match[1]:
                name = f"{page.relative_to(ROOT)}:{page.read_text('utf-8').count(chr(10), 0, match.start()) + 1}"
                found.append(pytest.param(match[3], id=name))
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place that looks like a checkout and may be written to."""
    shutil.copytree(ROOT / "data" / "input", tmp_path / "data" / "input")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    prompts = '{"prompt": "Is 97 a prime number?"}\n{"prompt": "Multiply 6 by 7"}\n'
    (tmp_path / "prompts.jsonl").write_text(prompts, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """The address of `callmemaybe serve`."""
    command = [sys.executable, "-m", "callmemaybe", "serve", "--quiet", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            found = re.search(r"http://(\S+)", said)
            assert found, said
            yield found[1]
        finally:
            process.terminate()


@pytest.mark.parametrize("code", blocks("python"))
def test_python_blocks_run(code: str, folder: Path, request: pytest.FixtureRequest) -> None:
    """Each Python block of the docs runs on its own; one that asks a server finds it."""
    if ADDRESS in code:
        code = code.replace(ADDRESS, request.getfixturevalue("served"))
    (folder / "block.py").write_text(code, encoding="utf-8")
    runpy.run_path("block.py", run_name="__main__")


def test_no_two_blocks_share_a_ledger() -> None:
    """Who runs the pages one after another in one folder finds no run of another page there."""
    shown = [found for page in PAGES for found in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    code = [found[3] for found in shown if found[2] == "python" and not found[1]]
    ledgers = [name for one in code for name in set(re.findall(r'store="([^"]+)"', one))]
    assert len(ledgers) == len(set(ledgers)) > 1


@pytest.mark.parametrize("code", blocks("sh"))
def test_shell_blocks_run(code: str, folder: Path) -> None:
    """Each command of ours in the docs succeeds; make is what runs these tests."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    lines = code.replace("\\\n", " ").splitlines()
    for line in (line for line in lines if line and line.split()[0] != "make"):
        assert shlex.split(line, comments=True)[0] in {"callmemaybe", "python"}, line
        done = subprocess.run(
            line, shell=True, cwd=folder, env={**os.environ, "PATH": path, "HOME": str(folder)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(path: Path, folder: Path) -> None:
    """Each example runs from a checkout."""
    assert folder.exists()
    runpy.run_path(str(path), run_name="__main__")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link of a page points to a file of the repository."""
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{page}: {target}"


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_the_reference_is_generated(name: str) -> None:
    """Each page that is generated is what the program, or the measurement, says."""
    page = ROOT / "docs" / name
    assert page.read_text(encoding="utf-8") == GENERATED[name](), "run docs/generate.py"


def test_what_says_it_is_generated_is() -> None:
    """A page that tells not to edit it by hand is written by the program."""
    pages = (ROOT / "docs").rglob("*.md")
    telling = {
        path.relative_to(ROOT / "docs").as_posix()
        for path in pages
        if "docs/generate.py` from" in path.read_text("utf-8")
    }
    assert telling <= set(GENERATED)


def test_every_dependency_is_justified() -> None:
    """Whatever a user has to install stands in the page that says why."""
    page = (ROOT / "docs/ideas/dependencies.md").read_text(encoding="utf-8")
    core = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    names = [re.split(r"[<>=\[ ]", requirement)[0] for requirement in core]
    assert [name for name in names if f"| {name} |" not in page] == []


def test_every_extra_is_there() -> None:
    """What a page has a reader install exists; pip only warns of an extra that does not."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [
        (page.name, extra)
        for page in PAGES
        for found in EXTRAS.findall(page.read_text(encoding="utf-8"))
        for extra in found.split(",")
    ]
    assert len(named) > 10
    assert [one for one in named if one[1] not in extras["optional-dependencies"]] == []


def test_every_idea_is_in_the_index() -> None:
    """A page that no one can find helps no one."""
    for folder in (ROOT / "docs" / "ideas", ROOT / "docs" / "how-to"):
        index = (folder / "README.md").read_text(encoding="utf-8")
        pages = [path.name for path in folder.glob("*.md") if path.name != "README.md"]
        assert [name for name in pages if f"({name})" not in index] == []


def test_the_readme_fits_one_page() -> None:
    """A newcomer reads the README in a minute or two."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90
