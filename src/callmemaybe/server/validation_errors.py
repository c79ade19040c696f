"""Turns pydantic's validation errors of a request into one error, with the path of the value at fault.

pydantic reports the errors of every member of a union. The one to show is of the member that the
request means: the one whose ``type`` it has, or else the one that it matches deepest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from callmemaybe.server.http_errors import ApiError, unsupported

#: Longer types are not repeated in an error.
_LONGEST_TYPE = 64
#: What to do about an item whose type is not supported.
_INSTEAD = {
    "item_reference": "nothing is stored, so send the item itself (clients do where they set "
    "'store' to false)",
    "reasoning": "thoughts are ignored, so leave the item out",
}
#: Parameters that ask for storage between requests, and what to do instead.
_STORES = {
    "background": "answers in the request itself: leave 'background' out",
    "conversation": "stores nothing: send the earlier turns instead of 'conversation'",
    "previous_response_id": "stores nothing: send the earlier turns in 'input' instead of "
    "'previous_response_id'",
    "store": "stores nothing: leave 'store' out, or set it to false",
}

Location = tuple[int | str, ...]


def unsupported_parameter(param: str) -> ApiError:
    """Return the error for a known parameter that is not supported."""
    return unsupported(
        param, f"This server {_STORES.get(param, f'does not support {param!r}; leave it out')}."
    )


def validation_error(error: ValidationError, data: Any) -> ApiError:
    """Return the first error; of a union, that of the member which the data matches deepest.

    Members with another ``type`` than the data are left out.
    """
    errors = _relevant(error.errors(include_url=False), data)
    paths = [_path(one["loc"], data) for one in errors]
    depth = max(map(len, paths))
    at = next(index for index, path in enumerate(paths) if len(path) == depth)
    # An unknown member comes first; then a wrong value; then a wrong type, which may only say that
    # the value is of another member of a union.
    for index, one in enumerate(errors):
        if len(paths[index]) == depth and not one["type"].endswith("_type"):
            at = index
            if one["type"] == "extra_forbidden":
                break
    kind, path = errors[at]["type"], paths[at]
    param = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")
    if kind == "extra_forbidden":
        return ApiError(
            400, f"Unknown parameter: {param!r}.", param=param, code="unknown_parameter"
        )
    if kind == "missing":
        return ApiError(
            400,
            f"Missing required parameter: {param!r}.",
            param=param,
            code="missing_required_parameter",
        )
    if kind == "none_required":
        return unsupported_parameter(param)
    code = "invalid_type" if kind.endswith("_type") else "invalid_value"
    if kind == "literal_error" and path[-1] == "type":
        type_errors = [one for one, where in zip(errors, paths, strict=True) if where == path]
        message = _unknown_type(type_errors, data, path)
    else:
        message = errors[at]["msg"]
    return ApiError(400, f"Invalid value for {param!r}: {message}.", param=param, code=code)


def _unknown_type(errors: Sequence[Mapping[str, Any]], data: Any, path: Sequence[int | str]) -> str:
    """Return the message for a value whose type is unknown: the known types, and what to do instead."""
    known = [one["ctx"]["expected"] for one in errors if one["type"] == "literal_error"]
    for step in path:
        data = data[step]
    name = repr(data) if isinstance(data, str) and len(data) <= _LONGEST_TYPE else "that"
    instead = _INSTEAD.get(data) if isinstance(data, str) else None
    return f"{name} is not supported, only {', '.join(dict.fromkeys(known))}" + (
        f"; {instead}" if instead else ""
    )


def _relevant(errors: Sequence[Any], data: Any) -> list[Any]:
    """Return the errors without those of members that have another ``type`` than the data.

    If no member has its type, the errors about the type remain.
    """
    others: set[Location] = {
        one["loc"][:-1]
        for one in errors
        if one["loc"][-1] == "type" and one["type"] in ("literal_error", "missing")
    }
    found = []
    for one in errors:
        inside = [other for other in others if one["loc"][: len(other)] == other]
        is_type = any(one["loc"] == (*other, "type") for other in inside)
        if not inside or (
            is_type and not any(_has_relevant(o, errors, others, data) for o in inside)
        ):
            found.append(one)
    return found


def _has_relevant(other: Location, errors: Sequence[Any], others: set[Location], data: Any) -> bool:
    """Whether another member of the same union has the data's type, and errors inside."""
    if len(_path(other, data)) != len(_path(other[:-1], data)):
        return False  # not a union
    size = len(other)
    return any(
        len(one["loc"]) > size
        and one["loc"][: size - 1] == other[:-1]
        and one["loc"][:size] not in others
        for one in errors
    )


def _path(loc: Sequence[int | str], data: Any) -> list[int | str]:
    """Return a location without the names of union members that pydantic inserts."""
    path: list[int | str] = []
    for index, place in enumerate(loc):
        if _holds(data, place):
            data = data[place]
        elif index < len(loc) - 1 or not isinstance(data, Mapping) or not _is_name(place):
            continue
        path.append(place)
    return path


def _holds(data: Any, place: int | str) -> bool:
    if isinstance(data, list):
        return isinstance(place, int) and place < len(data)
    return isinstance(data, Mapping) and place in data


def _is_name(place: int | str) -> bool:
    """Whether this is the name of a field rather than of a type."""
    return isinstance(place, str) and place.replace("_", "").isalnum() and place.islower()
