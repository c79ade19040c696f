"""`callmemaybe chat` as a person meets it: the real program, the real model, a terminal."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pty = pytest.importorskip("pty", reason="needs a POSIX terminal")

TOOLS = '''
    """Two tools that leave a trace in a file."""

    import asyncio
    from pathlib import Path

    from callmemaybe.tools import tool


    @tool(effect="once", writes="notes", trusted=True)
    async def write_note(text: str) -> str:
        """Write a note down.

        Args:
            text: what to write
        """
        if Path("slow").exists():
            Path("slow").unlink()
            Path("begun").touch()
            await asyncio.sleep(1.5)
        with Path("notes").open("a") as file:
            file.write(f"{text}\\n")
        return f"written: {text}"
'''
#: Any model worth its name calls the only tool for one of these; which one does not matter.
LINES = [
    "Write a note: buy milk",
    "write_note buy bread",
    'Write the note "buy eggs"',
    "Please call write_note with the text buy tea",
    "Note down: buy salt",
]
QUESTION, PROMPT = "[a]lways: ", "\n> "


class Terminal:
    """The program at the other end of a terminal."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.pid, self._end = pty.fork()
        if self.pid == 0:  # pragma: no cover - the child
            os.chdir(folder)
            # Who runs the tests in the background may have Ctrl-C ignored, which children inherit.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            arguments = ["chat", "--tools", "tools.py", "--db", "chat.db", *more]
            os.execv(sys.executable, [sys.executable, "-m", "callmemaybe", *arguments])
        self.seen = ""

    def until(self, *signs: str, seconds: float = 60.0) -> str:
        """Read until one of ``signs`` is at the end; return what came since the last time."""
        new, deadline = "", time.monotonic() + seconds
        while not any(new.endswith(sign) for sign in signs):
            assert time.monotonic() < deadline, (signs, self.seen + new)
            if select.select([self._end], [], [], 0.1)[0]:
                try:
                    chunk = os.read(self._end, 4096)
                except OSError:
                    break
                new = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", new + chunk.decode()).replace("\r", "")
        self.seen += new
        return new

    def say(self, line: str) -> None:
        os.write(self._end, line.encode() + b"\n")

    def interrupt(self) -> None:
        time.sleep(0.2)  # a person is not faster
        os.write(self._end, b"\x03")

    def propose(self, lines: list[str]) -> str:
        """Say one line after the other until the model proposes a call."""
        while lines:
            self.say(lines.pop(0))
            shown = self.until(QUESTION, PROMPT)
            if shown.endswith(QUESTION):
                return shown
        raise AssertionError(f"the model calls nothing: {self.seen}")

    def wait(self) -> int:
        self.until("\0", seconds=30)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """The program with two tools, at its first prompt."""
    (tmp_path / "tools.py").write_text(textwrap.dedent(TOOLS))
    made = Terminal(tmp_path, "--collect", "kept.jsonl")
    made.until("> ")
    yield made
    try:
        os.kill(made.pid, signal.SIGKILL)
        os.waitpid(made.pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def notes(folder: Path) -> list[str]:
    file = folder / "notes"
    return file.read_text().splitlines() if file.exists() else []


def test_a_session(terminal: Terminal, tmp_path: Path) -> None:
    """The call is shown before it runs; no, edit, Ctrl-C, yes and always do what they say; what is approved is kept as an example."""
    lines = list(LINES)
    shown = terminal.propose(list(lines))
    assert re.search(r'write_note\(\{.*"text".*\}\)', shown)
    assert notes(tmp_path) == []

    terminal.say("n")
    assert "nothing happened" in terminal.until(PROMPT)
    assert notes(tmp_path) == []

    terminal.propose(list(lines))
    terminal.say("e")
    terminal.until("): ", '"}')
    terminal.say('\x15{"text": "edited"}')  # what stands there is erased first
    assert '{"text": "edited"}' in terminal.until(QUESTION)
    terminal.interrupt()
    assert "cancelled" in terminal.until(PROMPT)
    assert notes(tmp_path) == []

    terminal.propose(list(lines))
    terminal.say("e")
    terminal.until("): ", '"}')
    terminal.say('\x15{"text": "again"}')
    terminal.until(QUESTION)
    terminal.say("y")
    assert "written: again" in terminal.until(PROMPT)
    assert notes(tmp_path) == ["again"]

    terminal.propose(list(lines))
    terminal.say("a")
    terminal.until(PROMPT)
    assert len(notes(tmp_path)) == 2

    terminal.say("/history")
    history = terminal.until(PROMPT)
    assert "again" in history
    assert "denied" in history
    terminal.say("/quit")
    assert terminal.wait() == 0
    kept = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert [one["expected"]["arguments"]["text"] for one in kept] == notes(tmp_path)
    assert all(one["prompt"] in LINES for one in kept)


def test_interrupts_end_the_turn_and_not_the_program(terminal: Terminal, tmp_path: Path) -> None:
    """Ctrl-C at the prompt, and in the middle of a tool: the program goes on, the effect is recorded."""
    terminal.interrupt()
    terminal.until(PROMPT)
    (tmp_path / "slow").touch()
    terminal.propose(list(LINES))
    terminal.say("y")
    while not (tmp_path / "begun").exists():
        time.sleep(0.02)
    terminal.interrupt()
    assert "cancelled; calls that already ran are recorded" in terminal.until(PROMPT)
    terminal.say("/tools")
    assert "write_note (once)" in terminal.until(PROMPT)
    terminal.say("/quit")
    assert terminal.wait() == 0
    assert len(notes(tmp_path)) == 1
    from callmemaybe.gateway.store import open_backend

    backend = open_backend(str(tmp_path / "chat.db"))
    assert [row.state for row in backend.read_calls(run=None, limit=9)] == ["succeeded"]
    backend.close()
