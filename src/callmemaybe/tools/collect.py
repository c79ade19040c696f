"""Finds the tools in what an application has: modules, objects, functions, OpenAPI documents."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import ModuleType
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.tools.declare import Tool, make_tool
from callmemaybe.tools.openapi import Transport, tools_from_openapi


def tools_from(source: Any, *, transport: Transport | None = None) -> list[Tool]:
    """Return the tools of ``source``, in the order they are defined there.

    A module or object: what was declared with ``@tool``, or, where nothing was, its own public
    functions or methods (undeclared effects count as `once`). An OpenAPI 3 document: its operations,
    which ``transport`` sends. An object with ``__tools__()``, such as an MCP connection: what that
    returns. A function: itself. A list of any of these: all of them.
    Raises InputError with the name of what cannot be a tool.
    """
    if isinstance(source, Tool):
        return [source]
    offered = getattr(source, "__tools__", None)
    if callable(offered) and not isinstance(source, type):
        return list(offered())
    if isinstance(source, Mapping):
        if "openapi" not in source:
            raise InputError("it is no OpenAPI 3 document: it has no `openapi`", where="tools")
        if transport is None:
            raise InputError("an OpenAPI document needs a transport", where="transport")
        return tools_from_openapi(source, transport)
    if isinstance(source, ModuleType):
        return _from_module(source)
    if inspect.isfunction(source) or inspect.ismethod(source):
        return [make_tool(source)]
    if isinstance(source, Iterable) and not isinstance(source, str | bytes):
        return [tool for part in source for tool in tools_from(part, transport=transport)]
    return _from_object(source)


def _from_module(module: ModuleType) -> list[Tool]:
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
    kind = type(source)
    names = [name for part in reversed(kind.__mro__) for name in vars(part)]
    public = [name for name in dict.fromkeys(names) if not name.startswith("_")]
    # To read a property may do anything; it is no method.
    held = {name: inspect.getattr_static(kind, name) for name in public}
    values = [
        getattr(source, name)
        for name, value in held.items()
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
