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


def test_the_image_runs_as_nobody_special_and_is_asked_for_its_health() -> None:
    """The image installs extras that exist, copies only what the build needs, and asks an address that the server has."""
    image = (ROOT / "Dockerfile").read_text("utf-8")
    extras = re.search(r'pip install [^\n]*"\.\[([\w,-]+)\]"', image)
    assert extras is not None
    assert set(extras[1].split(",")) <= set(PROJECT["optional-dependencies"])
    assert re.search(r"^USER \d+$", image, re.MULTILINE)
    assert image.index("\nUSER ") < image.index("\nCMD ")
    asked = re.search(
        r"^HEALTHCHECK.*?http://127\.0\.0\.1:(\d+)(/\w+)", image, re.MULTILINE | re.DOTALL
    )
    assert asked is not None
    served = re.search(r"^CMD (\[.*\])$", image, re.MULTILINE)
    assert served is not None
    assert yaml.safe_load(served[1])[-1] == asked[1]
    assert f'"{asked[2]}"' in (ROOT / "src/callmemaybe/server/app.py").read_text("utf-8")
    allowed = re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text("utf-8"), re.MULTILINE)
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", image, re.MULTILINE)
    assert sorted(allowed) == sorted(name for line in copied for name in line.split())
    assert all((ROOT / name).exists() for name in allowed)


def test_the_services_publish_nothing_and_have_no_default_password() -> None:
    """Ports are of this machine alone, and each secret has to be set by who starts the services."""
    services = read(ROOT / "compose.yaml")["services"]
    assert set(services) == {"server", "ledger"}
    for service in services.values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        for name, value in service["environment"].items():
            if name.endswith(("_KEY", "_PASSWORD")):
                assert re.fullmatch(r"\$\{\w+:\?[^}]+\}", value)


def test_the_site_has_every_page() -> None:
    """Each page of docs/ stands in the site's menu, and the menu names no page that is not there."""
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = set(re.findall(r"[\w/-]+\.md", text.partition("\nnav:")[2]))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages <= listed
    outside = {page for page in listed - pages if (ROOT / page).exists()}
    assert listed - pages - outside == {"reference/api.md"}


def test_the_lock_has_every_development_tool_with_hashes_and_no_host() -> None:
    """Each requirement of the core and of the extra dev is pinned, each pin has a hash, and no registry is named."""
    text = (ROOT / "requirements-dev.txt").read_text("utf-8")
    assert "://" not in text
    pins = re.findall(
        r"^([\w.-]+)(?:\[[^]]+\])?==\S+(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert all("--hash=sha256:" in rest for _, rest in pins)
    pinned = {name.lower().replace("_", "-") for name, _ in pins}
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["dev"], *extras["clients"], *extras["server"]]
    names = {re.split(r"[<>=\[ ]", one)[0].lower().replace("_", "-") for one in wanted}
    assert names - {"callmemaybe"} <= pinned
