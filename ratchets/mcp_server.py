"""This package's MCP server as the conformance suite asks for it: `python mcp_server.py PORT`.

It offers a few tools by the names that the suite calls, through a gateway, at http://127.0.0.1:PORT/mcp.
"""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import asyncio
import sys

import uvicorn

from callmemaybe import Gateway, tool
from callmemaybe.integrations.mcp import http_app
from callmemaybe.tools import Effect, Tool, ToolSpec

#: A schema with what a server must not drop: definitions with anchors, combinations and conditions.
FULL_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"where": {"$ref": "#/$defs/address"}, "far": {"type": "boolean"}},
    "allOf": [{"anyOf": [{"required": ["where"]}, {"required": ["far"]}]}],
    "if": {"required": ["far"]},
    "then": {"required": ["where"]},
    "else": {"required": ["where"]},
    "additionalProperties": False,
    "$defs": {
        "address": {
            "$anchor": "address",
            "type": "object",
            "properties": {"street": {"type": "string"}},
        }
    },
}
#: A schema whose argument a client also sends as a header.
HEADER_SCHEMA = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}


@tool(effect="pure")
def test_simple_text() -> str:
    """Return a text."""
    return "a text"


@tool(effect="pure")
def test_error_handling() -> str:
    """Fail."""
    raise ValueError("it always fails")


def echo(**arguments: object) -> dict[str, object]:
    """Return the arguments."""
    return arguments


TOOLS = [
    test_simple_text,
    test_error_handling,
    Tool(ToolSpec("json_schema_2020_12_tool", "Say where.", FULL_SCHEMA), echo, Effect.PURE),
    Tool(ToolSpec("look_up", "Look up a region.", HEADER_SCHEMA), echo, Effect.PURE),
]


async def main(port: int) -> None:
    """Serve until the process is ended."""
    async with Gateway(TOOLS) as gateway:
        config = uvicorn.Config(http_app(gateway), "127.0.0.1", port, log_level="warning")
        await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
