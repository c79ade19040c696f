"""MCP both ways: a server's tools through the gateway, and the gateway's tools as a server.

A server's definitions are pinned by hash: a tool whose definition changes is not called again. Its
annotations are hints for people; the effect class of a tool is declared here, and is ``once`` by
default. Results of a server are never trusted.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any, Self, TextIO, cast

import httpx2
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from callmemaybe.errors import InputError
from callmemaybe.gateway import CallAnswer, Gateway
from callmemaybe.gateway.answers import failure_answer
from callmemaybe.gateway.keys import fingerprint
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.tools import (
    Effect,
    Mode,
    NotExecuted,
    Tool,
    ToolCall,
    ToolSpec,
    TransientError,
)

#: In a request's ``_meta``: names the run and turn, so that a redelivery is answered from the ledger.
META_RUN = "io.callmemaybe/run"
META_TURN = "io.callmemaybe/turn"

#: Seconds for the check of a definition. Less than a gateway's attempt (30): whether an attempt that
#: timed out has called the tool would be unknown.
_CHECK_SECONDS = 10.0
#: Errors by which a server refuses a request before it carries it out. The others do not say that: the
#: client reports a lost connection, a cut stream and a 502 of a proxy as errors of the protocol, too.
_REFUSALS = frozenset(
    {
        types.METHOD_NOT_FOUND,
        types.INVALID_PARAMS,
        types.HEADER_MISMATCH,
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        types.UNSUPPORTED_PROTOCOL_VERSION,
    }
)
#: What a server's list of tools may take: tools, pages, bytes of all definitions, and seconds.
MAX_TOOLS, MAX_PAGES, MAX_LIST_BYTES, LIST_SECONDS = 10_000, 1_000, 32 << 20, 60.0
#: Characters of a run's name that nobody guesses (a UUID has 36, 32 of them digits).
_SECRET_NAME = 32
#: The version of the protocol that dropped sessions; versions are dates.
_SESSIONLESS = "2026-07-28"


@dataclass(frozen=True)
class McpServer:
    """Where a server is: a command, with variables for its environment, or an address, with headers.

    What a command writes to its standard error is kept, and shown only where it fails.
    """

    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    _errors: IO[str] = field(
        default_factory=partial(TemporaryFile, "w+", encoding="utf-8", errors="replace"),
        repr=False, compare=False,
    )  # fmt: skip

    def transport(self) -> Any:
        """Return what the client connects through."""
        if self.url:
            client = None
            if self.headers:
                # The times of the client that the package makes without headers.
                limits = httpx2.Timeout(30.0, read=300.0)
                client = httpx2.AsyncClient(headers=dict(self.headers), timeout=limits)
            return streamable_http_client(self.url, http_client=client)
        command, *arguments = self.command
        given = StdioServerParameters(
            command=command, args=arguments, env=dict(self.env) or None, cwd=self.cwd
        )
        return stdio_client(given, errlog=cast("TextIO", self._errors))

    def failure(self, error: BaseException) -> str:
        """Return in one line why it could not be used: the error, and the last that the command said."""
        while isinstance(error, BaseExceptionGroup) and error.exceptions:
            error = error.exceptions[0]
        why = str(error) or type(error).__name__
        if isinstance(error, FileNotFoundError | PermissionError):
            why = f"{self.command[0]}: {error.strerror}"
        with suppress(OSError, ValueError):
            self._errors.seek(0)
            said = [line.strip() for line in self._errors.read()[-2000:].splitlines()]
            why += "".join(f"; it says: {line[:300]}" for line in [*filter(None, said)][-1:])
        return why


class McpTools:
    """A connection to an MCP server, as tools; use it as an async context manager.

    ``server``: a command (a list: stdio), an address (a string: streamable HTTP), a ``McpServer``, or a server object.
    ``effects`` declares classes by tool name, ``default`` those of the rest. ``pins`` maps names to
    hashes seen before (:attr:`pins` of an earlier connection): another definition is refused.
    ``prefix`` goes before each name, and ``start_seconds`` limits the time until the server answers.
    Raises InputError for a definition that differs from its pin, and for a server that takes longer.
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
        start_seconds: float | None = None,
    ) -> None:
        if isinstance(server, McpServer):
            server = server.transport()
        elif isinstance(server, Sequence) and not isinstance(server, str):
            server = StdioServerParameters(command=server[0], args=list(server[1:]))
        self._client = Client(server, cache=None)
        self._start_seconds = start_seconds
        self._is_connected = False
        self._closing = asyncio.Event()
        self._holder: asyncio.Task[None] | None = None
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
        connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closing.clear()
        self._is_connected = False
        self._holder = asyncio.create_task(self._hold(connected), name="MCP connection")
        try:
            try:
                async with asyncio.timeout(self._start_seconds):
                    await connected
            except TimeoutError as error:
                if connected.done() and not connected.cancelled():
                    raise  # the server's own
                raise InputError(
                    f"it does not answer within {self._start_seconds:g} s", where="MCP server"
                ) from error
            try:
                async with asyncio.timeout(LIST_SECONDS):
                    listed = await self._list()
            except TimeoutError:
                raise _endless(f"it takes more than {LIST_SECONDS:g} s") from None
            for definition in listed:
                self._add(definition)
            unknown = self._effects.keys() - self.pins.keys()
            if unknown:
                raise InputError(f"the server has no tool {min(unknown)!r}", where="effects")
        except BaseException:
            await self._close()
            raise
        return self

    async def _hold(self, connected: asyncio.Future[None]) -> None:
        """Hold the connection open in a task of its own.

        The client cancels the task that opened it when the server goes away. In this task that ends the
        connection and nothing else; each call finds out by itself.
        """
        try:
            async with self._client:
                self._is_connected = True
                connected.set_result(None)
                await self._closing.wait()
        except BaseException as error:
            if not connected.done():
                connected.set_exception(error)
            elif not isinstance(error, Exception):
                raise

    async def _close(self) -> None:
        self._closing.set()
        if self._holder is not None:
            if not self._is_connected:
                self._holder.cancel()
            await asyncio.wait({self._holder})
            self._holder = None

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        await self._close()

    def __tools__(self) -> list[Tool]:
        """Return the tools, for tools_from()."""
        return list(self._tools)

    async def _list(self) -> list[types.Tool]:
        """Return the tools of all pages. Raises InputError for a list that passes a limit."""
        found: list[types.Tool] = []
        seen: set[str] = set()
        cursor: str | None = None
        size = 0
        while True:
            page = await self._client.list_tools(cursor=cursor)
            found += page.tools
            if len(found) > MAX_TOOLS:
                raise _endless(f"it has more than {MAX_TOOLS:,} tools")
            size += sum(len(definition.model_dump_json()) for definition in page.tools)
            if size > MAX_LIST_BYTES:
                raise _endless(f"its definitions are larger than {MAX_LIST_BYTES >> 20} MiB")
            cursor = page.next_cursor
            if not cursor:
                return found
            if cursor in seen:
                raise _endless(f"the cursor {cursor[:100]!r} came twice")
            seen.add(cursor)
            if len(seen) >= MAX_PAGES:
                raise _endless(f"it has more than {MAX_PAGES:,} pages")

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
                self._caller(name, effect),
                effect,
                Mode.ASYNC,
                writes=(self._resource,) if effect.writes else None,
                reads=None if effect.writes else (self._resource,),
                # Without a pin that was given, a run takes only the definition that it began with.
                pinned=expected is None,
            )
        )

    def _caller(self, name: str, effect: Effect) -> Callable[..., Any]:
        async def call(**arguments: Any) -> Any:
            await self._check_definition(name)
            return _value(await self._send_call(name, arguments, effect))

        return call

    async def _send_call(self, name: str, arguments: dict[str, Any], effect: Effect) -> Any:
        """Call the tool; raises TransientError where the server may have acted without a clear answer."""
        try:
            return await self._client.call_tool(name, arguments)
        except MCPError as error:
            if error.code in _REFUSALS:
                raise ValueError(str(error)[:2000]) from error
            raise TransientError(f"there is no clear answer: {error}"[:2000]) from error
        except Exception as error:
            if effect is not Effect.ONCE:
                raise
            # A result that is none of the protocol, say: the server has sent it after the call.
            why = f"{type(error).__name__}: {error}"
            raise TransientError(f"there is no clear answer: {why}"[:2000]) from error

    async def _check_definition(self, name: str) -> None:
        """Check that the definition has not changed; notifications of changes may be missing.

        Every error is raised as NotExecuted, since the tool has not been called.
        """
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                now = {definition.name: _pin(definition) for definition in await self._list()}
        except (Exception, asyncio.CancelledError) as error:
            why = f"{type(error).__name__}: {error}"
            if isinstance(error, TimeoutError):
                why = f"no answer in {_CHECK_SECONDS:g} s"
            elif isinstance(
                error, asyncio.CancelledError
            ):  # the caller's own time limit was shorter
                why = "no answer before the call was given up"
            raise NotExecuted(f"the definitions could not be looked at: {why}") from error
        if now.get(name) != self.pins[name]:
            raise NotExecuted("the server changed the tool's definition")


def _endless(why: str) -> InputError:
    return InputError(
        f"its list of tools never ends: {why}"
        if "cursor" in why
        else f"its list of tools is too large: {why}",
        where="MCP server",
        hint="mend the server's tools/list",
    )


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
    """Return an MCP server that offers the gateway's tools; each call is a turn of a run.

    Over HTTP each session is a run of its own. Where there is none to tell clients apart by (over
    stdio, and in versions of the protocol without sessions) all calls are turns of one run, so that
    what one of them read is still known when the next one acts. A client that wants its
    redeliveries recognised, or a run of its own, names run and turn in ``_meta``
    (``io.callmemaybe/run``: a text, ``io.callmemaybe/turn``: a whole number from 0); a call that
    names only one of them, or something else, is refused.

    No client may name the run of another. Over HTTP a named run belongs to the ``Authorization`` header of
    its requests; without one its name must be a secret of at least 32 characters (a random UUID, say).
    """
    offered = gateway.begin(tenant=tenant)
    # Runs go by name: the gateway keeps only so many, and recalls from the ledger what one that it
    # dropped had read. Turns are counted over all of them, so that none comes twice in such a run.
    turns = itertools.count()

    def unnamed(context: Any) -> str:
        knows = context.protocol_version < _SESSIONLESS
        session = getattr(context.request, "headers", {}).get("mcp-session-id") if knows else None
        # Whoever knows a session's id may speak in it: the ledger gets its hash.
        return offered.id if session is None else fingerprint([offered.id, session])

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=spec.name,
                    description=spec.description,
                    input_schema=dict(spec.parameters),
                    annotations=_annotations(gateway.tools[spec.name].tool.effect),
                )
                for spec in gateway.offers(offered)
            ]
        )

    async def call_tool(
        context: Any, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        call = ToolCall(params.name, json.dumps(params.arguments or {}, ensure_ascii=False))
        try:
            named = _named(params.meta or {})
            run, turn = (unnamed(context), next(turns)) if named is None else named
            if named is not None:
                run = _owned(run, context.request)
        except InputError as error:
            return _result(failure_answer("", "refused", CallState.REJECTED, detail=str(error)))
        answers = await gateway.run([call], run=run, tenant=tenant, turn=turn)
        return _result(answers[0])

    return Server(
        name, version=version("callmemaybe"), on_list_tools=list_tools, on_call_tool=call_tool
    )


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


def _named(meta: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return the run and turn that a request names, or None; raises InputError for half of it.

    A client that names them relies on it: to run its call under other names would run it twice.
    """
    if META_RUN not in meta and META_TURN not in meta:
        return None
    run, turn = meta.get(META_RUN), meta.get(META_TURN)
    hint = "name run and turn, or neither"
    if not isinstance(run, str) or not run:
        raise InputError("must be a text, and not empty", where=META_RUN, hint=hint)
    # The stores count in 64 bits; true is no number.
    if type(turn) is not int or not 0 <= turn < 2**63:
        raise InputError("must be a whole number from 0 to 2^63 - 1", where=META_TURN, hint=hint)
    return run, turn


def _owned(run: str, request: Any) -> str:
    """Return the run that a client means by a name; another client means another run by it.

    Raises InputError over HTTP for a name without an owner that others could guess.
    """
    if request is None:  # over stdio there is one client
        return run
    header = request.headers.get("authorization")
    if header:
        return fingerprint(["run of", header, run])
    if len(run) < _SECRET_NAME:
        raise InputError(
            f"without an Authorization header it must be a secret of {_SECRET_NAME} characters or more",
            where=META_RUN,
            hint="name it by a random UUID, or authenticate",
        )
    return fingerprint(["run named", run])


def _annotations(effect: Effect) -> types.ToolAnnotations:
    return types.ToolAnnotations(
        read_only_hint=not effect.writes,
        idempotent_hint=effect in {Effect.IDEMPOTENT, Effect.PURE, Effect.READ},
    )


def _result(answer: CallAnswer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=answer.content)], is_error=answer.is_error
    )
