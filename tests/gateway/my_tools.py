"""Tools in a file, as the command line and the worker processes load them."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from callmemaybe.tools import Context, ProcessLimits, tool


@tool(effect="read", reads="world", trusted=True)
def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing at {place}"


@tool(effect="once", writes="log", trusted=True, environment=[])
def act(path: str, text: str, context: Context) -> str:
    """Append a line to a file."""
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")
    print("tools may print")
    return f"{context.key[:4]} {os.environ.get('HOME')} {len(os.environ)}"


@tool(effect="once", writes="log", timeout=0.5)
def hang(path: str) -> None:
    """Start a child and sleep."""
    if os.fork() == 0:
        time.sleep(2)
        Path(path).write_text("the grandchild lived", encoding="utf-8")
        os._exit(0)
    time.sleep(60)


@tool(
    effect="idempotent", writes="x", mode="fresh", limits=ProcessLimits(memory=1 << 29), attempts=1
)
def greedy() -> int:
    """Ask for more memory than there is leave for."""
    return len(bytearray(1 << 30))


@tool(effect="idempotent", writes="x", mode="fresh", attempts=1)
def crash() -> None:
    """Die."""
    os.kill(os.getpid(), 11)


@tool(effect="idempotent", writes="x", mode="fresh", secrets={"token": "T"}, environment=[])
def fresh(token: str) -> list[str]:
    """Tell what is in the environment."""
    return [token.upper(), *os.environ, *sys.argv[1:]]
