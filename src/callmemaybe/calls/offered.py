"""What a tool may be given as, wherever a model is offered some."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from callmemaybe.calls.spec import ToolSpec
from callmemaybe.errors import InputError

#: What a tool may be given as: itself, its definition in JSON, or the Python function.
Offered = ToolSpec | Mapping[str, Any] | Callable[..., Any]


def tool_of(value: Offered) -> ToolSpec:
    """Return what a model gets to read of a tool. Raises InputError for what is none."""
    if isinstance(value, ToolSpec):
        return value
    if isinstance(value, type):
        raise InputError(
            "a class is no function", where=f"class {value.__qualname__}",
            hint="give a function that makes one of it",
        )  # fmt: skip
    if callable(value):
        from callmemaybe.calls.declare import spec_of  # which needs pydantic

        return spec_of(value)
    return ToolSpec.from_json(value)
