"""Tools, calls of them and results, as pure values; and how a Python function becomes a tool.

Rules of this room: it owns no clock, file, thread or socket, and knows no model, grammar or store.
What a function's signature cannot say in JSON Schema is refused when the tool is declared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
        NotExecuted,
        ProcessLimits,
        Tool,
        Transaction,
        TransientError,
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
    "NotExecuted": "declare",
    "ProcessLimits": "declare",
    "Tool": "declare",
    "Transaction": "declare",
    "TransientError": "declare",
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
