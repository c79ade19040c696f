"""This package's MCP client as the conformance suite runs it: `python mcp_client.py ADDRESS`.

It loads the server's tools as ``mcp+ADDRESS`` and calls each of them once through a gateway, with the arguments that
the suite names (``MCP_CONFORMANCE_CONTEXT``) or that the tool's schema asks for.
"""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from callmemaybe import Gateway, load_tools
from callmemaybe.errors import InputError
from callmemaybe.tools import ToolCall

#: A value for each type.
_VALUES: dict[str, Any] = {
    "string": "text", "number": 2.5, "integer": 3, "boolean": True, "null": None, "object": {},
    "array": [],
}  # fmt: skip


def arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a value for each property that a schema requires."""
    members = schema.get("properties", {})
    return {key: _VALUES.get(members.get(key, {}).get("type"), "text") for key in schema.get("required", [])}  # fmt: skip


def calls_of(tools: Any, context: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return what to call: what the suite names, or each tool once; a tool that takes a schema gets the first one's."""
    if named := context.get("toolCalls"):
        return [(one["name"], one.get("arguments", {})) for one in named]
    schemas = [dict(tool.spec.parameters) for tool in tools]
    return [
        (
            tool.name,
            {"schema": schemas[0]} if "schema" in schema.get("required", []) else arguments(schema),
        )
        for tool, schema in zip(tools, schemas, strict=True)
    ]


async def main(address: str) -> None:
    """Call all tools of the server."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    try:
        tools = load_tools(f"mcp+{address}")
    except InputError as error:  # a server that has no tools, or none that can be called
        print(error)
        return
    with tools:
        async with Gateway(tools) as gateway:
            for name, given in calls_of(tools, context):
                (answer,) = await gateway.run([ToolCall(name, json.dumps(given))])
                print(name, given, answer.content)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
