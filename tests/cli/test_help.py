"""The help: every command in one section, and examples that say what the program takes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from callmemaybe.cli.help import EXAMPLES, OPTION_SECTIONS, SECTIONS
from callmemaybe.cli.main import app

GROUP: Any = typer.main.get_command(app)
INPUT = Path(__file__).parents[2] / "data" / "input"
FILES = {
    "tools.py": "def is_warm(city: str) -> bool:\n"
    '    """Is it warm in a city?"""\n    return True\n\n\n'
    "from callmemaybe import tool\n\n\n"
    "@tool(effect='read')\ndef temperature(city: str) -> int:\n"
    '    """The temperature in a city."""\n    return 21\n',
    "functions.json": json.dumps(
        [{"name": "add", "description": "Add.", "parameters": {"a": {"type": "number"}}}]
    ),
    "prompts.jsonl": '"Add 2 and 3"\n',
    "calls.json": json.dumps([{"name": "temperature", "arguments": {"city": "Oslo"}}]),
}
#: They serve until they are stopped, ask a person, need a network, or files that other commands write.
NOT_RUN = ("chat", "serve", "models pull", "eval", "show", "tune", "COMMAND")


def test_each_command_stands_in_one_section() -> None:
    """A new command is put where somebody looks for it."""
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(GROUP.commands)


def test_sections_of_options_name_options() -> None:
    """An option that is renamed does not leave its section."""
    known = {parameter.name for command in GROUP.commands.values() for parameter in command.params}
    listed = [name for names in OPTION_SECTIONS.values() for name in names]
    assert len(listed) == len(set(listed))
    assert set(listed) <= known


@pytest.mark.parametrize("command", ["", *sorted(GROUP.commands), "models pull", "audit list"])
def test_help_has_every_option_once_and_the_examples(command: str) -> None:
    """Sections lose nothing, and no example is broken over lines."""
    words = [sys.executable, "-m", "callmemaybe", *command.split(), "--help"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    node = GROUP
    for name in command.split():
        node = node.commands[name]
    for parameter in node.params:
        if parameter.param_type_name == "option":
            heads = re.findall(
                rf"^  (?:-\w, )?{re.escape(parameter.opts[-1])}\b", shown, re.MULTILINE
            )
            others = re.findall(rf"^  .*{re.escape(parameter.opts[0])}\b", shown, re.MULTILINE)
            assert len(heads) == 1 or others, parameter.opts
    assert [line for line in EXAMPLES.get(command, ()) if f"  {line}\n" not in shown] == []


@pytest.mark.parametrize("line", sorted({line for lines in EXAMPLES.values() for line in lines}))
def test_examples_do_what_they_say(line: str, tmp_path: Path) -> None:
    """Each example is taken by the program, and those that need nothing else succeed."""
    words = shlex.split(line.partition(" | ")[2] or line, comments=True)
    assert words[0] == "callmemaybe"
    if any(line.partition("callmemaybe ")[2].startswith(one) for one in NOT_RUN):
        return
    shutil.copytree(INPUT, tmp_path / "data" / "input")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    if "--workers" in line:
        line = line.replace("--workers 4", "--tools functions.json")
    done = subprocess.run(
        line.replace("callmemaybe", f"{sys.executable} -m callmemaybe", 1), shell=True,
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
