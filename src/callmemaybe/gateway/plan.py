"""The order in which the calls of one turn may run: a DAG made from their locks and references.

Every edge points from a lower to a higher position, and a call takes all its locks at once and holds
none while it waits. So there is no cycle and no hold-and-wait, hence no deadlock. Pure.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.jsonio import dumps, escape_token, split_pointer

#: The resource name that conflicts with every other.
EVERYTHING = "*"


@dataclass(frozen=True, order=True)
class Lock:
    """A lock on a named resource: shared between readers, or exclusive."""

    resource: str
    exclusive: bool = True

    def conflicts(self, other: Lock) -> bool:
        """Whether two calls cannot hold both locks at once."""
        if not (self.exclusive or other.exclusive):
            return False
        return self.resource == other.resource or EVERYTHING in {self.resource, other.resource}


@dataclass(frozen=True)
class Reference:
    """An argument that is the result of an earlier call: ``{"$ref": "call id#/json/pointer"}``."""

    pointer: str
    """JSON pointer of the reference in the arguments."""
    source: int
    """Position of the earlier call in the turn."""
    path: str
    """JSON pointer into that call's result; empty for the whole result."""


@dataclass(frozen=True)
class PlanStep:
    """The edges into one call of the plan, as positions in the turn."""

    runs_after: tuple[int, ...]
    """Calls that must have ended before, with or without success (conflicting locks)."""
    needs: tuple[int, ...]
    """Calls whose results it uses; they must have succeeded."""
    references: tuple[Reference, ...]


def locks_to_json(locks: Sequence[Lock]) -> str:
    """Write locks as the ledger stores them: ``[[resource, exclusive], ...]``."""
    return dumps([[lock.resource, lock.exclusive] for lock in locks])


@functools.lru_cache(maxsize=4096)
def locks_from_json(text: str) -> tuple[Lock, ...]:
    """Read what :func:`locks_to_json` wrote."""
    return tuple(Lock(name, exclusive) for name, exclusive in json.loads(text))


def locks_conflict(left: Sequence[Lock], right: Sequence[Lock]) -> bool:
    """Whether two calls with these locks must not overlap."""
    return any(one.conflicts(other) for one in left for other in right)


def merge_locks(locks: Sequence[Lock]) -> tuple[Lock, ...]:
    """Return the locks sorted, each resource once; exclusive if any lock on it was exclusive."""
    strongest: dict[str, bool] = {}
    for lock in locks:
        strongest[lock.resource] = strongest.get(lock.resource, False) or lock.exclusive
    return tuple(Lock(name, exclusive) for name, exclusive in sorted(strongest.items()))


def find_references(arguments: Any, ids: Mapping[str, int], position: int) -> tuple[Reference, ...]:
    """Find the references in ``arguments``; ``ids`` maps the call ids of this turn to positions.

    A ``$ref`` that names no call (``{"$ref": "#/$defs/a"}``, as in a schema) is an ordinary argument.
    Raises InputError for an unknown call id, this call's own id, or that of a later call.
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


def plan_calls(
    locks: Sequence[Sequence[Lock]], refs: Sequence[Sequence[Reference]]
) -> tuple[PlanStep, ...]:
    """Return the plan of a turn: conflicting calls run by position, a reference after its source.

    ``locks`` and ``refs`` have one entry per call. Compares every pair of calls.
    """
    steps = []
    for position, mine in enumerate(locks):
        needs = {reference.source for reference in refs[position]}
        runs_after = {
            earlier
            for earlier in range(position)
            if earlier not in needs and locks_conflict(locks[earlier], mine)
        }
        steps.append(
            PlanStep(tuple(sorted(runs_after)), tuple(sorted(needs)), tuple(refs[position]))
        )
    return tuple(steps)


def resolve_references(
    arguments: Any, refs: Sequence[Reference], results: Mapping[int, Any]
) -> Any:
    """Return the arguments with each reference replaced by the value it points at.

    ``results`` maps positions to the results of those calls. Raises InputError if a result has no such
    part.
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
