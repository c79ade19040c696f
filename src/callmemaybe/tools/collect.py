"""Accepts tools in whatever form an application has them.

:func:`tool_specs` needs definitions only, for a model to read; :func:`tools_from` needs functions that
can be run: those of modules, objects and OpenAPI documents. What imports pydantic is imported when a
Python function or a document is passed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

from callmemaybe.errors import InputError
from callmemaybe.tools.spec import ToolSpec

if TYPE_CHECKING:
    from callmemaybe.tools.declare import Tool
    from callmemaybe.tools.openapi import Transport

#: What a caller may pass as a tool: a ToolSpec, its definition in JSON, or a Python function.
ToolLike = ToolSpec | Mapping[str, Any] | Callable[..., Any]


def tool_specs(values: Iterable[ToolLike]) -> tuple[ToolSpec, ...]:
    """Return the definition of each tool of a list.

    Raises InputError for a value that is not a list, and as :func:`tool_spec` with the tool's index.
    """
    is_one = isinstance(values, Mapping | str | bytes)
    if is_one or not isinstance(values, Iterable):
        raise InputError(
            f"it must be a list of tools, not a value of type {type(values).__name__}", where="tools",
            hint="a single one stands in a list, too; texts and files are read first (json.load)",
        )  # fmt: skip
    return tuple([tool_spec(value, f"tools/{index}") for index, value in enumerate(values)])


def tool_spec(value: ToolLike, where: str = "") -> ToolSpec:
    """Return the definition of a tool. Raises InputError naming ``where`` for a value that is none."""
    if isinstance(value, ToolSpec):
        return value
    if isinstance(value, type):
        raise InputError(
            "a class is no function", where=f"class {value.__qualname__}",
            hint="give a function that makes one of it",
        )  # fmt: skip
    if callable(value):
        from callmemaybe.tools.declare import function_spec  # imports pydantic

        return function_spec(value)
    return ToolSpec.from_json(value, where)


def tools_from(source: Any, *, transport: Transport | None = None) -> list[Tool]:
    """Return the tools of ``source``, in the order they are defined there.

    A module or object gives what was declared with ``@tool``, or, if nothing was, its own public
    functions or methods (their effect is `once`). An OpenAPI 3 document gives its operations, whose
    requests ``transport`` sends. An object with ``__tools__()``, such as an MCP connection, gives what
    that returns; a function gives one tool; a list gives the tools of its items.
    Raises InputError naming what cannot be a tool.
    """
    from callmemaybe.tools.declare import Tool, make_tool

    if isinstance(source, Tool):
        return [source]
    offered = getattr(source, "__tools__", None)
    if callable(offered) and not isinstance(source, type):
        return list(offered())
    if isinstance(source, Mapping):
        if not source.keys() & {"openapi", "swagger"}:
            raise InputError("it is no OpenAPI document: it has no `openapi`", where="tools")
        if transport is None:
            raise InputError("an OpenAPI document needs a transport", where="transport")
        from callmemaybe.tools.openapi import tools_from_openapi

        return tools_from_openapi(source, transport)
    if isinstance(source, ModuleType):
        return _from_module(source)
    if inspect.isfunction(source) or inspect.ismethod(source):
        return [make_tool(source)]
    if isinstance(source, Iterable) and not isinstance(source, str | bytes):
        return [tool for part in source for tool in tools_from(part, transport=transport)]
    return _from_object(source)


def _from_module(module: ModuleType) -> list[Tool]:
    from callmemaybe.tools.declare import Tool, make_tool

    values = [value for name, value in vars(module).items() if not name.startswith("_")]
    declared = [value for value in values if isinstance(value, Tool) and not value.unbound]
    own = [
        value
        for value in values
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    found = declared or [make_tool(function) for function in own]
    if not found:
        raise InputError("it defines no tools", where=f"module {module.__name__}")
    return found


def _from_object(source: Any) -> list[Tool]:
    from callmemaybe.tools.declare import Tool, make_tool

    kind = type(source)
    names = [name for part in reversed(kind.__mro__) for name in vars(part)]
    public = [name for name in dict.fromkeys(names) if not name.startswith("_")]
    # Reading a property runs code, and a property is not a method.
    attributes = {name: inspect.getattr_static(kind, name) for name in public}
    values = [
        getattr(source, name)
        for name, value in attributes.items()
        if not isinstance(value, (property, cached_property))
    ]
    declared = [value for value in values if isinstance(value, Tool)]
    if declared:
        return declared
    methods = [value for value in values if inspect.ismethod(value)]
    if not methods:
        raise InputError("it has no tools", where=f"object of class {kind.__name__}")
    # A bound method cannot go to another process, so it runs in a thread, without a timeout.
    return [
        make_tool(method, **({} if inspect.iscoroutinefunction(method) else {"timeout": None}))
        for method in methods
    ]
