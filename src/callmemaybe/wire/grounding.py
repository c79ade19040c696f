"""What arguments may be beyond their schema: in which order keys come, and what must have been said.

Which text counts as said follows from the messages: the last thing a user said, or all that users said
and tools returned. What a model itself wrote never counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.grammar.schema import Ground
from callmemaybe.grammar.schema.front import ORDERS
from callmemaybe.grammar.schema.ground import LEVELS, asks
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.output_grammar import OutputSpec

#: Where an argument may come from: the request, or the whole conversation.
PLACES = ("request", "conversation")
_HEARD = {"request": frozenset(("user",)), "conversation": frozenset(("user", "tool"))}


@dataclass(frozen=True, slots=True)
class GroundingConfig:
    """What holds for the arguments of every call.

    ``order`` is the order of keys: "schema" (declared keys as the schema has them) or "any".
    ``ground`` limits strings without pattern or format, and numbers, to what was said: None,
    "prompt" or "prompt-or-free" (see :mod:`grammar.schema.ground`); a parameter's own ``x-ground``
    goes before it. ``ground_in`` says where: "request" (the last message of a user) or
    "conversation" (all messages of users, and results of tools).

    Raises InputError, naming the setting, for a value that is none of these.
    """

    order: str = "schema"
    ground: str | None = None
    ground_in: str = "request"

    def __post_init__(self) -> None:
        _check(self.order, ORDERS, "order")
        if self.ground is not None:
            _check(self.ground, LEVELS, "ground")
        _check(self.ground_in, PLACES, "ground_in")

    def asked(self, tools: Sequence[ToolSpec], answer: Any = None) -> bool:
        """Whether what may be written depends on what was said."""
        if self.ground is not None and tools:
            return True
        return asks(answer) or any(asks(tool.parameters) for tool in tools)

    def shared(self, wish: OutputSpec) -> OutputSpec:
        """Return a wish as far as all requests share it; what will be said counts as unknown."""
        return replace(wish, order=self.order, ground=Ground("", self.ground, is_known=False))

    def of(self, wish: OutputSpec, messages: Sequence[Mapping[str, Any]]) -> OutputSpec:
        """Return a wish as it is once the messages are known."""
        heard = _HEARD[self.ground_in]
        texts = [str(one.get("content") or "") for one in messages if one.get("role") in heard]
        said = tuple(texts[-1:] if self.ground_in == "request" else texts)
        return replace(wish, order=self.order, ground=Ground(said, self.ground))


def _check(value: str, known: Mapping[str, int] | Sequence[str], where: str) -> None:
    if value not in known:
        names = " or ".join(known)
        raise InputError(f"there is no {value!r} here", where=where, hint=f"use {names}")
