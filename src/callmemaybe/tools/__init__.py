"""Tools, calls of them and results, as pure values; and how a Python function becomes a tool.

Rules of this room: it owns no clock, file, thread or socket, and knows no model, grammar or store.
What a function's signature cannot say in JSON Schema is refused when the tool is declared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from callmemaybe.tools.effects import Effect
from callmemaybe.tools.events import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    StreamEvent,
    TextDelta,
    ThoughtDelta,
)
from callmemaybe.tools.offered import Offered, tool_of, tools_of
from callmemaybe.tools.references import pointed, references, referring, resolved
from callmemaybe.tools.spec import (
    ToolCall,
    ToolResult,
    ToolSpec,
    check_distinct,
    check_name,
)

if TYPE_CHECKING:
    from callmemaybe.tools.collect import tools_from
    from callmemaybe.tools.declare import (
        Context,
        Mode,
        NotExecuted,
        ProcessLimits,
        Tool,
        Transaction,
        TransientError,
        make_tool,
        plain_tool,
        tool,
    )

__all__ = [
    "ArgumentsDelta",
    "CallEnded",
    "CallStarted",
    "Context",
    "Effect",
    "Mode",
    "NotExecuted",
    "Offered",
    "ProcessLimits",
    "StreamEvent",
    "TextDelta",
    "ThoughtDelta",
    "Tool",
    "ToolCall",
    "ToolResult",
    "ToolSpec",
    "Transaction",
    "TransientError",
    "check_distinct",
    "check_name",
    "make_tool",
    "plain_tool",
    "pointed",
    "references",
    "referring",
    "resolved",
    "tool",
    "tool_of",
    "tools_from",
    "tools_of",
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
    "plain_tool": "declare",
    "tool": "declare",
    "tools_from": "collect",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"{__name__}.{_LATE[name]}"), name)
    globals()[name] = value
    return value
