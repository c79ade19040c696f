"""A file agent: reading is free within one folder, each write needs a person's yes.

`callmemaybe chat --tools examples/gateway_files.py --yes read`; the folder is FILES_ROOT, or ./files.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from callmemaybe.gateway import Gateway
from callmemaybe.gateway.paths import open_below
from callmemaybe.tools import NotExecuted, ToolCall, tool


def root() -> Path:
    """Return the only folder this agent may touch."""
    return Path(os.environ.get("FILES_ROOT", "files"))


@tool(effect="read", reads="files")
def list_files() -> list[str]:
    """List the files."""
    return sorted(path.name for path in root().iterdir() if path.is_file())


@tool(effect="read", reads="file:{name}")
def read_file(name: str) -> str:
    """Read a text file."""
    with open_below(root(), name, "r") as file:
        return file.read(100_000)


@tool(effect="idempotent", writes=["file:{name}", "files"], approval="always", timeout=None)
def write_file(name: str, text: str) -> str:
    """Write a text file, replacing what was there."""
    if not root().is_dir():
        raise NotExecuted("the folder is gone")
    with open_below(root(), name, "w") as file:
        file.write(text)
    return f"{len(text)} characters in {name}"


async def main() -> None:
    """Show that a write waits, runs once approved, and cannot leave the folder."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FILES_ROOT"] = folder

        async def person(_: object, call: ToolCall) -> str:
            print("asked about", call.name, call.arguments)
            return "approved"

        tools = [list_files, read_file, write_file]
        async with Gateway(tools, approver=person) as gateway:
            answers = await gateway.run(
                [
                    ToolCall("write_file", '{"name": "a.txt", "text": "hello"}', "1"),
                    ToolCall("read_file", '{"name": "a.txt"}', "2"),
                    ToolCall("write_file", '{"name": "../b.txt", "text": "out"}', "3"),
                    ToolCall("list_files", "{}", "4"),
                ]
            )
        for answer in answers:
            print(answer.content)
        assert [answer.ok for answer in answers] == [True, True, False, True]


if __name__ == "__main__":
    asyncio.run(main())
