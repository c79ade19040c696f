"""The tools of one gateway, checked once: schema compiled, definition hashed, secrets known."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.gateway.keys import fingerprint
from callmemaybe.gateway.plan import Lock, merge_locks
from callmemaybe.jsonio import join_pointer
from callmemaybe.tools import ToolSpec, check_distinct
from callmemaybe.tools.declare import Mode, Tool
from callmemaybe.tools.schemas import validator_for

SecretSource = Mapping[str, str] | Callable[[str], str]


@dataclass
class RegisteredTool:
    """One tool, ready to be called."""

    tool: Tool
    definition: str
    """SHA-256 of everything that the model and the gateway know about the tool."""
    validator: Any

    @property
    def spec(self) -> ToolSpec:
        """The tool's name, description and schemas for the model."""
        return self.tool.spec

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Validate JSON arguments and return them as the function's own types.

        Raises InputError with a JSON pointer if they do not match the schema.
        """
        error = self.validator.first_error(arguments)
        if error is not None:
            pointer = join_pointer(error.instance_path)
            raise InputError(error.message[:500], where=pointer or "/", hint=_expected(error))
        return self.tool.bind(arguments)

    def order_locks(self, arguments: Mapping[str, Any] | None) -> tuple[Lock, ...]:
        """Return the locks that order a call in its turn; a tool that declares no resource uses everything.

        ``arguments`` is None while references are not resolved.
        """
        return _merged(self.tool.locks_for(arguments))

    def locks(self, arguments: Mapping[str, Any] | None, tenant: str, run: str) -> tuple[Lock, ...]:
        """Return the locks that a call holds while it runs.

        A write that declares no resource excludes the calls of its tool for the tenant, and the other such
        writes of its run. A read that declares none excludes nothing: what it reads is kept by its service.
        """
        if self.tool.declares_resources:
            return self.order_locks(arguments)
        if not self.tool.effect.writes:
            return ()
        return merge_locks([Lock(f"tool:{self.tool.name}/{tenant}"), Lock(f"run:{run}/{tenant}")])


def _merged(found: Sequence[tuple[str, bool]]) -> tuple[Lock, ...]:
    if len(found) == 1:
        return (Lock(*found[0]),)
    return merge_locks([Lock(name, exclusive) for name, exclusive in found])


def register_tools(tools: Iterable[Tool], secrets: SecretSource) -> dict[str, RegisteredTool]:
    """Check tools and return them by name; raises InputError that names the wrong declaration."""
    listed = list(tools)
    check_distinct([tool.spec for tool in listed], "tools")
    return {tool.name: _register(tool, secrets) for tool in listed}


def _register(tool: Tool, secrets: SecretSource) -> RegisteredTool:
    where = f"tool {tool.name}"
    if tool.unbound:
        raise InputError(
            "it is a method without its object", where=where, hint="use tools_from(the object)"
        )
    if tool.mode in {Mode.PROCESS, Mode.FRESH} and tool.location is None:
        # Not checked by `@tool`: while it runs, the module does not yet hold the function.
        raise InputError(
            "another process cannot import it: its module holds this very function under no name",
            where=where,
            hint="decorate it where it is defined, make it `async def`, or set timeout=None",
        )
    if isinstance(secrets, Mapping):
        for parameter, name in tool.secrets.items():
            if name not in secrets:
                raise InputError(f"no secret {name!r} was given", where=f"{where}, {parameter}")
    schema = dict(tool.spec.parameters)
    try:
        # The linear-time engine refuses patterns that need backtracking.
        validator = validator_for(schema, linear=True)
    except InputError as error:
        raise InputError(f"its schema cannot be enforced: {error.message}", where=where) from None
    definition = fingerprint(
        {
            "name": tool.name,
            "description": tool.spec.description,
            "parameters": schema,
            "returns": tool.spec.returns and dict(tool.spec.returns),
            "effect": tool.effect.value,
            "writes": list(tool.writes) if tool.writes is not None else None,
            "reads": list(tool.reads) if tool.reads is not None else None,
        }
    )
    return RegisteredTool(tool, definition, validator)


def available_secrets(
    source: Callable[[str], str], entries: Iterable[RegisteredTool]
) -> dict[str, str]:
    """Return the secrets of all tools that a lookup function provides.

    A function cannot list its secrets, so those that the tools declare are looked up. A failing lookup is
    skipped: a secret that one tool lacks must not lose the result of another.
    """
    found = {}
    for name in {name for entry in entries for name in entry.tool.secrets.values()}:
        with contextlib.suppress(Exception):
            found[name] = source(name)
    return found


def _expected(error: Any) -> str | None:
    """Return in a few words what the schema expects there."""
    kind = error.kind
    for name in ("types", "options", "expected_value", "limit", "pattern", "property", "format"):
        value = getattr(kind, name, None)
        if value is not None:
            return f"{type(kind).__name__.split('_')[-1].lower()}: {value}"[:200]
    return None
