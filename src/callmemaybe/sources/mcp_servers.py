"""MCP servers as sources: a command, an address, or the entries of an ``mcp.json``."""

from __future__ import annotations

import atexit
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from callmemaybe.errors import InputError
from callmemaybe.sources.background import BackgroundLoop
from callmemaybe.sources.documents import SourceDocument
from callmemaybe.sources.source import LoadedSource, LoadOptions, SkippedTool

if TYPE_CHECKING:
    from callmemaybe.integrations.mcp import McpServer, McpTools
    from callmemaybe.tools.declare import Tool

#: ``${NAME}`` in an mcp.json: a variable of the environment; ``${NAME:-text}``: with a default.
_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")
_SETTINGS_ARE = (
    '{"mcpServers": {"NAME": {"command": "...", "args": [...]} or {"url": "https://..."}}}'
)
#: Seconds that a server may take to start (which may be a download) and to list its tools.
START_SECONDS = 120.0


def read_command(text: str, options: LoadOptions) -> LoadedSource:
    """Start the server of ``mcp:COMMAND ARGUMENTS`` and return its tools."""
    try:
        words = shlex.split(text.removeprefix("mcp:"), posix=os.name != "nt")
    except ValueError as error:
        raise InputError(f"cannot be read: {error}", where=text) from None
    if not words:
        raise InputError("no command is named", where=text, hint="mcp:COMMAND ARGUMENTS")
    _check_installed(text)
    from callmemaybe.integrations.mcp import McpServer

    return _connect(McpServer(command=tuple(words)), text, options)


def read_address(text: str, options: LoadOptions) -> LoadedSource:
    """Connect to the server of ``mcp+https://...`` and return its tools."""
    _check_installed(text)
    from callmemaybe.integrations.mcp import McpServer

    return _connect(McpServer(url=text.removeprefix("mcp+")), text, options)


def read_settings(document: SourceDocument, entry: str, options: LoadOptions) -> LoadedSource:
    """Return the tools of the servers that an ``mcp.json`` lists, or of the one called ``entry``."""
    key = "mcpServers" if "mcpServers" in document.value else "servers"
    entries = document.value[key]
    if not isinstance(entries, Mapping) or not entries:
        raise InputError("no server is listed", where=document.place(f"/{key}"), hint=_SETTINGS_ARE)
    if entry and entry not in entries:
        raise InputError(
            f"there is no server {entry!r}", where=document.place(f"/{key}"),
            hint=f"there is {', '.join(entries)}",
        )  # fmt: skip
    _check_installed(document.source)
    chosen = [entry] if entry else [
        name for name, one in entries.items()
        if not (isinstance(one, Mapping) and one.get("disabled"))
    ]  # fmt: skip
    servers = [(name, _server(entries[name], document, f"/{key}/{name}")) for name in chosen]
    found: list[LoadedSource] = []
    try:
        for name, server in servers:
            found.append(_connect(server, f"{document.source}#{name}", options))
    except BaseException:
        _close_all(found)
        raise
    return LoadedSource(
        [tool for one in found for tool in one.tools],
        [skip for one in found for skip in one.skipped],
        partial(_close_all, found),
    )


def _close_all(found: Sequence[LoadedSource]) -> None:
    for one in found:
        if one.close is not None:
            one.close()


def _server(entry: Any, document: SourceDocument, pointer: str) -> McpServer:
    from callmemaybe.integrations.mcp import McpServer

    def fail(what: str, key: str = "") -> InputError:
        where = document.place(pointer + (f"/{key}" if key else ""))
        return InputError(what, where=where, hint=_SETTINGS_ARE)

    if not isinstance(entry, Mapping):
        raise fail("a server must be an object")

    def text(key: str) -> str:
        value = entry.get(key, "")
        if not isinstance(value, str):
            raise fail(f"{key} must be a text", key)
        return _expanded(value, document, f"{pointer}/{key}")

    def texts(key: str) -> dict[str, str]:
        value = entry.get(key) or {}
        if not isinstance(value, Mapping) or not all(isinstance(v, str) for v in value.values()):
            raise fail(f"{key} must be an object of texts", key)
        return {k: _expanded(v, document, f"{pointer}/{key}/{k}") for k, v in value.items()}

    arguments = entry.get("args") or []
    if not isinstance(arguments, list) or not all(isinstance(one, str) for one in arguments):
        raise fail("args must be a list of texts", "args")
    command, url = text("command"), text("url") or text("serverUrl")
    if bool(command) == bool(url):
        raise fail("a server has a command or a url")
    if entry.get("type") == "sse":
        raise fail("its transport is SSE, which MCP gave up for streamable HTTP", "type")
    expanded = [_expanded(one, document, f"{pointer}/args") for one in arguments]
    return McpServer(
        command=(command, *expanded) if command else (), env=texts("env"),
        cwd=text("cwd") or None, url=url, headers=texts("headers"),
    )  # fmt: skip


def _expanded(text: str, document: SourceDocument, pointer: str) -> str:
    def value(found: re.Match[str]) -> str:
        known = os.environ.get(found[1], found[2])
        if known is None:
            raise InputError(
                f"the environment has no variable {found[1]}", where=document.place(pointer)
            )
        return known

    return _VARIABLE.sub(value, text)


def _check_installed(where: str) -> None:
    if find_spec("mcp") is None:
        raise InputError(
            "MCP servers need a package that is not installed (mcp)", where=where,
            hint="install it with `pip install 'callmemaybe[mcp]'`",
        )  # fmt: skip


def _connect(server: McpServer, source: str, options: LoadOptions) -> LoadedSource:
    """Connect, in a loop of its own, and return the tools; the connection lasts until it is closed."""
    from callmemaybe.integrations.mcp import McpTools

    background = BackgroundLoop()
    tools = McpTools(server, resource=f"mcp:{source}", start_seconds=START_SECONDS)
    try:
        background.run(tools.__aenter__())
    except InputError as error:
        background.close()
        raise InputError(error.message, where=source, hint=error.hint) from error
    except BaseException as error:
        background.close()
        if not isinstance(error, Exception):
            raise
        raise InputError(
            f"the server cannot be used: {server.failure(error)}", where=source
        ) from error
    connection = _Connection(tools, background)
    atexit.register(connection.close)
    kept = [connection.tool(one) for one in tools.__tools__() if options.names.wants(one.name)]
    return _checked(kept, source, connection.close)


def _checked(tools: Sequence[Tool], source: str, close: Callable[[], None]) -> LoadedSource:
    from callmemaybe.sources.definitions import check_expressible

    kept, skipped = [], []
    for tool in tools:
        try:
            check_expressible(tool.spec)
        except InputError as error:
            skipped.append(SkippedTool(tool.name, source, str(error)))
        else:
            kept.append(tool)
    return LoadedSource(kept, skipped, close)


class _Connection:
    """A connection in a loop of its own, and its tools for other loops."""

    def __init__(self, tools: McpTools, background: BackgroundLoop) -> None:
        self._tools = tools
        self._background = background
        self._is_open = True

    def tool(self, tool: Tool) -> Tool:
        """Return a tool that can be awaited in any loop."""

        async def call(**arguments: Any) -> Any:
            if not self._is_open:
                from callmemaybe.errors import NotExecuted

                raise NotExecuted("the connection to the MCP server is closed")
            return await self._background.awaited(tool.function(**arguments))

        return replace(tool, function=call)

    def close(self) -> None:
        """Close the connection; a server that was started ends."""
        if not self._is_open:
            return
        self._is_open = False
        atexit.unregister(self.close)
        with suppress(Exception):
            self._background.run(self._tools.__aexit__(None, None, None))
        self._background.close()
