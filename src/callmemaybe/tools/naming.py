"""Names that mean the same to everybody: a function's in its module, a value's in a resource."""

from __future__ import annotations

import decimal
import inspect
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from types import FunctionType
from typing import Any

from pydantic_core import to_jsonable_python

_MOST_DIGITS = 400
_EXACT = decimal.Context(
    prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[]
)


def may_be_held(function: Callable[..., Any]) -> bool:
    """Whether the module of ``function`` can hold it: it is no closure, lambda or callable object."""
    name = getattr(function, "__qualname__", "<lambda>")
    return isinstance(inspect.unwrap(function), FunctionType) and "<" not in name


def held_as(function: Callable[..., Any], behind: Callable[[Any], Any]) -> str | None:
    """Return the name under which the module of ``function`` holds this very object, or None.

    The module is that of the innermost function: `functools.wraps` copies a name, and a decorator's
    file knows nothing of it. ``behind`` returns the function that a value of the module stands for.
    """
    if not may_be_held(function):
        return None
    names = inspect.unwrap(function).__globals__
    qualified = function.__qualname__
    first, *rest = qualified.split(".")
    found = names.get(first)
    for part in rest:
        found = vars(found).get(part) if isinstance(found, type) else None
    if behind(found) is function:
        return qualified
    # `name = tool(decorated(function))` leaves the function's own name to the undecorated one.
    return next((name for name, held in list(names.items()) if behind(held) is function), None)


def resource_part(value: Any) -> Any:
    """Return a value in the one spelling that names a resource: 1.0 is 1, as JSON Schema has it.

    What the function receives as an object is named by its JSON form. Raises ValueError or TypeError
    for what has none.
    """
    if isinstance(value, Enum):
        return resource_part(value.value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float | Decimal):
        return _number(value)
    if isinstance(value, Mapping):
        return {key: resource_part(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [resource_part(part) for part in value]
    if isinstance(value, set | frozenset):
        return sorted(map(resource_part, value), key=str)
    if hasattr(value, "astimezone") and (offset := value.utcoffset()) is not None:
        return f"{(value.replace(tzinfo=None) - offset).isoformat()}Z"
    return resource_part(to_jsonable_python(value, bytes_mode="base64"))


def _number(value: float | Decimal) -> int | float | Decimal:
    if not math.isfinite(value):
        return value
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    # A short text may stand for a number with more digits than there is memory.
    if exact.adjusted() < _MOST_DIGITS and exact == exact.to_integral_value():
        return int(exact)
    return value if isinstance(value, float) else value.normalize(_EXACT)
