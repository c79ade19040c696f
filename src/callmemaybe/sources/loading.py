"""load_tools: sources in, tools out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self, overload

from callmemaybe.errors import InputError, NotExecuted
from callmemaybe.sources.kinds import read_source
from callmemaybe.sources.source import LoadedSource, LoadOptions, NameFilter
from callmemaybe.tools.spec import ToolSpec

if TYPE_CHECKING:
    from callmemaybe.tools.declare import Tool


class LoadedTools(Sequence["Tool"]):
    """The tools of some sources, in order; a ``Caller`` and a ``Gateway`` take it as it is.

    ``skipped`` lists what of the sources could not be a tool, with the reason. Connections to MCP servers stay
    open until :meth:`close`, or the end of the ``with`` block or of the program. A tool of a source that only
    defines functions (JSON) can be called by a model, but not run: :meth:`check_runnable` says so beforehand.
    """

    def __init__(self, sources: Sequence[tuple[str, LoadedSource]]) -> None:
        self._sources = sources
        self.skipped = tuple(one for _, source in sources for one in source.skipped)
        self._given = [(tool, name) for name, source in sources for tool in source.tools]
        self._tools: list[Tool] | None = None
        _check_names(self._given)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The definitions, for a model to read."""
        return tuple(tool if isinstance(tool, ToolSpec) else tool.spec for tool, _ in self._given)

    def check_runnable(self) -> None:
        """Raise InputError naming the source if one of the tools is defined only, and nothing would run it."""
        for tool, source in self._given:
            if isinstance(tool, ToolSpec):
                raise InputError(
                    f"it only defines {tool.name}: there is nothing to run", where=source,
                    hint="name a Python file, an OpenAPI document or an MCP server",
                )  # fmt: skip

    def close(self) -> None:
        """Close the connections to MCP servers; their tools can no longer be run."""
        for _, source in self._sources:
            if source.close is not None:
                source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._given)

    @overload
    def __getitem__(self, index: int) -> Tool: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Tool]: ...
    def __getitem__(self, index: int | slice) -> Tool | Sequence[Tool]:
        return self._all[index]

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._all)

    def __repr__(self) -> str:
        names = ", ".join(name for name, _ in self._sources)
        return f"<{len(self)} tools of {names}>"

    @property
    def _all(self) -> list[Tool]:
        if self._tools is None:
            self._tools = [_runnable(tool, source) for tool, source in self._given]
        return self._tools


def load_tools(
    *sources: str | Path,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    allow_private: bool = False,
    base_url: str | None = None,
) -> LoadedTools:
    """Return the tools of some sources, as ``--tools`` names them on the command line.

    A source is a JSON or YAML file of definitions (the flat form, OpenAI's, Anthropic's), a Python file or module,
    an OpenAPI document (a file or an address), an MCP server (``mcp:COMMAND ARGUMENTS``, ``mcp+https://...``), or
    an ``mcp.json`` (all its servers; ``mcp.json#NAME``: one). ``only`` and ``skip`` hold names of tools, or patterns
    with ``*``. ``allow_private`` lets addresses be of one's own network, and http. ``base_url`` is the address that
    the requests of an OpenAPI document go to, in place of its own.

    Raises InputError naming the source: one that cannot be read, a wrong definition, a name that two tools share.
    What of an OpenAPI document or of an MCP server cannot be expressed is left out (``skipped``).
    """
    names = NameFilter(_texts(only, "only"), _texts(skip, "skip"))
    options = LoadOptions(names, allow_private, base_url)
    loaded: list[tuple[str, LoadedSource]] = []
    try:
        for source in sources:
            loaded += [(str(source), read_source(source, options))]
        names.check()
        tools = LoadedTools(loaded)
        if not tools:
            listed = ", ".join(map(str, sources))
            reason = f"; {tools.skipped[0]}" if tools.skipped else ""
            raise InputError(f"there are no tools{reason}", where=listed or "tools")
    except BaseException:
        for _, one in loaded:
            if one.close is not None:
                one.close()
        raise
    return tools


def _texts(value: Iterable[str], where: str) -> Iterable[str]:
    if isinstance(value, str):
        raise InputError("it must be a list of names", where=where, hint=f"[{value!r}]")
    return value


def _check_names(given: Sequence[tuple[ToolSpec | Tool, str]]) -> None:
    first: dict[str, str] = {}
    for tool, source in given:
        if tool.name in first:
            raise InputError(
                f"the name {tool.name!r} is that of a tool of {first[tool.name]}, too",
                where=source, hint="leave one out: --skip (skip=[...])",
            )  # fmt: skip
        first[tool.name] = source


def _runnable(tool: ToolSpec | Tool, source: str) -> Tool:
    """Return a tool for a definition; nothing runs it, and whoever tries is told so."""
    from callmemaybe.tools.declare import Mode, Tool

    if isinstance(tool, Tool):
        return tool

    async def nothing(**_: Any) -> NoReturn:
        raise NotExecuted(f"{source} only defines {tool.name}: there is nothing to run")

    return Tool(tool, nothing, mode=Mode.ASYNC)
