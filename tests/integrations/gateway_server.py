"""The gateway as an MCP server in a process of its own: `python gateway_server.py LEDGER LOG [PORT]`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from callmemaybe.gateway import Gateway
from callmemaybe.integrations.mcp import http_app, serve_stdio
from callmemaybe.tools import tool


@tool(effect="once", writes="log")
async def act(n: int) -> int:
    """Do it once."""
    with Path(sys.argv[2]).open("a", encoding="utf-8") as file:
        file.write(f"{n}\n")
    return n


async def main() -> None:
    async with Gateway([act], store=sys.argv[1]) as gateway:
        if len(sys.argv) > 3:
            import uvicorn

            config = uvicorn.Config(http_app(gateway), port=int(sys.argv[3]), log_level="error")
            await uvicorn.Server(config).serve()
        else:
            await serve_stdio(gateway)


asyncio.run(main())
