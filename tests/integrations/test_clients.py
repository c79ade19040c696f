"""The runner of clients: what it reads, and one client all the way (the others need a network, see ``client_runs``)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra server is not installed")

from tests.integrations import client_runs

FLOW = '{"flow": "tool loop", "passed": true, "note": ""}'


def test_flows_are_read_among_other_lines() -> None:
    """A program may print what it likes beside its flows; only true is passed."""
    output = f'hello\n{FLOW}\n[1]\n{{"flow": 1}}\n{{"flow": "budget", "passed": 1}}\n'
    assert client_runs.read_flows(output) == [
        {"flow": "tool loop", "passed": True, "note": ""},
        {"flow": "budget", "passed": False, "note": ""},
    ]


@pytest.mark.parametrize("suffix", [".py", ".mjs"])
def test_a_program_names_what_it_requires(tmp_path: Path, suffix: str) -> None:
    """In a comment of either language, among its first lines; without one it is refused, with its path."""
    sign = {".py": "#", ".mjs": "//"}[suffix]
    path = tmp_path / f"some{suffix}"
    path.write_text(f"{sign} requires: a b[c]\n{sign} requires: d\n")
    assert client_runs.ClientProgram(path).requires == ["a", "b[c]", "d"]
    path.write_text("\n")
    with pytest.raises(SystemExit, match=f"some{suffix}"):
        _ = client_runs.ClientProgram(path).requires


def test_an_unknown_client_is_told() -> None:
    """With those that there are."""
    with pytest.raises(SystemExit, match=r"no such client: nobody; there are .*openai"):
        client_runs.programs(["nobody"])


def test_all_clients_say_what_they_require() -> None:
    """So that each can be run by its name."""
    assert all(one.requires for one in client_runs.programs())


@pytest.mark.parametrize("program", ["print(1)", "import sys; print('what'); sys.exit(3)"])
def test_a_program_that_tells_nothing_has_failed(program: str) -> None:
    """Silence is no success."""
    (flow,) = client_runs.run_program([sys.executable, "-c", program], "nano", "http://none/v1")
    assert not flow["passed"]


def flows_of(name: str, kind: str, *flows: str) -> list[dict[str, Any]]:
    """Run a client as it is installed here."""
    with client_runs.served(kind) as url:
        program = str(client_runs.FOLDER / f"{name}.py")
        return client_runs.run_program([sys.executable, "-P", program, *flows], kind, url)


@pytest.mark.parametrize("kind", client_runs.KINDS)
@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_all_flows(name: str, kind: str) -> None:
    """The official clients drive the server through all flows."""
    pytest.importorskip(name, reason="the extra clients is not installed")
    failed = {one["flow"] for one in flows_of(name, kind) if not one["passed"]}
    assert not failed


def test_openai_agents_runs_no_call_that_was_cut_off() -> None:
    """Streamed with every budget from 1 to 60 tokens, over both interfaces, with a call at the end."""
    pytest.importorskip("agents", reason="the extra clients is not installed")
    flows = flows_of("openai_agents", "scripted", "budget", "responses budget")
    assert [one["passed"] for one in flows] == [True, True], flows
