"""Tools, calls of them and results, as pure values; and how a Python function becomes a tool.

Rules of this room: it owns no clock, file, thread or socket, and knows no model, grammar or store.
What a function's signature cannot say in JSON Schema is refused when the tool is declared.
"""

from __future__ import annotations

from callmemaybe.calls.effects import Effect
from callmemaybe.calls.spec import (
    ToolCall,
    ToolResult,
    ToolSpec,
    check_distinct,
    check_name,
    pointer_token,
)

__all__ = [
    "Effect",
    "ToolCall",
    "ToolResult",
    "ToolSpec",
    "check_distinct",
    "check_name",
    "pointer_token",
]
