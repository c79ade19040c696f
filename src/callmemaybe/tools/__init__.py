"""Tools, calls and results, and how Python functions and OpenAPI operations become tools.

The problem: a model reads JSON Schemas and writes JSON, while an application has functions with types
and docstrings. The data are three frozen values: :class:`ToolSpec` (name, description, schema of the
arguments), :class:`ToolCall` (name, arguments as the JSON text that was written, id) and
:class:`ToolResult`. :class:`Tool` joins a ToolSpec with the function and with what must be known to run it
safely: its :class:`Effect`, resources, limits and secrets.

A :class:`Tool` is made by :func:`tool` (signature and docstring -> pydantic model -> JSON Schema; the same
model converts the arguments back) or from an OpenAPI document; :func:`tools_from` takes modules, objects,
documents and MCP connections. A type that JSON Schema cannot express is refused at declaration, not at
the first call. Events of a turn (``CallStarted``, ``ArgumentsDelta``, ...) are declared here as well, below all
rooms that use them.

This room knows no model, grammar, token or store, and owns no clock, file, thread or socket: it runs
nothing. The gateway does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from callmemaybe.errors import NotExecuted, TransientError
from callmemaybe.tools.collect import ToolLike, tool_spec, tool_specs, tools_from
from callmemaybe.tools.events import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    StreamEvent,
    TextDelta,
    ThoughtDelta,
)
from callmemaybe.tools.references import (
    add_reference_options,
    references,
    references_as_pointers,
    resolve_references,
)
from callmemaybe.tools.spec import (
    Effect,
    ToolCall,
    ToolResult,
    ToolSpec,
    check_distinct,
    check_name,
)

if TYPE_CHECKING:
    from callmemaybe.tools.declare import (
        Context,
        Mode,
        ProcessLimits,
        Tool,
        Transaction,
        make_tool,
        tool,
        tool_without_gateway,
    )

__all__ = [
    "ArgumentsDelta",
    "CallEnded",
    "CallStarted",
    "Context",
    "Effect",
    "Mode",
    "NotExecuted",
    "ProcessLimits",
    "StreamEvent",
    "TextDelta",
    "ThoughtDelta",
    "Tool",
    "ToolCall",
    "ToolLike",
    "ToolResult",
    "ToolSpec",
    "Transaction",
    "TransientError",
    "add_reference_options",
    "check_distinct",
    "check_name",
    "make_tool",
    "references",
    "references_as_pointers",
    "resolve_references",
    "tool",
    "tool_spec",
    "tool_specs",
    "tool_without_gateway",
    "tools_from",
]

#: What needs pydantic is imported when it is asked for: most commands never do.
_LATE = {
    "Context": "declare",
    "Mode": "declare",
    "ProcessLimits": "declare",
    "Tool": "declare",
    "Transaction": "declare",
    "make_tool": "declare",
    "tool_without_gateway": "declare",
    "tool": "declare",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"{__name__}.{_LATE[name]}"), name)
    globals()[name] = value
    return value
