"""What is wrong with a request that has not the shape it should: one mistake, told by its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from callmemaybe.server.http_errors import Problem, unsupported

#: The longest type that is repeated in an error.
_LONGEST_TYPE = 64
#: What to do about an item that is of a type which is not done here.
_INSTEAD = {
    "item_reference": "nothing is stored, so send the item itself (clients do where they set "
    "'store' to false)",
    "reasoning": "thoughts are not read, so leave the item out",
}
#: What asks for something to be kept between requests, and what to do instead.
_STORES = {
    "background": "answers in the request itself: leave 'background' out",
    "conversation": "stores nothing: send the earlier turns instead of 'conversation'",
    "previous_response_id": "stores nothing: send the earlier turns in 'input' instead of "
    "'previous_response_id'",
    "store": "stores nothing: leave 'store' out, or set it to false",
}

Place = tuple[int | str, ...]


def not_done(param: str) -> Problem:
    """Return the refusal of a parameter that is known and not done."""
    return unsupported(
        param, f"This server {_STORES.get(param, f'does not do {param!r}; leave it out')}."
    )


def mistake_of(error: ValidationError, data: Any) -> Problem:
    """Return the first mistake: of a union, that of the member the data got farthest into.

    A member whose ``type`` is another than the data's was not meant, and what it says is left out.
    """
    mistakes = _meant(error.errors(include_url=False), data)
    paths = [_path(one["loc"], data) for one in mistakes]
    depth = max(map(len, paths))
    at = next(index for index, path in enumerate(paths) if len(path) == depth)
    # An unknown member is the mistake, whatever else is; a wrong value rather than a wrong type,
    # which only says that it is not the other member of a union.
    for index, one in enumerate(mistakes):
        if len(paths[index]) == depth and not one["type"].endswith("_type"):
            at = index
            if one["type"] == "extra_forbidden":
                break
    kind, path = mistakes[at]["type"], paths[at]
    param = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")
    if kind == "extra_forbidden":
        return Problem(400, f"Unknown parameter: {param!r}.", param=param, code="unknown_parameter")
    if kind == "missing":
        return Problem(
            400,
            f"Missing required parameter: {param!r}.",
            param=param,
            code="missing_required_parameter",
        )
    if kind == "none_required":
        return not_done(param)
    code = "invalid_type" if kind.endswith("_type") else "invalid_value"
    if kind == "literal_error" and path[-1] == "type":
        here = [one for one, where in zip(mistakes, paths, strict=True) if where == path]
        said = _of_no_type(here, data, path)
    else:
        said = mistakes[at]["msg"]
    return Problem(400, f"Invalid value for {param!r}: {said}.", param=param, code=code)


def _of_no_type(mistakes: Sequence[Mapping[str, Any]], data: Any, path: Sequence[int | str]) -> str:
    """Say of what types something may be that is of none of them, and what to do instead."""
    known = [one["ctx"]["expected"] for one in mistakes if one["type"] == "literal_error"]
    for step in path:
        data = data[step]
    name = repr(data) if isinstance(data, str) and len(data) <= _LONGEST_TYPE else "that"
    instead = _INSTEAD.get(data) if isinstance(data, str) else None
    return f"{name} is not done here, only {', '.join(dict.fromkeys(known))}" + (
        f"; {instead}" if instead else ""
    )


def _meant(mistakes: Sequence[Any], data: Any) -> list[Any]:
    """Return the mistakes without those of members that are of another ``type`` than the data.

    Where it is of no member's type, that is all that they say of it.
    """
    others: set[Place] = {
        one["loc"][:-1]
        for one in mistakes
        if one["loc"][-1] == "type" and one["type"] in ("literal_error", "missing")
    }
    found = []
    for one in mistakes:
        inside = [other for other in others if one["loc"][: len(other)] == other]
        is_type = any(one["loc"] == (*other, "type") for other in inside)
        if not inside or (
            is_type and not any(_has_meant(o, mistakes, others, data) for o in inside)
        ):
            found.append(one)
    return found


def _has_meant(other: Place, mistakes: Sequence[Any], others: set[Place], data: Any) -> bool:
    """Whether another member of the same union is of the data's type, and has mistakes inside."""
    if len(_path(other, data)) != len(_path(other[:-1], data)):
        return False  # the place itself: what stands there may be of one shape only
    size = len(other)
    return any(
        len(one["loc"]) > size
        and one["loc"][: size - 1] == other[:-1]
        and one["loc"][:size] not in others
        for one in mistakes
    )


def _path(loc: Sequence[int | str], data: Any) -> list[int | str]:
    """Return a location without the names of union members that pydantic puts between."""
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
    """Whether this is the name of a member rather than of a type."""
    return isinstance(place, str) and place.replace("_", "").isalnum() and place.islower()
