"""What shells complete, asked as their scripts ask it; and with the shells themselves where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("callmemaybe")


def completed(words: str, cache: Path) -> list[str]:
    """Return what bash's script is told for the last of ``words``."""
    asked = {
        "_CALLMEMAYBE_COMPLETE": "complete_bash", "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1), "HF_HUB_CACHE": str(cache),
    }  # fmt: skip
    done = subprocess.run(
        [PROGRAM], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    return done.stdout.split()


def test_models_that_are_here_are_completed(tmp_path: Path) -> None:
    """The embedded one and those in the hub's cache; datasets are none, and a missing cache is empty."""
    for name in ("models--org--small-model", "models--org--other--x", "datasets--org--set"):
        (tmp_path / name).mkdir()
    found = completed("callmemaybe run --model ", tmp_path)
    assert found == ["nano", "org/other--x", "org/small-model"]
    assert completed("callmemaybe chat -m org/s", tmp_path) == ["org/small-model"]
    assert completed("callmemaybe run --model n", tmp_path / "none") == ["nano"]


def test_formats_are_completed(tmp_path: Path) -> None:
    """By the beginning of their names."""
    assert "hermes" in completed("callmemaybe formats h", tmp_path)
    assert "nano" not in completed("callmemaybe formats h", tmp_path)


def test_names_of_tools_are_completed_without_running_code(tmp_path: Path) -> None:
    """For --only and --skip, of the files of definitions that --tools names; a Python file is not run."""
    functions = tmp_path / "f.json"
    functions.write_text('[{"name": "add", "parameters": {}}, {"name": "about", "parameters": {}}]')
    code = tmp_path / "t.py"
    code.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    asked = f"callmemaybe call x --tools {functions} --tools {code}"
    assert completed(f"{asked} --only a", tmp_path) == ["add", "about"]
    assert completed(f"{asked} --skip ad", tmp_path) == ["add"]
    assert completed("callmemaybe run --only a", tmp_path) == []
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete_bash"), ("zsh", "#compdef"), ("fish", "complete_fish")]
)
def test_each_shell_gets_its_own_script(shell: str, mark: str, tmp_path: Path) -> None:
    """Typed in a shell, ``--show-completion`` prints that shell's script, which the shell can read."""
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    # The second command keeps the shell from replacing itself with the program.
    typed = f"{PROGRAM} --show-completion; true"
    shown = subprocess.run([path, "-c", typed], capture_output=True, text=True, check=True).stdout
    assert mark in shown
    script.write_text(shown)
    read = subprocess.run([path, "-n", script], capture_output=True, text=True, check=False)
    assert (read.returncode, read.stderr) == (0, "")
