"""In which order the calls of one turn may run: locks, references and the edges between them.

Every edge points from a lower to a higher position, and a call takes all its locks at once while
waiting with none: no cycle, no hold-and-wait, hence no deadlock. Pure.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.jsonio import dumps, escape_token, split_pointer

#: The resource that overlaps with every other.
EVERYTHING = "*"


@dataclass(frozen=True, order=True)
class Lock:
    """A claim on a resource by name; shared with other readers, or exclusive."""

    resource: str
    exclusive: bool = True

    def conflicts(self, other: Lock) -> bool:
        """Whether the two cannot be held at once by different calls."""
        if not (self.exclusive or other.exclusive):
            return False
        return self.resource == other.resource or EVERYTHING in {self.resource, other.resource}

    def __str__(self) -> str:
        return f"{self.resource}{'' if self.exclusive else ' (shared)'}"


@dataclass(frozen=True)
class Reference:
    """An argument that is the result of an earlier call: ``{"$ref": "call id#/json/pointer"}``."""

    pointer: str
    """Where in the arguments it stands."""
    source: int
    """The position of the earlier call."""
    path: str
    """The JSON pointer into its result; empty for all of it."""


@dataclass(frozen=True)
class Step:
    """A call's place in the plan: what it waits for."""

    after: tuple[int, ...]
    """Positions of calls that must be over, well or badly (program order)."""
    needs: tuple[int, ...]
    """Positions of calls whose results it uses; they must have succeeded."""
    references: tuple[Reference, ...]


def locks_as_json(locks: Sequence[Lock]) -> str:
    """Write locks as the ledger holds them: ``[[resource, exclusive], ...]``."""
    return dumps([[lock.resource, lock.exclusive] for lock in locks])


@functools.lru_cache(maxsize=4096)
def locks_of(text: str) -> tuple[Lock, ...]:
    """Read what locks_as_json() wrote."""
    return tuple(Lock(name, exclusive) for name, exclusive in json.loads(text))


def conflict(left: Sequence[Lock], right: Sequence[Lock]) -> bool:
    """Whether two calls with these locks must not overlap."""
    return any(one.conflicts(other) for one in left for other in right)


def merged(locks: Sequence[Lock]) -> tuple[Lock, ...]:
    """Return the locks sorted, each resource once, exclusive where anybody asked for that."""
    strongest: dict[str, bool] = {}
    for lock in locks:
        strongest[lock.resource] = strongest.get(lock.resource, False) or lock.exclusive
    return tuple(Lock(name, exclusive) for name, exclusive in sorted(strongest.items()))


def references(arguments: Any, ids: Mapping[str, int], position: int) -> tuple[Reference, ...]:
    """Find the references in ``arguments``; ``ids`` maps call ids of this turn to positions.

    What names no call at all (``{"$ref": "#/$defs/a"}``, as in a schema) is an argument like any other.
    Raises InputError for a reference to no call, to this one or to a later one.
    """
    found = []
    for pointer, target in _targets(arguments, ""):
        name, _, path = target.partition("#")
        if not name:
            continue
        source = ids.get(name)
        if source is None or source >= position:
            raise InputError(
                f"{name!r} is not the id of an earlier call of this turn", where=pointer or "/"
            )
        if path and not path.startswith("/"):
            raise InputError(f"{path!r} is not a JSON pointer", where=pointer or "/")
        found.append(Reference(pointer, source, path))
    return tuple(found)


def plan(locks: Sequence[Sequence[Lock]], refs: Sequence[Sequence[Reference]]) -> tuple[Step, ...]:
    """Order calls: conflicting ones by position, users of a result after its source."""
    steps = []
    for position, mine in enumerate(locks):
        needs = {reference.source for reference in refs[position]}
        after = {
            earlier
            for earlier in range(position)
            if earlier not in needs and conflict(locks[earlier], mine)
        }
        steps.append(Step(tuple(sorted(after)), tuple(sorted(needs)), tuple(refs[position])))
    return tuple(steps)


def resolve(arguments: Any, refs: Sequence[Reference], results: Mapping[int, Any]) -> Any:
    """Return the arguments with each reference replaced by what it points at.

    Raises InputError where a result has no such part.
    """
    by_pointer = {reference.pointer: reference for reference in refs}

    def replaced(value: Any, pointer: str) -> Any:
        reference = by_pointer.get(pointer)
        if reference is not None:
            return _at(results[reference.source], reference)
        if isinstance(value, dict):
            return {key: replaced(inner, _join(pointer, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [replaced(inner, f"{pointer}/{index}") for index, inner in enumerate(value)]
        return value

    return replaced(arguments, "") if refs else arguments


def _targets(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(value.get("$ref"), str):
            yield pointer, value["$ref"]
            return
        for key, inner in value.items():
            yield from _targets(inner, _join(pointer, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _targets(inner, f"{pointer}/{index}")


def _join(pointer: str, key: str) -> str:
    return f"{pointer}/{escape_token(key)}"


def _at(value: Any, reference: Reference) -> Any:
    for name in split_pointer(reference.path):
        try:
            value = value[int(name)] if isinstance(value, list) else value[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise InputError(
                f"the result it refers to has nothing at {reference.path}", where=reference.pointer
            ) from None
    return value
