"""What a tool may be given as, wherever a model is offered some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.tools.spec import ToolSpec

#: What a tool may be given as: itself, its definition in JSON, or the Python function.
Offered = ToolSpec | Mapping[str, Any] | Callable[..., Any]


def tools_of(values: Iterable[Offered]) -> tuple[ToolSpec, ...]:
    """Return what a model gets to read of each tool of a list.

    Raises InputError for what is no list of tools, and as :func:`tool_of` does, with the tool's place.
    """
    is_one = isinstance(values, Mapping | str | bytes)
    if is_one or not isinstance(values, Iterable):
        raise InputError(
            f"it must be a list of tools, not a value of type {type(values).__name__}", where="tools",
            hint="a single one stands in a list, too; texts and files are read first (json.load)",
        )  # fmt: skip
    return tuple([tool_of(value, f"tools/{index}") for index, value in enumerate(values)])


def tool_of(value: Offered, where: str = "") -> ToolSpec:
    """Return what a model gets to read of a tool; ``where`` it stands, for messages.

    Raises InputError for what is none.
    """
    if isinstance(value, ToolSpec):
        return value
    if isinstance(value, type):
        raise InputError(
            "a class is no function", where=f"class {value.__qualname__}",
            hint="give a function that makes one of it",
        )  # fmt: skip
    if callable(value):
        from callmemaybe.tools.declare import spec_of  # which needs pydantic

        return spec_of(value)
    return ToolSpec.from_json(value, where)
