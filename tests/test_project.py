"""The files around the project say what the project is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text("utf-8"))


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in read(workflow)["jobs"].values() for step in job["steps"]]


def test_every_supported_python_is_tested() -> None:
    """The versions among the classifiers are those of the matrix, and the first is what `requires-python` asks for."""
    listed = [
        found[1]
        for line in PROJECT["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
    ]
    jobs = read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    assert jobs["linux"]["strategy"]["matrix"]["python"] == listed
    assert set(jobs["elsewhere"]["strategy"]["matrix"]["python"]) <= set(listed)
    assert PROJECT["requires-python"] == f">={listed[0]}"


def test_what_workflows_make_is_in_the_makefile() -> None:
    """A target that a workflow runs exists."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    made = {
        name
        for file in WORKFLOWS
        for step in steps(file)
        for name in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))
    }
    assert made
    assert made <= targets


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_may_do_no_more_than_they_need(workflow: Path) -> None:
    """A workflow's token reads; jobs end by themselves, keep no credentials, and name the versions of their actions."""
    table = read(workflow)
    assert table["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 60 for job in table["jobs"].values())
    for step in steps(workflow):
        if "uses" in step:
            assert re.fullmatch(r"[\w./-]+@(v\d+|release/v\d+)", step["uses"])
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_the_citation_is_of_this_version() -> None:
    """CITATION.cff names the version and the licence of the package."""
    citation = read(ROOT / "CITATION.cff")
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
