"""What holds for arguments beyond their schema: which values the messages must contain.

Values may be grounded in the last message of the user, or in all messages of users and results of
tools. What a model itself wrote never counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.grammar.json_schema import GroundingSource
from callmemaybe.grammar.json_schema.grounding import LEVELS, uses_grounding
from callmemaybe.tools import ToolSpec
from callmemaybe.values import Now
from callmemaybe.wire.output_grammar import OutputSpec

#: Which messages an argument may come from: the last of the user, or the whole conversation.
PLACES = ("request", "conversation")
_ROLES = {"request": frozenset(("user",)), "conversation": frozenset(("user", "tool"))}


@dataclass(frozen=True, slots=True)
class GroundingConfig:
    """What holds for the arguments of every call.

    ``ground`` limits strings without pattern or format, and numbers, to parts of the messages: "off" (or
    None), "prompt" or "prompt-or-free" (see :mod:`grammar.schema.ground`); a parameter's own ``x-ground``
    takes precedence. ``ground_in`` says which messages: "request" (the last message of a user) or
    "conversation" (all messages of users, and results of tools).

    ``read_values`` concerns models too small to compute, the embedded one (:attr:`Format.reads_values`): dates, times,
    lengths of time and addresses may only be what the last message of the user says (:mod:`callmemaybe.values`), numbers that it says in
    words are written as it says them, and a function that requires what it does not say is not called. ``now`` is what
    "tomorrow" counts from (None: the clock, in local time).

    Raises InputError, naming the setting, for a value that is none of these.
    """

    ground: str | None = None
    ground_in: str = "request"
    read_values: bool = True
    now: Now | None = None

    def __post_init__(self) -> None:
        if self.ground == "off":
            object.__setattr__(self, "ground", None)
        if self.ground is not None:
            _check(self.ground, ("off", *LEVELS), "ground")
        _check(self.ground_in, PLACES, "ground_in")
        if not isinstance(self.now, Now | None):
            raise InputError(f"a datetime is needed, not {self.now!r}", where="now")

    def depends_on_request(self, tools: Sequence[ToolSpec], answer: Any = None) -> bool:
        """Whether the grammar depends on the messages."""
        if self.ground is not None and tools:
            return True
        return uses_grounding(answer) or any(uses_grounding(tool.parameters) for tool in tools)

    def without_request(self, spec: OutputSpec) -> OutputSpec:
        """Return the spec as far as all requests share it; the text to ground in is unknown."""
        return replace(spec, ground=GroundingSource("", self.ground, is_known=False))

    def for_messages(self, spec: OutputSpec, messages: Sequence[Mapping[str, Any]]) -> OutputSpec:
        """Return the spec for these messages."""
        roles = _ROLES[self.ground_in]
        texts = [str(one.get("content") or "") for one in messages if one.get("role") in roles]
        grounds = tuple(texts[-1:] if self.ground_in == "request" else texts)
        return replace(spec, ground=GroundingSource(grounds, self.ground))


def _check(value: str, known: Mapping[str, int] | Sequence[str], where: str) -> None:
    if value not in known:
        names = " or ".join(known)
        raise InputError(f"there is no {value!r} here", where=where, hint=f"use {names}")
