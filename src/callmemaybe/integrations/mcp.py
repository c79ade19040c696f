"""MCP both ways: a server's tools through the gateway, and the gateway's tools as a server.

A server's definitions are pinned by hash: a tool whose definition changes is not called again. Its
annotations are hints for people; what a tool does to the world is declared here, and undeclared means
``once``. Its results are never trusted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from mcp import Client, StdioServerParameters, types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from callmemaybe import __version__
from callmemaybe.calls import (
    Effect,
    Mode,
    NotExecuted,
    Tool,
    ToolCall,
    ToolSpec,
)
from callmemaybe.errors import InputError
from callmemaybe.gateway import Answer, Gateway
from callmemaybe.gateway.keys import fingerprint

#: In a request's ``_meta``: names the run and turn, so that a redelivery is answered from the ledger.
META_RUN = "io.callmemaybe/run"
META_TURN = "io.callmemaybe/turn"


class McpTools:
    """A connection to an MCP server, as tools; use it as an async context manager.

    ``server``: a command (a list: stdio), an address (a string: streamable HTTP), or a server object.
    ``effects`` declares classes by tool name, ``default`` those of the rest. ``pins`` maps names to
    hashes seen before (:attr:`pins` of an earlier connection): another definition is refused.
    ``prefix`` goes before each name. Raises InputError for a definition that differs from its pin.
    """

    def __init__(
        self,
        server: Any,
        *,
        effects: Mapping[str, Effect | str] | None = None,
        default: Effect | str = Effect.ONCE,
        pins: Mapping[str, str] | None = None,
        prefix: str = "",
        resource: str | None = None,
    ) -> None:
        if isinstance(server, Sequence) and not isinstance(server, str):
            server = StdioServerParameters(command=server[0], args=list(server[1:]))
        self._client = Client(server, cache=None)
        self._effects = {name: Effect(value) for name, value in (effects or {}).items()}
        self._default = Effect(default)
        self._expected = dict(pins or {})
        self._prefix = prefix
        self._resource = resource or f"mcp:{prefix or 'server'}"
        self.pins: dict[str, str] = {}
        self.hints: dict[str, dict[str, Any]] = {}
        self._tools: list[Tool] = []

    async def __aenter__(self) -> Self:
        """Connect, list the tools, and pin them."""
        await self._client.__aenter__()
        try:
            for definition in await self._list():
                self._add(definition)
            unknown = self._effects.keys() - self.pins.keys()
            if unknown:
                raise InputError(f"the server has no tool {min(unknown)!r}", where="effects")
        except BaseException:
            await self._client.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        await self._client.__aexit__(kind, error, trace)

    def __tools__(self) -> list[Tool]:
        """Return the tools, for tools_from()."""
        return list(self._tools)

    async def _list(self) -> list[types.Tool]:
        found: list[types.Tool] = []
        cursor: str | None = None
        while True:
            page = await self._client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if not cursor:
                return found

    def _add(self, definition: types.Tool) -> None:
        name, pin = definition.name, _pin(definition)
        expected = self._expected.get(name)
        if expected is not None and expected != pin:
            raise InputError(
                "its definition is not the one that was pinned",
                where=f"MCP tool {name}",
                hint="look at the change, and pin it anew if it is wanted",
            )
        effect = self._effects.get(name, self._default)
        if effect in {Effect.TRANSACTIONAL, Effect.KEYED}:
            raise InputError(
                f"an MCP tool cannot be {effect.value}: the protocol carries no key",
                where=f"MCP tool {name}",
            )
        self.pins[name] = pin
        if definition.annotations is not None:
            self.hints[name] = definition.annotations.model_dump(exclude_none=True)
        self._tools.append(
            Tool(
                ToolSpec(
                    self._prefix + name,
                    definition.description or "",
                    definition.input_schema,
                    definition.output_schema,
                ),
                self._caller(name),
                effect,
                Mode.ASYNC,
                writes=(self._resource,) if effect.writes else None,
                reads=None if effect.writes else (self._resource,),
            )
        )

    def _caller(self, name: str) -> Callable[..., Any]:
        async def call(**arguments: Any) -> Any:
            await self._unchanged(name)
            return _value(await self._client.call_tool(name, arguments))

        return call

    async def _unchanged(self, name: str) -> None:
        """Look at the definitions again before anything is called: notifications may not come."""
        now = {definition.name: _pin(definition) for definition in await self._list()}
        if now.get(name) != self.pins[name]:
            raise NotExecuted("the server changed the tool's definition")


def _pin(definition: types.Tool) -> str:
    return fingerprint(
        {
            "name": definition.name,
            "description": definition.description,
            "input": definition.input_schema,
            "output": definition.output_schema,
        }
    )


def _value(result: Any) -> Any:
    texts = [part.text for part in result.content if isinstance(part, types.TextContent)]
    if result.is_error:
        raise ValueError(" ".join(texts)[:2000] or "the server reports an error")
    if result.structured_content is not None:
        return result.structured_content
    if len(texts) == len(result.content):
        return texts[0] if len(texts) == 1 else texts
    return [part.model_dump(mode="json", exclude_none=True) for part in result.content]


def serve(gateway: Gateway, name: str = "callmemaybe", *, tenant: str = "") -> Server[Any]:
    """Return an MCP server that offers the gateway's tools; each of its calls is a turn of one run.

    A client that wants its redeliveries recognised names run and turn in ``_meta``
    (``io.callmemaybe/run``, ``io.callmemaybe/turn``).
    """
    own = gateway.begin(tenant=tenant)

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=spec.name,
                    description=spec.description,
                    input_schema=dict(spec.parameters),
                    annotations=_annotations(gateway.tools[spec.name].tool.effect),
                )
                for spec in gateway.offers(own)
            ]
        )

    async def call_tool(
        _context: Any, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        meta = dict(params.meta or {})
        run, turn = meta.get(META_RUN), meta.get(META_TURN)
        call = ToolCall(params.name, json.dumps(params.arguments or {}, ensure_ascii=False))
        if isinstance(run, str) and isinstance(turn, int):
            answers = await gateway.run([call], run=run, tenant=tenant, turn=turn)
        else:
            answers = await gateway.run([call], run=own)
        return _result(answers[0])

    return Server(name, version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)


async def serve_stdio(gateway: Gateway, name: str = "callmemaybe") -> None:
    """Serve the gateway's tools on standard input and output until the client leaves."""
    server = serve(gateway, name)
    async with AsyncExitStack() as stack:
        read, write = await stack.enter_async_context(stdio_server())
        await server.run(read, write, server.create_initialization_options())


def http_app(
    gateway: Gateway, name: str = "callmemaybe", *, tenant: str = "", host: str = "127.0.0.1"
) -> Any:
    """Return an ASGI application that serves the gateway's tools over streamable HTTP, at ``/mcp``.

    Any ASGI server runs it, in the event loop in which the gateway is open. For a loopback ``host``
    requests under other names are refused (DNS rebinding); for others put authentication in front.
    """
    return serve(gateway, name, tenant=tenant).streamable_http_app(host=host)


def _annotations(effect: Effect) -> types.ToolAnnotations:
    return types.ToolAnnotations(
        read_only_hint=not effect.writes,
        idempotent_hint=effect in {Effect.IDEMPOTENT, Effect.PURE, Effect.READ},
    )


def _result(answer: Answer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=answer.content)], is_error=answer.is_error
    )
